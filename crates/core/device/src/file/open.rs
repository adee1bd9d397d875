//! Opening and creating images: flags, locks and sizes.
//!
//! Invariants:
//! - Nothing is read from or written to a volume before it is locked.
//! - An existing file is never overwritten; a creation that fails leaves no file.
//! - The size is a multiple of the logical block.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, SeekFrom, Stat, StatxFlags};
use rustix::io::Errno;

use super::ring::Rings;
use super::{BOUNCE_BYTES, BOUNCE_KEPT, FileDevice, IoMode, lock, transfer};
use crate::aligned::AlignedBuffer;
use crate::device::Geometry;
use crate::pool::BufferPool;
use crate::size::Bytes;

/// The access for which a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading only, shared with other readers.
    ReadOnly,
    /// Reading and writing, exclusively.
    ReadWrite,
}

/// The method of allocating the space of a new image.
pub enum Preallocate<'a> {
    /// No space is allocated: the host's file system may become full while the volume
    /// has free space.
    Sparse,
    /// The space is reserved, so that the host cannot run out of it, but not written.
    Reserve,
    /// The space is filled with zeros, so that later writes change no metadata of the
    /// host's file system. The function is called with the bytes written so far and the
    /// total.
    Written(&'a mut dyn FnMut(u64, u64)),
}

/// The reason why an image or block device could not be opened or created.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The volume is in use by another process, or open twice in this one.
    #[error("{}: in use by another process, or open twice", path.display())]
    InUse {
        /// Path of the volume, or of the file behind a loop device.
        path: PathBuf,
    },
    /// The path names neither a regular file nor a block device.
    #[error("{}: neither a regular file nor a block device", path.display())]
    NotADevice {
        /// Path as given by the caller.
        path: PathBuf,
    },
    /// The size is zero or not a multiple of the logical block.
    #[error(
        "{}: a size of {} is no whole number of blocks of {}",
        path.display(),
        Bytes(*size),
        Bytes((*block).into())
    )]
    BadSize {
        /// Path as given by the caller.
        path: PathBuf,
        /// Size, in bytes.
        size: u64,
        /// Size of a logical block, in bytes.
        block: u32,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// Path as given by the caller.
        path: PathBuf,
        /// The failed action, as a verb.
        action: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn in_use(path: &Path) -> Self {
        OpenError::InUse {
            path: path.to_owned(),
        }
    }

    pub(super) fn io(path: &Path, action: &'static str, source: impl Into<io::Error>) -> Self {
        OpenError::Io {
            path: path.to_owned(),
            action,
            source: source.into(),
        }
    }
}

/// Opens and locks `path`, and finds out its geometry.
pub(super) fn open(path: &Path, mode: OpenMode, io: IoMode) -> Result<FileDevice, OpenError> {
    let before = rustix::fs::stat(path).map_err(|error| OpenError::io(path, "open", error))?;
    let block_device = is_block_device(path, &before)?;
    let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
    flags |= match mode {
        OpenMode::ReadOnly => OFlags::RDONLY,
        OpenMode::ReadWrite => OFlags::RDWR,
    };
    // On a block device this flag makes open fail if a mount or a volume manager
    // uses the device. On a regular file it would have no meaning.
    if block_device && mode == OpenMode::ReadWrite {
        flags |= OFlags::EXCL;
    }
    let mut opened = open_for(path, flags, io)?;
    let stat =
        rustix::fs::fstat(&opened.fd).map_err(|error| OpenError::io(path, "examine", error))?;
    if is_block_device(path, &stat)? != block_device {
        // The path names another file than a moment ago.
        return Err(OpenError::io(path, "open", Errno::STALE));
    }
    if block_device {
        opened.backing = lock::lock_block_device(&opened.fd, path, &stat, mode)?;
    } else {
        lock::lock(&opened.fd, path, mode, lock::FILE_ATTEMPTS)?;
    }
    finish(path, mode, io, opened, block_device, stat.st_size as u64)
}

