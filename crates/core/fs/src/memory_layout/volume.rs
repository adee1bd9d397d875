//! The states of a volume: after every group, after every committed one, and the groups
//! between them.

use super::history::History;
use super::state::State;
use crate::error::{Error, Result};
use crate::layout::{Group, Item, Position};
use crate::types::{InodeNo, SnapshotNo, SpillNo, Version, View};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use varve_device::Block;

/// Numbers to allocate. Not part of the state: a crash forgets them.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub free: BTreeMap<InodeNo, Version>,
    /// Allocated and not yet appended.
    pub taken: BTreeMap<InodeNo, Version>,
    /// The least number never allocated.
    pub fresh: u64,
}

#[derive(Debug)]
pub(super) struct Volume {
    pub live: State,
    pub durable: State,
    /// Groups appended and not committed, each with its position.
    pub pending: VecDeque<(Position, Group)>,
    pub appended: Position,
    pub committed: Position,
    pub numbers: Numbers,
    pub snapshots: BTreeMap<SnapshotNo, State>,
    pub next_snapshot: u64,
    pub history: History,
    /// The open snapshots of the volume, and their numbers there.
    pub opened: BTreeMap<SnapshotNo, u32>,
    /// Blocks that are part of no file.
    pub spills: BTreeMap<SpillNo, Spill>,
    pub next_spill: u64,
    pub read_only: Option<String>,
}

/// Blocks that were spilled together, and whether they are given up when space is short.
#[derive(Debug)]
pub(super) struct Spill {
    pub blocks: Vec<Item>,
    pub kept: bool,
}

impl Spill {
    pub fn data(&self, index: u32) -> &Arc<Block> {
        match &self.blocks[index as usize] {
            Item::Block { data, .. } => data,
            other => panic!("{other:?} was spilled"),
        }
    }
}

impl Volume {
    /// Replaces references to spilled blocks by the blocks themselves.
    pub fn with_spilled(&self, mut group: Group) -> Group {
        let expand = |item: Item| match item {
            Item::Placed {
                ino,
                version,
                block,
                count,
                spill,
                index,
                written,
            } => {
                let spill = &self.spills[&spill];
                assert!(spill.kept, "{spill:?} could have been given up");
                let blocks = (0..count).map(|nth| {
                    let (block, index) = (block + u64::from(nth), index + nth);
                    let item = &spill.blocks[index as usize];
                    assert!(
                        matches!(item, Item::Block { ino: i, version: v, block: b, .. }
                            if (*i, *v, *b) == (ino, version, block)),
                        "{item:?} is not block {block} of {ino:?}"
                    );
                    Item::Block {
                        ino,
                        version,
                        block,
                        data: Arc::clone(spill.data(index)),
                        written,
                    }
                });
                blocks.collect()
            }
            other => vec![other],
        };
        group.items = group.items.into_iter().flat_map(expand).collect();
        group
    }

    /// Keeps a state until it is released.
    pub fn new_snapshot(&mut self, state: State) -> SnapshotNo {
        let number = SnapshotNo(self.next_snapshot);
        self.next_snapshot += 1;
        self.snapshots.insert(number, state);
        number
    }

    pub fn state(&self, view: View) -> Result<&State> {
        match view {
            View::Live => Ok(&self.live),
            View::Snapshot(number) => self.snapshots.get(&number).ok_or(Error::Aborted),
        }
    }
}
