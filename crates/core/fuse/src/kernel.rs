//! Caches of the kernel of a mount, which must be invalidated when changes come another
//! way than through the mount (`docs/design/transactions.md`, "For any program").
//!
//! Everything here makes the kernel wait for requests of its own: never call it on
//! a thread that serves.

use crate::adapter::Adapter;
use crate::apart;
use crate::caches::Merge;
use crate::nodes;
use crate::outside::{self, InUse, Kept, Outside, Place};
use crate::settle::{Moved, Root, Step, aside_name, in_order};
use crate::transport::{
    DevFuse, Stale, Transport, invalidate_attributes, invalidate_entry, invalidate_pages, prune,
};
use rustix::fs::{Mode, OFlags};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_fs::{Attr, Caller, Changed, FileKind, InodeNo, Layout};

/// How often files are dropped that are being read without a pause.
const ROUNDS_MAX: u32 = 1000;

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
        let place = |attr: Attr| Place {
            ino: attr.ino,
            node: nodes::node(attr.ino),
            version: attr.version,
            path: view.path_of(attr.ino),
        };
        let known = self.known(files.to_vec()).into_iter();
        match known.map(place).collect::<Vec<Place>>() {
            places if places.is_empty() => Ok(None),
            places => outside::keep_from_execution(mountpoint, places).map(Some),
        }
    }

    /// Has it write back what it holds of these files, and drop it.
    pub fn write_back(&self, files: &[InodeNo]) {
        for &ino in files {
            self.drop_pages(ino);
        }
    }

    fn drop_pages(&self, ino: InodeNo) {
        let node = nodes::node(ino);
        // ENOENT: it does not know the file.
        let _ = invalidate_pages(&*self.transport as &dyn Transport, node, 0, 0);
    }

    /// Has it drop what it holds of all that a commit is about to change, and keep
    /// nothing of it until the answer is dropped or [`Commit::reveal`] is done.
    /// `view` is what the changes were made through.
    pub fn prepare<'k, M: Layout>(
        &'k self,
        changed: &'k Changed,
        view: &'k Adapter<M>,
    ) -> Commit<'k, L, M> {
        let regular = |ino: &&InodeNo| {
            let attr = self.adapter.file_system().getattr(**ino);
            attr.is_ok_and(|attr| attr.kind == FileKind::Regular)
        };
        let regular: Vec<InodeNo> = changed.files.iter().filter(regular).copied().collect();
        let merge = self.adapter.begin_merge(&regular);
        let names = changed.names.iter();
        let names = names.filter(|(parent, name)| self.outdate_name(*parent, name, Stale::Expired));
        let names: Vec<_> = names.collect();
        for &ino in &changed.files {
            // Whatever looks it up just now is done before attributes are dropped.
            if let Some((parent, name)) = view.name_of(ino) {
                self.outdate_name(parent, &name, Stale::Expired);
            }
            self.drop_pages(ino);
        }
        if self.adapter.write_back() {
            // What nothing uses comes with its new size when it is asked for again.
            let nodes: Vec<u64> = regular.iter().map(|ino| nodes::node(*ino)).collect();
            if let Err(error) = prune(&*self.transport, &nodes) {
                tracing::debug!(%error, "files that nothing uses stay in the kernel");
            }
        }
        let mut read = merge.pause_unread(&regular);
        for _ in 0..ROUNDS_MAX {
            if read.is_empty() {
                break;
            }
            self.write_back(&read);
            read = merge.pause_unread(&read);
        }
        Commit {
            kernel: self,
            view,
            merge,
            names,
            regular,
        }
    }

    /// True if the kernel held the name.
    fn outdate_name(&self, parent: InodeNo, name: &[u8], stale: Stale) -> bool {
        let parent = nodes::node(parent);
        invalidate_entry(&*self.transport, parent, name, stale).is_ok()
    }

    /// Where a name leads.
    fn find(&self, parent: InodeNo, name: &[u8]) -> Option<Attr> {
        let caller = Caller {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            checked: true,
            umask: 0,
        };
        self.adapter
            .file_system()
            .lookup(&caller, parent, name)
            .ok()
    }

    /// Uses the mount as a program would.
    fn act<R: Send>(&self, work: impl FnOnce(&Root) -> R + Send) -> io::Result<R> {
        let mountpoint = self.mountpoint.as_ref();
        let mountpoint =
            mountpoint.ok_or_else(|| io::Error::other("another process mounted it"))?;
        apart::run(|| Ok(work(&Root::open(mountpoint)?)))
    }
}

