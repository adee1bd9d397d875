//! The writer and recovery of the model; each rule is a line that can be left out.

use super::medium::{Header, Medium, Place, Record, SEGMENTS, SLOTS, Stored, Write};
use crate::abstract_log::is_contradicted;
use std::collections::BTreeSet;

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// H1: a partial may enter its head's next segment before the last is full.
    PlaceFollows,
    /// H2: recovery accepts a head's next partial whatever precedes it in other heads.
    OneChain,
    /// H3: the record has the first head's position at the boundary, and the others' at
    /// the time of its write.
    PlacesAtBoundary,
    /// H4: a new head is used when one record names it.
    OpenedWhenAllName,
    /// H4: the segment that a closed head named is reusable when one record omits it.
    ClosedWhenNoneNames,
    /// H4: after a crash between the two records, a mount uses the heads of the newest
    /// without confirmation.
    ConfirmedAtMount,
    /// H5: a head's segments are reusable when both checkpoints cover their content.
    HeldWhileIdle,
    /// H6: the search for proof of damage starts only at the first head.
    SearchEverywhere,
    /// H7: a torn partial is cleared only at the position of the last partial's head.
    ClearEverywhere,
}

impl Missing {
    /// All rules.
    pub const ALL: [Missing; 9] = [
        Missing::PlaceFollows,
        Missing::OneChain,
        Missing::PlacesAtBoundary,
        Missing::OpenedWhenAllName,
        Missing::ClosedWhenNoneNames,
        Missing::ConfirmedAtMount,
        Missing::HeldWhileIdle,
        Missing::SearchEverywhere,
        Missing::ClearEverywhere,
    ];
}

/// The state of the log in a mount.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    /// Serial, checksum and life of the last partial.
    pub chain: (u8, u32, u8),
    /// Head of the last partial.
    pub last_head: u8,
    /// Positions of the heads.
    pub heads: Vec<Place>,
    /// Number of this mount.
    pub life: u8,
    /// Last serial known to be flushed.
    pub through: u8,
    /// All values of complete groups.
    pub state: Vec<u8>,
    /// Serial of the last partial in each segment.
    pub written: [u8; SEGMENTS as usize],
    /// Number of the newest durable record.
    pub number: u8,
    /// Serials at the boundaries of the two retained records.
    pub boundaries: [u8; 2],
    /// Segments named by closed heads, until no record names them.
    pub withheld: Vec<u8>,
    /// Record of a running checkpoint.
    pub begun: Option<Box<Record>>,
}

/// Result of a recovery.
pub struct Recovered {
    /// The log, before the mount has changed anything.
    pub log: Log,
    /// True if acknowledged data is lost.
    pub damage: bool,
    /// Headers to clear.
    pub leftovers: Vec<(u8, u8)>,
}

impl Log {
    /// Returns an empty volume with one head, and its medium.
    pub fn format() -> (Log, Medium) {
        let log = Log {
            chain: (0, 0, 0),
            last_head: 0,
            heads: vec![Place::unopened(0)],
            life: 1,
            through: 0,
            state: Vec::new(),
            written: [0; SEGMENTS as usize],
            number: 1,
            boundaries: [0, 0],
            withheld: Vec::new(),
            begun: None,
        };
        let mut medium = Medium::new(Stored::default());
        medium.stored.records[1] = Some(log.record(1));
        (log, medium)
    }

    fn record(&self, number: u8) -> Record {
        Record {
            number,
            chain: self.chain,
            heads: self.heads.clone(),
            image: self.state.clone(),
            through: self.through,
            written: self.written,
            before: self.boundaries[1],
        }
    }

    /// Returns the next segment behind `after` to which nothing refers.
    fn take(&self, after: u8, missing: Option<Missing>) -> Option<u8> {
        let named = |segment: u8| {
            self.withheld.contains(&segment)
                || self.heads.iter().any(|place| {
                    let idle = missing == Some(Missing::HeldWhileIdle) && place.slot < SLOTS;
                    place.next == segment || place.segment == segment && !idle
                })
        };
        let begun = self.begun.as_ref().map_or(u8::MAX, |record| record.chain.0);
        let covered = self.boundaries[0].min(begun);
        let reusable = |segment: &u8| self.written[usize::from(*segment)] <= covered;
        let around = (0..SEGMENTS).map(|step| (after + step) % SEGMENTS);
        around.filter(reusable).find(|segment| !named(*segment))
    }

