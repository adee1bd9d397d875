//! Metadata in place, without a journal. A commit writes the changes since the last one
//! in classes, with a flush between two classes if the second refers to the first.
//! Rules I1 to I6 of `docs/spec/in-place.md`.
//!
//! All functions here run under `committing`; they take `writer` only while they change
//! memory.
//!
//! The commit point of each inode is its sector. Blocks of directories and indirect
//! blocks are never changed while something on the device refers to them, so an inode
//! and all that it refers to are of one moment.
//!
//! Source: McKusick et al. 1984; Ganger & Patt 1994, for the order.

mod classes;
mod names;

use crate::Ffs;
use crate::error::Result;
use crate::format::{JournalHead, Metadata, Sector};
use crate::transaction::{Transaction, write_head};
use classes::Classes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::planted::{self, Planted};

/// Sectors by address.
pub(crate) type SectorMap = BTreeMap<u64, Arc<Sector>>;

/// The progress of a commit.
struct Progress {
    /// True if something was written that no flush has covered.
    unflushed: bool,
}

impl Ffs {
    /// Writes the changes of a transaction in place.
    pub(crate) fn commit_in_place(&self, transaction: Transaction) -> Result<()> {
        let classes = self.classes(&transaction)?;
        let Classes {
            first,
            second,
            overwritten,
            directories,
            last,
            lasting,
            maps,
        } = classes;
        // Data was written when it was appended.
        let mut progress = Progress { unflushed: true };
        if planted::is(Planted::PointerBeforeInode) {
            directories.iter().try_for_each(|level| self.put(level))?;
        }
        let leads_to_new = transaction.flush.is_due() || !first.is_empty();
        self.put(&first)?;
        if leads_to_new && !planted::is(Planted::RecordBeforeData) {
            self.flush_all(&mut progress)?;
        }
        self.write(&second, &mut progress)?;
        let levels = std::iter::once(&overwritten).chain(&directories);
        for level in levels.filter(|level| !level.is_empty()) {
            // These are the blocks that the level refers to, and the names gained in
            // earlier levels.
            self.flush_all(&mut progress)?;
            self.write(level, &mut progress)?;
        }
        if !last.is_empty() {
            self.flush_all(&mut progress)?;
            self.write(&last, &mut progress)?;
        }
        // An inode that is free and without references need not be durable.
        let waits = lasting || last.is_empty();
        if waits && !planted::is(Planted::CommitWithoutFlush) {
            self.flush_all(&mut progress)?;
        }
        self.counts.ordered_commits.fetch_add(1, Relaxed);
        self.has_committed(transaction, maps, progress.unflushed);
        Ok(())
    }

    fn write(&self, sectors: &SectorMap, progress: &mut Progress) -> Result<()> {
        if !sectors.is_empty() {
            self.put(sectors)?;
            progress.unflushed = true;
        }
        Ok(())
    }

    /// Flushes if anything was written, and then releases the space that waited for a
    /// flush.
    fn flush_all(&self, progress: &mut Progress) -> Result<()> {
        if !progress.unflushed {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.writer.lock().waiting);
        self.flush()?;
        progress.unflushed = false;
        let mut writer = self.writer.lock();
        for extent in waiting {
            writer.room.release(extent);
        }
        Ok(())
    }

    /// Writes sectors to their places, in whole units. The state seen by readers does
    /// not change.
    fn put(&self, sectors: &SectorMap) -> Result<()> {
        if sectors.is_empty() {
            return Ok(());
        }
        let mut whole = SectorMap::new();
        for &sector in sectors.keys() {
            for beside in self.store.unit(sector) {
                if whole.contains_key(&beside) {
                    continue;
                }
                let bytes = match sectors.get(&beside) {
                    Some(bytes) => Arc::clone(bytes),
                    // The neighbour is written as the device has it; its own change
                    // follows in its class.
                    None => {
                        let tables = self.tables.read();
                        let is_pending = tables.newer.contains_key(&beside);
                        self.or_zeros(beside, is_pending, self.store.fetch(beside))?
                    }
                };
                whole.insert(beside, bytes);
            }
        }
        self.store.write_sectors(&whole)?;
        let mut tables = self.tables.write();
        for (&sector, bytes) in sectors {
            let same = |newer: &Arc<Sector>| Arc::ptr_eq(newer, bytes);
            if tables.newer.get(&sector).is_some_and(same) {
                tables.newer.remove(&sector);
            }
            self.store.is_in_place(sector, Arc::clone(bytes));
        }
        self.counts
            .sectors_placed
            .fetch_add(whole.len() as u64, Relaxed);
        Ok(())
    }

    fn has_committed(&self, transaction: Transaction, maps: SectorMap, unflushed: bool) {
        let mut writer = self.writer.lock();
        writer.durable = transaction.through;
        writer.durable_usage = transaction.usage;
        for sector in transaction.sectors.keys() {
            writer.committed.remove(sector);
        }
        writer.committed.extend(maps);
        let given_up = transaction.given_up;
        for extent in given_up.data.into_iter().chain(given_up.journalled) {
            match unflushed {
                true => writer.waiting.push(extent),
                false => writer.room.release(extent),
            }
        }
        drop(writer);
        self.numbers.lock().left(&transaction.freed);
    }

    /// Writes the maps, and waits until everything written is durable. A check rebuilds
    /// the maps, so no commit includes them.
    pub(crate) fn place_maps(&self) -> Result<()> {
        let placing = {
            let mut writer = self.writer.lock();
            if writer.committed.is_empty() && writer.waiting.is_empty() {
                return Ok(());
            }
            std::mem::take(&mut writer.committed)
        };
        self.put(&placing)?;
        let mut progress = Progress { unflushed: true };
        self.flush_all(&mut progress)?;
        self.counts.checkpoints.fetch_add(1, Relaxed);
        self.writer.lock().checkpoint_ns = self.clock.monotonic_ns();
        Ok(())
    }

    /// Records on the device whether a check is needed (rule I6). All earlier writes
    /// are durable before that.
    pub(crate) fn write_state(&self, dirty: bool) -> Result<()> {
        self.flush()?;
        let head = {
            let mut writer = self.writer.lock();
            writer.serial += 1;
            let tag = self.store.geometry.tag;
            let (serial, usage) = (writer.serial, writer.durable_usage);
            let now = self.clock.now_ns();
            JournalHead::new(tag, serial, self.mount_id, 0, usage, now)
        };
        let head = match dirty && !planted::is(Planted::DirtyUnmarked) {
            true => head.dirty(),
            false => head,
        };
        write_head(&*self.store.device, &self.store.geometry, &head)?;
        self.flush()
    }

    /// Returns true if changes of names are ordered (rule I3).
    fn is_ordered(&self) -> bool {
        self.metadata() == Metadata::Synchronous
    }
}
