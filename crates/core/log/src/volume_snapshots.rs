//! Taking, deleting, and renaming snapshots of the volume; lists of them and of what changed.

use crate::base::Base;
use crate::error::Result;
use crate::history::{
    Directory, HistoryChanges, MergedBlocks, MergedImages, Run, Snapshot, directory_limit,
};
use crate::lfs::Lfs;
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_fs::{InodeNo, Purpose, SnapshotNo, Timestamp, Usage, VolumeSnapshot, Waiting};

/// Least time between two reports of the snapshots that keep space.
const REPORT_NS: i64 = 60_000_000_000;
/// Most entries of the history that a report reads.
const REPORT_ENTRIES: u64 = 1 << 20;

/// The space of a volume's snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSpace {
    /// Number of snapshots that stay until they are deleted.
    pub named: usize,
    /// Number of those that are deleted when space is short.
    pub automatic: usize,
    /// Bytes that only snapshots have, with the lists of them.
    pub kept_bytes: u64,
    /// Bytes reserved for what the newest one may come to list.
    pub reserved_bytes: u64,
}

/// A snapshot without what the log alone needs.
fn as_seen(snapshot: &Snapshot) -> VolumeSnapshot {
    VolumeSnapshot {
        number: snapshot.number,
        name: snapshot.name.clone(),
        taken: Timestamp::from_ns(snapshot.taken_ns),
    }
}

impl Lfs {
    fn may_have_snapshots(&self) -> varve_fs::Result<()> {
        match self.geometry.snapshots {
            true => Ok(()),
            false => Err(varve_fs::Error::NotSupported),
        }
    }

    fn may_change_snapshots(&self) -> varve_fs::Result<()> {
        self.may_have_snapshots()?;
        match self.stopped() {
            Some(reason) => Err(varve_fs::Error::ReadOnly(reason)),
            None => Ok(()),
        }
    }

    /// Answers for [`varve_fs::Layout::volume_snapshots`].
    pub(crate) fn list_snapshots(&self) -> varve_fs::Result<Vec<VolumeSnapshot>> {
        self.may_have_snapshots()?;
        let base = self.layers.base();
        Ok(base.history.directory.readable().map(as_seen).collect())
    }

    /// Answers for [`varve_fs::Layout::create_volume_snapshot`].
    pub(crate) fn create_snapshot(&self, name: &str) -> varve_fs::Result<VolumeSnapshot> {
        self.may_change_snapshots()?;
        let bytes = (self.layers.read().base.history.directory.encode()).len() as u64;
        if bytes > directory_limit(self.geometry.block_bytes) / 2 {
            return Err(varve_fs::Error::NoSpace); // what the directory has no row for
        }
        self.make_space_for_snapshot()?;
        let base = self.change_snapshots(HistoryChanges {
            create: Some(name.to_owned()),
            ..HistoryChanges::default()
        })?;
        let newest = base.history.directory.readable().last();
        Ok(as_seen(newest.expect("it has just been taken")))
    }

    /// Answers for [`varve_fs::Layout::delete_volume_snapshots`].
    pub(crate) fn delete_snapshots(&self, numbers: &[u32]) -> varve_fs::Result<()> {
        self.may_change_snapshots()?;
        let base = self.layers.base();
        let directory = &base.history.directory;
        if numbers
            .iter()
            .any(|number| directory.get(*number).is_none())
        {
            return Err(varve_fs::Error::NotFound);
        }
        if numbers.is_empty() {
            return Ok(());
        }
        Ok(self.remove_snapshots(numbers.to_vec())?)
    }

    /// Deletes snapshots, with two checkpoints. Without space for the second one, the
    /// next that is taken removes the rows.
    fn remove_snapshots(&self, numbers: Vec<u32>) -> Result<()> {
        self.change_snapshots(HistoryChanges {
            delete: numbers,
            ..HistoryChanges::default()
        })?;
        self.checkpoints
            .take_checkpoint_if(|| self.has_deleted_rows())?;
        self.control.tell_gain();
        Ok(())
    }

    fn has_deleted_rows(&self) -> bool {
        let base = self.layers.base();
        base.history.directory.snapshots.iter().any(|s| s.deleted)
    }

