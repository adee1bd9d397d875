//! Sequential-write zones over any device: the rules of `zones`, enforced.
//!
//! A discard resets the zones that lie wholly within its range and ignores the
//! rest. Beyond the write pointer a zone reads as zeros.

use std::io::IoSlice;

use parking_lot::Mutex;
use varve_device::{Device, Geometry, Operation, Result, Zones, check_request, total_length};

use crate::disk::invalid;
use crate::zones::{ZoneModel, ZoneRefusal, ZoneReport};

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
    model: Mutex<ZoneModel>,
}

impl<D: Device> ZonedDevice<D> {
    /// Divides `inner` into empty zones, none of them conventional.
    ///
    /// # Errors
    /// When it does not divide.
    pub fn new(inner: D, zones: Zones) -> std::result::Result<Self, ZoneError> {
        Self::with_conventional(inner, zones, |_| false)
    }

    /// Divides `inner` into empty zones, of which those that it says by their
    /// number are conventional.
    ///
    /// # Errors
    /// When it does not divide.
    pub fn with_conventional(
        inner: D,
        zones: Zones,
        conventional: impl Fn(usize) -> bool,
    ) -> std::result::Result<Self, ZoneError> {
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
        let count = (size / zone_bytes) as usize;
        Ok(ZonedDevice {
            model: Mutex::new(ZoneModel::new(zones, count, conventional)),
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
        self.model.lock().report()
    }

    /// Resets so far.
    pub fn resets(&self) -> u64 {
        self.model.lock().resets()
    }

    /// Empties the zone that byte `offset` begins; a conventional one stays as
    /// it is.
    ///
    /// # Errors
    /// When no zone begins there, or the medium refuses.
    pub fn reset(&self, offset: u64) -> Result<()> {
        let nth = self.zone_at(Operation::Discard, offset)?;
        let mut model = self.model.lock();
        if model.is_sequential(nth) {
            self.inner.discard(offset, self.zones.zone_bytes)?;
            model.reset(nth);
        }
        Ok(())
    }

    /// Makes the zone that byte `offset` begins full, whatever is written of it.
    ///
    /// # Errors
    /// When no zone begins there.
    pub fn finish(&self, offset: u64) -> Result<()> {
        let nth = self.zone_at(Operation::Write, offset)?;
        self.model.lock().finish(nth);
        Ok(())
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
        let model = self.model.lock();
        self.inner.read(offset, buffer)?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (nth, within) = ((at / zone_bytes) as usize, at % zone_bytes);
            let here = (zone_bytes - within).min(rest.len() as u64);
            let (part, tail) = rest.split_at_mut(here as usize);
            let sound = model.sound_bytes(nth).saturating_sub(within).min(here);
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
        let mut model = self.model.lock();
        let refused = |reason: ZoneRefusal| {
            invalid(self, Operation::Write, offset, length, reason.to_string())
        };
        model.check(offset, length).map_err(refused)?;
        // What the medium refuses has not moved the pointer.
        self.inner.write(offset, buffers)?;
        model.write(offset, length).map_err(refused)
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
    use crate::zones::ZoneState;
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
