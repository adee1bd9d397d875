//! The device over a store.

use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::format::{Content, Holder, Root};
use crate::request::Requests;
use crate::volume::Volume;
use std::io;
use varve_device::host::{boot_id, host_name, process_start};
use varve_device::sync::Mutex;
use varve_device::{Device, DeviceError, Extent, Geometry, Operation};

/// A block device whose bytes are objects in a store.
///
/// Written bytes are in memory until a flush, which is one create-only PUT. Reads come
/// from memory, or from whole parts of 1 MiB of objects, whose checksums are compared.
/// Dropping the device flushes nothing; it tells later writers that this one has ended.
#[derive(Debug)]
pub struct ObjectDevice {
    volume: Volume,
    /// Taken before the volume's layers. None on a device that only reads.
    chain: Option<Mutex<Chain>>,
}

impl ObjectDevice {
    pub(crate) fn of(volume: Volume, chain: Option<Chain>) -> Self {
        ObjectDevice {
            volume,
            chain: chain.map(Mutex::new),
        }
    }

    fn flushed(&self, wanted: u64) -> Result<()> {
        match &self.chain {
            Some(chain) => self.volume.flush_chain(chain, wanted),
            None => Err(Error::ReadOnly(self.volume.requester().name())),
        }
    }

    /// What the volume is.
    pub fn root(&self) -> &Root {
        self.volume.root()
    }

    /// Requests since the volume was opened.
    pub fn requests(&self) -> Requests {
        self.volume.requester().counted()
    }

    /// Flushes, and says in the log that this writer has ended, so that the next one
    /// need not take the volume over. Later writes fail. A device that only reads, or
    /// has failed, closes without a request.
    ///
    /// # Errors
    /// As [`Device::flush`].
    pub fn close(&self) -> Result<()> {
        let Some(chain) = &self.chain else {
            return Ok(());
        };
        let wanted = self.volume.layers().changes;
        self.flushed(wanted)?;
        self.end(&mut chain.lock())
    }

    fn end(&self, chain: &mut Chain) -> Result<()> {
        if chain.stopped.is_some() {
            return Ok(());
        }
        let requester = self.volume.requester();
        chain.stopped = Some(format!("{} is closed", requester.name()));
        tracing::info!(requests = ?requester.counted(), "the volume's writer ends");
        // Bytes that were not flushed are not part of it.
        let mut layers = self.volume.layers();
        layers.fresh = crate::ranges::Ranges::default();
        layers.fresh_bytes = 0;
        drop(layers);
        self.volume.append(chain, Some(Content::Close))
    }

    fn failed(&self, operation: Operation, offset: u64, length: u64, error: Error) -> DeviceError {
        self.error(operation, offset, length, error.into_io())
    }

    fn error(
        &self,
        operation: Operation,
        offset: u64,
        length: u64,
        source: io::Error,
    ) -> DeviceError {
        DeviceError {
            device: self.name(),
            operation,
            offset,
            length,
            source,
        }
    }

    fn check(&self, operation: Operation, offset: u64, length: u64) -> varve_device::Result<()> {
        let end = offset.checked_add(length);
        let is_within = end.is_some_and(|end| end <= self.volume.wanted_size());
        if is_within && offset.is_multiple_of(512) && length.is_multiple_of(512) {
            return Ok(());
        }
        Err(self.error(
            operation,
            offset,
            length,
            io::ErrorKind::InvalidInput.into(),
        ))
    }

    fn read_once(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let places = self.volume.layers().read(offset, buffer);
        in_order(&places, |(to, length, place)| {
            self.volume
                .read_place(*place, &mut buffer[*to..*to + *length])
        })
    }
}

fn in_order<T>(all: &[T], each: impl FnMut(&T) -> Result<()>) -> Result<()> {
    all.iter().try_for_each(each)
}

