//! Blocks written into holes of used segments, as a small abstract model.
//!
//! A partial of the chain may describe a block that stands in a hole of another
//! segment, and beside it a map of what lives there. The rules are those of
//! `docs/design/holes.md`, P1 to P7. This model came before the code: from a segment
//! with holes it explores every short sequence of appends, plugs, flushes,
//! checkpoints and crashes, with every way in which unflushed writes may
//! survive, and each rule can be switched off to see what it is for.
//!
//! What is left out: several heads (`crate::heads`), files, the cleaner. A
//! block has one of two names and one of two values; the state is what each
//! name leads to.

pub mod explore;
pub mod log;
pub mod medium;
pub mod recovery;

pub use crate::abstract_log::Explored;
pub use explore::{Limits, explore};
pub use log::Missing;
