//! Tests of transactions.
//!
//! | module | its part |
//! |---|---|
//! | [`history`] | the record of what transactions did and saw |
//! | `reads`, `checker` | the check that a record keeps the promise of its isolation level |
//! | `objects` | lists of numbers in files, names and attributes |
//! | [`interleaved`] | transactions in threads, recorded and judged |
//! | [`mix`] | changes for crashes and full volumes, and the expected trees |
//! | [`crashes`] | a power cut at every write of commits |
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

/// A file system tree: a mounted one, or the private one of a transaction.
pub type Fs = FileSystem<Lfs>;
type Txn = Transaction<Lfs>;

/// Calls `work` with a bug planted on this thread, if `bug` names one and the build
/// contains planted bugs.
fn as_planted<T>(bug: Option<Planted>, work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "planted")]
    if let Some(bug) = bug {
        return varve_fs::planted::with(bug, work);
    }
    let _ = bug;
    work()
}
