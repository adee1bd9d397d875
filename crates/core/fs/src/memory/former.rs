//! State of a directory before changes that may be undone.

use super::name_changes::NameChange;
use super::overlay::Overlay;
use super::vnode::{Dirty, State};
use crate::inode::Inode;

/// A directory's state before changes that may have to be undone without reading the
/// layout, which may fail. Only rename makes several changes of which a later one can
/// fail.
#[derive(Debug)]
pub(crate) struct Former {
    pub inode: Inode,
    pub logged_blocks: u64,
    pub logged_sectors: u64,
    pub pending: Overlay,
    /// Each block that a change touched, as it was: dirty, or `None` if only the layout
    /// had it.
    pub blocks: Vec<(u64, Option<Dirty>)>,
    /// Of a private tree's directory: each name that was changed, by its cookie.
    pub names: Vec<(u64, Option<NameChange>)>,
}

impl State {
    /// Starts to record the state, so that later changes of names can be undone.
    pub fn keep_former(&mut self) {
        self.former = Some(Box::new(Former {
            inode: self.inode.clone(),
            logged_blocks: self.logged.blocks,
            logged_sectors: self.logged.sectors,
            pending: self.pending.clone(),
            blocks: Vec::new(),
            names: Vec::new(),
        }));
    }

    /// Records the earlier change of a private tree's name. To be called after each
    /// change.
    pub fn keep_name(&mut self, cookie: u64, name: Option<NameChange>) {
        if let Some(former) = &mut self.former {
            former.names.push((cookie, name));
        }
    }

    /// Records a block's earlier state. To be called before each change of it.
    pub fn keep_block(&mut self, block: u64) {
        if let Some(former) = &mut self.former
            && former.blocks.iter().all(|(kept, _)| *kept != block)
        {
            let dirty = self.dirty.get(&block).cloned();
            former.blocks.push((block, dirty));
        }
    }
}
