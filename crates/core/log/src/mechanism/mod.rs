//! The cleaner's mechanism: how a segment is emptied, whichever it is and for whatever
//! reason. The mount's own cleaner and those of other processes choose segments and
//! have them emptied (`crate::cleaner`); so does who gives up a place that cannot be
//! written (`crate::relocate`), and a checkpoint that looks for room
//! (`crate::checkpoint`).
//!
//! It is the four calls of the thesis (table 6-4): [`Lfs::bmapv`](crate::Lfs::bmapv)
//! says which blocks are live, [`Lfs::markv`](crate::Lfs::markv) appends copies of them,
//! `segwait` is [`Request::Wait`](crate::cleaner::wire::Request::Wait), which says how
//! cleaning stands, and [`Lfs::segclean`](crate::Lfs::segclean) declares a segment done.
//! A move counts only if the block still is where it was read when its copy is appended
//! (protocol rules 18 and 19). Index nodes and ifile blocks are not moved but *touched*:
//! the next checkpoint rewrites them. A segment becomes clean when two checkpoints have
//! found it empty (rule 20), or sooner if it holds data alone (`docs/design/reuse.md`).
//!
//! | file | its part |
//! |---|---|
//! | `reading.rs`, `price.rs` | what a segment holds, read whole or in parts |
//! | `liveness.rs`, `recorded.rs` | what of it lives, and what the newest image leads to |
//! | `calls.rs`, `judge.rs` | the four calls, and a segment judged as a whole |
//! | `way.rs` | users go first |

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
