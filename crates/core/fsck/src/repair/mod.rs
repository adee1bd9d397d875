//! Offline repair of the findings of a check, without guessing.
//!
//! It runs in rounds until a check finds nothing that has a remedy:
//!
//! 1. *Look* (`look`): the recovered state is checked phase by phase; each finding has
//!    its remedy (`Fix`).
//! 2. *Patch* (`mender`): unreadable metadata is reconstructed from summaries and read
//!    from then on. Look again.
//! 3. *Change* (`change`): the volume is mounted with the patches. The other remedies are
//!    appended to the log as ordinary groups (`session`): first storage, in later rounds
//!    names, finally segments and accounts.
//! 4. *Checkpoint*, as often as the ring has slots, so that every retained record
//!    describes the repaired volume.
//!
//! Invariants:
//! - No live block is overwritten. Until the first checkpoint record is written, the
//!   medium contains the damaged volume followed by ordinary groups; a crash at any point
//!   leaves a volume that can be repaired again.
//! - A volume without repairable findings is not written.
//!
//! Memory: that of a check, 32 bytes per partial segment, the content of one group or one
//! damaged directory, and 4 KiB per patch.

mod change;
mod evacuate;
pub(crate) mod evidence;
mod ifile;
mod images;
mod look;
mod mender;
mod names;
mod nodes;
mod placed;
mod remedies;
mod report;
mod session;
mod storage;
mod trace;

pub use report::{Action, RepairReport};

use crate::check::{CheckOptions, CheckReport, Findings, Fix, Phase, Survey, ring_and_copies};
use report::Actions;
use std::sync::Arc;
use varve_device::{Clock, Device};
use varve_format::identity::not_to_be_written;
use varve_lfs::format::Superblock;
use varve_lfs::format::superblock::KNOWN_READ_ONLY_COMPAT;
use varve_lfs::internal::{
    Counters, Durability, Parts, Reader, newest_superblock, write_superblocks,
};
use varve_lfs::{Error, Geometry, Result};

/// Largest number of rounds; each must have changed the findings.
const MAX_ROUNDS: usize = 64;
/// Bytes of decoded metadata in the cache.
const CACHE_BYTES: u64 = 16 << 20;

/// Options of a repair.
pub struct RepairOptions<'a> {
    /// Also verifies the checksum of every live block.
    pub data: bool,
    /// Applies only remedies that lose no user data.
    pub safe_only: bool,
    /// Identity for the owner record while the volume is written.
    pub owner: varve_lfs::OwnerIdentity,
    /// Seed of the mount's random identity, for reproducible runs.
    pub seed: Option<u64>,
    /// Callback like [`CheckOptions::progress`].
    pub progress: &'a dyn Fn(Phase, u64, u64),
}

impl Default for RepairOptions<'_> {
    fn default() -> Self {
        RepairOptions {
            data: true,
            safe_only: false,
            owner: varve_lfs::OwnerIdentity::default(),
            seed: None,
            progress: &|_, _, _| {},
        }
    }
}

impl std::fmt::Debug for RepairOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepairOptions")
            .field("data", &self.data)
            .field("safe_only", &self.safe_only)
            .finish_non_exhaustive()
    }
}

/// Repairs a volume that is not mounted.
///
/// # Errors
/// If no superblock or no checkpoint record is valid (salvage may still work), or the
/// device fails. All other damage is in the report.
pub fn repair(
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: &RepairOptions<'_>,
) -> Result<RepairReport> {
    let started_ns = clock.monotonic_ns();
    let mut repair = Repair {
        device,
        clock,
        options,
        actions: Actions::default(),
        refused: Vec::new(),
    };
    let mut before: Option<Vec<String>> = None;
    let mut rounds = 0;
    loop {
        let earlier = repair.actions.len();
        let (mut check, changed) = repair.round()?;
        let left: Vec<String> = (check.errors.iter().chain(&check.warnings))
            .map(|finding| format!("{} {}", finding.subject, finding.text))
            .chain(repair.actions.since(earlier))
            .collect();
        rounds += 1;
        let stuck = changed && (before.as_ref() == Some(&left) || rounds == MAX_ROUNDS);
        if stuck {
            let text = "what is left comes back after each round: salvage the volume";
            repair.refused.push(text.into());
        }
        if stuck || !changed {
            check.elapsed_ns = repair.clock.monotonic_ns().saturating_sub(started_ns);
            return Ok(RepairReport {
                actions: repair.actions.into_vec(),
                refused: repair.refused,
                check,
            });
        }
        before = Some(left);
    }
}

