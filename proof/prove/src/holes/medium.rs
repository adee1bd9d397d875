//! The device of the model: slots of a header and a payload, two checkpoint
//! records, and writes that have not been flushed.

use crate::abstract_log::explore::fingerprint;
use crate::abstract_log::medium::Address;
use crate::abstract_log::{self, Storage, Testimony};

/// Segments of the device.
pub const SEGMENTS: u8 = 4;
/// Slots of a segment; a partial takes one.
pub const SLOTS: u8 = 6;
/// Names that blocks have.
pub const NAMES: usize = 2;

/// Where the log goes on.
pub type Place = abstract_log::Place<SLOTS>;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// Where the block stands.
    pub at: Address,
    /// Serial of its partial.
    pub birth: u8,
    /// Its content, which stands for its checksum.
    pub value: u8,
}

/// What every name leads to.
pub type Image = [Option<Pointer>; NAMES];

/// What lives in a segment: slot, name and birth of each block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Map {
    /// How many segments had been opened when this one was.
    pub opening: u8,
    /// The blocks.
    pub blocks: Vec<(u8, u8, u8)>,
}

/// What stands behind a header, or in a hole.
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

/// A block that stands in a hole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plug {
    /// Where.
    pub at: Address,
    /// The slot of the same segment that the map is written to.
    pub map_slot: u8,
    /// The map, which stands for its checksum; none if maps are left out.
    pub map: Option<Map>,
}

/// A summary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// One more than its predecessor's.
    pub serial: u8,
    /// [`Header::sum`] of its predecessor.
    pub predecessor: u64,
    /// The mount that wrote it.
    pub life: u8,
    /// The segment that the log goes to next.
    pub next: u8,
    /// The opening of its segment.
    pub opening: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Name and value of its block.
    pub block: (u8, u8),
    /// Where the block stands if not behind the header.
    pub plug: Option<Plug>,
    /// Whether its group begins and ends here.
    pub first: bool,
    /// See `first`.
    pub last: bool,
}

impl Header {
    /// What it says of the chain.
    pub fn testimony(&self) -> Testimony {
        Testimony {
            serial: self.serial,
            life: self.life,
            through: self.through,
            next: self.next,
        }
    }

    /// A checksum.
    pub fn sum(&self) -> u64 {
        fingerprint(self)
    }
}

/// What a slot holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its first sector.
    pub header: Option<Header>,
    /// The rest.
    pub payload: Payload,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Its number.
    pub number: u8,
    /// Serial, checksum and life of the last partial before the boundary.
    pub chain: (u8, u64, u8),
    /// Where the log goes on.
    pub head: Place,
    /// The state at that boundary.
    pub image: Image,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Serial of the last partial that wrote into each segment, and the
    /// opening of each, as the writer knew them.
    pub written: [(u8, u8); SEGMENTS as usize],
    /// Segments opened.
    pub opened: u8,
}

/// A write that has not been flushed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A partial at this place.
    Partial(Address, Header),
    /// Something in a hole.
    Hole(Address, Payload),
    /// The header of this slot is cleared.
    Clear(Address),
    /// A checkpoint record.
    Record(Record),
}

/// The device.
pub type Medium = abstract_log::Medium<Stored>;

/// What the device keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    slots: Vec<Slot>,
    /// Record `n` in place `n % 2`.
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

    /// What is read at a slot once everything has been flushed.
    pub fn slot(&self, (segment, slot): Address) -> &Slot {
        &self.slots[usize::from(segment) * usize::from(SLOTS) + usize::from(slot)]
    }

    /// Slots of a segment that hold a map of this opening.
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
