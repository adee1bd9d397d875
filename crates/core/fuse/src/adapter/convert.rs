//! Conversion of the file system's types to the protocol's.

use crate::protocol::{AttrBody, StatxOut, StatxTime};
use varve_fs::{Attr, InodeNo, Timestamp};

/// The generation of an inode number. The root has generation 0, because the kernel creates
/// the root's inode without a look-up and compares later answers (a look-up of `..` for a
/// file handle) with 0.
pub(super) fn generation(attr: &Attr) -> u64 {
    match attr.ino {
        InodeNo::ROOT => 0,
        _ => u64::from(attr.version),
    }
}

/// A time of the protocol. Seconds before 1970 are the same 64 bits, signed.
pub(super) fn timestamp(seconds: u64, nanos: u32) -> Timestamp {
    Timestamp {
        seconds: seconds as i64,
        nanos: nanos.min(999_999_999),
    }
}

/// The attributes of an inode for GETATTR, SETATTR and look-ups.
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

/// The answer to STATX. The kernel may trust it for `attr_valid` seconds.
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
    fn times_before_1970_survive() {
        let early = Timestamp {
            seconds: -5,
            nanos: 7,
        };
        assert_eq!(timestamp(early.seconds as u64, early.nanos), early);
    }
}
