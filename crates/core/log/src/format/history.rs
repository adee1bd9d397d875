//! The history file: blocks and inodes that snapshots have and the tree does not
//! (`docs/design/snapshots.md`).
//!
//! It is inode 0. Its first blocks are the *directory*: a [`HistoryHeader`], the
//! snapshots ([`SnapshotRow`], each followed by its name) and the runs ([`RunRow`]). Each
//! run is an array of [`DisplacedBlock`]s, followed by an array of images, each of which
//! is an [`ImageHeader`] and the inode. Both arrays begin at a block and are sorted.

use super::{Malformed, Pointer};
use varve_fs::InodeNo;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The inode of the history file. No name leads to it.
pub const HISTORY: InodeNo = InodeNo(0);

/// First block of the file that a run may take; the directory is stored before it.
pub const RUNS_FROM: u64 = 1024;

/// First bytes of the directory.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VHIS");

/// Longest name of a snapshot, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Begins the directory, 64 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct HistoryHeader {
    /// [`MAGIC`].
    pub magic: U32,
    /// Snapshots that follow.
    pub snapshots: U32,
    /// Runs that follow.
    pub runs: U32,
    /// Number of the newest snapshot that was ever taken; 0 before the first.
    pub newest: U32,
    /// Bytes of the directory, this header included.
    pub bytes: U64,
    /// Bytes of blocks on the device that only snapshots have.
    pub kept_bytes: U64,
    /// Upper bound of the blocks of the newest snapshot that are not displaced yet.
    pub blocks_left: U64,
    /// The same of its inode images.
    pub images_left: U64,
    /// Zeros.
    pub spare: [u8; 16],
}
const _: () = assert!(size_of::<HistoryHeader>() == 64);

/// A snapshot, 32 bytes; its name follows, then zeros to a multiple of 8 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SnapshotRow {
    /// Ascending, never given twice, not 0.
    pub number: U32,
    /// Bits of [`snapshot_flags`].
    pub flags: U16,
    /// Bytes of the name, at most [`MAX_NAME_BYTES`].
    pub name_bytes: U16,
    /// Serial of the last partial segment before it.
    pub position: U64,
    /// Nanoseconds since 1970.
    pub taken_ns: I64,
    /// The checkpoint that it is.
    pub checkpoint: U64,
}
const _: () = assert!(size_of::<SnapshotRow>() == 32);

/// Bits of [`SnapshotRow::flags`].
pub mod snapshot_flags {
    /// The snapshot cannot be read any more. Its blocks are kept until the next
    /// checkpoint, because the older of the two retained records still has it.
    pub const DELETED: u16 = 1 << 0;
    /// All that are known.
    pub const KNOWN: u16 = DELETED;
}

/// A run, 64 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RunRow {
    /// Block of the file at which its [`DisplacedBlock`]s begin.
    pub first_block: U64,
    /// How many there are.
    pub blocks: U64,
    /// How many images there are; they begin at the next block of the file.
    pub images: U64,
    /// Least `last` of its entries.
    pub oldest: U32,
    /// Greatest `last` of its entries.
    pub newest: U32,
    /// Number of the checkpoint that wrote its youngest entries.
    pub written: U64,
    /// Zeros.
    pub spare: [u8; 24],
}
const _: () = assert!(size_of::<RunRow>() == 64);

/// A block that a snapshot has and no index leads to, 64 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DisplacedBlock {
    /// Inode number.
    pub ino: U64,
    /// Logical block number; 0 for attributes.
    pub block: U64,
    /// The file's version.
    pub version: U32,
    /// The newest snapshot when it was displaced.
    pub last: U32,
    /// 1 for extended attributes, else 0.
    pub xattrs: u8,
    /// Zeros.
    pub spare: [u8; 7],
    /// Place on the device. The birth in it belongs to the identity.
    pub pointer: Pointer,
}
const _: () = assert!(size_of::<DisplacedBlock>() == 64);

/// Begins an image, 32 bytes; the inode follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ImageHeader {
    /// Inode number.
    pub ino: U64,
    /// The file's version.
    pub version: U32,
    /// The newest snapshot at the time of the change that made this image: snapshots up
    /// to this number do not have it.
    pub after: U32,
    /// The newest snapshot at the time the image was displaced: the last that has it.
    pub last: U32,
    /// Zeros.
    pub spare: [u8; 12],
}
const _: () = assert!(size_of::<ImageHeader>() == 32);

/// Identity of a block: two entries with the same identity are the content of one block
/// at two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Inode number.
    pub ino: u64,
    /// The file's version.
    pub version: u32,
    /// True for the file's extended attributes.
    pub xattrs: bool,
    /// Logical block number; 0 for attributes.
    pub block: u64,
}

impl DisplacedBlock {
    /// An entry for a block that was displaced when `last` was the newest snapshot.
    pub fn new(identity: Identity, last: u32, pointer: Pointer) -> Self {
        DisplacedBlock {
            ino: identity.ino.into(),
            block: identity.block.into(),
            version: identity.version.into(),
            last: last.into(),
            xattrs: identity.xattrs.into(),
            spare: [0; 7],
            pointer,
        }
    }

    /// The identity of the block.
    pub fn identity(&self) -> Identity {
        Identity {
            ino: self.ino.get(),
            version: self.version.get(),
            xattrs: self.xattrs != 0,
            block: self.block.get(),
        }
    }

    /// The order within a run: by identity, then by the newest snapshot that may have it.
    pub fn key(&self) -> (Identity, u32, u64) {
        (self.identity(), self.last.get(), self.pointer.birth())
    }

    /// # Errors
    /// If a field has a value that no writer gives it.
    pub fn check(&self) -> Result<(), Malformed> {
        let fits = self.xattrs <= 1
            && self.last.get() > 0
            && !self.pointer.is_none()
            && self.pointer.is_sane();
        match fits {
            true => Ok(()),
            false => Err(Malformed::new("history entry", format!("{self:?}"))),
        }
    }
}
