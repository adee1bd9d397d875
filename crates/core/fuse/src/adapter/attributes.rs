//! Attributes, and the clearing of set-id bits.
//!
//! With `HANDLE_KILLPRIV_V2` the kernel marks what must clear set-id bits
//! (changes of owner; writes and truncates by those who lack CAP_FSETID) and
//! leaves the clearing to us. File capabilities it removes itself.
//!
//! Requests carry no supplementary groups: a set-group-id bit without group
//! execution, which gives no rights, goes also when one of those matches.

use super::later::Later;
use super::{Adapter, Done, Outcome, convert};
use crate::errno::Errno;
use crate::protocol::{AttrOut, GETATTR_FH, GetattrIn, SetattrIn, StatfsOut, StatxIn, fattr};
use crate::reply::Reply;
use crate::request::Request;
use varve_fs::{Attr, Caller, InodeNo, Layout, SetAttr, SetTime};

impl<L: Layout> Adapter<L> {
    pub(super) fn getattr(
        &self,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Errno> {
        let asked: GetattrIn = request.arguments().take()?;
        let ino = request.inode();
        if asked.getattr_flags & GETATTR_FH != 0
            && let Some(patience) = self.report_to_writer(ino, request.patience)?
        {
            return Ok(Later::retry(request, patience));
        }
        self.direct.note_asked(ino);
        let attr = self.fs.getattr(ino)?;
        self.attr(&attr, reply);
        Ok(Outcome::Reply)
    }

    fn attr(&self, attr: &Attr, reply: &mut Reply) {
        let attr = convert::attributes(attr);
        reply.put(&AttrOut {
            attr_valid: self.merging.validity(self.attr_valid_s),
            attr,
            ..AttrOut::default()
        });
    }

    pub(super) fn statx(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let _: StatxIn = request.arguments().take()?;
        if !self.birth_times {
            // The kernel asks for the usual attributes from now on.
            return Err(Errno::NOT_IMPLEMENTED);
        }
        let ino = request.inode();
        self.direct.note_asked(ino);
        let attr = self.fs.getattr(ino)?;
        reply.put(&convert::statx(
            &attr,
            self.merging.validity(self.attr_valid_s),
        ));
        Ok(())
    }

    pub(super) fn setattr(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        let asked: SetattrIn = request.arguments().take()?;
        let ino = request.inode();
        let mut set = translate(&asked);
        if set.size.is_some() {
            self.write_errors.forget(ino);
            self.keep_times(ino, &mut set)?;
        }
        let attr = if set == SetAttr::default() {
            self.fs.getattr(ino)?
        } else {
            self.set_attributes(&self.asker(request), ino, &set)?
        };
        self.attr(&attr, reply);
        Ok(())
    }

    /// Under write-back the kernel keeps the times of files. It sends them with each
    /// truncate but one to the size that the file has in its cache (truncate(2); with
    /// ftruncate(2) it always does), and then it leaves its own times as they are. So
    /// the times here stay, too: new ones would be seen only once the kernel had
    /// forgotten the file.
    fn keep_times(&self, ino: InodeNo, set: &mut SetAttr) -> Done {
        let kept_by_kernel = self.write_back();
        if kept_by_kernel && set.mtime.is_none() && set.ctime.is_none() {
            let attr = self.fs.getattr(ino)?;
            set.mtime = Some(SetTime::At(attr.mtime));
            set.ctime = Some(attr.ctime);
        }
        Ok(())
    }

    fn set_attributes(&self, caller: &Caller, ino: InodeNo, set: &SetAttr) -> Result<Attr, Errno> {
        Ok(self.fs.setattr(caller, ino, set)?)
    }

    /// Clears the set-id bits of `ino`, if it has any.
    pub(super) fn kill_set_id(&self, caller: &Caller, ino: InodeNo) -> Done {
        if self.fs.getattr(ino)?.mode & (libc::S_ISUID | libc::S_ISGID) == 0 {
            return Ok(());
        }
        let set = SetAttr {
            kill_set_id: true,
            ..SetAttr::default()
        };
        self.fs.setattr(caller, ino, &set)?;
        Ok(())
    }

    pub(super) fn statfs(&self, reply: &mut Reply) {
        let room = self.fs.statfs();
        let block_bytes = self.fs.layout().geometry().block_bytes;
        reply.put(&StatfsOut {
            blocks: room.blocks,
            bfree: room.free,
            bavail: self.fs.available(),
            files: room.files.saturating_add(room.files_free),
            ffree: room.files_free,
            bsize: block_bytes,
            namelen: 255,
            frsize: block_bytes,
            ..StatfsOut::default()
        });
    }
}

/// With the write-back cache the kernel keeps size, mtime and ctime of files
/// and sends them as plain values.
fn translate(asked: &SetattrIn) -> SetAttr {
    let has = |flag: u32| asked.valid & flag != 0;
    let time = |set: u32, now: u32, seconds: u64, nanos: u32| {
        has(set | now).then(|| {
            if has(now) {
                SetTime::Now
            } else {
                SetTime::At(convert::timestamp(seconds, nanos))
            }
        })
    };
    SetAttr {
        mode: has(fattr::MODE).then_some(asked.mode & 0o7777),
        uid: has(fattr::UID).then_some(asked.uid),
        gid: has(fattr::GID).then_some(asked.gid),
        size: has(fattr::SIZE).then_some(asked.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, asked.atime, asked.atimensec),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, asked.mtime, asked.mtimensec),
        ctime: has(fattr::CTIME).then(|| convert::timestamp(asked.ctime, asked.ctimensec)),
        kill_set_id: has(fattr::KILL_SUIDGID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fs::Timestamp;

    #[test]
    fn times_are_now_or_given() {
        let valid = fattr::ATIME | fattr::ATIME_NOW | fattr::MTIME | fattr::CTIME;
        let asked = SetattrIn {
            valid,
            atime: 9,
            mtime: 7,
            ctime: 8,
            ..SetattrIn::default()
        };
        let set = translate(&asked);
        assert_eq!(set.atime, Some(SetTime::Now));
        assert_eq!(
            set.mtime,
            Some(SetTime::At(Timestamp {
                seconds: 7,
                nanos: 0
            }))
        );
        assert_eq!(
            set.ctime,
            Some(Timestamp {
                seconds: 8,
                nanos: 0
            })
        );
        assert_eq!((set.mode, set.size), (None, None));
    }
}
