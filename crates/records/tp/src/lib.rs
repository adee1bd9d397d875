//! Transactions in user space: an embedded, transactional record store over ordinary
//! files.
//!
//! The library is the user-level transaction system of Seltzer's thesis (§5.1): tables of
//! typed keys and values, changed by transactions that are atomic, serializable and
//! durable. Formats and reasons are in `docs/spec/records.md`.
//!
//! An [`Environment`] is a directory; [`Options`] create and open it. It contains tables,
//! each with a [`TableDefinition`] that states its name and types.
//!
//! ```
//! use varve_tp::{Error, Options, TableDefinition};
//!
//! const ACCOUNTS: TableDefinition<&str, i64> = TableDefinition::new("accounts");
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("bank");
//! let environment = Options::new().open(&path)?;
//! let transaction = environment.begin_write();
//! let accounts = transaction.open_table(ACCOUNTS)?;
//! accounts.insert("Ann", 100)?;
//! accounts.insert("Bob", 20)?;
//! transaction.commit()?;
//!
//! // A transaction that conflicts with another is repeated.
//! let pay = |amount: i64| loop {
//!     let transaction = environment.begin_write();
//!     let pay = || {
//!         let accounts = transaction.open_table(ACCOUNTS)?;
//!         let ann = accounts.get_for_update("Ann")?.unwrap_or(0);
//!         let bob = accounts.get_for_update("Bob")?.unwrap_or(0);
//!         accounts.insert("Ann", ann - amount)?;
//!         accounts.insert("Bob", bob + amount)?;
//!         Ok::<_, Error>(ann >= amount)
//!     };
//!     match pay() {
//!         Ok(true) => return transaction.commit(),
//!         Ok(false) => return transaction.abort(),
//!         Err(error) if error.is_conflict() => transaction.abort()?,
//!         Err(error) => return Err(error),
//!     }
//! };
//! let before = environment.begin_read();
//! pay(30)?;
//! pay(1_000)?;
//!
//! // A snapshot: whatever is committed meanwhile, it stays as it was.
//! assert_eq!(before.open_table(ACCOUNTS)?.get("Ann")?, Some(100));
//! drop(before);
//! environment.close()?;
//!
//! let environment = Options::new().create(false).open(&path)?;
//! let transaction = environment.begin_read();
//! let all: Result<Vec<_>, Error> = transaction.open_table(ACCOUNTS)?.iter()?.collect();
//! assert_eq!(all?, [("Ann".to_owned(), 70), ("Bob".to_owned(), 50)]);
//! # Ok::<(), Error>(())
//! ```

#![forbid(unsafe_code)]

mod active;
mod archive;
mod buffer;
mod bundle;
mod catalog;
mod change;
mod checkpoint;
mod checksum;
mod codec;
mod ended;
mod engine;
mod environment;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod home;
mod index;
mod log;
mod options;
mod page;
#[doc(hidden)]
pub mod planted;
mod process;
mod recovery;
mod registered;
mod routes;
mod ship;
pub mod storage;
mod table;
pub mod tpcb;
mod transaction;
mod tree;
mod types;
mod verify;
mod versions;

pub use codec::{FirstKey, Key, Value};
pub use environment::{Environment, Statistics};
pub use error::{Error, Result};
pub use log::GroupCommit;
pub use options::{Durability, Isolation, Options, Placement, TornPages};
pub use process::{
    SharedEnvironment, SharedRange, SharedRecords, SharedSavepoint, SharedTable, SharedTransaction,
    is_shared,
};
pub use recovery::RecoveryReport;
pub use registered::indexed_table;
pub use ship::{Applied, BackupReport, Standby, Until};
pub use table::{
    Index, IndexDefinition, IndexKeys, IndexMatches, IndexRange, NestedTransaction, Range,
    ReadTable, ReadTransaction, Records, RecordsDefinition, Row, Savepoint, Table, TableDefinition,
    WriteTransaction,
};
pub use verify::Verified;

use checksum::checksum;