    /// Answers for [`varve_fs::Layout::rename_volume_snapshot`].
    pub(crate) fn rename_snapshot(&self, number: u32, name: &str) -> varve_fs::Result<()> {
        self.may_change_snapshots()?;
        let base = self.layers.base();
        if base.history.directory.get(number).is_none() {
            return Err(varve_fs::Error::NotFound);
        }
        self.change_snapshots(HistoryChanges {
            rename: Some((number, name.to_owned())),
            ..HistoryChanges::default()
        })?;
        Ok(())
    }

    /// Sees to it that there is space for what a snapshot taken now may come to list.
    ///
    /// # Errors
    /// `NoSpace`, or what a checkpoint or the cleaner failed with.
    fn make_space_for_snapshot(&self) -> varve_fs::Result<()> {
        let (usage, bytes) = {
            let committed = self.layers.read();
            let usage = committed.usage;
            (
                usage,
                self.space.history_bytes(&committed.base, 0, Some(usage)),
            )
        };
        let waiting = Waiting {
            asked: bytes,
            operations: 1,
            alone: true,
            ..Waiting::default()
        };
        let total = Usage {
            sectors: usage.sectors + bytes / 512,
            ..usage
        };
        self.make_room_from_snapshots(total, waiting, Purpose::Grow)
    }

    /// Makes free space, if need be by deleting automatic snapshots.
    ///
    /// # Errors
    /// `NoSpace` if none is left; what a checkpoint or the cleaner failed with.
    pub(crate) fn make_room_from_snapshots(
        &self,
        total: Usage,
        waiting: Waiting,
        purpose: Purpose,
    ) -> varve_fs::Result<()> {
        loop {
            let made = self.make_room(total, waiting, purpose);
            match made.map_err(varve_fs::Error::from) {
                Err(varve_fs::Error::NoSpace) if self.give_up_a_snapshot()? => {}
                made => return made,
            }
        }
    }

    /// The space of the volume's snapshots, as of the last checkpoint.
    pub fn snapshot_space(&self) -> SnapshotSpace {
        let base = Arc::clone(&self.layers.read().base);
        let readable = || base.history.directory.readable();
        let automatic = readable().filter(|one| one.name.is_empty()).count();
        SnapshotSpace {
            named: readable().count() - automatic,
            automatic,
            kept_bytes: base.history.bytes(),
            reserved_bytes: self.space.history_bytes(&base, 0, None),
        }
    }

    /// Logs which snapshot keeps most, at most once a minute, because a writer was refused.
    pub(crate) fn report_kept_space(&self) {
        let base = Arc::clone(&self.layers.read().base);
        let directory = &base.history.directory;
        let entries: u64 = directory.runs.iter().map(|run| run.blocks).sum();
        if directory.snapshots.is_empty() {
            return;
        }
        if !self.layers.is_report_due(self.clock.now_ns(), REPORT_NS) {
            return;
        }
        let kept = base.history.bytes();
        // More entries would let the writer wait too long.
        let alone = match entries <= REPORT_ENTRIES {
            true => self.bytes_of_snapshots().unwrap_or_default(),
            false => Vec::new(),
        };
        let most = alone.iter().max_by_key(|(_, bytes)| *bytes);
        match most.and_then(|(number, bytes)| Some((directory.get(*number)?, bytes))) {
            Some((snapshot, bytes)) => tracing::warn!(
                kept,
                snapshot = snapshot.name,
                bytes,
                "a write was refused for lack of space; deleting this snapshot alone frees so many \
                 of the bytes that snapshots keep: varve snapshot delete"
            ),
            None => tracing::warn!(
                kept,
                "a write was refused for lack of space, and snapshots keep so many bytes: varve \
                 snapshot list"
            ),
        }
    }

    /// Deletes the oldest automatic snapshot, because space is short. False if there is
    /// none.
    ///
    /// # Errors
    /// What the checkpoint failed with.
    pub(crate) fn give_up_a_snapshot(&self) -> Result<bool> {
        let oldest = {
            let committed = self.layers.read();
            let mut readable = committed.base.history.directory.readable();
            readable
                .find(|snapshot| snapshot.name.is_empty())
                .map(|snapshot| snapshot.number)
        };
        let Some(number) = oldest else {
            return Ok(false);
        };
        tracing::info!(number, "an automatic snapshot gives way");
        self.remove_snapshots(vec![number])?;
        Ok(true)
    }

