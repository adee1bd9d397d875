//! The summary at the head of every partial segment.
//!
//! ```text
//! | SummaryHeader | entries … | zeros to the sector | blocks … | inodes … | padding to the write unit |
//! ```
//!
//! Where blocks are aligned ([`summary_flags::ALIGNED`]):
//!
//! ```text
//! | SummaryHeader | entries … | zeros to the sector | inodes … | shorter blocks … |
//! | zeros to the write unit | full blocks … |
//! ```
//!
//! That takes no more space than the other order.
//!
//! The header names its place in the chain (protocol rules 8 to 11); the entries list, in
//! arrival order, every block and inode of the payload and the records that blocks cannot
//! express. Blocks, or full and shorter ones, and inodes are stored in entry order each,
//! so no entry needs an address, except those of *plugs* and *maps*, which are in other
//! segments (`docs/design/holes.md`). The header's checksum covers header and entries,
//! and the entries contain the checksums of blocks and inodes: data is checksummed once.

use super::checkpoint::FURTHER_HEADS;
use super::inode::MAX_HEIGHT;
use super::superblock::MAX_SEGMENT_BYTES;
use super::{Malformed, Mark, crc32c, crc32c_of};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every summary.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VSUM");

/// Most bytes of a partial segment with entries, so that buffers stay small, and a
/// crafted one cannot demand large ones. A filler, which has none, may extend to the end
/// of its segment.
pub const MAX_PARTIAL_BYTES: u32 = 1 << 20;

/// Bits of [`SummaryHeader::flags`].
pub mod summary_flags {
    /// The group begins here; an unfinished one before it is discarded.
    pub const FIRST: u16 = 1 << 0;
    /// The group ends here, and is applied if this partial is valid.
    pub const LAST: u16 = 1 << 1;
    /// Written by a checkpoint: roll-forward verifies and skips it.
    pub const CHECKPOINT: u16 = 1 << 2;
    /// Written by the cleaner.
    pub const CLEANER: u16 = 1 << 3;
    /// Full blocks are aligned to write units.
    pub const ALIGNED: u16 = 1 << 4;
    /// Blocks of a transaction that may never be part of a file: roll-forward verifies
    /// and skips it. [`PLACED`](super::entry_kind::PLACED) entries make them part of a
    /// file.
    pub const SPILLED: u16 = 1 << 5;
    /// Flags of which none is set on changes by users.
    pub const NOT_ORDINARY: u16 = CHECKPOINT | CLEANER | SPILLED;
    /// Every flag this version understands.
    pub const KNOWN: u16 = FIRST | LAST | CHECKPOINT | CLEANER | ALIGNED | SPILLED;
}

/// Fixed part of a summary, 128 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct SummaryHeader {
    /// CRC-32C of every later byte of the header and of all entries.
    pub crc: U32,
    /// Always [`MAGIC`].
    pub magic: U32,
    /// First eight bytes of the volume's UUID.
    pub volume_tag: U64,
    /// One more than the previous partial segment's; a gap ends roll-forward.
    pub serial: U64,
    /// Sector address of this summary, by which a misplaced one is recognised.
    pub sector: U64,
    /// Last serial known to be flushed when this one was written (rule 11).
    pub durable_through: U64,
    /// Random identity of the mount that wrote it (rule 9).
    pub mount_id: U64,
    /// CRC-32C of the previous summary, `crc` field included (rule 9).
    pub predecessor: U32,
    /// Number of the mount that wrote it; never decreases along the chain.
    pub incarnation: U32,
    /// The segment in which the log continues when this one is full (rule 8).
    pub next_segment: U32,
    /// Incarnation of this segment: number of segments opened until it was.
    pub segment_incarnation: U32,
    /// Bytes of entries after the header.
    pub entry_bytes: U32,
    /// Sectors of the whole partial segment; a multiple of the write unit.
    pub sectors: U32,
    /// Bits of [`summary_flags`].
    pub flags: U16,
    /// Members of a virtual segment; 1 unless reordering buffers are in use.
    pub members: U16,
    /// Entries after the header.
    pub entry_count: U32,
    /// Time of the write, in nanoseconds since 1970.
    pub written_ns: I64,
    /// Inodes in use after the group.
    pub inodes_used: U64,
    /// Blocks in use after the group.
    pub blocks_used: U64,
    /// Sectors in use after the group.
    pub sectors_used: U64,
    /// The head of the log it belongs to, from 0.
    pub head: u8,
    /// 1 if a group of another volume's log was replayed with this one.
    pub replays: u8,
    /// Checksum of the mark at the end of that group.
    pub replayed_check: U32,
    /// Serial of that mark.
    pub replayed_serial: U64,
    /// Zero.
    pub spare: [u8; 2],
}
const _: () = assert!(size_of::<SummaryHeader>() == 128);

