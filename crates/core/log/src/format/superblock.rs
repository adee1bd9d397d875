//! The superblock: properties that never change while a volume is in use.
//!
//! Replicated: at byte 0, in the last write unit of the device, and at the start of every
//! segment whose number is a multiple of `copy_stride`. All copies are identical except
//! for `sector`; only the offline commands that relabel or resize a volume rewrite them,
//! with a higher `generation`.

use super::{Malformed, crc32c};
use varve_device::size::Bytes;
use varve_format::identity::{keeping_tag, padded_text, tag_of};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every superblock copy.
pub const MAGIC: [u8; 8] = *b"VARVEFS\x01";
/// Major format version: a different one cannot be read.
pub const VERSION: u16 = 1;
/// Checksum kind 1: CRC-32C.
pub const CHECKSUM_CRC32C: u8 = 1;

/// Most bytes of a segment.
pub const MAX_SEGMENT_BYTES: u32 = 1 << 30;

/// One copy of the superblock, 512 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Superblock {
    /// Always [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of every later byte of the structure.
    pub crc: U32,
    /// Always [`VERSION`].
    pub version: U16,
    /// Kind of the checksums in all structures.
    pub checksum_kind: u8,
    /// Bit 0: directory names compare without regard to case.
    pub options: u8,
    /// Features an older reader may ignore.
    pub compat: U64,
    /// Features an older reader may ignore if it does not write.
    pub read_only_compat: U64,
    /// Features an older reader must refuse.
    pub incompat: U64,
    /// Random identity of the volume.
    pub uuid: [u8; 16],
    /// Label: UTF-8, padded with zeros.
    pub label: [u8; 64],
    /// Seed of directory hashes.
    pub hash_seed: U64,
    /// Bytes in a logical block.
    pub block_bytes: U32,
    /// Partial segments begin and end at multiples of this many bytes.
    pub write_unit: U32,
    /// Bytes in a segment.
    pub segment_bytes: U32,
    /// Bytes in an inode.
    pub inode_bytes: U32,
    /// Number of segments.
    pub segment_count: U32,
    /// Bytes in one slot of the checkpoint ring.
    pub record_bytes: U32,
    /// Slots in the checkpoint ring.
    pub record_count: U32,
    /// Segments whose number is a multiple of this begin with a copy.
    pub copy_stride: U32,
    /// Byte address of segment 0.
    pub first_segment: U64,
    /// Byte address of the owner record.
    pub owner_offset: U64,
    /// Byte address of slot 0 of the checkpoint ring.
    pub ring_offset: U64,
    /// Bytes of the device that the volume covers.
    pub device_bytes: U64,
    /// Time at which the volume was made, in nanoseconds since 1970.
    pub created_ns: I64,
    /// Number of offline changes; the highest valid copy is used.
    pub generation: U64,
    /// Sector address of this copy.
    pub sector: U64,
    /// Segments reserved against users: see `docs/spec/log.md`, "Reserve".
    pub reserve_segments: U32,
    /// Zero.
    pub spare: [u8; 4],
    /// The volume tag, with [`incompat_flags::OWN_TAG`]; else 0.
    pub tag: U64,
    /// Zero.
    pub spare_2: [u8; 280],
}
const _: () = assert!(size_of::<Superblock>() == 512);
const _: () = assert!(std::mem::offset_of!(Superblock, crc) == 8);

/// Bits of [`Superblock::incompat`].
pub mod incompat_flags {
    /// Full blocks are aligned to the write unit, so that dead ones can be overwritten
    /// block by block (`docs/design/holes.md`).
    pub const ALIGNED: u64 = 1 << 0;
    /// Index nodes may be packed ([`crate::format::packed`]).
    pub const PACKED: u64 = 1 << 1;
    /// The extended attributes of a file may take more than 65536 bytes.
    pub const LONG_XATTRS: u64 = 1 << 2;

    /// The volume tag is [`Superblock::tag`](super::Superblock::tag): the UUID was
    /// changed.
    pub const OWN_TAG: u64 = 1 << 3;

    /// The volume has had more segments: summaries may name one beyond its end as the
    /// next, or describe blocks there, if the log has continued since.
    pub const SHRUNK: u64 = 1 << 4;

    /// Groups may contain blocks of transactions that have not been committed
    /// (`docs/design/transactions.md`, "Spilling").
    pub const SPILLS: u64 = 1 << 5;

    /// The volume may have snapshots (`docs/design/snapshots.md`).
    pub const SNAPSHOTS: u64 = 1 << 6;

    /// The features of a new volume.
    pub const ALL: u64 = ALIGNED | PACKED | LONG_XATTRS | SPILLS | SNAPSHOTS;
}

/// Incompatible features this version understands.
pub const KNOWN_INCOMPAT: u64 =
    incompat_flags::ALL | incompat_flags::OWN_TAG | incompat_flags::SHRUNK;
/// Bits of [`Superblock::read_only_compat`].
pub mod read_only_compat_flags {
    /// Groups of another volume's log may have been replayed: an implementation that
    /// writes one of its own must ensure that later checkpoints no longer state the mark
    /// (`docs/spec/stream.md`).
    pub const REPLAYED: u64 = 1 << 0;
}

/// Read-only-compatible features this version understands.
pub const KNOWN_READ_ONLY_COMPAT: u64 = read_only_compat_flags::REPLAYED;

