//! Where things are on the device, and the one rule of where the log goes on.

use crate::format::ifile::{IMAP_OFFSET, InodePlace};
use crate::format::inode::MAX_XATTR_BYTES;
use crate::format::node::{FANOUT, PACKED_SECTORS};
use crate::format::summary::MAX_PARTIAL_BYTES;
use crate::format::superblock::incompat_flags;
use crate::format::{LogPosition, NodeHeader, PackedHeader, SECTOR, Superblock};

/// The measures of a volume, from its superblock.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Bytes in a logical block.
    pub block_bytes: u32,
    /// Partial segments begin and end on multiples of this many bytes.
    pub write_unit: u32,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Bytes in an inode.
    pub inode_bytes: u32,
    /// Number of segments.
    pub segment_count: u32,
    /// Byte address of segment 0.
    pub first_segment: u64,
    /// Segments with a multiple of this number begin with a superblock copy.
    pub copy_stride: u32,
    /// Segments held back from users.
    pub reserve_segments: u32,
    /// Full blocks stand on write units, and holes may be written into.
    pub aligned: bool,
    /// Index nodes may be packed.
    pub packed: bool,
    /// Extended attributes may take more than 65536 bytes.
    pub long_xattrs: bool,
    /// Blocks may be spilled.
    pub spills: bool,
    /// The volume may have snapshots.
    pub snapshots: bool,
    /// Summaries may name segments beyond the end.
    pub shrunk: bool,
}

impl From<&Superblock> for Geometry {
    fn from(sb: &Superblock) -> Self {
        Geometry {
            block_bytes: sb.block_bytes.get(),
            write_unit: sb.write_unit.get(),
            segment_bytes: sb.segment_bytes.get(),
            inode_bytes: sb.inode_bytes.get(),
            segment_count: sb.segment_count.get(),
            first_segment: sb.first_segment.get(),
            copy_stride: sb.copy_stride.get(),
            reserve_segments: sb.reserve_segments.get(),
            aligned: sb.incompat.get() & incompat_flags::ALIGNED != 0,
            packed: sb.incompat.get() & incompat_flags::PACKED != 0,
            long_xattrs: sb.incompat.get() & incompat_flags::LONG_XATTRS != 0,
            spills: sb.incompat.get() & incompat_flags::SPILLS != 0,
            snapshots: sb.incompat.get() & incompat_flags::SNAPSHOTS != 0,
            shrunk: sb.incompat.get() & incompat_flags::SHRUNK != 0,
        }
    }
}

impl Geometry {
    /// Byte address of `offset` within `segment`.
    pub fn byte(&self, segment: u32, offset: u32) -> u64 {
        self.first_segment + u64::from(segment) * u64::from(self.segment_bytes) + u64::from(offset)
    }

    /// The segment that holds `sector`, if one does.
    pub fn segment_of(&self, sector: u64) -> Option<u32> {
        let byte = sector
            .checked_mul(SECTOR)?
            .checked_sub(self.first_segment)?;
        let segment = byte / u64::from(self.segment_bytes);
        (segment < u64::from(self.segment_count)).then_some(segment as u32)
    }

    /// True if `sectors` sectors from `sector` lie within one segment.
    pub fn within_segment(&self, sector: u64, sectors: u64) -> bool {
        let last = sector.checked_add(sectors.saturating_sub(1));
        match (
            self.segment_of(sector),
            last.and_then(|l| self.segment_of(l)),
        ) {
            (Some(first), Some(last)) => first == last,
            _ => false,
        }
    }

    /// Bytes of all segments together.
    pub fn volume_bytes(&self) -> u64 {
        u64::from(self.segment_count) * u64::from(self.segment_bytes)
    }

    /// Byte offset, within a segment, of its first partial segment.
    pub fn payload_start(&self, segment: u32) -> u32 {
        if segment.is_multiple_of(self.copy_stride) {
            self.write_unit
        } else {
            0
        }
    }

    /// Bytes of a segment that partial segments can use.
    pub fn payload_bytes(&self, segment: u32) -> u32 {
        self.segment_bytes - self.payload_start(segment)
    }

    /// Bytes every segment offers, whether it holds a superblock or not.
    pub fn usable_bytes(&self) -> u32 {
        self.segment_bytes - self.write_unit
    }

    /// True if another partial segment may start at `offset` of a segment: a
    /// summary and one block still fit. The writer asks before appending,
    /// roll-forward and the cleaner before parsing (protocol rule 8).
    pub fn partial_fits(&self, offset: u32) -> bool {
        let least = (self.write_unit + self.block_bytes).next_multiple_of(self.write_unit);
        offset
            .checked_add(least)
            .is_some_and(|end| end <= self.segment_bytes)
    }

    /// Where the partial behind `position` starts: its segment and offset,
    /// and whether that opens the named next segment.
    pub fn successor(&self, position: &LogPosition) -> (u32, u32, bool) {
        if self.partial_fits(position.offset.get()) {
            (position.segment.get(), position.offset.get(), false)
        } else {
            let next = position.next_segment.get();
            (next, self.payload_start(next), true)
        }
    }

    /// Sectors of the write unit that full blocks are aligned to, if they are.
    pub fn aligned_unit(&self) -> Option<u64> {
        self.aligned.then_some(u64::from(self.write_unit) / SECTOR)
    }

