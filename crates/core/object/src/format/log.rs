//! Log objects: each is what one flush makes durable, the fence of a new writer, or the
//! end of one.

use super::codec::{Flaw, Reader, Writer};
use super::{Decoded, MOST_NUMBER, MapId, ObjectId, check_size, sums};
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"VARVELOG";

/// The process that writes a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The host's name.
    pub host: String,
    /// The identity of the host's present run; empty if unknown.
    pub boot: String,
    /// The process on the host.
    pub process: u32,
    /// When the process began, in the host's units.
    pub started: u64,
}

/// The purpose of a log object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The changes of a flush: the bytes of ranges, ranges whose bytes are in an object
    /// of their own, and ranges that have no value any more.
    Flush {
        written: Vec<(u64, Arc<Vec<u8>>)>,
        stored: Vec<Stored>,
        discarded: Vec<(u64, u64)>,
    },
    /// The first object of an epoch.
    Fence,
    /// The last one: its writer has ended.
    Close,
}

impl LogObject {
    /// The map from which the state continues.
    pub fn map(&self) -> MapId {
        *self.maps.last().expect("decoded and new ones have one")
    }
}

/// A range whose bytes are the content of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub start: u64,
    pub id: ObjectId,
    pub bytes: u64,
    /// The CRC-32C of each MiB.
    pub sums: Vec<u32>,
}

/// A log object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogObject {
    pub number: u64,
    pub epoch: u64,
    /// Drawn by each mount, so that a writer recognises its own objects.
    pub identity: u128,
    /// The checksum of the object before it; 0 in the first one.
    pub previous: u32,
    /// Nanoseconds since 1970, by the writer's clock.
    pub time: i64,
    /// The size of the device in bytes.
    pub size: u64,
    /// The maps that may exist, oldest first; the state continues from the last one.
    pub maps: Vec<MapId>,
    pub holder: Holder,
    pub content: Content,
}

impl LogObject {
    pub fn encode(&self) -> Vec<u8> {
        let payload = match &self.content {
            Content::Flush { written, .. } => written.iter().map(|(_, d)| d.len() + 16).sum(),
            _ => 0,
        };
        let mut writer = Writer::new(MAGIC, payload + 1024);
        writer
            .u64(self.number)
            .u64(self.epoch)
            .u128(self.identity)
            .u32(self.previous)
            .u64(self.time as u64)
            .u64(self.size);
        writer.list(self.maps.iter(), |writer, map| {
            writer.u64(map.number).id(map.id);
        });
        let holder = &self.holder;
        writer.text(&holder.host).text(&holder.boot);
        writer.u32(holder.process).u64(holder.started);
        match &self.content {
            Content::Fence => writer.u8(1),
            Content::Close => writer.u8(2),
            Content::Flush {
                written,
                stored,
                discarded,
            } => {
                writer.u8(0);
                writer.list(discarded.iter(), |writer, (start, length)| {
                    writer.u64(*start).u64(*length);
                });
                writer.list(stored.iter(), |writer, stored| {
                    writer.u64(stored.start).id(stored.id).u64(stored.bytes);
                    writer.list(stored.sums.iter(), |writer, sum| {
                        writer.u32(*sum);
                    });
                });
                writer.list(written.iter(), |writer, (start, data)| {
                    writer.u64(*start).u64(data.len() as u64).bytes(data);
                })
            }
        };
        writer.end()
    }

    pub fn decode(object: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(object, MAGIC, "a log object")?;
        let (number, epoch) = (reader.u64()?, reader.u64()?);
        let (identity, previous) = (reader.u128()?, reader.u32()?);
        let (time, size) = (reader.u64()? as i64, reader.u64()?);
        let maps = reader.list(|reader| {
            Ok(MapId {
                number: reader.u64()?,
                id: reader.id()?,
            })
        })?;
        let holder = Holder {
            host: reader.text()?,
            boot: reader.text()?,
            process: reader.u32()?,
            started: reader.u64()?,
        };
        let content = match reader.u8()? {
            0 => Self::flush(&mut reader, size)?,
            1 => Content::Fence,
            2 => Content::Close,
            _ => return Err(Flaw::Value("kind")),
        };
        reader.end()?;
        let is_before = maps.last().is_some_and(|map| map.number < number);
        let is_number = |number: u64| (1..=MOST_NUMBER).contains(&number);
        if !is_number(number) || !is_number(epoch) || !is_before {
            return Err(Flaw::Value("number"));
        }
        check_size(size)?;
        Ok(LogObject {
            number,
            epoch,
            identity,
            previous,
            time,
            size,
            maps,
            holder,
            content,
        })
    }

    fn flush(reader: &mut Reader<'_>, size: u64) -> Decoded<Content> {
        let range = |start: u64, length: u64| match start.checked_add(length) {
            Some(end) if end <= size && length > 0 => Ok((start, length)),
            _ => Err(Flaw::Value("range")),
        };
        let discarded = reader.list(|reader| {
            let (start, length) = (reader.u64()?, reader.u64()?);
            range(start, length)
        })?;
        let stored = reader.list(|reader| {
            let (start, id, bytes) = (reader.u64()?, reader.id()?, reader.u64()?);
            range(start, bytes)?;
            let sums = sums(reader, bytes)?;
            Ok(Stored {
                start,
                id,
                bytes,
                sums,
            })
        })?;
        let written = reader.list(|reader| {
            let (start, length) = (reader.u64()?, reader.u64()?);
            range(start, length)?;
            Ok((start, Arc::new(reader.bytes(length)?.to_vec())))
        })?;
        Ok(Content::Flush {
            written,
            stored,
            discarded,
        })
    }
}
