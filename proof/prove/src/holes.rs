//! Blocks written into holes of used segments, as a small abstract model.
//!
//! A partial of the chain may describe a block that is stored in a hole of another
//! segment, together with a map of the live blocks there. The rules are those of
//! `docs/design/holes.md`, P1 to P7. The model was written before the code. From a
//! segment with holes it explores every short sequence of appends, plugs, flushes,
//! checkpoints and crashes, with every subset of surviving unflushed writes, and each
//! rule can be switched off to show its purpose.
//!
//! Several heads (`crate::heads`), files and the cleaner are left out. A block has one of
//! two names and one of two values; the state is the value of each name.

pub mod explore;
pub mod log;
pub mod medium;
pub mod recovery;

pub use crate::abstract_log::Explored;
pub use explore::{Limits, explore};
pub use log::Missing;
