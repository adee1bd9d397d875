//! How a volume is mounted.

use varve_format::OwnerIdentity;

/// When a mount looks at everything ([`crate::repair`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Examine {
    /// If metadata is written in place and the volume was not unmounted. What a crash
    /// explains is mended; what it does not leaves the volume read-only.
    #[default]
    IfUnclean,
    /// In any case, and whatever is found is mended.
    Always,
}

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct FfsMountOptions {
    /// Nothing is written; the journal is replayed in memory.
    pub read_only: bool,
    /// When everything is looked at.
    pub examine: Examine,
    /// Bytes for metadata, half for what is not in place.
    pub cache_bytes: u64,
    /// Fixes the mount's random identity, for reproducible runs.
    pub seed: Option<u64>,
    /// A checkpoint is due after this many seconds with changes.
    pub checkpoint_seconds: u64,
    /// With synchronous metadata, a directory block is overwritten if a group of changes
    /// touches no other, and its checksum is not stored. This is what the FFS of the
    /// papers does: two synchronous writes for a new name instead of three. It is for the
    /// study alone, because a power cut that tears the block loses all names in it.
    pub overwrites_directories: bool,
    /// Recorded in the owner record.
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
