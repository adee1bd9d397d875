//! Attributes one by one, as the kernel shows them and the server has them.

use rustix::fs::{Statx, StatxFlags};
use varve_fs::{Attr, Timestamp};

/// An attribute: its name, how to ask for it, and how both sides put it.
pub struct Field {
    pub name: &'static str,
    pub mask: StatxFlags,
    pub shown: fn(&Statx) -> (i128, i128),
    pub held: fn(&Attr) -> (i128, i128),
}

fn time(t: Timestamp) -> (i128, i128) {
    (t.seconds.into(), t.nanos.into())
}

pub const FIELDS: [Field; 9] = [
    Field {
        name: "mode",
        mask: StatxFlags::MODE,
        shown: |s| (s.stx_mode.into(), 0),
        held: |a| (a.mode.into(), 0),
    },
    Field {
        name: "links",
        mask: StatxFlags::NLINK,
        shown: |s| (s.stx_nlink.into(), 0),
        held: |a| (a.nlink.into(), 0),
    },
    Field {
        name: "owner",
        mask: StatxFlags::UID,
        shown: |s| (s.stx_uid.into(), 0),
        held: |a| (a.uid.into(), 0),
    },
    Field {
        name: "group",
        mask: StatxFlags::GID,
        shown: |s| (s.stx_gid.into(), 0),
        held: |a| (a.gid.into(), 0),
    },
    Field {
        name: "size",
        mask: StatxFlags::SIZE,
        shown: |s| (s.stx_size.into(), 0),
        held: |a| (a.size.into(), 0),
    },
    Field {
        name: "blocks",
        mask: StatxFlags::BLOCKS,
        shown: |s| (s.stx_blocks.into(), 0),
        held: |a| (a.sectors.into(), 0),
    },
    Field {
        name: "atime",
        mask: StatxFlags::ATIME,
        shown: |s| (s.stx_atime.tv_sec.into(), s.stx_atime.tv_nsec.into()),
        held: |a| time(a.atime),
    },
    Field {
        name: "mtime",
        mask: StatxFlags::MTIME,
        shown: |s| (s.stx_mtime.tv_sec.into(), s.stx_mtime.tv_nsec.into()),
        held: |a| time(a.mtime),
    },
    Field {
        name: "ctime",
        mask: StatxFlags::CTIME,
        shown: |s| (s.stx_ctime.tv_sec.into(), s.stx_ctime.tv_nsec.into()),
        held: |a| time(a.ctime),
    },
];
