//! Checks and helpers that all devices share.
//!
//! Invariant: no arithmetic on a caller's offset or length can overflow.

use std::io::{self, ErrorKind, IoSlice};

use crate::device::{Device, DeviceError, Operation, Result};

impl DeviceError {
    /// Creates an error about `length` bytes at byte `offset` of `device`.
    pub fn new<D: Device + ?Sized>(
        device: &D,
        operation: Operation,
        offset: u64,
        length: u64,
        source: impl Into<io::Error>,
    ) -> Self {
        DeviceError {
            device: device.name(),
            operation,
            offset,
            length,
            source: source.into(),
        }
    }
}

/// Checks that `length` bytes at byte `offset` are within the device and consist of
/// whole logical blocks. An empty request within the device is valid.
///
/// # Errors
/// `InvalidInput`, with the rule that was broken.
pub fn check_request<D: Device + ?Sized>(
    device: &D,
    operation: Operation,
    offset: u64,
    length: u64,
) -> Result<()> {
    let geometry = device.geometry();
    let block = u64::from(geometry.logical_block);
    let reason = if !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
        format!("not a multiple of the logical block of {block} bytes")
    } else if offset
        .checked_add(length)
        .is_none_or(|end| end > geometry.size)
    {
        format!("outside the device of {} bytes", geometry.size)
    } else {
        return Ok(());
    };
    let source = io::Error::new(ErrorKind::InvalidInput, reason);
    Err(DeviceError::new(device, operation, offset, length, source))
}

/// Returns the total length of the buffers, in bytes.
pub fn total_length(buffers: &[IoSlice<'_>]) -> u64 {
    buffers.iter().map(|buffer| buffer.len() as u64).sum()
}

/// Returns the concatenated contents of the buffers.
pub fn gather(buffers: &[IoSlice<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(buffers.iter().map(|buffer| buffer.len()).sum());
    for buffer in buffers {
        bytes.extend_from_slice(buffer);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, SECTOR};

    #[test]
    fn offsets_that_overflow_are_refused() {
        let device = MemoryDevice::new(1 << 20);
        let last = u64::MAX - (SECTOR - 1);
        for (offset, length) in [
            (last, SECTOR),
            (last, last),
            (1 << 20, SECTOR),
            ((1 << 20) - SECTOR, 2 * SECTOR),
            (0, last),
        ] {
            let error = check_request(&device, Operation::Read, offset, length).unwrap_err();
            assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("outside the device"), "{error}");
        }
        assert!(device.read(u64::MAX, &mut [0; 512]).is_err());
        assert!(device.write(u64::MAX, &[IoSlice::new(&[0; 512])]).is_err());
        assert!(device.discard(u64::MAX, u64::MAX).is_err());
    }

    #[test]
    fn requests_between_blocks_are_refused() {
        let device = MemoryDevice::new(1 << 20);
        for (offset, length) in [(1, SECTOR), (0, 511), (256, 256)] {
            let error = check_request(&device, Operation::Write, offset, length).unwrap_err();
            assert!(error.to_string().contains("logical block"), "{error}");
        }
    }

    #[test]
    fn empty_and_exact_requests_are_in_order() {
        let device = MemoryDevice::new(1 << 20);
        assert!(check_request(&device, Operation::Read, 1 << 20, 0).is_ok());
        assert!(check_request(&device, Operation::Read, 0, 1 << 20).is_ok());
    }
}
