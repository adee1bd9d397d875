//! What can go wrong, with the place it went wrong.

use varve_device::DeviceError;
use varve_format::Malformed;
use varve_fs::InodeNo;

/// The result of calls within this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the layout on the virtual log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The virtual log cannot be recovered.
    #[error(transparent)]
    VirtualLog(#[from] varve_vlog::VldError),
    /// A structure on the device is not what it should be.
    #[error(transparent)]
    Damaged(#[from] Malformed),
    /// A stored block is not what its place says.
    #[error(
        "{ino}, block {block}: at sector {sector} the checksum is {found:#010x}, want {expected:#010x}"
    )]
    BadBlock {
        /// Whose block.
        ino: InodeNo,
        /// Logical block number.
        block: u64,
        /// Sector address.
        sector: u64,
        /// Computed checksum.
        found: u32,
        /// The place's checksum.
        expected: u32,
    },
    /// A unit is not what leads to it says.
    #[error("inode {ino}, unit {unit}: {source}")]
    BadUnit {
        /// Whose unit: the inode, or one of its index nodes.
        ino: InodeNo,
        /// Which unit.
        unit: u64,
        /// What is wrong.
        #[source]
        source: Malformed,
    },
    /// No superblock, or none this program can use.
    #[error("{device}: no usable superblock: {reason}")]
    NoVolume {
        /// The device's name.
        device: String,
        /// Why it was refused.
        reason: Malformed,
    },
    /// mkfs was asked for something impossible.
    #[error("cannot make a volume: {0}")]
    Format(String),
    /// Something was asked for that the volume cannot have.
    #[error("{0}")]
    Unfit(String),
    /// No room is left, the reserve included.
    #[error("no room left")]
    Full,
    /// Writing stopped after a failure.
    #[error("writing stopped: {0}")]
    Stopped(String),
    /// The number has no inode.
    #[error("{0} does not exist")]
    NoInode(InodeNo),
}

impl From<Error> for varve_fs::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Device(device) => device.into(),
            Error::BadBlock { ino, .. } | Error::BadUnit { ino, .. } => varve_fs::Error::Damaged {
                ino: Some(ino),
                detail: error.to_string(),
            },
            Error::Damaged(_) | Error::VirtualLog(_) | Error::NoVolume { .. } => {
                varve_fs::Error::Damaged {
                    ino: None,
                    detail: error.to_string(),
                }
            }
            Error::Format(_) => varve_fs::Error::Invalid("geometry"),
            Error::Unfit(_) => varve_fs::Error::Invalid("options"),
            Error::Full => varve_fs::Error::NoSpace,
            Error::Stopped(reason) => varve_fs::Error::ReadOnly(reason),
            Error::NoInode(_) => varve_fs::Error::NotFound,
        }
    }
}