/// Bytes of a [`SummaryHeader`].
pub const HEADER_BYTES: usize = size_of::<SummaryHeader>();

impl SummaryHeader {
    /// The checksum over header and entries.
    pub fn computed_crc(&self, entries: &[u8]) -> u32 {
        crc32c_of(&[&self.as_bytes()[4..], entries])
    }

    /// The `predecessor` field of the successor.
    pub fn chain_crc(&self) -> u32 {
        crc32c(self.as_bytes())
    }

    /// Sectors of header and entries.
    pub fn summary_sectors(&self) -> u64 {
        (HEADER_BYTES as u64 + u64::from(self.entry_bytes.get())).div_ceil(super::SECTOR)
    }

    /// Parses the fixed part found at `sector`. Entries are checked by
    /// [`SummaryHeader::verify_entries`] once they have been read.
    ///
    /// # Errors
    /// If it is not a summary of this volume for this place.
    pub fn parse(bytes: &[u8], volume_tag: u64, sector: u64) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("summary", problem);
        let (header, _) =
            SummaryHeader::read_from_prefix(bytes).map_err(|_| bad("too short".into()))?;
        if header.magic.get() != MAGIC {
            return Err(bad("no summary here".into()));
        }
        if header.volume_tag.get() != volume_tag {
            return Err(bad("belongs to another volume".into()));
        }
        if header.sector.get() != sector {
            return Err(bad(format!("written for sector {}", header.sector)));
        }
        if header.flags.get() & !summary_flags::KNOWN != 0 || header.members.get() != 1 {
            return Err(bad(format!("unknown flags {:#x}", header.flags)));
        }
        if usize::from(header.head) > FURTHER_HEADS {
            return Err(bad(format!("there is no head {}", header.head)));
        }
        if header.summary_sectors() > u64::from(header.sectors.get()) {
            return Err(bad("entries exceed the partial segment".into()));
        }
        let filler = header.entry_bytes.get() == 0;
        let most = if filler {
            MAX_SEGMENT_BYTES
        } else {
            MAX_PARTIAL_BYTES
        };
        if u64::from(header.sectors.get()) * super::SECTOR > u64::from(most) {
            return Err(bad(format!("{} sectors are too many", header.sectors)));
        }
        Ok(header)
    }

    /// Checks the checksum over `entries`, which must be `entry_bytes` long.
    ///
    /// # Errors
    /// If it does not match.
    pub fn verify_entries(&self, entries: &[u8]) -> Result<(), Malformed> {
        let computed = self.computed_crc(entries);
        if computed == self.crc.get() {
            Ok(())
        } else {
            Err(Malformed::checksum("summary", computed, self.crc.get()))
        }
    }

    /// The mark of a copy after this group; `None` if the group is the volume's own.
    pub fn replayed(&self) -> Option<Mark> {
        let mark = Mark {
            serial: self.replayed_serial.get(),
            check: self.replayed_check.get(),
        };
        (self.replays == 1).then_some(mark)
    }

    /// True if `flag` is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags.get() & flag != 0
    }
}

