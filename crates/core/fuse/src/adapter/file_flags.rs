//! File flags and projects: what `chattr` and `lsattr` ask for.
//!
//! The kernel turns its ioctls for them into FUSE's. Since [`CHECKED_SINCE`] it
//! has also looked whether the caller may do that. Of the flags themselves it
//! knows nothing: whoever is to be stopped by them is stopped here.
//!
//! Three of a regular file's flags concern how it is opened: an immutable file
//! is not opened for writing, an append-only one only for appending, and what is
//! written to a synchronous one must not wait in the kernel's cache. A server is
//! asked at each open or at none, and a mount is quicker without. So these can
//! be set where opens are asked: with `-o chattr`, and on volumes where some
//! file has had one ([`FileSystem::is_guarded`](varve_fs::FileSystem)). So can
//! the last of a directory, as files made in it inherit it.
//!
//! A file may be open for writing when it becomes immutable. The kernel's dirty
//! pages are called in before. Later ones are refused, and so is the next write,
//! by the question that it sends (`full.rs`).

use super::later::{Later, Work};
use super::{Adapter, Done, Outcome};
use crate::errno::Errno;
use crate::protocol::{IoctlOut, OpenIn, OpenOut, capability};
use crate::reply::Reply;
use crate::request::Request;
use crate::transport::{Transport, invalidate_pages};
use varve_fs::{Access, Caller, FileFlags, FileKind, InodeNo, Layout};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `_IOR('f', 1, long)`, `_IOW('f', 2, long)`: flags. What is copied is an
/// `int`, whatever the numbers say.
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
/// `_IOR('v', 1, long)`: the generation of the inode's number.
const GET_VERSION: u32 = 0x8008_7601;
/// `_IOR('X', 31, struct fsxattr)`, `_IOW('X', 32, struct fsxattr)`: flags
/// and project.
const GET_EXTENDED: u32 = 0x801c_581f;
const SET_EXTENDED: u32 = 0x401c_5820;

/// The protocol's minor version since which the kernel checks who sets flags
/// (Linux 5.14; 5.13 does so, too, and speaks the version before).
const CHECKED_SINCE: u32 = 34;

/// A flag: its bit in the ioctls of ext2, its bit in those of XFS if it has one
/// there, and where it is.
type Named = (u32, u32, fn(&mut FileFlags) -> &mut bool);
const NAMED: [Named; 8] = [
    (0x0000_0008, 0x020, |f| &mut f.sync),
    (0x0000_0010, 0x008, |f| &mut f.immutable),
    (0x0000_0020, 0x010, |f| &mut f.append_only),
    (0x0000_0040, 0x080, |f| &mut f.no_dump),
    (0x0000_0080, 0x040, |f| &mut f.no_atime),
    // ext4's "data in the journal".
    (0x0000_4000, 0x000, |f| &mut f.protected),
    (0x0001_0000, 0x000, |f| &mut f.dir_sync),
    (0x2000_0000, 0x200, |f| &mut f.project_inherit),
];
/// "Has attributes": shown by XFS, set by nobody.
const HAS_ATTRIBUTES: u32 = 0x8000_0000;

/// `struct fsxattr`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Extended {
    flags: u32,
    extent_bytes: u32,
    extents: u32,
    project: u32,
    copy_extent_bytes: u32,
    padding: [u8; 8],
}
const _: () = assert!(size_of::<Extended>() == 28);

/// Which of a flag's two bits is meant.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Extended,
}

fn bit(named: &Named, kind: Kind) -> u32 {
    match kind {
        Kind::Plain => named.0,
        Kind::Extended => named.1,
    }
}

fn to_bits(mut flags: FileFlags, kind: Kind) -> u32 {
    let set = NAMED.iter().filter(|named| *named.2(&mut flags));
    set.map(|named| bit(named, kind)).sum()
}

/// `flags` changed to what `bits` say; those that have no bit stay.
///
/// # Errors
/// EOPNOTSUPP for bits that mean nothing here.
fn from_bits(mut flags: FileFlags, mut bits: u32, kind: Kind) -> Result<FileFlags, Errno> {
    for named in &NAMED {
        let bit = bit(named, kind);
        if bit != 0 {
            *named.2(&mut flags) = bits & bit != 0;
            bits &= !bit;
        }
    }
    match bits {
        0 => Ok(flags),
        _ => Err(Errno::NOT_SUPPORTED),
    }
}

/// Flags to be set once the kernel holds no dirty pages of the file.
#[derive(Debug)]
pub(super) struct Setting {
    caller: Caller,
    ino: InodeNo,
    flags: FileFlags,
    project: Option<u32>,
}