/// Creates `path`, which must not exist, as an image of `size` bytes.
pub(super) fn create(
    path: &Path,
    size: u64,
    preallocate: Preallocate<'_>,
    io: IoMode,
) -> Result<FileDevice, OpenError> {
    if size == 0 || !size.is_multiple_of(crate::SECTOR) {
        return Err(OpenError::BadSize {
            path: path.to_owned(),
            size,
            block: crate::SECTOR as u32,
        });
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| OpenError::io(path, "create", error))?;
    lock::lock(&fd, path, OpenMode::ReadWrite, 1)
        .and_then(|()| fill(&fd, path, 0..size, preallocate, io))
        .and_then(|()| sync_with_name(&fd, path))
        .and_then(|()| {
            let mut opened = Opened::new(fd);
            if io == IoMode::Direct {
                set_direct(&mut opened, true)
                    .map_err(|error| OpenError::io(path, "examine", error))?;
            }
            finish(path, OpenMode::ReadWrite, io, opened, false, size)
        })
        .inspect_err(|_| {
            // The first error is the one worth reporting.
            let _ = std::fs::remove_file(path);
        })
}

/// Sets the size of a file to the end of `range`, and allocates the space of the range.
pub(super) fn fill(
    fd: &OwnedFd,
    path: &Path,
    range: Range<u64>,
    preallocate: Preallocate<'_>,
    io: IoMode,
) -> Result<(), OpenError> {
    rustix::fs::ftruncate(fd, range.end).map_err(|error| OpenError::io(path, "size", error))?;
    let length = range.end - range.start;
    let reserve = || rustix::fs::fallocate(fd, FallocateFlags::empty(), range.start, length);
    let written = match preallocate {
        Preallocate::Sparse => Ok(()),
        // A recorder outside of the process sees plain writes only, so the zeros are
        // written.
        Preallocate::Reserve if io == IoMode::Sync => write_zeros(fd, &range, &mut |_, _| {}),
        Preallocate::Reserve => reserve().map_err(io::Error::from),
        Preallocate::Written(progress) => {
            if io != IoMode::Sync {
                // One long reservation keeps the file in few extents. If the file
                // system does not support it, the zeros alone suffice; if it is full,
                // creation fails.
                match reserve() {
                    Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                    Err(error) => return Err(OpenError::io(path, "reserve space for", error)),
                }
            }
            write_zeros(fd, &range, progress)
        }
    };
    written.map_err(|error| OpenError::io(path, "reserve space for", error))
}

fn write_zeros(
    fd: &OwnedFd,
    range: &Range<u64>,
    progress: &mut dyn FnMut(u64, u64),
) -> io::Result<()> {
    let zeros = AlignedBuffer::zeroed(1 << 20);
    let length = range.end - range.start;
    let mut done = 0;
    while done < length {
        let step = (zeros.len() as u64).min(length - done);
        transfer::write_whole(fd, range.start + done, &zeros[..step as usize], 1)?;
        done += step;
        progress(done, length);
    }
    Ok(())
}

/// Makes a new file and its name durable.
fn sync_with_name(fd: &OwnedFd, path: &Path) -> Result<(), OpenError> {
    let sync = |fd: &OwnedFd| rustix::fs::fsync(fd);
    sync(fd).map_err(|error| OpenError::io(path, "sync", error))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(parent, flags, Mode::empty())
        .and_then(|directory| sync(&directory))
        .map_err(|error| OpenError::io(parent, "sync", error))
}

/// An open descriptor, and whether its direct I/O is on.
struct Opened {
    fd: OwnedFd,
    direct: bool,
    note: Option<String>,
    backing: Option<OwnedFd>,
}

impl Opened {
    fn new(fd: OwnedFd) -> Self {
        Opened {
            fd,
            direct: false,
            note: None,
            backing: None,
        }
    }
}

fn is_block_device(path: &Path, stat: &Stat) -> Result<bool, OpenError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(false),
        FileType::BlockDevice => Ok(true),
        _ => Err(OpenError::NotADevice {
            path: path.to_owned(),
        }),
    }
}

const NO_DIRECT: &str = "direct I/O is refused here: using the host's page cache";

