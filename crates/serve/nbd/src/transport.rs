//! The seam under a connection: receiving bytes, sending bytes, closing.
//!
//! It is a socket in service, and memory in tests and under the fuzzer.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

/// A stream of bytes in both directions, used by several threads.
pub trait Transport: Send + Sync {
    /// Fills a part of `buffer`. Returns the number of bytes, 0 if the peer sends no
    /// more.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` if nothing was received in time; others if the
    /// connection broke.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends a part of the bytes. Returns their number.
    ///
    /// # Errors
    /// As [`Transport::receive`], if the peer receives nothing.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sets the time limit of each later call of the other two methods.
    ///
    /// # Errors
    /// If the system refuses.
    fn set_patience(&self, patience: Duration) -> io::Result<()>;

    /// Closes both directions at once, and wakes threads that wait.
    fn cut(&self);

    /// Lets bytes that have arrived be received, and no more.
    fn stop_receiving(&self);

    /// Returns the address of the peer, for people.
    fn peer(&self) -> String;
}

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// A connection over the network.
    Tcp(TcpStream),
    /// A connection on this host.
    Unix(UnixStream),
}

/// Seconds of silence after which the network probes the peer, and between two probes.
/// The given number of probes without an answer ends the connection.
const KEEPALIVE_IDLE_S: u64 = 60;
const KEEPALIVE_BETWEEN_S: u64 = 15;
const KEEPALIVE_QUESTIONS: u32 = 4;

impl Socket {
    /// Prepares a new socket: small replies are not delayed, and a silent peer is
    /// probed, because one that lost its power sends nothing.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn prepare(&self) -> io::Result<()> {
        let Socket::Tcp(stream) = self else {
            return Ok(());
        };
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(KEEPALIVE_IDLE_S))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(KEEPALIVE_BETWEEN_S))?;
        sockopt::set_tcp_keepcnt(stream, KEEPALIVE_QUESTIONS)?;
        Ok(())
    }

    fn shutdown(&self, how: Shutdown) {
        // This fails only if the socket is closed already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl Transport for Socket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&mut &*stream).read(buffer),
            Socket::Unix(stream) => (&mut &*stream).read(buffer),
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&mut &*stream).write(bytes),
            Socket::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        // Zero would mean no limit.
        let patience = Some(patience.max(Duration::from_millis(1)));
        match self {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(patience)?;
                stream.set_write_timeout(patience)
            }
        }
    }

    fn cut(&self) {
        self.shutdown(Shutdown::Both);
    }

    fn stop_receiving(&self) {
        self.shutdown(Shutdown::Read);
    }

    fn peer(&self) -> String {
        match self {
            Socket::Tcp(stream) => match stream.peer_addr() {
                Ok(address) => address.to_string(),
                Err(_) => "a client that is gone".to_owned(),
            },
            Socket::Unix(stream) => match sockopt::socket_peercred(stream.as_fd()) {
                Ok(who) => format!(
                    "process {} of user {}",
                    who.pid.as_raw_nonzero(),
                    who.uid.as_raw()
                ),
                Err(_) => "a local client".to_owned(),
            },
        }
    }
}
