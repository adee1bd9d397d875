//! Appending a group: it is planned, its data is written, and then readers see it.

use crate::Ffs;
use crate::error::{Error, Result};
use crate::format::{CONTENT_BYTES, GroupMap, Sector};
use crate::planner::Planner;
use crate::stage::Stage;
use crate::store::{Newest, Sectors};
use crate::writer::Writer;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::planted::{self, Planted};
use varve_fs::{FileKind, Group, Item, Position, Usage};

impl Ffs {
    pub(crate) fn append_group(&self, group: Group) -> Result<Position> {
        self.writable()?;
        self.make_way(self.prices.of_group(&group))?;
        let mut writer = self.writer.lock();
        self.stopping(self.append_to(&mut writer, &group))
    }

    /// Writes a record or a checkpoint if the pending changes have grown large, or if a
    /// group of `sectors` sectors of metadata and `blocks` blocks may not fit
    /// otherwise.
    fn make_way(&self, (sectors, blocks): (u64, u64)) -> Result<()> {
        if self.rehearsing {
            return Ok(());
        }
        let (running, committed, appended, short) = {
            let writer = self.writer.lock();
            // In place, changes of metadata need space for copies, also those of a
            // removal.
            let copies = match writer.fresh.is_some() {
                true => self.store.geometry.reserve_blocks,
                false => 0,
            };
            (
                writer.running.len() as u64,
                writer.committed.len() as u64,
                writer.appended,
                writer.room.given_up() > 0 && writer.room.free_blocks() < blocks.max(copies),
            )
        };
        if running + committed > self.prices.sectors_in_memory || short {
            return self.write_checkpoint();
        }
        let fits = running + sectors <= self.prices.largest_sectors;
        match running > self.prices.running_sectors || !fits {
            true => self.commit_through(appended),
            false => Ok(()),
        }
    }

    /// Appends a group that the layout itself makes. `price` is the maximum number of
    /// sectors that it changes and of blocks that it takes. `plan` gets the volume's
    /// usage, and returns the new one.
    pub(crate) fn append_own(
        &self,
        price: (u64, u64),
        plan: impl FnOnce(&mut Planner<'_, '_>, Usage) -> Result<Usage>,
    ) -> Result<()> {
        self.make_way(price)?;
        let mut writer = self.writer.lock();
        let usage = writer.usage;
        let plan = |planner: &mut Planner<'_, '_>| plan(planner, usage);
        let appended = self.append_planned(&mut writer, plan, Default::default);
        self.stopping(appended).map(drop)
    }

    fn append_to(&self, writer: &mut Writer, group: &Group) -> Result<Position> {
        let plan = |planner: &mut Planner<'_, '_>| {
            // Planning reads the device and takes the lock of the tables.
            planner.group(group, &|ino| {
                self.numbers.lock().map(GroupMap::Used).get(ino.0)
            })?;
            Ok(group.usage)
        };
        self.append_planned(writer, plan, || self.count_numbers(group))
    }

    /// Appends the changes that `plan` plans; it returns the new usage. `count` then
    /// updates the maps of inode numbers, and returns the numbers that are freed, and
    /// those that get their first file.
    pub(crate) fn append_planned(
        &self,
        writer: &mut Writer,
        plan: impl FnOnce(&mut Planner<'_, '_>) -> Result<Usage>,
        count: impl FnOnce() -> (Vec<u64>, Vec<u64>),
    ) -> Result<Position> {
        let maxcontig = self.policy.maxcontig();
        let stage = Stage::new(&self.store, &self.tables);
        let fresh = writer.fresh.as_mut();
        let directories = writer.directories.as_mut();
        let mut planner = Planner::new(stage, &mut writer.room, maxcontig, fresh, directories);
        let usage = plan(&mut planner)?;
        let Planner {
            mut stage,
            mut writes,
            given_up,
            flush,
            only_times,
            ..
        } = planner;
        let (freed, entered) = count();
        self.stage_numbers(&mut stage);
        self.stage_room(&mut stage, writer);
        let bytes: usize = writes.iter().map(|(_, bytes)| bytes.len()).sum();
        let most = maxcontig.min(256) as usize * self.superblock.block_bytes.get() as usize;
        self.store.write(&mut writes, most)?;
        let in_place = self.metadata().is_in_place();
        let changed = stage.finish();
        // With an indirect block or a map, more sectors than the inodes change.
        let only_times = only_times == Some(changed.len());
        let changed = match in_place {
            true => changed,
            false => self.whole_units(changed)?,
        };
        if planted::is(Planted::PointerBeforeInode) && !in_place {
            self.store.write_sectors(&changed)?;
        }
        let sectors = (writer.running.len() + changed.len()) as u64;
        if sectors > self.prices.largest_sectors {
            return Err(Error::Unfit(format!(
                "a transaction changes {sectors} sectors, the journal takes {}",
                self.prices.largest_sectors
            )));
        }
        {
            let mut tables = self.tables.write();
            for (sector, bytes) in &changed {
                tables.newer.insert(*sector, Arc::clone(bytes));
            }
        }
        writer.running.extend(changed);
        writer.given_up.data.extend(given_up.data);
        writer.given_up.journalled.extend(given_up.journalled);
        writer.flush.add(flush);
        writer.entered.extend(entered);
        writer.groups += 1;
        writer.only_times &= only_times;
        writer.usage = usage;
        writer.appended += 1;
        {
            let mut numbers = self.numbers.lock();
            numbers.seen();
            match in_place {
                true => writer.freed.extend(freed),
                false => numbers.left(&freed),
            }
        }
        self.counts.groups.fetch_add(1, Relaxed);
        self.counts.data_bytes.fetch_add(bytes as u64, Relaxed);
        Ok(Position(writer.appended))
    }

