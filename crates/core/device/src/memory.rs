//! A device in memory: sparse, and forked in well under a microsecond.
//!
//! The crash explorer makes one device per crash state, a million in a night, and
//! nearly all bytes of these devices are equal. The bytes are therefore a
//! [`MemoryImage`], a persistent map of chunks: a snapshot shares every chunk, and
//! writing copies only the chunks written.
//!
//! Invariants:
//! - A snapshot never changes, whatever is written to the device afterwards.
//! - Unwritten and discarded bytes read as zeros.
//! - A request is applied whole: a reader sees all of a write or none of it.

mod chunks;
mod image;

use std::io::IoSlice;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::counters::DeviceCounters;
use crate::device::{Device, Extent, Geometry, Operation, Result};
use crate::request::{check_request, total_length};

pub use image::{MemoryImage, PreparedWrite};

/// A device whose medium is the process's memory.
#[derive(Debug)]
pub struct MemoryDevice {
    geometry: Geometry,
    image: RwLock<MemoryImage>,
    counters: Arc<DeviceCounters>,
}

impl MemoryDevice {
    /// Creates an empty device of `size` bytes, with blocks of 512 bytes (logical) and
    /// 4096 bytes (physical).
    ///
    /// # Panics
    /// If `size` is not a multiple of 512.
    pub fn new(size: u64) -> Self {
        MemoryDevice::with_geometry(Geometry {
            size,
            logical_block: 512,
            physical_block: 4096,
        })
    }

    /// Creates an empty device with the given geometry.
    ///
    /// # Panics
    /// If the logical block is not a power of two of at least 512 bytes, or if the size
    /// is not a multiple of it.
    pub fn with_geometry(geometry: Geometry) -> Self {
        MemoryDevice::from_image(&MemoryImage::new(geometry))
    }

    /// Creates a device with the bytes and the geometry of an image, which the device
    /// never changes.
    pub fn from_image(image: &MemoryImage) -> Self {
        MemoryDevice {
            geometry: image.geometry(),
            image: RwLock::new(image.clone()),
            counters: Arc::default(),
        }
    }

    /// Returns the bytes at this moment; later writes do not change them.
    pub fn snapshot(&self) -> MemoryImage {
        self.image.read().clone()
    }

    /// Writes one buffer at byte `offset`.
    ///
    /// # Errors
    /// As [`Device::write`].
    pub fn apply_write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, &[IoSlice::new(bytes)])
    }

    /// Returns the counters of requests to this device.
    pub fn counters(&self) -> &Arc<DeviceCounters> {
        &self.counters
    }
}

impl Device for MemoryDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_request(self, Operation::Read, offset, buffer.len() as u64)?;
        self.image.read().read(offset, buffer);
        self.counters.count_read(buffer.len() as u64);
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        let mut image = self.image.write();
        let mut at = offset;
        for buffer in buffers {
            image.write(at, buffer);
            at += buffer.len() as u64;
        }
        self.counters.count_write(length);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.counters.count_flush();
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        self.image.write().zero(offset, length);
        self.counters.count_discard();
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        check_request(self, Operation::Write, offset, length)?;
        self.image.write().zero(offset, length);
        self.counters.count_discard();
        Ok(true)
    }

    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        check_request(self, Operation::Read, offset, length)?;
        let (length, hole) = self.image.read().extent(offset, length);
        Ok(Extent { length, hole })
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(device: &impl Device, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0xaa; length];
        device.read(offset, &mut buffer).unwrap();
        buffer
    }

    #[test]
    fn unwritten_bytes_are_zeros() {
        let device = MemoryDevice::new(1 << 40);
        assert_eq!(read(&device, (1 << 40) - 8192, 8192), [0; 8192]);
        assert_eq!(device.snapshot().allocated_bytes(), 0);
    }

    #[test]
    fn vectored_write_lands_end_to_end() {
        let device = MemoryDevice::new(1 << 20);
        let (head, tail) = (vec![1; 700], vec![2; 324 + 4096]);
        device
            .write(3584, &[IoSlice::new(&head), IoSlice::new(&tail)])
            .unwrap();
        let got = read(&device, 3584, 1024 + 4096);
        assert_eq!(got, [head, tail].concat());
        assert_eq!(read(&device, 3072, 512), [0; 512]);
    }

    #[test]
    fn forks_do_not_see_each_other() {
        let parent = MemoryDevice::new(16 << 20);
        parent.apply_write(4096, &[1; 8192]).unwrap();
        let image = parent.snapshot();
        let (left, right) = (
            MemoryDevice::from_image(&image),
            MemoryDevice::from_image(&image),
        );
        left.apply_write(4096, &[2; 512]).unwrap();
        right.apply_write(8192, &[3; 4096]).unwrap();
        parent.discard(4096, 8192).unwrap();
        assert_eq!(read(&left, 4096, 512), [2; 512]);
        assert_eq!(read(&left, 4608, 512), [1; 512]);
        assert_eq!(read(&left, 8192, 4096), [1; 4096]);
        assert_eq!(read(&right, 4096, 4096), [1; 4096]);
        assert_eq!(read(&right, 8192, 4096), [3; 4096]);
        assert_eq!(read(&parent, 4096, 8192), [0; 8192]);
        assert_eq!(
            read(&MemoryDevice::from_image(&image), 4096, 8192),
            [1; 8192]
        );
    }

    #[test]
    fn large_logical_blocks_are_enforced() {
        let device = MemoryDevice::with_geometry(Geometry {
            size: 1 << 20,
            logical_block: 4096,
            physical_block: 4096,
        });
        assert!(device.apply_write(512, &[0; 4096]).is_err());
        assert!(device.apply_write(4096, &[0; 512]).is_err());
        assert!(device.apply_write(4096, &[0; 4096]).is_ok());
    }

    #[test]
    fn counters_count_successes_only() {
        let device = MemoryDevice::new(1 << 20);
        device.apply_write(0, &[1; 1024]).unwrap();
        device.apply_write(1 << 20, &[1; 512]).unwrap_err();
        read(&device, 0, 512);
        device.flush().unwrap();
        let counts = device.counters().snapshot();
        assert_eq!((counts.writes, counts.bytes_written), (1, 1024));
        assert_eq!((counts.reads, counts.bytes_read), (1, 512));
        assert_eq!(counts.flushes, 1);
    }
}
