//! Questions to the program behind a mount, over an ioctl on its root: text
//! in, text out. What may be asked, and by whom, is that program's affair.

use crate::calls::QUESTION_BYTES;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Asks the program behind the mount at `dir`.
///
/// # Errors
/// ENOTTY if `dir` is not the root of a mount that answers; E2BIG if the
/// question is too long; what the program refuses it with.
pub fn ask(dir: &Path, question: &str) -> io::Result<String> {
    let directory = open_root(dir)?;
    let mut buffer = Box::new([0u8; QUESTION_BYTES]);
    let room = buffer.get_mut(..question.len());
    let room = room.filter(|room| room.len() < QUESTION_BYTES);
    room.ok_or(rustix::io::Errno::TOOBIG)?
        .copy_from_slice(question.as_bytes());
    crate::sys::ask_ioctl(directory, &mut buffer)?;
    text(&buffer[..])
}

/// The directory that an ioctl is sent to.
pub(crate) fn open_root(dir: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}

/// The text of a question or an answer, up to its NUL.
///
/// # Errors
/// `InvalidData` unless it is UTF-8.
pub fn text(bytes: &[u8]) -> io::Result<String> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec())
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// The bytes of an answer, with the NUL that ends it.
pub fn answer(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}
