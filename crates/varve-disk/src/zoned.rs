//! Sequential-write zones over any device: write pointers and resets.
//!
//! Rules: a zone is written at its write pointer, in order, to its end; it is
//! begun anew after a reset; only so many zones may be partly written. A
//! discard resets the zones that lie wholly within its range and ignores the
//! rest. Beyond the write pointer a zone reads as zeros.

use std::io::IoSlice;

use parking_lot::Mutex;
use varve_device::{Device, Geometry, Operation, Result, Zones, check_request, total_length};

use crate::disk::invalid;

/// A zone's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneState {
    /// Nothing is written.
    Empty,
    /// Partly written: counts against the limit.
    Open,
    /// Written to its end, or finished.
    Full,
}

/// One zone, as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneReport {
    /// The next byte to be written, from the beginning of the device; at the
    /// zone's end when it is full.
    pub write_pointer: u64,
    /// Whether it can be written.
    pub state: ZoneState,
}

/// Why a device cannot be divided into zones.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{device}: {size_bytes} bytes in blocks of {block_bytes} do not divide into zones of \
     {zone_bytes}; choose a zone size that is a multiple of the block and divides the size"
)]
pub struct ZoneError {
    /// The device's name.
    pub device: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its logical block.
    pub block_bytes: u32,
    /// The zones asked for.
    pub zone_bytes: u64,
}

/// A device with zones.
#[derive(Debug)]
pub struct ZonedDevice<D: Device> {
    inner: D,
    zones: Zones,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Bytes written of each zone.
    written: Vec<u64>,
    open: u32,
    resets: u64,
}

impl<D: Device> ZonedDevice<D> {
    /// Divides `inner` into empty zones.
    ///
    /// # Errors
    /// When it does not divide.
    pub fn new(inner: D, zones: Zones) -> std::result::Result<Self, ZoneError> {
        let Geometry {
            size,
            logical_block,
            ..
        } = inner.geometry();
        let zone_bytes = zones.zone_bytes;
        let fits = zone_bytes > 0
            && zone_bytes.is_multiple_of(u64::from(logical_block))
            && size.is_multiple_of(zone_bytes);
        if !fits {
            return Err(ZoneError {
                device: inner.name(),
                size_bytes: size,
                block_bytes: logical_block,
                zone_bytes,
            });
        }
        Ok(ZonedDevice {
            state: Mutex::new(State {
                written: vec![0; (size / zone_bytes) as usize],
                open: 0,
                resets: 0,
            }),
            inner,
            zones,
        })
    }

    /// What keeps the bytes.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Every zone, in order.
    pub fn report(&self) -> Vec<ZoneReport> {
        let zone_bytes = self.zones.zone_bytes;
        let state = self.state.lock();
        let zone = |(nth, &written): (usize, &u64)| ZoneReport {
            write_pointer: nth as u64 * zone_bytes + written,
            state: match written {
                0 => ZoneState::Empty,
                all if all == zone_bytes => ZoneState::Full,
                _ => ZoneState::Open,
            },
        };
        state.written.iter().enumerate().map(zone).collect()
    }

    /// Resets so far.
    pub fn resets(&self) -> u64 {
        self.state.lock().resets
    }

    /// Empties the zone that byte `offset` begins.
    ///
    /// # Errors
    /// When no zone begins there, or the medium refuses.
    pub fn reset(&self, offset: u64) -> Result<()> {
        let nth = self.zone_at(Operation::Discard, offset)?;
        let mut state = self.state.lock();
        self.inner.discard(offset, self.zones.zone_bytes)?;
        let written = std::mem::take(&mut state.written[nth]);
        state.open -= u32::from(self.is_open(written));
        state.resets += 1;
        Ok(())
    }

    /// Makes the zone that byte `offset` begins full, whatever is written of it.
    ///
    /// # Errors
    /// When no zone begins there.
    pub fn finish(&self, offset: u64) -> Result<()> {
        let nth = self.zone_at(Operation::Write, offset)?;
        let mut state = self.state.lock();
        let written = std::mem::replace(&mut state.written[nth], self.zones.zone_bytes);
        state.open -= u32::from(self.is_open(written));
        Ok(())
    }

    fn is_open(&self, written: u64) -> bool {
        written > 0 && written < self.zones.zone_bytes
    }

    fn zone_at(&self, operation: Operation, offset: u64) -> Result<usize> {
        let zone_bytes = self.zones.zone_bytes;
        check_request(self, operation, offset, zone_bytes)?;
        if offset.is_multiple_of(zone_bytes) {
            return Ok((offset / zone_bytes) as usize);
        }
        let reason = format!("no zone of {zone_bytes} bytes begins there");
        Err(invalid(self, operation, offset, zone_bytes, reason))
    }
}

