//! The image of the last completed checkpoint, read page by page.
//!
//! Immutable: a new checkpoint makes a new `Base` that shares what did not
//! change. Nothing of it is loaded whole but the segment usage table.

use crate::error::{Error, Result};
use crate::format::ifile::{IMAP_OFFSET, ImapEntry, ImapState};
use crate::format::inode::{InodeImage, MAX_HEIGHT, Root};
use crate::format::node::{FANOUT, Node, NodeId};
use crate::format::{Malformed, Pointer, entries};
use crate::geometry::Geometry;
use crate::reader::Reader;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use varve_fs::{InodeNo, Usage, Version};

/// One past the highest logical block an index can hold.
pub const MAX_BLOCK: u64 = 1 << 48;

/// Blocks below one pointer at `height`.
pub fn span(height: u8) -> u64 {
    FANOUT.saturating_pow(u32::from(height))
}

/// Blocks a root of `slots` pointers at `height` can hold.
pub fn capacity(slots: usize, height: u8) -> u64 {
    span(height).saturating_mul(slots as u64)
}

/// Least height at which `slots` pointers reach `block`.
pub fn height_for(slots: usize, block: u64) -> u8 {
    (0..=MAX_HEIGHT)
        .find(|&height| capacity(slots, height) > block)
        .unwrap_or(MAX_HEIGHT)
}

/// The state of the volume at a checkpoint.
#[derive(Debug)]
pub struct Base {
    /// The checkpoint's number.
    pub serial: u64,
    /// The ifile, root included.
    pub ifile: InodeImage,
    /// One more than the highest inode number ever used.
    pub next_ino: u64,
    /// Version of the first file of a number that is not in the map.
    pub first_version: Version,
    /// Head of the free list; 0 is none.
    pub free_head: u64,
    /// Numbers on it.
    pub free_count: u64,
    /// Inodes without names, or in the middle of a truncate.
    pub unfinished: BTreeSet<u64>,
    /// What lives on the volume.
    pub usage: Usage,
    /// Live bytes of index nodes and of the ifile.
    pub metadata_bytes: u64,
    /// Height of the tallest index there ever was.
    pub tallest: u8,
}

impl Base {
    /// The ifile's root.
    ///
    /// # Panics
    /// If it has none: a record without one is refused before it becomes a base.
    pub fn ifile_root(&self) -> &Root {
        self.ifile
            .root
            .as_ref()
            .expect("a checkpoint's ifile has a root")
    }

    /// The ifile's index.
    pub fn ifile_tree<'a>(&'a self, reader: &'a Reader) -> Tree<'a> {
        Tree {
            reader,
            ino: InodeNo::IFILE,
            root: self.ifile_root(),
        }
    }

    /// The map entry of `ino`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn imap(&self, reader: &Reader, geometry: &Geometry, ino: InodeNo) -> Result<ImapState> {
        if ino.0 >= self.next_ino {
            return Ok(ImapState::Unused);
        }
        let per_block = geometry.entries_per_block();
        let block = imap_block(geometry, ino.0);
        let Some((pointer, bytes)) = reader.ifile_page(self.ifile_root(), block)? else {
            return Ok(ImapState::Unused);
        };
        let at = (ino.0 % per_block) as usize;
        let entry = entries::<ImapEntry>(&bytes).get(at);
        entry
            .map_or(Ok(ImapState::Unused), ImapEntry::state)
            .map_err(|source| {
                Error::damaged(
                    geometry.segment_of(pointer.sector()),
                    pointer.sector(),
                    source,
                )
            })
    }

    /// The image of `ino`, if it exists at this checkpoint.
    ///
    /// # Errors
    /// If it cannot be read, or carries no root: a checkpoint's images do.
    pub fn inode(
        &self,
        reader: &Reader,
        geometry: &Geometry,
        ino: InodeNo,
    ) -> Result<Option<Arc<InodeImage>>> {
        let ImapState::Used { version, place } = self.imap(reader, geometry, ino)? else {
            return Ok(None);
        };
        let image = reader.inode(&place, ino)?;
        let refused = |problem: &str| {
            let problem = format!("{ino}: {problem}");
            Error::damaged(
                geometry.segment_of(place.sector),
                place.sector,
                Malformed::new("inode", problem),
            )
        };
        if image.inode.version != version {
            return Err(refused("its version differs from the inode map's"));
        }
        if image.root.is_none() {
            return Err(refused("the inode map leads to an image without a root"));
        }
        Ok(Some(image))
    }
}

