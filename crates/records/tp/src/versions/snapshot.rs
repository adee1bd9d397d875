//! Snapshots: which commits a reader sees, and which versions must be kept for readers.
//!
//! The clock is the LSN of the last commit record that snapshots see. A reader enters the
//! clock in a slot of its own, then reads the clock again: that is its snapshot. Whoever
//! looks for the horizon reads the clock first, then the slots. If he misses a slot, its
//! owner has read the clock after him. So no snapshot is older than the horizon, and
//! neither side waits for the other.

use super::Versions;
use crate::home::home;
use crate::log::Lsn;
use varve_device::sync::MODEL;
use varve_device::sync::atomic::{AtomicU64, Ordering::*};

/// Snapshots that find a slot; further ones share a mutex.
const SLOTS: usize = if MODEL { 2 } else { 64 };
/// Of a slot that nobody has.
const FREE: u64 = u64::MAX;

/// CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Slot(AtomicU64);

pub(super) fn slots() -> Box<[Slot]> {
    (0..SLOTS).map(|_| Slot(AtomicU64::new(FREE))).collect()
}

/// All commits up to one, and no other change. Registered while it lives.
#[derive(Debug)]
pub(crate) struct Snapshot<'e> {
    versions: &'e Versions,
    slot: Option<usize>,
    entered: u64,
    /// The last commit seen.
    pub at: Lsn,
    /// A page whose last change is below this is as the snapshot sees it.
    pub clean: u64,
}

impl Versions {
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        let (slot, entered) = self.enter();
        // In this order: whoever has written and not been seen here logs behind `entered`.
        let oldest = self.oldest.load(SeqCst);
        let at = Lsn(self.clock.load(SeqCst));
        Snapshot {
            versions: self,
            slot,
            entered,
            at,
            clean: oldest.min(entered),
        }
    }

    fn enter(&self) -> (Option<usize>, u64) {
        let home = home(SLOTS);
        for step in 0..SLOTS {
            let at = (home + step) % SLOTS;
            let slot = &self.slots[at].0;
            if slot.load(Relaxed) == FREE {
                let now = self.clock.load(SeqCst);
                if slot.compare_exchange(FREE, now, SeqCst, Relaxed).is_ok() {
                    return (Some(at), now);
                }
            }
        }
        let mut further = self.further.lock();
        let now = self.clock.load(SeqCst);
        *further.entry(now).or_default() += 1;
        (None, now)
    }

    /// No snapshot, now or later, is older than this.
    pub(crate) fn horizon(&self) -> Lsn {
        let now = self.clock.load(SeqCst);
        let slots = self.slots.iter().map(|slot| slot.0.load(SeqCst));
        let oldest = slots.min().unwrap_or(FREE).min(now);
        let further = self.further.lock();
        let further = further.first_key_value().map_or(FREE, |(at, _)| *at);
        Lsn(oldest.min(further))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        match self.slot {
            Some(at) => self.versions.slots[at].0.store(FREE, SeqCst),
            None => {
                let mut further = self.versions.further.lock();
                if let Some(count) = further.get_mut(&self.entered) {
                    *count -= 1;
                    if *count == 0 {
                        further.remove(&self.entered);
                    }
                }
            }
        }
        self.versions.drop_unneeded();
    }
}
