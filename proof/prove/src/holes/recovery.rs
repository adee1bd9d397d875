//! Recovery of the model, from either record.

use super::log::{Log, Missing};
use super::medium::{Header, Medium, Payload, Record, SEGMENTS, SLOTS};
use crate::abstract_log::is_contradicted;
use crate::abstract_log::medium::Address;

/// Result of a recovery.
pub struct Recovered {
    /// The log, before the mount has changed anything.
    pub log: Log,
    /// True if acknowledged data is lost.
    pub damage: bool,
    /// A header to clear.
    pub leftover: Option<Address>,
}

/// Returns true if the block and map that a header describes are stored at their places.
fn is_whole(medium: &Medium, at: Address, header: &Header, missing: Option<Missing>) -> bool {
    let value = Payload::Value(header.block.1);
    let Some(plug) = &header.plug else {
        return medium.stored.slot(at).payload == value;
    };
    let holds = |at, payload: &Payload| medium.stored.slot(at).payload == *payload;
    let mapped = plug.map.as_ref().is_none_or(|map| {
        let at = (plug.at.0, plug.map_slot);
        holds(at, &Payload::Map(map.clone()))
    });
    missing == Some(Missing::WholeEverywhere) || mapped && holds(plug.at, &value)
}

/// Recovers from a record of the ring.
pub fn recover(medium: &Medium, record: &Record, missing: Option<Missing>) -> Recovered {
    let other = medium.stored.records.iter().flatten();
    let older = other.filter(|other| other.number < record.number);
    let retained = (record.chain.0, record.image);
    let mut log = Log {
        chain: record.chain,
        head: record.head,
        life: 0,
        through: 0,
        image: record.image,
        written: record.written,
        opened: record.opened,
        number: record.number,
        retained: [
            older
                .max_by_key(|r| r.number)
                .map_or(retained, |r| (r.chain.0, r.image)),
            retained,
        ],
        maps: [None; SEGMENTS as usize],
        begun: None,
    };
    let mut group: Vec<(Address, Header)> = Vec::new();
    loop {
        let (segment, slot, _) = log.head.successor();
        let at = (segment, slot);
        let Some(header) = medium.stored.slot(at).header.clone() else {
            break;
        };
        if !log.follows(&header) || !is_whole(medium, at, &header, missing) {
            break;
        }
        log.advance(at, &header, missing);
        if header.first {
            group.clear();
        }
        let last = header.last;
        if header.first || !group.is_empty() {
            group.push((at, header));
        }
        if last {
            for (at, header) in group.drain(..) {
                log.image[usize::from(header.block.0)] = Some(Log::pointer(at, &header));
                if let Some(plug) = &header.plug {
                    log.plugged(plug, header.serial);
                }
            }
        }
    }
    let (segment, slot, _) = log.head.successor();
    let torn = medium.stored.slot((segment, slot)).header.as_ref();
    let leftover = torn
        .filter(|header| log.follows(header))
        .map(|_| (segment, slot));
    let damage = is_damaged(medium, &log);
    log.through = log.chain.0;
    Recovered {
        log,
        damage,
        leftover,
    }
}

fn is_damaged(medium: &Medium, log: &Log) -> bool {
    let last = log.chain.0;
    let records = medium.stored.records.iter().flatten();
    if records.into_iter().any(|record| record.through > last) {
        return true;
    }
    let (segment, slot, _) = log.head.successor();
    let places = vec![(segment, slot), (log.head.next, 0)];
    is_contradicted((last, log.chain.2), places, SLOTS, |at| {
        let header = medium.stored.slot(at).header.as_ref();
        header.map(Header::testimony)
    })
}
