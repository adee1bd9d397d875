//! Placement of pages: in shadow slots or in place. Everything else is common to both.

use super::in_place::InPlace;
use super::slots::{Captured, SlotHold, Slots};
use crate::planted::{self, Planted};

#[derive(Debug)]
pub(super) enum Layout {
    Shadow(Slots),
    InPlace(InPlace),
}

impl Layout {
    /// Returns the slot of a page if it was ever written. In place only the file shows
    /// that.
    pub(super) fn slot(&self, page: u32) -> Option<u32> {
        match self {
            Layout::Shadow(slots) => Some(slots.slot(page)).filter(|slot| *slot != 0),
            Layout::InPlace(_) => Some(page),
        }
    }

    /// Returns the slot to which a page is written. The caller must then call
    /// [`written`](Self::written).
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

    /// Returns the present map for a checkpoint; in place it is empty.
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

    /// Returns the shadow slots, if pages are stored in them.
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

    /// Pins the slots of the durable checkpoint. Pages in place are not pinned, because
    /// their checkpoint is preserved by its log.
    pub(super) fn hold(&mut self) -> Option<SlotHold> {
        self.shadow().map(Slots::hold)
    }
}
