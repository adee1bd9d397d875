//! Serves any [`varve_device::Device`] over the network block device protocol
//! (fixed newstyle), to any number of clients and connections.
//!
//! | module | its part |
//! |---|---|
//! | [`protocol`] | the wire's numbers and structures |
//! | [`options`], [`request`] | what clients send, judged; pure |
//! | `negotiate` | the handshake |
//! | `connection`, `receiver`, `sender`, `outbox`, `pace` | requests in, replies out, and who does it |
//! | [`export`], `flushes`, [`counters`] | a device as it is offered |
//! | [`session`](serve), [`server`] | one client; all of them |
//! | [`transport`] | the seam under a connection |
//! | [`ScratchDisk`] | a disk in memory, for many at once |
//!
//! It translates and decides nothing about storage. `docs/guide/nbd.md` says what is
//! promised. A client that breaks the rules loses its connection, and that is
//! logged in a line; others notice nothing.
//!
//! Invariants:
//! - No length, count or offset from a client is used before it was held
//!   against a limit.
//! - No thread waits for a client while it holds what another client needs.
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
