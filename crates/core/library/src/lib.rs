//! A log-structured file system in one image file or block device, used like [`std::fs`].
//!
//! A [`Volume`] contains a POSIX tree of files. It needs no mount, no root and no kernel
//! module: a program creates or opens it, uses its files by path or through [`File`]s,
//! and closes it. Changes of any number of files can be committed as one
//! [`Transaction`]. After a crash the next [`Volume::open`] recovers in milliseconds
//! everything that was synced, and directory operations whole and in their order.
//!
//! # Files
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
//! # Transactions
//!
//! ```
//! let volume = varve::Volume::in_memory(16 << 20)?;
//! volume.write("/checking", b"100")?;
//! volume.write("/savings", b"250")?;
//!
//! let transfer = volume.begin()?;
//! transfer.write("/checking", b"70")?;
//! transfer.write("/savings", b"280")?;
//! assert_eq!(volume.read("/checking")?, b"100");
//! transfer.commit()?; // both are durable, or neither
//! assert_eq!(volume.read("/savings")?, b"280");
//! # Ok::<(), varve::Error>(())
//! ```
//!
//! # Errors
//!
//! An [`Error`] names the operation, the path and the cause. It has the
//! [`kind`](Error::kind) that `std::fs` would give it, and converts into a
//! [`std::io::Error`]. [`Error::is_conflict`] distinguishes transactions that may succeed
//! when they are repeated; [`Volume::transact`] repeats them.
//!
//! ```
//! use std::io::{self, ErrorKind};
//! let volume = varve::Volume::in_memory(16 << 20)?;
//! let error = volume.read("/no/such").unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::NotFound);
//! assert_eq!(error.errno(), 2);
//! assert_eq!(error.to_string(), "cannot open /no/such: no such file or directory");
//! assert_eq!(io::Error::from(error).kind(), ErrorKind::NotFound);
//! # Ok::<(), varve::Error>(())
//! ```
//!
//! # From `std::fs`
//!
//! | `std` | here |
//! |---|---|
//! | `fs::read`, `write`, `copy`, `rename`, `metadata`, ... | methods of [`Volume`] of that name |
//! | `fs::File::open`, `create` | [`Volume::open_file`], [`Volume::create_file`] |
//! | `fs::OpenOptions` | [`OpenOptions`], whose `open` takes the volume as well |
//! | `fs::File` | [`File`]: `Read`, `Write`, `Seek`, and `FileExt` of Unix |
//! | `fs::Metadata`, `DirEntry`, `ReadDir` | the same names; `MetadataExt` of Unix works |
//! | `fs::Permissions`, `io::ErrorKind` | those of `std` |
//! | | [`Volume::snapshot`], [`Volume::at`], [`Volume::diff`], [`Volume::restore`]: snapshots |
//!
//! [`Volume::walk`], [`Volume::exchange`], extended attributes, file flags and
//! [`File::next_hole`] have no counterpart in `std`. Sizes and offsets are in bytes.
//! Handles may be used from any thread.
//!
//! # Where to go on
//!
//! - [`VolumeOptions`]: layout, size, cache and access when a volume is created or opened.
//! - [`Volume::transact`] and [`TransactionOptions`]: repeated attempts, isolation,
//!   savepoints.
//! - `examples/` in the sources of this crate: a notebook, a crash, sparse files, threads.
//! - `docs/guide/semantics.md`: what `sync`, `rename` and a crash guarantee.
//! - [`admin`]: for programs that administer volumes; other programs do not need it.

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
mod store;
#[cfg(feature = "tp")]
mod tp;
mod transaction;
mod transfer;
mod tree;
mod unlocked;
mod verifier;
mod volume;

pub use conflict::Conflict;
pub use error::{Error, Result};
pub use file::{File, OpenOptions};
pub use metadata::{FileTimes, FileType, Metadata};
pub use options::{Layout, Preallocation, StoreOptions, VolumeOptions};
pub use snapshots::{Change, FormerFile, ReadOnlyVolume, RemovedName, Snapshot};
#[cfg(feature = "tp")]
pub use tp::VolumeStorage;
pub use transaction::{Ticket, Transaction, TransactionOptions};
pub use varve_device::IoMode;
pub use varve_ffs::FreeMap;
pub use varve_ffs::allocate::{Fit, Policy as Allocation};
pub use varve_ffs::format::Metadata as MetadataUpdates;
pub use varve_fs::{
    Atime, ChangeKind, Contended, Detection, FileFlags, Isolation, Received, ReceivedMark,
    Restored, Sent, StatFs, TransferError,
};
pub use volume::{DirEntry, ReadDir, Scan, Scanned, Volume, Walk};

/// Checks at compile time that every handle may be shared between threads.
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

/// Carrier of the README, so that its example is compiled as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
