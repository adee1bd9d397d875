//! A connection to the holder.

use super::holder::{SOCKET, with_short_path};
use super::wire::{self, Answer, HELLO, Request};
use crate::error::{Error, Result};
use foldhash::HashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes of a frame's memory that is kept.
const KEPT: usize = 1 << 20;

/// One that is free, or has one transaction.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    /// Room for the length, then requests that wait to be sent.
    frame: Vec<u8>,
    /// Numbers of tables, by name and types; and whether it may make them.
    pub tables: HashMap<(String, String, bool), u32>,
}

impl Connection {
    /// Connects, and waits until the holder has opened the environment.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let mut stream = with_short_path(directory, SOCKET, |path| UnixStream::connect(path))?;
        stream.write_all(HELLO)?;
        let mut hello = [0; HELLO.len()];
        stream.read_exact(&mut hello)?;
        if hello != *HELLO {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Connection {
            stream: BufReader::new(stream),
            frame: vec![0; 4],
            tables: HashMap::default(),
        })
    }

    /// False if the holder is gone.
    pub(super) fn is_alive(&self) -> bool {
        let mut polled = [PollFd::new(self.stream.get_ref(), PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&now)).is_ok_and(|count| count == 0)
    }

    /// A request that needs no answer of its own: it goes with the next.
    pub(super) fn later(&mut self, request: &Request<'_>) {
        request.encode(&mut self.frame);
    }

    /// Bytes that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.frame.len() - 4
    }

    /// Forgets what waits.
    pub(super) fn forget(&mut self) {
        self.frame.truncate(4);
    }

    /// Sends what waits and this request, and waits for the answer.
    pub(super) fn call(&mut self, request: &Request<'_>) -> Result<Answer> {
        self.later(request);
        let committing = matches!(request, Request::Commit { .. });
        if self.frame.len() as u64 > u64::from(wire::LONGEST_FRAME) {
            self.forget();
            let bytes = wire::LONGEST_FRAME as usize;
            return Err(Error::ValueTooLong { bytes });
        }
        let sent = wire::send(self.stream.get_ref(), &mut self.frame);
        let received = sent.and_then(|()| wire::receive(&mut self.stream, &mut self.frame));
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
