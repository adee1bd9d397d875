//! Our ioctls: numbers, how much each carries, and who answers.

use crate::errno::Errno;
use std::sync::Arc;

/// Bytes of the answer: the most an ioctl number can say (14 bits), in
/// multiples of 8. The text ends at the first NUL.
pub(crate) const STATISTICS_BYTES: usize = 16_376;

/// `_IOR('V', 1, [u8; 16376])`: the statistics as JSON text.
pub const VARVE_IOC_STATS: u32 =
    (2 << 30) | ((STATISTICS_BYTES as u32) << 16) | ((b'V' as u32) << 8) | 1;

/// Most bytes of a question and of an answer, less one for the NUL that ends
/// it.
pub const QUESTION_BYTES: usize = STATISTICS_BYTES;

/// `_IOWR('V', 2, [u8; 16376])`: a question, and in its place the answer.
pub const VARVE_IOC_ASK: u32 =
    (3 << 30) | ((QUESTION_BYTES as u32) << 16) | ((b'V' as u32) << 8) | 2;

/// Most bytes of a message and of its answer.
pub const EXCHANGE_BYTES: usize = STATISTICS_BYTES;

/// `_IOWR('V', 3, [u8; 16376])`: a message, and in its place the answer.
pub const VARVE_IOC_EXCHANGE: u32 =
    (3 << 30) | ((EXCHANGE_BYTES as u32) << 16) | ((b'V' as u32) << 8) | 3;

/// The attribute of a directory that spells a name in it anew when it is set: its value
/// is the old name and the new one, each with the NUL that ends it. It is never stored,
/// and only volumes that fold case take it.
pub const RESPELL: &[u8] = b"varve.respell";

/// Says more for the statistics: the text of a JSON object. Runs on a serving
/// thread, so it must not use the mount.
pub type StatisticsSource = Arc<dyn Fn() -> String + Send + Sync>;

/// Answers an ioctl on the mount's root with its output; ENOTTY if it does
/// not know it. Runs on a serving thread, so it must not use the mount.
pub type IoctlHandler = Arc<dyn Fn(&IoctlRequest<'_>) -> Result<Vec<u8>, Errno> + Send + Sync>;

/// An ioctl on the mount's root. The kernel has copied the argument according
/// to the direction and size in its number.
#[derive(Clone, Copy, Debug)]
pub struct IoctlRequest<'a> {
    /// Its number.
    pub command: u32,
    /// The argument's content, if the number says that it is read.
    pub input: &'a [u8],
    /// Most bytes that can be returned.
    pub output_bytes: usize,
    /// Who asks.
    pub uid: u32,
    /// The asker's group.
    pub gid: u32,
    /// The asking process.
    pub pid: u32,
}
