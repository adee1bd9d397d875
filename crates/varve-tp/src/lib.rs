//! Transactions in user space: an embedded, transactional record store over ordinary
//! files.
//!
//! The user-level transaction system of Seltzer's thesis (§5.1) as a library: tables of
//! typed keys and values, changed by transactions that are atomic, serializable and
//! durable. `docs/tp.md` has the formats and the reasons.

#![forbid(unsafe_code)]

mod active;
mod archive;
mod buffer;
mod catalog;
mod change;
mod checkpoint;
mod checksum;
mod codec;
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

pub use codec::{FixedKey, Key, Value};
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
