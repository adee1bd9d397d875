//! Varve as a library: a POSIX tree in one image file or block device.
//!
//! [`Volume`] is the whole of it: create one, open one, work on its files by
//! path, close it. Everything written is appended to a log; after a crash the
//! next [`Volume::open`] is back in milliseconds with everything that was
//! synced, and with directory operations whole and in order.
//!
//! ```
//! use varve::{CreateOptions, OpenFlags, Volume};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let host = tempfile::tempdir()?;
//! let image = host.path().join("notes.varve");
//! let volume = Volume::create(&image, &CreateOptions::new(64 << 20))?;
//!
//! volume.create_dir_all("/letters/2026")?;
//! volume.write("/letters/2026/may.txt", b"Dear reader,")?;
//!
//! let file = volume.open_file("/letters/2026/may.txt", OpenFlags::READ_WRITE)?;
//! file.append(b"\nthe log is dry.")?;
//! file.sync_all()?; // survives a power cut from here on
//! drop(file);
//!
//! for entry in volume.read_dir("/letters/2026")? {
//!     println!("{}", entry?.file_name().display());
//! }
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | its part |
//! |---|---|
//! | [`volume`] | the facade: paths in, results out |
//! | `virtual_log` | volumes on the virtual log: made, opened, closed |
//! | [`mod@format`] | making a volume, and what it refuses to overwrite |
//! | [`host`] | who we are, and who holds a volume |
//! | `background`, [`Verifier`] | the threads that write back, checkpoint, clean and verify |
//!
//! Paths are those of the volume's own tree: `/` is its root, and a path
//! without a leading `/` means the same. Sizes and offsets are in bytes.

mod background;
mod error;
pub mod format;
pub mod host;
mod options;
mod unlocked;
mod verifier;
mod virtual_log;
pub mod volume;

pub use error::{Error, Result};
pub use options::{CreateOptions, OpenOptions, Preallocation};
pub use varve_device::IoMode;
pub use varve_fs::{Atime, Caller, FileFlags, FileKind, InodeNo, SetTime, StatFs, Timestamp};
pub use varve_fsck::verify::{BadFile, BadRange, Control, Outcome, Progress, Verification};
pub use varve_lfs::MAX_HEADS;
pub use varve_lfs::cleaner::{CleanerSettings, CleanerStatus, Pace};
pub use varve_lfs::policy::PolicyKind;
pub use verifier::{Job, JobStatus, ScrubOptions, Verifier};
pub use virtual_log::{VirtualLogVolume, is_virtual_log, read_virtual_log_superblock};
pub use volume::open_device;
pub use volume::read_superblock;
pub use volume::{DirEntry, File, Metadata, OpenFlags, ReadDir, Statistics, Volume};
