//! A writable device over one that must not be written.
//!
//! Writes are kept in memory, in units of [`UNIT`] bytes. Memory: all bytes written.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::sync::RwLock;
use varve_device::{Device, DeviceError, Geometry};

/// Bytes per unit of the overlay; every volume's write unit is a multiple.
const UNIT: u64 = 4096;

type DeviceResult<T> = Result<T, DeviceError>;

/// The device below, and the units written over it.
#[derive(Debug)]
pub struct Overlay {
    below: Arc<dyn Device>,
    written: RwLock<HashMap<u64, Box<[u8]>>>,
}

impl Overlay {
    /// Returns an overlay without writes.
    pub fn new(below: Arc<dyn Device>) -> Self {
        Overlay {
            below,
            written: RwLock::default(),
        }
    }

    /// Reads a unit of the device below, padded with zeros behind the device's end.
    fn fetch(&self, unit: u64) -> DeviceResult<Box<[u8]>> {
        let mut bytes = vec![0; UNIT as usize].into_boxed_slice();
        let start = unit * UNIT;
        let there = self.geometry().size.saturating_sub(start).min(UNIT);
        self.below.read(start, &mut bytes[..there as usize])?;
        Ok(bytes)
    }
}

impl Device for Overlay {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> DeviceResult<()> {
        let units = offset / UNIT..(offset + buffer.len() as u64).div_ceil(UNIT);
        let covered = {
            let written = self.written.read();
            units.clone().all(|unit| written.contains_key(&unit))
        };
        // Written units need not be readable below.
        if !covered {
            self.below.read(offset, buffer)?;
        }
        let written = self.written.read();
        if written.is_empty() {
            return Ok(());
        }
        let end = offset + buffer.len() as u64;
        for unit in units {
            if let Some(bytes) = written.get(&unit) {
                let from = (unit * UNIT).max(offset);
                let to = ((unit + 1) * UNIT).min(end);
                let target = &mut buffer[(from - offset) as usize..(to - offset) as usize];
                let source = (from - unit * UNIT) as usize;
                target.copy_from_slice(&bytes[source..source + target.len()]);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> DeviceResult<()> {
        let mut at = offset;
        for buffer in buffers {
            let mut rest: &[u8] = buffer;
            while !rest.is_empty() {
                let (unit, within) = (at / UNIT, (at % UNIT) as usize);
                let length = rest.len().min(UNIT as usize - within);
                let (part, behind) = rest.split_at(length);
                let known = self.written.read().contains_key(&unit);
                let fetched = match known || length == UNIT as usize {
                    true => vec![0; UNIT as usize].into_boxed_slice(),
                    false => self.fetch(unit)?,
                };
                let mut written = self.written.write();
                let bytes = written.entry(unit).or_insert(fetched);
                bytes[within..within + length].copy_from_slice(part);
                at += length as u64;
                rest = behind;
            }
        }
        Ok(())
    }

    fn flush(&self) -> DeviceResult<()> {
        Ok(())
    }

    fn name(&self) -> String {
        self.below.name()
    }
}
