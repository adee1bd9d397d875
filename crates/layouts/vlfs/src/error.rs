//! The errors of the layout, each with its place on the volume.

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
    /// A structure on the device is invalid.
    #[error(transparent)]
    Damaged(#[from] Malformed),
    /// A stored block does not have the checksum of its place.
    #[error(
        "{ino}, block {block}: at sector {sector} the checksum is {found:#010x}, want {expected:#010x}"
    )]
    BadBlock {
        /// The inode of the block.
        ino: InodeNo,
        /// Number of the block in the file.
        block: u64,
        /// Address of the first sector.
        sector: u64,
        /// The computed checksum.
        found: u32,
        /// The checksum of the place.
        expected: u32,
    },
    /// A unit does not contain the inode or node that a reference to it names.
    #[error("inode {ino}, unit {unit}: {source}")]
    BadUnit {
        /// The inode, or the one whose index node it is.
        ino: InodeNo,
        /// The unit.
        unit: u64,
        /// The problem.
        #[source]
        source: Malformed,
    },
    /// There is no superblock, or none that this program can use.
    #[error("{device}: no usable superblock: {reason}")]
    NoVolume {
        /// Name of the device.
        device: String,
        /// The reason for which the superblock was refused.
        reason: Malformed,
    },
    /// The options of mkfs are impossible.
    #[error("cannot make a volume: {0}")]
    Format(String),
    /// The request is impossible on this volume.
    #[error("{0}")]
    Unfit(String),
    /// The volume is full, including the reserve.
    #[error("no room left")]
    Full,
    /// The volume takes no writes after an earlier failure.
    #[error("writing stopped: {0}")]
    Stopped(String),
    /// The inode number has no file.
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