/// A commit that the kernel is prepared for.
pub struct Commit<'k, L: Layout, M: Layout> {
    kernel: &'k Kernel<L>,
    view: &'k Adapter<M>,
    merge: Merge<'k>,
    /// The names that change and that the kernel held.
    names: Vec<&'k (InodeNo, Vec<u8>)>,
    /// The regular files that change.
    regular: Vec<InodeNo>,
}

impl<L: Layout, M: Layout> Commit<'_, L, M> {
    /// It has been merged: the kernel gets to see all of it.
    pub fn reveal(self, changed: &Changed) {
        let Commit {
            kernel,
            view,
            merge,
            names,
            regular,
        } = self;
        // A listing has no time for which it may be trusted either.
        let held: HashSet<&InodeNo> = regular.iter().collect();
        let others = changed.files.iter().filter(|ino| !held.contains(ino));
        others.for_each(|ino| kernel.drop_pages(*ino));
        let used = match kernel.adapter.write_back() {
            true => kernel.known(regular),
            false => Vec::new(),
        };
        let moved = kernel.known(view.renamed()).into_iter().filter_map(|attr| {
            let names = (view.name_of(attr.ino)?, view.new_name_of(attr.ino)?);
            let (from, to) = (attr.kind == FileKind::Directory).then_some(names)?;
            Some(Moved {
                ino: attr.ino,
                from,
                to,
            })
        });
        let moved = in_order(moved.collect());
        if !(moved.is_empty() && used.is_empty()) {
            let done = kernel.act(|root| {
                merge.act();
                for step in moved {
                    match step {
                        Step::Aside(ino) => look_up_at(root, aside_name(ino).as_ref()),
                        Step::Name(parent, name) => look_up(root, view, parent, &name),
                    }
                }
                for attr in used {
                    kernel.settle(root, &attr, view);
                }
            });
            if let Err(error) = done {
                tracing::debug!(%error, "sizes and times of open files stay as they were");
            }
        }
        kernel.write_back(&merge.end());
        kernel.let_go(&names, view);
    }
}

impl<L: Layout> Kernel<L> {
    /// Those of these files that the kernel knows.
    fn known(&self, files: Vec<InodeNo>) -> Vec<Attr> {
        let known = files.into_iter().filter(|ino| {
            let node = nodes::node(*ino);
            invalidate_attributes(&*self.transport, node).is_ok()
        });
        let attributes = known.filter_map(|ino| self.adapter.file_system().getattr(ino).ok());
        attributes.collect()
    }

    /// Sets size and times of a file that is in use, as a program would.
    fn settle<M: Layout>(&self, root: &Root, attr: &Attr, view: &Adapter<M>) {
        let path = view.new_path_of(attr.ino).unwrap_or_default();
        let Err(error) = root.settle(&path, attr) else {
            return;
        };
        let path = path.display();
        tracing::debug!(%error, %path, "whatever uses it knows its size and times as they were");
        // Others need not, unless that would unmount something.
        if error.kind() != io::ErrorKind::CrossesDevices
            && let Some((parent, name)) = view.new_name_of(attr.ino)
        {
            self.outdate_name(parent, &name, Stale::Gone);
        }
    }

    /// Has it let go of what these names led to: it has them as expired, and would ask
    /// only at the next look-up.
    fn let_go<M: Layout>(&self, names: &[&(InodeNo, Vec<u8>)], view: &Adapter<M>) {
        let mut others = Vec::new();
        for (parent, name) in names {
            match self.find(*parent, name) {
                Some(_) => others.push((*parent, name)),
                None => {
                    self.outdate_name(*parent, name, Stale::Gone);
                }
            }
        }
        if others.is_empty() {
            return;
        }
        let done = self.act(|root| {
            for (parent, name) in others {
                look_up(root, view, parent, name);
            }
        });
        if let Err(error) = done {
            tracing::debug!(%error, "what was replaced stays in the kernel for now");
        }
    }
}

/// Has the kernel look a name up, where it holds something older.
fn look_up<M: Layout>(root: &Root, view: &Adapter<M>, parent: InodeNo, name: &[u8]) {
    let path = view.new_path_of(parent).unwrap_or_default();
    look_up_at(root, &path.join(OsStr::from_bytes(name)));
}

fn look_up_at(root: &Root, path: &Path) {
    if let Err(error) = root.look_up(path) {
        let path = path.display();
        tracing::debug!(%error, %path, "the kernel may know it as it was");
    }
}
