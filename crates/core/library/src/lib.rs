//! Varve as a library: a POSIX tree in one image file or block device, used as
//! [`std::fs`] is.
//!
//! A [`Volume`] is created or opened, its files are worked on by path or
//! through [`File`]s, and it is closed. Everything written is appended to a log;
//! after a crash the next [`Volume::open`] is back in milliseconds with
//! everything that was synced, and with directory operations whole and in order.
//!
//! ```
//! # let host = tempfile::tempdir()?;
//! # std::env::set_current_dir(&host)?;
//! use std::io::Write;
//! use varve::{OpenOptions, Volume};
//!
//! let volume = Volume::create("notes.img", 64 << 20)?;
//! volume.create_dir_all("/letters/2026")?;
//! volume.write("/letters/2026/may.txt", b"Dear reader,")?;
//!
//! let mut file = OpenOptions::new().append(true).open(&volume, "/letters/2026/may.txt")?;
//! file.write_all(b"\nthe log is dry.")?;
//! file.sync_all()?; // survives a power cut from here on
//! drop(file);
//!
//! for entry in volume.walk("/")? {
//!     let entry = entry?;
//!     println!("{} {}", entry.metadata()?.len(), entry.path().display());
//! }
//! volume.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | `std` | here |
//! |---|---|
//! | `fs::read`, `write`, `copy`, `rename`, `metadata`, ... | methods of [`Volume`] of that name |
//! | `fs::File::open`, `create` | [`Volume::open_file`], [`Volume::create_file`] |
//! | `fs::OpenOptions` | [`OpenOptions`]; `open` takes the volume, too |
//! | `fs::File` | [`File`]: `Read`, `Write`, `Seek`, and `FileExt` of Unix |
//! | `fs::Metadata`, `DirEntry`, `ReadDir` | the same names; `MetadataExt` of Unix works |
//! | `fs::Permissions`, `io::ErrorKind` | those of `std` |
//! | `io::Error` | [`Error`], which turns into one |
//! | | [`Volume::walk`], [`Volume::exchange`], extended attributes, holes |
//! | | [`Volume::begin`], [`Volume::transact`]: transactions |
//! | | [`Volume::snapshot`], [`Volume::at`], [`Volume::diff`], [`Volume::restore`]: snapshots |
//!
//! Sizes and offsets are in bytes. Examples are in `examples/`; what `sync` and
//! `rename` promise is in `docs/guide/semantics.md`.

pub mod admin;
mod background;
mod change;
mod conflict;
mod devices;
mod error;
mod file;
mod format;
mod host;
mod metadata;
mod mounted;
mod options;
mod shipping;
mod signature;
mod snapshots;
mod statistics;
#[cfg(feature = "tp")]
mod tp;
mod transaction;
mod tree;
mod unlocked;
mod verifier;
mod volume;

pub use conflict::Conflict;
pub use error::{Error, Result};
pub use file::{File, OpenOptions};
pub use metadata::{FileTimes, FileType, Metadata};
pub use options::{Layout, Preallocation, VolumeOptions};
pub use snapshots::{Change, FormerFile, ReadOnlyVolume, RemovedName, Snapshot};
#[cfg(feature = "tp")]
pub use tp::VolumeStorage;
pub use transaction::{Ticket, Transaction, TransactionOptions};
pub use varve_device::IoMode;
pub use varve_ffs::FreeMap;
pub use varve_ffs::allocate::{Fit, Policy as Allocation};
pub use varve_ffs::format::Metadata as MetadataUpdates;
pub use varve_fs::{
    Atime, ChangeKind, Contended, Detection, FileFlags, Isolation, Restored, StatFs,
};
pub use volume::{DirEntry, ReadDir, Volume, Walk};

/// Every handle may be used from any thread, and sent to another.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn cloned<T: Clone>() {}
    shared::<Volume>();
    shared::<File>();
    shared::<ReadDir>();
    shared::<Walk>();
    shared::<DirEntry>();
    shared::<Transaction>();
    shared::<Ticket>();
    shared::<ReadOnlyVolume>();
    shared::<Error>();
    cloned::<Volume>();
};

/// Its example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
