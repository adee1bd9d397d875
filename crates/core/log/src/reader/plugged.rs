//! Record of places that have been overwritten recently.
//!
//! If a block was looked up before its place was plugged (`docs/design/holes.md`), its
//! reader finds other bytes there, and looks it up again. That is distinguished from
//! damage by this record of the last [`PLACES`] places, far more than are written between
//! a look-up and its read.

use crate::format::Pointer;
use std::collections::{BTreeMap, VecDeque};
use varve_device::sync::Mutex;

/// Most places recorded.
const PLACES: usize = 65_536;

#[derive(Default)]
struct PluggedState {
    /// Sectors of each place.
    sectors: u64,
    /// Serial of the partial that wrote each place, by first sector, and the incarnation
    /// of its segment.
    serials: BTreeMap<u64, (u64, u32)>,
    /// First sectors, oldest first, with the serial of their partial.
    order: VecDeque<(u64, u64)>,
}

/// The recently plugged places of one volume.
#[derive(Default)]
pub(super) struct Plugged(Mutex<PluggedState>);

impl Plugged {
    /// Notes that partial `serial` is about to write to these places, of `length` sectors
    /// each.
    pub fn note(&self, places: &[u64], length: u64, serial: u64, incarnation: u32) {
        let state = &mut *self.0.lock();
        state.sectors = length;
        for &sector in places {
            state.serials.insert(sector, (serial, incarnation));
            state.order.push_back((sector, serial));
        }
        while state.order.len() > PLACES {
            let oldest = state.order.pop_front();
            if let Some((sector, serial)) = oldest
                && state
                    .serials
                    .get(&sector)
                    .is_some_and(|(last, _)| *last == serial)
            {
                state.serials.remove(&sector);
            }
        }
    }

    /// True if younger data than the block has been written to its place.
    pub fn covers(&self, pointer: &Pointer) -> bool {
        let (first, end) = (pointer.sector(), pointer.end_sector());
        let state = self.0.lock();
        let overlaps = first.saturating_sub(state.sectors.saturating_sub(1))..end;
        let mut over = state.serials.range(overlaps);
        over.any(|(_, (serial, incarnation))| {
            *incarnation == pointer.incarnation() && *serial > pointer.birth()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_younger_of_two_blocks_at_a_place_is_no_other() {
        let plugged = Plugged::default();
        let at = |sector, birth| Pointer::new(sector, 8, 0, birth, 1);
        plugged.note(&[80, 96], 8, 7, 1);
        assert!(plugged.covers(&at(80, 6)) && plugged.covers(&at(84, 6)));
        assert!(!plugged.covers(&at(80, 7)), "it is that one");
        assert!(!plugged.covers(&at(64, 6)));
        let others: Vec<u64> = (0..PLACES as u64).map(|n| 1000 + 8 * n).collect();
        plugged.note(&others, 8, 8, 1);
        assert!(!plugged.covers(&at(80, 6)), "forgotten");
    }
}
