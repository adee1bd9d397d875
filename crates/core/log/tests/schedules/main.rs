//! The locks and threads of the product itself under a model checker.
//!
//! With the feature `shuttle` the file system and the log take their locks,
//! threads and channels from the checker, which runs one thread at a time and
//! chooses at each step which. So this is the real code, from the vnode table
//! to the device, under schedules that a host would produce once in years. A
//! deadlock, a lost wake-up and an endless loop are failures as well as a wrong
//! answer.
//!
//! ```sh
//! cargo test --release -p varve-lfs --features shuttle,planted --test schedules
//! ```

mod caches;
mod cleaner;
mod durability;
mod group_commit;
mod passages;
#[cfg(feature = "planted")]
mod planted;
mod stage;
mod strangers;
mod transactions;
mod truncate;
mod windows;
mod write_threads;
