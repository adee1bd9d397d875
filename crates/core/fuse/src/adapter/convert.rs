//! The file system's types in the protocol's shape.

use crate::protocol::{AttrBody, ROOT_NODE, StatxOut, StatxTime};
use varve_fs::{Attr, InodeNo, Timestamp};

/// The protocol wants its root to be 1, which is the ifile's number: the two
/// change places.
pub(super) fn inode(nodeid: u64) -> InodeNo {
    match nodeid {
        ROOT_NODE => InodeNo::ROOT,
        n if n == InodeNo::ROOT.0 => InodeNo::IFILE,
        n => InodeNo(n),
    }
}

/// The reverse of [`inode`].
pub(super) fn node(ino: InodeNo) -> u64 {
    match ino {
        InodeNo::ROOT => ROOT_NODE,
        InodeNo::IFILE => InodeNo::ROOT.0,
        InodeNo(n) => n,
    }
}

/// The generation of an inode's number. That of the root is 0: the kernel makes the
/// root's inode itself, without a look-up, and compares later answers (a look-up of
/// `..` for a file handle) with 0.
pub(super) fn generation(attr: &Attr) -> u64 {
    match attr.ino {
        InodeNo::ROOT => 0,
        _ => u64::from(attr.version),
    }
}

/// Seconds before 1970 travel as the same 64 bits.
pub(super) fn timestamp(seconds: u64, nanos: u32) -> Timestamp {
    Timestamp {
        seconds: seconds as i64,
        nanos: nanos.min(999_999_999),
    }
}

pub(super) fn attributes(attr: &Attr) -> AttrBody {
    AttrBody {
        ino: attr.ino.0,
        size: attr.size,
        blocks: attr.sectors,
        atime: attr.atime.seconds as u64,
        mtime: attr.mtime.seconds as u64,
        ctime: attr.ctime.seconds as u64,
        atimensec: attr.atime.nanos,
        mtimensec: attr.mtime.nanos,
        ctimensec: attr.ctime.nanos,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev as u32,
        blksize: attr.block_bytes,
        flags: 0,
    }
}

/// `STATX_BASIC_STATS | STATX_BTIME`.
const STATX_MASK: u32 = 0x7ff | 0x800;

pub(super) fn statx(attr: &Attr, attr_valid: u64) -> StatxOut {
    let time = |t: Timestamp| StatxTime {
        seconds: t.seconds,
        nanos: t.nanos,
        reserved: 0,
    };
    // The kernel's encoding: minor 0-7, major 8-19, minor 20-31.
    let rdev = attr.rdev as u32;
    StatxOut {
        attr_valid,
        mask: STATX_MASK,
        blksize: attr.block_bytes,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        ino: attr.ino.0,
        size: attr.size,
        blocks: attr.sectors,
        atime: time(attr.atime),
        btime: time(attr.btime),
        ctime: time(attr.ctime),
        mtime: time(attr.mtime),
        rdev_major: (rdev >> 8) & 0xfff,
        rdev_minor: (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00),
        ..StatxOut::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_ifile_change_places() {
        assert_eq!(inode(1), InodeNo::ROOT);
        assert_eq!(inode(2), InodeNo::IFILE);
        for n in [1, 2, 3, u64::MAX] {
            assert_eq!(node(inode(n)), n);
        }
    }

    #[test]
    fn times_before_1970_survive() {
        let early = Timestamp {
            seconds: -5,
            nanos: 7,
        };
        assert_eq!(timestamp(early.seconds as u64, early.nanos), early);
    }
}
