//! The two rings of io_uring, for one submission at a time.
//!
//! They live in memory of ours. Where the kernel allocates them, as libraries
//! have it, whoever shares our memory keeps them open through the mapping, and
//! with them the connection that the entry belongs to. A server that is killed
//! while a thread waits for its own mount would then stay for ever: see
//! `apart.rs`.
//!
//! Source: io_uring_setup(2), IORING_SETUP_NO_MMAP.
#![allow(unsafe_code)]

use super::command::Submission;
use rustix::io_uring::{
    IoringEnterFlags, IoringSetupFlags, io_uring_enter, io_uring_params, io_uring_ptr,
    io_uring_setup,
};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Places in the submission ring. The completion ring has twice as many.
const ENTRIES: u32 = 2;
/// `struct io_uring_cqe`: user data, result, flags.
const COMPLETION_BYTES: usize = 16;
/// Where in it the result is.
const RESULT_AT: usize = 8;

/// A submission and a completion ring, used by one thread.
pub(super) struct Rings {
    /// Dropped before the memory.
    descriptor: OwnedFd,
    memory: Pages,
    params: io_uring_params,
}

impl Rings {
    /// # Errors
    /// If the kernel has no such rings, or none for us: before Linux 6.6.
    pub(super) fn new() -> io::Result<Self> {
        let memory = Pages::new()?;
        let mut params = io_uring_params::default();
        params.flags =
            IoringSetupFlags::SQE128 | IoringSetupFlags::NO_MMAP | IoringSetupFlags::NO_SQARRAY;
        params.cq_off.user_addr = io_uring_ptr::new(memory.at(0).cast());
        params.sq_off.user_addr = io_uring_ptr::new(memory.at(memory.page_bytes).cast());
        // SAFETY: both addresses begin a page of ours, and either ring of so
        // few places fits one. The memory lives as long as the descriptor.
        let descriptor = unsafe { io_uring_setup(ENTRIES, &mut params) }?;
        Ok(Rings {
            descriptor,
            memory,
            params,
        })
    }

    /// Puts a submission into its ring, where [`Rings::enter`] finds it.
    ///
    /// # Panics
    /// If the ring is full.
    ///
    /// # Safety
    /// What `submission` points to stays in place, and nobody else touches it,
    /// until its completion has been taken.
    pub(super) unsafe fn push(&self, submission: Submission) {
        let offsets = &self.params.sq_off;
        let (head, tail) = (self.word(offsets.head), self.word(offsets.tail));
        let at = tail.load(Ordering::Relaxed);
        let waiting = at.wrapping_sub(head.load(Ordering::Acquire));
        assert!(
            waiting < ENTRIES,
            "{waiting} submissions were never entered"
        );
        let slot = at as usize % ENTRIES as usize;
        let place = self
            .memory
            .at(self.memory.page_bytes + slot * size_of::<Submission>());
        // SAFETY: the slot is inside the second page and aligned to its size,
        // and the kernel does not read it before the tail has moved.
        unsafe { place.cast::<Submission>().write(submission) };
        tail.store(at.wrapping_add(1), Ordering::Release);
    }

    /// Submits as many as were pushed, and waits for `wait` completions.
    ///
    /// # Errors
    /// EINTR if a signal came before anything was submitted or completed.
    pub(super) fn enter(&self, submit: u32, wait: u32) -> io::Result<()> {
        let flags = match wait {
            0 => IoringEnterFlags::empty(),
            _ => IoringEnterFlags::GETEVENTS,
        };
        // SAFETY: what is submitted was pushed under `push`'s conditions.
        unsafe { io_uring_enter(&self.descriptor, submit, wait, flags) }?;
        Ok(())
    }

    /// The result of a completion, if there is one.
    pub(super) fn completion(&self) -> Option<i32> {
        let offsets = &self.params.cq_off;
        let (head, tail) = (self.word(offsets.head), self.word(offsets.tail));
        let at = head.load(Ordering::Relaxed);
        if at == tail.load(Ordering::Acquire) {
            return None;
        }
        let slot = at % self.params.cq_entries;
        let place = self
            .memory
            .at(offsets.cqes as usize + slot as usize * COMPLETION_BYTES + RESULT_AT);
        // SAFETY: the slot is inside the first page and filled, since the tail
        // is past it, and the kernel leaves it alone until the head is.
        let result = unsafe { place.cast::<i32>().read() };
        head.store(at.wrapping_add(1), Ordering::Release);
        Some(result)
    }

    /// A counter of the rings.
    fn word(&self, offset: u32) -> &AtomicU32 {
        let place = self.memory.at(offset as usize).cast::<u32>();
        assert!(place.is_aligned());
        // SAFETY: it is inside the first page and aligned; we and the kernel
        // touch it by atomic operations only.
        unsafe { AtomicU32::from_ptr(place) }
    }
}

/// Two pages of zeros: one for the counters and the completions, one for the
/// submissions.
///
/// They are mapped, not taken from the heap: the kernel lets go of them some
/// time after the rings are closed, and must not find another's data there.
struct Pages {
    start: NonNull<u8>,
    page_bytes: usize,
}

// SAFETY: it owns its memory.
unsafe impl Send for Pages {}

impl Pages {
    fn new() -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: without an address this touches no other mapping.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), 2 * page_bytes, protection, flags) }?;
        Ok(Pages {
            start: NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?,
            page_bytes,
        })
    }

    /// The byte at `offset`.
    ///
    /// # Panics
    /// If it lies outside.
    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < 2 * self.page_bytes);
        // SAFETY: it is inside the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nothing of ours refers to the mapping any more; the kernel
        // refers to the pages, which stay as long as it does.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), 2 * self.page_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
