//! From results to bytes: one reusable buffer per serving thread.

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
    /// See [`Reply::outdated`].
    outdated: Option<u64>,
    /// See [`Reply::amended`].
    amended: Vec<u64>,
    /// See [`Reply::tells_late`].
    tells_late: bool,
}

impl Reply {
    /// An empty reply. Takes no memory until it is used.
    pub fn new() -> Self {
        Reply::default()
    }

    /// Forgets the last reply.
    pub fn clear(&mut self) {
        self.len = 0;
        self.retained.clear();
        self.outdated = None;
        self.amended.clear();
        self.tells_late = false;
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Inodes the kernel counts a reference to once the reply is delivered.
    pub fn retained(&self) -> &[InodeNo] {
        &self.retained
    }

    pub(crate) fn retain(&mut self, ino: InodeNo) {
        self.retained.push(ino);
    }

    /// The node whose attributes the kernel is to forget before it gets the
    /// reply, be it an error: hand it to [`crate::Adapter::outdate`].
    pub fn outdated(&self) -> Option<u64> {
        self.outdated
    }

    pub(crate) fn outdate(&mut self, nodeid: u64) {
        self.outdated = Some(nodeid);
    }

    /// Nodes that whoever waits for the reply holds, and whose attributes the
    /// kernel is to forget before it gets the reply, be it an error: hand them to
    /// [`crate::Adapter::outdate`], which waits for nothing then.
    pub fn amended(&self) -> &[u64] {
        &self.amended
    }

    pub(crate) fn amend(&mut self, nodeid: u64) {
        self.amended.push(nodeid);
    }

    /// True if [`crate::Adapter::tell_late`] is to be called, [`crate::LATE`]
    /// from now.
    pub fn tells_late(&self) -> bool {
        self.tells_late
    }

    pub(crate) fn tell_late(&mut self) {
        self.tells_late = true;
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

    /// Room for `count` bytes behind the body, with undefined content. They
    /// join the body by [`Reply::extend`].
    pub(crate) fn space(&mut self, count: usize) -> &mut [u8] {
        let end = self.len + count;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.len..end]
    }

    /// Takes `count` bytes that were filled in through [`Reply::space`].
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
