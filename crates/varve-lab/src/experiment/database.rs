//! Databases of the record store on the systems of [`super::rivals`].
//!
//! Pages lie in the file system under study, each where it was, as the thesis's package
//! wrote them. The store's log and checkpoints lie on a
//! drive of their own, which takes no time: every system would pay the same for them.
//! The store's cache is 64 KB for each of four trees (Seltzer 1992, §7.7). For each
//! retrieval, update and insertion the processor is charged the instructions of table
//! 4-1, at 10 MIPS (table 7-1).

use super::LabError;
use crate::database::Work;
use crate::platform::System;
use crate::platform::records::Habits;
use std::io;
use std::sync::Arc;
use varve_tp::storage::{MemoryStorage, Storage, StoredFile};
use varve_tp::{Environment, Options, Placement, TornPages};

const MIPS: u64 = 10_000_000;
/// While it is loaded.
const LOADING_BYTES: usize = 64 << 20;
/// For four trees.
const CACHE_BYTES: usize = 4 * (64 << 10);

/// When pages that the store has written to a file go to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// When the file system chooses: they wait in memory.
    Wait,
    /// At once, as whole blocks did in the FFS and EFS of the thesis (§7.7).
    AtOnce,
}

/// What is not pages is put aside here, and pages are written as [`Writes`] says.
const IN_PLAIN_FILES: Habits = Habits {
    log_apart: false,
    at_once: false,
};

/// What the store said.
pub(super) fn failed(error: varve_tp::Error) -> LabError {
    LabError::system(error)
}

/// The files of a database.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pages: Arc<dyn Storage>,
    aside: MemoryStorage,
    writes: Writes,
}

#[derive(Debug)]
struct WrittenAtOnce(Arc<dyn StoredFile>);

impl Files {
    /// On this system, empty.
    pub fn on(system: &dyn System) -> Self {
        Files {
            pages: system.records(IN_PLAIN_FILES, &MemoryStorage::new()),
            aside: MemoryStorage::new(),
            writes: Writes::Wait,
        }
    }

    /// The same files, written like this.
    pub fn written(&self, writes: Writes) -> Self {
        Files {
            writes,
            ..self.clone()
        }
    }

    fn of(&self, name: &str) -> &dyn Storage {
        match name.starts_with("pages") {
            true => &*self.pages,
            false => &self.aside,
        }
    }

    /// The database with pages of so many bytes, for loading; `told` tells the store
    /// more.
    pub fn open_to_load(
        &self,
        page_bytes: u32,
        told: impl FnOnce(&mut Options) -> &mut Options,
    ) -> Result<Environment, LabError> {
        self.open(page_bytes, LOADING_BYTES, told)
    }

    /// The database with the thesis's cache, nothing in it, and nothing in that of
    /// the file system.
    pub fn open_cold(
        &self,
        system: &mut dyn System,
        page_bytes: u32,
        told: impl FnOnce(&mut Options) -> &mut Options,
    ) -> Result<Environment, LabError> {
        let opened = self.open(page_bytes, CACHE_BYTES, told)?;
        system.sync()?;
        system.forget();
        Ok(opened)
    }

    fn open(
        &self,
        page_bytes: u32,
        cache_bytes: usize,
        told: impl FnOnce(&mut Options) -> &mut Options,
    ) -> Result<Environment, LabError> {
        let mut options = Options::new();
        options
            .background(false)
            .page(page_bytes)
            .memory(cache_bytes)
            .segment(1 << 20)
            .placement(Placement::InPlace(TornPages::Never));
        let environment = told(&mut options).open_storage(Arc::new(self.clone()));
        environment.map_err(failed)
    }
}

impl Storage for Files {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let file = self.of(name).open(name, create)?;
        Ok(match self.writes {
            Writes::AtOnce => Arc::new(WrittenAtOnce(file)),
            Writes::Wait => file,
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok([self.pages.list()?, self.aside.list()?].concat())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.of(from).rename(from, to)
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
}

impl StoredFile for WrittenAtOnce {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)?;
        self.0.sync()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.truncate(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

/// What something took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub seconds: f64,
    /// Commands to the drive.
    pub reads: u64,
    pub writes: u64,
}

/// Does something to a database; the processor of a machine of `hz` is charged for it.
pub(super) fn timed(
    system: &dyn System,
    hz: u64,
    what: impl FnOnce() -> Result<Work, LabError>,
) -> Result<Took, LabError> {
    let requests = || system.store().drive().statistics().requests;
    let (began_ns, before) = (system.now_ns(), requests());
    let work = what()?;
    let cycles = work.instructions() * hz / MIPS;
    system.store().cpu().work(cycles);
    let after = requests();
    Ok(Took {
        seconds: (system.now_ns() - began_ns) as f64 / 1e9,
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
    })
}