    /// True if a block of so many sectors stands on a write unit, where blocks
    /// are aligned: it has the whole block size.
    pub fn is_full(&self, sectors: u32) -> bool {
        u64::from(sectors) * SECTOR == u64::from(self.block_bytes)
    }

    /// Largest partial segment in bytes: never a whole segment, or it would
    /// hide its successor's place when damaged; and at most 1 MiB, so that
    /// buffers stay small.
    pub fn max_partial(&self) -> u32 {
        (self.usable_bytes() - 2 * self.write_unit.max(self.block_bytes)).min(MAX_PARTIAL_BYTES)
    }

    /// Bytes of content that one group of the file system holds at most.
    pub fn group_bytes(&self) -> u64 {
        let volume = self.volume_bytes();
        (volume / 64).clamp(64 << 10, 16 << 20)
    }

    /// Bits that a pointer of a packed index node takes at most on this volume:
    /// its address, stored sectors, one flag, birth, incarnation and checksum.
    ///
    /// A partial segment takes a write unit of a segment that was opened for it,
    /// and openings are counted in 32 bits: so many serials can ever be.
    fn pointer_bits(&self) -> u64 {
        let bits = |most: u64| u64::from(u64::BITS - most.leading_zeros());
        let address = bits((self.first_segment + self.volume_bytes()) / SECTOR);
        let sectors = bits(u64::from(self.block_bytes.max(4096)) / SECTOR - 1);
        let birth = 32 + bits(u64::from(self.segment_bytes / self.write_unit));
        address + sectors + 1 + birth + 32 + 32
    }

    /// Most bytes that an index node of so many pointers is stored in, whatever
    /// they are.
    pub fn node_bytes(&self, pointers: u64) -> u64 {
        let whole = |bytes: u64| bytes.next_multiple_of(SECTOR);
        let plain = whole(size_of::<NodeHeader>() as u64 + 32 * pointers);
        if !self.packed {
            return plain;
        }
        // Each of five columns may leave a part of its last byte.
        let columns = (pointers * self.pointer_bits()).div_ceil(8) + 5;
        let headers = size_of::<NodeHeader>() + size_of::<PackedHeader>();
        let packed = whole(headers as u64 + columns);
        plain.min(packed.max(PACKED_SECTORS * SECTOR))
    }

    /// Bytes of a group that holds hardly anything.
    pub fn least_group(&self) -> u64 {
        u64::from(self.write_unit).max(4096)
    }

    /// Most bytes that writing an index node takes: itself, and its share of summaries
    /// and padding.
    pub fn largest_node(&self) -> u64 {
        self.node_bytes(FANOUT) + SECTOR
    }

    /// Bytes by which packed index nodes can grow for each block of their files,
    /// when pointers in them become less alike: from two sectors to
    /// [`Geometry::node_bytes`], and a thirtieth of it for the nodes above, as
    /// what can grow has more than thirty pointers.
    pub fn node_growth(&self) -> u64 {
        if !self.packed {
            return 0;
        }
        // A plain node of 111 pointers grows by 27.7 for each, others by less;
        // a packed one by no more than a full one whose last sector just began.
        let packed = 81 + (SECTOR - 1) + FANOUT * self.pointer_bits() / 8;
        let grown = packed - PACKED_SECTORS * SECTOR;
        (grown * 31 / 30 / FANOUT + 1).min(29)
    }

    /// Pointers in an inode.
    pub fn root_slots(&self) -> usize {
        crate::format::inode::slots(self.inode_bytes as usize)
    }

    /// Bytes of content an inode can hold.
    pub fn inline_bytes(&self) -> usize {
        self.inode_bytes as usize - crate::format::inode::HEADER_BYTES
    }

    /// Most bytes of extended attributes: one pointer leads to them, and they must
    /// fit one partial segment.
    pub fn xattr_bytes(&self) -> usize {
        let room = self.max_partial() as usize - self.write_unit as usize;
        let most = if self.long_xattrs {
            MAX_XATTR_BYTES
        } else {
            1 << 16
        };
        room.min(most)
    }

    /// The ifile block with the map entry of `ino`.
    pub fn imap_block(&self, ino: u64) -> u64 {
        IMAP_OFFSET / u64::from(self.block_bytes) + ino / self.entries_per_block()
    }

    /// Inodes in a sector.
    pub fn inodes_per_sector(&self) -> u32 {
        (SECTOR as u32 / self.inode_bytes).max(1)
    }

    /// Entries of either table in one block of the ifile.
    pub fn entries_per_block(&self) -> u64 {
        u64::from(self.block_bytes) / crate::format::ifile::ENTRY_BYTES as u64
    }

    /// Blocks that so many entries of a table take: of the inode map, where the
    /// numbers end at that.
    pub fn entry_blocks(&self, entries: u64) -> u64 {
        entries.div_ceil(self.entries_per_block())
    }
}

/// The place of inode number `nth` of a partial segment whose inodes begin
/// `inode_start` bytes behind `sector`. Writer and reader share it.
pub fn inode_place(
    geometry: &Geometry,
    sector: u64,
    inode_start: usize,
    nth: u32,
    birth: u64,
    crc: u32,
    incarnation: u32,
) -> InodePlace {
    let at = inode_start as u64 + u64::from(nth) * u64::from(geometry.inode_bytes);
    InodePlace {
        sector: sector + at / SECTOR,
        slot: (at % SECTOR / u64::from(geometry.inode_bytes)) as u8,
        birth,
        crc,
        incarnation,
    }
}

#[cfg(test)]
pub(crate) mod tests;