    /// Appends one partial. Returns false if there is no segment to name.
    fn append_one(
        &mut self,
        medium: &mut Medium,
        (head, value): (u8, u8),
        (first, last): (bool, bool),
        missing: Option<Missing>,
    ) -> bool {
        let mut place = self.heads[usize::from(head)];
        if missing == Some(Missing::PlaceFollows) && value == 2 {
            place.slot = SLOTS;
        }
        let (segment, slot, enters) = place.successor();
        let next = match enters {
            false => place.next,
            true => {
                let entered = Place::unopened(segment);
                self.heads[usize::from(head)] = entered;
                match self.take(segment + 1, missing) {
                    Some(next) => next,
                    None => {
                        self.heads[usize::from(head)] = place;
                        return false;
                    }
                }
            }
        };
        let header = Header {
            serial: self.chain.0 + 1,
            predecessor: self.chain.1,
            life: self.life,
            head,
            next,
            through: self.through,
            value,
            first,
            last,
        };
        medium.pending.push(Write::Partial(segment, slot, header));
        self.advance(segment, slot, &header);
        true
    }

    fn advance(&mut self, segment: u8, slot: u8, header: &Header) {
        self.heads[usize::from(header.head)] = Place {
            segment,
            slot: slot + 1,
            next: header.next,
        };
        self.chain = (header.serial, header.sum(), header.life);
        self.last_head = header.head;
        self.written[usize::from(segment)] = header.serial;
    }

