//! The lock manager of transactions: hierarchical two-phase locks.
//!
//! An object is whatever a key names: a volume, a file, a block, a record. Who locks
//! a part of something large says so on the whole first ([`Mode::IntentionRead`],
//! [`Mode::IntentionWrite`]), so that he meets those who lock it at one stroke. A
//! lock may also cover a span of its object only: subpage locks.
//!
//! ```
//! use std::sync::Arc;
//! use varve_device::HostClock;
//! use varve_locks::{LockTable, Mode};
//!
//! let table = LockTable::new(Arc::new(HostClock::default()));
//! let (a, b) = (table.begin(None), table.begin(None));
//! table.lock(a, &"file", Mode::IntentionWrite, None)?;
//! table.lock(a, &"block", Mode::Write, None)?;
//! assert!(table.try_lock(b, &"file", Mode::IntentionRead));
//! assert!(!table.try_lock(b, &"block", Mode::Read));
//! table.end(a); // committed or aborted
//! assert!(table.try_lock(b, &"block", Mode::Read));
//! # Ok::<(), varve_locks::LockError>(())
//! ```
//!
//! | module | its idea |
//! |---|---|
//! | `mode`, `span` | which locks go together |
//! | `owner`, `families` | transactions, nested ones, and branches of them |
//! | `holds` | what is held on one object |
//! | `request` | one that waits |
//! | `object` | who waits for whom, and why nobody starves |
//! | `objects`, `owners` | locks chained by object and by owner |
//! | `waits`, `deadlock` | all who wait, and circles of them |
//! | `table` | the whole |
//!
//! Invariants:
//! - No two owners hold what conflicts, unless one is nested in the other.
//! - A request waits if it conflicts with a lock, or with an earlier request that does
//!   not itself wait for the requester; for nothing else. Nobody starves.
//! - A request that fails leaves nothing behind.
//! - Every deadlock ends: one of it gets [`LockError::Deadlock`], the cheapest.
//!
//! Sources: Gray, Lorie, Putzolu, Traiger 1976 (modes); Moss 1981 (nested
//! transactions); Seltzer 1992, §5.1.4.3 and §5.2.1.1 (chains by object and by
//! transaction).

#![forbid(unsafe_code)]

mod deadlock;
mod error;
mod families;
mod holds;
mod mode;
mod object;
mod objects;
mod owner;
mod owners;
mod places;
mod request;
mod span;
mod table;
mod waits;

pub use error::LockError;
pub use mode::Mode;
pub use objects::Key;
pub use owner::OwnerId;
pub use table::{Detection, Held, LockTable, LockTableOptions, Statistics, Waiting};
