//! Locks, condition variables, atomics, channels and threads for all crates.
//!
//! They are `parking_lot`'s and the standard library's. Threads that take part in a
//! simulation ([`turns`]) let another thread run where they would block. With the
//! feature `shuttle`, which only tests of schedules turn on, they are a model
//! checker's, with the same interface. The checker runs one thread at a time and
//! decides at each of these calls which one, so that the product's own code runs under
//! schedules that a host would produce once in years. Code that never blocks and calls
//! none of these under its lock (the buffer pool, the memory device) may use
//! `parking_lot` directly.

/// True if this build takes its locks from a model checker. Such a build runs only
/// inside of the checker.
pub const MODEL: bool = cfg!(feature = "shuttle");

#[cfg(feature = "shuttle")]
mod model;
#[cfg(feature = "shuttle")]
pub use model::*;

#[cfg(not(feature = "shuttle"))]
mod native;
#[cfg(not(feature = "shuttle"))]
pub use native::*;

#[cfg(not(feature = "shuttle"))]
pub mod turns;

mod ranked;
pub use ranked::{Rank, Ranked, RankedMutex, RankedRwLock, assert_held_only};
