//! What can go wrong below the seam, with the place it went wrong.

use crate::format::Malformed;
use varve_device::DeviceError;
use varve_device::size::{Bytes, Enough};
use varve_fs::InodeNo;

/// The result of calls within this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the log-structured layout.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A structure on the device is not what it should be.
    #[error("segment {segment}, sector {sector}: {source}")]
    Damaged {
        /// The segment, or `u32::MAX` outside of segments.
        segment: u32,
        /// Sector address.
        sector: u64,
        /// What is wrong.
        #[source]
        source: Malformed,
    },
    /// A stored block is not what its pointer says.
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
        /// The pointer's checksum.
        expected: u32,
    },
    /// No superblock, or none this program can use.
    #[error("{device}: no usable superblock: {reason}")]
    NoVolume {
        /// The device's name.
        device: String,
        /// Why the primary copy was refused.
        reason: Malformed,
    },
    /// No checkpoint record is valid.
    #[error("{device}: no valid checkpoint record: {reason}; the log may still be salvaged")]
    NoCheckpoint {
        /// The device's name.
        device: String,
        /// Why the newest slot was refused.
        reason: Malformed,
    },
    /// mkfs was asked for something impossible.
    #[error("cannot make a volume: {0}")]
    Format(String),
    /// Something was asked for that the volume, or this mount of it, cannot do.
    #[error("{0}")]
    Unfit(String),
    /// The volume is to become smaller than what it holds.
    #[error(
        "what the volume holds does not fit into {}: it needs {}, of which some is kept for the \
         cleaner", Bytes(*wanted), Enough(*least)
    )]
    DoesNotFit {
        /// Bytes that the volume should have.
        wanted: u64,
        /// Bytes that it can have at least.
        least: u64,
    },
    /// No clean segment is left, the reserve included.
    #[error("no clean segment left")]
    OutOfSegments,
    /// A write to the log failed for good; the next checkpoint stores what it
    /// held elsewhere.
    #[error("a write to the log failed: {0}")]
    Unwritten(String),
    /// A checkpoint wrote more than was counted and kept for it. It has no record, and
    /// is taken again where there is room for as much.
    #[error("checkpoint {checkpoint} wrote {bytes} bytes, {counted} were counted")]
    Overrun {
        /// The checkpoint's serial.
        checkpoint: u64,
        /// Bytes of log that it took.
        bytes: u64,
        /// Most bytes that it was to take.
        counted: u64,
    },
    /// Writing stopped after a failure.
    #[error("writing stopped: {0}")]
    Stopped(String),
    /// What a transaction spilled was given up for want of room.
    #[error("what the transaction has written was given up for want of room")]
    SpillGone,
    /// The number has no inode.
    #[error("{0} does not exist")]
    NoInode(InodeNo),
}

impl Error {
    /// Returns true if a device failed for a reason that says nothing about the medium's
    /// content.
    pub(crate) fn is_of_service(&self) -> bool {
        matches!(self, Error::Device(error) if error.is_of_service())
    }

    /// The medium's fault, in one place: not ours, and not everywhere.
    pub fn is_of_the_medium(&self) -> bool {
        matches!(
            self,
            Error::Device(_) | Error::Damaged { .. } | Error::BadBlock { .. }
        )
    }

    pub(crate) fn damaged(segment: Option<u32>, sector: u64, source: Malformed) -> Self {
        Error::Damaged {
            segment: segment.unwrap_or(u32::MAX),
            sector,
            source,
        }
    }
}

impl From<Error> for varve_fs::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Device(device) => device.into(),
            Error::BadBlock { ino, .. } => varve_fs::Error::Damaged {
                ino: Some(ino),
                detail: error.to_string(),
            },
            Error::Damaged { .. } | Error::NoVolume { .. } | Error::NoCheckpoint { .. } => {
                varve_fs::Error::Damaged {
                    ino: None,
                    detail: error.to_string(),
                }
            }
            Error::Unfit(_) => varve_fs::Error::Invalid("options"),
            Error::Format(_) => varve_fs::Error::Invalid("geometry"),
            Error::OutOfSegments | Error::DoesNotFit { .. } => varve_fs::Error::NoSpace,
            Error::Stopped(reason) | Error::Unwritten(reason) => varve_fs::Error::ReadOnly(reason),
            Error::Overrun { .. } => varve_fs::Error::ReadOnly(error.to_string()),
            Error::NoInode(_) => varve_fs::Error::NotFound,
            Error::SpillGone => varve_fs::Error::Aborted,
        }
    }
}

impl From<Malformed> for Error {
    fn from(source: Malformed) -> Self {
        Error::damaged(None, 0, source)
    }
}
