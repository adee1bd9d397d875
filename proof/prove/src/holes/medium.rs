//! The device of the model: slots of a header and a payload, two checkpoint records, and
//! writes that have not been flushed.

use crate::abstract_log::explore::fingerprint;
use crate::abstract_log::medium::Address;
use crate::abstract_log::{self, Storage, Testimony};

/// Number of segments of the device.
pub const SEGMENTS: u8 = 4;
/// Number of slots of a segment; a partial takes one.
pub const SLOTS: u8 = 6;
/// Number of names of blocks.
pub const NAMES: usize = 2;

/// Position at which the log continues.
pub type Place = abstract_log::Place<SLOTS>;

/// The block of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// Place of the block.
    pub at: Address,
    /// Serial of its partial.
    pub birth: u8,
    /// Content of the block, in place of its checksum.
    pub value: u8,
}

/// The block of every name.
pub type Image = [Option<Pointer>; NAMES];

/// The live blocks of a segment: slot, name and birth of each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// Number of segments opened up to and including this one.
    pub opening: u8,
    /// The blocks.
    pub blocks: Vec<(u8, u8, u8)>,
}

/// Content behind a header, or in a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Nothing has been written.
    #[default]
    Nothing,
    /// A block.
    Value(u8),
    /// A map of the segment.
    Map(Map),
}

/// A block in a hole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plug {
    /// Place of the hole.
    pub at: Address,
    /// Slot of the same segment to which the map is written.
    pub map_slot: u8,
    /// The map, in place of its checksum; `None` if maps are left out.
    pub map: Option<Map>,
}

/// A summary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Serial of its predecessor plus one.
    pub serial: u8,
    /// [`Header::sum`] of its predecessor.
    pub predecessor: u64,
    /// Number of the mount that wrote it.
    pub life: u8,
    /// Segment in which the log continues.
    pub next: u8,
    /// Opening of its segment.
    pub opening: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Name and value of its block.
    pub block: (u8, u8),
    /// Place of the block, if it does not follow the header.
    pub plug: Option<Plug>,
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
    pub fn sum(&self) -> u64 {
        fingerprint(self)
    }
}

/// Content of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// First sector of the slot.
    pub header: Option<Header>,
    /// Remaining sectors of the slot.
    pub payload: Payload,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Number of the checkpoint.
    pub number: u8,
    /// Serial, checksum and life of the last partial before the boundary.
    pub chain: (u8, u64, u8),
    /// Position at which the log continues.
    pub head: Place,
    /// The state at that boundary.
    pub image: Image,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Serial of the last partial that wrote to each segment, and the opening of each,
    /// according to the writer.
    pub written: [(u8, u8); SEGMENTS as usize],
    /// Number of segments opened.
    pub opened: u8,
}

/// A write that has not been flushed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A partial at this place.
    Partial(Address, Header),
    /// A payload in a hole.
    Hole(Address, Payload),
    /// Clears the header of this slot.
    Clear(Address),
    /// A checkpoint record.
    Record(Record),
}

/// The device.
pub type Medium = abstract_log::Medium<Stored>;

/// Content of the device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    slots: Vec<Slot>,
    /// Records; record `n` is in place `n % 2`.
    pub records: [Option<Record>; 2],
}

impl Default for Stored {
    fn default() -> Self {
        Stored {
            slots: vec![Slot::default(); usize::from(SEGMENTS) * usize::from(SLOTS)],
            records: [None, None],
        }
    }
}

impl Stored {
    fn slot_mut(&mut self, (segment, slot): Address) -> &mut Slot {
        &mut self.slots[usize::from(segment) * usize::from(SLOTS) + usize::from(slot)]
    }

    /// Returns the flushed content of a slot.
    pub fn slot(&self, (segment, slot): Address) -> &Slot {
        &self.slots[usize::from(segment) * usize::from(SLOTS) + usize::from(slot)]
    }

    /// Returns the slots of a segment that contain a map of this opening.
    pub fn maps(&self, segment: u8, opening: u8) -> impl Iterator<Item = (u8, &Map)> {
        (0..SLOTS).filter_map(move |slot| match &self.slot((segment, slot)).payload {
            Payload::Map(map) if map.opening == opening => Some((slot, map)),
            _ => None,
        })
    }

    /// Damages the block of a slot.
    pub fn spoil(&mut self, at: Address) {
        self.slot_mut(at).payload = Payload::Nothing;
    }
}

impl Storage for Stored {
    type Write = Write;

    fn fates(write: &Write) -> usize {
        match write {
            Write::Partial(_, header) if header.plug.is_none() => 4,
            _ => 2,
        }
    }

    fn store(&mut self, write: Write, fate: usize) {
        match write {
            Write::Partial(at, header) => {
                let inline = header.plug.is_none();
                let stored = self.slot_mut(at);
                if fate & 2 != 0 && inline {
                    stored.payload = Payload::Value(header.block.1);
                }
                if fate & 1 != 0 {
                    stored.header = Some(header);
                }
            }
            Write::Hole(at, payload) if fate != 0 => self.slot_mut(at).payload = payload,
            Write::Clear(at) if fate != 0 => self.slot_mut(at).header = None,
            Write::Record(record) if fate != 0 => {
                let at = usize::from(record.number % 2);
                self.records[at] = Some(record);
            }
            Write::Hole(..) | Write::Clear(..) | Write::Record(_) => {}
        }
    }
}
