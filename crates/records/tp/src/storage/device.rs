//! A few files of fixed places on any device: a simulated disk with its own clock, an
//! image, a block device without a file system.
//!
//! The device begins with two copies of a table of files, written alternately: magic (8),
//! checksum (4), files (4), serial (8), then for each file its name (32 bytes, padded with
//! zeros), its first byte (8), the bytes it may have (8), and the bytes it has (8). A file
//! gets its place when it is made, behind all others: one extent for each, a file called
//! `pages` three quarters of what is left at its time.
//!
//! The table in memory is the one that was written last, but for sizes; another one takes
//! its place when it is durable. So what fails has changed nothing, and is written to the
//! same place when it is tried again: never over the newest copy.
//!
//! What a device held before is not what a file holds: bytes that a file comes to have
//! without having been written are written as zeros, by whoever makes it longer.

mod table;
#[cfg(test)]
mod tests;

use super::{Storage, StoredFile};
use crate::planted::{self, Planted};
use std::io::{self, IoSlice};
use std::sync::Arc;
use table::{ALIGNED, Entry, TABLE, Table, check_name};
use varve_device::Device;
use varve_device::sync::Mutex;

/// Zeros that are written at once.
const ZEROS: usize = 1 << 20;

#[derive(Debug)]
struct Shared {
    device: Arc<dyn Device>,
    table: Mutex<Table>,
    /// Held by who makes a file longer, or writes a part of a block, until it is written.
    /// Before the table's.
    whole: Mutex<()>,
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
        let geometry = device.geometry();
        let fits = ALIGNED.is_multiple_of(geometry.logical_block.into());
        if extent == 0 || !extent.is_multiple_of(ALIGNED) || !fits {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut bytes = vec![0; 2 * TABLE];
        device.read(0, &mut bytes).map_err(io::Error::other)?;
        let (first, second) = bytes.split_at(TABLE);
        let table = Table::newest([first, second], geometry)?;
        Ok(DeviceStorage(Arc::new(Shared {
            device,
            table: Mutex::new(table),
            whole: Mutex::new(()),
            extent,
        })))
    }
}

impl Shared {
    /// Writes `next`, which has this table's place when it is durable.
    fn replace(&self, table: &mut Table, mut next: Table) -> io::Result<()> {
        let bytes = next.next_bytes()?;
        let place = match planted::is(Planted::TableOverNewest) {
            true => Table::place(1),
            false => Table::place(next.serial),
        };
        if table.torn {
            let nothing = vec![0; self.device.geometry().logical_block as usize];
            let written = self.device.write(place, &[IoSlice::new(&nothing)]);
            written.map_err(io::Error::other)?;
        }
        // What the table names is there before it.
        self.flush(Planted::TableBeforeFiles)?;
        table.torn = true;
        let written = self.device.write(place, &[IoSlice::new(&bytes)]);
        written.map_err(io::Error::other)?;
        self.flush(Planted::NameNotDurable)?;
        (next.changed, next.torn) = (false, false);
        *table = next;
        Ok(())
    }

    /// Before or behind a writing of the table; left out by a mistake.
    fn flush(&self, mistake: Planted) -> io::Result<()> {
        match planted::is(mistake) || planted::is(Planted::TableUnflushed) {
            true => Ok(()),
            false => self.device.flush().map_err(io::Error::other),
        }
    }

