//! Newtypes for numbers that must not be mixed.

use std::fmt;

/// An inode number. 0 names no file; see [`InodeNo::IFILE`] and [`InodeNo::ROOT`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeNo(pub u64);

impl InodeNo {
    /// The file that contains the inode map and the segment usage table (thesis §6.3.2).
    /// Layouts without one leave the number unused.
    pub const IFILE: InodeNo = InodeNo(1);
    /// The root directory.
    pub const ROOT: InodeNo = InodeNo(2);
    /// The first number given to files.
    pub const FIRST: InodeNo = InodeNo(3);
}

impl fmt::Debug for InodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.0)
    }
}

impl fmt::Display for InodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of times that an inode number has been reused: the generation of its file
/// handles and the version of its inode-map entry (thesis §6.3.2).
pub type Version = u32;

/// A time: seconds since 1970 (may be negative) and nanoseconds within the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second, `0..1_000_000_000`.
    pub nanos: u32,
}

impl Timestamp {
    /// Converts a reading of a [`varve_device::Clock`].
    pub fn from_ns(ns: i64) -> Self {
        Timestamp {
            seconds: ns.div_euclid(1_000_000_000),
            nanos: ns.rem_euclid(1_000_000_000) as u32,
        }
    }

    /// Nanoseconds since 1970, saturating at the years 1677 and 2262.
    pub fn as_ns(self) -> i64 {
        self.seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::from(self.nanos))
    }
}

/// Kind of an inode. The discriminants are those of `S_IFMT >> 12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileKind {
    /// A named pipe.
    Fifo = 1,
    /// A character device.
    CharDevice = 2,
    /// A directory.
    Directory = 4,
    /// A block device.
    BlockDevice = 6,
    /// A regular file.
    Regular = 8,
    /// A symbolic link.
    Symlink = 10,
    /// A socket.
    Socket = 12,
}

impl FileKind {
    /// The kind in the type bits of a `mode_t`, if they name one.
    pub fn from_mode(mode: u32) -> Option<Self> {
        Self::from_raw(((mode >> 12) & 0xf) as u8)
    }

    /// The kind whose discriminant is `raw`.
    pub fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => FileKind::Fifo,
            2 => FileKind::CharDevice,
            4 => FileKind::Directory,
            6 => FileKind::BlockDevice,
            8 => FileKind::Regular,
            10 => FileKind::Symlink,
            12 => FileKind::Socket,
            _ => return None,
        })
    }

    /// The type bits of a `mode_t`.
    pub fn mode_bits(self) -> u32 {
        (self as u32) << 12
    }
}

/// A state of a layout that is kept readable; see [`crate::Layout::snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotNo(pub u64);

/// Blocks that were spilled together; see [`crate::Layout::spill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpillNo(pub u64);

/// The state of a layout that is read. A tree reads one and the same during its whole
/// life (`docs/design/transactions.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// The state after the last group.
    #[default]
    Live,
    /// The state at the time of the snapshot.
    Snapshot(SnapshotNo),
}
