//! Changes of the places in inodes and indirect blocks.

use super::Planner;
use crate::error::{Error, Result};
use crate::format::{DIRECT, Image, Place, SECTOR_BYTES};
use crate::store::Sectors;
use crate::tree::{Spot, base, cell, place_in, span, spot};
use std::ops::Range;
use varve_fs::planted::{self, Planted};

const INDIRECT_BLOCK: &str = "indirect block";

impl Planner<'_, '_> {
    /// Sets the place of a block, and creates or copies the indirect blocks on the path
    /// to it.
    pub fn set(&mut self, image: &mut Image, block: u64, place: Place) -> Result<()> {
        let owner = image.inode.ino.0 as u32;
        let (levels, mut nth) = match spot(self.geometry(), block).ok_or(Error::Full)? {
            Spot::Direct(at) => {
                image.direct[at] = place;
                return Ok(());
            }
            Spot::Indirect { levels, nth } => (levels, nth),
        };
        let mut at = self.own(image, image.indirect[levels as usize - 1])?;
        image.indirect[levels as usize - 1] = at;
        for levels in (2..=levels).rev() {
            let span = span(self.geometry(), levels);
            let (sector, within) = cell(&at, nth / span);
            nth %= span;
            let bytes = self.stage.change(sector, owner, INDIRECT_BLOCK)?;
            let below = place_in(bytes, within);
            let own = self.own(image, below)?;
            if own != below {
                let bytes = self.stage.change(sector, owner, INDIRECT_BLOCK)?;
                own.encode(&mut bytes[within..]);
            }
            at = own;
        }
        let (sector, within) = cell(&at, nth);
        place.encode(&mut self.stage.change(sector, owner, INDIRECT_BLOCK)?[within..]);
        Ok(())
    }

    /// Returns an indirect block that may be changed: the one at `place` if it may be
    /// changed in place, otherwise a copy, or an empty one if there is none.
    fn own(&mut self, image: &Image, place: Place) -> Result<Place> {
        if place.is_none() {
            return self.indirect_block(image);
        }
        place.check(self.geometry())?;
        self.geometry().check_indirect(&place)?;
        if self.is_fresh(&place) {
            return Ok(place);
        }
        let owner = image.inode.ino.0 as u32;
        let copy = self.indirect_block(image)?;
        for nth in 0..u64::from(place.sectors) {
            let sealed = self
                .stage
                .sealed(place.sector + nth, owner, INDIRECT_BLOCK)?;
            self.stage.put_open(copy.sector + nth, *sealed, owner);
        }
        self.give_up(self.extent(place.sector, place.sectors.into()), true);
        Ok(copy)
    }

    /// Creates an indirect block without places.
    fn indirect_block(&mut self, image: &Image) -> Result<Place> {
        let near = match self.last {
            Some((_, place)) => self.geometry().fragment_of(place.sector),
            None => self.home(image),
        };
        let each = self.geometry().block_fragments();
        let extent = self.room.take_alone(near, each).ok_or(Error::Full)?;
        let place = Place {
            sector: self.geometry().fragment_sector(extent.start),
            sectors: self.geometry().block_sectors() as u8,
            flags: 0,
            crc: 0,
        };
        self.note_fresh(place.sector);
        for sector in place.sector..place.sector + u64::from(place.sectors) {
            self.stage
                .put_open(sector, [0; SECTOR_BYTES], image.inode.ino.0 as u32);
        }
        Ok(place)
    }

    /// Removes the blocks `from..to`, and the indirect blocks whose whole range is
    /// removed.
    pub(super) fn clear(
        &mut self,
        image: &mut Image,
        from: u64,
        to: u64,
        journalled: bool,
    ) -> Result<()> {
        if let Some(directories) = self.directories.as_mut().filter(|_| journalled) {
            directories.copied = true;
        }
        for at in from..to.min(DIRECT as u64) {
            let old = std::mem::replace(&mut image.direct[at as usize], Place::NONE);
            self.leave(old, journalled);
            if planted::is(Planted::BlockFreeWhileReferenced) {
                image.direct[at as usize] = old;
            }
        }
        for levels in 1..=3u32 {
            let place = image.indirect[levels as usize - 1];
            if place.is_none() {
                continue;
            }
            let clearing = Clearing {
                owner: image.inode.ino.0 as u32,
                range: from..to,
                journalled,
            };
            let first = base(self.geometry(), levels);
            let after = self.clear_below(image, &clearing, (levels, place), first)?;
            image.indirect[levels as usize - 1] = after;
        }
        self.last = None;
        // The file no longer continues behind its former end.
        self.room.close_window(image.inode.ino.0);
        Ok(())
    }

    /// Gives up the space of a block that is removed or stored elsewhere.
    pub(super) fn leave(&mut self, old: Place, journalled: bool) {
        if old.is_none() {
            return;
        }
        self.held = self.held.saturating_sub(1);
        let extent = self.extent(old.sector, old.sectors.into());
        self.give_up(extent, journalled);
    }

    /// Checks that the space given up is not more than there is.
    ///
    /// # Errors
    /// If it is, because indirect blocks of the file form a cycle.
    fn within_volume(&self) -> Result<()> {
        let given_up = self.given_up.data.len() + self.given_up.journalled.len();
        match given_up as u64 <= self.geometry().fragments() {
            true => Ok(()),
            false => {
                Err(varve_format::Malformed::new("indirect block", "it leads to itself").into())
            }
        }
    }

    /// Clears a range below an indirect block. Returns the block's new place, which is
    /// `NONE` if the block itself is given up.
    fn clear_below(
        &mut self,
        image: &Image,
        clearing: &Clearing,
        (levels, place): (u32, Place),
        first: u64,
    ) -> Result<Place> {
        let (places, span) = (self.geometry().places(), span(self.geometry(), levels));
        let end = first.saturating_add(span * places);
        let range = &clearing.range;
        if range.end <= first || range.start >= end {
            return Ok(place);
        }
        let mut place = place;
        let whole = range.start <= first && range.end >= end;
        self.within_volume()?;
        let begin = range.start.saturating_sub(first) / span;
        let last = places.min((range.end - first).div_ceil(span));
        for slot in begin..last {
            let (sector, within) = cell(&place, slot);
            let bytes = self.stage.sealed(sector, clearing.owner, INDIRECT_BLOCK)?;
            let found = place_in(&bytes, within);
            if found.is_none() {
                continue;
            }
            found.check(self.geometry())?;
            let after = match levels {
                1 => {
                    self.leave(found, clearing.journalled);
                    Place::NONE
                }
                _ => {
                    self.geometry().check_indirect(&found)?;
                    let below = (levels - 1, found);
                    self.clear_below(image, clearing, below, first + slot * span)?
                }
            };
            if after != found && !whole {
                place = self.own(image, place)?;
                let (sector, within) = cell(&place, slot);
                let bytes = self.stage.change(sector, clearing.owner, INDIRECT_BLOCK)?;
                after.encode(&mut bytes[within..]);
            }
        }
        if whole {
            self.give_up(self.extent(place.sector, place.sectors.into()), true);
            return Ok(Place::NONE);
        }
        Ok(place)
    }
}

struct Clearing {
    owner: u32,
    range: Range<u64>,
    journalled: bool,
}
