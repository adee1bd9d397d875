//! A server and a client that says exactly what it is told to.

mod crash;
mod handshake;
mod hostile;
mod long;
mod random;
mod support;
mod torn;
mod transmission;