/// First byte of each entry.
pub mod entry_kind {
    /// The entries that follow belong to this file: [`super::FileEntry`].
    pub const FILE: u8 = 1;
    /// A data block: [`super::BlockEntry`].
    pub const BLOCK: u8 = 2;
    /// The extended attributes: [`super::BlockEntry`] with `block` 0.
    pub const XATTRS: u8 = 3;
    /// An index node: [`super::BlockEntry`], `block` its number in its level.
    pub const NODE: u8 = 4;
    /// An inode: [`super::InodeEntry`].
    pub const INODE: u8 = 5;
    /// A page of a segment's map: [`super::BlockEntry`] of a plug, `block` the
    /// segment. It belongs to no file.
    pub const MAP: u8 = 6;
    /// Blocks that have been spilled become part of the file: [`super::PlacedEntry`].
    pub const PLACED: u8 = 7;
    /// The inode is free: [`super::RecordEntry`], `from` the next version.
    pub const FREED: u8 = 16;
    /// Blocks from `from` on were removed: [`super::RecordEntry`].
    pub const TRUNCATED: u8 = 17;
    /// Blocks `from..to` were removed: [`super::RecordEntry`].
    pub const PUNCHED: u8 = 18;
    /// Blocks `from..to` are reserved: [`super::RecordEntry`].
    pub const RESERVED: u8 = 19;
}

/// Bits of the `flags` of block and inode entries.
pub mod entry_flags {
    /// Moved by the cleaner: `source` is the former sector address.
    pub const MOVED: u8 = 1 << 0;
    /// Stored in a hole of another segment: `source` is its sector address, `birth` the
    /// incarnation of that segment.
    pub const PLUG: u8 = 1 << 1;
    /// With MOVED: the block is old enough to be part of a snapshot. If its file no
    /// longer leads to it, the copy is kept for snapshots.
    pub const KEPT: u8 = 1 << 2;
}

/// Names the file of the entries that follow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct FileEntry {
    /// Always [`entry_kind::FILE`].
    pub kind: u8,
    /// Zero.
    pub spare: [u8; 3],
    /// The inode's version.
    pub version: U32,
    /// Inode number.
    pub ino: U64,
}
const _: () = assert!(size_of::<FileEntry>() == 16);

/// One stored block.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct BlockEntry {
    /// One of [`entry_kind`].
    pub kind: u8,
    /// Stored sectors.
    pub sectors: u8,
    /// Bits of [`entry_flags`].
    pub flags: u8,
    /// Height of an index node, from 1; 0 for other kinds.
    pub height: u8,
    /// CRC-32C of the stored sectors.
    pub crc: U32,
    /// Logical block, or number of the node in its level.
    pub block: U64,
    /// Serial that first wrote this version; 0 means this partial's.
    pub birth: U64,
    /// Last user write, in nanoseconds since 1970.
    pub written_ns: I64,
    /// With [`entry_flags::MOVED`], the former sector address; with [`entry_flags::PLUG`]
    /// the block's own; else zero.
    pub source: U64,
}
const _: () = assert!(size_of::<BlockEntry>() == 40);

/// One stored inode.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct InodeEntry {
    /// Always [`entry_kind::INODE`].
    pub kind: u8,
    /// Bits of [`entry_flags`].
    pub flags: u8,
    /// With MOVED, the slot within the former sector.
    pub source_slot: u8,
    /// Zero.
    pub spare: u8,
    /// CRC-32C of the inode's bytes.
    pub crc: U32,
    /// Serial that first wrote this version; 0 means this partial's.
    pub birth: U64,
    /// With MOVED, the former sector address; else zero.
    pub source: U64,
}
const _: () = assert!(size_of::<InodeEntry>() == 24);

