//! One environment for several processes.
//!
//! One process, the holder, has the environment open, and the others reach it through a
//! socket in its directory. The first process to open the environment is the holder. When
//! it exits, the next caller becomes the holder by an ordinary restart.
//! `docs/spec/records.md`, "Designs rejected", compares this with shared memory.
//!
//! | file | content |
//! |---|---|
//! | `wire` | requests and answers, and their bytes |
//! | `session` | runs requests in a transaction of the environment |
//! | `holder` | sessions of clients, and their end when a client exits |
//! | `client` | a connection to the holder |
//! | `shared` | decides whether this process is the holder or a client |
//! | `access` | transactions and tables for users |
//!
//! Invariants:
//! - Only the process that owns the environment's lock binds the socket, and replaces an
//!   older one. So a connection reaches the holder or fails.
//! - A transaction belongs to one connection. When that ends, the transaction is aborted,
//!   and its waits for locks end at once.
//! - No request is repeated: a client that loses the holder in a transaction gets an
//!   error.
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
