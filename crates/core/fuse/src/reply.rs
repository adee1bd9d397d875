//! Replies: results as bytes, in one reusable buffer per serving thread.

use varve_fs::InodeNo;
use zerocopy::{Immutable, IntoBytes};

/// A reply's body under construction.
#[derive(Default)]
pub struct Reply {
    /// Grows to the largest reply and keeps that size, so that a read does
    /// not clear its buffer first. Valid up to `len`.
    bytes: Vec<u8>,
    len: usize,
    /// Inodes the reply hands to the kernel, each retained once. If the reply
    /// cannot be delivered they must be released again.
    retained: Vec<InodeNo>,
    /// See [`Reply::stale_unheld`].
    stale_unheld: Option<u64>,
    /// See [`Reply::stale`].
    stale: Vec<u64>,
    /// See [`Reply::schedules_block_counts`].
    schedules_block_counts: bool,
}

impl Reply {
    /// An empty reply. Takes no memory until it is used.
    pub fn new() -> Self {
        Reply::default()
    }

    /// Empties the reply for the next request.
    pub fn clear(&mut self) {
        self.len = 0;
        self.retained.clear();
        self.stale_unheld = None;
        self.stale.clear();
        self.schedules_block_counts = false;
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Inodes to which the kernel counts a reference once the reply is delivered.
    pub fn retained(&self) -> &[InodeNo] {
        &self.retained
    }

    pub(crate) fn retain(&mut self, ino: InodeNo) {
        self.retained.push(ino);
    }

    /// The node whose attributes must be invalidated before the reply is sent, even if the
    /// reply is an error. No client holds its inode, so a thread that serves no requests calls
    /// [`crate::Adapter::invalidate_attributes`].
    pub fn stale_unheld(&self) -> Option<u64> {
        self.stale_unheld
    }

    pub(crate) fn mark_stale_unheld(&mut self, nodeid: u64) {
        self.stale_unheld = Some(nodeid);
    }

    /// Nodes whose attributes must be invalidated before the reply is sent, even if the reply
    /// is an error. The waiting client holds their inodes, so
    /// [`crate::Adapter::invalidate_attributes`] does not block.
    pub fn stale(&self) -> &[u64] {
        &self.stale
    }

    pub(crate) fn mark_stale(&mut self, nodeid: u64) {
        self.stale.push(nodeid);
    }

    /// True if [`crate::Adapter::invalidate_block_counts`] must be called
    /// [`crate::BLOCK_COUNT_LAG`] from now.
    pub fn schedules_block_counts(&self) -> bool {
        self.schedules_block_counts
    }

    pub(crate) fn schedule_block_counts(&mut self) {
        self.schedules_block_counts = true;
    }

    /// Appends a struct.
    pub(crate) fn put<T: IntoBytes + Immutable>(&mut self, value: &T) {
        self.put_bytes(value.as_bytes());
    }

    /// Appends bytes.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.space(bytes.len()).copy_from_slice(bytes);
        self.len = start + bytes.len();
    }

    /// The `count` bytes behind the body, with undefined content. [`Reply::extend`] adds them
    /// to the body.
    pub(crate) fn space(&mut self, count: usize) -> &mut [u8] {
        let end = self.len + count;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.len..end]
    }

    /// Adds `count` bytes that were filled in through [`Reply::space`] to the body.
    ///
    /// # Panics
    /// If fewer bytes were asked for.
    pub(crate) fn extend(&mut self, count: usize) {
        assert!(self.len + count <= self.bytes.len(), "extend without space");
        self.len += count;
    }

    /// Appends zeros up to a multiple of 8.
    pub(crate) fn pad(&mut self) {
        let padding = self.len.next_multiple_of(8) - self.len;
        self.put_bytes(&[0; 8][..padding]);
    }

    /// Bytes in the body.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
