//! A few files of fixed places on any device: a simulated disk with its own clock, an
//! image, a block device without a file system.
//!
//! The device begins with two copies of a table of files, written alternately: magic (8),
//! checksum (4), files (4), serial (8), then for each file its name (32 bytes, padded with
//! zeros), its first byte (8), the bytes it may have (8), and the bytes it has (8). A file
//! gets its place when it is made, behind all others: one extent for each, a file called
//! `pages` all that is left at its time but for a share for the others.

use super::{Storage, StoredFile};
use std::io::{self, IoSlice};
use std::sync::Arc;
use varve_device::Device;
use varve_device::sync::Mutex;

const MAGIC: [u8; 8] = *b"VARVETPD";
/// Bytes of one copy of the table.
const TABLE: usize = 16 << 10;
const ENTRY: usize = 56;
const HEAD: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    at: u64,
    room: u64,
    size: u64,
}

#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    serial: u64,
    /// A size has changed since it was written.
    changed: bool,
}

#[derive(Debug)]
struct Shared {
    device: Arc<dyn Device>,
    table: Mutex<Table>,
    /// What a file has room for when it is made.
    extent: u64,
}

/// Files on a device.
#[derive(Clone, Debug)]
pub struct DeviceStorage(Arc<Shared>);

impl DeviceStorage {
    /// The files of a device; none if it holds no table. `extent` bytes of room are given
    /// to each file that is made but `pages`, which gets three quarters of what is left.
    ///
    /// # Errors
    /// What the device says, and if `extent` is no multiple of 4,096.
    pub fn new(device: Arc<dyn Device>, extent: u64) -> io::Result<Self> {
        if extent == 0 || !extent.is_multiple_of(4096) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut best = Table {
            entries: Vec::new(),
            serial: 0,
            changed: false,
        };
        for copy in 0..2 {
            let mut bytes = vec![0; TABLE];
            device
                .read(copy * TABLE as u64, &mut bytes)
                .map_err(io::Error::other)?;
            if let Some(table) = parse(&bytes)
                && table.serial > best.serial
            {
                best = table;
            }
        }
        Ok(DeviceStorage(Arc::new(Shared {
            device,
            table: Mutex::new(best),
            extent,
        })))
    }
}

fn parse(bytes: &[u8]) -> Option<Table> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let crc = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
    if bytes[..8] != MAGIC || crate::checksum(0, &bytes[12..]) != crc {
        return None;
    }
    let count = u32::from_le_bytes(bytes[12..16].try_into().expect("4 bytes")) as usize;
    let entries = bytes.get(HEAD..HEAD + count.checked_mul(ENTRY)?)?;
    let entry = |bytes: &[u8]| {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8"));
        let name = std::str::from_utf8(&bytes[..32]).ok()?;
        Some(Entry {
            name: name.trim_end_matches('\0').to_owned(),
            at: number(32),
            room: number(40),
            size: number(48),
        })
    };
    Some(Table {
        entries: entries
            .chunks_exact(ENTRY)
            .map(entry)
            .collect::<Option<_>>()?,
        serial: number(16),
        changed: false,
    })
}

