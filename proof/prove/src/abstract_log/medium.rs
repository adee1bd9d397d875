//! The device of a model: its content, and writes that have not been flushed.

use std::collections::BTreeSet;

/// Segment and slot.
pub type Address = (u8, u8);

/// A position at which a log, or one head of it, continues. A segment has `SLOTS` slots,
/// and a partial takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place<const SLOTS: u8> {
    /// Segment of the last partial; `next` if there is none.
    pub segment: u8,
    /// Slot behind that partial.
    pub slot: u8,
    /// Segment that is used next.
    pub next: u8,
}

impl<const SLOTS: u8> Place<SLOTS> {
    /// Returns a position with a segment in which nothing was written.
    pub fn unopened(next: u8) -> Self {
        Place {
            segment: next,
            slot: SLOTS,
            next,
        }
    }

    /// Returns segment and slot of the next partial, and true if it enters a segment.
    pub fn successor(self) -> (u8, u8, bool) {
        match self.slot < SLOTS {
            true => (self.segment, self.slot, false),
            false => (self.next, 0, true),
        }
    }
}

/// Content of a device.
pub trait Storage: Clone {
    /// One write.
    type Write: Clone;

    /// Returns the number of outcomes of a write: lost, torn, and complete.
    fn fates(write: &Self::Write) -> usize;

    /// Stores the rest of a write: nothing if `fate` is 0, all of it for the last
    /// outcome.
    fn store(&mut self, write: Self::Write, fate: usize);
}

/// A device with unflushed writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Medium<S: Storage> {
    /// The flushed content.
    pub stored: S,
    /// Unflushed writes, in the order of their requests.
    pub pending: Vec<S::Write>,
}

impl<S: Storage> Medium<S> {
    /// Returns a device with this content.
    pub fn new(stored: S) -> Self {
        Medium {
            stored,
            pending: Vec::new(),
        }
    }

    /// Makes all writes durable.
    pub fn flush(&mut self) {
        for write in std::mem::take(&mut self.pending) {
            let whole = S::fates(&write) - 1;
            self.stored.store(write, whole);
        }
    }

    /// Returns every medium that a power cut may leave.
    pub fn after_power_cut(&self) -> Vec<Self> {
        let ways: usize = self.pending.iter().map(S::fates).product();
        let one = |way: usize| {
            let mut medium = self.clone();
            let mut rest = way;
            for write in std::mem::take(&mut medium.pending) {
                let fates = S::fates(&write);
                medium.stored.store(write, rest % fates);
                rest /= fates;
            }
            medium
        };
        (0..ways).map(one).collect()
    }
}

/// The statement of a header about the chain.
#[derive(Clone, Copy, Debug)]
pub struct Testimony {
    /// Serial of the header.
    pub serial: u8,
    /// Number of the mount that wrote it.
    pub life: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Segment in which the log continues.
    pub next: u8,
}

/// Returns true if a header proves that more was flushed than the partials up to serial
/// `last`, where recovery ended in the given life. It examines each of `places` up to the
/// end of its segment of `slots`, and the segments to which the headers there lead.
pub fn is_contradicted(
    (last, life): (u8, u8),
    mut places: Vec<Address>,
    slots: u8,
    header: impl Fn(Address) -> Option<Testimony>,
) -> bool {
    let mut seen: BTreeSet<u8> = places.iter().map(|(segment, _)| *segment).collect();
    while let Some((segment, from)) = places.pop() {
        let headers = (from..slots).filter_map(|slot| header((segment, slot)));
        for found in headers.filter(|found| found.serial > last && found.life >= life) {
            if found.through > last {
                return true;
            }
            if seen.insert(found.next) {
                places.push((found.next, 0));
            }
        }
    }
    false
}
