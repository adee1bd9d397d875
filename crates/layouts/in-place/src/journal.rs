//! The journal of a mounted volume: records, and the checkpoints after which their
//! space can be reused. Rules J1 to J6 of `docs/spec/in-place.md`.
//!
//! All functions here run under `committing`; they take `writer` only while they change
//! memory, so that groups are appended while a record or a checkpoint is written.

use crate::Ffs;
use crate::error::{Error, Result};
use crate::format::{Geometry, Identity, JournalHead, RecordHeader, Run, Sector, record_bytes};
use crate::transaction::{Transaction, write_head};
use crate::writer::Writer;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::planted::{self, Planted};

/// Returns the runs of adjacent sectors.
pub(crate) fn runs_of<'a>(sectors: impl Iterator<Item = &'a u64>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &sector in sectors {
        match runs.last_mut() {
            Some(run) if run.sector + u64::from(run.count) == sector && run.count < u16::MAX => {
                run.count += 1;
            }
            _ => runs.push(Run { sector, count: 1 }),
        }
    }
    runs
}

impl Ffs {
    /// Makes every group up to `position` durable.
    pub(crate) fn commit_through(&self, position: u64) -> Result<()> {
        if self.writer.lock().durable >= position {
            return Ok(());
        }
        let _one = self.committing.lock();
        if self.writer.lock().durable >= position {
            return Ok(());
        }
        self.writable()?;
        self.stopping(self.commit_running())
    }

    /// Makes every group up to `position` durable, except for times of files, which the
    /// next record contains. Overwritten data is already in place, so a flush suffices
    /// if nothing else has changed. Returns true if the times are durable, too.
    pub(crate) fn commit_data_through(&self, position: u64) -> Result<bool> {
        let is_there = |writer: &Writer| {
            (writer.durable.max(writer.data_durable) >= position)
                .then_some(writer.durable >= position)
        };
        if let Some(whole) = is_there(&self.writer.lock()) {
            return Ok(whole);
        }
        let _one = self.committing.lock();
        let through = {
            let writer = self.writer.lock();
            if let Some(whole) = is_there(&writer) {
                return Ok(whole);
            }
            writer.only_times.then_some(writer.appended)
        };
        self.writable()?;
        let Some(through) = through else {
            return self.stopping(self.commit_running()).map(|()| true);
        };
        if !planted::is(Planted::CommitWithoutFlush) {
            self.stopping(self.flush())?;
        }
        self.writer.lock().data_durable = through;
        Ok(false)
    }

    /// Commits all appended groups, and writes their metadata in place.
    pub(crate) fn write_checkpoint(&self) -> Result<()> {
        let _one = self.committing.lock();
        self.writable()?;
        self.stopping(self.checkpoint_all())
    }

    fn checkpoint_all(&self) -> Result<()> {
        self.commit_running()?;
        match self.metadata().is_in_place() {
            true => self.place_maps(),
            false => self.settle(None),
        }
    }

    /// Takes the last checkpoint: no commit follows, and the volume takes no more
    /// writes.
    pub(crate) fn write_last_checkpoint(&self) -> Result<()> {
        let _one = self.committing.lock();
        self.writable()?;
        self.stopping(self.checkpoint_all())?;
        if self.metadata().is_in_place() {
            self.write_state(false)?;
        }
        self.stop("the volume has been unmounted".into());
        Ok(())
    }

