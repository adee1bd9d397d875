//! A few files at fixed places on any device: a simulated disk with its own clock, an
//! image, a block device without a file system.
//!
//! The device begins with two copies of a table of files, written alternately: magic (8),
//! checksum (4), number of files (4), serial (8), then for each file its name (32 bytes,
//! padded with zeros), its first byte (8), its capacity in bytes (8), and its length in
//! bytes (8). A file gets its place when it is created, behind all others: one extent, or
//! for a file called `pages` three quarters of the space that is left.
//!
//! The table in memory is the one last written, except for lengths; a new one replaces it
//! when it is durable. So a failed write has changed nothing, and the next attempt writes
//! to the same place, never over the newest copy.
//!
//! The former content of the device must not appear in a file: bytes that an extension
//! adds without writing them are zeroed by the thread that extends the file.

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

/// Bytes of zeros written at once.
const ZEROS: usize = 1 << 20;

#[derive(Debug)]
struct Shared {
    device: Arc<dyn Device>,
    table: Mutex<Table>,
    /// Locked by a thread that extends a file or writes a part of a block, until the
    /// write is complete. It precedes the table's lock.
    whole: Mutex<()>,
    /// Capacity of a new file in bytes.
    extent: u64,
}

/// Files on a device.
#[derive(Clone, Debug)]
pub struct DeviceStorage(Arc<Shared>);

impl DeviceStorage {
    /// Opens the files of a device, which has none if it contains no table. `extent` is
    /// the capacity in bytes of each new file except for `pages`, which gets three
    /// quarters of the space that is left.
    ///
    /// # Errors
    /// Errors of the device, and an `extent` that is not a multiple of 4,096.
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
    /// Writes `next`, which replaces the table when it is durable.
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
        // The files must be durable before the table that names them.
        self.flush(Planted::TableBeforeFiles)?;
        table.torn = true;
        let written = self.device.write(place, &[IoSlice::new(&bytes)]);
        written.map_err(io::Error::other)?;
        self.flush(Planted::NameNotDurable)?;
        (next.changed, next.torn) = (false, false);
        *table = next;
        Ok(())
    }

    /// Flushes before or after writing the table, unless a planted fault omits it.
    fn flush(&self, mistake: Planted) -> io::Result<()> {
        match planted::is(mistake) || planted::is(Planted::TableUnflushed) {
            true => Ok(()),
            false => self.device.flush().map_err(io::Error::other),
        }
    }

    /// Adds a file to the table, and returns its number.
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

    /// Returns the blocks around some bytes, and the position of the bytes in them.
    fn around(&self, at: u64, length: usize) -> (u64, usize, usize) {
        let block = u64::from(self.device.geometry().logical_block);
        let from = at / block * block;
        let to = (at + length as u64).div_ceil(block) * block;
        (from, (at - from) as usize, (to - from) as usize)
    }

    /// Writes bytes within a file's capacity. If they are parts of blocks, the caller
    /// must own `whole`.
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

    /// Writes zeros to a range of the device. The caller must own `whole`.
    fn clear(&self, mut at: u64, end: u64) -> io::Result<()> {
        if planted::is(Planted::GapNotZeroed) {
            return Ok(());
        }
        let zeros = vec![0; ZEROS.min(end.saturating_sub(at) as usize)];
        while at < end {
            // Pieces end at block boundaries.
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

    /// Returns the end of bytes within the file's capacity.
    fn end(entry: &Entry, offset: u64, length: usize) -> io::Result<u64> {
        let end = offset.checked_add(length as u64);
        let end = end.filter(|end| *end <= entry.room);
        end.ok_or_else(|| io::ErrorKind::StorageFull.into())
    }

    /// Sets the length of the file.
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
        // Another thread may have extended the file meanwhile.
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

    /// A file that has grown is recorded in the table.
    fn sync(&self) -> io::Result<()> {
        let mut table = self.shared.table.lock();
        if table.changed && !planted::is(Planted::GrowthNotNoted) {
            let next = table.clone();
            return self.shared.replace(&mut table, next);
        }
        // Readers and writers do not wait for the flush.
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

/// Entry point of the fuzzer: uses bytes as a device's table, with a right checksum.
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

/// Returns the table of a device with some files, as a seed of the fuzzer.
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
