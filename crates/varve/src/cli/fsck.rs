//! `varve fsck`: checks a volume that is not mounted; changes nothing.
//!
//! Exit codes are those of fsck(8): 0 clean, 4 errors left uncorrected, 8 the
//! check itself failed, 16 wrong usage.

use super::output::{self, Failure, Outcome, Progress};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use varve_device::HostClock;
use varve_lfs::check::{CheckOptions, CheckReport, check};

const UNCORRECTED: u8 = 4;
const OPERATIONAL: u8 = 8;

/// Check a volume that is not mounted.
///
/// A log needs no repair after a crash: mounting recovers it. This looks for
/// damage, by the device or by a bug, and changes nothing.
#[derive(clap::Args)]
pub struct Fsck {
    /// The image file or block device.
    volume: PathBuf,
    /// Read all data and verify its checksums, too.
    #[arg(long)]
    data: bool,
    /// Report as JSON.
    #[arg(long)]
    json: bool,
    /// Flags that fsck(8) hands to its helpers; they change nothing here.
    #[arg(short = 'a', hide = true)]
    automatic: bool,
    #[arg(short = 'p', hide = true)]
    preen: bool,
    #[arg(short = 'y', hide = true)]
    yes: bool,
    #[arg(short = 'n', hide = true)]
    no: bool,
    #[arg(short = 'f', hide = true)]
    force: bool,
}

impl Fsck {
    pub fn run(self) -> Outcome {
        let device = varve::open_device(
            &self.volume,
            varve_device::OpenMode::ReadOnly,
            varve::IoMode::Direct,
        )
        .map_err(|error| Failure::from(error).coded(OPERATIONAL))?;
        let progress = Progress::count("checking");
        let options = CheckOptions {
            data: self.data,
            progress: &|_, done, total| progress.at(done, total),
        };
        let report = check(Arc::new(device), Arc::new(HostClock::default()), &options);
        progress.finish();
        let report = report.map_err(|error| match error {
            varve_lfs::Error::NoCheckpoint { .. } => Failure::new(UNCORRECTED, error),
            other => Failure::new(OPERATIONAL, other),
        })?;
        match self.json {
            true => output::json(&json!(report)),
            false => self.print(&report),
        }
        Ok(match report.errors.is_empty() {
            true => 0,
            false => UNCORRECTED,
        })
    }

    fn print(&self, report: &CheckReport) {
        output::line(report);
        // Log behind a clean checkpoint is that of a mount that never ended.
        let closed = report.recovery.clean && report.recovery.partials == 0;
        let verdict = match (report.errors.is_empty(), closed) {
            (true, true) => "clean",
            (true, false) => "sound; not unmounted cleanly, the next mount recovers it",
            (false, _) => "DAMAGED",
        };
        output::line(format_args!("{}: {verdict}", self.volume.display()));
    }
}
