//! Hot backup: a copy of an environment while transactions go on.
//!
//! A checkpoint is taken, and what it refers to is held: its slots are not given to other
//! pages, its log is not recycled. So the slots can be copied at leisure, and behind them
//! the log, up to what is durable at the end. The copy's own restart does the rest. The
//! checkpoint gets its name last: before that there is no environment.

use crate::archive::identity::{self, Identity, Made, place};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::log::{Lsn, segment_file};
use crate::page::{self, Page};
use crate::planted::{self, Planted};
use crate::storage::{Named, Storage};

/// What a backup consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Pages copied, those of the map included.
    pub pages: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// It is the environment up to this LSN.
    pub until: u64,
}

impl Environment {
    /// Copies the environment into an empty storage while it is at work. The copy holds
    /// what was committed before this returns, and nothing that was not.
    ///
    /// The copy can be opened: then it is an environment of its own. Or it is brought
    /// further with the original's log, as a [`Standby`](super::Standby).
    ///
    /// # Errors
    /// [`Error::Incompatible`] if there is an environment already, [`Error::Damaged`] for
    /// a page that is, and what either storage says.
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
        let (checkpoint, held) = shared.checkpoint_held()?;
        let mut report = BackupReport::default();
        let page_bytes = engine.pool.page_bytes;
        let map = engine
            .pool
            .read_map(&checkpoint.blocks, checkpoint.pages as usize)?;
        let pages = Named::open(to, "pages", true)?;
        pages.truncate(0)?;
        let blocks = checkpoint.blocks.iter().map(|block| block.slot);
        let numbered = (0u32..).zip(map).chain((0u32..).zip(blocks));
        let mut bytes = vec![0; page_bytes];
        for (number, slot) in numbered.filter(|(_, slot)| *slot != 0) {
            let at = u64::from(slot) * page_bytes as u64;
            engine.pool.read_slot(slot, &mut bytes)?;
            if Page(&bytes).header().crc.get() != page::sum(number, &bytes) {
                let what = format!("page {number} has a wrong checksum");
                return Err(Error::damaged("pages", at, what));
            }
            pages.write_at(at, &bytes)?;
            report.pages += 1;
        }
        if planted::is(Planted::BackupNamedEarly) {
            place(to, "check-0", &[&checkpoint.to_bytes()])?;
        }
        pages.sync()?;
        // Whatever is committed by now.
        engine.log.flush(Lsn(engine.log.end().0 - 1))?;
        let until = engine.log.durable().0;
        let shape = engine.log.shape;
        let first = shape.segment_of(checkpoint.keep.0);
        let segments = first..until.div_ceil(shape.segment);
        for (file, segment) in segments.enumerate() {
            let mut bytes = vec![0; shape.segment as usize];
            if !engine.log.read_segment(segment, &mut bytes)? {
                let what = "a segment that was held is gone";
                return Err(Error::damaged("wal", segment * shape.segment, what));
            }
            let there = (until - segment * shape.segment).min(shape.segment);
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
        place(to, "check-0", &[&checkpoint.to_bytes()])?;
        Ok(report)
    }
}
