//! The blocks of a directory's vnode, as the directory module uses them.

use crate::directory::DirectoryBlocks;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::memory::changes::ALL;
use crate::memory::overlay::Overlay;
use crate::memory::store::Store;
use crate::memory::vnode::{Dirty, State, Vnode, adjust, sectors_of};
use crate::types::{InodeNo, Timestamp, View};
use std::sync::Arc;
use varve_device::Block;

impl<L: Layout> Store<L> {
    fn read_directory(&self, vnode: &Vnode, state: &State, block: u64) -> Result<Arc<Block>> {
        if let Some(dirty) = state.dirty.get(&block) {
            return Ok(Arc::clone(dirty.data.memory()));
        }
        // A directory is not sparse: a cached block is one that exists.
        let loaded = match self.cache.get(&state.generation, block) {
            Some(data) if state.pending.is_empty() && state.flying.is_empty() => return Ok(data),
            _ => self.load(vnode, state, block)?,
        };
        loaded
            .map(|loaded| loaded.data)
            .ok_or_else(|| missing(vnode.ino, block))
    }

    fn directory_block_exists(&self, vnode: &Vnode, state: &State, block: u64) -> Result<bool> {
        if state.dirty.contains_key(&block) {
            return Ok(true);
        }
        if block == 0 || state.inode.blocks == 0 {
            return Ok(state.inode.blocks > 0);
        }
        Ok(self.mapped_one(vnode, state, block)?.is_some())
    }
}

fn missing(ino: InodeNo, block: u64) -> Error {
    Error::Damaged {
        ino: Some(ino),
        detail: format!("directory block {block} does not exist"),
    }
}

/// A directory that is only searched.
pub(crate) struct Searched<'a, L: Layout> {
    pub store: &'a Store<L>,
    pub vnode: &'a Vnode,
    pub state: &'a State,
}

impl<L: Layout> DirectoryBlocks for Searched<'_, L> {
    fn read(&mut self, block: u64) -> Result<Arc<Block>> {
        self.store.read_directory(self.vnode, self.state, block)
    }

    fn exists(&mut self, block: u64) -> Result<bool> {
        self.store
            .directory_block_exists(self.vnode, self.state, block)
    }

    /// Stored blocks only: it is used by the offline check, during which no block is
    /// dirty.
    fn next_existing(&mut self, from: u64) -> Result<Option<u64>> {
        let layout = &self.store.layout;
        layout.next_mapped(View::Live, self.vnode.ino, from)
    }

    fn is_checked(&self, block: u64) -> bool {
        self.state.dirty.contains_key(&block)
    }

    fn write(&mut self, _block: u64, _data: Vec<u8>) {
        unreachable!("a search changes nothing");
    }

    fn free(&mut self, _block: u64) {
        unreachable!("a search changes nothing");
    }
}

impl<L: Layout> FileSystem<L> {
    /// Undoes all changes of names since [`State::keep_former`]. The directory has been
    /// locked throughout.
    pub(crate) fn restore(&self, state: &mut State) {
        let former = state.former.take().expect("kept by the caller");
        let before = state.usage();
        for (block, dirty) in former.blocks {
            if let Some(dirty) = &dirty {
                self.waits.block_came(dirty.data.len());
            }
            let changed = match dirty {
                Some(dirty) => state.dirty.insert(block, dirty),
                None => state.dirty.remove(&block),
            };
            if let Some(changed) = changed {
                self.waits.block_went(changed.data.len());
            }
        }
        if let Some(private) = &mut state.private {
            for (cookie, name) in former.names.into_iter().rev() {
                private.names.restore(cookie, name);
            }
        }
        state.inode = former.inode;
        state.logged.blocks = former.logged_blocks;
        state.logged.sectors = former.logged_sectors;
        self.count_joined(state);
        let pending = former.pending;
        self.waits.pend(&mut state.pending, |all| *all = pending);
        state.changes.note(ALL);
        self.space.settle(before, state.usage());
    }
}

/// A directory whose entries change.
pub(crate) struct Changed<'a, L: Layout> {
    pub fs: &'a FileSystem<L>,
    pub vnode: &'a Vnode,
    pub state: &'a mut State,
    pub now: Timestamp,
    /// Blocks that are not dirty and may be written or freed, with the sectors they
    /// occupy; 0 for a hole.
    pub prepared: Vec<(u64, u64)>,
}

