//! Brief transactions: data and a record of changes. Index nodes, inodes and map remain
//! changed in memory until a full transaction folds them.

use crate::Vlfs;
use crate::error::Result;
use crate::format::{Delta, Totals};
use crate::writer::Writer;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::planted::{self, Planted};

/// Maximum number of inodes and index nodes that brief transactions leave in memory.
const UNFOLDED_MAX: u64 = 1024;
/// Number of blocks that must be free in addition to those for pending changes.
const SPARE_BLOCKS: u64 = 16;

impl Vlfs {
    /// Makes every group up to `position` durable. Callers that wait meanwhile share
    /// the next flush.
    pub(super) fn commit_through(&self, position: u64) -> Result<()> {
        let _one = self.committing.lock();
        let sealed = {
            let mut writer = self.writer.lock();
            if writer.durable >= position {
                return Ok(());
            }
            self.writable()?;
            self.seal(&mut writer)?;
            writer.sealed
        };
        // Other threads may append while the device flushes.
        self.flush()?;
        self.settle(&mut self.writer.lock(), sealed);
        Ok(())
    }

    /// Writes the transaction of everything appended so far, a brief one if possible.
    pub(super) fn seal(&self, writer: &mut Writer) -> Result<()> {
        let slot = match self.may_be_brief(writer) {
            true => writer.unfolded.slot(),
            false => None,
        };
        match slot {
            Some(slot) => self.seal_brief(writer, slot),
            None => self.seal_full(writer),
        }
    }

    /// Returns true if the metadata need not be written yet, because folding it later
    /// will fit in addition to everything else.
    fn may_be_brief(&self, writer: &Writer) -> bool {
        let owed = self.owed();
        let least = owed + self.records_for(writer, owed) + SPARE_BLOCKS;
        let free = writer.space.free_blocks();
        // Space that the fold will free makes the remaining space scarce, because a
        // single unit may keep a block broken.
        let held = writer.space.held_units();
        owed <= UNFOLDED_MAX && free >= least && held <= (free / 2).max(SPARE_BLOCKS)
    }

    fn seal_brief(&self, writer: &mut Writer, slot: u64) -> Result<()> {
        let written = self.write_changes(writer, slot);
        written.inspect_err(|error| {
            self.stop(format!("a transaction could not be written: {error}"));
        })?;
        writer.unfolded.sealed();
        self.sealed(writer);
        self.counts.brief.fetch_add(1, Relaxed);
        Ok(())
    }

    fn write_changes(&self, writer: &mut Writer, slot: u64) -> Result<()> {
        let slot = if planted::is(Planted::ChangesForgotten) {
            0
        } else {
            slot
        };
        let piece = (self.measures().pieces() + slot) as u32;
        let transaction = writer.log.begin(1);
        self.put_record(writer, piece, transaction, |writer, header| {
            let record = Delta {
                header,
                totals: Totals::new(writer.usage, writer.stored),
                folded: writer.unfolded.folded(),
                changes: writer.unfolded.said(),
            };
            record.encode(self.measures())
        })
    }
}
