//! Attributes of files as callers see them, and the identity of the caller.

use crate::inode::Inode;
use crate::types::{FileKind, InodeNo, Timestamp, Version};

/// Attributes of a file, as `stat` reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: InodeNo,
    /// Generation of the inode number.
    pub version: Version,
    /// Kind of file.
    pub kind: FileKind,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Number of names; for a directory 2 plus its subdirectories.
    pub nlink: u32,
    /// User identifier of the owner.
    pub uid: u32,
    /// Group identifier.
    pub gid: u32,
    /// Device number of a special file.
    pub rdev: u64,
    /// Length in bytes.
    pub size: u64,
    /// 512-byte sectors in use: `st_blocks`.
    pub sectors: u64,
    /// Time of the last read.
    pub atime: Timestamp,
    /// Time of the last change of content.
    pub mtime: Timestamp,
    /// Time of the last change of the inode.
    pub ctime: Timestamp,
    /// Time of creation.
    pub btime: Timestamp,
    /// Preferred size of a request: `st_blksize`.
    pub block_bytes: u32,
}

impl Attr {
    pub(crate) fn of(inode: &Inode, block_bytes: u32) -> Self {
        Attr {
            ino: inode.ino,
            version: inode.version,
            kind: inode.kind(),
            mode: inode.mode,
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size: inode.size,
            sectors: inode.sectors,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            btime: inode.btime,
            block_bytes,
        }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present time of the volume's clock.
    Now,
    /// The given time.
    At(Timestamp),
}

/// Attributes to change; the default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits; type bits are ignored.
    pub mode: Option<u32>,
    /// User identifier of the owner.
    pub uid: Option<u32>,
    /// Group identifier.
    pub gid: Option<u32>,
    /// Length in bytes; the file is truncated or extended.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// Change time; the present time if this is absent and another attribute changes.
    pub ctime: Option<Timestamp>,
    /// A regular file loses its set-id bits, as after a write by the caller. For a caller
    /// whose permissions the kernel has checked, set-id bits remain unless this is set.
    pub kill_set_id: bool,
}

/// The identity on whose behalf an operation runs.
#[derive(Clone, Debug, Eq)]
pub struct Caller {
    /// User identifier.
    pub uid: u32,
    /// Group identifier.
    pub gid: u32,
    /// Supplementary group identifiers.
    pub groups: Vec<u32>,
    /// The kernel has checked permissions: permission-bit and sticky checks are skipped,
    /// and so is the clearing of set-id bits on write, on creation in a set-group-id
    /// directory and on setting an access list.
    pub checked: bool,
    /// Bits removed from the mode of a new file; 0 if the kernel has removed them.
    pub umask: u32,
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        // Most callers have no supplementary groups. An empty list is not compared,
        // because it has no address in memory, and a vector instruction that reads
        // nothing from there costs more than the rest of a path walk.
        let groups = self.groups.len() == other.groups.len()
            && (self.groups.is_empty() || self.groups == other.groups);
        let ids = (self.uid, self.gid) == (other.uid, other.gid);
        ids && groups && self.checked == other.checked && self.umask == other.umask
    }
}

impl Caller {
    /// The superuser, for whose calls no permission is checked.
    pub fn root() -> Self {
        Caller {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            checked: false,
            umask: 0,
        }
    }

    /// True if `gid` is among the caller's groups.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// One name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Inode number of the file.
    pub ino: InodeNo,
    /// Kind of the file.
    pub kind: FileKind,
    /// Position after the entry, from which a listing resumes.
    pub cookie: u64,
}

/// The kind of range that [`crate::FileSystem::seek`] searches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not stored; the end of the file counts as one.
    Hole,
}

/// Options of a rename; the default replaces an existing target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rename {
    /// Fail if the target exists.
    pub no_replace: bool,
    /// Exchange the two names.
    pub exchange: bool,
    /// Leave a whiteout under the old name: a character device 0:0, by which an overlay
    /// file system marks a name of a lower layer as removed.
    pub whiteout: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_differ_in_whatever_decides_for_them() {
        let caller = Caller::root();
        assert_eq!(caller, Caller::root());
        type Change = fn(&mut Caller);
        let changes: [Change; 5] = [
            |c| c.uid = 1,
            |c| c.gid = 1,
            |c| c.groups.push(1),
            |c| c.checked = true,
            |c| c.umask = 1,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut other = Caller::root();
            change(&mut other);
            assert_ne!(caller, other, "change {number}");
            assert_eq!(other, other.clone());
        }
        let (mut one, mut two) = (Caller::root(), Caller::root());
        (one.groups, two.groups) = (vec![1], vec![2]);
        assert_ne!(one, two);
    }
}