impl Device for ObjectDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.volume.wanted_size(),
            logical_block: 512,
            physical_block: 4096,
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        let length = buffer.len() as u64;
        self.check(Operation::Read, offset, length)?;
        loop {
            match self.read_once(offset, buffer) {
                Ok(()) => return Ok(()),
                // An object that died meanwhile: its bytes are elsewhere now.
                Err(Error::Missing { .. }) if self.has_moved(offset, length) => {}
                Err(error) => return Err(self.failed(Operation::Read, offset, length, error)),
            }
        }
    }

    fn write(&self, offset: u64, buffers: &[io::IoSlice<'_>]) -> varve_device::Result<()> {
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.check(Operation::Write, offset, length)?;
        let failed = |error| self.failed(Operation::Write, offset, length, error);
        let Some(_) = &self.chain else {
            return Err(failed(Error::ReadOnly(self.volume.requester().name())));
        };
        // Memory is bounded: a writer that would fill it makes a log object before.
        let full = {
            let layers = self.volume.layers();
            let bytes = layers.fresh_bytes;
            let is_full = bytes > 0 && bytes + length > self.volume.settings().memory_bytes;
            is_full.then_some(layers.changes)
        };
        if let Some(changes) = full {
            self.flushed(changes).map_err(failed)?;
        }
        let mut data = Vec::with_capacity(length as usize);
        buffers.iter().for_each(|part| data.extend_from_slice(part));
        self.volume.layers().write(offset, data);
        Ok(())
    }

    fn flush(&self) -> varve_device::Result<()> {
        let wanted = self.volume.layers().changes;
        let failed = |error| self.failed(Operation::Flush, 0, 0, error);
        if self.chain.is_none() {
            return Ok(());
        }
        self.flushed(wanted).map_err(failed)
    }

    fn discard(&self, offset: u64, length: u64) -> varve_device::Result<()> {
        self.check(Operation::Discard, offset, length)?;
        if length > 0 && self.chain.is_some() {
            self.volume.layers().discard(offset, length);
        }
        Ok(())
    }

    fn extent(&self, offset: u64, length: u64) -> varve_device::Result<Extent> {
        self.check(Operation::Read, offset, length)?;
        let (hole, length) = self.volume.layers().extent(offset, length);
        Ok(Extent { length, hole })
    }

    fn set_size(&self, size: Option<u64>) -> varve_device::Result<u64> {
        let Some(size) = size.filter(|size| *size != self.volume.wanted_size()) else {
            return Ok(self.volume.wanted_size());
        };
        let failed = |error| self.failed(Operation::Resize, 0, size, error);
        if size == 0 || !size.is_multiple_of(512) || size > 1 << 60 {
            return Err(self.error(
                Operation::Resize,
                0,
                size,
                io::ErrorKind::InvalidInput.into(),
            ));
        }
        if self.chain.is_none() {
            return Err(failed(Error::ReadOnly(self.volume.requester().name())));
        }
        let wanted = {
            let mut layers = self.volume.layers();
            let present = self.volume.set_wanted_size(size);
            if size < present {
                let cut = layers.fresh.remove(size, present - size);
                layers.fresh_bytes -= crate::layers::bytes_of(&cut);
            }
            layers.changes += 1;
            layers.changes
        };
        self.flushed(wanted).map_err(failed)?;
        Ok(size)
    }

    fn name(&self) -> String {
        self.volume.requester().name()
    }
}

impl ObjectDevice {
    /// True if no place of a range is in an object that died.
    fn has_moved(&self, offset: u64, length: u64) -> bool {
        let layers = self.volume.layers();
        let mut places = layers.stored.places.within(offset, length);
        places.all(|(_, _, place)| layers.stored.objects.contains_key(&place.object))
    }
}

impl Drop for ObjectDevice {
    fn drop(&mut self) {
        if let Some(chain) = &self.chain
            && let Err(error) = self.end(&mut chain.lock())
        {
            tracing::warn!(%error, "the end of a writer could not be stored");
        }
    }
}

impl Holder {
    /// This process.
    pub fn this() -> Self {
        Holder::of(std::process::id())
    }

    /// A process of this host.
    pub fn of(process: u32) -> Self {
        Holder {
            host: host_name(),
            boot: boot_id(),
            process,
            started: process_start(process).unwrap_or(0),
        }
    }

    /// True if the process is known to have ended: it was one of this boot of this host.
    pub fn has_ended(&self) -> bool {
        let boot = boot_id();
        let is_here = !boot.is_empty() && boot == self.boot;
        is_here && process_start(self.process) != Some(self.started)
    }
}
