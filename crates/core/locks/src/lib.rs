//! The lock manager of transactions: hierarchical two-phase locks.
//!
//! A key names an object: a volume, a file, a block, a record. A transaction that locks
//! a part of a large object first takes an intention lock on the whole of it
//! ([`Mode::IntentionRead`], [`Mode::IntentionWrite`]), so that its lock conflicts with
//! locks of the whole object. A lock may also cover a span of its object only: subpage
//! locks.
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
//! | module | contents |
//! |---|---|
//! | `mode`, `span` | which locks are compatible |
//! | `owner`, `families` | transactions, nested ones, and branches of them |
//! | `holds` | the locks that are held on one object |
//! | `request` | a request that waits |
//! | `object` | the rule of waiting, and why no request starves |
//! | `objects`, `owners` | locks chained by object and by owner |
//! | `waits`, `deadlock` | all waiting requests, and cycles of them |
//! | `table` | the lock table |
//!
//! Invariants:
//! - Two owners hold conflicting locks only if one is nested in the other.
//! - A request waits if it conflicts with a lock, or with an earlier request that does
//!   not itself wait for the requester; for nothing else. No request starves.
//! - A request that fails leaves nothing behind.
//! - Every deadlock ends: its request with the lowest cost gets
//!   [`LockError::Deadlock`].
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
