//! The content of a group: items of the epoch's members, and of the files whose data is
//! included. Called under the closed gate (`super`).

use super::{Capture, Flight, Landing, Take};
use crate::account::{difference, sum};
use crate::inode::flags;
use crate::layout::{Item, Layout, Usage};
use crate::memory::body::{Body, Lot, Spilled};
use crate::memory::vnode::{Life, Logged, State, Vnode, adjust, sectors_of};
use crate::planted::{self, Planted};
use crate::types::{FileKind, InodeNo, Timestamp, Version};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes for which an image counts in a group's payload.
const IMAGE_BYTES: u64 = 256;

/// Bytes for which a spilled block counts in a group's payload.
const PLACED_BYTES: u64 = 8;

impl<L: Layout> Capture<'_, L> {
    /// Takes the epoch, and with it the files whose fsync waits. Returns the number of
    /// the epoch's members.
    pub(super) fn epoch(&mut self, take: Take<'_>) -> u64 {
        let (members, ended, wanted) = {
            let mut queues = self.fs.queues();
            let wanted = match take {
                Take::Part(_) => Vec::new(),
                Take::Wanted | Take::Queue { .. } | Take::All => std::mem::take(&mut queues.wanted),
            };
            let mut members = std::mem::take(&mut queues.epoch);
            let mut ended = std::mem::take(&mut queues.ended);
            if planted::is(Planted::FsyncSkipsEpoch) && matches!(take, Take::Wanted) {
                let left =
                    members.extract_if(.., |vnode| !wanted.iter().any(|w| Arc::ptr_eq(w, vnode)));
                queues.epoch = left.collect();
                queues.ended = std::mem::take(&mut ended);
            }
            (members, ended, wanted)
        };
        let wanted = self.of_a_group(wanted);
        for vnode in &wanted {
            vnode.write().join_epoch = true;
        }
        self.items.reserve(members.len() + ended.len() + 8);
        for file in &ended {
            self.end(file.ino, file.version, file.counted);
        }
        self.ended = ended;
        // Directories last: in the log their blocks are then adjacent, before the group's
        // inodes, and a listing or a deletion skips no file's data.
        let is_directory = |vnode: &&Arc<Vnode>| vnode.kind == FileKind::Directory;
        let others = members.iter().filter(|vnode| !is_directory(vnode));
        for vnode in others.chain(members.iter().filter(is_directory)) {
            let part = matches!(take, Take::Part(file) if Arc::ptr_eq(file, vnode));
            if !part {
                self.visit(vnode, self.epoch_data(take));
            }
        }
        for vnode in &wanted {
            let in_group = vnode.read().captured == self.number;
            if !in_group {
                self.visit(vnode, u64::MAX);
            }
        }
        if let Take::Part(file) = take {
            self.visit(file, self.most);
        }
        (members.len() + self.ended.len()) as u64
    }

    /// The last of the files that wait for their fsync, and a group's worth of the rest,
    /// if the layout bounds groups. The remaining files ask again.
    fn of_a_group(&self, mut wanted: Vec<Arc<Vnode>>) -> Vec<Arc<Vnode>> {
        let store = &self.fs.store;
        if !store.geometry.bounds_groups {
            return wanted;
        }
        let mut bytes = 0;
        let fits = |vnode: &&Arc<Vnode>| {
            let is_last = bytes == 0;
            bytes += (vnode.read().dirty.len() * store.block_bytes) as u64 + 1;
            is_last || bytes <= store.geometry.group_bytes
        };
        let taken = wanted.iter().rev().take_while(fits).count();
        let taken = wanted.split_off(wanted.len() - taken);
        if !wanted.is_empty() {
            self.fs.queues().wanted.splice(0..0, wanted);
        }
        taken
    }

    /// Counts bytes that are not data.
    fn pay(&mut self, bytes: u64) {
        self.payload += bytes;
        self.charge += bytes;
    }

    /// Bytes of data that a member of the epoch may add.
    fn epoch_data(&self, take: Take<'_>) -> u64 {
        match take {
            Take::Wanted | Take::Part(_) => 0,
            Take::Queue { .. } => self.most.saturating_sub(self.charge),
            Take::All => u64::MAX,
        }
    }

    /// Takes data in the order in which files became dirty.
    pub(super) fn queue(&mut self, take: Take<'_>) {
        let (until, bytes) = match take {
            Take::Wanted | Take::Part(_) => return,
            Take::Queue { until } => (until, self.most),
            Take::All => (u64::MAX, u64::MAX),
        };
        while self.charge < bytes {
            let next = {
                let queues = self.fs.queues();
                let first = queues.data.first_key_value();
                first
                    .filter(|(key, _)| **key <= until)
                    .map(|(_, (vnode, _))| Arc::clone(vnode))
            };
            let Some(vnode) = next else { return };
            self.visit(&vnode, bytes - self.charge);
        }
    }

    /// Adds a vnode's items: all its data, or as much as `data_bytes` allows.
    fn visit(&mut self, vnode: &Arc<Vnode>, data_bytes: u64) {
        let mut guard = vnode.write();
        let state = &mut *guard;
        if state.life == Life::Freed {
            self.freed(vnode, state);
            return;
        }
        state.in_epoch = false;
        let everything = state.join_epoch || vnode.kind != FileKind::Regular;
        let data_bytes = if everything { u64::MAX } else { data_bytes };
        let changed = !state.pending.is_empty();
        if changed {
            state
                .pending
                .records(vnode.ino, vnode.version, &mut self.items);
            self.ranges += state.pending.len();
            self.reserved += state.pending.reserved_blocks();
            state.flying = std::mem::take(&mut state.pending);
        }
        if state.xattrs_dirty {
            self.xattrs.push(state.inode.xattr_bytes as usize);
            state.xattrs_dirty = false;
            let data = state.xattrs.get().cloned().unwrap_or_default();
            self.pay(data.len() as u64);
            self.items.push(Item::Xattrs {
                ino: vnode.ino,
                version: vnode.version,
                data,
            });
        }
        if planted::is(Planted::DirtyKillsCommitted) && data_bytes == 0 {
            self.items
                .extend(state.dirty.keys().map(|&block| Item::Punched {
                    ino: vnode.ino,
                    version: vnode.version,
                    from_block: block,
                    to_block: block + 1,
                }));
        }
        let blocks = self.data(vnode, state, data_bytes);
        let left = state.dirty.values().next_back().is_some_and(|d| !d.flying);
        let complete = !left && (data_bytes > 0 || !state.inline_dirty);
        if complete {
            state.logged.size = state.inode.size;
            state.logged.inline.clone_from(&state.inode.inline);
            state.inline_dirty = false;
            state.join_epoch = false;
            state.captured = self.number;
            if vnode.kind == FileKind::Regular {
                self.fs.count_joined(state);
            }
            self.fs.dequeue(state);
        } else if let Some((_, last)) = blocks {
            let reached = (last + 1) << self.fs.store.block_shift;
            state.logged.size = state.logged.size.max(reached.min(state.inode.size));
            state.logged.inline.clear();
        }
        self.image(vnode, state);
        let landing = if changed || blocks.is_some() {
            Landing::Clean(blocks)
        } else {
            Landing::Nothing
        };
        let vnode = Arc::clone(vnode);
        self.flights.push(Flight { vnode, landing });
    }

    fn freed(&mut self, vnode: &Arc<Vnode>, state: &mut State) {
        if !state.logged.ever {
            return; // made and freed within the epoch: the number was returned
        }
        self.end(vnode.ino, vnode.version, state.logged.counted);
        state.logged = Logged::default(); // only once
        let vnode = Arc::clone(vnode);
        self.flights.push(Flight {
            vnode,
            landing: Landing::Forget,
        });
    }

    /// Adds the record that frees a file.
    fn end(&mut self, ino: InodeNo, version: Version, counted: Usage) {
        self.items.push(Item::Freed {
            ino,
            next_version: version.wrapping_add(1),
        });
        self.pay(32);
        self.usage = difference(self.usage, counted);
    }

    /// Adds dirty blocks from the lowest on, and returns their range.
    fn data(&mut self, vnode: &Vnode, state: &mut State, bytes: u64) -> Option<(u64, u64)> {
        let mut range: Option<(u64, u64)> = None;
        let mut taken = 0;
        let least = self.fs.store.least_charge();
        let mut charge = 0;
        let State {
            dirty,
            logged,
            mapped_end,
            ..
        } = state;
        for (&block, dirty) in dirty.iter_mut() {
            if charge >= bytes {
                break;
            }
            let sectors = sectors_of(dirty.data.len());
            adjust(&mut logged.blocks, 0, (dirty.logged_sectors == 0).into());
            adjust(&mut logged.sectors, dirty.logged_sectors.into(), sectors);
            dirty.logged_sectors = sectors as u32;
            dirty.flying = true;
            let content = (dirty.data.resident() as u64).max(PLACED_BYTES);
            taken += content;
            charge += content.max(least);
            self.blocks += 1;
            range = Some((range.map_or(block, |(first, _)| first), block));
            match &dirty.data {
                Body::Memory(data) => self.items.push(Item::Block {
                    ino: vnode.ino,
                    version: vnode.version,
                    block,
                    data: Arc::clone(data),
                    written: dirty.written,
                }),
                Body::Spilled(spilled) => {
                    let same = |lot: &Arc<Lot>| Arc::ptr_eq(lot, &spilled.lot);
                    if !self.lots.last().is_some_and(same) {
                        self.lots.push(Arc::clone(&spilled.lot));
                    }
                    place(&mut self.items, vnode, block, spilled, dirty.written);
                }
            }
        }
        if let (Some((_, last)), Some(end)) = (range, mapped_end.as_mut()) {
            *end = (*end).max(last + 1);
        }
        self.payload += taken;
        self.charge += charge;
        range
    }

    fn image(&mut self, vnode: &Vnode, state: &mut State) {
        let read_ns = vnode.atime_ns.swap(0, Relaxed);
        if read_ns != 0 {
            state.inode.atime = Timestamp::from_ns(read_ns);
        }
        self.subtract(state);
        let logged = &mut state.logged;
        logged.size = logged.size.min(state.inode.size);
        let mut image = Box::new(state.inode.clone());
        image.size = logged.size;
        if planted::is(Planted::SizeAhead) {
            image.size = state.inode.size;
        }
        image.blocks = logged.blocks;
        image.sectors = logged.sectors;
        if vnode.kind == FileKind::Regular {
            image.inline.clone_from(&logged.inline);
            image.flags &= !flags::INLINE;
            if !image.inline.is_empty() {
                image.flags |= flags::INLINE;
            }
        }
        logged.ever = true;
        logged.counted = Usage {
            inodes: 1,
            blocks: logged.blocks,
            sectors: logged.sectors + sectors_of(state.inode.xattr_bytes as usize),
        };
        self.usage = sum(self.usage, logged.counted);
        self.pay(IMAGE_BYTES);
        self.images += 1;
        self.items.push(Item::Inode(image));
    }

    fn subtract(&mut self, state: &State) {
        self.usage = difference(self.usage, state.logged.counted);
    }
}

/// Adds a spilled block: to the previous item if both are adjacent in the spill.
fn place(items: &mut Vec<Item>, vnode: &Vnode, block: u64, spilled: &Spilled, at: Timestamp) {
    let (number, index) = (spilled.lot.number, spilled.index);
    if let Some(Item::Placed {
        ino,
        block: first,
        count,
        spill,
        index: from,
        ..
    }) = items.last_mut()
        && (*ino, *spill) == (vnode.ino, number)
        && (*first + u64::from(*count), *from + *count) == (block, index)
    {
        *count += 1;
        return;
    }
    items.push(Item::Placed {
        ino: vnode.ino,
        version: vnode.version,
        block,
        count: 1,
        spill: number,
        index,
        written: at,
    });
}
