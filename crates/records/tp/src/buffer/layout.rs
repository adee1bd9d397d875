//! Where pages lie: in shadow slots or in place. All else is the same for both.

use super::in_place::InPlace;
use super::slots::{Captured, SlotHold, Slots};
use crate::planted::{self, Planted};

#[derive(Debug)]
pub(super) enum Layout {
    Shadow(Slots),
    InPlace(InPlace),
}

impl Layout {
    /// The slot that holds a page, if it was ever written. In place only the file knows
    /// whether it was.
    pub(super) fn slot(&self, page: u32) -> Option<u32> {
        match self {
            Layout::Shadow(slots) => Some(slots.slot(page)).filter(|slot| *slot != 0),
            Layout::InPlace(_) => Some(page),
        }
    }

    /// The slot that a page is to be written to. Ends with [`written`](Self::written).
    pub(super) fn slot_to_write(&mut self, page: u32) -> u32 {
        match self {
            Layout::Shadow(slots) => match slots.slot(page) {
                old if old != 0 && planted::is(Planted::PageInPlace) => old,
                _ => slots.allocate(),
            },
            Layout::InPlace(_) => page,
        }
    }

    pub(super) fn written(&mut self, page: u32, slot: u32, done: bool) {
        if let Layout::Shadow(slots) = self {
            match done {
                true => slots.moved(page, slot),
                false => slots.give_back(slot),
            }
        }
    }

    /// The map now, for a checkpoint; in place there is none.
    pub(super) fn capture(&mut self) -> Captured {
        match self {
            Layout::Shadow(slots) => slots.capture(),
            Layout::InPlace(_) => Captured {
                pages: 0,
                changed: Vec::new(),
                blocks: Vec::new(),
            },
        }
    }

    /// The shadow slots, if pages lie in them.
    pub(super) fn shadow(&mut self) -> Option<&mut Slots> {
        match self {
            Layout::Shadow(slots) => Some(slots),
            Layout::InPlace(_) => None,
        }
    }

    pub(super) fn in_place(&mut self) -> Option<&mut InPlace> {
        match self {
            Layout::Shadow(_) => None,
            Layout::InPlace(in_place) => Some(in_place),
        }
    }

    /// Keeps the slots of the durable checkpoint as they are. Pages in place are not kept:
    /// nobody holds a checkpoint of theirs but for its log.
    pub(super) fn hold(&mut self) -> Option<SlotHold> {
        self.shadow().map(Slots::hold)
    }
}