impl<L: Layout> Adapter<L> {
    /// Answers the ioctls that are about one file. Nothing for others.
    pub(super) fn flag_ioctl(
        &self,
        request: &Request<'_>,
        command: u32,
        input: &[u8],
        reply: &mut Reply,
    ) -> Result<Option<Outcome>, Errno> {
        let ino = request.inode();
        match command {
            GET_FLAGS => {
                let flags = to_bits(self.fs.file_flags(ino)?, Kind::Plain);
                put(flags.as_bytes(), reply);
            }
            GET_VERSION => {
                let version = self.fs.getattr(ino)?.version;
                put(version.as_bytes(), reply);
            }
            GET_EXTENDED => {
                let (flags, project) = self.fs.flags_and_project(ino)?;
                let flags = to_bits(flags, Kind::Extended);
                put(
                    Extended {
                        flags,
                        project,
                        ..Extended::default()
                    }
                    .as_bytes(),
                    reply,
                );
            }
            SET_FLAGS => {
                let bits = u32::read_from_prefix(input).map_err(|_| Errno::INVALID)?.0;
                let flags = from_bits(FileFlags::default(), bits, Kind::Plain)?;
                return self.set_flags(request, flags, None, reply).map(Some);
            }
            SET_EXTENDED => {
                let asked = Extended::read_from_bytes(input).map_err(|_| Errno::INVALID)?;
                if asked.extent_bytes != 0 || asked.copy_extent_bytes != 0 {
                    return Err(Errno::NOT_SUPPORTED);
                }
                let before = self.fs.file_flags(ino)?;
                let bits = asked.flags & !HAS_ATTRIBUTES;
                let flags = from_bits(before, bits, Kind::Extended)?;
                let project = Some(asked.project);
                return self.set_flags(request, flags, project, reply).map(Some);
            }
            _ => return Ok(None),
        }
        Ok(Some(Outcome::Reply))
    }

    fn set_flags(
        &self,
        request: &Request<'_>,
        flags: FileFlags,
        project: Option<u32>,
        reply: &mut Reply,
    ) -> Result<Outcome, Errno> {
        let ino = request.inode();
        let regular = self.fs.getattr(ino)?.kind == FileKind::Regular;
        let before = self.fs.file_flags(ino)?;
        let guards = |f: FileFlags| regular && (f.immutable || f.append_only) || f.sync;
        if guards(flags) && !guards(before) && !self.opens.are_asked() {
            tracing::info!("immutable, append-only and synchronous files need `-o chattr`");
            return Err(Errno::NOT_SUPPORTED);
        }
        let checked = self.speaks(CHECKED_SINCE);
        let setting = Setting {
            caller: Caller {
                checked,
                ..self.caller(request)
            },
            ino,
            flags,
            project,
        };
        if regular && flags.immutable && !before.immutable {
            return Ok(Later::put_off(request, Work::Flags(setting)));
        }
        self.apply_flags(&setting)?;
        // The kernel does not know that this changes a file's ctime.
        reply.mark_stale(request.header.nodeid);
        put(&[], reply);
        Ok(Outcome::Reply)
    }

    fn apply_flags(&self, setting: &Setting) -> Done {
        let (ino, flags) = (setting.ino, setting.flags);
        self.fs
            .set_file_flags(&setting.caller, ino, flags, setting.project)?;
        Ok(())
    }

    /// Finishes setting flags. Never call it on a thread that serves requests.
    pub(super) fn finish_flags(
        &self,
        nodeid: u64,
        setting: &Setting,
        transport: &dyn Transport,
        reply: &mut Reply,
    ) -> Outcome {
        // ENOENT: the kernel holds no pages of it.
        let _ = invalidate_pages(transport, nodeid, 0, 0);
        if let Err(errno) = self.apply_flags(setting) {
            return Outcome::Error(errno);
        }
        self.invalidate_attributes(nodeid, transport);
        put(&[], reply);
        Outcome::Reply
    }

    /// What a write(2) that is under way is told about an immutable file that
    /// was open for writing before.
    ///
    /// # Errors
    /// EPERM.
    pub(super) fn must_be_mutable(&self, ino: InodeNo) -> Done {
        let immutable = self.opens.are_asked() && self.fs.file_flags(ino)?.immutable;
        match immutable {
            true => Err(Errno(libc::EPERM)),
            false => Ok(()),
        }
    }

    /// OPEN. A kernel that can do without is told so and never asks again, but
    /// on mounts where flags are to be looked at.
    pub(super) fn open_file(&self, request: &Request<'_>, reply: &mut Reply) -> Done {
        if !self.opens.are_asked() {
            return self.open(capability::NO_OPEN_SUPPORT, reply);
        }
        let asked: OpenIn = request.arguments().take()?;
        let has = |flag: i32| asked.flags & flag as u32 != 0;
        let access = Access {
            write: asked.flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32,
            append: has(libc::O_APPEND),
            truncate: has(libc::O_TRUNC),
        };
        let flags = self.fs.may_open(request.inode(), access)?;
        let through = flags.sync || self.opens.is_dsync(asked.flags);
        reply.put(&self.opens.file(access.write && through));
        Ok(())
    }

    /// The open file of a new inode, created with `flags`.
    pub(super) fn opened_new(&self, ino: InodeNo, flags: u32) -> OpenOut {
        let sync = || self.opens.are_asked() && self.fs.file_flags(ino).is_ok_and(|f| f.sync);
        self.opens.file(self.opens.is_dsync(flags) || sync())
    }
}

fn put(output: &[u8], reply: &mut Reply) {
    reply.put(&IoctlOut::default());
    reply.put_bytes(output);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_either_kind_are_told_apart() {
        let flags = FileFlags {
            immutable: true,
            dir_sync: true,
            ..FileFlags::default()
        };
        assert_eq!(to_bits(flags, Kind::Plain), 0x1_0010);
        assert_eq!(to_bits(flags, Kind::Extended), 0x8);
        // What has no bit there stays.
        let changed = from_bits(flags, 0x10, Kind::Extended).unwrap();
        assert!(changed.append_only && changed.dir_sync && !changed.immutable);
        assert!(from_bits(flags, 0x4, Kind::Plain).is_err());
        for named in &NAMED {
            let one = from_bits(FileFlags::default(), named.0, Kind::Plain).unwrap();
            assert_eq!(to_bits(one, Kind::Plain), named.0);
        }
    }
}
