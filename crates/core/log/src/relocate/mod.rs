//! A write that failed for good is retried elsewhere in the log.
//!
//! The partial's place follows from its predecessor alone (protocol rule 8),
//! so the partial itself cannot go elsewhere. What lives in it can: the log
//! leaves the segment, everything live in that is moved as the cleaner moves
//! it, and a checkpoint lets recovery start behind the hole. Until then
//! nothing behind the hole counts as durable ([`crate::durability`]).

mod spilled;

use crate::durability::{Durability, InFlight};
use crate::error::{Error, Result};
use crate::format::SECTOR;
use crate::geometry::Geometry;
use crate::locks::RankedMutex;
use crate::log::LogState;
use crate::mechanism::Mechanism;
use crate::newest::Newest;
use crate::reader::Reader;
use crate::segments::SegmentTable;
use crate::statistics::Counters;
use crate::volume::Volume;
use crate::writer::Writer;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Times that moving what failed may fail itself before the volume stops.
pub(crate) const ROUNDS: u32 = 16;

/// Writes elsewhere what the device refused.
pub struct Relocation {
    writer: Arc<Writer>,
    mechanism: Arc<Mechanism>,
    counters: Arc<Counters>,
    durability: Arc<Durability>,
    geometry: Arc<Newest<Geometry>>,
    log: Arc<RankedMutex<LogState>>,
    reader: Arc<Reader>,
    segments: Arc<RankedMutex<SegmentTable>>,
}

impl Relocation {
    /// The relocation of a volume.
    pub(crate) fn new(volume: &Volume, writer: &Arc<Writer>, mechanism: &Arc<Mechanism>) -> Self {
        Relocation {
            writer: Arc::clone(writer),
            mechanism: Arc::clone(mechanism),
            counters: Arc::clone(&volume.counters),
            durability: Arc::clone(&volume.durability),
            geometry: Arc::clone(&volume.geometry),
            log: Arc::clone(&volume.log),
            reader: Arc::clone(&volume.reader),
            segments: Arc::clone(&volume.segments),
        }
    }

    /// Moves what lives in segments where a write has failed. The caller is
    /// about to take a checkpoint.
    ///
    /// # Errors
    /// If writes keep failing; the volume takes no more of them.
    pub(crate) fn relocate_failed(&self) -> Result<()> {
        for _ in 0..ROUNDS {
            let failed = self.durability.failed_partials();
            let Some(first) = failed.first() else {
                return Ok(());
            };
            let of = |sector| self.geometry.segment_of(sector);
            let segment = of(first.sector).expect("the log writes into segments");
            self.leave_segment(segment);
            let sectors = self.sectors_of(segment);
            self.durability.settle(sectors.clone());
            let failed = self.durability.failed_partials();
            self.respill(segment)?;
            self.move_live(segment)?;
            let failed = failed.iter().filter(|p| sectors.contains(&p.sector));
            for partial in failed {
                // What it has put into holes lives there.
                let plugged: BTreeSet<u32> = partial
                    .plugs
                    .iter()
                    .filter_map(|(sector, _)| of(*sector))
                    .collect();
                self.move_plugs(partial, segment)?;
                let mut segments = self.segments.lock();
                plugged
                    .into_iter()
                    .for_each(|segment| segments.unmapped(segment));
                segments.log_is_cut();
                drop(segments);
                self.durability.give_up(partial.serial);
                self.counters.relocated_partials.fetch_add(1, Relaxed);
            }
            tracing::warn!(
                segment,
                "what could not be written there is written elsewhere"
            );
        }
        if self.durability.failed_partials().is_empty() {
            return Ok(());
        }
        Err(self.give_in())
    }

    /// Copies everything live in `segment`, of which failed partials are in
    /// memory only.
    fn move_live(&self, segment: u32) -> Result<()> {
        for _ in 0..ROUNDS {
            let contents = self.mechanism.read_segment(segment)?;
            let found = self.mechanism.bmapv(&contents)?;
            if self.mechanism.markv(found)?.is_some() {
                return Ok(());
            }
        }
        Err(self.give_in())
    }

    /// Copies what lives of the plugs of a failed partial, which is at its head
    /// in `segment`. What else lives where they were to stand is on the device.
    fn move_plugs(&self, partial: &InFlight, segment: u32) -> Result<()> {
        if partial.plugs.is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let plugs = self.mechanism.plugs_of(partial, segment)?;
            let found = self.mechanism.bmapv(&plugs)?;
            if found.damaged > 0 {
                break;
            }
            if self.mechanism.markv(found)?.is_some() {
                return Ok(());
            }
        }
        Err(self.give_in())
    }

    fn sectors_of(&self, segment: u32) -> Range<u64> {
        let start = self.geometry.byte(segment, 0) / SECTOR;
        start..start + u64::from(self.geometry.segment_bytes) / SECTOR
    }

    /// The log goes on in another segment.
    fn leave_segment(&self, segment: u32) {
        self.log.lock().end.leave(segment, &self.geometry);
    }

    pub(crate) fn give_in(&self) -> Error {
        let reason = format!(
            "writes to the log keep failing: {}",
            self.durability.failure()
        );
        self.durability.stop(reason.clone());
        Error::Stopped(reason)
    }
}
