//! The superblock: in the first block, at the head of each cylinder group, and in the
//! last block. Its fields before the block size are those of the other layouts.

use super::{DiskPolicy, Geometry, Metadata};
use varve_format::identity::{keeping_tag, padded_text, tag_of};
use varve_format::{Malformed, crc32c};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Signature at the beginning of the superblock.
pub const MAGIC: [u8; 8] = *b"VARVEFF\x01";
/// Version of the format. A program reads only its own version.
pub const VERSION: u16 = 1;
/// Incompatible feature: the UUID was changed, so the tag is [`Superblock::tag`].
pub const OWN_TAG: u64 = 1;
/// Incompatible feature: metadata is written in place. A program that opens the volume
/// must check whether it was unmounted ([`super::JournalHead::is_dirty`]).
pub const IN_PLACE: u64 = 2;
const CHECKSUM_CRC32C: u8 = 1;

/// One copy of the superblock, 512 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// Always [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of every later byte of the structure.
    pub crc: U32,
    /// Version of the format, 1.
    pub version: U16,
    /// 1: CRC-32C.
    pub checksum_kind: u8,
    /// Bit 0: directory names compare without regard to case.
    pub options: u8,
    /// Features that an older reader may ignore.
    pub compat: U64,
    /// Features that an older reader may ignore if it does not write.
    pub read_only_compat: U64,
    /// Features because of which an older reader must refuse the volume.
    pub incompat: U64,
    /// UUID of the volume.
    pub uuid: [u8; 16],
    /// Name for people: UTF-8, padded with zeros.
    pub label: [u8; 64],
    /// Seed of directory hashes.
    pub hash_seed: U64,
    /// Size of a block, in bytes.
    pub block_bytes: U32,
    /// Size of a fragment, in bytes.
    pub fragment_bytes: U32,
    /// Number of blocks of the volume.
    pub blocks: U64,
    /// Number of blocks of the journal.
    pub journal_blocks: U64,
    /// Number of blocks of a cylinder group.
    pub group_blocks: U64,
    /// Number of inodes of a cylinder group.
    pub group_inodes: U64,
    /// Number of blocks that are reserved (minfree).
    pub reserve_blocks: U64,
    /// Number of contiguous blocks of a file before a gap.
    pub maxcontig: U32,
    /// Length of the gap, in blocks.
    pub rotdelay: U32,
    /// Size of the unit that is written whole, or not at all, or reads as an error
    /// afterwards, in bytes: a physical block of the device on which the volume was
    /// made.
    pub unit_bytes: U32,
    /// With [`IN_PLACE`], a number of [`Metadata`]; otherwise 0.
    pub metadata: u8,
    /// Unused, zero.
    pub spare: [u8; 3],
    /// Time of creation, in nanoseconds since 1970.
    pub created_ns: I64,
    /// With `OWN_TAG`, the tag of all other structures; otherwise 0.
    pub tag: U64,
    /// Unused, zero.
    pub padding: [u8; 240],
    /// The allocation policy.
    pub policy: DiskPolicy,
}
const _: () = assert!(size_of::<Superblock>() == 512);

impl Superblock {
    /// Returns the superblock with its checksum filled in.
    pub fn sealed(mut self) -> Self {
        self.crc = crc32c(&self.as_bytes()[12..]).into();
        self
    }

    /// Parses and validates a copy.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("superblock", problem);
        let (found, _) = Superblock::read_from_prefix(bytes)
            .map_err(|_| bad("shorter than 512 bytes".into()))?;
        if found.magic != MAGIC {
            return Err(bad("no FFS signature".into()));
        }
        let computed = crc32c(&found.as_bytes()[12..]);
        if computed != found.crc.get() {
            return Err(Malformed::checksum("superblock", computed, found.crc.get()));
        }
        if found.version.get() != VERSION || found.checksum_kind != CHECKSUM_CRC32C {
            return Err(bad(format!(
                "format version {} with checksum kind {}; this program reads {VERSION} with \
                 {CHECKSUM_CRC32C}",
                found.version, found.checksum_kind
            )));
        }
        let unknown = found.incompat.get() & !(OWN_TAG | IN_PLACE);
        if unknown != 0 {
            return Err(bad(format!(
                "needs features {unknown:#x} that this program lacks"
            )));
        }
        found.policy().map_err(|error| bad(error.to_string()))?;
        let in_place = found.incompat.get() & IN_PLACE != 0;
        if Metadata::of(found.metadata)?.is_in_place() != in_place {
            return Err(bad(format!("metadata kind {}", found.metadata)));
        }
        Geometry::of(&found).check().map_err(bad)?;
        Ok(found)
    }

    /// Returns the discipline of metadata writes.
    pub fn metadata(&self) -> Metadata {
        Metadata::of(self.metadata).unwrap_or_default()
    }

    /// Returns the label as text.
    pub fn label_text(&self) -> String {
        padded_text(&self.label)
    }

    /// Returns the tag of every other structure: the first eight bytes of the UUID with
    /// which the volume was made.
    pub fn volume_tag(&self) -> u64 {
        let own = self.incompat.get() & OWN_TAG != 0;
        tag_of(&self.uuid, own.then_some(self.tag.get()))
    }

    /// Returns the superblock with another UUID; the tag stays the same.
    pub fn with_uuid(mut self, uuid: [u8; 16]) -> Self {
        let tag = self.volume_tag();
        let (incompat, kept) = keeping_tag(tag, &uuid, self.incompat.get(), OWN_TAG);
        (self.uuid, self.incompat, self.tag) = (uuid, incompat.into(), kept.into());
        self
    }
}