impl Shared {
    fn write(&self, table: &mut Table) -> io::Result<()> {
        if HEAD + table.entries.len() * ENTRY > TABLE {
            return Err(io::ErrorKind::StorageFull.into());
        }
        table.serial += 1;
        let mut bytes = vec![0; TABLE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[12..16].copy_from_slice(&(table.entries.len() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&table.serial.to_le_bytes());
        for (entry, to) in table
            .entries
            .iter()
            .zip(bytes[HEAD..].chunks_exact_mut(ENTRY))
        {
            to[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
            to[32..40].copy_from_slice(&entry.at.to_le_bytes());
            to[40..48].copy_from_slice(&entry.room.to_le_bytes());
            to[48..56].copy_from_slice(&entry.size.to_le_bytes());
        }
        let crc = crate::checksum(0, &bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let at = table.serial % 2 * TABLE as u64;
        // What the table names is there before it.
        self.device.flush().map_err(io::Error::other)?;
        self.device
            .write(at, &[IoSlice::new(&bytes)])
            .map_err(io::Error::other)?;
        table.changed = false;
        self.device.flush().map_err(io::Error::other)
    }

    fn make(&self, table: &mut Table, name: &str) -> io::Result<usize> {
        if name.len() > 32 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let end = table
            .entries
            .iter()
            .map(|entry| entry.at + entry.room)
            .max();
        let at = end.unwrap_or(2 * TABLE as u64);
        let left = self.device.geometry().size.saturating_sub(at);
        let room = match name {
            "pages" => left / 4 * 3 / 4096 * 4096,
            _ => self.extent,
        };
        if room > left {
            return Err(io::ErrorKind::StorageFull.into());
        }
        table.entries.push(Entry {
            name: name.to_owned(),
            at,
            room,
            size: 0,
        });
        Ok(table.entries.len() - 1)
    }
}

impl Storage for DeviceStorage {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let shared = self.0.clone();
        let mut table = self.0.table.lock();
        let found = table.entries.iter().position(|entry| entry.name == name);
        let number = match found {
            Some(number) => number,
            None if create => {
                let number = self.0.make(&mut table, name)?;
                self.0.write(&mut table)?;
                number
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(DeviceFile { shared, number }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let table = self.0.table.lock();
        let names = table.entries.iter().map(|entry| entry.name.clone());
        Ok(names.filter(|name| !name.is_empty()).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut table = self.0.table.lock();
        let place = |name: &str| table.entries.iter().position(|entry| entry.name == name);
        let (from, replaced) = (place(from).ok_or(io::ErrorKind::NotFound)?, place(to));
        if let Some(replaced) = replaced {
            table.entries[replaced].name.clear();
        }
        table.entries[from].name = to.to_owned();
        self.0.write(&mut table)
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct DeviceFile {
    shared: Arc<Shared>,
    number: usize,
}

impl DeviceFile {
    fn entry(&self) -> Entry {
        self.shared.table.lock().entries[self.number].clone()
    }

    /// The blocks of the device around some bytes of the file, and where they begin there.
    fn around(&self, at: u64, length: usize) -> (u64, usize, usize) {
        let block = u64::from(self.shared.device.geometry().logical_block);
        let from = at / block * block;
        let to = (at + length as u64).div_ceil(block) * block;
        (from, (at - from) as usize, (to - from) as usize)
    }
}

impl StoredFile for DeviceFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let entry = self.entry();
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > entry.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (from, skip, length) = self.around(entry.at + offset, buffer.len());
        let mut blocks = vec![0; length];
        self.shared
            .device
            .read(from, &mut blocks)
            .map_err(io::Error::other)?;
        buffer.copy_from_slice(&blocks[skip..skip + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let entry = self.entry();
        let end = offset + bytes.len() as u64;
        if end > entry.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let (from, skip, length) = self.around(entry.at + offset, bytes.len());
        let device = &self.shared.device;
        if length == bytes.len() {
            device
                .write(from, &[IoSlice::new(bytes)])
                .map_err(io::Error::other)?;
        } else {
            let mut blocks = vec![0; length];
            device.read(from, &mut blocks).map_err(io::Error::other)?;
            blocks[skip..skip + bytes.len()].copy_from_slice(bytes);
            device
                .write(from, &[IoSlice::new(&blocks)])
                .map_err(io::Error::other)?;
        }
        let mut table = self.shared.table.lock();
        if end > table.entries[self.number].size {
            table.entries[self.number].size = end;
            table.changed = true;
        }
        Ok(())
    }

    /// A file that has grown says so in the table.
    fn sync(&self) -> io::Result<()> {
        let mut table = self.shared.table.lock();
        match table.changed {
            true => self.shared.write(&mut table),
            false => self.shared.device.flush().map_err(io::Error::other),
        }
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut table = self.shared.table.lock();
        let entry = &mut table.entries[self.number];
        if bytes > entry.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        entry.size = bytes;
        table.changed = true;
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.entry().size)
    }
}
