//! The runs of units that the present transaction has written, each with one checksum.
//! The transaction's records will name them.
//!
//! A run may name only units that do not change until the next transaction is durable,
//! because recovery compares them as long as this transaction is the newest. Data that
//! a later group of the same transaction replaces is free as soon as this one is
//! durable, so it is removed from the runs when it is given up.

use crate::format::Run;
use std::collections::BTreeMap;
use varve_device::{Crc32c, crc32c};

/// A run of adjacent units.
struct OpenRun {
    units: u32,
    crc: Crc32c,
    /// True if a part has been given up: the rest is named block by block.
    broken: bool,
}

/// The runs of the present transaction.
#[derive(Default)]
pub struct Runs {
    /// The runs by first unit.
    open: BTreeMap<u64, OpenRun>,
    /// Number of units and checksum of each block of data, by its first unit.
    data: BTreeMap<u64, (u32, u32)>,
}

impl Runs {
    /// Adds `units` units at `unit` with the content `bytes`: an inode or an index
    /// node, which is written when its transaction is sealed.
    pub fn metadata(&mut self, unit: u64, units: u32, bytes: &[u8]) {
        let before = self.open.range_mut(..unit).next_back();
        let goes_on =
            |first: u64, run: &OpenRun| !run.broken && first + u64::from(run.units) == unit;
        match before.filter(|(first, run)| goes_on(**first, run)) {
            Some((_, run)) => {
                run.units += units;
                run.crc.update(bytes);
            }
            None => {
                let mut crc = Crc32c::default();
                crc.update(bytes);
                let run = OpenRun {
                    units,
                    crc,
                    broken: false,
                };
                self.open.insert(unit, run);
            }
        }
    }

    /// Adds the units of data, which may be given up before the transaction is durable.
    pub fn data(&mut self, unit: u64, units: u32, bytes: &[u8]) {
        self.data.insert(unit, (units, crc32c(bytes)));
        self.metadata(unit, units, bytes);
    }

    /// Records that the tree no longer uses the data at `unit`.
    pub fn give_up(&mut self, unit: u64) {
        if self.data.remove(&unit).is_some()
            && let Some((_, run)) = self.open.range_mut(..=unit).next_back()
        {
            run.broken = true;
        }
    }

    /// Returns the runs for the records to name.
    pub fn named(&self) -> Vec<Run> {
        let run = |unit: u64, units: u32, crc: u32| Run {
            unit: (unit as u32).into(),
            units: units.into(),
            crc: crc.into(),
        };
        let mut named = Vec::with_capacity(self.open.len());
        for (&first, open) in &self.open {
            if open.broken {
                let left = self.data.range(first..first + u64::from(open.units));
                named.extend(left.map(|(&unit, &(units, crc))| run(unit, units, crc)));
            } else {
                named.push(run(first, open.units, open.crc.value()));
            }
        }
        named
    }

    /// Begins the next transaction.
    pub fn clear(&mut self) {
        *self = Runs::default();
    }
}
