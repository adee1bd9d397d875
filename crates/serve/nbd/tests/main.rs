//! The server, tested by a client that sends exactly the bytes given.

mod crash;
mod handshake;
mod hostile;
mod long;
mod random;
mod support;
mod torn;
mod transmission;
