//! Receiving bytes from a client, many messages at a time.
//!
//! Invariants:
//! - No length that a client names is trusted before its bytes were received.
//! - Between messages a client may be silent without limit; inside a message it must
//!   continue within the transport's time limit.

use std::io::ErrorKind;
use std::time::Instant;

use crate::transport::Transport;

/// Number of bytes received at once: several requests, or the beginning of a write.
const BUFFER_BYTES: usize = 64 << 10;
/// Number of bytes received at once after a long write: another one is likely to
/// follow, and its bytes should not be copied from this buffer.
const HEADER_BYTES: usize = 512;
/// Number of bytes from which a write is long.
const LONG_BYTES: usize = 32 << 10;

/// The reason why no more messages are received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client has ended the connection properly, or the server has.
    Closed,
    /// The connection broke, or the client broke the rules.
    Broken(String),
}

pub(crate) type Received<T> = Result<T, Ended>;

/// The receiving end of a connection.
pub(crate) struct Receiver {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// True if the last write was long.
    long: bool,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Receiver {
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            long: false,
        }
    }

    /// Returns the bytes that were received and not yet taken.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Waits for a message of at least `N` bytes and takes `N` of them. While nothing
    /// of it was received, waits as long as `idle` returns true; with a deadline, until
    /// then.
    pub(crate) fn message<const N: usize>(
        &mut self,
        transport: &dyn Transport,
        idle: impl Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Received<[u8; N]> {
        const { assert!(N <= BUFFER_BYTES) };
        loop {
            if let Some(&message) = self.waiting().first_chunk() {
                self.start += N;
                return Ok(message);
            }
            self.more(transport, N, &idle, deadline)?;
        }
    }

    /// Fills `into` with the bytes that follow.
    pub(crate) fn fill(
        &mut self,
        transport: &dyn Transport,
        into: &mut [u8],
        deadline: Option<Instant>,
    ) -> Received<()> {
        self.long = into.len() >= LONG_BYTES;
        let here = self.waiting().len().min(into.len());
        into[..here].copy_from_slice(&self.waiting()[..here]);
        self.start += here;
        let mut filled = here;
        while filled < into.len() {
            wait_until(transport, deadline)?;
            match transport.receive(&mut into[filled..]) {
                Ok(0) => return Err(in_the_middle()),
                Ok(count) => filled += count,
                Err(error) => recover(error, deadline)?,
            }
        }
        Ok(())
    }

    /// Receives bytes into the buffer.
    fn more(
        &mut self,
        transport: &dyn Transport,
        wanted: usize,
        idle: &impl Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Received<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        wait_until(transport, deadline)?;
        let nothing = self.start == self.end;
        let most = match self.long && nothing {
            true => wanted.max(HEADER_BYTES),
            false => self.buffer.len(),
        };
        match transport.receive(&mut self.buffer[self.end..most]) {
            Ok(0) if nothing => Err(Ended::Closed),
            Ok(0) => Err(in_the_middle()),
            Ok(count) => {
                self.end += count;
                Ok(())
            }
            Err(error) if is_timeout(&error) && nothing && deadline.is_none() => {
                if idle() {
                    Ok(())
                } else {
                    Err(Ended::Closed)
                }
            }
            Err(error) => recover(error, deadline),
        }
    }
}

/// With a deadline, limits the time that the transport waits.
fn wait_until(transport: &dyn Transport, deadline: Option<Instant>) -> Received<()> {
    let Some(deadline) = deadline else {
        return Ok(());
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(too_late());
    }
    let set = transport.set_patience(left);
    set.map_err(|error| Ended::Broken(format!("its time cannot be limited: {error}")))
}

fn too_late() -> Ended {
    Ended::Broken("did not finish its handshake in time".into())
}

fn in_the_middle() -> Ended {
    Ended::Broken("went away in the middle of a message".into())
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns `Ok` if nothing was received, or the reason why the connection ends.
fn recover(error: std::io::Error, deadline: Option<Instant>) -> Received<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        _ if is_timeout(&error) && deadline.is_some() => Err(too_late()),
        _ if is_timeout(&error) => Err(Ended::Broken("stopped in the middle of a message".into())),
        _ => Err(Ended::Broken(format!("cannot be received from: {error}"))),
    }
}
