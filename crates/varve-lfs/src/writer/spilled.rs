//! Writing the blocks of a transaction that has not been committed, and making them
//! part of files when it is.
//!
//! Where a spill's blocks stand changes only if a write fails for good. That, and
//! looking it up for a group, happen under the log's lock: a group that tells of them is
//! in the log before the change, and what it says is moved as anything that lives, or
//! behind it.

use crate::chain::ChainItem;
use crate::error::{Error, Result};
use crate::format::Pointer;
use crate::format::summary::PLACED_AT_ONCE;
use crate::lfs::Lfs;
use crate::log::item::{GroupKind, LogItem, Placed};
use crate::spills::Spill;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use varve_device::Block;
use varve_fs::{InodeNo, SpillNo};

impl Lfs {
    /// Answers for [`varve_fs::Layout::spill`].
    pub(crate) fn spill_blocks(&self, blocks: Vec<LogItem>) -> Result<SpillNo> {
        let number = self.spills.lock().next();
        let broken = self.segments.lock().begin_spill(number.0);
        let spill = Spill::new(&[], broken);
        self.spills.lock().held.insert(number, spill);
        match self.write_group(blocks, GroupKind::Spill(number), None) {
            Ok(_) => Ok(number),
            Err(error) => {
                self.let_go_of_spill(number);
                Err(error)
            }
        }
    }

    /// The blocks of a spill have their places. The log is still locked: if a write to
    /// one of them fails for good, they are found before they are given up.
    pub(super) fn spilled_to(&self, number: SpillNo, placed: &[Placed]) {
        let mut spills = self.spills.lock();
        // One that has some already is being written elsewhere: see `respill`.
        if let Some(spill) = spills
            .held
            .get_mut(&number)
            .filter(|spill| spill.len() == 0)
        {
            *spill = Spill::new(&pointers(placed), Arc::clone(&spill.broken));
        }
    }

    /// Answers for [`varve_fs::Layout::release_spill`].
    pub(crate) fn let_go_of_spill(&self, number: SpillNo) {
        let gone = self.spills.lock().held.remove(&number);
        drop(gone);
        self.segments.lock().end_spill(number.0);
        self.control.tell_gain();
    }

    /// Answers for [`varve_fs::Layout::read_spill`].
    pub(crate) fn spilled_content(
        &self,
        (ino, first): (InodeNo, u64),
        number: SpillNo,
        indices: Range<u32>,
    ) -> varve_fs::Result<Vec<Arc<Block>>> {
        loop {
            let (places, broken) = self.places_of(number, &indices)?;
            let run: Vec<(u64, Pointer)> = (first..).zip(places.iter().copied()).collect();
            let read = self.reader.run(ino, &run);
            // What was read while it was broken proves nothing.
            if broken.load(Acquire) {
                return Err(varve_fs::Error::Aborted);
            }
            match read {
                Err(_) if self.places_of(number, &indices)?.0 != places => {}
                read => return Ok(read?),
            }
        }
    }

    /// Where blocks of a spill stand, and whether it is broken.
    fn places_of(
        &self,
        number: SpillNo,
        indices: &Range<u32>,
    ) -> Result<(Vec<Pointer>, Arc<AtomicBool>)> {
        let spills = self.spills.lock();
        let spill = spills.held.get(&number).ok_or(Error::SpillGone)?;
        let places = indices.clone().map(|index| spill.pointer(index));
        let places = places.collect::<Option<_>>().ok_or(Error::SpillGone)?;
        Ok((places, Arc::clone(&spill.broken)))
    }

