//! Linux AIO, for tests: io_setup(2), io_submit(2), io_getevents(2).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// `struct iocb`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Control {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_descriptor: u32,
}
const _: () = assert!(size_of::<Control>() == 64);

/// `struct io_event`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

/// `IOCB_CMD_PWRITE`
const PWRITE: u16 = 1;
const PLACES: usize = 64;

/// A context for asynchronous writes.
pub struct Aio {
    context: libc::c_ulong,
}

impl Aio {
    pub fn new() -> Self {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel fills one number in.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, PLACES, &raw mut context) };
        assert!(made == 0, "{}", io::Error::last_os_error());
        Aio { context }
    }

    /// Writes `data` at the beginning of `file`, in pieces of `piece` bytes that
    /// are all under way at once, and waits for them.
    pub fn write(&self, file: &File, data: &[u8], piece: usize) {
        let control = |(n, piece_of): (usize, &[u8])| Control {
            opcode: PWRITE,
            descriptor: file.as_raw_fd() as u32,
            buffer: piece_of.as_ptr() as u64,
            bytes: piece_of.len() as u64,
            offset: (n * piece) as i64,
            ..Control::default()
        };
        let mut controls: Vec<Control> = data.chunks(piece).enumerate().map(control).collect();
        assert!(controls.len() <= PLACES);
        let pointers: Vec<*mut Control> = controls.iter_mut().map(|c| &raw mut *c).collect();
        let mut events = vec![Event::default(); pointers.len()];
        let count = pointers.len() as libc::c_long;
        // SAFETY: as many pointers as are said, to valid structs; these and the
        // data they name outlive the writes, which are waited for below.
        let sent =
            unsafe { libc::syscall(libc::SYS_io_submit, self.context, count, pointers.as_ptr()) };
        assert!(sent == count, "{sent}: {}", io::Error::last_os_error());
        // SAFETY: room for as many events as are asked for.
        let got = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                count,
                count,
                events.as_mut_ptr(),
                null_mut::<libc::timespec>(),
            )
        };
        assert!(got == count, "{got}: {}", io::Error::last_os_error());
        let done: i64 = events.iter().map(|e| e.result).sum();
        assert_eq!(done, data.len() as i64);
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: a number.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
