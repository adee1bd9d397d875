//! The device of the model: slots of a header and a payload, two checkpoint
//! records, and writes that have not been flushed.

/// Segments of the device.
pub const SEGMENTS: u8 = 6;
/// Slots of a segment; a partial takes one.
pub const SLOTS: u8 = 2;

/// Where a head stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The segment of its last partial; its `next` if it has none.
    pub segment: u8,
    /// The slot behind that partial.
    pub slot: u8,
    /// The segment it goes to when this one is full.
    pub next: u8,
}

impl Place {
    /// A head that has been given a segment, and has written nothing.
    pub fn unopened(next: u8) -> Self {
        Place {
            segment: next,
            slot: SLOTS,
            next,
        }
    }

    /// Where its next partial stands, and whether that enters a segment.
    pub fn successor(self) -> (u8, u8, bool) {
        match self.slot < SLOTS {
            true => (self.segment, self.slot, false),
            false => (self.next, 0, true),
        }
    }
}

/// A summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// One more than its predecessor's.
    pub serial: u8,
    /// [`Header::sum`] of its predecessor.
    pub predecessor: u32,
    /// The mount that wrote it.
    pub life: u8,
    /// The head it belongs to.
    pub head: u8,
    /// The segment that head goes to next.
    pub next: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Its payload, which stands for the payload's checksum.
    pub value: u8,
    /// Whether its group begins and ends here.
    pub first: bool,
    /// See `first`.
    pub last: bool,
}

impl Header {
    /// A checksum.
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

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its first sector.
    pub header: Option<Header>,
    /// The rest; 0 is nothing.
    pub payload: u8,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Its number.
    pub number: u8,
    /// Serial, checksum and life of the last partial before the boundary.
    pub chain: (u8, u32, u8),
    /// The heads at that boundary.
    pub heads: Vec<Place>,
    /// The state at that boundary.
    pub image: Vec<u8>,
    /// Last serial known to be flushed.
    pub through: u8,
    /// Serial of the last partial in each segment, as the writer knew it.
    pub written: [u8; SEGMENTS as usize],
    /// Serial of the boundary before this one.
    pub before: u8,
}

/// A write that has not been flushed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A partial at this segment and slot.
    Partial(u8, u8, Header),
    /// The header of this slot is cleared.
    Clear(u8, u8),
    /// A checkpoint record.
    Record(Record),
}

impl Write {
    /// In how many ways it may survive: not, whole, and torn.
    pub fn fates(&self) -> usize {
        match self {
            Write::Partial(..) => 4,
            Write::Clear(..) | Write::Record(_) => 2,
        }
    }
}

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Medium {
    slots: [Slot; SEGMENTS as usize * SLOTS as usize],
    /// Record `n` in place `n % 2`.
    pub records: [Option<Record>; 2],
    /// In the order in which they were made.
    pub pending: Vec<Write>,
}

impl Medium {
    fn index(segment: u8, slot: u8) -> usize {
        usize::from(segment) * usize::from(SLOTS) + usize::from(slot)
    }

    /// What is read at a slot once everything has been flushed.
    pub fn slot(&self, segment: u8, slot: u8) -> Slot {
        self.slots[Self::index(segment, slot)]
    }

    /// Damages a slot.
    pub fn erase(&mut self, segment: u8, slot: u8) {
        self.slots[Self::index(segment, slot)] = Slot::default();
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
