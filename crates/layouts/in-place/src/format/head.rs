//! The journal head: the position at which replay begins. Two copies alternate.

use varve_format::{Malformed, crc32c};
use varve_fs::Usage;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u32 = u32::from_le_bytes(*b"VFJH");

/// Flag: metadata is being changed in place.
const DIRTY: u32 = 1;

/// The numbers of inodes, blocks and sectors in use.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct DiskUsage {
    inodes: U64,
    blocks: U64,
    sectors: U64,
}

impl From<Usage> for DiskUsage {
    fn from(usage: Usage) -> Self {
        DiskUsage {
            inodes: usage.inodes.into(),
            blocks: usage.blocks.into(),
            sectors: usage.sectors.into(),
        }
    }
}

impl From<DiskUsage> for Usage {
    fn from(usage: DiskUsage) -> Self {
        Usage {
            inodes: usage.inodes.get(),
            blocks: usage.blocks.get(),
            sectors: usage.sectors.get(),
        }
    }
}

/// A journal head, 512 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct JournalHead {
    magic: U32,
    /// CRC-32C of every later byte.
    crc: U32,
    /// The volume's tag.
    pub tag: U64,
    /// One more than the serial of the head before.
    pub serial: U64,
    /// The mount whose records are valid.
    pub mount_id: U64,
    /// Position of the first record whose sectors are not yet written in place.
    pub first: U64,
    /// The usage of the volume without any record.
    pub usage: DiskUsage,
    /// Time of writing, in nanoseconds since 1970.
    pub written_ns: I64,
    flags: U32,
    spare: [u8; 436],
}
const _: () = assert!(size_of::<JournalHead>() == 512);

impl JournalHead {
    /// Creates a head with its checksum.
    pub fn new(tag: u64, serial: u64, mount_id: u64, first: u64, usage: Usage, now: i64) -> Self {
        let mut head = JournalHead {
            magic: MAGIC.into(),
            crc: 0.into(),
            tag: tag.into(),
            serial: serial.into(),
            mount_id: mount_id.into(),
            first: first.into(),
            usage: usage.into(),
            written_ns: now.into(),
            flags: 0.into(),
            spare: [0; 436],
        };
        head.crc = crc32c(&head.as_bytes()[8..]).into();
        head
    }

    /// Marks the head as dirty: metadata is being changed in place. A program that
    /// finds this mark must check the volume.
    pub fn dirty(mut self) -> Self {
        self.flags = DIRTY.into();
        self.crc = crc32c(&self.as_bytes()[8..]).into();
        self
    }

    /// Returns true if metadata was changed in place and the volume was not unmounted
    /// since.
    pub fn is_dirty(&self) -> bool {
        self.flags.get() & DIRTY != 0
    }

    /// Parses a copy.
    ///
    /// # Errors
    /// If there is no valid head.
    pub fn parse(bytes: &[u8], tag: u64) -> Result<Self, Malformed> {
        let bad = |problem: &str| Malformed::new("journal head", problem);
        let (head, _) = JournalHead::read_from_prefix(bytes).map_err(|_| bad("too short"))?;
        if head.magic.get() != MAGIC || head.tag.get() != tag {
            return Err(bad("none"));
        }
        if head.crc.get() != crc32c(&head.as_bytes()[8..]) {
            return Err(bad("checksum differs"));
        }
        // Both grow with each write, and no volume reaches half of this limit.
        match head.first.get().max(head.serial.get()) < 1 << 62 {
            true => Ok(head),
            false => Err(bad("a position or serial that no journal reaches")),
        }
    }
}
