//! Complete transfers by system calls that may transfer less than requested.
//!
//! Invariants:
//! - A transfer returns `Ok` only when every byte was transferred.
//! - After a short call the next one starts at a multiple of the granule, because
//!   direct I/O refuses a transfer that starts inside a block.
//! - An interrupted call is repeated; any other error ends the transfer.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// Maximum number of buffers of one vectored call (`IOV_MAX` on Linux).
pub(super) const IOV_MAX: usize = 1024;

/// The positioned system calls, as a seam for tests.
pub(super) trait Calls {
    fn pread(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno>;
    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno>;
    fn pwrite(&self, buffer: &[u8], offset: u64) -> Result<usize, Errno>;
    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno>;
}

impl Calls for OwnedFd {
    fn pread(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(self, buffer, offset)
    }

    fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno> {
        rustix::io::preadv(self, buffers, offset)
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(self, buffer, offset)
    }

    fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwritev(self, buffers, offset)
    }
}

/// Returns how many of `wanted` bytes count as transferred after a call that moved
/// `moved`: all of them, or else a multiple of `granule`.
///
/// # Errors
/// An error of kind `none` if no byte counts although some were wanted.
fn progress(moved: usize, wanted: usize, granule: usize, none: ErrorKind) -> io::Result<usize> {
    let counted = if moved == wanted {
        moved
    } else {
        moved - moved % granule
    };
    if counted == 0 && wanted > 0 {
        let reason = format!("the transfer stopped {wanted} bytes early");
        return Err(io::Error::new(none, reason));
    }
    Ok(counted)
}

/// Fills `buffer` from byte `offset`.
pub(super) fn read_whole(
    calls: &impl Calls,
    mut offset: u64,
    mut buffer: &mut [u8],
    granule: usize,
) -> io::Result<()> {
    while !buffer.is_empty() {
        match calls.pread(buffer, offset) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(moved) => {
                let counted = progress(moved, buffer.len(), granule, ErrorKind::UnexpectedEof)?;
                buffer = &mut buffer[counted..];
                offset += counted as u64;
            }
        }
    }
    Ok(())
}

/// Fills all the buffers, one after the other, from byte `offset`, in calls of at most
/// [`IOV_MAX`] buffers. After a short call the rest is read buffer by buffer.
pub(super) fn read_vectored(
    calls: &impl Calls,
    mut offset: u64,
    buffers: &mut [IoSliceMut<'_>],
    granule: usize,
) -> io::Result<()> {
    for batch in buffers.chunks_mut(IOV_MAX) {
        let wanted: usize = batch.iter().map(|buffer| buffer.len()).sum();
        let moved = match calls.preadv(batch, offset) {
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
            Ok(moved) => moved,
        };
        let mut end = 0;
        for buffer in batch {
            let start = end;
            end += buffer.len();
            if end > moved {
                read_whole(calls, offset + start as u64, buffer, granule)?;
            }
        }
        offset += wanted as u64;
    }
    Ok(())
}

/// Writes all of `buffer` at byte `offset`.
pub(super) fn write_whole(
    calls: &impl Calls,
    mut offset: u64,
    mut buffer: &[u8],
    granule: usize,
) -> io::Result<()> {
    while !buffer.is_empty() {
        match calls.pwrite(buffer, offset) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(moved) => {
                let counted = progress(moved, buffer.len(), granule, ErrorKind::WriteZero)?;
                buffer = &buffer[counted..];
                offset += counted as u64;
            }
        }
    }
    Ok(())
}

