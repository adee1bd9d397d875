//! A disk in memory that many connections use at once.
//!
//! [`varve_device::MemoryDevice`] is designed for forks and comparisons, and applies a
//! request as a whole, under one lock. Here each piece of the disk has its own lock,
//! and a request is atomic within a piece only, as a disk promises.

use std::collections::TryReserveError;
use std::io::IoSlice;

use parking_lot::RwLock;
use varve_device::{Device, DeviceError, Extent, Geometry, Operation, check_request, total_length};

/// Number of bytes under one lock, which are allocated when one of them is written.
const PIECE_BYTES: u64 = 256 << 10;

type Piece = RwLock<Option<Box<[u8]>>>;
type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// A disk in memory, which reads as zeros until it is written.
#[derive(Debug)]
pub struct ScratchDisk {
    size: u64,
    pieces: Box<[Piece]>,
}

impl ScratchDisk {
    /// Creates a disk of `size` bytes, rounded down to a multiple of 4096.
    ///
    /// # Errors
    /// If there is no memory for its table, 24 bytes for each 256 KiB.
    pub fn new(size: u64) -> Result<Self, TryReserveError> {
        let size = size / 4096 * 4096;
        let count = usize::try_from(size.div_ceil(PIECE_BYTES)).unwrap_or(usize::MAX);
        let mut pieces = Vec::new();
        pieces.try_reserve_exact(count)?;
        pieces.resize_with(count, || RwLock::new(None));
        let pieces = pieces.into();
        Ok(ScratchDisk { size, pieces })
    }

    /// Returns the pieces of a range, each with the part of the range in it.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = (&Piece, usize, usize)> {
        let (mut at, end) = (offset, offset + length);
        std::iter::from_fn(move || {
            let within = at % PIECE_BYTES;
            let step = (PIECE_BYTES - within).min(end - at);
            let piece = (step > 0).then(|| &self.pieces[(at / PIECE_BYTES) as usize])?;
            at += step;
            Some((piece, within as usize, step as usize))
        })
    }
}

impl Device for ScratchDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            logical_block: 512,
            physical_block: 4096,
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_request(self, Operation::Read, offset, buffer.len() as u64)?;
        let mut rest = &mut *buffer;
        for (piece, at, length) in self.pieces(offset, rest.len() as u64) {
            let (part, behind) = rest.split_at_mut(length);
            match &*piece.read() {
                Some(bytes) => part.copy_from_slice(&bytes[at..at + length]),
                None => part.fill(0),
            }
            rest = behind;
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        check_request(self, Operation::Write, offset, total_length(buffers))?;
        let mut offset = offset;
        for buffer in buffers {
            let mut rest: &[u8] = buffer;
            for (piece, at, length) in self.pieces(offset, rest.len() as u64) {
                let (part, behind) = rest.split_at(length);
                let mut bytes = piece.write();
                let bytes = bytes.get_or_insert_with(|| vec![0; PIECE_BYTES as usize].into());
                bytes[at..at + length].copy_from_slice(part);
                rest = behind;
            }
            offset += buffer.len() as u64;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.zero(offset, length).map(drop)
    }

    fn zero(&self, offset: u64, length: u64) -> Result<bool> {
        check_request(self, Operation::Discard, offset, length)?;
        for (piece, at, length) in self.pieces(offset, length) {
            let mut bytes = piece.write();
            match &mut *bytes {
                Some(_) if length as u64 == PIECE_BYTES => *bytes = None,
                Some(bytes) => bytes[at..at + length].fill(0),
                None => {}
            }
        }
        Ok(true)
    }

    fn extent(&self, offset: u64, length: u64) -> Result<Extent> {
        check_request(self, Operation::Read, offset, length)?;
        let (mut known, mut hole) = (0, false);
        for (nth, (piece, _, length)) in self.pieces(offset, length).enumerate() {
            let empty = piece.read().is_none();
            if nth > 0 && empty != hole {
                break;
            }
            hole = empty;
            known += length as u64;
        }
        Ok(Extent {
            length: known,
            hole,
        })
    }

    fn name(&self) -> String {
        "memory".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_device::MemoryDevice;

    #[test]
    fn the_same_requests_give_the_bytes_of_plain_memory() {
        const SIZE: u64 = 2 << 20;
        let (disk, model) = (
            ScratchDisk::new(SIZE + 100).unwrap(),
            MemoryDevice::new(SIZE),
        );
        assert_eq!(disk.geometry(), model.geometry());
        let mut state = 1u64;
        let mut draw = |end: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % end
        };
        for step in 0..600 {
            let length = (1 + draw(1200).min(draw(1200))) * 512;
            let offset = draw((SIZE - length) / 512 + 1) * 512;
            let mut bytes: Vec<u8> = (0..length).map(|at| (at / 5 + step) as u8).collect();
            match draw(4) {
                0 => {
                    disk.zero(offset, length).unwrap();
                    model.zero(offset, length).unwrap();
                }
                1 => {
                    let (head, tail) = bytes.split_at(length as usize / 3);
                    let both = [IoSlice::new(head), IoSlice::new(tail)];
                    disk.write(offset, &both).unwrap();
                    model.write(offset, &both).unwrap();
                }
                _ => {
                    let mut expected = bytes.clone();
                    disk.read(offset, &mut bytes).unwrap();
                    model.read(offset, &mut expected).unwrap();
                    assert!(bytes == expected, "step {step}");
                }
            }
            let extent = disk.extent(offset, length).unwrap();
            let mut known = vec![1; extent.length as usize];
            disk.read(offset, &mut known).unwrap();
            assert!(extent.length > 0 && extent.length <= length);
            assert!(!extent.hole || known.iter().all(|&byte| byte == 0));
        }
        assert!(ScratchDisk::new(u64::MAX).is_err());
        assert!(disk.read(SIZE, &mut [0; 512]).is_err());
        assert!(disk.write(1, &[IoSlice::new(&[0; 512])]).is_err());
        disk.discard(0, SIZE).unwrap();
        assert_eq!(
            disk.extent(0, SIZE).unwrap(),
            Extent {
                length: SIZE,
                hole: true
            }
        );
    }
}
