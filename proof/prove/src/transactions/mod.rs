//! Transactions, put to the proof.
//!
//! | module | its part |
//! |---|---|
//! | [`history`] | what transactions did and saw, as it was recorded |
//! | `reads`, `checker` | whether that is what their level promises |
//! | `objects` | lists of numbers in files, names and attributes |
//! | [`interleaved`] | transactions in threads, recorded and judged |
//! | [`mix`] | what crashes and full volumes are tried with: changes, and trees as they should be |
//! | [`crashes`] | the power cut at every write of commits |
//! | [`full`] | volumes filled to the last block |

mod checker;
pub mod crashes;
pub mod full;
pub mod history;
pub mod interleaved;
pub mod mix;
mod objects;
mod reads;
#[cfg(test)]
mod tests;

pub use checker::judge;

use varve_fs::planted::Planted;
use varve_fs::{FileSystem, Transaction};
use varve_lfs::Lfs;

/// A tree, mounted or private.
pub type Fs = FileSystem<Lfs>;
type Txn = Transaction<Lfs>;

/// Runs `work` with a bug planted on this thread, if there is one and the build has them.
fn as_planted<T>(bug: Option<Planted>, work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "planted")]
    if let Some(bug) = bug {
        return varve_fs::planted::with(bug, work);
    }
    let _ = bug;
    work()
}
