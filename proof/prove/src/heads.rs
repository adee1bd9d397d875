//! The log with several heads, as a small abstract model.
//!
//! One chain of partials runs over all heads: each partial names its
//! predecessor, whichever head that is in, and stands at the successor's place
//! of one of the heads. The rules are those of `docs/design/heads.md`, H1 to H7. This
//! model came before the code: it explores every short sequence of appends,
//! flushes, checkpoints, changes of the number of heads and crashes, with
//! every way in which unflushed writes may survive, and each rule can be
//! switched off to see what it is for.
//!
//! What is left out because `docs/testing.md` proves it of the real log: files,
//! the cleaner, the usage table. A group is one or two values; the state is the
//! sequence of all values; an image is the state at a boundary.

pub mod explore;
pub mod log;
pub mod medium;

pub use crate::abstract_log::Explored;
pub use explore::{Limits, explore};
pub use log::Missing;