impl<D: Device> Device for ZonedDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_request(self, Operation::Read, offset, buffer.len() as u64)?;
        let zone_bytes = self.zones.zone_bytes;
        // Held while reading: a reset meanwhile would give half of each.
        let state = self.state.lock();
        self.inner.read(offset, buffer)?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (nth, within) = ((at / zone_bytes) as usize, at % zone_bytes);
            let here = (zone_bytes - within).min(rest.len() as u64);
            let (part, tail) = rest.split_at_mut(here as usize);
            let sound = state.written[nth].saturating_sub(within).min(here);
            part[sound as usize..].fill(0);
            (at, rest) = (at + here, tail);
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let zone_bytes = self.zones.zone_bytes;
        let (nth, within) = ((offset / zone_bytes) as usize, offset % zone_bytes);
        let mut state = self.state.lock();
        let written = state.written[nth];
        let opens = written == 0 && length < zone_bytes;
        let reason = if within != written {
            let pointer = nth as u64 * zone_bytes + written;
            format!("zone {nth} has its write pointer at byte {pointer}; write there, or reset it")
        } else if within + length > zone_bytes {
            format!("the write reaches beyond zone {nth}; split it")
        } else if opens && self.zones.max_open > 0 && state.open >= self.zones.max_open {
            let open = state.open;
            format!("{open} zones are open, and no more may be; finish or reset one")
        } else {
            self.inner.write(offset, buffers)?;
            state.open += u32::from(opens);
            state.written[nth] = within + length;
            state.open -= u32::from(self.is_open(written) && within + length == zone_bytes);
            return Ok(());
        };
        Err(invalid(self, Operation::Write, offset, length, reason))
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        let zone_bytes = self.zones.zone_bytes;
        let whole = offset.div_ceil(zone_bytes)..(offset + length) / zone_bytes;
        whole
            .into_iter()
            .try_for_each(|nth| self.reset(nth * zone_bytes))
    }

    fn zones(&self) -> Option<Zones> {
        Some(self.zones)
    }

    fn name(&self) -> String {
        format!("zoned {}", self.inner.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_device::MemoryDevice;

    const ZONE: u64 = 64 << 10;

    fn device(max_open: u32) -> ZonedDevice<MemoryDevice> {
        let zones = Zones {
            zone_bytes: ZONE,
            max_open,
        };
        ZonedDevice::new(MemoryDevice::new(8 * ZONE), zones).unwrap()
    }

    fn write(device: &ZonedDevice<MemoryDevice>, offset: u64, length: u64) -> Result<()> {
        device.write(offset, &[IoSlice::new(&vec![9; length as usize])])
    }

    #[test]
    fn zones_are_written_in_order_and_anew_after_a_reset() {
        let device = device(0);
        write(&device, ZONE, 4096).unwrap();
        for offset in [ZONE, ZONE + 8192, 4096] {
            let error = write(&device, offset, 4096).unwrap_err();
            assert!(error.to_string().contains("write pointer"), "{error}");
        }
        write(&device, ZONE + 4096, ZONE - 4096).unwrap();
        assert_eq!(device.report()[1].state, ZoneState::Full);
        assert!(write(&device, 2 * ZONE, ZONE + 512).is_err());
        device.discard(ZONE - 4096, ZONE + 8192).unwrap();
        assert_eq!(device.resets(), 1);
        let report = device.report()[1];
        assert_eq!(
            (report.state, report.write_pointer),
            (ZoneState::Empty, ZONE)
        );
        let mut read = vec![1; ZONE as usize];
        device.read(ZONE, &mut read).unwrap();
        assert!(read.iter().all(|&byte| byte == 0));
        write(&device, ZONE, 512).unwrap();
    }

    #[test]
    fn only_so_many_zones_are_open() {
        let device = device(2);
        write(&device, 0, 4096).unwrap();
        write(&device, ZONE, 4096).unwrap();
        let error = write(&device, 2 * ZONE, 4096).unwrap_err();
        assert!(error.to_string().contains("finish or reset"), "{error}");
        // A zone written whole is never open.
        write(&device, 3 * ZONE, ZONE).unwrap();
        device.finish(0).unwrap();
        write(&device, 2 * ZONE, 4096).unwrap();
        write(&device, ZONE + 4096, ZONE - 4096).unwrap();
        write(&device, 4 * ZONE, 4096).unwrap();
        assert!(write(&device, 5 * ZONE, 4096).is_err());
        device.reset(4 * ZONE).unwrap();
        write(&device, 5 * ZONE, 4096).unwrap();
    }

    #[test]
    fn what_does_not_divide_is_refused() {
        for zone_bytes in [0, 1000, 3 << 10, 7 * 512] {
            let zones = Zones {
                zone_bytes,
                max_open: 0,
            };
            let error = ZonedDevice::new(MemoryDevice::new(1 << 20), zones).unwrap_err();
            assert_eq!(error.zone_bytes, zone_bytes);
        }
        let device = device(0);
        assert!(device.reset(512).is_err() && device.reset(8 * ZONE).is_err());
        assert_eq!(device.zones().map(|zones| zones.zone_bytes), Some(ZONE));
    }
}
