//! What the transaction in the making has written, for its records to name:
//! runs of units behind each other, each with one checksum.
//!
//! A run may name only what stays as it is until the next transaction is
//! durable: recovery compares it as long as its transaction is the newest.
//! Data that a later group of the same transaction replaces is free as soon as
//! this one is durable, so it is taken out of the runs when it is given up.

use crate::format::Run;
use std::collections::BTreeMap;
use varve_device::{Crc32c, crc32c};

/// Units behind each other.
struct OpenRun {
    units: u32,
    crc: Crc32c,
    /// A part has been given up: what is left is named block by block.
    broken: bool,
}

/// See the module's head.
#[derive(Default)]
pub struct Runs {
    /// By first unit.
    open: BTreeMap<u64, OpenRun>,
    /// Units and checksum of each block of data, by its first unit.
    data: BTreeMap<u64, (u32, u32)>,
}

impl Runs {
    /// `units` units at `unit` hold `bytes` now: an inode or an index node,
    /// which is written when its transaction is sealed.
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

    /// The same of data, which may be given up before that.
    pub fn data(&mut self, unit: u64, units: u32, bytes: &[u8]) {
        self.data.insert(unit, (units, crc32c(bytes)));
        self.metadata(unit, units, bytes);
    }

    /// The tree no longer uses what is at `unit`.
    pub fn give_up(&mut self, unit: u64) {
        if self.data.remove(&unit).is_some()
            && let Some((_, run)) = self.open.range_mut(..=unit).next_back()
        {
            run.broken = true;
        }
    }

    /// What the records are to name.
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

    /// The next transaction begins.
    pub fn clear(&mut self) {
        *self = Runs::default();
    }
}
