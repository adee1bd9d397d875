//! What the kernel of a mount keeps, and has to be told when changes come another
//! way than through the mount (`docs/transactions.md`, "For any program").
//!
//! Everything here makes the kernel wait for requests of its own: never call it on
//! a thread that serves.

use crate::adapter::{Adapter, NoWindows};
use crate::apart;
use crate::outside::{self, InUse, Kept, Outside, Place};
use crate::transport::{DevFuse, Transport, invalidate_entry, invalidate_pages};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_fs::{Attr, Changed, FileKind, InodeNo, Layout};

/// The kernel, as far as it is concerned with one mount.
pub struct Kernel<L: Layout> {
    pub(crate) adapter: Arc<Adapter<L>>,
    pub(crate) transport: Arc<DevFuse>,
    pub(crate) mountpoint: Option<PathBuf>,
}

impl<L: Layout> Clone for Kernel<L> {
    fn clone(&self) -> Self {
        Kernel {
            adapter: Arc::clone(&self.adapter),
            transport: Arc::clone(&self.transport),
            mountpoint: self.mountpoint.clone(),
        }
    }
}

impl<L: Layout> Kernel<L> {
    /// Has it write back everything that it holds of the mount.
    ///
    /// # Errors
    /// Those of open(2) and syncfs(2).
    pub fn sync(&self) -> io::Result<()> {
        let root = self.mountpoint.as_ref();
        let root = root.ok_or_else(|| io::Error::other("another process mounted it"))?;
        apart::run(|| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(root, flags, Mode::empty())?;
            Ok(rustix::fs::syncfs(root)?)
        })
    }

    /// For a commit that changes these files: none of them is being written
    /// atomically, and none begins to be while the answer is kept.
    ///
    /// # Errors
    /// The one that is.
    pub fn no_windows(&self, files: &[InodeNo]) -> Result<NoWindows<'_, L>, InodeNo> {
        self.adapter.keep_windows_shut(files)
    }

    /// The mount's files, as other programs have them; nothing if another process
    /// mounted it.
    pub fn outside(&self) -> Option<Outside>
    where
        L: 'static,
    {
        let adapter = Arc::clone(&self.adapter);
        let exists = move |ino, version| {
            let known = adapter.file_system().getattr(ino);
            known.is_ok_and(|attr| attr.version == version)
        };
        let mountpoint = self.mountpoint.clone()?;
        Some(Outside::new(mountpoint, Box::new(exists)))
    }

    /// For a commit that changes the content of these files: none of them is in use in a
    /// way that excludes writing, and none is executed while the answer is kept. `view`
    /// is what the changes were made through.
    ///
    /// # Errors
    /// The first that is in use, and how.
    pub fn keep_from_execution<M: Layout>(
        &self,
        files: &[InodeNo],
        view: &Adapter<M>,
    ) -> Result<Option<Kept>, (InodeNo, InUse)> {
        let Some(mountpoint) = &self.mountpoint else {
            return Ok(None);
        };
        // A file that the kernel does not know is neither executed nor leased.
        let known = files.iter().filter(|ino| self.drop_pages(**ino));
        let place = |&ino: &InodeNo| {
            let version = self.adapter.file_system().getattr(ino).ok()?.version;
            Some(Place {
                ino,
                node: self.adapter.node_of(ino),
                version,
                path: view.path_of(ino),
            })
        };
        match known.filter_map(place).collect::<Vec<Place>>() {
            places if places.is_empty() => Ok(None),
            places => outside::keep_from_execution(mountpoint, places).map(Some),
        }
    }

    /// Has it write back what it holds of these files, and drop it. True if it
    /// knows any of them.
    pub fn write_back(&self, files: &[InodeNo]) -> bool {
        let mut known = false;
        for &ino in files {
            known |= self.drop_pages(ino);
        }
        known
    }

    /// True if it knows the file.
    fn drop_pages(&self, ino: InodeNo) -> bool {
        let node = self.adapter.node_of(ino);
        invalidate_pages(&*self.transport as &dyn Transport, node, 0, 0).is_ok()
    }

    /// Has it forget pages, attributes and names of what a commit has changed.
    /// `view` is what the changes were made through.
    pub fn forget<M: Layout>(&self, changed: &Changed, view: &Adapter<M>) {
        for (parent, name) in &changed.names {
            self.forget_name(*parent, name);
        }
        for &ino in &changed.files {
            // Size and times of files are the kernel's own under write-back: it must
            // not know the file. The name goes first, so that nobody comes upon new
            // content in an inode with the old size, unless he has it open.
            if self.adapter.write_back()
                && let Some((parent, name)) = view.name_of(ino)
            {
                self.forget_name(parent, &name);
            }
            if !self.drop_pages(ino) || !self.adapter.write_back() {
                continue;
            }
            match self.adapter.file_system().getattr(ino) {
                Ok(attr) if attr.kind == FileKind::Regular => {
                    self.settle(&attr, view.path_of(ino));
                }
                _ => {}
            }
        }
    }

    fn forget_name(&self, parent: InodeNo, name: &[u8]) {
        let parent = self.adapter.node_of(parent);
        // ENOENT: the kernel does not hold it.
        let _ = invalidate_entry(&*self.transport, parent, name);
    }

    /// Somebody has the file open: its size and time are set as a program would.
    fn settle(&self, attr: &Attr, path: Option<PathBuf>) {
        let (Some(mountpoint), Some(path)) = (&self.mountpoint, path) else {
            tracing::debug!(ino = attr.ino.0, "its size and times stay as they were");
            return;
        };
        let set = apart::run(|| settle(mountpoint, &path, attr));
        if let Err(error) = set {
            let path = path.display();
            tracing::debug!(%error, %path, "its size and times stay as they were");
        }
    }
}

fn settle(mountpoint: &Path, path: &Path, attr: &Attr) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(mountpoint, flags, Mode::empty())?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(&root, path, flags, Mode::empty(), within)?;
    let known = rustix::fs::fstat(&file)?;
    if known.st_ino != attr.ino.0 {
        return Err(rustix::io::Errno::STALE.into());
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if u64::try_from(known.st_size) != Ok(attr.size) {
        let file = rustix::fs::openat2(&root, path, flags, Mode::empty(), within)?;
        match rustix::fs::fstat(&file)?.st_ino == attr.ino.0 {
            true => rustix::fs::ftruncate(&file, attr.size)?,
            false => return Err(rustix::io::Errno::STALE.into()),
        }
    }
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: attr.mtime.seconds,
            tv_nsec: attr.mtime.nanos.into(),
        },
    };
    Ok(rustix::fs::utimensat(
        &file,
        "",
        &times,
        AtFlags::EMPTY_PATH,
    )?)
}
