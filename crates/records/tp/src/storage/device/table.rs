//! The table of a device's files, as bytes. A table is validated completely when it is
//! read, so its entries need no further checks.
//!
//! Two copies are written alternately, so one is valid whenever two have been written. If
//! none is valid and only the place of the first one was begun, the very first write was
//! torn, and the device is empty. Any other state is damage, and never taken for an empty
//! device.
//!
//! Before a copy is written over a torn one, the first block of that, with the checksum,
//! is overwritten. If this is omitted, two torn writes together can make the former copy
//! valid.

use std::io;
use varve_device::Geometry;

pub(super) const MAGIC: [u8; 8] = *b"VARVETPD";
/// Bytes of one copy.
pub(super) const TABLE: usize = 16 << 10;
const ENTRY: usize = 56;
const HEAD: usize = 24;
/// Alignment of files in bytes.
pub(super) const ALIGNED: u64 = 4096;
/// Bytes of a name.
const NAME: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Empty if another file has taken its name.
    pub name: String,
    pub at: u64,
    pub room: u64,
    pub size: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub entries: Vec<Entry>,
    pub serial: u64,
    /// True if a length has changed since the table was written.
    pub changed: bool,
    /// True if the place of the next copy may contain a part of one.
    pub torn: bool,
}

fn damaged(what: impl std::fmt::Display) -> io::Error {
    let what = format!("the device's table of files is damaged: {what}");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Fails if a file cannot have this name.
pub(super) fn check_name(name: &str) -> io::Result<()> {
    match name.is_empty() || name.len() > NAME || name.contains('\0') {
        true => Err(io::ErrorKind::InvalidInput.into()),
        false => Ok(()),
    }
}

impl Table {
    /// Returns the address of a copy.
    pub(super) fn place(serial: u64) -> u64 {
        serial % 2 * TABLE as u64
    }

    /// Returns the newer one of both copies, given in the order of their places; empty if
    /// the device has none yet.
    ///
    /// # Errors
    /// `InvalidData` if there was one and none is valid, or if it names an impossible
    /// place.
    pub(super) fn newest(copies: [&[u8]; 2], geometry: Geometry) -> io::Result<Self> {
        let found = copies.map(Self::parse);
        let torn = found.iter().any(Option::is_none);
        let newest = found.into_iter().flatten().max_by_key(|table| table.serial);
        let Some(mut table) = newest else {
            // The first table has serial 1.
            let begun = copies.map(|copy| copy.starts_with(&MAGIC));
            return match begun {
                [false, _] => Ok(Table {
                    torn,
                    ..Table::default()
                }),
                [true, _] => Err(damaged("neither copy has its checksum")),
            };
        };
        table.check(geometry)?;
        table.torn = torn;
        Ok(table)
    }

    /// Parses a copy. `None` if the bytes are no table, or were written in part.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let body = bytes.get(12..TABLE)?;
        let crc = u32::from_le_bytes(bytes[8..12].try_into().ok()?);
        if bytes[..8] != MAGIC || crate::checksum(0, body) != crc {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let count = u32::from_le_bytes(bytes[12..16].try_into().ok()?) as usize;
        let entries = (0..count.min(TABLE / ENTRY)).map(|at| {
            let at = HEAD + at * ENTRY;
            let name = bytes.get(at..at + NAME)?;
            Some(Entry {
                name: match std::str::from_utf8(name) {
                    Ok(name) => name.trim_end_matches('\0').to_owned(),
                    // A name that no file can have.
                    Err(_) => "\0".to_owned(),
                },
                at: number(at + 32)?,
                room: number(at + 40)?,
                size: number(at + 48)?,
            })
        });
        Some(Table {
            entries: entries.map_while(|entry| entry).collect(),
            serial: number(16)?,
            changed: false,
            torn: false,
        })
        .filter(|table| table.entries.len() == count)
    }

    fn check(&self, geometry: Geometry) -> io::Result<()> {
        if self.serial == u64::MAX {
            return Err(damaged("there is no serial behind it"));
        }
        let mut places: Vec<&Entry> = self.entries.iter().collect();
        places.sort_by_key(|entry| entry.at);
        let mut free = 2 * TABLE as u64;
        for entry in places {
            let end = entry.at.checked_add(entry.room);
            let aligned = entry.at.is_multiple_of(ALIGNED) && entry.room.is_multiple_of(ALIGNED);
            let what = match end {
                _ if !entry.name.is_empty() && check_name(&entry.name).is_err() => "has no name",
                Some(end) if end <= geometry.size => match entry.at < free {
                    true => "lies where another one or the table does",
                    false if !aligned => "does not lie at a block",
                    false if entry.size > entry.room => "has more bytes than room",
                    false => {
                        free = end;
                        continue;
                    }
                },
                _ => "lies beyond the device",
            };
            return Err(damaged(format!("file {:?} {what}", entry.name)));
        }
        let mut names: Vec<&str> = self.entries.iter().map(|entry| &entry.name[..]).collect();
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(damaged(format!("two files are called {:?}", pair[0]))),
            None => Ok(()),
        }
    }

    /// Returns true if no further file can be added.
    pub(super) fn is_full(&self) -> bool {
        HEAD + (self.entries.len() + 1) * ENTRY > TABLE
    }

    /// Advances the serial and returns the bytes of the table.
    ///
    /// # Errors
    /// `StorageFull` if there is no higher serial.
    pub(super) fn next_bytes(&mut self) -> io::Result<Vec<u8>> {
        let serial = self.serial.checked_add(1);
        self.serial = serial.ok_or(io::ErrorKind::StorageFull)?;
        let mut bytes = vec![0; TABLE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[12..16].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.serial.to_le_bytes());
        let places = bytes[HEAD..].chunks_exact_mut(ENTRY);
        for (entry, to) in self.entries.iter().zip(places) {
            to[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
            to[32..40].copy_from_slice(&entry.at.to_le_bytes());
            to[40..48].copy_from_slice(&entry.room.to_le_bytes());
            to[48..56].copy_from_slice(&entry.size.to_le_bytes());
        }
        seal(&mut bytes);
        Ok(bytes)
    }
}

/// Sets the checksum of a table's bytes.
pub(super) fn seal(bytes: &mut [u8]) {
    let crc = crate::checksum(0, &bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}
