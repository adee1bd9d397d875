//! Memory maps for tests.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::File;

/// A shared, writable map of a file's first bytes.
pub struct SharedMap {
    start: *mut u8,
    len: usize,
}

impl SharedMap {
    /// Maps `len` bytes of `file`, which is open for reading and writing and
    /// at least that long.
    pub fn new(file: &File, len: usize) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches
        // nothing that exists.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
            .unwrap()
        };
        SharedMap {
            start: start.cast(),
            len,
        }
    }

    /// The byte at `offset`.
    pub fn get(&self, offset: usize) -> u8 {
        assert!(offset < self.len);
        // SAFETY: inside the mapping. Volatile, as others change the file.
        unsafe { self.start.add(offset).read_volatile() }
    }

    /// Sets the byte at `offset`.
    pub fn set(&self, offset: usize, byte: u8) {
        assert!(offset < self.len);
        // SAFETY: as in `get`.
        unsafe { self.start.add(offset).write_volatile(byte) }
    }

    /// Writes changes to the file.
    pub fn sync(&self) {
        // SAFETY: exactly the mapping.
        unsafe { msync(self.start.cast(), self.len, MsyncFlags::SYNC).unwrap() }
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping, which nobody can reach any more.
        unsafe {
            let _ = munmap(self.start.cast(), self.len);
        }
    }
}