    /// Where the spilled blocks of a group stand takes the place of which they are. The
    /// log is locked.
    ///
    /// # Errors
    /// `SpillGone` for what is not kept.
    pub(super) fn place_spilled(&self, items: Vec<LogItem>) -> Result<Vec<LogItem>> {
        if !items
            .iter()
            .any(|item| matches!(item, LogItem::Spilled { .. }))
        {
            return Ok(items);
        }
        let spills = self.spills.lock();
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            let LogItem::Spilled {
                ino,
                version,
                block,
                count,
                spill: (number, from),
                written,
            } = item
            else {
                all.push(item);
                continue;
            };
            let spill = spills.held.get(&number).ok_or(Error::SpillGone)?;
            for nth in 0..count {
                let pointer = spill.pointer(from + nth).ok_or(Error::SpillGone)?;
                if nth > 0 && all.last_mut().is_some_and(|last| continues(last, &pointer)) {
                    continue;
                }
                all.push(LogItem::Placed {
                    ino,
                    version,
                    block: block + u64::from(nth),
                    first: pointer,
                    crcs: vec![pointer.crc()],
                    written,
                });
            }
            if spill.is_broken() {
                return Err(Error::SpillGone);
            }
        }
        Ok(all)
    }

    /// Writes spilled blocks that stand in a segment where a write has failed to another
    /// place. What of them is part of files by now is moved as anything that lives.
    pub(super) fn respill(&self, segment: u32) -> Result<()> {
        let numbers: Vec<SpillNo> = self.spills.lock().held.keys().copied().collect();
        let mut contents = None;
        for number in numbers {
            let within = self.blocks_in(number, segment);
            if within.is_empty() {
                continue;
            }
            let contents = match &mut contents {
                Some(contents) => contents,
                none => none.insert(self.read_segment(segment)?),
            };
            let told: HashMap<u64, ChainItem> = contents
                .blocks
                .iter()
                .map(|info| (info.byte / crate::format::SECTOR, info.item))
                .collect();
            let mut items = Vec::new();
            for (_, pointer) in &within {
                let item = told.get(&pointer.sector());
                items.push(self.again(item, pointer)?);
            }
            let written = self
                .write_group(items, GroupKind::Spill(number), None)?
                .expect("only the cleaner's groups are refused");
            self.lead_to(number, segment, &within, &pointers(&written.placed));
        }
        Ok(())
    }

    /// The block at this place, to be written once more.
    fn again(&self, item: Option<&ChainItem>, pointer: &Pointer) -> Result<LogItem> {
        let Some(ChainItem::Block {
            ino,
            version,
            block,
            written_ns,
            ..
        }) = item
        else {
            return Err(self.give_in());
        };
        let data = self.reader.block(pointer, *ino, *block)?;
        Ok(LogItem::Block {
            ino: *ino,
            version: *version,
            block: *block,
            data: data.into(),
            written: varve_fs::Timestamp::from_ns(*written_ns),
            source: None,
        })
    }

    /// Which blocks of a spill stand in a segment, and where.
    fn blocks_in(&self, number: SpillNo, segment: u32) -> Vec<(u32, Pointer)> {
        let spills = self.spills.lock();
        let Some(spill) = spills.held.get(&number) else {
            return Vec::new();
        };
        let places = (0..spill.len()).filter_map(|index| Some((index, spill.pointer(index)?)));
        let within = |pointer: &Pointer| self.geometry.segment_of(pointer.sector());
        places
            .filter(|(_, pointer)| within(pointer) == Some(segment))
            .collect()
    }

    /// Blocks of a spill stand elsewhere from now on.
    fn lead_to(&self, number: SpillNo, segment: u32, which: &[(u32, Pointer)], places: &[Pointer]) {
        let _log = self.log.lock();
        let mut spills = self.spills.lock();
        if let Some(spill) = spills.held.get_mut(&number) {
            let mut all: Vec<Pointer> = (0..spill.len())
                .filter_map(|index| spill.pointer(index))
                .collect();
            for ((index, _), place) in which.iter().zip(places) {
                all[*index as usize] = *place;
            }
            *spill = Spill::new(&all, Arc::clone(&spill.broken));
        }
        self.segments.lock().spilled_out_of(number.0, segment);
    }
}

/// Where the blocks of a group went that holds nothing else.
fn pointers(placed: &[Placed]) -> Vec<Pointer> {
    let pointer = |placed: &Placed| match placed {
        Placed::Block(pointer) => Some(*pointer),
        Placed::Inode(_) | Placed::Nothing => None,
    };
    placed.iter().filter_map(pointer).collect()
}

/// Adds a block to those that it stands behind. False if it does not.
fn continues(last: &mut LogItem, pointer: &Pointer) -> bool {
    let LogItem::Placed { first, crcs, .. } = last else {
        return false;
    };
    let sectors = u64::from(first.sectors());
    let behind = first.sector() + sectors * crcs.len() as u64;
    let fits = crcs.len() < usize::from(PLACED_AT_ONCE)
        && pointer.sector() == behind
        && (pointer.sectors(), pointer.birth()) == (first.sectors(), first.birth())
        && pointer.incarnation() == first.incarnation();
    if fits {
        crcs.push(pointer.crc());
    }
    fits
}
