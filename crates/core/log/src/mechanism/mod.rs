//! The cleaner's mechanism: emptying a segment, independent of its choice. The mount's
//! own cleaner and those of other processes choose segments and have them emptied
//! (`crate::cleaner`). So do the relocation of a place that cannot be written
//! (`crate::relocate`), and a checkpoint that needs space (`crate::checkpoint`).
//!
//! It consists of the four calls of the thesis (table 6-4):
//! [`Lfs::bmapv`](crate::Lfs::bmapv) determines which blocks are live,
//! [`Lfs::markv`](crate::Lfs::markv) appends copies of them, `segwait` is
//! [`Request::Wait`](crate::cleaner::wire::Request::Wait), which reports the state of
//! cleaning, and [`Lfs::segclean`](crate::Lfs::segclean) declares a segment done. A move
//! is applied only if the block is still where it was read when its copy is appended
//! (protocol rules 18 and 19). Index nodes and ifile blocks are not moved but *touched*:
//! the next checkpoint rewrites them. A segment becomes clean when two checkpoints have
//! found it empty (rule 20), or sooner if it contains data alone
//! (`docs/design/reuse.md`).
//!
//! | file | contents |
//! |---|---|
//! | `reading.rs`, `price.rs` | reading a segment, whole or in parts |
//! | `liveness.rs`, `recorded.rs` | its live blocks, and the blocks to which the newest image refers |
//! | `calls.rs`, `judge.rs` | the four calls, and judging a segment as a whole |
//! | `way.rs` | priority of users |

mod calls;
mod judge;
mod liveness;
mod price;
mod reading;
mod recorded;
mod way;

pub use calls::Found;
pub(crate) use calls::GROUP_BYTES;
pub(crate) use judge::judged_through;
pub(crate) use liveness::Life;
