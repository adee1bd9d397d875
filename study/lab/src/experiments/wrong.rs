//! Wrong models of a machine: `varve lab run ID --wrong NAME` runs an experiment of
//! file systems on one of them, so that verdicts can be seen to fail.
//!
//! A verdict that passes on every machine says nothing about the file systems.
//! Experiments whose subject is no machine have wrong models of their own in their tests.

use super::rivals::{EFS, write_behind};
use crate::platform::{Disk, Layout, Platform};
use std::str::FromStr;
use varve_disk::Rotation;

/// A wrong model of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The log updates in place, in clusters.
    LogInPlace,
    /// The processor takes sixteen times the cycles.
    SlowProcessor,
    /// The drive makes 300 revolutions a minute.
    SlowDrive,
    /// A flash device in the place of the drive.
    NoArm,
}

/// Revolutions a minute of the slow drive.
const SLOW_RPM: u32 = 300;
const SLOW_CYCLES: f64 = 16.0;

impl Wrong {
    /// All of them.
    pub const ALL: [Wrong; 4] = [
        Wrong::LogInPlace,
        Wrong::SlowProcessor,
        Wrong::SlowDrive,
        Wrong::NoArm,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wrong::LogInPlace => "log-in-place",
            Wrong::SlowProcessor => "slow-processor",
            Wrong::SlowDrive => "slow-drive",
            Wrong::NoArm => "no-arm",
        }
    }

    /// The platform, made wrong.
    pub(super) fn platform(self, mut platform: Platform) -> Platform {
        match self {
            Wrong::LogInPlace if platform.layout == Layout::Lfs => {
                platform.layout = EFS.1;
                if let Some(overlap) = &mut platform.overlap {
                    overlap.write_back_bytes = write_behind(EFS.1);
                }
            }
            Wrong::LogInPlace => {}
            Wrong::SlowProcessor => platform.host.effort *= SLOW_CYCLES,
            Wrong::SlowDrive => platform.drive.rotation = Rotation::of_rpm(SLOW_RPM),
            Wrong::NoArm => {
                platform.disk = Disk::Flash;
                platform.overlap = None;
            }
        }
        platform
    }
}

impl FromStr for Wrong {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Wrong::ALL.into_iter().find(|wrong| wrong.name() == name);
        found.ok_or_else(|| {
            format!(
                "wrong models are {}",
                Wrong::ALL.map(Wrong::name).join(", ")
            )
        })
    }
}
