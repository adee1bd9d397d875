//! The bytes of what is logged, wherever they lie in memory.

pub mod content;
pub mod partial;
