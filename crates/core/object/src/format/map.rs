//! The map: where each byte of the volume is stored, as of a log object.

use super::codec::{Flaw, Reader, Writer};
use super::{Decoded, MapId, ObjectId, check_size, sums};
use std::collections::HashSet;

const MAGIC: [u8; 8] = *b"VARVEMAP";

/// An object that has bytes of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectEntry {
    pub id: ObjectId,
    pub bytes: u64,
    /// The CRC-32C of each MiB.
    pub sums: Vec<u32>,
}

/// An object whose bytes were replaced: it is deleted after a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub id: ObjectId,
    /// The log object with which its last byte was replaced.
    pub number: u64,
    /// When its writer knew that, in nanoseconds since 1970.
    pub time: i64,
}

/// A map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapObject {
    pub id: MapId,
    /// The size of the device in bytes.
    pub size: u64,
    /// The checksum of the log object.
    pub previous: u32,
    pub objects: Vec<ObjectEntry>,
    /// Start, length, index in `objects`, and first byte there.
    pub places: Vec<(u64, u64, u32, u64)>,
    pub deaths: Vec<Death>,
    /// Log objects that are fences of writers which may not have noticed them.
    pub fences: Vec<u64>,
}

impl MapObject {
    pub fn encode(&self) -> Vec<u8> {
        let capacity = 128 + 64 * self.objects.len() + 32 * self.places.len();
        let mut writer = Writer::new(MAGIC, capacity);
        writer.u64(self.id.number).id(self.id.id).u64(self.size);
        writer.u32(self.previous);
        writer.list(self.objects.iter(), |writer, object| {
            writer.id(object.id).u64(object.bytes);
            writer.list(object.sums.iter(), |writer, sum| {
                writer.u32(*sum);
            });
        });
        writer.list(self.places.iter(), |writer, (start, length, object, at)| {
            writer.u64(*start).u64(*length).u32(*object).u64(*at);
        });
        writer.list(self.deaths.iter(), |writer, death| {
            writer.id(death.id).u64(death.number);
            writer.u64(death.time as u64);
        });
        writer.list(self.fences.iter(), |writer, number| {
            writer.u64(*number);
        });
        writer.end()
    }

    pub fn decode(object: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(object, MAGIC, "a map")?;
        let id = MapId {
            number: reader.u64()?,
            id: reader.id()?,
        };
        let size = reader.u64()?;
        let previous = reader.u32()?;
        check_size(size)?;
        // An object is listed once, alive or dead.
        let mut known = HashSet::new();
        let objects = reader.list(|reader| {
            let (id, bytes) = (reader.id()?, reader.u64()?);
            if !known.insert(id) {
                return Err(Flaw::Value("object"));
            }
            let sums = sums(reader, bytes)?;
            Ok(ObjectEntry { id, bytes, sums })
        })?;
        let mut behind = 0;
        let places = reader.list(|reader| {
            let (start, length) = (reader.u64()?, reader.u64()?);
            let (index, at) = (reader.u32()?, reader.u64()?);
            let end = start.checked_add(length).filter(|end| *end <= size);
            let object = objects.get(index as usize);
            let within = |object: &&ObjectEntry| {
                at.checked_add(length)
                    .is_some_and(|end| end <= object.bytes)
            };
            match (end, object.filter(within)) {
                (Some(end), Some(_)) if start >= behind && length > 0 => behind = end,
                _ => return Err(Flaw::Value("place")),
            }
            Ok((start, length, index, at))
        })?;
        let deaths = reader.list(|reader| {
            let id = reader.id()?;
            if !known.insert(id) {
                return Err(Flaw::Value("dead object"));
            }
            Ok(Death {
                id,
                number: reader.u64()?,
                time: reader.u64()? as i64,
            })
        })?;
        let fences = reader.list(Reader::u64)?;
        reader.end()?;
        Ok(MapObject {
            id,
            size,
            previous,
            objects,
            places,
            deaths,
            fences,
        })
    }
}
