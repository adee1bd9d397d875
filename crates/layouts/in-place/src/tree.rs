//! The blocks of a file: twelve places in the inode, the others in indirect blocks of
//! one, two and three levels.

use crate::error::{Error, Result};
use crate::format::{DIRECT, Geometry, Image, PLACES_PER_SECTOR, Place, Sector};
use crate::store::Sectors;

const PLACE_BYTES: usize = 12;

/// The position of a block's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// The place is in the inode, at this index.
    Direct(usize),
    /// The place is below the inode's indirect block with this number of levels; `nth`
    /// is the block's index there.
    Indirect { levels: u32, nth: u64 },
}

/// Returns the number of blocks below one place in an indirect block with so many
/// levels.
pub(crate) fn span(geometry: &Geometry, levels: u32) -> u64 {
    geometry.places().pow(levels - 1)
}

/// Returns the position of the place of `block`; `None` beyond the largest file.
pub(crate) fn spot(geometry: &Geometry, block: u64) -> Option<Spot> {
    let Some(mut nth) = block.checked_sub(DIRECT as u64) else {
        return Some(Spot::Direct(block as usize));
    };
    for levels in 1..=3 {
        let all = geometry.places().pow(levels);
        if nth < all {
            return Some(Spot::Indirect { levels, nth });
        }
        nth -= all;
    }
    None
}

/// Returns the first block below the inode's indirect block with so many levels.
pub(crate) fn base(geometry: &Geometry, levels: u32) -> u64 {
    let below = (1..levels).map(|l| geometry.places().pow(l));
    DIRECT as u64 + below.sum::<u64>()
}

/// Returns the sector of an indirect block that contains a place, and the offset in it.
pub(crate) fn cell(place: &Place, slot: u64) -> (u64, usize) {
    let within = (slot % PLACES_PER_SECTOR) as usize * PLACE_BYTES;
    (place.sector + slot / PLACES_PER_SECTOR, within)
}

/// Returns a place in a sector of an indirect block.
pub(crate) fn place_in(sector: &Sector, at: usize) -> Place {
    Place::decode(&sector[at..at + PLACE_BYTES])
}

/// Returns the place of one block.
pub(crate) fn place_of(source: &impl Sectors, image: &Image, block: u64) -> Result<Place> {
    let mut found = Place::NONE;
    visit(source, image, block, block + 1, &mut |_, place| {
        found = place;
        false
    })?;
    Ok(found)
}

/// Calls `look` with each existing block in `from..to`, in order, until it returns
/// false.
pub(crate) fn visit(
    source: &impl Sectors,
    image: &Image,
    from: u64,
    to: u64,
    look: &mut dyn FnMut(u64, Place) -> bool,
) -> Result<()> {
    let geometry = source.geometry();
    for block in from..to.min(DIRECT as u64) {
        let place = image.direct[block as usize];
        if !place.is_none() && !look(block, place) {
            return Ok(());
        }
    }
    for levels in 1..=3u32 {
        let place = image.indirect[levels as usize - 1];
        let first = base(geometry, levels);
        let walk = Walk {
            source,
            ino: image.inode.ino,
            from,
            to,
        };
        if !place.is_none() && !walk.below(levels, place, first, look)? {
            return Ok(());
        }
    }
    Ok(())
}

struct Walk<'a, S> {
    source: &'a S,
    ino: varve_fs::InodeNo,
    from: u64,
    to: u64,
}

impl<S: Sectors> Walk<'_, S> {
    fn damaged(&self, source: varve_format::Malformed) -> Error {
        Error::DamagedInode {
            ino: self.ino,
            source,
        }
    }

    /// Visits the blocks below an indirect block. Returns false once `look` has.
    fn below(
        &self,
        levels: u32,
        place: Place,
        first: u64,
        look: &mut dyn FnMut(u64, Place) -> bool,
    ) -> Result<bool> {
        let geometry = self.source.geometry();
        let span = span(geometry, levels);
        let end = first + span * geometry.places();
        if self.to <= first || self.from >= end {
            return Ok(true);
        }
        let mut slot = self.from.saturating_sub(first) / span;
        while slot < geometry.places() && first + slot * span < self.to {
            let (sector, _) = cell(&place, slot);
            let sealed = self
                .source
                .sealed(sector, self.ino.0 as u32, "indirect block");
            let bytes = sealed.map_err(|error| match error {
                Error::Damaged(source) => self.damaged(source),
                other => other,
            })?;
            let last = (slot / PLACES_PER_SECTOR + 1) * PLACES_PER_SECTOR;
            while slot < last && first + slot * span < self.to {
                let found = place_in(&bytes, cell(&place, slot).1);
                let at = first + slot * span;
                slot += 1;
                if found.is_none() {
                    continue;
                }
                found.check(geometry).map_err(|e| self.damaged(e))?;
                let more = match levels {
                    1 => look(at, found),
                    _ => {
                        geometry
                            .check_indirect(&found)
                            .map_err(|e| self.damaged(e))?;
                        self.below(levels - 1, found, at, look)?
                    }
                };
                if !more {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Calls `look` with each indirect block of a file and its number of levels, until it
/// returns false.
pub(crate) fn indirects(
    source: &impl Sectors,
    image: &Image,
    look: &mut dyn FnMut(u32, Place) -> bool,
) -> Result<()> {
    fn below(
        source: &impl Sectors,
        ino: varve_fs::InodeNo,
        levels: u32,
        place: Place,
        look: &mut dyn FnMut(u32, Place) -> bool,
    ) -> Result<bool> {
        if !look(levels, place) {
            return Ok(false);
        }
        if levels == 1 {
            return Ok(true);
        }
        for slot in 0..source.geometry().places() {
            let (sector, at) = cell(&place, slot);
            let bytes = source.sealed(sector, ino.0 as u32, "indirect block")?;
            let found = place_in(&bytes, at);
            if !found.is_none() {
                found.check(source.geometry())?;
                source.geometry().check_indirect(&found)?;
                if !below(source, ino, levels - 1, found, look)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
    for levels in 1..=3u32 {
        let place = image.indirect[levels as usize - 1];
        if !place.is_none() {
            below(source, image.inode.ino, levels, place, look)?;
        }
    }
    Ok(())
}