/// Writes all the buffers, one after the other, from byte `offset`, in calls
/// of at most [`IOV_MAX`] buffers.
pub(super) fn write_vectored(
    calls: &impl Calls,
    mut offset: u64,
    buffers: &[IoSlice<'_>],
    granule: usize,
) -> io::Result<()> {
    for batch in buffers.chunks(IOV_MAX) {
        let wanted = batch.iter().map(|buffer| buffer.len()).sum();
        let moved = match calls.pwritev(batch, offset) {
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
            Ok(moved) if moved == wanted => wanted,
            Ok(moved) => progress(moved, wanted, granule, ErrorKind::WriteZero)?,
        };
        finish_batch(calls, offset, batch, moved, granule)?;
        offset += wanted as u64;
    }
    Ok(())
}

/// Writes the rest of a batch after its first `done` bytes.
fn finish_batch(
    calls: &impl Calls,
    mut offset: u64,
    batch: &[IoSlice<'_>],
    mut done: usize,
    granule: usize,
) -> io::Result<()> {
    let wanted: usize = batch.iter().map(|buffer| buffer.len()).sum();
    if done == wanted {
        return Ok(());
    }
    let mut slices = batch.to_vec();
    let mut left = &mut slices[..];
    let mut remaining = wanted - done;
    offset += done as u64;
    IoSlice::advance_slices(&mut left, done);
    while remaining > 0 {
        match calls.pwritev(left, offset) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(moved) => {
                done = progress(moved, remaining, granule, ErrorKind::WriteZero)?;
                IoSlice::advance_slices(&mut left, done);
                offset += done as u64;
                remaining -= done;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A file whose calls transfer at most `most` bytes and are interrupted every other
    /// time.
    struct Reluctant {
        bytes: RefCell<Vec<u8>>,
        most: usize,
        calls: Cell<usize>,
    }

    impl Reluctant {
        fn new(size: usize, most: usize) -> Self {
            Reluctant {
                bytes: RefCell::new((0..size).map(|i| (i / 7) as u8).collect()),
                most,
                calls: Cell::new(0),
            }
        }

        fn interrupt(&self) -> Result<(), Errno> {
            self.calls.set(self.calls.get() + 1);
            if self.calls.get() % 2 == 1 {
                return Err(Errno::INTR);
            }
            Ok(())
        }
    }

    impl Calls for Reluctant {
        fn pread(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
            self.interrupt()?;
            let bytes = self.bytes.borrow();
            let from = &bytes[(offset as usize).min(bytes.len())..];
            let count = self.most.min(buffer.len()).min(from.len());
            buffer[..count].copy_from_slice(&from[..count]);
            Ok(count)
        }

        fn preadv(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, Errno> {
            assert!(buffers.len() <= IOV_MAX);
            let mut read = vec![0; buffers.iter().map(|buffer| buffer.len()).sum()];
            let count = self.pread(&mut read, offset)?;
            let mut rest = &read[..count];
            for buffer in buffers {
                let (these, behind) = rest.split_at(rest.len().min(buffer.len()));
                buffer[..these.len()].copy_from_slice(these);
                rest = behind;
            }
            Ok(count)
        }

        fn pwrite(&self, buffer: &[u8], offset: u64) -> Result<usize, Errno> {
            self.interrupt()?;
            let count = self.most.min(buffer.len());
            let at = offset as usize;
            self.bytes.borrow_mut()[at..at + count].copy_from_slice(&buffer[..count]);
            Ok(count)
        }

        fn pwritev(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
            assert!(buffers.len() <= IOV_MAX);
            self.pwrite(&crate::request::gather(buffers), offset)
        }
    }

    #[test]
    fn short_and_interrupted_reads_are_completed() {
        for granule in [1, 512] {
            let file = Reluctant::new(10_000, 700);
            let mut buffer = vec![0; 5120];
            read_whole(&file, 512, &mut buffer, granule).unwrap();
            assert_eq!(buffer, file.bytes.borrow()[512..512 + 5120]);
        }
    }

    #[test]
    fn short_and_interrupted_vectored_reads_are_completed() {
        for lengths in [&[512, 1024, 2048, 512][..], &[8; 3000]] {
            let file = Reluctant::new(30_000, 700);
            let all: usize = lengths.iter().sum();
            let mut parts: Vec<Vec<u8>> = lengths.iter().map(|&bytes| vec![0; bytes]).collect();
            let mut buffers: Vec<_> = parts.iter_mut().map(|part| IoSliceMut::new(part)).collect();
            read_vectored(&file, 512, &mut buffers, 8).unwrap();
            assert_eq!(parts.concat(), file.bytes.borrow()[512..512 + all]);
        }
    }

    #[test]
    fn short_and_interrupted_writes_are_completed() {
        for granule in [1, 512] {
            let file = Reluctant::new(10_000, 700);
            write_whole(&file, 512, &[9; 5120], granule).unwrap();
            assert_eq!(file.bytes.borrow()[512..512 + 5120], [9; 5120]);
        }
    }

    #[test]
    fn short_vectored_writes_resume_inside_a_buffer() {
        for granule in [1, 512] {
            let file = Reluctant::new(10_000, 700);
            let parts: Vec<Vec<u8>> = [100, 0, 1000, 412, 2048]
                .iter()
                .zip(1..)
                .map(|(&length, byte)| vec![byte; length])
                .collect();
            let buffers: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            write_vectored(&file, 1024, &buffers, granule).unwrap();
            assert_eq!(file.bytes.borrow()[1024..1024 + 3560], parts.concat());
        }
    }

    #[test]
    fn long_vectors_are_split() {
        let file = Reluctant::new(8 * 5000, 1 << 20);
        let data: Vec<u8> = (0..8 * 5000).map(|i| (i % 251) as u8).collect();
        let buffers: Vec<IoSlice<'_>> = data.chunks(8).map(IoSlice::new).collect();
        write_vectored(&file, 0, &buffers, 1).unwrap();
        assert_eq!(*file.bytes.borrow(), data);
    }

    #[test]
    fn a_transfer_that_stops_is_an_error() {
        let file = Reluctant::new(1000, 700);
        let error = read_whole(&file, 512, &mut [0; 1024], 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let stuck = Reluctant::new(10_000, 100);
        let error = write_whole(&stuck, 0, &[0; 1024], 512).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
    }
}
