//! The one system call without a safe wrapper.
#![allow(unsafe_code)]

use crate::statistics::{STATISTICS_BYTES, VARVE_IOC_STATS};
use rustix::ioctl::{Updater, ioctl};
use std::io;
use std::os::fd::AsFd;

/// Fetches the statistics of the mount whose root `directory` is open on.
pub(crate) fn statistics_ioctl(directory: impl AsFd) -> io::Result<Box<[u8; STATISTICS_BYTES]>> {
    let mut buffer = Box::new([0u8; STATISTICS_BYTES]);
    // SAFETY: the opcode is an `_IOR` whose size field is STATISTICS_BYTES,
    // the size of the buffer. A FUSE server cannot make the kernel copy more
    // than that field says, and any other driver that knows this number was
    // given the size with it. The buffer is initialised before the call, so
    // an answer that is shorter leaves zeros behind it.
    unsafe {
        let request = Updater::<'_, { VARVE_IOC_STATS as _ }, _>::new(&mut *buffer);
        ioctl(directory, request)?;
    }
    Ok(buffer)
}
