//! SEEK_DATA and SEEK_HOLE.
//!
//! The kernel sends LSEEK without writing its dirty pages first. Where the server has a hole the
//! kernel may have data, which a copy that follows these seeks would lose. (Without the
//! write-back cache, maps of files make such pages.) Therefore the kernel is made to write the
//! pages of a hole before the hole is reported. It sends WRITE and waits for the answer, so this
//! happens on a thread that does not serve requests. Pages of ranges that have data in the
//! server stay cached.

use super::later::{Later, Work};
use super::{Adapter, Outcome};
use crate::errno::Errno;
use crate::nodes;
use crate::protocol::{LseekIn, LseekOut};
use crate::reply::Reply;
use crate::request::Request;
use crate::transport::{Transport, invalidate_pages};
use varve_fs::{Error, InodeNo, Layout, Whence};

/// Number of holes whose pages are written before a search for a hole accepts its result. It is
/// reached only if a program fills the file's holes in order during the search.
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
        let whence = whence(asked.whence)?;
        let offset = asked.offset;
        if !self.read_only {
            let ino = request.inode();
            let in_data = whence == Whence::Data
                && matches!(self.fs.seek(ino, offset, whence), Ok(at) if at == offset);
            if !in_data {
                return Ok(Later::put_off(request, Work::Seek(Seek { offset, whence })));
            }
        }
        let at = self.fs.seek(request.inode(), offset, whence)?;
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
        let write_pages = |from: u64, to: Option<u64>| {
            // ENOENT: the kernel has no pages of the file.
            let _ = invalidate_pages(transport, nodeid, from, to.map_or(0, |to| to - from));
        };
        let ino = nodes::inode(nodeid);
        let found = match seek.whence {
            Whence::Data => self.find_data(ino, seek.offset, &write_pages),
            Whence::Hole => self.find_hole(ino, seek.offset, &write_pages),
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
        write_pages: &dyn Fn(u64, Option<u64>),
    ) -> varve_fs::Result<u64> {
        let first = self.next_data(ino, offset)?;
        if first != Some(offset) {
            write_pages(offset, first);
        }
        self.fs.seek(ino, offset, Whence::Data)
    }

    fn find_hole(
        &self,
        ino: InodeNo,
        offset: u64,
        write_pages: &dyn Fn(u64, Option<u64>),
    ) -> varve_fs::Result<u64> {
        // The kernel has written all pages before `clean_to`.
        let mut clean_to = offset;
        for _ in 0..ROUNDS_MAX {
            let hole = match self.fs.seek(ino, offset, Whence::Hole) {
                Err(Error::NoData) => offset,
                other => other?,
            };
            if hole < clean_to {
                break;
            }
            let end = self.next_data(ino, hole)?;
            write_pages(hole, end);
            match end {
                Some(end) => clean_to = end,
                None => break,
            }
        }
        self.fs.seek(ino, offset, Whence::Hole)
    }

    /// The first data at or after `offset` in the server.
    fn next_data(&self, ino: InodeNo, offset: u64) -> varve_fs::Result<Option<u64>> {
        match self.fs.seek(ino, offset, Whence::Data) {
            Ok(at) => Ok(Some(at)),
            Err(Error::NoData) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Where LSEEK begins to count.
///
/// # Errors
/// EINVAL for what the kernel answers itself.
pub(super) fn whence(asked: u32) -> Result<Whence, Errno> {
    match i32::try_from(asked) {
        Ok(libc::SEEK_DATA) => Ok(Whence::Data),
        Ok(libc::SEEK_HOLE) => Ok(Whence::Hole),
        _ => Err(Errno::INVALID),
    }
}
