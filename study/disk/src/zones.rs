//! The rules of sequential-write zones, without bytes.
//!
//! A zone is written at its write pointer, in order, to its end; it is begun
//! anew after a reset; only so many zones may be partly written. Conventional
//! zones, which real devices have a few of, are written anywhere and never
//! reset.

use varve_device::Zones;

/// A zone's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneState {
    /// Nothing is written.
    Empty,
    /// Partly written: counts against the limit.
    Open,
    /// Written to its end, or finished.
    Full,
    /// Has no write pointer.
    Conventional,
}

/// One zone, as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneReport {
    /// The next byte to be written, from the beginning of the device; at the
    /// zone's end when it is full, and of a conventional zone.
    pub write_pointer: u64,
    /// Whether it can be written.
    pub state: ZoneState,
}

/// Why zones refuse a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ZoneRefusal {
    /// It begins elsewhere.
    #[error("zone {zone} has its write pointer at byte {pointer}; write there, or reset it")]
    WritePointer {
        /// Which.
        zone: usize,
        /// Where it would have to begin.
        pointer: u64,
    },
    /// It ends in the next zone.
    #[error("the write reaches beyond zone {zone}; split it")]
    Beyond {
        /// Where it begins.
        zone: usize,
    },
    /// Too many zones are partly written.
    #[error("{open} zones are open, and no more may be; finish or reset one")]
    TooManyOpen {
        /// How many.
        open: u32,
    },
}

/// Write pointers and states of all zones of a device.
#[derive(Debug, Clone)]
pub struct ZoneModel {
    zones: Zones,
    /// Bytes written of each zone; `None` of conventional ones.
    written: Vec<Option<u64>>,
    open: u32,
    resets: u64,
}

impl ZoneModel {
    /// So many empty zones, of which those that it says are conventional.
    ///
    /// # Panics
    /// If zones have no bytes.
    pub fn new(zones: Zones, count: usize, conventional: impl Fn(usize) -> bool) -> Self {
        assert!(zones.zone_bytes > 0, "{zones:?}");
        let written = (0..count).map(|nth| (!conventional(nth)).then_some(0));
        ZoneModel {
            zones,
            written: written.collect(),
            open: 0,
            resets: 0,
        }
    }

    /// Their size, and the limit.
    pub fn zones(&self) -> Zones {
        self.zones
    }

    /// Every zone, in order.
    pub fn report(&self) -> Vec<ZoneReport> {
        let zone_bytes = self.zones.zone_bytes;
        let zone = |(nth, written): (usize, &Option<u64>)| ZoneReport {
            write_pointer: nth as u64 * zone_bytes + written.unwrap_or(zone_bytes),
            state: match *written {
                None => ZoneState::Conventional,
                Some(0) => ZoneState::Empty,
                Some(all) if all == zone_bytes => ZoneState::Full,
                Some(_) => ZoneState::Open,
            },
        };
        self.written.iter().enumerate().map(zone).collect()
    }