    /// Stops all writes if `done` is a failure.
    pub(crate) fn stopping<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done {
            self.stop(error.to_string());
        }
        done
    }

    fn begin(&self, writer: &mut Writer) -> Transaction {
        if let Some(fresh) = &mut writer.fresh {
            fresh.clear();
        }
        writer.only_times = true;
        let directories = writer.directories.as_mut().map(std::mem::take);
        Transaction {
            overwritten: directories.and_then(|directories| directories.overwritten),
            freed: std::mem::take(&mut writer.freed),
            entered: std::mem::take(&mut writer.entered),
            sectors: std::mem::take(&mut writer.running),
            given_up: std::mem::take(&mut writer.given_up),
            flush: std::mem::take(&mut writer.flush),
            usage: writer.usage,
            through: writer.appended,
            groups: std::mem::take(&mut writer.groups),
        }
    }

    /// Writes the record of the running transaction, if there is one.
    pub(crate) fn commit_running(&self) -> Result<()> {
        let transaction = {
            let mut writer = self.writer.lock();
            if writer.appended == writer.durable {
                return Ok(());
            }
            self.begin(&mut writer)
        };
        if self.metadata().is_in_place() {
            return self.commit_in_place(transaction);
        }
        let runs = runs_of(transaction.sectors.keys());
        let unit = self.store.geometry.unit_bytes as usize;
        let bytes = record_bytes(runs.len(), transaction.sectors.len(), unit);
        let at = self.room_for_record(bytes as u64)?;
        let mut record = vec![0; bytes];
        let payload = record[RecordHeader::payload(runs.len())..].chunks_exact_mut(512);
        for (slot, sector) in payload.zip(transaction.sectors.values()) {
            slot.copy_from_slice(&sector[..]);
        }
        let identity = Identity {
            tag: self.store.geometry.tag,
            mount_id: self.mount_id,
            position: at,
            follows: self.writer.lock().head,
        };
        let usage = transaction.usage.into();
        RecordHeader::write(&mut record, identity, &runs, usage, transaction.groups);
        if transaction.flush.is_due() && !planted::is(Planted::RecordBeforeData) {
            self.flush()?;
        }
        self.store
            .device
            .write(self.journal_byte(at), &[IoSlice::new(&record)])?;
        if !planted::is(Planted::CommitWithoutFlush) {
            self.flush()?;
        }
        self.counts.records.fetch_add(1, Relaxed);
        self.counts.record_bytes.fetch_add(bytes as u64, Relaxed);
        self.committed(transaction, at + bytes as u64);
        Ok(())
    }

    fn committed(&self, transaction: Transaction, head: u64) {
        let mut writer = self.writer.lock();
        writer.head = head;
        writer.durable = transaction.through;
        writer.durable_usage = transaction.usage;
        writer.committed.extend(transaction.sectors);
        for extent in transaction.given_up.data {
            writer.room.release(extent);
        }
        for extent in transaction.given_up.journalled {
            match planted::is(Planted::ReuseJournalled) {
                true => writer.room.release(extent),
                false => writer.waiting.push(extent),
            }
        }
    }

    fn journal_byte(&self, position: u64) -> u64 {
        let geometry = &self.store.geometry;
        geometry.block_byte(Geometry::JOURNAL_BLOCK) + position % geometry.journal_bytes()
    }

    /// Returns the position of a record of `bytes` bytes. If the journal has too little
    /// space, a checkpoint frees it.
    fn room_for_record(&self, bytes: u64) -> Result<u64> {
        let all = self.store.geometry.journal_bytes();
        if bytes > all {
            return Err(Error::Unfit(format!(
                "a transaction takes {bytes} bytes of a journal of {all}"
            )));
        }
        let (head, tail) = {
            let writer = self.writer.lock();
            (writer.head, writer.tail)
        };
        let at = match head % all + bytes > all {
            true => head.next_multiple_of(all),
            false => head,
        };
        if at + bytes - tail > all {
            self.settle(Some(at))?;
        }
        Ok(at)
    }

    /// Writes committed sectors in place, and moves the beginning of the journal to
    /// `first`, or behind its last record.
    pub(crate) fn settle(&self, first: Option<u64>) -> Result<()> {
        let (placing, waiting, first, usage, serial) = {
            let mut writer = self.writer.lock();
            let first = first.unwrap_or(writer.head);
            if writer.committed.is_empty() && writer.tail == first {
                return Ok(());
            }
            writer.serial += 1;
            (
                std::mem::take(&mut writer.committed),
                std::mem::take(&mut writer.waiting),
                first,
                writer.durable_usage,
                writer.serial,
            )
        };
        self.store.write_sectors(&placing)?;
        if !planted::is(Planted::NoFlushBeforeRecord) {
            self.flush()?;
        }
        let geometry = &self.store.geometry;
        let now = self.clock.now_ns();
        let head = JournalHead::new(geometry.tag, serial, self.mount_id, first, usage, now);
        write_head(&*self.store.device, geometry, &head)?;
        self.flush()?;
        self.counts.checkpoints.fetch_add(1, Relaxed);
        self.counts
            .sectors_placed
            .fetch_add(placing.len() as u64, Relaxed);
        let mut writer = self.writer.lock();
        writer.tail = first;
        writer.head = writer.head.max(first);
        writer.checkpoint_ns = self.clock.monotonic_ns();
        for extent in waiting {
            writer.room.release(extent);
        }
        let mut tables = self.tables.write();
        for (sector, bytes) in placing {
            // A sector that has changed since is still newer in memory.
            let same = |newer: &Arc<Sector>| Arc::ptr_eq(newer, &bytes);
            if tables.newer.get(&sector).is_some_and(same) {
                tables.newer.remove(&sector);
            }
            self.store.is_in_place(sector, bytes);
        }
        Ok(())
    }
}
