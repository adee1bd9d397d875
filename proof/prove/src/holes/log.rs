//! The writer of the model; each rule is a line that can be left out.

use super::medium::{
    Header, Image, Map, Medium, NAMES, Payload, Place, Plug, Pointer, Record, SEGMENTS, SLOTS,
    Stored, Write,
};
use crate::abstract_log::medium::Address;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// P1: a block that only the older record references counts as dead.
    DeadInOlder,
    /// P2: a segment is plugged although a record's replay reads earlier writes to it.
    Settled,
    /// P2: a plug whose group was dropped does not count as written.
    DroppedCounts,
    /// P3: a partial is accepted although its blocks in holes are incomplete.
    WholeEverywhere,
    /// P4: no map describes the plugged blocks.
    Mapped,
    /// P4: the map describes the new blocks only.
    MapIsComplete,
    /// P5: the newest map counts as a hole.
    MapStays,
    /// P5: maps that a mount finds count as holes.
    FoundMapsStay,
    /// P6: the segment in which the log continues is plugged.
    NotOpen,
    /// P7: a torn plug at the position where the log continues is not cleared.
    ClearTorn,
}

impl Missing {
    /// All rules.
    pub const ALL: [Missing; 10] = [
        Missing::DeadInOlder,
        Missing::Settled,
        Missing::DroppedCounts,
        Missing::WholeEverywhere,
        Missing::Mapped,
        Missing::MapIsComplete,
        Missing::MapStays,
        Missing::FoundMapsStay,
        Missing::NotOpen,
        Missing::ClearTorn,
    ];
}

/// One block of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Name of the block.
    pub name: u8,
    /// Content of the block.
    pub value: u8,
    /// True if it is written into a hole.
    pub plugs: bool,
}

/// The state of the log in a mount.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// Serial, checksum and life of the last partial.
    pub chain: (u8, u64, u8),
    /// Position at which the log continues.
    pub head: Place,
    /// Number of this mount.
    pub life: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// The block of every name.
    pub image: Image,
    /// For each segment: serial of the last partial that wrote to it, and its opening.
    pub written: [(u8, u8); SEGMENTS as usize],
    /// Number of segments opened.
    pub opened: u8,
    /// Number of the newest durable record.
    pub number: u8,
    /// The two retained records: boundary and image, the older one first.
    pub retained: [(u8, Image); 2],
    /// Slot of the map that this mount has last written to each segment.
    pub maps: [Option<u8>; SEGMENTS as usize],
    /// Record of a running checkpoint.
    pub begun: Option<Box<Record>>,
}

fn leads_to(image: &Image, at: Address) -> bool {
    image.iter().flatten().any(|pointer| pointer.at == at)
}

fn lives_in(image: &Image, segment: u8) -> bool {
    image
        .iter()
        .flatten()
        .any(|pointer| pointer.at.0 == segment)
}

impl Log {
    /// Returns an empty volume and its medium.
    pub fn format() -> (Log, Medium) {
        let mut log = Log {
            chain: (0, 0, 0),
            head: Place {
                segment: 0,
                slot: 0,
                next: 1,
            },
            life: 1,
            through: 0,
            image: [None; NAMES],
            written: [(0, 0); SEGMENTS as usize],
            opened: 1,
            number: 1,
            retained: [(0, [None; NAMES]); 2],
            maps: [None; SEGMENTS as usize],
            begun: None,
        };
        log.written[0].1 = 1;
        let mut medium = Medium::new(Stored::default());
        medium.stored.records[1] = Some(log.record(1));
        (log, medium)
    }

    fn record(&self, number: u8) -> Record {
        Record {
            number,
            chain: self.chain,
            head: self.head,
            image: self.image,
            through: self.through,
            written: self.written,
            opened: self.opened,
        }
    }

    fn is_open(&self, segment: u8) -> bool {
        self.head.segment == segment || self.head.next == segment
    }