    /// Enters a file, and answers its number.
    fn make(&self, table: &mut Table, name: &str) -> io::Result<usize> {
        check_name(name)?;
        if table.is_full() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let ends = table.entries.iter().map(|entry| entry.at + entry.room);
        let at = ends.max().unwrap_or(2 * TABLE as u64);
        let left = self.device.geometry().size.saturating_sub(at);
        let room = match name {
            "pages" => left / 4 * 3 / ALIGNED * ALIGNED,
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

    /// The blocks around some bytes, and where they begin there.
    fn around(&self, at: u64, length: usize) -> (u64, usize, usize) {
        let block = u64::from(self.device.geometry().logical_block);
        let from = at / block * block;
        let to = (at + length as u64).div_ceil(block) * block;
        (from, (at - from) as usize, (to - from) as usize)
    }

    /// Writes bytes that lie within a file's room. Where they are parts of blocks, `whole`
    /// is held.
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (from, skip, length) = self.around(at, bytes.len());
        if length == bytes.len() {
            let written = self.device.write(from, &[IoSlice::new(bytes)]);
            return written.map_err(io::Error::other);
        }
        let mut blocks = vec![0; length];
        let read = self.device.read(from, &mut blocks);
        read.map_err(io::Error::other)?;
        blocks[skip..skip + bytes.len()].copy_from_slice(bytes);
        let written = self.device.write(from, &[IoSlice::new(&blocks)]);
        written.map_err(io::Error::other)
    }

    /// Writes zeros from one place of the device to another. `whole` is held.
    fn clear(&self, mut at: u64, end: u64) -> io::Result<()> {
        if planted::is(Planted::GapNotZeroed) {
            return Ok(());
        }
        let zeros = vec![0; ZEROS.min(end.saturating_sub(at) as usize)];
        while at < end {
            // Pieces end at blocks.
            let piece = (ZEROS as u64 - at % ALIGNED).min(end - at);
            self.put(at, &zeros[..piece as usize])?;
            at += piece;
        }
        Ok(())
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
                let mut next = table.clone();
                let number = self.0.make(&mut next, name)?;
                self.0.replace(&mut table, next)?;
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
        check_name(to)?;
        if from == to {
            return self.open(from, false).map(|_| ());
        }
        let mut table = self.0.table.lock();
        let place = |name: &str| table.entries.iter().position(|entry| entry.name == name);
        let (from, replaced) = (place(from).ok_or(io::ErrorKind::NotFound)?, place(to));
        let mut next = table.clone();
        if let Some(replaced) = replaced {
            next.entries[replaced].name.clear();
        }
        next.entries[from].name = to.to_owned();
        self.0.replace(&mut table, next)
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

    /// Where bytes would end that lie within the file's room.
    fn end(entry: &Entry, offset: u64, length: usize) -> io::Result<u64> {
        let end = offset.checked_add(length as u64);
        let end = end.filter(|end| *end <= entry.room);
        end.ok_or_else(|| io::ErrorKind::StorageFull.into())
    }

    /// The file has so many bytes now.
    fn resize(&self, bytes: u64) {
        let mut table = self.shared.table.lock();
        table.entries[self.number].size = bytes;
        table.changed = true;
    }
}

impl StoredFile for DeviceFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let entry = self.entry();
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > entry.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let shared = &self.shared;
        let (from, skip, length) = shared.around(entry.at + offset, buffer.len());
        if length == buffer.len() {
            let read = shared.device.read(from, buffer);
            return read.map_err(io::Error::other);
        }
        let mut blocks = vec![0; length];
        let read = shared.device.read(from, &mut blocks);
        read.map_err(io::Error::other)?;
        buffer.copy_from_slice(&blocks[skip..skip + buffer.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (entry, shared) = (self.entry(), &self.shared);
        let end = Self::end(&entry, offset, bytes.len())?;
        let (_, _, length) = shared.around(entry.at + offset, bytes.len());
        if end <= entry.size && length == bytes.len() {
            return shared.put(entry.at + offset, bytes);
        }
        let _whole = shared.whole.lock();
        // Another one may have made it longer meanwhile.
        let size = self.entry().size;
        if offset > size {
            shared.clear(entry.at + size, entry.at + offset)?;
        }
        shared.put(entry.at + offset, bytes)?;
        if end > size {
            self.resize(end);
        }
        Ok(())
    }

    /// A file that has grown says so in the table.
    fn sync(&self) -> io::Result<()> {
        let mut table = self.shared.table.lock();
        if table.changed && !planted::is(Planted::GrowthNotNoted) {
            let next = table.clone();
            return self.shared.replace(&mut table, next);
        }
        // Nobody who reads or writes waits for the flush.
        drop(table);
        self.shared.device.flush().map_err(io::Error::other)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let shared = &self.shared;
        let _whole = shared.whole.lock();
        let entry = self.entry();
        Self::end(&entry, bytes, 0)?;
        if bytes > entry.size {
            shared.clear(entry.at + entry.size, entry.at + bytes)?;
        }
        self.resize(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.entry().size)
    }
}

/// For the fuzzer: bytes as a device's table, its checksum made right. What is taken for
/// one is used.
pub(crate) fn look_at_table(data: &[u8]) {
    const SIZE: u64 = 1 << 20;
    let device = Arc::new(varve_device::MemoryDevice::new(SIZE));
    let mut copy = data.to_vec();
    copy.resize(TABLE, 0);
    copy[..8].copy_from_slice(&table::MAGIC);
    table::seal(&mut copy);
    let at = Table::place(u64::from(data.first().copied().unwrap_or(0)));
    let written = device.write(at, &[IoSlice::new(&copy)]);
    written.expect("it lies within the device");
    let Ok(storage) = DeviceStorage::new(device, 8192) else {
        return;
    };
    let names = storage.list().expect("in memory");
    for name in names.iter().take(8) {
        let file = storage.open(name, false).expect("it was listed");
        let size = file.size().expect("in memory");
        assert!(size <= SIZE, "{size} bytes");
        let _ = file.read_at(size / 2, &mut [0; 16]);
        let _ = file.write_at(size.saturating_add(100), b"behind a gap");
        let _ = file.truncate(size / 2);
        let _ = file.sync();
    }
    let _ = storage.open("another", true);
    let _ = storage.rename("another", names.first().map_or("one", |name| &name[..]));
}

/// For the fuzzer: the table of a device with some files.
pub(crate) fn table_seed() -> Vec<u8> {
    let device = Arc::new(varve_device::MemoryDevice::new(1 << 20));
    let storage = DeviceStorage::new(device.clone(), 8192).expect("in memory");
    for name in ["lock", "pages", "wal-0", "check-0"] {
        let file = storage.open(name, true).expect("there is room");
        file.write_at(3000, b"bytes").expect("there is room");
        file.sync().expect("in memory");
    }
    let mut bytes = vec![0; 2 * TABLE];
    device.read(0, &mut bytes).expect("in memory");
    bytes[TABLE..TABLE + 24 + 56 * 5].to_vec()
}
