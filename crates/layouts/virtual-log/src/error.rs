//! What can go wrong with a virtual log disk as a whole. Single requests fail
//! as any device's do.

use varve_device::DeviceError;

use crate::format::FormatError;

/// Why a volume cannot be made, opened or kept.
#[derive(Debug, thiserror::Error)]
pub enum VldError {
    /// The medium failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The measures asked for are not possible.
    #[error("{device}: {source}")]
    Measures {
        /// The medium.
        device: String,
        /// Why.
        source: FormatError,
    },
    /// There is no volume.
    #[error(
        "{device}: no virtual log disk: first block: {source}; nor is its copy in the last one"
    )]
    NoVolume {
        /// The medium.
        device: String,
        /// What is wrong with the first superblock.
        source: FormatError,
    },
    /// The map cannot be recovered whole.
    #[error("{device}: {what}")]
    Damaged {
        /// The medium.
        device: String,
        /// What is missing or contradictory, and where.
        what: String,
    },
}