    /// Updates the numbers that have files. Returns the numbers that a group frees, and
    /// those that had no file before.
    fn count_numbers(&self, group: &Group) -> (Vec<u64>, Vec<u64>) {
        let mut numbers = self.numbers.lock();
        let (mut freed, mut entered) = (Vec::new(), Vec::new());
        for item in &group.items {
            match item {
                Item::Inode(inode) => {
                    let directory = inode.kind() == FileKind::Directory;
                    if !numbers.map(GroupMap::Used).get(inode.ino.0) {
                        entered.push(inode.ino.0);
                    }
                    numbers.used(inode.ino.0, directory, inode.is_unfinished());
                }
                Item::Freed { ino, .. } => {
                    numbers.freed(ino.0);
                    freed.push(ino.0);
                }
                _ => {}
            }
        }
        (freed, entered)
    }

    /// Stages the changed sectors of the inode maps.
    fn stage_numbers(&self, stage: &mut Stage<'_>) {
        let geometry = &self.store.geometry;
        let mut numbers = self.numbers.lock();
        for (group, map, first) in numbers.take_touched() {
            let mut sector = [0; 512];
            let begin = group * geometry.group_inodes;
            let end = begin + geometry.group_inodes;
            numbers
                .map(map)
                .store(begin + first, end, &mut sector[..CONTENT_BYTES]);
            stage.put_open(geometry.map_sector(group, map, first), sector, group as u32);
        }
    }

    /// Stages the changed sectors of the fragment maps.
    fn stage_room(&self, stage: &mut Stage<'_>, writer: &mut Writer) {
        let geometry = &self.store.geometry;
        for (group, first) in writer.room.take_touched() {
            let mut sector = [0; 512];
            let begin = group * geometry.group_fragments();
            let end = begin + geometry.group_fragments();
            let room = &writer.room;
            room.used()
                .store(begin + first, end, &mut sector[..CONTENT_BYTES]);
            let map = GroupMap::Fragments;
            stage.put_open(geometry.map_sector(group, map, first), sector, group as u32);
        }
    }

    /// Adds the other sectors of the units in which sectors have changed. They are
    /// written together, so that a power cut may destroy them, and the record must
    /// contain them.
    fn whole_units(
        &self,
        changed: BTreeMap<u64, Arc<Sector>>,
    ) -> Result<BTreeMap<u64, Arc<Sector>>> {
        let tables = self.tables.read();
        let newest = Newest {
            store: &self.store,
            tables: &tables,
        };
        let mut whole = BTreeMap::new();
        for &sector in changed.keys() {
            for beside in self.store.unit(sector) {
                if let Some(bytes) = changed.get(&beside) {
                    whole.insert(beside, Arc::clone(bytes));
                } else if let Entry::Vacant(missing) = whole.entry(beside) {
                    let read = newest.sector(beside).map(|(bytes, _)| bytes);
                    missing.insert(self.or_zeros(beside, false, read)?);
                }
            }
        }
        Ok(whole)
    }
}
