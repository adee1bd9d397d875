//! SEEK_DATA and SEEK_HOLE.
//!
//! The kernel asks without writing its dirty pages first, so where we know of
//! a hole there may be data that has not reached us, and a copy made by these
//! seeks would lose it. Without the write-back cache it is maps that make such
//! pages. Before a hole is reported, its pages are therefore
//! called in. That makes the kernel send WRITE and wait for it, so it happens
//! on a thread that others can do without. Ranges known to hold data are left alone: their
//! cached pages keep their worth.

use super::{Adapter, Later, Outcome, convert, inode_of};
use crate::errno::Errno;
use crate::protocol::{LseekIn, LseekOut};
use crate::reply::Reply;
use crate::request::Request;
use crate::transport::{Transport, invalidate_pages};
use varve_fs::{Error, InodeNo, Layout, Whence};

/// Holes called in before a search for a hole takes what it has found. Only
/// reached if somebody fills the file's holes in order while we look.
const ROUNDS_MAX: usize = 1024;

/// A seek that must see the kernel's dirty pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seek {
    offset: u64,
    whence: Whence,
}

impl<L: Layout> Adapter<L> {
    pub(super) fn seek(&self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Errno> {
        let asked: LseekIn = request.arguments().take()?;
        let whence = match i32::try_from(asked.whence) {
            Ok(libc::SEEK_DATA) => Whence::Data,
            Ok(libc::SEEK_HOLE) => Whence::Hole,
            _ => return Err(Errno::INVALID),
        };
        let offset = asked.offset;
        if !self.read_only {
            let ino = inode_of(request);
            let in_data = whence == Whence::Data
                && matches!(self.seek_in(ino, offset, whence), Ok(at) if at == offset);
            if !in_data {
                let (unique, nodeid) = (request.header.unique, request.header.nodeid);
                let seek = Seek { offset, whence };
                return Ok(Outcome::Later(Later::seek(unique, nodeid, seek)));
            }
        }
        let at = self.seek_in(inode_of(request), offset, whence)?;
        reply.put(&LseekOut { offset: at });
        Ok(Outcome::Reply)
    }

    /// Finishes a seek. Never call it on a thread that serves requests.
    pub(super) fn finish_seek(
        &self,
        nodeid: u64,
        seek: &Seek,
        transport: &dyn Transport,
        reply: &mut Reply,
    ) -> Outcome {
        let call_in = |from: u64, to: Option<u64>| {
            // ENOENT: the kernel holds no pages of it.
            let _ = invalidate_pages(transport, nodeid, from, to.map_or(0, |to| to - from));
        };
        let ino = convert::inode(nodeid);
        let found = match seek.whence {
            Whence::Data => self.find_data(ino, seek.offset, &call_in),
            Whence::Hole => self.find_hole(ino, seek.offset, &call_in),
        };
        match found {
            Ok(at) => {
                reply.put(&LseekOut { offset: at });
                Outcome::Reply
            }
            Err(error) => Outcome::Error(error.into()),
        }
    }

    fn find_data(
        &self,
        ino: InodeNo,
        offset: u64,
        call_in: &dyn Fn(u64, Option<u64>),
    ) -> varve_fs::Result<u64> {
        let first = self.next_data(ino, offset)?;
        if first != Some(offset) {
            call_in(offset, first);
        }
        self.seek_in(ino, offset, Whence::Data)
    }

    fn find_hole(
        &self,
        ino: InodeNo,
        offset: u64,
        call_in: &dyn Fn(u64, Option<u64>),
    ) -> varve_fs::Result<u64> {
        // Everything before `clean_to` has been called in.
        let mut clean_to = offset;
        for _ in 0..ROUNDS_MAX {
            let hole = match self.seek_in(ino, offset, Whence::Hole) {
                Err(Error::NoData) => offset,
                other => other?,
            };
            if hole < clean_to {
                break;
            }
            let end = self.next_data(ino, hole)?;
            call_in(hole, end);
            match end {
                Some(end) => clean_to = end,
                None => break,
            }
        }
        self.seek_in(ino, offset, Whence::Hole)
    }

    fn seek_in(&self, ino: InodeNo, offset: u64, whence: Whence) -> varve_fs::Result<u64> {
        self.fs.seek(ino, offset, whence)
    }

    /// The first data at or after `offset` that has reached us.
    fn next_data(&self, ino: InodeNo, offset: u64) -> varve_fs::Result<Option<u64>> {
        match self.seek_in(ino, offset, Whence::Data) {
            Ok(at) => Ok(Some(at)),
            Err(Error::NoData) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
