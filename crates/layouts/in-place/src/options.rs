//! The options of a mount.

use varve_format::OwnerIdentity;

/// The occasions at which a mount examines the whole volume ([`crate::repair`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Examine {
    /// The volume is examined if metadata is written in place and the volume was not
    /// unmounted. Findings that a crash explains are repaired; other findings leave the
    /// volume read-only.
    #[default]
    IfUnclean,
    /// The volume is examined at every mount, and all findings are repaired.
    Always,
}

/// The options with which a volume is mounted.
#[derive(Clone, Debug)]
pub struct FfsMountOptions {
    /// Nothing is written; the journal is replayed in memory.
    pub read_only: bool,
    /// The occasions at which the whole volume is examined.
    pub examine: Examine,
    /// Memory for metadata, in bytes. Half of it is for sectors that are not yet in
    /// place.
    pub cache_bytes: u64,
    /// Determines the random identifier of the mount, for reproducible runs.
    pub seed: Option<u64>,
    /// Number of seconds with changes after which a checkpoint is due.
    pub checkpoint_seconds: u64,
    /// With synchronous metadata, a directory block is overwritten if a group of changes
    /// touches no other, and its checksum is not stored. This is what the FFS of the
    /// papers does: two synchronous writes for a new name instead of three. It is for the
    /// study alone, because a power cut that tears the block loses all names in it.
    pub overwrites_directories: bool,
    /// The process that is named in the owner record.
    pub owner: OwnerIdentity,
}

impl Default for FfsMountOptions {
    fn default() -> Self {
        FfsMountOptions {
            read_only: false,
            examine: Examine::IfUnclean,
            cache_bytes: 16 << 20,
            seed: None,
            checkpoint_seconds: 30,
            overwrites_directories: false,
            owner: OwnerIdentity::default(),
        }
    }
}