    /// Appends a group: a value for each of these heads.
    pub fn append(
        &mut self,
        medium: &mut Medium,
        parts: &[(u8, u8)],
        rule: Option<Missing>,
    ) -> bool {
        let (log, before) = (self.clone(), medium.clone());
        for (nth, part) in parts.iter().enumerate() {
            let ends = (nth == 0, nth + 1 == parts.len());
            if !self.append_one(medium, *part, ends, rule) {
                (*self, *medium) = (log, before);
                return false;
            }
        }
        self.state.extend(parts.iter().map(|(_, value)| value));
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
    pub fn write_record(&mut self, medium: &mut Medium, missing: Option<Missing>) {
        self.flush(medium);
        let mut record = self.begun.take().expect("a checkpoint has begun");
        record.through = self.through;
        if missing == Some(Missing::PlacesAtBoundary) {
            record.heads[1..].copy_from_slice(&self.heads[1..]);
        }
        self.begun = Some(record.clone());
        medium.pending.push(Write::Record(*record));
    }

    /// Flushes the record.
    pub fn end(&mut self, medium: &mut Medium) {
        self.flush(medium);
        let record = self.begun.take().expect("a record was written");
        self.number = record.number;
        self.boundaries = [self.boundaries[1], record.chain.0];
    }

    /// Changes the heads in memory only; records must follow.
    pub fn resize(&mut self, heads: usize, missing: Option<Missing>) -> bool {
        while self.heads.len() < heads {
            match self.take(0, missing) {
                Some(next) => self.heads.push(Place::unopened(next)),
                None => return false,
            }
        }
        let closed = self.heads.split_off(heads.min(self.heads.len()));
        self.withheld.extend(closed.iter().map(|place| place.next));
        true
    }

    /// Returns the number of records in the ring that must name the heads before they are
    /// used.
    pub fn records_for(&self, before: usize, missing: Option<Missing>) -> u8 {
        match missing {
            Some(Missing::OpenedWhenAllName) if self.heads.len() > before => 1,
            Some(Missing::ClosedWhenNoneNames) if self.heads.len() < before => 1,
            _ => 2,
        }
    }

    /// Returns the number of records that must be written after recovery before the heads
    /// are used, because an older record names others. The segments that it names are
    /// withheld.
    pub fn heads_to_confirm(&mut self, medium: &Medium, missing: Option<Missing>) -> u8 {
        let named = |record: &Record| record.heads.len();
        let mut others = medium.stored.records.iter().flatten();
        let Some(other) = others.find(|record| named(record) != self.heads.len()) else {
            return 0;
        };
        if missing == Some(Missing::ConfirmedAtMount) {
            return 0;
        }
        let closed = other.heads.iter().skip(self.heads.len());
        self.withheld.extend(closed.map(|place| place.next));
        1
    }

    /// Returns true if no two heads share a segment.
    pub fn is_sound(&self) -> bool {
        let mut used = BTreeSet::new();
        self.heads.iter().all(|place| {
            let named = used.insert(place.next);
            named && (place.segment == place.next || used.insert(place.segment))
        })
    }

    fn follows(&self, head: usize, header: &Header, missing: Option<Missing>) -> bool {
        let place = self.heads[head];
        let (segment, _, enters) = place.successor();
        let linked = match missing {
            Some(Missing::OneChain) => header.serial > self.chain.0,
            _ => header.serial == self.chain.0 + 1 && header.predecessor == self.chain.1,
        };
        linked
            && usize::from(header.head) == head
            && header.life >= self.chain.2
            && (enters || header.next == place.next)
            && header.next != segment
    }
}

/// Recovers from a record of the ring.
pub fn recover(medium: &Medium, record: &Record, missing: Option<Missing>) -> Recovered {
    let mut log = Log {
        chain: record.chain,
        last_head: 0,
        heads: record.heads.clone(),
        life: 0,
        through: 0,
        state: record.image.clone(),
        written: record.written,
        number: record.number,
        boundaries: [record.before, record.chain.0],
        withheld: Vec::new(),
        begun: None,
    };
    let mut group = Vec::new();
    loop {
        let places = (0..log.heads.len()).map(|head| (head, log.heads[head].successor()));
        let following = places.filter_map(|(head, (segment, slot, _))| {
            let stored = medium.stored.slot(segment, slot);
            let header = stored.header?;
            let whole = stored.payload == header.value;
            let counts = whole && log.follows(head, &header, missing);
            counts.then_some((segment, slot, header))
        });
        let next = match missing {
            Some(Missing::OneChain) => following.min_by_key(|(_, _, header)| header.serial),
            _ => following.max_by_key(|(_, _, header)| header.life),
        };
        let Some((segment, slot, header)) = next else {
            break;
        };
        log.advance(segment, slot, &header);
        if header.first {
            group.clear();
        }
        if header.first || !group.is_empty() {
            group.push(header.value);
        }
        if header.last {
            log.state.append(&mut group);
        }
    }
    let damage = is_damaged(medium, &log, missing);
    let leftovers = leftovers(medium, &log, missing);
    log.through = log.chain.0;
    Recovered {
        log,
        damage,
        leftovers,
    }
}

fn is_damaged(medium: &Medium, log: &Log, missing: Option<Missing>) -> bool {
    let last = log.chain.0;
    let records = medium.stored.records.iter().flatten();
    if records.into_iter().any(|record| record.through > last) {
        return true;
    }
    let everywhere = missing != Some(Missing::SearchEverywhere);
    let mut places = Vec::new();
    for place in log.heads.iter().take(if everywhere { 9 } else { 1 }) {
        let (segment, slot, enters) = place.successor();
        places.push((segment, slot));
        if !enters {
            places.push((place.next, 0));
        }
    }
    is_contradicted((last, log.chain.2), places, SLOTS, |(segment, slot)| {
        let header = medium.stored.slot(segment, slot).header;
        header.map(|header| header.testimony())
    })
}

fn leftovers(medium: &Medium, log: &Log, missing: Option<Missing>) -> Vec<(u8, u8)> {
    let heads = match missing {
        Some(Missing::ClearEverywhere) => {
            let last = usize::from(log.last_head);
            last..last + 1
        }
        _ => 0..log.heads.len(),
    };
    let torn = |head: usize| {
        let (segment, slot, _) = log.heads[head].successor();
        let header = medium.stored.slot(segment, slot).header?;
        log.follows(head, &header, None).then_some((segment, slot))
    };
    heads.filter_map(torn).collect()
}
