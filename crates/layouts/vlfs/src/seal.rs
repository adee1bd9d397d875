//! Transactions, which make appended groups durable together.
//!
//! A full transaction writes everything that changed since the last full one, in this
//! order: index nodes from the leaves up, inodes, then a record for each piece of the
//! inode map that changed, then one flush. The records name the units that the
//! transaction wrote, with checksums. If that is more than fits in them, the units are
//! flushed before the records.

use crate::Vlfs;
use crate::error::Result;
use crate::format::{Entry, Record, Totals};
use crate::prices::TRIES;
use crate::writer::Writer;
use std::collections::BTreeSet;
use std::io::IoSlice;
use varve_device::sync::atomic::Ordering::Relaxed;
use varve_vlog::format::RecordHeader;
use varve_vlog::virtual_log::Transaction;

impl Vlfs {
    /// Commits everything that was appended, and folds the changes of brief
    /// transactions. The caller has both locks.
    pub(super) fn commit_all(&self, writer: &mut Writer) -> Result<()> {
        self.writable()?;
        if writer.durable < writer.appended || writer.unfolded.used() > 0 {
            self.seal_full(writer)?;
            self.flush()?;
            self.settle(writer, writer.sealed);
        }
        Ok(())
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.counts.flushes.fetch_add(1, Relaxed);
        self.store.medium.flush().map_err(|error| {
            self.stop(format!("a flush failed: {error}"));
            error.into()
        })
    }

    /// Releases the space that a transaction gave up, once it is durable.
    pub(super) fn settle(&self, writer: &mut Writer, sealed: u64) {
        writer.durable = sealed;
        for unit in writer.log.reclaim() {
            writer.space.give_record(unit);
        }
        writer.space.settled();
    }

    /// Writes the transaction of everything appended so far, and of the metadata that
    /// earlier ones left in memory.
    pub(super) fn seal_full(&self, writer: &mut Writer) -> Result<()> {
        let plan = self.write_metadata(writer)?;
        let mut pieces = std::mem::take(&mut writer.dirty);
        let measures = self.measures();
        {
            let mut tables = self.tables.write();
            for (entry, image) in plan.images {
                let ino = image.inode.ino.0;
                pieces.insert(measures.piece_of(ino));
                tables.set(ino, entry);
                self.store.remember_image(&entry, image);
            }
            for (place, node) in plan.nodes {
                self.store.remember(&place, node);
            }
            tables.images.clear();
            tables.nodes.clear();
        }
        for (unit, owner) in plan.owners {
            writer.owners.note(unit, owner);
        }
        for extent in plan.released {
            self.release(writer, extent)?;
        }
        if pieces.is_empty() {
            // This is for changes that cancel each other, whose records must become
            // dead all the same.
            pieces.insert(0);
        }
        writer.space.let_go();
        let written = self.write_records(writer, &pieces);
        written.inspect_err(|error| {
            // Half a transaction is on the device, and does not count.
            self.stop(format!("a transaction could not be written: {error}"));
        })?;
        writer.unfolded.fold(writer.log.last_seq());
        self.sealed(writer);
        Ok(())
    }

    /// Updates the state after a transaction was written and before it is flushed.
    pub(super) fn sealed(&self, writer: &mut Writer) {
        writer.runs.clear();
        writer.space.sealed();
        writer.sealed = writer.appended;
        self.counts.transactions.fetch_add(1, Relaxed);
    }

    fn write_records(&self, writer: &mut Writer, pieces: &BTreeSet<u32>) -> Result<()> {
        let each = self.measures().runs_per_record();
        let mut runs = writer.runs.named();
        if runs.len() > pieces.len() * each {
            self.flush()?;
            runs.clear();
        }
        let mut runs = runs.chunks(each);
        writer.log.retire(self.measures().pieces() as u32..);
        let transaction = writer.log.begin(pieces.len() as u32);
        for &piece in pieces {
            let names = runs.next().unwrap_or_default().to_vec();
            self.put_record(writer, piece, transaction, |writer, header| {
                let record = Record {
                    header,
                    totals: Totals::new(writer.usage, writer.stored),
                    runs: names.clone(),
                    entries: self.entries_of(piece),
                };
                record.encode(self.measures())
            })?;
        }
        Ok(())
    }

    /// Writes the record of a piece, encoded by `encode`; elsewhere if that fails.
    pub(super) fn put_record(
        &self,
        writer: &mut Writer,
        piece: u32,
        transaction: Transaction,
        encode: impl Fn(&Writer, RecordHeader) -> Vec<u8>,
    ) -> Result<()> {
        let measures = self.measures();
        let mut unit = self.record_room(writer)?;
        // The number stays the same at whichever place the record is written.
        let appended = writer.log.append(piece, unit);
        for attempt in 1.. {
            let written = (piece, &appended);
            let header = (writer.log).header(measures.volume, transaction, written, unit);
            let bytes = encode(writer, header);
            let at = measures.unit_byte(unit);
            match self.store.medium.write(at, &[IoSlice::new(&bytes)]) {
                Ok(()) => break,
                Err(error) if attempt == TRIES => return Err(error.into()),
                // The place that failed stays taken until the next mount.
                Err(_) => unit = self.record_room(writer)?,
            }
            writer.log.moved(appended.seq, unit);
        }
        self.counts.records.fetch_add(1, Relaxed);
        Ok(())
    }

    pub(super) fn record_room(&self, writer: &mut Writer) -> Result<u64> {
        let unit = writer.space.take_record(&self.store.medium);
        unit.ok_or_else(|| self.no_room("a map record"))
    }

    fn entries_of(&self, piece: u32) -> Vec<Entry> {
        let measures = self.measures();
        let first = u64::from(piece) * measures.entries_per_record() as u64;
        let tables = self.tables.read();
        (first..first + measures.entries_of(piece) as u64)
            .map(|ino| tables.entry(ino))
            .collect()
    }
}
