//! Reading files.
//!
//! No thread waits for a device under a lock: a miss notes the file's change count,
//! releases the lock, reads, and checks again. Data is read again if a change overtook
//! it, either in these very blocks or among so many changes that the record of them was
//! dropped (`changes.rs`). The bytes copied before are then read again, too, so a read
//! sees a write whole or not at all.

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::isolation::{Access, Part};
use crate::layout::Layout;
use crate::memory::body::Body;
use crate::memory::read_ahead::Plan;
use crate::memory::store::Store;
use crate::memory::vnode::{Ground, ReadState, State, Vnode};
use crate::options::Atime;
use crate::planted::{self, Planted};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Block;

/// How often an overtaken fetch is repeated before the lock is kept throughout.
const OVERTAKEN_TRIES: usize = 4;
const DAY_S: i64 = 86_400;

impl<L: Layout> FileSystem<L> {
    /// Reads `buffer.len()` bytes at `offset`; fewer only at the end of the file. Holes
    /// read as zeros.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` for other special files, `Stale`, `Damaged`, device
    /// errors.
    pub fn read(&self, ino: InodeNo, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_as(ino, offset, buffer, Access::Read)
    }

    /// [`Self::read`] of bytes that are going to be written. A locking transaction takes
    /// an update lock, which excludes other readers for update but no plain readers.
    /// Elsewhere it is a plain read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_for_update(&self, ino: InodeNo, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_as(ino, offset, buffer, Access::Update)
    }

    #[inline]
    fn read_as(
        &self,
        ino: InodeNo,
        offset: u64,
        buffer: &mut [u8],
        access: Access,
    ) -> Result<usize> {
        let vnode = self.vnode(ino)?;
        vnode.regular()?;
        let end = offset.saturating_add(buffer.len() as u64);
        self.uses_for_read(&vnode, offset..end, access)?;
        let _outside = self.as_outsider(&[
            (&vnode, Part::Content(offset..end), Access::Read),
            (&vnode, Part::Size, Access::Read),
        ])?;
        let done = self.store.read(&vnode, offset, buffer)?;
        count(&self.store.counters.reads, 1);
        count(&self.store.counters.read_bytes, done as u64);
        if done > 0 {
            let last = (offset + done as u64 - 1) >> self.store.block_shift;
            if matches!(vnode.ground, Ground::Layout(_)) {
                self.read_ahead.progress(&vnode, last);
            }
        }
        self.touch(&vnode);
        Ok(done)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` for other kinds of files; otherwise as [`Self::read`].
    pub fn readlink(&self, ino: InodeNo) -> Result<Vec<u8>> {
        let vnode = self.vnode(ino)?;
        if vnode.kind != FileKind::Symlink {
            return Err(Error::Invalid("not a symbolic link"));
        }
        self.uses(&vnode, Part::Content(0..u64::MAX), Access::Read)?;
        let size = vnode.read().inode.size;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let mut target = vec![0; size.min(self.store.block_bytes)];
        let done = self.store.read(&vnode, 0, &mut target)?;
        target.truncate(done);
        self.touch(&vnode);
        Ok(target)
    }

    /// Records an access time if the mount options ask for it.
    pub(crate) fn touch(&self, vnode: &Arc<Vnode>) {
        let noted = match self.settings.atime {
            Atime::Relatime | Atime::Strict => true,
            Atime::RelatimeOfFiles | Atime::StrictOfFiles => vnode.kind != FileKind::Directory,
            Atime::Never => false,
        };
        if !noted || self.check_writable().is_err() {
            return;
        }
        if matches!(self.settings.atime, Atime::Strict | Atime::StrictOfFiles) {
            return self.note_read_time(vnode, self.now());
        }
        let (atime, changed) = {
            let state = vnode.read();
            let inode = &state.inode;
            if inode.flags & flags::NO_ATIME != 0 {
                return;
            }
            (inode.atime, inode.mtime.max(inode.ctime))
        };
        let seen = match vnode.atime_ns.load(Relaxed) {
            0 => atime,
            ns => Timestamp::from_ns(ns),
        };
        let now = self.now();
        if seen <= changed || now.seconds - seen.seconds >= DAY_S {
            self.note_read_time(vnode, now);
        }
    }
}

impl<L: Layout> Store<L> {
    /// Reads as [`FileSystem::read`], with the vnode looked up.
    pub fn read(&self, vnode: &Vnode, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match &vnode.ground {
            Ground::Layout(_) => self.read_over_layout(vnode, offset, buffer),
            Ground::Vnode(below) => self.read_over(vnode, below, offset, buffer),
        }
    }

    /// Reads a file of a private tree. Ranges that it has not changed are read from the
    /// tree below.
    fn read_over(
        &self,
        vnode: &Vnode,
        below: &Vnode,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let state = vnode.read();
        state.live()?;
        let end = offset.saturating_add(buffer.len() as u64);
        let end = end.min(state.inode.size);
        let private = state.private.as_ref();
        let hides_inline = private.is_some_and(|private| private.origin.flags & flags::INLINE != 0);
        let mut at = offset;
        while at < end {
            at += self.read_memory(&state, at, end, &mut buffer[(at - offset) as usize..])? as u64;
            let block = at >> self.block_shift;
            let dirty = state.dirty.range(block..).next().map(|(block, _)| *block);
            let pending = state.pending.within(block, u64::MAX).next();
            let own = dirty.into_iter().chain(pending.map(|(start, ..)| start));
            let to = own
                .min()
                .map_or(end, |own| end.min(own << self.block_shift));
            if at >= to {
                continue;
            }
            let part = &mut buffer[(at - offset) as usize..(to - offset) as usize];
            // Bytes that were inline below and are not here any more were truncated.
            let read = match hides_inline {
                true => 0,
                false => self.read(below, at, part)?,
            };
            part[read..].fill(0);
            at = to;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    fn read_over_layout(&self, vnode: &Vnode, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut state = vnode.read();
        let mut done = 0;
        let mut overtaken = 0;
        let mut waited_for = None;
        let mut begun = state.changes.count();
        loop {
            state.live()?;
            let copied = (offset >> self.block_shift)..self.blocks_of(offset + done as u64);
            if done > 0 && state.changes.touched(begun, &copied) {
                done = 0;
                overtaken += 1;
            }
            if done == 0 {
                begun = state.changes.count();
            }
            let keep = overtaken >= OVERTAKEN_TRIES;
            let end = state
                .inode
                .size
                .min(offset.saturating_add(buffer.len() as u64));
            let at = offset.saturating_add(done as u64);
            if at >= end {
                return Ok(done);
            }
            done += self.read_memory(&state, at, end, &mut buffer[done..])?;
            let at = offset + done as u64;
            if at >= end {
                return Ok(done);
            }
            let block = at >> self.block_shift;
            if !keep && waited_for != Some(block) && vnode.ahead.is_fetching(block) {
                drop(state);
                vnode.ahead.wait_for(block);
                waited_for = Some(block);
                state = vnode.read();
                continue;
            }
            let wanted = self.blocks_of(end) - block;
            let file_blocks = self.blocks_of(state.inode.size);
            let plan = self.plan(vnode, &state, block, wanted, file_blocks)?;
            if plan.zeros_to > block {
                let zeros = (plan.zeros_to << self.block_shift).min(end) - at;
                buffer[done..done + zeros as usize].fill(0);
                done += zeros as usize;
                continue;
            }
            match self.fetch_planned(vnode, state, plan, keep)? {
                Fetched::Cached { state: now, data } => {
                    state = now;
                    done += self.copy_run(&data, at, end, &mut buffer[done..]);
                }
                Fetched::Overtaken(now) => {
                    state = now;
                    overtaken += 1;
                }
            }
        }
    }

    /// Copies blocks that are in memory or spilled, up to the first block that is
    /// neither.
    fn read_memory(
        &self,
        state: &State,
        offset: u64,
        end: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        if state.is_inline() {
            copy_padded(
                &state.inode.inline,
                offset as usize,
                &mut buffer[..(end - offset) as usize],
            );
            return Ok((end - offset) as usize);
        }
        let mut at = offset;
        let mut hits = 0;
        while at < end {
            let block = at >> self.block_shift;
            let within = (at & (self.block_bytes as u64 - 1)) as usize;
            let chunk = ((self.block_bytes - within) as u64).min(end - at) as usize;
            let start = (at - offset) as usize;
            let out = &mut buffer[start..start + chunk];
            if let Some(dirty) = state.dirty.get(&block) {
                match &dirty.data {
                    Body::Memory(data) => copy_padded(data, within, out),
                    Body::Spilled(_) => {
                        at += self.read_spilled(state, at, end, &mut buffer[start..])? as u64;
                        continue;
                    }
                }
            } else if state
                .pending
                .at(block)
                .or_else(|| state.flying.at(block))
                .is_some()
            {
                out.fill(0);
            } else if let Some(data) = self.cache.get(&state.generation, block) {
                copy_padded(&data, within, out);
            } else {
                break;
            }
            hits += 1;
            at += chunk as u64;
        }
        count(&self.counters.hits, hits);
        Ok((at - offset) as usize)
    }

    /// Reads the planned blocks without the lock (or with it, if `keep`), and enters them
    /// into the cache unless they changed meanwhile.
    fn fetch_planned<'a>(
        &self,
        vnode: &'a Vnode,
        state: ReadState<'a>,
        plan: Plan<L::Pointer>,
        keep: bool,
    ) -> Result<Fetched<'a>> {
        count(&self.counters.misses, plan.fetch.len() as u64);
        let change = state.changes.count();
        let (state, read) = if keep {
            let read = self.fetch(vnode, &plan.fetch);
            (state, read)
        } else {
            drop(state);
            let read = self.fetch(vnode, &plan.fetch);
            (vnode.read(), read)
        };
        let overtaken = state.changes.touched(change, &plan.blocks());
        if overtaken && !planted::is(Planted::OvertakenFetch) {
            return Ok(Fetched::Overtaken(state));
        }
        match read {
            Ok(data) => {
                let blocks = plan.fetch.iter().map(|mapping| mapping.block);
                let data: Vec<_> = blocks.zip(data).collect();
                for (block, data) in &data {
                    self.cache
                        .insert(&state.generation, *block, Arc::clone(data));
                }
                Ok(Fetched::Cached { state, data })
            }
            Err(error) => {
                // The block may have moved, and one bad block must not fail the rest of a
                // window. So only the first one is fetched, with a new look-up.
                let block = plan.fetch[0].block;
                let error = match self.load(vnode, &state, block) {
                    Ok(Some(loaded)) => {
                        return Ok(Fetched::Cached {
                            state,
                            data: vec![(block, loaded.data)],
                        });
                    }
                    Ok(None) => error,
                    Err(again) => again,
                };
                Err(error)
            }
        }
    }

    /// Copies fetched blocks as far as they are contiguous from `offset` on.
    fn copy_run(
        &self,
        data: &[(u64, Arc<Block>)],
        offset: u64,
        end: u64,
        buffer: &mut [u8],
    ) -> usize {
        let mut at = offset;
        for (block, data) in data {
            if at >= end || *block != at >> self.block_shift {
                break;
            }
            let within = (at & (self.block_bytes as u64 - 1)) as usize;
            let chunk = ((self.block_bytes - within) as u64).min(end - at) as usize;
            let start = (at - offset) as usize;
            copy_padded(data, within, &mut buffer[start..start + chunk]);
            at += chunk as u64;
        }
        (at - offset) as usize
    }
}

enum Fetched<'a> {
    Cached {
        state: ReadState<'a>,
        data: Vec<(u64, Arc<Block>)>,
    },
    Overtaken(ReadState<'a>),
}

/// Copies from `data[from..]`; missing bytes read as zeros.
pub(crate) fn copy_padded(data: &[u8], from: usize, out: &mut [u8]) {
    let have = data.len().saturating_sub(from).min(out.len());
    out[..have].copy_from_slice(&data[data.len().min(from)..][..have]);
    out[have..].fill(0);
}
