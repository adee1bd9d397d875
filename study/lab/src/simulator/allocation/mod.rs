//! The simulator of Seltzer 1992, chapter 3: allocation policies under three
//! workloads on eight striped drives.
//!
//! | module | what is in it |
//! |---|---|
//! | `load` | table 3-3: types of files, and what is done to them |
//! | `policy` | the policies under study, as the chapter configures them |
//! | `population` | files, what they hold and where |
//! | `requests` | what a user does next |
//! | `fill` | the allocation test: until a request cannot be satisfied |
//! | `array` | drives with a queue each |
//! | `windows` | throughput by periods of ten seconds, and when it is stable |
//! | `throughput` | the application and the sequential test |
//!
//! What the chapter leaves open is in [`Assumptions`]; `study/allocation.md` says
//! why each is as it is, and experiment A1 what changes with it.

mod array;
mod fill;
mod load;
mod policy;
mod population;
mod requests;
mod throughput;
mod windows;

pub use fill::{Filled, fill};
pub use load::{FileType, Load, Pattern};
pub use policy::{PolicyKind, RESTRICTED_SIZES};
pub use population::{OutOfRoom, Population};
pub use throughput::{Ending, Test, Throughput, throughput};

use std::sync::Arc;
use varve_disk::{Discipline, Drive, drives};

/// What chapter 3 does not say.
#[derive(Debug, Clone)]
pub struct Assumptions {
    /// Deviation of initial sizes (`i_dev`), as a share of their mean.
    pub initial_deviation: f64,
    /// Deviation of requests (`rw_dev`), as a share of their mean.
    pub deviation: f64,
    /// Users, as a multiple of the least number that has the table's shares.
    pub users: u32,
    /// Mean pause between a user's requests.
    pub think_ns: u64,
    /// Who is served next by a drive.
    pub discipline: Discipline,
    /// Bytes on one drive before the next one's turn.
    pub stripe_bytes: u64,
    /// The supercomputer's medium files of type 3 are deleted and made anew, as
    /// §3.1.2 says; table 3-3 has no deletes for them.
    pub text_deletes: bool,
    /// The drives of the array.
    pub drive: Arc<Drive>,
    /// How many.
    pub members: usize,
    /// What is simulated at most of a throughput test.
    pub limit_s: u64,
    /// Divides the volume, and the number of small or the size of large files: 1
    /// for the thesis's.
    pub scale: u64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Assumptions {
            initial_deviation: 0.0,
            deviation: 0.1,
            users: 1,
            think_ns: 0,
            discipline: Discipline::Fcfs,
            stripe_bytes: 24 << 10,
            text_deletes: false,
            drive: Arc::new(drives::wren_iv_simulated()),
            members: 8,
            limit_s: 1200,
            scale: 1,
        }
    }
}

impl Assumptions {
    /// Bytes of the volume.
    pub fn volume_bytes(&self) -> u64 {
        self.drive.geometry.bytes() * self.members as u64 / self.scale
    }

    /// What the drives can sustain together.
    pub fn max_bytes_per_s(&self) -> f64 {
        self.drive.sustained_bytes_per_s() * self.members as f64
    }
}

#[cfg(test)]
mod tests;