    /// Zones that are partly written.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Resets so far.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Whether a zone has a write pointer.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn is_sequential(&self, zone: usize) -> bool {
        self.written[zone].is_some()
    }

    /// Bytes from the beginning of a zone that hold what was written: all of a
    /// conventional one.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn sound_bytes(&self, zone: usize) -> u64 {
        self.written[zone].unwrap_or(self.zones.zone_bytes)
    }

    /// Asks for a write, without doing it.
    ///
    /// # Errors
    /// Why it is none.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn check(&self, offset: u64, length: u64) -> Result<(), ZoneRefusal> {
        let zone_bytes = self.zones.zone_bytes;
        let (zone, within) = ((offset / zone_bytes) as usize, offset % zone_bytes);
        let Some(written) = self.written[zone] else {
            // It may go on in the next one if that is conventional, too.
            let last = ((offset + length.max(1) - 1) / zone_bytes) as usize;
            let all = self.written[zone..=last].iter().all(Option::is_none);
            return match all {
                true => Ok(()),
                false => Err(ZoneRefusal::Beyond { zone }),
            };
        };
        let max_open = self.zones.max_open;
        let opens = written == 0 && length < zone_bytes;
        if within != written {
            let pointer = zone as u64 * zone_bytes + written;
            Err(ZoneRefusal::WritePointer { zone, pointer })
        } else if within + length > zone_bytes {
            Err(ZoneRefusal::Beyond { zone })
        } else if opens && max_open > 0 && self.open >= max_open {
            Err(ZoneRefusal::TooManyOpen { open: self.open })
        } else {
            Ok(())
        }
    }

    /// Writes.
    ///
    /// # Errors
    /// Those of [`ZoneModel::check`]; nothing has changed then.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn write(&mut self, offset: u64, length: u64) -> Result<(), ZoneRefusal> {
        self.check(offset, length)?;
        let zone = (offset / self.zones.zone_bytes) as usize;
        if let Some(written) = self.written[zone] {
            self.set(zone, written + length);
        }
        Ok(())
    }

    /// Empties a zone; a conventional one stays as it is.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn reset(&mut self, zone: usize) {
        if self.is_sequential(zone) {
            self.set(zone, 0);
            self.resets += 1;
        }
    }

    /// Makes a zone full, whatever is written of it.
    ///
    /// # Panics
    /// If there is no such zone.
    pub fn finish(&mut self, zone: usize) {
        if self.is_sequential(zone) {
            self.set(zone, self.zones.zone_bytes);
        }
    }

    fn set(&mut self, zone: usize, bytes: u64) {
        let partly = 1..self.zones.zone_bytes;
        let before = self.written[zone].replace(bytes);
        let was_open = before.is_some_and(|bytes| partly.contains(&bytes));
        self.open -= u32::from(was_open);
        self.open += u32::from(partly.contains(&bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(max_open: u32) -> ZoneModel {
        let zones = Zones {
            zone_bytes: 100,
            max_open,
        };
        ZoneModel::new(zones, 6, |zone| zone < 2)
    }

    #[test]
    fn conventional_zones_are_written_anywhere_and_never_reset() {
        let mut zones = zones(1);
        for (offset, length) in [(50, 10), (10, 10), (0, 200), (90, 20)] {
            zones.write(offset, length).unwrap();
        }
        assert_eq!(
            zones.write(190, 20),
            Err(ZoneRefusal::Beyond { zone: 1 }),
            "behind it is a sequential one"
        );
        zones.reset(0);
        assert_eq!((zones.resets(), zones.open()), (0, 0));
        assert_eq!(zones.sound_bytes(0), 100);
        let states: Vec<_> = zones.report().iter().map(|zone| zone.state).collect();
        assert_eq!(states[..3], {
            use ZoneState::{Conventional, Empty};
            [Conventional, Conventional, Empty]
        });
    }

    #[test]
    fn a_refused_write_changes_nothing_and_says_why() {
        let mut zones = zones(1);
        zones.write(200, 30).unwrap();
        let pointer = ZoneRefusal::WritePointer {
            zone: 2,
            pointer: 230,
        };
        assert_eq!(zones.write(200, 30), Err(pointer));
        assert_eq!(zones.write(240, 30), Err(pointer));
        assert_eq!(zones.write(230, 71), Err(ZoneRefusal::Beyond { zone: 2 }));
        assert_eq!(
            zones.write(300, 1),
            Err(ZoneRefusal::TooManyOpen { open: 1 })
        );
        // Whole at once, it is never open.
        zones.write(300, 100).unwrap();
        zones.write(230, 70).unwrap();
        assert_eq!(zones.open(), 0);
        zones.write(400, 1).unwrap();
        zones.finish(4);
        zones.write(500, 1).unwrap();
        zones.reset(5);
        zones.reset(2);
        zones.write(200, 100).unwrap();
        assert_eq!((zones.open(), zones.resets()), (0, 2));
    }
}
