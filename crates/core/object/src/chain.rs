//! The log of a writer: flushes, maps, and deletions.
//!
//! Invariants, for the log objects 1 to *n* that were acknowledged:
//! - The state after *n* = the state of the named map, then log objects up to *n*.
//! - An object is deleted only if it died with a log object *k* <= *n*, both maps that
//!   are kept are as of *k* or later, and the grace has passed. A writer that was fenced
//!   without noticing therefore deletes only what its successor has also seen die.
//! - A map is deleted before any log object behind it, and log objects in ascending
//!   order, so that a log object that is missing without its map being missing is damage.
//! - A fence is not deleted if the writer before it did not close the volume: it may
//!   still come for its number.

use crate::error::{Error, Result};
use crate::format::{
    Content, LogObject, MapId, ObjectId, PART, Stored as StoredRange, data_name, log_name,
    map_name, parse_data_name, parse_log_name, parse_map_name, prefix,
};
use crate::layers::{Layers, Piece};
use crate::parallel::in_parallel;
use crate::planted::Planted;
use crate::request::Created;
use crate::stored::Moment;
use crate::volume::Volume;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use varve_device::crc32c;
use varve_device::sync::Mutex;

/// The end of the log, for its writer.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The newest log object, and its checksum.
    pub number: u64,
    pub previous: u32,
    pub epoch: u64,
    pub identity: u128,
    /// The epoch in the names of objects, and the number of objects it has.
    pub name_epoch: u64,
    pub serial: u64,
    /// Maps that may exist, oldest first. Each log object names them.
    pub maps: VecDeque<MapId>,
    /// Number of them that log objects name: all, or all but the last.
    pub named: usize,
    /// Log objects, and their bytes, behind the newest map.
    pub behind: u64,
    pub behind_bytes: u64,
    /// Fences that are kept.
    pub fences: BTreeSet<u64>,
    /// Log objects from this one on may exist.
    pub oldest: u64,
    /// True once what other epochs left behind has been looked for.
    pub swept: bool,
    /// Why nothing can be written any more.
    pub stopped: Option<String>,
}

/// The CRC-32C of each MiB.
pub(crate) fn sums_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(PART as usize).map(crc32c).collect()
}

impl Chain {
    fn next_id(&mut self) -> ObjectId {
        self.serial += 1;
        ObjectId {
            epoch: self.name_epoch,
            serial: self.serial,
        }
    }
}

impl Volume {
    /// Makes all that was written before durable: one create-only PUT of a log object.
    pub(crate) fn flush_chain(&self, chain: &Mutex<Chain>, wanted: u64) -> Result<()> {
        let mut chain = chain.lock();
        if let Some(reason) = &chain.stopped {
            return Err(Error::Stopped(reason.clone()));
        }
        if self.layers().durable >= wanted {
            return Ok(()); // a flush that waited for the same lock included it
        }
        if self.settings().planted(Planted::DeletesUnacknowledged) {
            self.delete_overwritten()?;
        }
        if let Err(error) = self.append(&mut chain, None) {
            // The state of the log is unknown to this writer.
            chain.stopped = Some(error.to_string());
            return Err(error);
        }
        // The flush is durable, also if a later step fails.
        if let Err(error) = self.tidy(&mut chain) {
            let reason = self.successor(&chain).unwrap_or(error);
            tracing::error!(%reason, "the volume takes no more writes");
            chain.stopped = Some(reason.to_string());
        }
        Ok(())
    }

    /// The error of a writer that has been fenced, if it has.
    fn successor(&self, chain: &Chain) -> Option<Error> {
        let name = log_name(self.volume(), chain.number + 1);
        let found = self.requester().get(&name).ok()??;
        Some(self.fenced(&name, &found))
    }

