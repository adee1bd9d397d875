//! What is in files: read, written, cut, reserved, copied.

mod copy;
mod fallocate;
pub(crate) mod held;
pub(crate) mod put;
mod read;
mod reaper;
mod seek;
mod spilled;
mod stretches;
pub(crate) mod truncate;
pub(crate) mod write;
