//! Databases of the record store on the systems of [`crate::experiments::rivals`], as B5 and B6 have
//! them.
//!
//! Pages lie in the file system under study, each where it was, as the thesis's package
//! wrote them. The store's log and checkpoints lie on a drive of their own, for which
//! nobody waits: every system would wait as long. The store's cache is 64 KB for each of
//! four trees (Seltzer 1992, §7.7). For each retrieval, update and insertion the
//! processor is charged the instructions of table 4-1.

use crate::database::Work;
use crate::experiments::LabError;
use crate::experiments::rivals::HP_380;
use crate::platform::records::Habits;
use crate::platform::{Layout, Platform, System};
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Options, Placement, TornPages};

/// While it is loaded.
const LOADING_BYTES: usize = 64 << 20;
/// For four trees.
const CACHE_BYTES: usize = 4 * (64 << 10);

/// Pages wait until the file system writes them.
pub(in crate::experiments) const WAIT: Habits = Habits {
    log_apart: true,
    at_once: false,
};
/// They are written at once, as whole blocks were in the FFS and EFS of the thesis (§7.7),
/// and the store continues meanwhile. EFS gathers next to nothing, as pages are written in
/// no order.
pub(in crate::experiments) const AT_ONCE: Habits = Habits {
    log_apart: true,
    at_once: true,
};

/// The thesis's machine with a file system whose pages are written so.
pub(in crate::experiments) fn platform(layout: Layout, habits: Habits) -> Platform {
    let platform = HP_380.with(layout);
    Platform {
        overlap: habits.overlap(platform.overlap),
        ..platform
    }
}

/// A database, from one opening to the next.
#[derive(Debug)]
pub(in crate::experiments) struct Database {
    page_bytes: u32,
    apart: MemoryStorage,
}

impl Database {
    /// An empty one with pages of so many bytes.
    pub fn new(page_bytes: u32) -> Self {
        Database {
            page_bytes,
            apart: MemoryStorage::new(),
        }
    }

    /// Opens it for loading; `told` tells the store more.
    pub fn open_to_load(
        &self,
        system: &dyn System,
        told: impl FnOnce(&mut Options) -> &mut Options,
    ) -> Result<Environment, LabError> {
        self.open((system, WAIT), LOADING_BYTES, told)
    }

    /// Opens it with the thesis's cache, nothing in it, and nothing in that of the file
    /// system.
    pub fn open_cold(
        &self,
        system: &mut dyn System,
        habits: Habits,
        told: impl FnOnce(&mut Options) -> &mut Options,
    ) -> Result<Environment, LabError> {
        let opened = self.open((system, habits), CACHE_BYTES, told)?;
        system.sync()?;
        system.forget();
        Ok(opened)
    }

    fn open(
        &self,
        (system, habits): (&dyn System, Habits),
        cache_bytes: usize,
        told: impl FnOnce(&mut Options) -> &mut Options,
    ) -> Result<Environment, LabError> {
        let mut options = Options::new();
        options
            .background(false)
            .page(self.page_bytes)
            .memory(cache_bytes)
            .segment(1 << 20)
            .placement(Placement::InPlace(TornPages::Never));
        let environment = told(&mut options).open_storage(system.records(habits, &self.apart));
        environment.map_err(LabError::system)
    }
}

/// What something took.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiments) struct Took {
    pub seconds: f64,
    /// Of those, what the processor compared records.
    pub comparing_s: f64,
    /// Commands to the drive.
    pub reads: u64,
    pub writes: u64,
}

/// Does something to a database; the processor of [`HP_380`] is charged for it.
pub(in crate::experiments) fn timed(
    system: &dyn System,
    what: impl FnOnce() -> Result<Work, LabError>,
) -> Result<Took, LabError> {
    let drive = system.store().drive();
    let drive = drive.ok_or_else(|| LabError::System("there is no drive".into()))?;
    let requests = || drive.statistics().requests;
    let (began_ns, before) = (system.now_ns(), requests());
    let work = what()?;
    let cycles = HP_380.cycles_of(work.instructions());
    system.store().cpu().work(cycles);
    let after = requests();
    Ok(Took {
        seconds: (system.now_ns() - began_ns) as f64 / 1e9,
        comparing_s: HP_380.cycles_of(work.comparing()) as f64 / HP_380.hz() as f64,
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
    })
}