    /// Appends a log object: a flush, or with `content` another one.
    pub(crate) fn append(&self, chain: &mut Chain, content: Option<Content>) -> Result<()> {
        let upto = self.layers().freeze();
        let flush = self.flush_content(chain)?;
        let object = LogObject {
            number: chain.number + 1,
            epoch: chain.epoch,
            identity: chain.identity,
            previous: chain.previous,
            time: self.clock().now_ns(),
            size: self.wanted_size(),
            maps: chain.maps.iter().copied().collect(),
            holder: self.settings().holder.clone(),
            content: content.unwrap_or(flush),
        };
        let bytes = object.encode();
        let name = log_name(self.volume(), object.number);
        if let Created::Other(found) = self.requester().create(&name, &bytes)? {
            return Err(self.fenced(&name, &found));
        }
        chain.number = object.number;
        chain.previous = checksum_of(&bytes);
        chain.behind += 1;
        chain.behind_bytes += bytes.len() as u64;
        let is_new_map = chain.named < chain.maps.len();
        chain.named = chain.maps.len();
        let mut layers = self.layers();
        let now = self.clock().now_ns();
        if is_new_map {
            layers.stored.named(object.map(), now);
        }
        layers.apply(&object, now);
        layers.flying = crate::ranges::Ranges::default();
        layers.durable = upto;
        Ok(())
    }

    /// The error of a writer whose number another one has.
    fn fenced(&self, name: &str, found: &[u8]) -> Error {
        match LogObject::decode(found) {
            Ok(other) => Error::Fenced {
                store: self.requester().name(),
                holder: other.holder,
            },
            Err(flaw) => Error::Damaged {
                store: self.requester().name(),
                object: name.to_owned(),
                flaw,
            },
        }
    }

