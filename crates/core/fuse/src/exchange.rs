//! Messages to the program behind a mount, over an ioctl on its root: bytes
//! in, bytes out. What they mean, and who may send them, is that program's
//! affair.

use crate::calls::EXCHANGE_BYTES;
use std::io;
use std::path::Path;

/// Sends a message to the program behind the mount at `dir`; returns the
/// answer, with zeros behind it.
///
/// The root is opened for each message, so that whoever exchanges them does
/// not keep the mount busy.
///
/// # Errors
/// ENOTTY if `dir` is not the root of a mount that answers; E2BIG if the
/// message is too long; what the program refuses it with.
pub fn exchange(dir: &Path, message: &[u8]) -> io::Result<Box<[u8; EXCHANGE_BYTES]>> {
    let directory = crate::question::open_root(dir)?;
    let mut buffer = Box::new([0u8; EXCHANGE_BYTES]);
    let room = buffer.get_mut(..message.len());
    room.ok_or(rustix::io::Errno::TOOBIG)?
        .copy_from_slice(message);
    crate::sys::exchange_ioctl(directory, &mut buffer)?;
    Ok(buffer)
}
