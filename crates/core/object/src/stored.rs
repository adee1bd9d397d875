//! Where the bytes of the volume are stored, as of a log object.
//!
//! Invariants:
//! - `objects[id].live` = sum of the lengths of the places in `id`, and is not 0.
//! - An object is in `objects`, in `deaths`, or in neither, but not in both. Which one
//!   follows from the log alone, so every writer that replays it has the same lists.

use crate::format::{Death, MapId, MapObject, ObjectEntry, ObjectId};
use crate::ranges::{Part, Ranges};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The place of a range: an object, and the first byte there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub object: ObjectId,
    pub at: u64,
}

impl Part for Place {
    fn without_first(&self, bytes: u64) -> Self {
        Place {
            at: self.at + bytes,
            ..*self
        }
    }
}

/// An object that has bytes of the volume.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub bytes: u64,
    pub live: u64,
    /// The CRC-32C of each MiB.
    pub sums: Arc<[u32]>,
}

/// The log object with which something happens, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub number: u64,
    pub time: i64,
}

/// Places of all bytes that are stored, and the objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    pub places: Ranges<Place>,
    pub objects: BTreeMap<ObjectId, Object>,
    pub deaths: Vec<Death>,
}

impl Stored {
    /// True if an object is listed, alive or dead.
    pub fn knows(&self, id: ObjectId) -> bool {
        self.objects.contains_key(&id) || self.deaths.iter().any(|death| death.id == id)
    }

    /// Stores ranges in a new object: their starts and lengths, one after the other.
    pub fn add(&mut self, id: ObjectId, ranges: &[(u64, u64)], sums: Arc<[u32]>, now: Moment) {
        let bytes = ranges.iter().map(|(_, length)| length).sum();
        let object = Object {
            bytes,
            live: bytes,
            sums,
        };
        self.objects.insert(id, object);
        let mut at = 0;
        for &(start, length) in ranges {
            let replaced = self.places.insert(start, length, Place { object: id, at });
            self.release(&replaced, now);
            at += length;
        }
    }

    /// Removes a range: its bytes are newer elsewhere, or have no value any more.
    pub fn remove(&mut self, start: u64, length: u64, now: Moment) {
        let replaced = self.places.remove(start, length);
        self.release(&replaced, now);
    }

    fn release(&mut self, replaced: &[(u64, u64, Place)], now: Moment) {
        for (_, length, place) in replaced {
            let object = self.objects.get_mut(&place.object);
            let object = object.expect("an object of a place is listed");
            object.live -= length;
            if object.live == 0 {
                self.objects.remove(&place.object);
                self.deaths.push(Death {
                    id: place.object,
                    number: now.number,
                    time: now.time,
                });
            }
        }
    }

    /// Notes that a map is named since `now`. What it replaced by copies was needed until
    /// then.
    pub fn named(&mut self, map: MapId, now: i64) {
        let replaced = self.deaths.iter_mut();
        for death in replaced.filter(|death| death.number == map.number) {
            death.time = death.time.max(now);
        }
    }

    /// The map object of this state.
    pub fn map(&self, id: MapId, size: u64, previous: u32, fences: Vec<u64>) -> MapObject {
        let mut index = BTreeMap::new();
        let objects = self.objects.iter().enumerate().map(|(at, (id, object))| {
            index.insert(*id, at as u32);
            ObjectEntry {
                id: *id,
                bytes: object.bytes,
                sums: object.sums.to_vec(),
            }
        });
        let objects = objects.collect();
        let places = self.places.iter();
        let places =
            places.map(|(start, length, place)| (start, length, index[&place.object], place.at));
        MapObject {
            id,
            size,
            previous,
            objects,
            places: places.collect(),
            deaths: self.deaths.clone(),
            fences,
        }
    }

    /// The state that a map describes. Objects without places are left out.
    pub fn of(map: &MapObject) -> Self {
        let mut stored = Stored {
            deaths: map.deaths.clone(),
            ..Stored::default()
        };
        for (start, length, index, at) in &map.places {
            let entry = &map.objects[*index as usize];
            let object = stored.objects.entry(entry.id).or_insert_with(|| Object {
                bytes: entry.bytes,
                live: 0,
                sums: entry.sums.clone().into(),
            });
            object.live += length;
            let place = Place {
                object: entry.id,
                at: *at,
            };
            stored.places.insert(*start, *length, place);
        }
        stored
    }
}
