//! The replies of one thread, collected before they are sent.
//!
//! A reply is built in the buffer from which it is sent: the device reads directly into
//! it. Several small replies are sent by one call.

use zerocopy::IntoBytes;

use crate::export::Failure;
use crate::protocol::{CHUNK_MAGIC, Chunk, SIMPLE_REPLY_MAGIC, SimpleReply, chunk};

/// Number of bytes of memory that a thread keeps between requests.
const KEPT_BYTES: usize = 320 << 10;

/// A buffer of bytes to be sent.
pub(crate) struct Outbox {
    /// The memory, all of it initialised, so that it is not cleared for each reply.
    bytes: Vec<u8>,
    used: usize,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Outbox {
            bytes: vec![0; 4096],
            used: 0,
        }
    }

    /// Returns the bytes to be sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Removes the bytes behind the first `length` ones.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.used = self.used.min(length);
    }

    /// Empties the buffer after its bytes were sent, and frees the memory of a large
    /// reply.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes.truncate(KEPT_BYTES);
            self.bytes.shrink_to_fit();
        }
    }

    /// Appends `length` bytes, which the caller fills.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.used + length;
        if end > self.bytes.len() {
            self.bytes
                .resize(end.max(2 * self.bytes.len().min(KEPT_BYTES / 2)), 0);
        }
        let room = &mut self.bytes[self.used..end];
        self.used = end;
        room
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends a simple reply without its bytes.
    pub(crate) fn simple(&mut self, cookie: u64, error: u32) {
        let reply = SimpleReply {
            magic: SIMPLE_REPLY_MAGIC.into(),
            error: error.into(),
            cookie: cookie.into(),
        };
        self.push(reply.as_bytes());
    }

    /// Appends the header of a chunk with `length` bytes of payload.
    pub(crate) fn chunk(&mut self, cookie: u64, kind: u16, last: bool, length: usize) {
        let head = Chunk {
            magic: CHUNK_MAGIC.into(),
            flags: if last { chunk::FLAG_DONE } else { 0 }.into(),
            kind: kind.into(),
            cookie: cookie.into(),
            length: (length as u32).into(),
        };
        self.push(head.as_bytes());
    }

    /// Appends a failure, in the form that was agreed on.
    pub(crate) fn failure(&mut self, cookie: u64, structured: bool, failure: &Failure) {
        let errno = failure.errno as u32;
        if !structured {
            return self.simple(cookie, errno);
        }
        let why = failure.why.as_bytes();
        self.chunk(cookie, chunk::ERROR, true, 6 + why.len());
        self.push(&errno.to_be_bytes());
        self.push(&(why.len() as u16).to_be_bytes());
        self.push(why);
    }
}