/// Opens with direct I/O if it is requested and supported.
fn open_for(path: &Path, flags: OFlags, io: IoMode) -> Result<Opened, OpenError> {
    let open = |flags| {
        let open = || rustix::fs::open(path, flags, Mode::empty());
        lock::patiently(lock::DEVICE_ATTEMPTS, Errno::BUSY, open)
    };
    let failed = |error| match error {
        Errno::BUSY => OpenError::in_use(path),
        error => OpenError::io(path, "open", error),
    };
    let mut note = None;
    if io == IoMode::Direct {
        match open(flags | OFlags::DIRECT) {
            Ok(fd) => {
                let mut opened = Opened::new(fd);
                opened.direct = true;
                return Ok(opened);
            }
            Err(Errno::INVAL) => note = Some(NO_DIRECT.to_owned()),
            Err(error) => return Err(failed(error)),
        }
    }
    let mut opened = Opened::new(open(flags).map_err(failed)?);
    opened.note = note;
    Ok(opened)
}

/// Turns direct I/O on or off on an open descriptor. Where it cannot be turned on, it
/// stays off, and a note says so.
fn set_direct(opened: &mut Opened, on: bool) -> Result<(), Errno> {
    let mut flags = rustix::fs::fcntl_getfl(&opened.fd)?;
    flags.set(OFlags::DIRECT, on);
    opened.direct = match rustix::fs::fcntl_setfl(&opened.fd, flags) {
        Ok(()) => on,
        Err(Errno::INVAL) if on => false,
        Err(error) => return Err(error),
    };
    if !opened.direct {
        opened.note = Some(NO_DIRECT.to_owned());
    }
    Ok(())
}

/// Creates the device from an open, locked descriptor, after finding out its geometry.
fn finish(
    path: &Path,
    mode: OpenMode,
    io: IoMode,
    mut opened: Opened,
    block_device: bool,
    file_size: u64,
) -> Result<FileDevice, OpenError> {
    let examine = |error| OpenError::io(path, "examine", error);
    let mut memory_align = 1;
    let (size, logical_block, physical_block) = if block_device {
        let size = rustix::fs::seek(&opened.fd, SeekFrom::End(0)).map_err(examine)?;
        let logical = rustix::fs::ioctl_blksszget(&opened.fd).map_err(examine)?;
        let physical = rustix::fs::ioctl_blkpbszget(&opened.fd).map_err(examine)?;
        (size, logical.max(512), physical.max(logical))
    } else {
        let logical = match direct_alignment(&opened) {
            Some((memory, offset)) => {
                memory_align = memory;
                offset.max(512)
            }
            None if opened.direct => {
                set_direct(&mut opened, false).map_err(examine)?;
                512
            }
            None => 512,
        };
        (file_size, logical, logical.max(4096))
    };
    let geometry = Geometry {
        size: size - size % u64::from(logical_block),
        logical_block,
        physical_block,
    };
    if geometry.size == 0 {
        return Err(OpenError::BadSize {
            path: path.to_owned(),
            size,
            block: logical_block,
        });
    }
    Ok(FileDevice {
        path: path.to_owned(),
        mode,
        io: if io == IoMode::Direct && !opened.direct {
            IoMode::Buffered
        } else {
            io
        },
        // At least 512, even where the kernel permits less: drivers differ in
        // which smaller alignments they accept, and none has a benefit.
        memory_align: logical_block.max(memory_align) as usize,
        size: geometry.size.into(),
        opened: geometry,
        note: opened.note,
        fd: opened.fd,
        _backing: opened.backing,
        discards: AtomicBool::new(false),
        pool: BufferPool::new(BOUNCE_BYTES, BOUNCE_KEPT),
        rings: Rings::default(),
        counters: Arc::default(),
    })
}

/// Returns the alignments, in bytes, of memory and of offsets that direct I/O on this
/// regular file needs; `None` if direct I/O is off or the file does not support it.
fn direct_alignment(opened: &Opened) -> Option<(u32, u32)> {
    if !opened.direct {
        return None;
    }
    let flags = AtFlags::EMPTY_PATH;
    if let Ok(stat) = rustix::fs::statx(&opened.fd, "", flags, StatxFlags::DIOALIGN)
        && StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN)
    {
        let told = (stat.stx_dio_mem_align, stat.stx_dio_offset_align);
        // Some file systems report zeros although they support direct I/O.
        if told.1 > 0 && told.1 <= 65536 {
            return Some(told);
        }
    }
    // An older kernel does not report the alignment: try reads until one succeeds.
    let mut buffer = AlignedBuffer::zeroed(4096);
    [512, 4096].into_iter().find_map(|block| {
        let read = rustix::io::pread(&opened.fd, &mut buffer[..block as usize], 0);
        read.is_ok().then_some((block, block))
    })
}