struct Repair<'a> {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: &'a RepairOptions<'a>,
    actions: Actions,
    refused: Vec<String>,
}

impl Repair<'_> {
    /// Runs one round. Returns the findings at its beginning, and true if something
    /// changed.
    fn round(&mut self) -> Result<(CheckReport, bool)> {
        let superblock = newest_superblock(&*self.device)?;
        let unknown = superblock.read_only_compat.get() & !KNOWN_READ_ONLY_COMPAT;
        if let Some(reason) = not_to_be_written(unknown) {
            return self.only_checked(&reason);
        }
        let (found, records) = ring_and_copies(&*self.device, &superblock)?;
        let mut changed = self.superblock_copies(&superblock, &found)?;
        let geometry = Geometry::from(&superblock);
        let durability = Arc::new(Durability::default());
        let counters = Arc::new(Counters::default());
        let reader = Reader::new(
            Arc::clone(&self.device),
            geometry,
            CACHE_BYTES,
            Arc::clone(&durability),
            Arc::clone(&counters),
        );
        let Some(looked) = self.look(&reader, &superblock, &records, found)? else {
            return self.only_checked("no checkpoint record can be used: salvage the volume");
        };
        let check = report_of(&looked.survey);
        if looked.survey.found.fixes.is_empty() && !looked.touched.any() {
            return Ok((check, changed));
        }
        let fixes = &looked.survey.found.fixes;
        let unsafe_fix = fixes.iter().find(|fix| !fix.is_safe());
        if self.options.safe_only && (unsafe_fix.is_some() || looked.touched.any()) {
            self.refused.push(
                "what is left needs a decision: run varve fsck --repair on the volume".into(),
            );
            return Ok((check, false));
        }
        let only_copies = fixes
            .iter()
            .all(|fix| matches!(fix, Fix::Superblock { .. }));
        if only_copies && !looked.touched.any() {
            return Ok((check, changed));
        }
        let parts = Parts {
            device: Arc::clone(&self.device),
            clock: Arc::clone(&self.clock),
            superblock,
            reader,
            durability,
            counters,
        };
        match self.change(parts, &looked) {
            Ok(()) => changed = true,
            Err(Error::OutOfSegments) => {
                self.refused.push(
                    "the volume has no room left to mend it: salvage it to another one".into(),
                );
                changed = false;
            }
            Err(error @ Error::Damaged { .. }) => {
                self.refused
                    .push(format!("{error}: salvage the volume to another one"));
                changed = false;
            }
            Err(error) => return Err(error),
        }
        Ok((check, changed))
    }

    /// Returns the result if the volume cannot be repaired at all.
    fn only_checked(&mut self, why: &str) -> Result<(CheckReport, bool)> {
        let options = CheckOptions::default();
        let (device, clock) = (Arc::clone(&self.device), Arc::clone(&self.clock));
        let check = crate::check::check(device, clock, &options)?;
        self.refused.push(why.into());
        Ok((check, false))
    }

    fn superblock_copies(&mut self, superblock: &Superblock, found: &Findings) -> Result<bool> {
        let offsets: Vec<u64> = found
            .fixes
            .iter()
            .filter_map(|fix| match fix {
                Fix::Superblock { offset } => Some(*offset),
                _ => None,
            })
            .collect();
        if offsets.is_empty() {
            return Ok(false);
        }
        write_superblocks(&*self.device, superblock, offsets.clone())?;
        for offset in offsets {
            self.actions
                .mended(format!("the superblock copy at byte {offset}"));
        }
        Ok(true)
    }
}

fn report_of(survey: &Survey) -> CheckReport {
    let recovery = survey.state.report.clone();
    survey.found.report(survey.counts, recovery, 0)
}
