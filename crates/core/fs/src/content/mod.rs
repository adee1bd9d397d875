//! The content of files: reading, writing, truncating, reserving, copying.

mod copy;
mod fallocate;
pub(crate) mod held;
pub(crate) mod put;
mod read;
mod reaper;
mod seek;
mod spilled;
pub(crate) mod stretches;
pub(crate) mod truncate;
pub(crate) mod write;