    /// The content of a flush of what flies. Whole extents are stored as objects of their
    /// own, so that their bytes are sent once.
    fn flush_content(&self, chain: &mut Chain) -> Result<Content> {
        let extent = self.extent_bytes();
        // The bytes are shared with the layer, so that reads need not wait for copies.
        let flying = self.layers().flying.clone();
        let (mut written, mut discarded, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = 0;
        let mut covered = 0; // bytes of the extent from `at` on that were written
        let mut pieces = Vec::new();
        let mut end_extent = |at: u64, covered: u64, pieces: &mut Vec<_>| {
            let pieces = std::mem::take(pieces);
            match covered == extent {
                true => whole.push((at, pieces)),
                false => written.extend(pieces),
            }
        };
        for (start, length, piece) in flying.iter() {
            let Piece::Bytes(data, from) = piece else {
                discarded.push((start, length));
                continue;
            };
            // Pieces are cut at the boundaries of extents.
            let (mut start, mut from, mut left) = (start, *from, length);
            while left > 0 {
                if start - start % extent != at {
                    end_extent(at, covered, &mut pieces);
                    (at, covered) = (start - start % extent, 0);
                }
                let here = left.min(at + extent - start);
                pieces.push((start, part_of(data, from, here as usize)));
                covered += here;
                (start, from, left) = (start + here, from + here as usize, left - here);
            }
        }
        end_extent(at, covered, &mut pieces);
        let mut stored = Vec::new();
        let mut uploads = Vec::new();
        for (start, pieces) in whole {
            let id = chain.next_id();
            let mut bytes = Vec::with_capacity(extent as usize);
            pieces
                .iter()
                .for_each(|(_, part)| bytes.extend_from_slice(part));
            stored.push(StoredRange {
                start,
                id,
                bytes: extent,
                sums: sums_of(&bytes),
            });
            uploads.push((data_name(self.volume(), id), bytes));
        }
        in_parallel(self.settings().parallel, &uploads, |(name, bytes)| {
            Ok(self.requester().create_own(name, bytes)?)
        })?;
        Ok(Content::Flush {
            written,
            stored,
            discarded,
        })
    }

    /// Writes a map if much is behind the newest one, and deletes what nothing needs.
    fn tidy(&self, chain: &mut Chain) -> Result<()> {
        let settings = self.settings();
        if chain.behind >= settings.log_objects || chain.behind_bytes >= settings.log_bytes {
            self.seal(chain)?;
        } else if chain.named > 2 {
            self.collect(chain)?;
        }
        Ok(())
    }

    /// Stores bytes that only log objects have, and all live bytes of objects that are mostly
    /// dead, in objects of their own, and makes a map of it. The next log object names it.
    pub(crate) fn seal(&self, chain: &mut Chain) -> Result<()> {
        let mut moved = Vec::new();
        let mut all = Vec::new();
        let logged = self.layers().logged.clone();
        for (start, length, piece) in logged.iter() {
            if let Piece::Bytes(data, from) = piece {
                all.push((start, part_of(data, *from, length as usize)));
            }
        }
        {
            let layers = self.layers();
            let mut budget = self.settings().log_bytes;
            let sparse: BTreeSet<ObjectId> = layers
                .stored
                .objects
                .iter()
                .filter(|(_, object)| object.live * 2 < object.bytes)
                .take_while(|(_, object)| {
                    let fits = object.live <= budget;
                    budget = budget.saturating_sub(object.live);
                    fits
                })
                .map(|(id, _)| *id)
                .collect();
            if !sparse.is_empty() {
                let places = layers.stored.places.iter();
                moved.extend(
                    places
                        .filter(|(_, _, place)| sparse.contains(&place.object))
                        .map(|(start, length, place)| (start, length, *place)),
                );
            }
        }
        for (start, length, place) in moved {
            let mut data = vec![0; length as usize];
            self.read_place(place, &mut data)?;
            all.push((start, Arc::new(data)));
        }
        all.sort_unstable_by_key(|(start, _)| *start);
        let packs = self.packs(chain, all);
        in_parallel(self.settings().parallel, &packs, |pack| {
            Ok(self.requester().create_own(&pack.name, &pack.bytes)?)
        })?;
        let map = MapId {
            number: chain.number,
            id: chain.next_id(),
        };
        let object = {
            let mut layers = self.layers();
            let now = Moment {
                number: chain.number,
                time: self.clock().now_ns(),
            };
            for pack in &packs {
                let sums = sums_of(&pack.bytes).into();
                layers.stored.add(pack.id, &pack.ranges, sums, now);
            }
            layers.logged = crate::ranges::Ranges::default();
            layers.logged_bytes = 0;
            let fences = chain.fences.iter().copied().collect();
            layers.stored.map(map, layers.size, chain.previous, fences)
        };
        let bytes = object.encode();
        self.requester()
            .create_own(&map_name(self.volume(), map), &bytes)?;
        chain.maps.push_back(map);
        chain.behind = 0;
        chain.behind_bytes = 0;
        Ok(())
    }

    fn packs(&self, chain: &mut Chain, all: Vec<(u64, Arc<Vec<u8>>)>) -> Vec<Pack> {
        let mut packs: Vec<Pack> = Vec::new();
        for (start, data) in all {
            let length = data.len() as u64;
            let fits =
                |pack: &&mut Pack| (pack.bytes.len() + data.len()) as u64 <= self.extent_bytes();
            let pack = match packs.last_mut().filter(fits) {
                Some(pack) => pack,
                None => {
                    let id = chain.next_id();
                    packs.push(Pack {
                        id,
                        name: data_name(self.volume(), id),
                        ranges: Vec::new(),
                        bytes: Vec::new(),
                    });
                    packs.last_mut().expect("it was added")
                }
            };
            pack.bytes.extend_from_slice(&data);
            match pack.ranges.last_mut() {
                Some((from, bytes)) if *from + *bytes == start => *bytes += length,
                _ => pack.ranges.push((start, length)),
            }
        }
        packs
    }

    /// Deletes objects that died, maps but the newest two that are named, and log
    /// objects that neither of these needs.
    pub(crate) fn collect(&self, chain: &mut Chain) -> Result<()> {
        let volume = self.volume();
        while chain.named > 2 {
            if !self.settings().planted(Planted::MapOutlivesLog) {
                self.requester().delete(&map_name(volume, chain.maps[0]))?;
            }
            chain.maps.pop_front();
            chain.named -= 1;
        }
        let oldest = chain.maps[0];
        while chain.oldest <= oldest.number {
            let is_kept = chain.fences.contains(&chain.oldest)
                && !self.settings().planted(Planted::FenceCollected);
            if !is_kept {
                self.requester().delete(&log_name(volume, chain.oldest))?;
            }
            chain.oldest += 1;
        }
        let now = self.clock().now_ns();
        let grace = self.settings().grace.as_nanos() as i64;
        let due = |number: u64, time: i64| {
            (number <= oldest.number && now.saturating_sub(time) >= grace)
                || self.settings().planted(Planted::NoGrace)
        };
        let deaths = self.layers().stored.deaths.clone();
        let dead = deaths.iter().filter(|death| due(death.number, death.time));
        let dead: Vec<ObjectId> = dead.map(|death| death.id).collect();
        in_parallel(self.settings().parallel, &dead, |id| {
            Ok(self.requester().delete(&data_name(volume, *id))?)
        })?;
        let dead: BTreeSet<ObjectId> = dead.into_iter().collect();
        let mut layers = self.layers();
        layers
            .stored
            .deaths
            .retain(|death| !dead.contains(&death.id));
        drop(layers);
        if !chain.swept {
            chain.swept = true;
            self.sweep(chain, oldest)?;
        }
        Ok(())
    }

    /// The mistake of a writer that deletes what it has overwritten before that is
    /// acknowledged.
    fn delete_overwritten(&self) -> Result<()> {
        let mut after = self.layers().stored.clone();
        let now = Moment { number: 0, time: 0 };
        let before = after.deaths.len();
        for (start, length, _) in self.layers().fresh.iter() {
            after.remove(start, length, now);
        }
        after.deaths[before..].iter().try_for_each(|death| {
            Ok(self
                .requester()
                .delete(&data_name(self.volume(), death.id))?)
        })
    }

    /// Deletes what writers of earlier epochs left behind: objects and maps that no log
    /// object names, and log objects before those that are kept.
    fn sweep(&self, chain: &Chain, oldest: MapId) -> Result<()> {
        let volume = self.volume();
        let now = self.clock().now_ns();
        let grace = self.settings().grace.as_nanos() as i64;
        let mut gone = Vec::new();
        // Maps first, then log objects in ascending order, as a list is sorted.
        for kind in ["map/", "log/", "seg/"] {
            let listed = self
                .requester()
                .list(&format!("{}{kind}", prefix(volume)), "")?;
            let layers = self.layers();
            for object in listed {
                let made = object.modified.duration_since(UNIX_EPOCH);
                let made = made.map_or(0, |time| time.as_nanos() as i64);
                let name = &object.name;
                let is_left = if let Some(map) = parse_map_name(volume, name) {
                    map.id.epoch < chain.epoch && map < oldest
                } else if let Some(number) = parse_log_name(volume, name) {
                    number < oldest.number && !chain.fences.contains(&number)
                } else if let Some(id) = parse_data_name(volume, name) {
                    id.epoch < chain.epoch && !layers.stored.knows(id)
                } else {
                    false
                };
                if is_left && now.saturating_sub(made) >= grace {
                    gone.push(object.name);
                }
            }
        }
        gone.iter()
            .try_for_each(|name| Ok(self.requester().delete(name)?))
    }
}

/// An object with ranges of the volume, one after the other.
struct Pack {
    id: ObjectId,
    name: String,
    ranges: Vec<(u64, u64)>,
    bytes: Vec<u8>,
}

fn part_of(data: &Arc<Vec<u8>>, from: usize, length: usize) -> Arc<Vec<u8>> {
    match (from, length == data.len()) {
        (0, true) => Arc::clone(data),
        _ => Arc::new(data[from..from + length].to_vec()),
    }
}

/// The checksum of an object, which its successor has: that of all but the last four
/// bytes, which are the checksum themselves.
pub(crate) fn checksum_of(object: &[u8]) -> u32 {
    let sum = object.last_chunk::<4>();
    sum.map_or(0, |sum| u32::from_le_bytes(*sum))
}

impl Layers {
    /// Restores the state of a map.
    pub(crate) fn of_map(map: &crate::format::MapObject) -> Self {
        Layers {
            size: map.size,
            stored: crate::stored::Stored::of(map),
            ..Layers::default()
        }
    }
}
