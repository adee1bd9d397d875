//! Listing directories.

use crate::attr::Entry;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::Layout;
use crate::types::{FileKind, InodeNo};

/// Entries copied from the directory under its lock at a time.
const BATCH: usize = 256;
/// Approximate bytes of their names.
const BATCH_BYTES: usize = 16 * BATCH;

const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

/// Entries copied from the directory for the caller.
struct Batch {
    names: Vec<u8>,
    /// Inode, kind, cookie, and the end of the name in `names`.
    entries: Vec<(InodeNo, FileKind, u64, usize)>,
}

impl<L: Layout> FileSystem<L> {
    /// Passes the entries whose cookies are greater than `after` to `emit`, until it
    /// returns false. A listing starts at 0; `.` has cookie 1 and `..` 2, names have
    /// stable ones below 2^63. An entry that exists throughout is seen exactly once,
    /// however long the listing takes. No lock is taken while `emit` runs, so it may call
    /// the file system.
    ///
    /// # Errors
    /// `NotDirectory`, `Stale`, `Damaged`, device errors.
    pub fn readdir(
        &self,
        ino: InodeNo,
        after: u64,
        emit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<()> {
        let vnode = self.vnode(ino)?;
        vnode.directory()?;
        let mut after = after;
        let parent = {
            let state = vnode.read_directory();
            state.live()?;
            state.inode.parent
        };
        let dots: [(&[u8], InodeNo, u64); 2] = [(b".", ino, DOT), (b"..", parent, DOT_DOT)];
        for (name, ino, cookie) in dots {
            if after < cookie {
                if !emit(Entry {
                    name,
                    ino,
                    kind: FileKind::Directory,
                    cookie,
                }) {
                    return Ok(());
                }
                after = cookie;
            }
        }
        let mut batch = Batch {
            names: Vec::with_capacity(BATCH_BYTES),
            entries: Vec::with_capacity(BATCH),
        };
        loop {
            batch.names.clear();
            batch.entries.clear();
            let listed = {
                let _outside = self.as_outsider(&[(&vnode, Part::Names, Access::Read)])?;
                let state = vnode.read_directory();
                self.list(&vnode, &state, after, &mut |name, ino, kind, cookie| {
                    batch.names.extend_from_slice(name);
                    batch.entries.push((ino, kind, cookie, batch.names.len()));
                    batch.entries.len() < BATCH
                })
            };
            let mut start = 0;
            for &(ino, kind, cookie, end) in &batch.entries {
                let name = &batch.names[start..end];
                start = end;
                if !emit(Entry {
                    name,
                    ino,
                    kind,
                    cookie,
                }) {
                    return Ok(());
                }
                after = cookie;
            }
            listed?;
            if batch.entries.len() < BATCH {
                self.touch(&vnode);
                return Ok(());
            }
        }
    }
}
