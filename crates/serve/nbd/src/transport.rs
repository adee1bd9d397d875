//! The seam under a connection: bytes in, bytes out, an end.
//!
//! Sockets in service, memory in tests and under the fuzzer.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt;

/// A stream of bytes in both directions, used by several threads.
pub trait Transport: Send + Sync {
    /// Fills a part of `buffer`; 0 when the peer sends no more.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` when nothing came in time; others when the
    /// connection broke.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends a part of the bytes.
    ///
    /// # Errors
    /// As [`Transport::receive`], when the peer takes nothing.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// How long to wait for each of the two from now on.
    ///
    /// # Errors
    /// When the system refuses.
    fn set_patience(&self, patience: Duration) -> io::Result<()>;

    /// Ends both directions at once; whoever waits is woken.
    fn cut(&self);

    /// Receives what has arrived, and no more.
    fn stop_receiving(&self);

    /// Who is at the other end, for people.
    fn peer(&self) -> String;
}

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// Over the network.
    Tcp(TcpStream),
    /// On this host.
    Unix(UnixStream),
}

/// Seconds after which the network is asked whether the peer is still there,
/// and between two questions; so many without an answer end the connection.
const KEEPALIVE_IDLE_S: u64 = 60;
const KEEPALIVE_BETWEEN_S: u64 = 15;
const KEEPALIVE_QUESTIONS: u32 = 4;

impl Socket {
    /// Sets what a fresh socket needs: no delay of small replies, and questions
    /// to a peer that is silent, as one that lost its power says nothing.
    ///
    /// # Errors
    /// When the system refuses.
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
        // Fails only if it is closed already.
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
        // Zero would mean for ever.
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
