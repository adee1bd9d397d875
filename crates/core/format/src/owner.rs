//! The owner record: the process that has the volume mounted, or had it when it
//! stopped.
//!
//! The record is advisory and has a write unit of its own, which is overwritten in
//! place. A lock of the operating system prevents a second mount while the host runs;
//! this record tells people which process had mounted a volume that was not released.

use crate::identity::padded_text;
use crate::{Malformed, crc32c};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Magic number at the beginning of the record.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VOWN");

/// The owner record, 512 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct OwnerRecord {
    /// Always [`MAGIC`].
    pub magic: U32,
    /// CRC-32C of every later byte.
    pub crc: U32,
    /// The first eight bytes of the volume's UUID.
    pub volume_tag: U64,
    /// Identifier of the mount, as in its summaries.
    pub mount_id: U64,
    /// Process identifier on that host.
    pub pid: U32,
    /// 1 while mounted, 0 after a clean unmount.
    pub mounted: U32,
    /// Time of the mount, in nanoseconds since 1970.
    pub since_ns: I64,
    /// Boot identifier of the host, padded with zeros.
    pub boot_id: [u8; 40],
    /// Name of the host, padded with zeros.
    pub host: [u8; 64],
    /// Unused, zero.
    pub spare: [u8; 368],
}
const _: () = assert!(size_of::<OwnerRecord>() == 512);

impl OwnerRecord {
    /// Creates the record of a volume that `owner` mounted at `since_ns`; `mounted` is
    /// false after a clean unmount.
    pub fn of(
        owner: &OwnerIdentity,
        volume_tag: u64,
        mount_id: u64,
        mounted: bool,
        since_ns: i64,
    ) -> Self {
        let mut record = OwnerRecord {
            magic: MAGIC.into(),
            crc: 0.into(),
            volume_tag: volume_tag.into(),
            mount_id: mount_id.into(),
            pid: owner.pid.into(),
            mounted: u32::from(mounted).into(),
            since_ns: since_ns.into(),
            boot_id: [0; 40],
            host: [0; 64],
            spare: [0; 368],
        };
        fill(&mut record.boot_id, &owner.boot_id);
        fill(&mut record.host, &owner.host);
        record.sealed()
    }

    /// Returns the record with its checksum filled in.
    pub fn sealed(mut self) -> Self {
        self.crc = crc32c(&self.as_bytes()[8..]).into();
        self
    }

    /// Parses the record.
    ///
    /// # Errors
    /// If there is no record, or it is damaged. Neither prevents a mount.
    pub fn parse(bytes: &[u8], volume_tag: u64) -> Result<Self, Malformed> {
        let bad = |problem: &str| Malformed::new("owner record", problem);
        let (record, _) = OwnerRecord::read_from_prefix(bytes).map_err(|_| bad("too short"))?;
        if record.magic.get() != MAGIC || record.volume_tag.get() != volume_tag {
            return Err(bad("none"));
        }
        if record.crc.get() != crc32c(&record.as_bytes()[8..]) {
            return Err(bad("checksum differs"));
        }
        Ok(record)
    }

    /// Returns true if the owner has unmounted the volume.
    pub fn is_released(&self) -> bool {
        self.mounted.get() == 0
    }

    /// Returns the host's name as text.
    pub fn host_text(&self) -> String {
        padded_text(&self.host)
    }

    /// Returns the boot identifier as text.
    pub fn boot_text(&self) -> String {
        padded_text(&self.boot_id)
    }
}

/// Identifies the process that mounts a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerIdentity {
    /// Name of the host.
    pub host: String,
    /// Identifier of this boot of the host.
    pub boot_id: String,
    /// Process identifier.
    pub pid: u32,
}

fn fill(field: &mut [u8], text: &str) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}
