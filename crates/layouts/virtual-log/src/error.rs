//! The errors of a virtual log disk as a whole. Single requests fail with the errors of
//! any device.

use varve_device::DeviceError;

use crate::format::FormatError;

/// The reason why a volume cannot be made, opened or used.
#[derive(Debug, thiserror::Error)]
pub enum VldError {
    /// The medium failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The requested sizes are impossible.
    #[error("{device}: {source}")]
    Measures {
        /// Name of the medium.
        device: String,
        /// The size that is impossible.
        source: FormatError,
    },
    /// There is no volume on the medium.
    #[error(
        "{device}: no virtual log disk: first block: {source}; nor is its copy in the last one"
    )]
    NoVolume {
        /// Name of the medium.
        device: String,
        /// The problem with the first superblock.
        source: FormatError,
    },
    /// The map cannot be recovered completely.
    #[error("{device}: {what}")]
    Damaged {
        /// Name of the medium.
        device: String,
        /// The missing or contradictory structure, and its place.
        what: String,
    },
}