    /// Returns the next segment behind `after` to which nothing refers.
    fn take(&self, after: u8) -> Option<u8> {
        let begun = self.begun.as_ref().map_or(u8::MAX, |record| record.chain.0);
        let covered = self.retained[0].0.min(begun);
        let reusable = |segment: &u8| {
            let unused = |image: &Image| !lives_in(image, *segment);
            self.written[usize::from(*segment)].0 <= covered
                && unused(&self.image)
                && self.retained.iter().all(|(_, image)| unused(image))
        };
        let around = (0..SEGMENTS).map(|step| (after + step) % SEGMENTS);
        around.filter(reusable).find(|s| *s != self.head.segment)
    }

    /// Returns the holes of a segment, if it may be plugged.
    fn holes(&self, medium: &Medium, segment: u8, missing: Option<Missing>) -> Vec<u8> {
        let is = |rule| missing == Some(rule);
        let (serial, opening) = self.written[usize::from(segment)];
        let settled = serial <= self.retained[0].0 || is(Missing::Settled);
        let named = is(Missing::NotOpen) && segment == self.head.next;
        if !settled || !named && (self.is_open(segment) || !lives_in(&self.image, segment)) {
            return Vec::new();
        }
        let known = self.maps[usize::from(segment)];
        let kept = |slot: u8| match known {
            Some(map) => map == slot && !is(Missing::MapStays),
            None => {
                let mut found = medium.stored.maps(segment, opening);
                found.any(|(at, _)| at == slot) && !is(Missing::FoundMapsStay)
            }
        };
        let hole = |slot: &u8| {
            let at = (segment, *slot);
            !leads_to(&self.image, at)
                && (is(Missing::DeadInOlder) || !leads_to(&self.retained[0].1, at))
                && !leads_to(&self.retained[1].1, at)
                && !kept(*slot)
        };
        (0..SLOTS).filter(hole).collect()
    }

    /// Returns a hole for a block, with the map that is written with it.
    fn plug(
        &self,
        medium: &Medium,
        (name, birth): (u8, u8),
        missing: Option<Missing>,
    ) -> Option<Plug> {
        let order = match missing {
            Some(Missing::NotOpen) => [self.head.next, 0, 1, 2],
            _ => [0, 1, 2, 3],
        };
        order.into_iter().find_map(|segment| {
            let holes = self.holes(medium, segment, missing);
            let [map_slot, slot, ..] = holes[..] else {
                return None;
            };
            let mut blocks = vec![(slot, name, birth)];
            if missing != Some(Missing::MapIsComplete) {
                // The newest record's image includes the live blocks of the segment,
                // because nothing was written to it since.
                let newest = self.retained[1].1;
                let names = (0..).zip(newest).filter_map(|(name, p)| Some((name, p?)));
                let here = names.filter(|(_, pointer)| pointer.at.0 == segment);
                blocks.extend(here.map(|(name, p)| (p.at.1, name, p.birth)));
            }
            let opening = self.written[usize::from(segment)].1;
            let map = (missing != Some(Missing::Mapped)).then_some(Map { opening, blocks });
            Some(Plug {
                at: (segment, slot),
                map_slot,
                map,
            })
        })
    }

    /// Appends one partial. Returns false if there is no space.
    fn append_one(
        &mut self,
        medium: &mut Medium,
        part: Part,
        (first, last): (bool, bool),
        missing: Option<Missing>,
    ) -> bool {
        let (segment, slot, enters) = self.head.successor();
        let serial = self.chain.0 + 1;
        let mut plug = None;
        if part.plugs {
            plug = self.plug(medium, (part.name, serial), missing);
            if plug.is_none() {
                return false;
            }
        }
        let mut next = self.head.next;
        if enters {
            let entered = Place {
                segment,
                slot: 0,
                next: segment,
            };
            let before = std::mem::replace(&mut self.head, entered);
            let Some(taken) = self.take(segment + 1) else {
                self.head = before;
                return false;
            };
            next = taken;
        }
        let opening = match enters {
            true => self.opened + 1,
            false => self.written[usize::from(segment)].1,
        };
        let header = Header {
            serial,
            predecessor: self.chain.1,
            life: self.life,
            next,
            opening,
            through: self.through,
            block: (part.name, part.value),
            plug,
            first,
            last,
        };
        self.advance((segment, slot), &header, missing);
        if let Some(plug) = &header.plug {
            self.maps[usize::from(plug.at.0)] = Some(plug.map_slot);
            let block = Payload::Value(part.value);
            medium.pending.push(Write::Hole(plug.at, block));
            if let Some(map) = &plug.map {
                let at = (plug.at.0, plug.map_slot);
                let map = Payload::Map(map.clone());
                medium.pending.push(Write::Hole(at, map));
            }
        }
        medium.pending.push(Write::Partial((segment, slot), header));
        true
    }