    /// Takes a checkpoint that changes the table of snapshots; returns its image.
    fn change_snapshots(&self, changes: HistoryChanges) -> Result<Arc<Base>> {
        let mut schedule = self.checkpoints.schedule();
        schedule.history = changes;
        let taken = self.checkpoints.checkpoint_now(&mut schedule);
        schedule.history = HistoryChanges::default();
        taken?;
        let committed = self.layers.read();
        Ok(Arc::clone(&committed.base))
    }

    /// Answers for [`varve_fs::Layout::open_volume_snapshot`].
    pub(crate) fn open_snapshot(&self, number: u32) -> varve_fs::Result<SnapshotNo> {
        self.may_have_snapshots()?;
        let base = self.layers.base();
        if base.history.directory.get(number).is_none() {
            return Err(varve_fs::Error::NotFound);
        }
        Ok(self.layers.pin_volume_snapshot(number))
    }

    /// Answers for [`varve_fs::Layout::changed_inodes`].
    pub(crate) fn changed_between(
        &self,
        from: u32,
        to: Option<u32>,
    ) -> varve_fs::Result<Vec<InodeNo>> {
        self.may_have_snapshots()?;
        let end = to.unwrap_or(u32::MAX);
        let found = self.layers.lookup().steady(|| {
            let (base, mut changed) = {
                let committed = self.layers.read();
                // What the deltas have is not in the history yet.
                let logged = match to {
                    None => committed.changed_by_users(),
                    Some(_) => BTreeSet::new(),
                };
                (Arc::clone(&committed.base), logged)
            };
            let directory = &base.history.directory;
            let known = |number: &u32| directory.get(*number).is_some();
            if ![Some(from), to].iter().flatten().all(known) {
                return Ok(None);
            }
            self.layers.with_history(&base, |history| {
                let spans = |run: &&Run| run.span.1 >= from && run.span.0 < end;
                let runs: Vec<_> = directory.runs.iter().filter(spans).copied().collect();
                let mut images = MergedImages::new(history, &runs)?;
                while let Some((header, _)) = images.next()? {
                    let (after, last) = (header.after.get(), header.last.get());
                    if after < from && (from..end).contains(&last) {
                        changed.insert(InodeNo(header.ino.get()));
                    }
                }
                Ok(Some(changed))
            })
        });
        let mut changed = found?.ok_or(varve_fs::Error::NotFound)?;
        if to.is_none() {
            // Of those in the deltas some were made since.
            changed.retain(|ino| self.layers.past_inode(from, *ino).is_ok());
        }
        Ok(changed.into_iter().collect())
    }

    /// Answers for [`varve_fs::Layout::snapshot_bytes`].
    pub(crate) fn bytes_of_snapshots(&self) -> varve_fs::Result<Vec<(u32, u64)>> {
        self.may_have_snapshots()?;
        let found = self.layers.lookup().steady(|| {
            let base = self.layers.base();
            let directory = &base.history.directory;
            let mut bytes: Vec<(u32, u64)> = directory.readable().map(|s| (s.number, 0)).collect();
            self.layers.with_history(&base, |history| {
                let mut blocks = MergedBlocks::new(history, &directory.runs)?;
                while let Some(entry) = blocks.next()? {
                    if let Some(only) = directory.only(entry.pointer.birth(), entry.last.get())
                        && let Ok(at) = bytes.binary_search_by_key(&only, |(number, _)| *number)
                    {
                        bytes[at].1 += entry.pointer.stored_bytes();
                    }
                }
                Ok(())
            })?;
            Ok(bytes)
        });
        Ok(found?)
    }
}

impl Directory {
    /// The number of the snapshot that has a block of this birth, displaced when `last`
    /// was the newest, if exactly one has.
    fn only(&self, birth: u64, last: u32) -> Option<u32> {
        let mut having = self.snapshots.iter().filter(|s| s.has(birth, last));
        match (having.next(), having.next()) {
            (Some(only), None) => Some(only.number),
            _ => None,
        }
    }
}
