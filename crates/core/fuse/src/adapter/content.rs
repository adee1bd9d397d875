//! Bytes of files.

use super::later::Later;
use super::{Adapter, Done, Outcome};
use crate::errno::Errno;
use crate::nodes;
use crate::protocol::capability;
use crate::protocol::{
    CopyFileRangeIn, CopyFileRangeOut, FSYNC_DATA_ONLY, FallocateIn, FsyncIn, MAX_PAYLOAD_BYTES,
    Opcode, READ_LOCKOWNER, ReadIn, WRITE_CACHE, WRITE_KILL_SUIDGID, WRITE_LOCKOWNER, WriteIn,
    WriteOut,
};
use crate::reply::Reply;
use crate::request::Request;
use varve_fs::{Caller, InodeNo, Layout};

/// O_SYNC, which includes O_DSYNC.
const SYNC: u32 = libc::O_SYNC as u32;

/// Most bytes one copy request copies; the kernel's caller asks again. It
/// bounds how long a copy holds a thread, and fits the older reply's 32 bits.
const COPY_BYTES_MAX: u64 = 64 << 20;

impl<L: Layout> Adapter<L> {
    pub(super) fn read(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let read: ReadIn = request.arguments().take()?;
        let size = read.size as usize;
        if size > MAX_PAYLOAD_BYTES {
            return Err(Errno::INVALID);
        }
        let ino = request.inode();
        if read.read_flags & READ_LOCKOWNER == 0 {
            let end = read.offset.saturating_add(u64::from(read.size));
            self.direct.note_read(ino, read.offset..end);
        }
        let space = reply.space(size);
        let got = self.fs.read(ino, read.offset, space)?;
        reply.extend(got);
        self.counters.read(got);
        Ok(())
    }

    pub(super) fn write(&self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Errno> {
        let mut arguments = request.arguments();
        let write: WriteIn = arguments.take()?;
        let data = arguments.bytes(write.size as usize)?;
        let (caller, ino) = (self.caller(request), request.inode());
        if write.write_flags & WRITE_KILL_SUIDGID != 0 {
            self.kill_set_id(&self.asker(request), ino)?;
        }
        let direct = write.write_flags & WRITE_LOCKOWNER != 0;
        if direct {
            self.direct.begin(ino);
        }
        let held = write.write_flags & WRITE_CACHE != 0;
        let written = match held {
            true => {
                self.write_cached(&caller, (ino, write.offset), data, request, reply)?;
                data.len()
            }
            false => self.put(&caller, (ino, write.offset), data, direct)?,
        };
        self.counters.written(written);
        if direct && self.opens.is_dsync(write.flags) {
            self.fs.fsync(ino, write.flags & SYNC != SYNC)?;
        }
        reply.put(&WriteOut {
            size: written as u32,
            padding: 0,
        });
        let range = write.offset..write.offset.saturating_add(written as u64);
        let stale = (direct && written > 0).then(|| self.direct.finish(ino, range));
        Ok(match stale.flatten() {
            Some(stale) => Later::drop_pages(request, stale, reply),
            None => Outcome::Reply,
        })
    }

    /// Writes what a program waits for. A short answer to a direct request that the
    /// kernel sent asynchronously, as all that it splits, reaches the program as EIO;
    /// so a part counts as refused, and the kernel cuts off by what the file grew.
    fn put(
        &self,
        caller: &Caller,
        (ino, offset): (InodeNo, u64),
        data: &[u8],
        direct: bool,
    ) -> Result<usize, Errno> {
        if direct && self.has(capability::ASYNC_DIO) {
            self.fs.write_whole(caller, ino, offset, data)?;
            return Ok(data.len());
        }
        Ok(self.fs.write_opened(caller, ino, offset, data)?)
    }

    /// FSYNC of a file.
    pub(super) fn fsync(&self, request: &Request<'_>) -> Done {
        let fsync: FsyncIn = request.arguments().take()?;
        let data_only = fsync.fsync_flags & FSYNC_DATA_ONLY != 0;
        let ino = request.inode();
        self.has_lost_nothing(ino)?;
        Ok(self.fs.fsync(ino, data_only)?)
    }

    /// FSYNCDIR: everything, as no other request is sure to say so.
    pub(super) fn fsyncdir(&self, request: &Request<'_>) -> Done {
        let _: FsyncIn = request.arguments().take()?;
        Ok(self.fs.sync()?)
    }

    pub(super) fn fallocate(&self, request: &Request<'_>) -> Done {
        let asked: FallocateIn = request.arguments().take()?;
        let (caller, ino) = (self.asker(request), request.inode());
        let mode = i32::try_from(asked.mode).map_err(|_| Errno::NOT_SUPPORTED)?;
        // The protocol has no kill flag here; root alone is sure to have
        // CAP_FSETID.
        if caller.uid != 0 {
            self.kill_set_id(&caller, ino)?;
        }
        let (offset, length) = (asked.offset, asked.length);
        Ok(self.fs.fallocate(&caller, ino, mode, offset, length)?)
    }

    pub(super) fn copy_file_range(
        &self,
        opcode: Opcode,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Done {
        let copy: CopyFileRangeIn = request.arguments().take()?;
        if copy.flags != 0 {
            return Err(Errno::INVALID);
        }
        let caller = self.asker(request);
        let (from, to) = (request.inode(), nodes::inode(copy.nodeid_out));
        if caller.uid != 0 {
            self.kill_set_id(&caller, to)?;
        }
        let length = copy.len.min(COPY_BYTES_MAX);
        let (from_offset, to_offset) = (copy.off_in, copy.off_out);
        let fs = &self.fs;
        let copied = fs.copy_range(&caller, from, from_offset, to, to_offset, length)?;
        if opcode == Opcode::CopyFileRange {
            reply.put(&WriteOut {
                size: copied as u32,
                padding: 0,
            });
        } else {
            reply.put(&CopyFileRangeOut {
                bytes_copied: copied,
            });
        }
        Ok(())
    }
}
