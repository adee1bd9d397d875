//! Blocks of open transactions that are written to another place before their commit.

use crate::error::{Error, Result};
use crate::format::Pointer;
use crate::log::{GroupKind, LogItem, Placed};
use crate::spills::Spill;
use crate::writer::Writer;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use varve_fs::SpillNo;
use varve_fs::planted::{self, Planted};

/// Blocks that are spilled again in one group.
const RESPILLED_AT_ONCE: u32 = 256;

impl Writer {
    /// Blocks of a spill are stored elsewhere from now on.
    pub(crate) fn lead_to(&self, number: SpillNo, which: &[(u32, Pointer)], places: &[Pointer]) {
        let _log = self.log.lock();
        let of = |pointer: &Pointer| self.geometry.segment_of(pointer.sector());
        let mut left: HashSet<u32> = which.iter().filter_map(|(_, former)| of(former)).collect();
        let mut spills = self.spills.lock();
        if let Some(spill) = spills.held.get_mut(&number) {
            let mut all: Vec<Pointer> = (0..spill.len())
                .filter_map(|index| spill.pointer(index))
                .collect();
            for ((index, _), place) in which.iter().zip(places) {
                all[*index as usize] = *place;
            }
            for segment in all.iter().filter_map(of) {
                left.remove(&segment);
            }
            *spill = Spill::new(&all, Arc::clone(&spill.broken));
        }
        let mut segments = self.segments.lock();
        for segment in left {
            segments.spilled_out_of(number.0, segment);
        }
    }

    /// Spills those blocks of a group again that were spilled before the newest snapshot
    /// was taken: their births would make them part of it. The caller appends the group
    /// next, and asks again if [`Writer::has_old_spills`] then.
    ///
    /// # Errors
    /// `SpillGone` for what is not kept; as an append.
    pub(super) fn respill_old(&self, items: &[LogItem]) -> Result<()> {
        let through = self.layers.read().live.kept_through;
        if planted::is(Planted::KeptSpillPlaced) {
            return Ok(());
        }
        for item in items {
            let LogItem::Spilled {
                ino,
                version,
                block,
                count,
                spill: (number, from),
                written,
            } = *item
            else {
                continue;
            };
            for first in (0..count).step_by(RESPILLED_AT_ONCE as usize) {
                let end = count.min(first + RESPILLED_AT_ONCE);
                let old = self.old_blocks(number, from + first..from + end, through)?;
                let again = old.iter().map(|(index, pointer)| {
                    let block = block + u64::from(index - from);
                    let data = self.reader.block(pointer, ino, block)?;
                    Ok(LogItem::Block {
                        ino,
                        version,
                        block,
                        data: data.into(),
                        written,
                        source: None,
                    })
                });
                let again = again.collect::<Result<Vec<_>>>()?;
                if again.is_empty() {
                    continue;
                }
                let written = self
                    .write_group(again, GroupKind::Spill(number), None)?
                    .expect("only the cleaner's groups are refused");
                let places: Vec<Pointer> =
                    written.placed.iter().filter_map(Placed::pointer).collect();
                self.lead_to(number, &old, &places);
            }
        }
        Ok(())
    }

    /// True if a group has blocks that were spilled before the newest snapshot. The log
    /// is locked.
    pub(super) fn has_old_spills(&self, items: &[LogItem]) -> bool {
        let through = self.layers.read().live.kept_through;
        if planted::is(Planted::KeptSpillPlaced) {
            return false;
        }
        items.iter().any(|item| match item {
            LogItem::Spilled { count, spill, .. } => {
                let blocks = spill.1..spill.1 + count;
                (self.old_blocks(spill.0, blocks, through)).is_ok_and(|old| !old.is_empty())
            }
            _ => false,
        })
    }

    /// Spills with blocks in a segment, and which these are.
    pub(crate) fn spilled_in(&self, segment: u32) -> Vec<(SpillNo, Vec<(u32, Pointer)>)> {
        let spills = self.spills.lock();
        let within = |pointer: &Pointer| self.geometry.segment_of(pointer.sector());
        let mut found = Vec::new();
        for (number, spill) in &spills.held {
            let places = (0..spill.len()).filter_map(|index| Some((index, spill.pointer(index)?)));
            let blocks: Vec<_> = places
                .filter(|(_, pointer)| within(pointer) == Some(segment))
                .collect();
            if !blocks.is_empty() {
                found.push((*number, blocks));
            }
        }
        found
    }

    /// Which of these blocks of a spill were born up to serial `through`, and where they
    /// are.
    fn old_blocks(
        &self,
        number: SpillNo,
        blocks: Range<u32>,
        through: u64,
    ) -> Result<Vec<(u32, Pointer)>> {
        let spills = self.spills.lock();
        let spill = spills.held.get(&number).ok_or(Error::SpillGone)?;
        let places = blocks.filter_map(|index| Some((index, spill.pointer(index)?)));
        Ok(places.filter(|(_, at)| at.birth() <= through).collect())
    }
}