    pub(super) fn advance(
        &mut self,
        (segment, slot): Address,
        header: &Header,
        missing: Option<Missing>,
    ) {
        self.head = Place {
            segment,
            slot: slot + 1,
            next: header.next,
        };
        self.chain = (header.serial, header.sum(), header.life);
        self.opened = self.opened.max(header.opening);
        let written = &mut self.written[usize::from(segment)];
        if written.1 != header.opening {
            self.maps[usize::from(segment)] = None;
        }
        *written = (header.serial, header.opening);
        if let Some(plug) = &header.plug
            && missing != Some(Missing::DroppedCounts)
        {
            self.plugged(plug, header.serial);
        }
    }

    pub(super) fn plugged(&mut self, plug: &Plug, serial: u8) {
        self.written[usize::from(plug.at.0)].0 = serial;
    }

    /// Returns the pointer to the block of a partial at this place.
    pub(super) fn pointer(at: Address, header: &Header) -> Pointer {
        Pointer {
            at: header.plug.as_ref().map_or(at, |plug| plug.at),
            birth: header.serial,
            value: header.block.1,
        }
    }

    /// Appends a group of these blocks.
    pub fn append(
        &mut self,
        medium: &mut Medium,
        parts: &[Part],
        missing: Option<Missing>,
    ) -> bool {
        let (log, before) = (self.clone(), medium.pending.len());
        for (nth, part) in parts.iter().enumerate() {
            let ends = (nth == 0, nth + 1 == parts.len());
            if !self.append_one(medium, *part, ends, missing) {
                *self = log;
                medium.pending.truncate(before);
                return false;
            }
        }
        let partials = medium.pending[before..].iter();
        for write in partials {
            if let Write::Partial(at, header) = write {
                self.image[usize::from(header.block.0)] = Some(Self::pointer(*at, header));
                if let Some(plug) = &header.plug {
                    // The writer knows its own writes, whichever rule is left out.
                    self.written[usize::from(plug.at.0)].0 = header.serial;
                }
            }
        }
        true
    }

    /// Completes a flush.
    pub fn flush(&mut self, medium: &mut Medium) {
        medium.flush();
        self.through = self.chain.0;
    }

    /// Begins a checkpoint at the present boundary.
    pub fn begin(&mut self, medium: &mut Medium) {
        self.flush(medium);
        self.begun = Some(Box::new(self.record(self.number + 1)));
    }

    /// Writes its record after a flush; another flush must follow.
    pub fn write_record(&mut self, medium: &mut Medium) {
        self.flush(medium);
        let mut record = self.begun.take().expect("a checkpoint has begun");
        record.through = self.through;
        self.begun = Some(record.clone());
        medium.pending.push(Write::Record(*record));
    }

    /// Flushes the record.
    pub fn end(&mut self, medium: &mut Medium) {
        self.flush(medium);
        let record = self.begun.take().expect("a record was written");
        self.number = record.number;
        self.retained = [self.retained[1], (record.chain.0, record.image)];
    }

    pub(super) fn follows(&self, header: &Header) -> bool {
        let (segment, _, enters) = self.head.successor();
        let opening = self.written[usize::from(segment)].1;
        header.serial == self.chain.0 + 1
            && header.predecessor == self.chain.1
            && header.life >= self.chain.2
            && (enters || header.next == self.head.next && header.opening == opening)
            && header.next != segment
    }
}
