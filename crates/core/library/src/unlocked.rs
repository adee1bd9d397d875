//! Reads a volume without its lock.
//!
//! The superblock never changes while a volume is in use, and the owner record names its
//! holder; both may be read while the volume is mounted. No other structure of such a
//! volume can be interpreted without the lock.

use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use varve_device::{Device, DeviceError, Geometry, OpenError, Operation};

/// An image or device that is opened read-only and not locked.
#[derive(Debug)]
pub(crate) struct Unlocked {
    path: PathBuf,
    fd: OwnedFd,
    size: u64,
}

impl Unlocked {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |action| {
            move |error: Errno| OpenError::Io {
                path: path.to_owned(),
                action,
                source: error.into(),
            }
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed("open"))?;
        let stat = rustix::fs::fstat(&fd).map_err(failed("examine"))?;
        let size = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => stat.st_size as u64,
            FileType::BlockDevice => {
                rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(failed("examine"))?
            }
            _ => {
                return Err(OpenError::NotADevice {
                    path: path.to_owned(),
                });
            }
        };
        Ok(Unlocked {
            path: path.to_owned(),
            fd,
            size,
        })
    }

    fn refuse(&self, operation: Operation, offset: u64, error: Errno) -> DeviceError {
        DeviceError {
            device: self.name(),
            operation,
            offset,
            length: 0,
            source: error.into(),
        }
    }
}

impl Device for Unlocked {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size / 512 * 512,
            logical_block: 512,
            physical_block: 4096,
        }
    }

    fn read(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), DeviceError> {
        while !buffer.is_empty() {
            match rustix::io::pread(&self.fd, &mut *buffer, offset) {
                Err(Errno::INTR) => {}
                Ok(0) => return Err(self.refuse(Operation::Read, offset, Errno::NXIO)),
                Err(error) => return Err(self.refuse(Operation::Read, offset, error)),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, _: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        Err(self.refuse(Operation::Write, offset, Errno::ROFS))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Err(self.refuse(Operation::Flush, 0, Errno::ROFS))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}
