//! The simulator of Seltzer 1992, chapter 4: five models of transaction
//! systems on one processor and ten disks, event by event.
//!
//! | module | what is in it |
//! |---|---|
//! | `parameters` | tables 4-1 and 4-2, the disks, the models of table 4-3, and what the chapter leaves open |
//! | `database` | a data file and its B-trees: pages, and which one is drawn |
//! | `operations` | what an operation locks, reads and changes, page by page |
//! | `locks` | shared and exclusive locks with queues, and who waits for whom |
//! | `pool` | the buffer pool: least recently used pages are evicted |
//! | `servers` | the processor and the disks: a queue each |
//! | `force` | group commit, and the sequential writes of a log |
//! | `warm` | the pool before a run |
//! | `engine` | transactions from event to event |
//! | `found` | what a run measured, checkpoint interval by checkpoint interval |
//! | `bounds` | what throughput must lie between, by formulas alone |
//!
//! `study/transactions.md` says what is assumed and why, and what was found.

mod bounds;
mod database;
mod engine;
mod force;
mod found;
mod locks;
mod operations;
mod parameters;
mod pool;
mod servers;
mod warm;

pub use bounds::{Bounds, bounds};
pub use engine::simulate;
pub use found::Found;
pub use parameters::{Assumptions, Locking, Model, Parameters, Service};

#[cfg(test)]
mod tests;
