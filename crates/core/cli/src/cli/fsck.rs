//! `varve fsck`: checks a volume that is not mounted, and with `--repair` repairs what
//! needs no guess.
//!
//! Exit codes are those of fsck(8), added up: 0 clean, 1 errors corrected, 4 errors left
//! uncorrected, 8 the check itself failed, 16 wrong usage.

use super::output::{self, Failure, Outcome, Progress};
use super::{ffs, umount, vlfs};
use serde::Serialize;
use serde_json::json;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve::admin::{identity, layout_of, open_device, read_superblock};
use varve_device::{Device, HostClock, OpenMode};
use varve_fsck::check::{CheckOptions, CheckReport, check, is_clean};
use varve_fsck::repair::{RepairOptions, RepairReport, repair};

const CORRECTED: u8 = 1;
const UNCORRECTED: u8 = 4;
const OPERATIONAL: u8 = 8;

/// Check a volume that is not mounted, and repair it if asked.
///
/// A log needs no repair after a crash: mounting recovers it. This searches for damage,
/// by the device or by a bug. Without --repair nothing is changed.
///
/// Repair changes nothing on a sound volume. It makes lost metadata anew where the log
/// proves its content, gives up the rest by file and byte range, puts files without names
/// into /lost+found, and reports each step. Run it without --repair first to see the
/// findings; data that it gives up is lost, and `varve salvage` may save more if it is
/// run before.
#[derive(clap::Args)]
pub struct Fsck {
    /// The image file or block device.
    volume: PathBuf,
    /// Also read all data and verify its checksums.
    #[arg(long)]
    data: bool,
    /// Repair what can be repaired without guessing.
    #[arg(long, short = 'y')]
    repair: bool,
    /// Repair without any loss, as at boot; leave the rest, with exit code 4. A volume
    /// that was unmounted cleanly is not checked unless -f is given.
    #[arg(
        long,
        short = 'p',
        visible_short_alias = 'a',
        conflicts_with = "repair"
    )]
    preen: bool,
    /// Change nothing, as without options.
    #[arg(short = 'n', conflicts_with_all = ["repair", "preen"])]
    no: bool,
    /// With --preen, check a volume that was unmounted cleanly as well.
    #[arg(short = 'f', long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The failure of a check that found no superblock of the log: FFS volumes whose first and
/// last superblocks are destroyed can be repaired.
fn named(volume: &Path, failure: Failure) -> Failure {
    if read_superblock(volume).is_ok() || !ffs::has_copy(volume) {
        return failure;
    }
    let shown = volume.display();
    let text = format_args!(
        "{shown}: both superblocks are destroyed, but copies in cylinder groups are whole; \
         `varve fsck --repair {shown}` restores them"
    );
    Failure::new(UNCORRECTED, text)
}

impl Fsck {
    pub fn run(self) -> Outcome {
        let volume = &self.volume;
        umount::await_release(volume, umount::RELEASE);
        match layout_of(volume) {
            varve::Layout::VirtualLog => {}
            varve::Layout::InPlace => return self.in_place(),
            // The first superblock is missing, of this layout or another.
            _ if self.repair && read_superblock(volume).is_err() && ffs::has_copy(volume) => {
                return self.in_place();
            }
            _ => {
                let volume = volume.clone();
                return self.of_the_log().map_err(|failure| named(&volume, failure));
            }
        }
        if self.preen && !self.force && vlfs::is_clean(volume) {
            return self.tell_clean();
        }
        let code = vlfs::fsck(volume, self.data, self.json)?;
        if code != 0 && (self.repair || self.preen) {
            let text = "a volume of this layout has no repair; copy what can be read";
            return Err(Failure::new(code, text));
        }
        Ok(code)
    }

    fn in_place(self) -> Outcome {
        let volume = &self.volume;
        if self.preen && !self.force && ffs::is_clean(volume) {
            return self.tell_clean();
        }
        match (self.repair, self.preen) {
            (true, _) => ffs::repair(volume, self.json),
            (_, true) => ffs::preen(volume, self.json),
            _ => ffs::fsck(volume, self.data, self.json),
        }
    }

    fn of_the_log(self) -> Outcome {
        if self.preen && !self.force && self.is_clean()? {
            return self.tell_clean();
        }
        match self.repair || self.preen {
            true => self.repair(),
            false => self.check(),
        }
    }

    fn tell_clean(&self) -> Outcome {
        match self.json {
            true => output::json(&json!({ "clean": true })),
            false => self.verdict("clean"),
        }
        Ok(0)
    }

    fn open(&self, mode: OpenMode) -> Result<Arc<dyn Device>, Failure> {
        open_device(&self.volume, mode, varve::IoMode::Direct)
            .map_err(|error| Failure::from(error).coded(OPERATIONAL))
    }

    fn is_clean(&self) -> Result<bool, Failure> {
        let device = self.open(OpenMode::ReadOnly)?;
        // Any error is reported by the check that follows.
        Ok(is_clean(device).unwrap_or(false))
    }

    fn check(&self) -> Outcome {
        let device = self.open(OpenMode::ReadOnly)?;
        let progress = Progress::count("checking");
        let options = CheckOptions {
            data: self.data,
            progress: &|_, done, total| progress.at(done, total),
        };
        let report = check(device, Arc::new(HostClock::default()), &options);
        progress.finish();
        let report = report.map_err(failed)?;
        self.tell(&report, verdict(&report));
        Ok(match report.needs_repair() {
            true => UNCORRECTED,
            false => 0,
        })
    }

    fn repair(&self) -> Outcome {
        let device = self.open(OpenMode::ReadWrite)?;
        let progress = Progress::count("repairing");
        let options = RepairOptions {
            data: self.data,
            safe_only: self.preen,
            owner: identity(),
            progress: &|_, done, total| progress.at(done, total),
            ..RepairOptions::default()
        };
        let report = repair(device, Arc::new(HostClock::default()), &options);
        progress.finish();
        let report = report.map_err(failed)?;
        self.tell(&report, repair_verdict(&report));
        let corrected = u8::from(report.changed()) * CORRECTED;
        let left = u8::from(!report.is_whole()) * UNCORRECTED;
        Ok(corrected | left)
    }

    fn tell(&self, report: &(impl Serialize + Display), verdict: &str) {
        match self.json {
            true => output::json(&json!(report)),
            false => {
                output::lines(report);
                self.verdict(verdict);
            }
        }
    }

    fn verdict(&self, verdict: &str) {
        output::line(format_args!("{}: {verdict}", self.volume.display()));
    }
}

fn failed(error: varve_lfs::Error) -> Failure {
    match error {
        varve_lfs::Error::NoCheckpoint { .. } => {
            let text = format!("{error} with varve salvage");
            Failure::new(UNCORRECTED, text)
        }
        other => Failure::new(OPERATIONAL, other),
    }
}

fn verdict(report: &CheckReport) -> &'static str {
    // Log after a clean checkpoint is that of a mount that did not end.
    let closed = report.recovery.clean && report.recovery.partials == 0;
    match (report.needs_repair(), closed) {
        (false, true) => "clean",
        (false, false) => "sound; not unmounted cleanly, the next mount recovers it",
        (true, _) => "DAMAGED",
    }
}

fn repair_verdict(report: &RepairReport) -> &'static str {
    match (report.is_whole(), report.changed()) {
        (true, false) => verdict(&report.check),
        (true, true) => "REPAIRED",
        (false, _) => "STILL DAMAGED",
    }
}
