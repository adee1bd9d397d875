//! Several processes on one environment.
//!
//! One process holds the environment, the others reach it through a socket in its
//! directory. The first process to open it is the holder. When the holder ends, the next
//! caller takes over by an ordinary restart. `docs/spec/records.md`, "Designs rejected",
//! compares this with shared memory.
//!
//! | file | its idea |
//! |---|---|
//! | `wire` | requests and answers, and their bytes |
//! | `session` | does requests in a transaction of the environment |
//! | `holder` | sessions for those who connect, and what becomes of them when they die |
//! | `client` | a connection to the holder |
//! | `shared` | which of both it is, here and now |
//! | `access` | transactions and tables, as users have them |
//!
//! Invariants:
//! - Only who has the environment's lock binds the socket, and puts it in the place of
//!   an older one. So whoever connects reaches the holder or nobody.
//! - A transaction belongs to one connection. When that ends, it is aborted; waits of it
//!   for locks end at once.
//! - Nothing is sent again: who loses the holder in a transaction is told.
//!
//! Source: Seltzer 1992, §5.1.4.4 (process manager), §5.1.4.3 (locks of processes).

mod access;
mod client;
mod holder;
mod session;
mod shared;
mod wire;

pub use access::{SharedRange, SharedRecords, SharedSavepoint, SharedTable, SharedTransaction};
pub use shared::{SharedEnvironment, is_shared};

pub(crate) use wire::look as look_at_frame;
