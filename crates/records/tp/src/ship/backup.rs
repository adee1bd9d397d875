//! Hot backup: a copy of an environment while transactions run.
//!
//! A checkpoint is taken, and everything to which it refers is pinned: its slots are not
//! reused, its log is not recycled. (Pages in place are not pinned, see `copy_in_place`.)
//! So the slots can be copied without haste, and then the log, up to the position that is
//! durable at the end. The restart of the copy does the rest. The checkpoint gets its
//! name last; before that there is no environment.

use crate::archive::identity::{self, Identity, Made};
use crate::buffer::{MapBlock, Pool, entries, map_block};
use crate::checkpoint::Checkpoint;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::log::{Lsn, segment_file};
use crate::options::Placement;
use crate::page::{self, Page};
use crate::planted::{self, Planted};
use crate::storage::{Named, Storage};

/// Counts of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Pages copied, including those of the map.
    pub pages: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// LSN of the end of the copy.
    pub until: u64,
}

/// Copies the slots of a checkpoint, which are pinned.
fn copy_slots(
    pool: &Pool,
    checkpoint: &Checkpoint,
    copy: &mut impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let map = pool.read_map(&checkpoint.blocks, checkpoint.pages as usize)?;
    let blocks = checkpoint.blocks.iter().map(|block| block.slot);
    let numbered = (0u32..).zip(map).chain((0u32..).zip(blocks));
    let mut bytes = vec![0; pool.page_bytes];
    for (number, slot) in numbered.filter(|(_, slot)| *slot != 0) {
        pool.read_slot(slot, &mut bytes)?;
        if Page(&bytes).header().crc.get() != page::sum(number, &bytes) {
            let at = u64::from(slot) * pool.page_bytes as u64;
            let what = format!("page {number} has a wrong checksum");
            return Err(Error::damaged("pages", at, what));
        }
        copy(slot, &bytes)?;
    }
    Ok(())
}

/// Copies pages in place in their present state. Some are newer than the checkpoint, so
/// the log behind it is applied to them by LSN. In the copy they are in shadow slots,
/// each in the slot behind its number, with a map behind all.
fn copy_in_place(
    pool: &Pool,
    checkpoint: &mut Checkpoint,
    copy: &mut impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let count = pool.pages_in_file()?;
    let mut map = vec![0; count as usize];
    let mut bytes = vec![0; pool.page_bytes];
    for (page, slot) in (0..count).zip(&mut map) {
        if pool.read_whole(page, &mut bytes)? {
            *slot = page + 1;
            copy(*slot, &bytes)?;
        }
    }
    (checkpoint.placement, checkpoint.pages) = (Placement::Shadow, count);
    for (number, slots) in map.chunks(entries(pool.page_bytes)).enumerate() {
        let block = map_block(number, slots, pool.page_bytes);
        let slot = u32::try_from(u64::from(count) + 1 + number as u64);
        let slot = slot.map_err(|_| Error::damaged("pages", 0, "too long for shadow slots"))?;
        let crc = Page(&block).header().crc.get();
        checkpoint.blocks.push(MapBlock { slot, crc });
        copy(slot, &block)?;
    }
    Ok(())
}

impl Environment {
    /// Copies the environment into an empty storage while it is in use. The copy contains
    /// exactly the transactions that committed before this returns.
    ///
    /// The copy can be opened as an environment of its own, or follow the original's log
    /// as a [`Standby`](super::Standby).
    ///
    /// # Errors
    /// [`Error::Incompatible`] if the target contains an environment, [`Error::Damaged`]
    /// for a damaged page, and errors of either storage.
    pub fn backup(&self, to: &dyn Storage) -> Result<BackupReport> {
        let shared = self.shared();
        let engine = &shared.engine;
        if crate::checkpoint::exists(to)? {
            return Err(Error::Incompatible {
                file: "check-0".into(),
                what: "there is an environment already".into(),
            });
        }
        let id = identity::of_original(&*shared.storage)?;
        let (mut checkpoint, held) = shared.checkpoint_held()?;
        let mut report = BackupReport::default();
        let page_bytes = engine.pool.page_bytes;
        let pages = Named::open(to, "pages", true)?;
        pages.truncate(0)?;
        let mut copy = |slot: u32, bytes: &[u8]| {
            report.pages += 1;
            pages.write_at(u64::from(slot) * page_bytes as u64, bytes)
        };
        match checkpoint.placement {
            Placement::Shadow => copy_slots(&engine.pool, &checkpoint, &mut copy)?,
            Placement::InPlace(_) => copy_in_place(&engine.pool, &mut checkpoint, &mut copy)?,
        }
        if planted::is(Planted::BackupNamedEarly) {
            crate::checkpoint::create(to, &checkpoint)?;
        }
        pages.sync()?;
        // The copy includes everything committed until now.
        engine.log.flush(Lsn(engine.log.end().0 - 1))?;
        let until = engine.log.durable().0;
        let shape = engine.log.shape;
        let first = shape.segment_of(checkpoint.keep.0);
        let segments = first..until.div_ceil(shape.segment);
        for (file, segment) in segments.enumerate() {
            let begin = segment * shape.segment;
            let mut bytes = vec![0; shape.segment as usize];
            if !engine.log.read_bytes(begin, &mut bytes)? {
                let what = "a segment that was held is gone";
                return Err(Error::damaged("wal", begin, what));
            }
            let there = (until - begin).min(shape.segment);
            bytes[there as usize..].fill(0);
            let file = Named::open(to, &segment_file(file), true)?;
            file.truncate(0)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            report.log_bytes += there;
        }
        drop(held);
        report.until = until;
        identity::write(
            to,
            Identity {
                id,
                copy: Some(Made {
                    whole: until,
                    time_s: crate::log::now_s().into(),
                }),
            },
        )?;
        crate::checkpoint::create(to, &checkpoint)?;
        Ok(report)
    }
}