/// A change that no block expresses.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RecordEntry {
    /// One of [`entry_kind`] from `FREED` on.
    pub kind: u8,
    /// Zero.
    pub spare: [u8; 7],
    /// First block, or the next version.
    pub from: U64,
    /// First block after the range; zero if there is none.
    pub to: U64,
}
const _: () = assert!(size_of::<RecordEntry>() == 24);

/// Adjacent blocks that were spilled; a checksum of 4 bytes for each follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct PlacedEntry {
    /// Always [`entry_kind::PLACED`].
    pub kind: u8,
    /// Stored sectors of each block.
    pub sectors: u8,
    /// Number of blocks, 1 to [`PLACED_AT_ONCE`].
    pub count: U16,
    /// Incarnation of their segment.
    pub incarnation: U32,
    /// First logical block.
    pub block: U64,
    /// Serial of the partial that contains them.
    pub birth: U64,
    /// Sector address of the first.
    pub sector: U64,
    /// Last user write of the first, in nanoseconds since 1970.
    pub written_ns: I64,
}
const _: () = assert!(size_of::<PlacedEntry>() == 40);

/// Most blocks of a [`PlacedEntry`].
pub const PLACED_AT_ONCE: u16 = 128;

/// A [`PlacedEntry`] with its checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// The fixed part.
    pub entry: PlacedEntry,
    /// CRC-32C of the stored sectors of each block.
    pub crcs: &'a [U32],
    /// All bytes of the entry.
    pub bytes: &'a [u8],
}

/// A parsed entry. It belongs to the file of the last `File` before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Sets the current file.
    File(FileEntry),
    /// A block, extended attributes or an index node.
    Block(BlockEntry),
    /// An inode.
    Inode(InodeEntry),
    /// A record.
    Record(RecordEntry),
    /// Spilled blocks that become part of the file.
    Placed(Placed<'a>),
}

/// Walks the entries of a summary. Ends after the first malformed one.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Entries<'a> {
    /// Walks over exactly the entry bytes of a summary.
    pub fn new(bytes: &'a [u8]) -> Self {
        Entries {
            rest: bytes,
            failed: false,
        }
    }

    fn take<T: FromBytes + KnownLayout + Immutable + Unaligned>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.rest).ok()?;
        self.rest = rest;
        Some(value)
    }

    fn placed(&mut self) -> Option<Entry<'a>> {
        let all = self.rest;
        let entry: PlacedEntry = self.take()?;
        let count = entry.count.get();
        let (crcs, rest) = <[U32]>::ref_from_prefix_with_elems(self.rest, count.into()).ok()?;
        self.rest = rest;
        let bytes = &all[..all.len() - rest.len()];
        let plausible = entry.sectors > 0 && (1..=PLACED_AT_ONCE).contains(&count);
        plausible.then_some(Entry::Placed(Placed { entry, crcs, bytes }))
    }

    fn parse(&mut self, kind: u8) -> Option<Entry<'a>> {
        match kind {
            entry_kind::FILE => self.take().map(Entry::File),
            entry_kind::BLOCK | entry_kind::XATTRS | entry_kind::NODE | entry_kind::MAP => {
                let entry: BlockEntry = self.take()?;
                let node = kind == entry_kind::NODE;
                let heights = if node { 1..=MAX_HEIGHT } else { 0..=0 };
                (entry.sectors > 0 && heights.contains(&entry.height))
                    .then_some(Entry::Block(entry))
            }
            entry_kind::INODE => self.take().map(Entry::Inode),
            entry_kind::PLACED => self.placed(),
            entry_kind::FREED..=entry_kind::RESERVED => self.take().map(Entry::Record),
            _ => None,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = *self.rest.first()?;
        if self.failed {
            return None;
        }
        let left = self.rest.len();
        match self.parse(kind) {
            Some(entry) => Some(Ok(entry)),
            None => {
                self.failed = true;
                Some(Err(Malformed::new(
                    "summary entry",
                    format!("kind {kind} with {left} bytes left"),
                )))
            }
        }
    }
}
