//! Serves any [`varve_device::Device`] over the network block device protocol (fixed
//! newstyle), to any number of clients and connections.
//!
//! | module | contents |
//! |---|---|
//! | [`protocol`] | numbers and structures of the protocol |
//! | [`options`], [`request`] | parsing and checking what clients send, without I/O |
//! | `negotiate` | the handshake |
//! | `connection`, `receiver`, `sender`, `outbox`, `pace` | requests, replies, and the threads that serve them |
//! | [`export`], `flushes`, [`counters`] | a device as it is offered |
//! | [`session`](serve), [`server`] | one client; all clients |
//! | [`transport`] | the seam under a connection |
//! | [`ScratchDisk`] | a disk in memory, for many connections at once |
//!
//! The crate translates requests and decides nothing about storage. `docs/guide/nbd.md`
//! has its promises. A client that breaks the rules loses its connection, with one line
//! in the log; other clients are not affected.
//!
//! Invariants:
//! - No length, count or offset from a client is used before it was compared with a
//!   limit.
//! - No thread waits for a client while it has what another client needs.
//! - No `unsafe`.

mod connection;
pub mod counters;
mod ending;
pub mod export;
mod flushes;
mod negotiate;
pub mod options;
mod outbox;
mod pace;
pub mod protocol;
mod receiver;
pub mod request;
mod scratch;
mod sender;
pub mod server;
mod session;
pub mod transport;

pub use counters::Counters;
pub use ending::Ending;
pub use export::{Export, ExportOptions};
pub use scratch::ScratchDisk;
pub use server::{Listener, Server, Stopper};
pub use session::{Limits, serve};
pub use transport::{Socket, Transport};
