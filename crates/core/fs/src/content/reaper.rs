//! Freeing files; a file that is too large to be freed at once is freed in steps.
//!
//! Files without names and files in the middle of a truncate wait here. Each step frees
//! at most 65,536 blocks in a group of its own. After a crash in between, the next mount
//! continues ([`Layout::unfinished`]).

use super::truncate::Survey;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::layout::{Layout, Purpose, Usage};
use crate::memory::changes::ALL;
use crate::memory::overlay::Overlay;
use crate::memory::vnode::{Life, State, Vnode};
use crate::statistics::count;
use crate::types::InodeNo;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Number of cached blocks of a freed file that are dropped at once.
const FORGET_FREED: u64 = 8;

impl<L: Layout> FileSystem<L> {
    /// Frees a file whole, in memory and with the epoch.
    pub(crate) fn free(&self, vnode: &Arc<Vnode>, state: &mut State) {
        let before = state.usage();
        let cached = self.store.blocks_of(state.inode.size).min(FORGET_FREED);
        if state.inode.flags & flags::INLINE == 0 && state.logged.ever {
            for block in 0..cached {
                self.store.cache.take(&state.generation, block);
            }
        }
        self.remove(state, 0, u64::MAX, Survey::All);
        // The record that frees the inode covers all of them.
        self.waits
            .pend(&mut state.pending, |all| *all = Overlay::default());
        self.space.settle(before, Usage::default());
        state.life = Life::Freed;
        state.inline_dirty = false;
        if let Some(bytes) = state.waiting_xattrs() {
            self.waits.attributes_went(bytes, self.store.block_bytes);
            state.xattrs_dirty = false;
        }
        state.changes.note(ALL);
        self.count_joined(state);
        self.dequeue(state);
        count(&self.store.counters.frees, 1);
        if state.logged.ever {
            self.join(vnode, state);
        } else {
            // Only the epoch's list refers to the vnode from here on.
            self.table.remove(vnode);
            self.number_is_free(vnode.ino);
        }
    }

    /// Frees one step of the file that has waited longest. Returns false if no file
    /// waits, or if the layout has no space for the step.
    pub(crate) fn reap_step(&self) -> Result<bool> {
        if self.below.is_some() || self.check_writable().is_err() {
            return Ok(false);
        }
        self.reaping.fetch_add(1, Relaxed);
        let outcome = self.take_step();
        self.reaping.fetch_sub(1, Relaxed);
        outcome
    }

    fn take_step(&self) -> Result<bool> {
        let first = self.queues().reap.pop_front();
        let Some(vnode) = first else { return Ok(false) };
        let more = match self.free_step(&vnode) {
            // Space will be available later, and the file must be in the queue then.
            Err(Error::NoSpace) => {
                self.queues().free_later(vnode);
                return Ok(false);
            }
            outcome => outcome?,
        };
        if more {
            self.queues().free_later(vnode);
        }
        Ok(true)
    }

    /// Frees until no file waits, or there is no space for it. The next mount continues
    /// with the files that are left.
    pub(crate) fn reap_all(&self) -> Result<()> {
        while self.reap_step()? {}
        Ok(())
    }

    /// Finishes a file's truncate, because the file is about to grow.
    pub(crate) fn finish_truncate(&self, vnode: &Arc<Vnode>) -> Result<()> {
        while self.free_step(vnode)? {}
        Ok(())
    }

    /// Frees some of a file's blocks, in a group of its own. Returns true if more are
    /// left.
    fn free_step(&self, vnode: &Arc<Vnode>) -> Result<bool> {
        let (from, doomed) = {
            let state = vnode.read();
            match state.life {
                Life::Freed => return Ok(false),
                Life::Doomed => (0, true),
                Life::Live if state.inode.flags & flags::TRUNCATING != 0 => {
                    (self.store.blocks_of(state.inode.size), false)
                }
                Life::Live => return Ok(false),
            }
        };
        let more = if doomed && vnode.read().inode.blocks <= self.settings.step_blocks {
            false
        } else {
            let more = self.punch_step(vnode, from, u64::MAX)?.is_some();
            self.seal_step()?;
            more
        };
        if more {
            return Ok(true);
        }
        let _operation = self.begin(Usage::default(), 0, Purpose::Shrink)?;
        let mut state = vnode.write();
        match state.life {
            Life::Freed => {}
            Life::Doomed => self.free(vnode, &mut state),
            // Only if the size has not been cut further meanwhile.
            Life::Live if self.store.blocks_of(state.inode.size) == from => {
                state.inode.flags &= !flags::TRUNCATING;
                self.join(vnode, &mut state);
            }
            Life::Live => return Ok(true),
        }
        Ok(false)
    }

    /// At mount: frees files without names and finishes truncates, the large ones later.
    /// A file that cannot be read keeps its space, and the mount continues without it.
    pub(crate) fn recover(&self) -> Result<()> {
        if self.check_writable().is_err() {
            return Ok(());
        }
        for ino in self.store.layout.unfinished()? {
            match self.finish(ino) {
                Ok(()) | Err(Error::Stale) => {}
                Err(error @ (Error::Damaged { .. } | Error::Device(_))) => {
                    tracing::error!(%error, ino = ino.0, "an unfinished file is left as it is");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn finish(&self, ino: InodeNo) -> Result<()> {
        let vnode = self.vnode(ino)?;
        let small = {
            let _operation = self.begin_unasked();
            let mut state = vnode.write();
            if state.inode.nlink == 0 && vnode.refs.load(Relaxed) == 0 {
                state.life = Life::Doomed;
            }
            state.inode.blocks <= self.settings.step_blocks
        };
        if small {
            match self.finish_truncate(&vnode) {
                Err(Error::NoSpace) => {}
                outcome => return outcome,
            }
        }
        self.queues().free_later(vnode);
        Ok(())
    }
}
