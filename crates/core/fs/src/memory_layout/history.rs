//! Snapshots of the volume: a copy of the whole state for each.

use super::state::{File, State};
use super::volume::Volume;
use super::{MemoryPointer, SECTOR_BYTES};
use crate::error::{Error, Result};
use crate::layout::VolumeSnapshot;
use crate::types::{InodeNo, SnapshotNo, Timestamp, Version};
use std::collections::{BTreeMap, BTreeSet};

/// The snapshots of a volume. A crash leaves them as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// By number.
    taken: BTreeMap<u32, (VolumeSnapshot, State)>,
    /// The number given last.
    last: u32,
}

/// One block of one file, and the write that made it.
type Written = (InodeNo, Version, u64, u64);

impl History {
    pub fn list(&self) -> Vec<VolumeSnapshot> {
        let all = self.taken.values();
        all.map(|(snapshot, _)| snapshot.clone()).collect()
    }

    fn state(&self, number: u32) -> Result<&State> {
        let taken = self.taken.get(&number);
        taken.map(|(_, state)| state).ok_or(Error::NotFound)
    }

    pub fn rename(&mut self, number: u32, name: &str) -> Result<()> {
        let (snapshot, _) = self.taken.get_mut(&number).ok_or(Error::NotFound)?;
        name.clone_into(&mut snapshot.name);
        Ok(())
    }

    /// The bytes of the blocks that only this snapshot has.
    pub fn bytes(&self, live: &State) -> Vec<(u32, u64)> {
        let mut states_with: BTreeMap<Written, usize> = BTreeMap::new();
        let states = self.taken.values().map(|(_, state)| state);
        for (written, _) in states.chain([live]).flat_map(blocks) {
            *states_with.entry(written).or_default() += 1;
        }
        let only_in = |state| {
            let alone = blocks(state).filter(|(written, _)| states_with[written] == 1);
            alone.map(|(_, pointer)| u64::from(pointer.sectors) * SECTOR_BYTES as u64)
        };
        let all = self.taken.iter();
        all.map(|(number, (_, state))| (*number, only_in(state).sum()))
            .collect()
    }
}

impl Volume {
    /// The layout has no clock: a snapshot is as old as the newest change in it.
    pub fn take(&mut self, name: &str) -> VolumeSnapshot {
        let changed = self.live.files.values().map(|file| file.inode.ctime);
        let taken = changed.max().unwrap_or(Timestamp::default());
        self.history.last += 1;
        let snapshot = VolumeSnapshot {
            number: self.history.last,
            name: name.to_owned(),
            taken,
        };
        let kept = (snapshot.clone(), self.live.clone());
        self.history.taken.insert(snapshot.number, kept);
        snapshot
    }

    pub fn delete(&mut self, numbers: &[u32]) -> Result<()> {
        let numbers: BTreeSet<u32> = numbers.iter().copied().collect();
        let taken = &mut self.history.taken;
        if !numbers.iter().all(|number| taken.contains_key(number)) {
            return Err(Error::NotFound);
        }
        taken.retain(|number, _| !numbers.contains(number));
        let opened = self.opened.extract_if(.., |_, of| numbers.contains(of));
        for (view, _) in opened {
            self.snapshots.remove(&view);
        }
        Ok(())
    }

    pub fn open(&mut self, number: u32) -> Result<SnapshotNo> {
        let state = self.history.state(number)?.clone();
        let view = self.new_snapshot(state);
        self.opened.insert(view, number);
        Ok(view)
    }

    pub fn changed_inodes(&self, from: u32, to: Option<u32>) -> Result<Vec<InodeNo>> {
        let from = self.history.state(from)?;
        let to = match to {
            Some(number) => self.history.state(number)?,
            None => &self.live,
        };
        let files = from.files.iter();
        let changed = files.filter(|(ino, file)| {
            let later = to.files.get(ino);
            !later.is_some_and(|later| is_same(file, later))
        });
        Ok(changed.map(|(ino, _)| *ino).collect())
    }
}

fn blocks(state: &State) -> impl Iterator<Item = (Written, MemoryPointer)> {
    state.files.values().flat_map(|file| {
        let inode = &file.inode;
        file.blocks.iter().map(|(block, stored)| {
            let written = (inode.ino, inode.version, *block, stored.pointer.birth);
            (written, stored.pointer)
        })
    })
}

fn is_same(one: &File, other: &File) -> bool {
    let births = |file: &File| -> Vec<(u64, u64)> {
        let blocks = file.blocks.iter();
        blocks
            .map(|(block, stored)| (*block, stored.pointer.birth))
            .collect()
    };
    one.inode == other.inode && one.xattrs == other.xattrs && births(one) == births(other)
}
