//! The owner record: who has the volume mounted, or had it when it stopped.
//!
//! Advisory, one write unit of its own, overwritten in place: a lock of the
//! operating system keeps second mounts out while the host lives; this record
//! tells people who held a volume that was not released.

use crate::identity::padded_text;
use crate::{Malformed, crc32c};
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of the record.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VOWN");

/// The owner record, 512 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct OwnerRecord {
    /// [`MAGIC`].
    pub magic: U32,
    /// CRC-32C of every later byte.
    pub crc: U32,
    /// First eight bytes of the volume's UUID.
    pub volume_tag: U64,
    /// Identity of the mount, as in its summaries.
    pub mount_id: U64,
    /// Process on that host.
    pub pid: U32,
    /// 1 while mounted, 0 after a clean unmount.
    pub mounted: U32,
    /// Nanoseconds since 1970.
    pub since_ns: I64,
    /// Boot identity of the host.
    pub boot_id: [u8; 40],
    /// Host name, padded with zeros.
    pub host: [u8; 64],
    /// Zero.
    pub spare: [u8; 368],
}
const _: () = assert!(size_of::<OwnerRecord>() == 512);

impl OwnerRecord {
    /// That of a volume which `owner` has mounted, or had, from `since_ns` on.
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

    /// With its checksum filled in.
    pub fn sealed(mut self) -> Self {
        self.crc = crc32c(&self.as_bytes()[8..]).into();
        self
    }

    /// Parses the record.
    ///
    /// # Errors
    /// If there is none, or it is damaged; neither stops a mount.
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

    /// True if the volume was unmounted by the owner.
    pub fn is_released(&self) -> bool {
        self.mounted.get() == 0
    }

    /// The host's name as text.
    pub fn host_text(&self) -> String {
        padded_text(&self.host)
    }

    /// The boot identity as text.
    pub fn boot_text(&self) -> String {
        padded_text(&self.boot_id)
    }
}

/// Who mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerIdentity {
    /// Host name.
    pub host: String,
    /// Identity of this boot of the host.
    pub boot_id: String,
    /// Process.
    pub pid: u32,
}

fn fill(field: &mut [u8], text: &str) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}