impl Superblock {
    /// The copy for `sector`, with its checksum.
    pub fn sealed_for(mut self, sector: u64) -> Self {
        self.sector = U64::new(sector);
        self.crc = U32::new(self.computed_crc());
        self
    }

    fn computed_crc(&self) -> u32 {
        crc32c(&self.as_bytes()[12..])
    }

    /// Parses and validates a copy found at `sector`.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn parse(bytes: &[u8], sector: u64) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("superblock", problem);
        let (sb, _) = Superblock::read_from_prefix(bytes)
            .map_err(|_| bad("shorter than 512 bytes".into()))?;
        if sb.magic == varve_format::VIRTUAL_LOG_MAGIC {
            let problem = "a volume on the virtual log (VLFS), where this is not offered";
            return Err(bad(problem.into()));
        }
        if sb.magic != MAGIC {
            return Err(bad("no Varve signature".into()));
        }
        if sb.crc.get() != sb.computed_crc() {
            return Err(Malformed::checksum(
                "superblock",
                sb.computed_crc(),
                sb.crc.get(),
            ));
        }
        if sb.version.get() != VERSION {
            return Err(bad(format!(
                "format version {}, this program reads {VERSION}",
                sb.version
            )));
        }
        if sb.checksum_kind != CHECKSUM_CRC32C {
            return Err(bad(format!("unknown checksum kind {}", sb.checksum_kind)));
        }
        if sb.sector.get() != sector {
            return Err(bad(format!(
                "a copy for sector {} stands at {sector}",
                sb.sector
            )));
        }
        let unknown = sb.incompat.get() & !KNOWN_INCOMPAT;
        if unknown != 0 {
            return Err(bad(format!(
                "needs features {unknown:#x} this program lacks"
            )));
        }
        sb.check_geometry().map_err(bad)?;
        Ok(sb)
    }

    fn check_geometry(&self) -> Result<(), String> {
        let block = self.block_bytes.get();
        let unit = self.write_unit.get();
        let segment = self.segment_bytes.get();
        let inode = self.inode_bytes.get();
        let power = |name: &str, v: u32, low: u32, high: u32| {
            if v.is_power_of_two() && (low..=high).contains(&v) {
                Ok(())
            } else {
                Err(format!(
                    "{name}: {} is no power of two from {} to {}",
                    Bytes(v.into()),
                    Bytes(low.into()),
                    Bytes(high.into())
                ))
            }
        };
        power("block size", block, 4096, 65536)?;
        power("write unit", unit, 4096, 65536)?;
        if self.incompat.get() & incompat_flags::ALIGNED != 0 && block < unit {
            return Err(format!(
                "blocks of {block} bytes are said to stand on write units of {unit}"
            ));
        }
        power(
            "segment size",
            segment,
            16 * unit.max(block),
            MAX_SEGMENT_BYTES,
        )?;
        power("inode size", inode, 256, 4096)?;
        let count = u64::from(self.segment_count.get());
        let end = self
            .first_segment
            .get()
            .checked_add(count * u64::from(segment))
            .ok_or("segments end beyond 2^64")?;
        let fixed_end = self
            .ring_offset
            .get()
            .checked_add(u64::from(self.record_bytes.get()) * u64::from(self.record_count.get()))
            .ok_or("checkpoint ring ends beyond 2^64")?;
        let aligned = |v: u64| v.is_multiple_of(u64::from(unit));
        if count < 8 {
            return Err(format!("only {count} segments"));
        }
        if !(2..=64).contains(&self.record_count.get())
            || self.record_bytes.get() < 4096
            || self.record_bytes.get() > 1 << 28
            || !aligned(u64::from(self.record_bytes.get()))
        {
            return Err("checkpoint ring has an impossible shape".into());
        }
        if !aligned(self.first_segment.get())
            || !aligned(self.ring_offset.get())
            || !aligned(self.owner_offset.get())
            || self.owner_offset.get() < u64::from(unit)
            || self.ring_offset.get() < self.owner_offset.get().saturating_add(u64::from(unit))
            || self.first_segment.get() < fixed_end
        {
            return Err("fixed areas overlap or are misaligned".into());
        }
        if end > self.device_bytes.get()
            || self.device_bytes.get() > super::pointer::MAX_SECTOR * 512
        {
            return Err(format!(
                "segments end at byte {end}, the volume at {}",
                self.device_bytes
            ));
        }
        if self.copy_stride.get() == 0 || self.reserve_segments.get() >= self.segment_count.get() {
            return Err("copy stride or reserve is impossible".into());
        }
        Ok(())
    }

    /// The label as text.
    pub fn label_text(&self) -> String {
        padded_text(&self.label)
    }

    /// The tag in every other structure: the first eight bytes of the UUID with which the
    /// volume was made.
    pub fn volume_tag(&self) -> u64 {
        let own = self.incompat.get() & incompat_flags::OWN_TAG != 0;
        tag_of(&self.uuid, own.then_some(self.tag.get()))
    }

    /// The superblock with another UUID; the tag stays the same.
    pub fn with_uuid(mut self, uuid: [u8; 16]) -> Self {
        let tag = self.volume_tag();
        let (incompat, kept) =
            keeping_tag(tag, &uuid, self.incompat.get(), incompat_flags::OWN_TAG);
        (self.uuid, self.incompat, self.tag) = (uuid, incompat.into(), kept.into());
        self
    }

    /// True if names compare without regard to case.
    pub fn case_fold(&self) -> bool {
        self.options & 1 != 0
    }
}
