//! The bytes of the objects (`docs/spec/bucket.md`). All integers are little-endian;
//! the last four bytes of each object are the CRC-32C of those before them.

mod codec;
mod log;
mod map;
mod root;

pub use codec::Flaw;
pub use log::Holder;
pub(crate) use log::{Content, LogObject, Stored};
pub(crate) use map::{Death, MapObject, ObjectEntry};
pub(crate) use root::ROOT;
pub use root::Root;

use std::fmt;

/// Identity of an object that contains bytes of the volume, or of a map: the epoch of
/// the writer that made it, and its number among those of the epoch. An epoch belongs to
/// one writer, so no name is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The epoch of the writer.
    pub epoch: u64,
    /// The number among the objects of the epoch.
    pub serial: u64,
}

/// Identity of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MapId {
    /// The log object whose state it describes; 0 in the map of a new volume.
    pub number: u64,
    pub id: ObjectId,
}

impl MapId {
    /// The map of a new volume, which has no bytes.
    pub const FIRST: MapId = MapId {
        number: 0,
        id: ObjectId {
            epoch: 0,
            serial: 0,
        },
    };
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.epoch, self.serial)
    }
}

/// The prefix of the names of all objects of a volume but the root.
pub(crate) fn prefix(volume: u128) -> String {
    format!("{volume:032x}/")
}

/// The name of a log object.
pub(crate) fn log_name(volume: u128, number: u64) -> String {
    format!("{}log/{number:016x}", prefix(volume))
}

/// The name of an object that contains bytes of the volume.
pub(crate) fn data_name(volume: u128, id: ObjectId) -> String {
    format!("{}seg/{id}", prefix(volume))
}

/// The name of a map.
pub(crate) fn map_name(volume: u128, map: MapId) -> String {
    format!("{}map/{:016x}-{}", prefix(volume), map.number, map.id)
}

/// The map of a name of [`map_name`].
pub(crate) fn parse_map_name(volume: u128, name: &str) -> Option<MapId> {
    let rest = name.strip_prefix(&prefix(volume))?.strip_prefix("map/")?;
    let (number, id) = rest.split_once('-')?;
    Some(MapId {
        number: u64::from_str_radix(number, 16).ok()?,
        id: parse_id(id)?,
    })
}

/// The identity in a name of [`data_name`].
pub(crate) fn parse_data_name(volume: u128, name: &str) -> Option<ObjectId> {
    parse_id(name.strip_prefix(&prefix(volume))?.strip_prefix("seg/")?)
}

/// The number in a name of [`log_name`].
pub(crate) fn parse_log_name(volume: u128, name: &str) -> Option<u64> {
    let rest = name.strip_prefix(&prefix(volume))?.strip_prefix("log/")?;
    u64::from_str_radix(rest, 16).ok()
}

fn parse_id(text: &str) -> Option<ObjectId> {
    let (epoch, serial) = text.split_once('-')?;
    Some(ObjectId {
        epoch: u64::from_str_radix(epoch, 16).ok()?,
        serial: u64::from_str_radix(serial, 16).ok()?,
    })
}

/// The result of decoding.
pub(crate) type Decoded<T> = Result<T, Flaw>;

/// Bytes of an object that have one checksum, and are read at once.
pub(crate) const PART: u64 = 1 << 20;

/// The largest number of a log object and of an epoch, so that none overflows.
const MOST_NUMBER: u64 = 1 << 62;

/// Checks the size of a device.
fn check_size(size: u64) -> Decoded<()> {
    match size > 0 && size.is_multiple_of(512) && size <= 1 << 60 {
        true => Ok(()),
        false => Err(Flaw::Value("size")),
    }
}

/// The checksums of the parts of an object.
fn sums(reader: &mut codec::Reader<'_>, bytes: u64) -> Decoded<Vec<u32>> {
    let sums = reader.list(codec::Reader::u32)?;
    match sums.len() as u64 == bytes.div_ceil(PART) {
        true => Ok(sums),
        false => Err(Flaw::Value("number of checksums")),
    }
}