impl<L: Layout> Changed<'_, L> {
    /// Sectors of a prepared block that is not dirty.
    fn sectors_before(&self, block: u64) -> u64 {
        let found = self.prepared.iter().find(|(at, _)| *at == block);
        found.expect("prepared before the first change").1
    }

    fn make_dirty(&mut self, block: u64, data: Arc<Block>, mapped: u64) {
        let sectors = sectors_of(data.len());
        adjust(&mut self.state.inode.blocks, 0, (mapped == 0).into());
        adjust(&mut self.state.inode.sectors, mapped, sectors);
        self.fs.waits.block_came(data.len());
        let dirty = Dirty {
            data: data.into(),
            logged_sectors: mapped as u32,
            written: self.now,
            flying: false,
        };
        self.state.dirty.insert(block, dirty);
        self.fs.count_joined(self.state);
    }

    fn change_dirty(&mut self, block: u64, change: impl FnOnce(&mut Arc<Block>)) {
        let dirty = self.state.dirty.get_mut(&block).expect("the caller looked");
        let before = dirty.data.len();
        change(dirty.data.memory_mut());
        let after = dirty.data.len();
        dirty.flying = false;
        dirty.written = self.now;
        let sectors = &mut self.state.inode.sectors;
        adjust(sectors, sectors_of(before), sectors_of(after));
        self.fs.waits.block_changed(before, after);
    }
}

impl<L: Layout> DirectoryBlocks for Changed<'_, L> {
    fn read(&mut self, block: u64) -> Result<Arc<Block>> {
        self.fs.store.read_directory(self.vnode, self.state, block)
    }

    fn exists(&mut self, block: u64) -> Result<bool> {
        self.fs
            .store
            .directory_block_exists(self.vnode, self.state, block)
    }

    fn is_checked(&self, block: u64) -> bool {
        // Only changes make blocks dirty.
        self.state.dirty.contains_key(&block)
    }

    fn prepare(&mut self, block: u64) -> Result<()> {
        if !self.state.dirty.contains_key(&block) {
            let mapped = self.fs.store.mapped_one(self.vnode, self.state, block)?;
            self.prepared
                .push((block, mapped.map_or(0, |mapped| mapped.sectors)));
        }
        Ok(())
    }

    fn write(&mut self, block: u64, data: Vec<u8>) {
        self.state.keep_block(block);
        self.state.changes.note(block..block + 1);
        if self.state.dirty.contains_key(&block) {
            self.change_dirty(block, |old| *old = Arc::new(data.into()));
            return;
        }
        let mapped = self.sectors_before(block);
        self.fs.store.cache.take(&self.state.generation, block);
        self.make_dirty(block, Arc::new(data.into()), mapped);
    }

    fn edit(&mut self, block: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<()> {
        if self.state.dirty.contains_key(&block) {
            self.state.keep_block(block);
        } else {
            let loaded = self.fs.store.load(self.vnode, self.state, block)?;
            let loaded = loaded.ok_or_else(|| missing(self.vnode.ino, block))?;
            self.state.keep_block(block);
            self.fs.store.cache.take(&self.state.generation, block);
            self.make_dirty(block, loaded.data, loaded.sectors);
        }
        self.state.changes.note(block..block + 1);
        self.change_dirty(block, |data| change(Arc::make_mut(data).as_vec_mut()));
        Ok(())
    }

    fn free(&mut self, block: u64) {
        self.state.keep_block(block);
        self.state.changes.note(block..block + 1);
        let state = &mut *self.state;
        let (sectors, logged_sectors) = match state.dirty.remove(&block) {
            Some(dirty) => {
                self.fs.waits.block_went(dirty.data.len());
                (
                    sectors_of(dirty.data.len()),
                    u64::from(dirty.logged_sectors),
                )
            }
            None => {
                let sectors = self.sectors_before(block);
                (sectors, sectors)
            }
        };
        let state = &mut *self.state;
        adjust(&mut state.inode.blocks, (sectors > 0).into(), 0);
        adjust(&mut state.inode.sectors, sectors, 0);
        if logged_sectors > 0 {
            adjust(&mut state.logged.blocks, 1, 0);
            adjust(&mut state.logged.sectors, logged_sectors, 0);
            let clear = |all: &mut Overlay| all.clear(block, block + 1);
            self.fs.waits.pend(&mut state.pending, clear);
        }
        self.fs.store.cache.take(&state.generation, block);
    }
}
