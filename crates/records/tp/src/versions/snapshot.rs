//! Snapshots: the commits that a reader sees, and the versions that must be kept for
//! readers.
//!
//! The clock is the LSN of the last commit record that snapshots see. A reader stores the
//! clock in a slot of its own, then reads the clock again: that is its snapshot. The
//! computation of the horizon reads the clock first, then the slots. If it misses a slot,
//! the owner of the slot has read the clock after it. So no snapshot is older than the
//! horizon, and neither side waits for the other.

use super::Versions;
use crate::home::home;
use crate::log::Lsn;
use varve_device::sync::MODEL;
use varve_device::sync::atomic::{AtomicU64, Ordering::*};

/// Number of snapshots with a slot; further ones share a mutex.
const SLOTS: usize = if MODEL { 2 } else { 64 };
/// Value of a free slot.
const FREE: u64 = u64::MAX;

/// The alignment is 128 because CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Slot(AtomicU64);

pub(super) fn slots() -> Box<[Slot]> {
    (0..SLOTS).map(|_| Slot(AtomicU64::new(FREE))).collect()
}

/// All commits up to one, and no other change. Registered until it is dropped.
#[derive(Debug)]
pub(crate) struct Snapshot<'e> {
    versions: &'e Versions,
    slot: Option<usize>,
    entered: u64,
    /// The last commit that it includes.
    pub at: Lsn,
    /// A page whose last change is below this LSN has its state of the snapshot.
    pub clean: u64,
}

impl Versions {
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        let (slot, entered) = self.enter();
        // The order matters: a writer that is not seen here logs behind `entered`.
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

    /// Returns a lower bound of all present and future snapshots.
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
