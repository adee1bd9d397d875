//! Writing the blocks of a transaction that has not been committed, and making them part
//! of files when it is.
//!
//! The place of a spill's blocks changes only if a write fails permanently. Both that
//! change and the look-up for a group are done under the log's lock: a group that places
//! them is either in the log before the change, and its blocks are moved like any live
//! block, or after it.

use crate::error::{Error, Result};
use crate::format::Pointer;
use crate::format::summary::PLACED_AT_ONCE;
use crate::log::item::{GroupKind, LogItem, Placed};
use crate::spills::Spill;
use crate::writer::Writer;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use varve_device::Block;
use varve_fs::{InodeNo, SpillNo};

impl Writer {
    /// Implements [`varve_fs::Layout::spill`].
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

    /// Records the places of a spill's blocks. The log is still locked: if a write to one
    /// of them fails permanently, they are found before they are given up.
    pub(super) fn spilled_to(&self, number: SpillNo, placed: &[Placed]) {
        let mut spills = self.spills.lock();
        // A spill that has places already is being rewritten elsewhere: see
        // `relocate/spilled.rs`.
        if let Some(spill) = spills
            .held
            .get_mut(&number)
            .filter(|spill| spill.len() == 0)
        {
            let places: Vec<Pointer> = placed.iter().filter_map(Placed::pointer).collect();
            *spill = Spill::new(&places, Arc::clone(&spill.broken));
        }
    }

    /// Implements [`varve_fs::Layout::release_spill`].
    pub(crate) fn let_go_of_spill(&self, number: SpillNo) {
        let gone = self.spills.lock().held.remove(&number);
        drop(gone);
        self.segments.lock().end_spill(number.0);
        self.control.tell_gain();
    }

    /// Implements [`varve_fs::Layout::read_spill`].
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
            // A read during which the spill was broken proves nothing.
            if broken.load(Acquire) {
                return Err(varve_fs::Error::Aborted);
            }
            match read {
                Err(_) if self.places_of(number, &indices)?.0 != places => {}
                read => return Ok(read?),
            }
        }
    }

    /// Places of blocks of a spill, and whether it is broken.
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

    /// Replaces the references of a group to spilled blocks by their places. The log is
    /// locked.
    ///
    /// # Errors
    /// `SpillGone` for a spill that is not kept.
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
}

/// Adds a block to those that it directly follows. Returns false if it does not.
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
