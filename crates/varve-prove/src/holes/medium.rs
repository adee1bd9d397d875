//! The device of the model: slots of a header and a payload, two checkpoint
//! records, and writes that have not been flushed.

/// Segments of the device.
pub const SEGMENTS: u8 = 4;
/// Slots of a segment; a partial takes one.
pub const SLOTS: u8 = 6;
/// Names that blocks have.
pub const NAMES: usize = 2;

/// Segment and slot.
pub type Address = (u8, u8);

/// Where the log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The segment of the last partial.
    pub segment: u8,
    /// The slot behind it.
    pub slot: u8,
    /// The segment that comes next.
    pub next: u8,
}

impl Place {
    /// Where the next partial stands, and whether that enters a segment.
    pub fn successor(self) -> (u8, u8, bool) {
        match self.slot < SLOTS {
            true => (self.segment, self.slot, false),
            false => (self.next, 0, true),
        }
    }
}

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
    /// A checksum.
    pub fn sum(&self) -> u64 {
        super::explore::fingerprint(self)
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

impl Write {
    /// In how many ways it may survive: not, whole, and torn.
    pub fn fates(&self) -> usize {
        match self {
            Write::Partial(_, header) if header.plug.is_none() => 4,
            _ => 2,
        }
    }
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Medium {
    slots: Vec<Slot>,
    /// Record `n` in place `n % 2`.
    pub records: [Option<Record>; 2],
    /// In the order in which they were made.
    pub pending: Vec<Write>,
}

impl Default for Medium {
    fn default() -> Self {
        Medium {
            slots: vec![Slot::default(); usize::from(SEGMENTS) * usize::from(SLOTS)],
            records: [None, None],
            pending: Vec::new(),
        }
    }
}

impl Medium {
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

    /// Everything written so far is durable.
    pub fn flush(&mut self) {
        for write in std::mem::take(&mut self.pending) {
            let whole = write.fates() - 1;
            self.store(write, whole);
        }
    }

    /// Every medium that a power cut may leave.
    pub fn after_power_cut(&self) -> Vec<Medium> {
        let ways: usize = self.pending.iter().map(Write::fates).product();
        let one = |way: usize| {
            let mut medium = self.clone();
            let mut rest = way;
            for write in std::mem::take(&mut medium.pending) {
                let fates = write.fates();
                medium.store(write, rest % fates);
                rest /= fates;
            }
            medium
        };
        (0..ways).map(one).collect()
    }
}
