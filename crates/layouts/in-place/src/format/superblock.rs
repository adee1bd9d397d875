//! The superblock: in the first block, at the head of each cylinder group, and in
//! the last block. Up to the block size it is laid out as the other layouts'.

use super::{DiskPolicy, Geometry, Metadata};
use varve_format::identity::{keeping_tag, padded_text, tag_of};
use varve_format::{Malformed, crc32c};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of the superblock.
pub const MAGIC: [u8; 8] = *b"VARVEFF\x01";
/// Format version: another one cannot be read.
pub const VERSION: u16 = 1;
/// Incompatible feature: the tag is [`Superblock::tag`]: the UUID was changed.
pub const OWN_TAG: u64 = 1;
/// Incompatible feature: metadata is written in place; whoever opens the volume
/// must look whether it was unmounted ([`super::JournalHead::is_dirty`]).
pub const IN_PLACE: u64 = 2;
const CHECKSUM_CRC32C: u8 = 1;

/// One copy of the superblock, 512 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// CRC-32C of every later byte of the structure.
    pub crc: U32,
    /// The version of the format, 1.
    pub version: U16,
    /// 1: CRC-32C.
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
    /// Name for people: UTF-8, padded with zeros.
    pub label: [u8; 64],
    /// Seed of directory hashes.
    pub hash_seed: U64,
    /// Bytes in a block.
    pub block_bytes: U32,
    /// Bytes in a fragment.
    pub fragment_bytes: U32,
    /// Blocks of the volume.
    pub blocks: U64,
    /// Blocks of the journal.
    pub journal_blocks: U64,
    /// Blocks of a cylinder group.
    pub group_blocks: U64,
    /// Inodes of a cylinder group.
    pub group_inodes: U64,
    /// Blocks that users do not get (minfree).
    pub reserve_blocks: U64,
    /// Blocks of a file that lie behind each other before a gap.
    pub maxcontig: U32,
    /// Blocks of the gap.
    pub rotdelay: U32,
    /// Bytes that are written whole, or not at all, or read as an error afterwards:
    /// a physical block of the device that the volume was made on.
    pub unit_bytes: U32,
    /// With [`IN_PLACE`], a number of [`Metadata`]; else 0.
    pub metadata: u8,
    /// Zero.
    pub spare: [u8; 3],
    /// Nanoseconds since 1970 when the volume was made.
    pub created_ns: I64,
    /// The tag of all other structures, with a tag of its own; else 0.
    pub tag: U64,
    /// Zero.
    pub padding: [u8; 240],
    /// How room is found.
    pub policy: DiskPolicy,
}
const _: () = assert!(size_of::<Superblock>() == 512);

impl Superblock {
    /// With its checksum.
    pub fn sealed(mut self) -> Self {
        self.crc = crc32c(&self.as_bytes()[12..]).into();
        self
    }

    /// Parses and validates a copy.
    ///
    /// # Errors
    /// Says which field is wrong.
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

    /// How metadata gets to its place.
    pub fn metadata(&self) -> Metadata {
        Metadata::of(self.metadata).unwrap_or_default()
    }

    /// The label as text.
    pub fn label_text(&self) -> String {
        padded_text(&self.label)
    }

    /// The tag in every other structure: the first eight bytes of the UUID that
    /// the volume was made with.
    pub fn volume_tag(&self) -> u64 {
        let own = self.incompat.get() & OWN_TAG != 0;
        tag_of(&self.uuid, own.then_some(self.tag.get()))
    }

    /// With another UUID; the tag stays.
    pub fn with_uuid(mut self, uuid: [u8; 16]) -> Self {
        let tag = self.volume_tag();
        let (incompat, kept) = keeping_tag(tag, &uuid, self.incompat.get(), OWN_TAG);
        (self.uuid, self.incompat, self.tag) = (uuid, incompat.into(), kept.into());
        self
    }
}