/// The ifile block with the map entry of `ino`.
pub fn imap_block(geometry: &Geometry, ino: u64) -> u64 {
    IMAP_OFFSET / u64::from(geometry.block_bytes) + ino / geometry.entries_per_block()
}

/// Which of `slots` slots lead to some of `blocks`, if the first one begins at
/// block `first` and what each leads to has the height `height`.
fn slots_of(first: u64, height: u8, blocks: &Range<u64>, slots: usize) -> Range<usize> {
    let (from, to) = (
        blocks.start.saturating_sub(first) / span(height),
        blocks.end.saturating_sub(first).div_ceil(span(height)),
    );
    let within = |slot: u64| slot.min(slots as u64) as usize;
    within(from)..within(to)
}

/// The index of one file at a checkpoint.
pub struct Tree<'a> {
    /// Reads its nodes.
    pub reader: &'a Reader,
    /// The file.
    pub ino: InodeNo,
    /// Where it begins.
    pub root: &'a Root,
}

impl Tree<'_> {
    /// The pointer of `block`.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn get(&self, block: u64) -> Result<Option<Pointer>> {
        self.cursor().get(block)
    }

    /// Looks blocks up one after the other.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            tree: self,
            path: Default::default(),
        }
    }

    /// Visits the blocks of `from..to` that exist, ascending, until `visit`
    /// returns false.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn blocks(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, Pointer) -> bool,
    ) -> Result<()> {
        let Root { height, ref slots } = *self.root;
        for slot in slots_of(0, height, &(from..to), slots.len()) {
            if !self.descend(slots[slot], height, slot as u64, &(from..to), visit)? {
                break;
            }
        }
        Ok(())
    }

    fn descend(
        &self,
        pointer: Pointer,
        height: u8,
        index: u64,
        blocks: &Range<u64>,
        visit: &mut dyn FnMut(u64, Pointer) -> bool,
    ) -> Result<bool> {
        if pointer.is_none() {
            return Ok(true);
        }
        if height == 0 {
            return Ok(visit(index, pointer));
        }
        let node = self.reader.node(
            &pointer,
            NodeId {
                ino: self.ino,
                height,
                index,
            },
        )?;
        let first = index.saturating_mul(span(height));
        for slot in slots_of(first, height - 1, blocks, FANOUT as usize) {
            let child = index.saturating_mul(FANOUT).saturating_add(slot as u64);
            if !self.descend(node.get(slot), height - 1, child, blocks, visit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Visits every node, children before parents.
    ///
    /// # Errors
    /// If a node cannot be read.
    pub fn nodes(&self, visit: &mut dyn FnMut(NodeId, Pointer)) -> Result<()> {
        for (slot, pointer) in self.root.slots.iter().enumerate() {
            self.visit_node(*pointer, self.root.height, slot as u64, visit)?;
        }
        Ok(())
    }

    fn visit_node(
        &self,
        pointer: Pointer,
        height: u8,
        index: u64,
        visit: &mut dyn FnMut(NodeId, Pointer),
    ) -> Result<()> {
        if height == 0 || pointer.is_none() {
            return Ok(());
        }
        let id = NodeId {
            ino: self.ino,
            height,
            index,
        };
        if height > 1 {
            let node = self.reader.node(&pointer, id)?;
            for (slot, child) in node.iter() {
                self.visit_node(
                    child,
                    height - 1,
                    index.saturating_mul(FANOUT).saturating_add(slot as u64),
                    visit,
                )?;
            }
        }
        visit(id, pointer);
        Ok(())
    }

    /// The node `id` as this tree has it, with its pointer.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn node_at(&self, id: NodeId) -> Result<Option<Pointer>> {
        let mut height = self.root.height;
        if id.height > height {
            return Ok(None);
        }
        let up = span(height - id.height);
        let Some(&slot) = self
            .root
            .slots
            .get(usize::try_from(id.index / up).unwrap_or(usize::MAX))
        else {
            return Ok(None);
        };
        let mut pointer = slot;
        while height > id.height && !pointer.is_none() {
            let index = id.index / span(height - id.height);
            let node = self.reader.node(
                &pointer,
                NodeId {
                    ino: self.ino,
                    height,
                    index,
                },
            )?;
            height -= 1;
            pointer = node.get((id.index / span(height - id.height) % FANOUT) as usize);
        }
        Ok((!pointer.is_none()).then_some(pointer))
    }
}

/// Keeps the nodes that led to the block before, as neighbours share most.
pub struct Cursor<'t> {
    tree: &'t Tree<'t>,
    /// By height, from 1: which node of it, and what that holds.
    path: [Option<(u64, Arc<Node>)>; MAX_HEIGHT as usize],
}

