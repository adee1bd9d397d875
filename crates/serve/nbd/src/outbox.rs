//! Replies of one thread, put together before they are sent.
//!
//! A reply is built where it will be sent from: the device reads straight into
//! it. Several small ones leave in one call.

use zerocopy::IntoBytes;

use crate::export::Failure;
use crate::protocol::{CHUNK_MAGIC, Chunk, SIMPLE_REPLY_MAGIC, SimpleReply, chunk};

/// Bytes that a thread keeps between requests.
const KEPT_BYTES: usize = 320 << 10;

/// Bytes to be sent.
pub(crate) struct Outbox {
    /// Initialised throughout, so that nothing is cleared for each reply.
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

    /// What is to be sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Forgets what follows `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.used = self.used.min(length);
    }

    /// It has been sent. The memory of a large reply is given back.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes.truncate(KEPT_BYTES);
            self.bytes.shrink_to_fit();
        }
    }

    /// Room for `length` bytes, which the caller fills.
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

    /// A simple reply without its bytes.
    pub(crate) fn simple(&mut self, cookie: u64, error: u32) {
        let reply = SimpleReply {
            magic: SIMPLE_REPLY_MAGIC.into(),
            error: error.into(),
            cookie: cookie.into(),
        };
        self.push(reply.as_bytes());
    }

    /// The head of a chunk with `length` bytes of payload.
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

    /// A failure, in the form that was agreed on.
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
