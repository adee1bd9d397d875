//! The device of a model: what is stored, and writes that have not been flushed.

use std::collections::BTreeSet;

/// Segment and slot.
pub type Address = (u8, u8);

/// Where a log, or one head of it, goes on. Segments have `SLOTS` slots, and a
/// partial takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place<const SLOTS: u8> {
    /// The segment of the last partial; `next` if there is none.
    pub segment: u8,
    /// The slot behind that partial.
    pub slot: u8,
    /// The segment that comes next.
    pub next: u8,
}

impl<const SLOTS: u8> Place<SLOTS> {
    /// A place that has been given a segment, where nothing was written.
    pub fn unopened(next: u8) -> Self {
        Place {
            segment: next,
            slot: SLOTS,
            next,
        }
    }

    /// Where the next partial stands, and whether that enters a segment.
    pub fn successor(self) -> (u8, u8, bool) {
        match self.slot < SLOTS {
            true => (self.segment, self.slot, false),
            false => (self.next, 0, true),
        }
    }
}

/// What a device keeps.
pub trait Storage: Clone {
    /// One write.
    type Write: Clone;

    /// In how many ways a write may survive: not, torn, and whole.
    fn fates(write: &Self::Write) -> usize;

    /// Stores what is left of a write: nothing if `fate` is 0, all of it if
    /// that is the last one.
    fn store(&mut self, write: Self::Write, fate: usize);
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Medium<S: Storage> {
    /// What is read once everything has been flushed.
    pub stored: S,
    /// In the order in which they were made.
    pub pending: Vec<S::Write>,
}

impl<S: Storage> Medium<S> {
    /// A device with this on it.
    pub fn new(stored: S) -> Self {
        Medium {
            stored,
            pending: Vec::new(),
        }
    }

    /// Everything written so far is durable.
    pub fn flush(&mut self) {
        for write in std::mem::take(&mut self.pending) {
            let whole = S::fates(&write) - 1;
            self.stored.store(write, whole);
        }
    }

    /// Every medium that a power cut may leave.
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

/// What a header says of the chain.
#[derive(Clone, Copy, Debug)]
pub struct Testimony {
    /// Its serial.
    pub serial: u8,
    /// The mount that wrote it.
    pub life: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// The segment that the log goes to next.
    pub next: u8,
}

/// True if a header says that more was flushed than the partials up to serial
/// `last`, where recovery ended in the given life. Looks from each of `places`
/// to the end of its segment of `slots`, and wherever the headers there lead.
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
