//! The device of the model: slots of a header and a payload, two checkpoint records, and
//! writes that have not been flushed.

use crate::abstract_log::{self, Storage, Testimony};

/// Number of segments of the device.
pub const SEGMENTS: u8 = 6;
/// Number of slots of a segment; a partial takes one.
pub const SLOTS: u8 = 2;

/// Position of a head.
pub type Place = abstract_log::Place<SLOTS>;

/// A summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Serial of its predecessor plus one.
    pub serial: u8,
    /// [`Header::sum`] of its predecessor.
    pub predecessor: u32,
    /// Number of the mount that wrote it.
    pub life: u8,
    /// Head to which it belongs.
    pub head: u8,
    /// Segment in which that head continues.
    pub next: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// The payload, in place of the payload's checksum.
    pub value: u8,
    /// True if its group begins here.
    pub first: bool,
    /// True if its group ends here.
    pub last: bool,
}

impl Header {
    /// Returns its statement about the chain.
    pub fn testimony(&self) -> Testimony {
        Testimony {
            serial: self.serial,
            life: self.life,
            through: self.through,
            next: self.next,
        }
    }

    /// Returns a checksum.
    pub fn sum(&self) -> u32 {
        let fields = [self.serial, self.life, self.head, self.next, self.through];
        let flags = self.value << 2 | u8::from(self.first) << 1 | u8::from(self.last);
        let bytes = self.predecessor.to_le_bytes().into_iter();
        bytes.chain(fields).chain([flags]).fold(1, |sum: u32, b| {
            (sum ^ u32::from(b))
                .wrapping_mul(0x0100_0193)
                .rotate_left(5)
        })
    }
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// First sector of the slot.
    pub header: Option<Header>,
    /// Value of the remaining sectors; 0 if nothing was written.
    pub payload: u8,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Number of the checkpoint.
    pub number: u8,
    /// Serial, checksum and life of the last partial before the boundary.
    pub chain: (u8, u32, u8),
    /// The heads at that boundary.
    pub heads: Vec<Place>,
    /// The state at that boundary.
    pub image: Vec<u8>,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Serial of the last partial in each segment, according to the writer.
    pub written: [u8; SEGMENTS as usize],
    /// Serial at the previous boundary.
    pub before: u8,
}

/// A write that has not been flushed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A partial at this segment and slot.
    Partial(u8, u8, Header),
    /// Clears the header of this slot.
    Clear(u8, u8),
    /// A checkpoint record.
    Record(Record),
}

/// The device.
pub type Medium = abstract_log::Medium<Stored>;

/// Content of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    slots: [Slot; SEGMENTS as usize * SLOTS as usize],
    /// Records; record `n` is in place `n % 2`.
    pub records: [Option<Record>; 2],
}

impl Stored {
    fn index(segment: u8, slot: u8) -> usize {
        usize::from(segment) * usize::from(SLOTS) + usize::from(slot)
    }

    /// Returns the flushed content of a slot.
    pub fn slot(&self, segment: u8, slot: u8) -> Slot {
        self.slots[Self::index(segment, slot)]
    }

    /// Damages a slot.
    pub fn erase(&mut self, segment: u8, slot: u8) {
        self.slots[Self::index(segment, slot)] = Slot::default();
    }
}

impl Storage for Stored {
    type Write = Write;

    fn fates(write: &Write) -> usize {
        match write {
            Write::Partial(..) => 4,
            Write::Clear(..) | Write::Record(_) => 2,
        }
    }

    fn store(&mut self, write: Write, fate: usize) {
        match write {
            Write::Partial(segment, slot, header) => {
                let stored = &mut self.slots[Self::index(segment, slot)];
                if fate & 1 != 0 {
                    stored.header = Some(header);
                }
                if fate & 2 != 0 {
                    stored.payload = header.value;
                }
            }
            Write::Clear(segment, slot) if fate != 0 => {
                self.slots[Self::index(segment, slot)].header = None;
            }
            Write::Record(record) if fate != 0 => {
                let at = usize::from(record.number % 2);
                self.records[at] = Some(record);
            }
            Write::Clear(..) | Write::Record(_) => {}
        }
    }
}
