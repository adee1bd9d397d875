//! The log with several heads, as a small abstract model.
//!
//! One chain of partials runs over all heads: each partial names its predecessor, in any
//! head, and is stored at the successor's place of one of the heads. The rules are those
//! of `docs/design/heads.md`, H1 to H7. The model was written before the code. It
//! explores every short sequence of appends, flushes, checkpoints, changes of the number
//! of heads and crashes, with every subset of surviving unflushed writes, and each rule
//! can be switched off to show its purpose.
//!
//! Files, the cleaner and the usage table are left out, because `docs/testing.md` proves
//! them on the real log. A group is one or two values; the state is the sequence of all
//! values; an image is the state at a boundary.

pub mod explore;
pub mod log;
pub mod medium;

pub use crate::abstract_log::Explored;
pub use explore::{Limits, explore};
pub use log::Missing;
