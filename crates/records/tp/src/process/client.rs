//! A connection to the holder.

use super::holder::{SOCKET, with_short_path};
use super::wire::{self, Answer, HELLO, Request, STILL_HERE};
use crate::error::{Error, Result};
use foldhash::HashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest silence of a holder while a client connects.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Longest silence of a holder in a transaction, which is lost after that.
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes of a frame's buffer that are kept.
const KEPT: usize = 1 << 20;

/// A connection, idle or with one transaction.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    /// Space for the length, then requests to be sent.
    frame: Vec<u8>,
    /// Numbers of tables, by name and types.
    pub tables: HashMap<(String, String), u32>,
    /// Largest number of bytes of a frame.
    longest: usize,
}

impl Connection {
    /// Connects, and waits without limit until the holder has opened the environment.
    ///
    /// # Errors
    /// `WouldBlock` if the holder is silent for two seconds because it is stopped, and
    /// errors of the host.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let mut stream = with_short_path(directory, SOCKET, connected)?;
        stream.write_all(HELLO)?;
        let mut hello = [0; HELLO.len()];
        while hello[..4] == STILL_HERE {
            stream.read_exact(&mut hello[..4])?;
        }
        stream.read_exact(&mut hello[4..])?;
        if hello != *HELLO {
            return Err(io::ErrorKind::InvalidData.into());
        }
        set_socket_timeout(&stream, Timeout::Recv, Some(SILENCE))?;
        set_socket_timeout(&stream, Timeout::Send, Some(SILENCE))?;
        Ok(Connection {
            stream: BufReader::new(stream),
            frame: vec![0; 4],
            tables: HashMap::default(),
            longest: wire::LONGEST_FRAME as usize,
        })
    }

    /// Returns false if the holder exited.
    pub(super) fn is_alive(&self) -> bool {
        let mut polled = [PollFd::new(self.stream.get_ref(), PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&now)).is_ok_and(|count| count == 0)
    }

    /// Queues a request without an answer, which is sent with the next one. A request
    /// that is too long is refused, and the queued ones are kept.
    pub(super) fn later(&mut self, request: &Request<'_>) -> Result<()> {
        let before = self.frame.len();
        request.encode(&mut self.frame);
        if self.frame.len() > self.longest {
            let request = self.frame.split_off(before);
            if request.len() > self.longest - 4 {
                let bytes = request.len();
                return Err(Error::ValueTooLong { bytes });
            }
            self.exchange(false)?;
            self.frame.extend_from_slice(&request);
        }
        Ok(())
    }

    /// Returns the number of queued bytes.
    pub(super) fn waiting(&self) -> usize {
        self.frame.len() - 4
    }

    /// Discards the queued requests.
    pub(super) fn forget(&mut self) {
        self.frame.truncate(4);
    }

    /// Sends the queued requests and this one, and waits for the answer.
    pub(super) fn call(&mut self, request: &Request<'_>) -> Result<Answer> {
        self.later(request)?;
        self.exchange(matches!(request, Request::Commit { .. }))
    }

    fn exchange(&mut self, committing: bool) -> Result<Answer> {
        let sent = wire::send(self.stream.get_ref(), &mut self.frame);
        let received = sent.and_then(|()| {
            loop {
                let there = wire::receive(&mut self.stream, &mut self.frame)?;
                if !there || !self.frame.is_empty() {
                    return Ok(there);
                }
            }
        });
        let answer = match received {
            Ok(true) => wire::decode(&self.frame),
            Ok(false) | Err(_) => None,
        };
        self.frame.clear();
        self.frame.extend_from_slice(&[0; 4]);
        self.frame.shrink_to(KEPT);
        answer.unwrap_or(Err(Error::HolderDied { committing }))
    }
}

/// Returns a socket connected to a path. If the holder's queue of connections is full,
/// connecting waits for at most `PATIENCE`.
fn connected(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    for timeout in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, timeout, Some(PATIENCE))?;
    }
    connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_not_lost_by_what_is_too_long() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut connection = Connection {
            stream: BufReader::new(here),
            frame: vec![0; 4],
            tables: HashMap::default(),
            longest: 64,
        };
        // A holder that counts the requests of each frame.
        let holder = std::thread::spawn(move || {
            let (mut counts, mut frame) = (Vec::new(), Vec::new());
            while wire::receive(&there, &mut frame).unwrap() {
                let mut rest = &frame[..];
                counts.push(std::iter::from_fn(|| Request::parse(&mut rest)).count());
                let mut answer = vec![0; 4];
                wire::encode(&Ok(Answer::Done), &mut answer);
                wire::send(&there, &mut answer).unwrap();
            }
            counts
        });
        let put = |value| Request::Append { table: 0, value };
        connection.later(&put(&[1; 20])).unwrap();
        for _ in 0..2 {
            let refused = connection.call(&put(&[2; 80])).unwrap_err();
            assert!(matches!(refused, Error::ValueTooLong { .. }), "{refused}");
        }
        // Together the requests are too long, so the first is sent alone.
        connection.later(&put(&[3; 40])).unwrap();
        let committed = connection.call(&Request::Commit { durable: None });
        assert_eq!(committed.unwrap(), Answer::Done);
        drop(connection);
        assert_eq!(holder.join().unwrap(), [1, 2]);
    }
}
