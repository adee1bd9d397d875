//! Spilling: data of private trees that is written to the layout before the commit
//! (`docs/design/transactions.md`, "Spilling").
//!
//! If an operation that asks for admission finds that the private trees exceed their
//! limit, it spills the data of its own tree, and if that is not enough, that of the
//! other trees. No lock of a file is taken while the layout writes: a block that is
//! changed meanwhile stays in memory.

use crate::error::{Error, Result};
use crate::file_system::{Below, FileSystem};
use crate::layout::{Item, Layout, Purpose, Usage};
use crate::memory::body::{Body, Lot, Spilled};
use crate::memory::vnode::{Life, State, Vnode, dirty_charge, sectors_of};
use crate::statistics::count;
use crate::types::FileKind;
use std::ops::Range;
use std::sync::{Arc, Weak};
use varve_device::Block;

/// Blocks that are spilled together, as they were in memory.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    /// File, block number, and the content passed to the layout, of each.
    blocks: Vec<(Arc<Vnode>, u64, Arc<Block>)>,
    bytes: u64,
    sectors: u64,
}

impl<L: Layout> FileSystem<L> {
    /// Spills data if the memory limit would be exceeded by a change of this private tree
    /// that adds `coming` bytes. The operation has entered the tree, and has no locks.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, errors of the layout. It is not an error if the limit is
    /// still exceeded.
    pub(super) fn make_memory(&self, below: &Below<L>, coming: u64) -> Result<()> {
        let has_room = || self.charge(below, coming) <= self.budget.spills_at;
        if has_room() || below.is_over() {
            return Ok(());
        }
        if !self.spill()? || has_room() {
            return Ok(());
        }
        for tree in self.mounted().private_trees() {
            if has_room() {
                break;
            }
            if !std::ptr::eq(&*tree, self) {
                tree.spill_for_others()?;
            }
        }
        Ok(())
    }

    /// All trees above this one, directly or indirectly.
    fn private_trees(&self) -> Vec<Arc<FileSystem<L>>> {
        let trees: Vec<_> = {
            let open = self.open.lock();
            open.trees.iter().filter_map(Weak::upgrade).collect()
        };
        let further: Vec<_> = trees.iter().flat_map(|tree| tree.private_trees()).collect();
        trees.into_iter().chain(further).collect()
    }

    fn spill_for_others(&self) -> Result<()> {
        let Some(below) = &self.below else {
            return Ok(());
        };
        // The tree is not closed during the spill, and no spill begins once it is.
        self.space.crowd.enter();
        let spilled = match below.is_over() {
            true => Ok(false),
            false => self.spill(),
        };
        self.space.crowd.leave();
        self.settle_charge();
        spilled.map(|_| ())
    }

    /// Spills the data of this tree's regular files, the longest dirty first. Returns
    /// false if the layout does not support it.
    fn spill(&self) -> Result<bool> {
        let _alone = self.below.as_ref().map(|below| below.spilling.lock());
        let files: Vec<Arc<Vnode>> = {
            let queues = self.queues();
            let files = queues.data.values().map(|(vnode, _)| vnode);
            files
                .filter(|vnode| vnode.kind == FileKind::Regular)
                .cloned()
                .collect()
        };
        let mut batch = Batch::default();
        for vnode in &files {
            let mut from = 0;
            while let Some(next) = self.gather(vnode, from, &mut batch) {
                from = next;
                if !self.spill_batch(std::mem::take(&mut batch))? {
                    return Ok(false);
                }
            }
        }
        self.spill_batch(batch)
    }

    /// Adds the blocks of a file from `from` on. Returns the next block once the batch is
    /// full.
    fn gather(&self, vnode: &Arc<Vnode>, from: u64, batch: &mut Batch) -> Option<u64> {
        let state = vnode.read();
        if state.life != Life::Live {
            return None;
        }
        for (&block, dirty) in state.dirty.range(from..) {
            if batch.bytes >= self.store.geometry.group_bytes {
                return Some(block);
            }
            let Body::Memory(data) = &dirty.data else {
                continue;
            };
            if state.has_foreign_part(block, self.store.block_bytes) {
                continue;
            }
            batch.bytes += dirty_charge(data.len());
            batch.sectors += sectors_of(data.len());
            batch.items.push(Item::Block {
                ino: vnode.ino,
                version: vnode.version,
                block,
                data: Arc::clone(data),
                written: dirty.written,
            });
            let data = Arc::clone(data);
            batch.blocks.push((Arc::clone(vnode), block, data));
        }
        None
    }

    fn spill_batch(&self, batch: Batch) -> Result<bool> {
        let Batch {
            items,
            blocks,
            bytes,
            sectors,
        } = batch;
        if items.is_empty() {
            return Ok(true);
        }
        let growth = Usage {
            inodes: 0,
            blocks: blocks.len() as u64,
            sectors,
        };
        let operation = self.mounted().promise(growth, bytes, Purpose::Grow)?;
        let number = match self.store.layout.spill(items) {
            Ok(number) => number,
            Err(Error::NotSupported) => return Ok(false),
            Err(error) => return Err(error),
        };
        drop(operation);
        let keeper = Arc::clone(&self.store);
        let lot = Arc::new(Lot { number, keeper });
        let counters = &self.store.counters;
        count(&counters.transaction_spilled_blocks, blocks.len() as u64);
        for (index, (vnode, block, data)) in (0..).zip(blocks) {
            self.replace(&vnode, block, &data, (&lot, index));
        }
        Ok(true)
    }

    /// Makes a dirty block refer to its spilled copy, if its content is still the same.
    fn replace(
        &self,
        vnode: &Vnode,
        block: u64,
        data: &Arc<Block>,
        (lot, index): (&Arc<Lot>, u32),
    ) {
        let mut state = vnode.write();
        let Some(dirty) = state.dirty.get_mut(&block) else {
            return;
        };
        let same = matches!(&dirty.data, Body::Memory(now) if Arc::ptr_eq(now, data));
        if !same {
            return;
        }
        let lot = Arc::clone(lot);
        dirty.data = Body::Spilled(Spilled::new(lot, index, data.len()));
        self.waits.block_changed(data.len(), 0);
        if let Some(private) = &mut state.private {
            private.spans.remove(&block); // the whole block is this tree's
        }
    }
}

impl State {
    /// True if this tree wrote only parts of the block, and the rest is that of the tree
    /// below.
    fn has_foreign_part(&self, block: u64, block_bytes: usize) -> bool {
        let spans = self.private.as_ref().map(|private| &private.spans);
        spans
            .and_then(|spans| spans.get(&block))
            .is_some_and(|spans| !covers(spans, block_bytes))
    }
}

/// True if the spans cover a whole block.
fn covers(spans: &[Range<u32>], block_bytes: usize) -> bool {
    let mut spans: Vec<_> = spans.iter().map(|span| (span.start, span.end)).collect();
    spans.sort_unstable();
    let mut end = 0;
    for (start, to) in spans {
        if start > end {
            return false;
        }
        end = end.max(to);
    }
    end as usize >= block_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one span")]
    fn a_block_is_covered_if_its_spans_leave_nothing_out() {
        assert!(covers(&[0..4096], 4096));
        assert!(covers(&[2048..4096, 0..100, 100..2048], 4096));
        assert!(!covers(&[0..100, 101..4096], 4096));
        assert!(!covers(&[0..4095], 4096) && !covers(&[1..4096], 4096));
        assert!(!covers(&[], 4096));
    }
}