impl Cursor<'_> {
    /// The pointer of `block`.
    ///
    /// # Errors
    /// If a node on the way cannot be read.
    pub fn get(&mut self, block: u64) -> Result<Option<Pointer>> {
        let Tree { reader, ino, root } = *self.tree;
        let slot = usize::try_from(block / span(root.height)).unwrap_or(usize::MAX);
        let mut pointer = root.slots.get(slot).copied().unwrap_or(Pointer::NONE);
        let steps = self.path[..root.height.into()].iter_mut();
        for (height, step) in (1..=root.height).zip(steps).rev() {
            if pointer.is_none() {
                break;
            }
            let index = block / span(height);
            let node = match step {
                Some((at, node)) if *at == index => node,
                _ => {
                    let id = NodeId { ino, height, index };
                    &mut step.insert((index, reader.node(&pointer, id)?)).1
                }
            };
            pointer = node.get((block / span(height - 1) % FANOUT) as usize);
        }
        Ok((!pointer.is_none()).then_some(pointer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_lead_to_some_of_the_blocks_are_those_that_overlap_them() {
        let cases = [(0, 0), (0, 1), (5 * FANOUT * FANOUT, 1), (7 * FANOUT, 0)];
        for (first, height) in cases {
            let edges = [0, 1, FANOUT - 1, FANOUT, FANOUT + 1, 3 * FANOUT, 1 << 40];
            let blocks: Vec<u64> = (edges.iter())
                .flat_map(|edge| [*edge, first + edge, (first + edge).saturating_sub(2)])
                .collect();
            for (&from, &to) in blocks
                .iter()
                .flat_map(|a| blocks.iter().map(move |b| (a, b)))
            {
                let leads = |slot: &usize| {
                    let begin = first + *slot as u64 * span(height);
                    begin < to && from < begin + span(height) && from < to
                };
                let expected: Vec<usize> = (0..FANOUT as usize).filter(leads).collect();
                let found = slots_of(first, height, &(from..to), FANOUT as usize);
                if from < to {
                    assert_eq!(
                        found.collect::<Vec<_>>(),
                        expected,
                        "{first} {height} {from} {to}"
                    );
                } else {
                    assert!(found.len() <= 1, "{from}..{to} is empty");
                }
            }
        }
        let far = u64::MAX - 5;
        assert_eq!(slots_of(far, MAX_HEIGHT, &(0..MAX_BLOCK), 128), 0..0);
    }
}
