//! `varve stats`: one JSON object, fetched from another process by an ioctl
//! on the mount's root. Anyone who can open the root may read it.

use std::io;
use std::path::Path;

/// Bytes of the answer: the most an ioctl number can say (14 bits), in
/// multiples of 8. The text ends at the first NUL.
pub(crate) const STATISTICS_BYTES: usize = 16_376;

/// `_IOR('V', 1, [u8; 16376])`: the statistics as JSON text.
pub const VARVE_IOC_STATS: u32 =
    (2 << 30) | ((STATISTICS_BYTES as u32) << 16) | ((b'V' as u32) << 8) | 1;

/// The statistics of the file system mounted at `dir`, as JSON text.
///
/// # Errors
/// ENOTTY if `dir` is not the root of a Varve mount; whatever opening it says.
pub fn query_statistics(dir: &Path) -> io::Result<String> {
    let directory = crate::question::open_root(dir)?;
    let buffer = crate::sys::statistics_ioctl(directory)?;
    crate::question::text(&buffer[..])
}
