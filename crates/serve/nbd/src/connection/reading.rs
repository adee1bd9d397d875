//! Replies to READ, in either form: chunks, or all at once.

use super::{Connection, PIECE_BYTES, Worker};
use crate::export::Failure;
use crate::protocol::{Errno, chunk};
use crate::receiver::{Ended, Received};
use crate::request::Request;
use crate::sender::send_all;

/// Maximum length of a read that is completely in memory before the first byte of a
/// simple reply is sent. After that byte, a failure can be reported only by closing the
/// connection.
const SIMPLE_BYTES_MAX: usize = 2 << 20;

impl Connection<'_> {
    pub(super) fn read(&self, request: &Request, whole: bool, worker: &mut Worker) -> Received<()> {
        let (cookie, length) = (request.cookie, request.length as usize);
        if !self.measures.structured {
            return match length <= SIMPLE_BYTES_MAX {
                true => {
                    self.read_simple(request, worker);
                    Ok(())
                }
                false => self.read_endless(request, worker),
            };
        }
        if whole && length > PIECE_BYTES {
            let why = "too long for one chunk";
            self.fail(cookie, true, &Failure::new(Errno::Overflow, why), worker);
            return Ok(());
        }
        if length == 0 {
            worker.out.chunk(cookie, chunk::NONE, true, 0);
        }
        let mut done = 0;
        while done < length {
            let step = (length - done).min(PIECE_BYTES);
            let (at, start) = (request.offset + done as u64, worker.out.bytes().len());
            done += step;
            let out = &mut worker.out;
            out.chunk(cookie, chunk::OFFSET_DATA, done == length, 8 + step);
            out.push(&at.to_be_bytes());
            if let Err(failure) = self.export.read(at, out.room(step)) {
                out.truncate(start);
                self.fail(cookie, true, &failure, worker);
                return Ok(());
            }
            if done < length {
                self.send(&mut worker.out)?;
            }
        }
        Ok(())
    }

    fn read_simple(&self, request: &Request, worker: &mut Worker) {
        let start = worker.out.bytes().len();
        worker.out.simple(request.cookie, 0);
        let room = worker.out.room(request.length as usize);
        if let Err(failure) = self.export.read(request.offset, room) {
            worker.out.truncate(start);
            self.fail(request.cookie, true, &failure, worker);
        }
    }

    /// Sends a simple reply that is too long for memory while it is read. A failure
    /// ends the connection, as the protocol requires.
    fn read_endless(&self, request: &Request, worker: &mut Worker) -> Received<()> {
        self.send(&mut worker.out)?;
        self.sending.whole(|| {
            let (mut at, end) = (request.offset, request.offset + u64::from(request.length));
            while at < end {
                if at == request.offset {
                    worker.out.simple(request.cookie, 0);
                }
                let step = (end - at).min(PIECE_BYTES as u64);
                let read = self.export.read(at, worker.out.room(step as usize));
                if let Err(failure) = read {
                    worker.out.clear();
                    if at == request.offset {
                        self.fail(request.cookie, true, &failure, worker);
                        return Ok(());
                    }
                    return Err(Ended::Broken(format!(
                        "lost its connection, as a long read failed after its beginning was \
                         sent: {}",
                        failure.why
                    )));
                }
                send_all(self.transport, worker.out.bytes())?;
                worker.out.clear();
                at += step;
            }
            Ok(())
        })
    }
}
