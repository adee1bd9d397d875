//! The vnode of a number: in memory, of the layout, or of the tree below a private tree.

use super::{Below, FileSystem};
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::layout::Layout;
use crate::memory::private::Private;
use crate::memory::vnode::{Ground, Vnode};
use crate::memory::vnode_table::Known;
use crate::planted::{self, Planted};
use crate::types::{InodeNo, View};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl<L: Layout> FileSystem<L> {
    /// The vnode of a number, read from the layout if necessary.
    ///
    /// # Errors
    /// `Stale` for a free number, `Damaged`, device errors.
    #[inline]
    pub(crate) fn vnode(&self, ino: InodeNo) -> Result<Arc<Vnode>> {
        match self.table.get(ino) {
            Some(vnode) => Ok(vnode),
            None => self.load_vnode(ino),
        }
    }

    #[cold]
    fn load_vnode(&self, ino: InodeNo) -> Result<Arc<Vnode>> {
        if ino < InodeNo::ROOT {
            return Err(Error::Stale); // an inode of the layout's own
        }
        if let Some(below) = &self.below
            && below.ended.load(SeqCst)
        {
            return Err(Error::Aborted);
        }
        let _loading = self.table.loading(ino);
        match self.table.known(ino) {
            Known::Vnode(vnode) if !planted::is(Planted::LoadedTwice) => Ok(vnode),
            Known::Ended => Err(Error::Stale),
            Known::Vnode(_) | Known::Held | Known::Nothing => self.enter_vnode(ino),
        }
    }

    /// Makes a vnode of an inode that is not in memory and was not removed. The caller
    /// has its loading lock.
    ///
    /// # Errors
    /// As [`Self::vnode`].
    pub(crate) fn enter_vnode(&self, ino: InodeNo) -> Result<Arc<Vnode>> {
        let vnode = Arc::new(match &self.below {
            None => self.vnode_of_layout(ino, View::Live)?,
            Some(below) => self.vnode_of_ground(ino, below)?,
        });
        self.table.insert(Arc::clone(&vnode));
        Ok(vnode)
    }

    /// Makes a vnode of an inode that the layout stores.
    pub(crate) fn vnode_of_layout(&self, ino: InodeNo, view: View) -> Result<Vnode> {
        let inode = self.checked_inode(ino, view)?;
        Ok(Vnode::of(
            inode,
            self.store.birth(),
            Ground::Layout(view),
            self.level,
            None,
        ))
    }

    /// Makes a private tree's vnode of an inode that is not in memory and was not
    /// removed. The caller has its loading lock.
    ///
    /// # Errors
    /// `Aborted` after the tree's end; as [`Self::vnode`].
    fn vnode_of_ground(&self, ino: InodeNo, below: &Below<L>) -> Result<Vnode> {
        if below.is_over() {
            return Err(Error::Aborted);
        }
        match below.snapshot {
            Some((number, _)) => {
                let view = View::Snapshot(number);
                let inode = self.checked_inode(ino, view)?;
                Ok(self.copy_of(inode, Ground::Layout(view)))
            }
            None => self.vnode_of_target(ino, &below.target),
        }
    }

    fn copy_of(&self, inode: Inode, ground: Ground) -> Vnode {
        let private = Some(Private::new(inode.clone()));
        Vnode::of(inode, self.store.birth(), ground, self.level, private)
    }

    /// Makes a vnode above the target's file, which stays referenced for as long as this
    /// one is in memory.
    fn vnode_of_target(&self, ino: InodeNo, target: &FileSystem<L>) -> Result<Vnode> {
        let ground = target.vnode(ino)?;
        let inode = {
            let state = ground.read();
            state.live()?;
            ground.refs.fetch_add(1, Relaxed);
            state.inode.clone()
        };
        Ok(self.copy_of(inode, Ground::Vnode(ground)))
    }

    /// The inode as the layout stores it, checked. It is not in memory and was not
    /// removed, and the caller has its loading lock.
    ///
    /// # Errors
    /// As [`Self::vnode`].
    pub(crate) fn checked_inode(&self, ino: InodeNo, view: View) -> Result<Inode> {
        let read = self.store.layout.read_inode(view, ino);
        let inode = read.map_err(|error| match error {
            Error::NotFound => Error::Stale,
            other => other,
        })?;
        match inode.flaw(ino, self.store.geometry.max_file_bytes) {
            None => Ok(inode),
            Some(flaw) => Err(Error::Damaged {
                ino: Some(ino),
                detail: flaw.to_owned(),
            }),
        }
    }
}
