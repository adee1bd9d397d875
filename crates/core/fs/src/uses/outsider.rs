//! Operations of the mounted tree on protected files: each is a small locking transaction
//! of its own.

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::isolation::{Access, Locking, Object, Outsider, Part};
use crate::layout::Layout;
use crate::memory::vnode::Vnode;
use std::sync::Arc;
use varve_locks::LockTable;

impl<L: Layout> FileSystem<L> {
    /// Waits for transactions' locks on these parts of protected files, and keeps
    /// transactions from them until the result is dropped. To be called before space is
    /// asked for, without locks; in a private tree it does nothing.
    ///
    /// # Errors
    /// `Aborted` if the volume is being unmounted.
    #[inline]
    pub(crate) fn as_outsider(
        &self,
        parts: &[(&Arc<Vnode>, Part<'_>, Access)],
    ) -> Result<Option<Outsider>> {
        match self.locks.get() {
            None => Ok(None),
            Some(table) => self.wait_outside(table, parts),
        }
    }

    #[cold]
    fn wait_outside(
        &self,
        table: &Arc<LockTable<Object>>,
        parts: &[(&Arc<Vnode>, Part<'_>, Access)],
    ) -> Result<Option<Outsider>> {
        let protected = |vnode: &Arc<Vnode>| vnode.read().inode.flags & flags::PROTECTED != 0;
        let parts = parts.iter().filter(|(vnode, ..)| protected(vnode));
        let mut outsider = None;
        'again: loop {
            drop(outsider.take());
            for (vnode, part, access) in parts.clone() {
                let new = || Outsider(Locking::new(table, None, None, false));
                let outsider = outsider.get_or_insert_with(new);
                match outsider.0.take(&self.store, vnode, part, *access) {
                    Ok(()) => {}
                    // The transaction that already has the lock proceeds; this operation
                    // tries again.
                    Err(Error::Deadlock) => continue 'again,
                    Err(error) => return Err(error),
                }
            }
            return Ok(outsider);
        }
    }
}
