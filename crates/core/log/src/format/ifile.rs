//! The ifile: usage table, inode map and unfinished inodes in an ordinary file.
//!
//! A sparse file with three regions at fixed byte offsets, so that each can grow without
//! moving another (thesis §6.3.2, figure 6-9):
//!
//! | region | offset | entry | number |
//! |---|---|---|---|
//! | usage table | 0 | [`UsageEntry`], 32 bytes | one per segment |
//! | unfinished inodes | 2^31 | inode number, 8 bytes | stated in the checkpoint |
//! | inode map | 2^32 | [`ImapEntry`], 32 bytes | one per inode number |
//!
//! The head of the free list and the count of its numbers are in the checkpoint record.
//! Free inodes form a doubly linked list through their map entries.

use super::{Malformed, pointer::MAX_SECTOR};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Byte offset of the usage table.
pub const USAGE_OFFSET: u64 = 0;
/// Byte offset of the list of unfinished inodes.
pub const UNFINISHED_OFFSET: u64 = 1 << 31;
/// Byte offset of the inode map.
pub const IMAP_OFFSET: u64 = 1 << 32;
/// Bytes in an entry of either table.
pub const ENTRY_BYTES: usize = 32;
/// Highest inode number: links of the free list have 48 bits.
pub const MAX_INO: u64 = MAX_SECTOR;

/// State of one segment at a checkpoint.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct UsageEntry {
    /// Bytes of blocks and inodes that are live.
    pub live_bytes: U32,
    /// Number of segments opened until this one was, itself included.
    pub incarnation: U32,
    /// Bits of [`usage_flags`].
    pub flags: U32,
    /// Zero.
    pub spare: U32,
    /// Youngest user write in it, in nanoseconds since 1970.
    pub newest_ns: I64,
    /// First checkpoint at which it was empty; [`NOT_EMPTY`] while it is not.
    pub empty_since: U64,
}
const _: () = assert!(size_of::<UsageEntry>() == ENTRY_BYTES);

/// [`UsageEntry::empty_since`] of a segment in use.
pub const NOT_EMPTY: u64 = u64::MAX;

/// Bits of [`UsageEntry::flags`].
pub mod usage_flags {
    /// A block of it failed its checksum when the cleaner read it, so it is kept.
    pub const SUSPECT: u32 = 1 << 0;
    /// Since it was opened no checkpoint's image has had an inode, an index node or a
    /// block of the ifile in it (rule E3 of `docs/design/reuse.md`).
    pub const DATA_ONLY: u32 = 1 << 1;
    /// Blocks have been written into its holes since it was opened: it may have
    /// a map (`docs/design/holes.md`).
    pub const PLUGGED: u32 = 1 << 2;
    /// Its holes were written into after the position of the record before the table's.
    pub const PLUGGED_LATELY: u32 = 1 << 3;
}

/// Bits of the flags of an [`ImapEntry`].
mod imap_flags {
    pub const FREE: u8 = 1 << 0;
}

/// Entry of the inode map: the place of an inode, or links of the free list.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct ImapEntry {
    /// Bits 0-47 the sector (or the next free number), 48-55 the slot within it, 56-63
    /// flags. All zeros: never used.
    place: U64,
    /// Serial that first wrote this version (or the previous free number).
    birth: U64,
    /// CRC-32C of the inode's bytes.
    crc: U32,
    /// Generation; for a free number, that of its next file.
    version: U32,
    /// Incarnation of the segment.
    incarnation: U32,
    /// Number of the newest snapshot when the inode last changed; 0 if there was none.
    epoch: U32,
}
const _: () = assert!(size_of::<ImapEntry>() == ENTRY_BYTES);

/// Where an inode is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InodePlace {
    /// Sector with its first byte.
    pub sector: u64,
    /// Index of the inode within the sector.
    pub slot: u8,
    /// Serial that first wrote this version.
    pub birth: u64,
    /// CRC-32C of its bytes.
    pub crc: u32,
    /// Incarnation of the segment.
    pub incarnation: u32,
}

/// The meaning of an [`ImapEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImapState {
    /// The number was never used.
    Unused,
    /// The number is free.
    Free {
        /// Version of its next file.
        next_version: u32,
        /// Previous number on the free list; 0 if there is none.
        previous: u64,
        /// Next number on the free list; 0 if there is none.
        next: u64,
    },
    /// The number has an inode.
    Used {
        /// Generation of the number.
        version: u32,
        /// Place of the inode.
        place: InodePlace,
        /// Number of the newest snapshot when the inode last changed for a user; 0 if
        /// there was none. Snapshots with a greater number have this image.
        epoch: u32,
    },
}

impl ImapEntry {
    /// Encodes a state.
    pub fn new(state: ImapState) -> Self {
        match state {
            ImapState::Unused => ImapEntry::default(),
            ImapState::Free {
                next_version,
                previous,
                next,
            } => ImapEntry {
                place: U64::new(next | u64::from(imap_flags::FREE) << 56),
                birth: U64::new(previous),
                version: U32::new(next_version),
                ..ImapEntry::default()
            },
            ImapState::Used {
                version,
                place,
                epoch,
            } => ImapEntry {
                place: U64::new(place.sector | u64::from(place.slot) << 48),
                birth: U64::new(place.birth),
                crc: U32::new(place.crc),
                version: U32::new(version),
                incarnation: U32::new(place.incarnation),
                epoch: U32::new(epoch),
            },
        }
    }

    /// Decodes the entry.
    ///
    /// # Errors
    /// If it has unknown flags, or links to an impossible number.
    pub fn state(&self) -> Result<ImapState, Malformed> {
        let place = self.place.get();
        let flags = (place >> 56) as u8;
        match flags {
            0 if place == 0 => Ok(ImapState::Unused),
            0 => Ok(ImapState::Used {
                version: self.version.get(),
                place: InodePlace {
                    sector: place & MAX_SECTOR,
                    slot: (place >> 48) as u8,
                    birth: self.birth.get(),
                    crc: self.crc.get(),
                    incarnation: self.incarnation.get(),
                },
                epoch: self.epoch.get(),
            }),
            imap_flags::FREE if self.birth.get() > MAX_INO => Err(Malformed::new(
                "inode map entry",
                format!("free list leads back to {}", self.birth),
            )),
            imap_flags::FREE => Ok(ImapState::Free {
                next_version: self.version.get(),
                previous: self.birth.get(),
                next: place & MAX_SECTOR,
            }),
            _ => Err(Malformed::new(
                "inode map entry",
                format!("flags {flags:#x}"),
            )),
        }
    }
}
