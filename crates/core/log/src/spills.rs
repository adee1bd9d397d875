//! Blocks that transactions have spilled (`docs/design/transactions.md`, "Spilling").
//!
//! For each spill it is kept where its blocks stand, 8 bytes for each; what that means
//! for the segments is the table's business (`segments/spilled.rs`). After a crash
//! nothing is left of it.

use crate::format::Pointer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use varve_fs::SpillNo;

/// Blocks that were spilled at once.
pub(crate) struct Spill {
    /// Parts that stand in one partial segment each, by their first block.
    parts: Vec<Part>,
    blocks: Vec<Place>,
    pub broken: Arc<AtomicBool>,
}

/// What the blocks of one partial segment have in common.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u32,
    /// A sector before all of them.
    sector: u64,
    birth: u64,
    incarnation: u32,
}

/// One block within its part.
#[derive(Clone, Copy, Debug)]
struct Place {
    crc: u32,
    /// Sectors behind the part's, and its own in the last 8 bits.
    at: u32,
}

/// Bits of [`Place::at`] for a block's sectors.
const SECTOR_BITS: u32 = 8;

impl Spill {
    pub fn new(pointers: &[Pointer], broken: Arc<AtomicBool>) -> Self {
        let mut spill = Spill {
            parts: Vec::new(),
            blocks: Vec::with_capacity(pointers.len()),
            broken,
        };
        for pointer in pointers {
            spill.push(pointer);
        }
        assert_eq!(spill.blocks.len(), pointers.len(), "a block for each place");
        spill
    }

    fn push(&mut self, pointer: &Pointer) {
        let offset = |part: &Part| {
            let offset = pointer.sector().checked_sub(part.sector)?;
            let same = (part.birth, part.incarnation) == (pointer.birth(), pointer.incarnation());
            (same && offset >> (u32::BITS - SECTOR_BITS) == 0).then_some(offset)
        };
        let offset = self.parts.last().and_then(offset).unwrap_or_else(|| {
            self.parts.push(Part {
                first: self.blocks.len() as u32,
                sector: pointer.sector(),
                birth: pointer.birth(),
                incarnation: pointer.incarnation(),
            });
            0
        });
        self.blocks.push(Place {
            crc: pointer.crc(),
            at: (offset as u32) << SECTOR_BITS | u32::from(pointer.sectors()),
        });
    }

    /// How many blocks.
    pub fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Where a block stands.
    pub fn pointer(&self, index: u32) -> Option<Pointer> {
        let place = self.blocks.get(index as usize)?;
        let behind = self.parts.partition_point(|part| part.first <= index);
        let part = self.parts.get(behind.checked_sub(1)?)?;
        let sector = part.sector + u64::from(place.at >> SECTOR_BITS);
        let sectors = place.at as u8;
        let pointer = Pointer::new(sector, sectors, place.crc, part.birth, part.incarnation);
        Some(pointer)
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Acquire)
    }
}

/// Those that are held.
#[derive(Default)]
pub(crate) struct Spills {
    pub held: BTreeMap<SpillNo, Spill>,
    begun: u64,
}

impl Spills {
    /// A number that none has had.
    pub fn next(&mut self) -> SpillNo {
        self.begun += 1;
        SpillNo(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spill_knows_where_each_block_stands() {
        let pointer = |sector, sectors, crc, birth| Pointer::new(sector, sectors, crc, birth, 7);
        let pointers = [
            pointer(1000, 8, 11, 5),
            pointer(1008, 8, 12, 5),
            pointer(980, 3, 13, 5), // a shorter one, before the full ones
            pointer(990, 1, 14, 5),
            pointer(5000, 128, 15, 6),
            pointer(5000 + (1 << 25), 8, 16, 6), // further than offsets reach
        ];
        let spill = Spill::new(&pointers, Arc::default());
        let found: Vec<Pointer> = (0..spill.len()).filter_map(|n| spill.pointer(n)).collect();
        assert_eq!(found, pointers);
        assert_eq!(spill.pointer(6), None);
    }
}
