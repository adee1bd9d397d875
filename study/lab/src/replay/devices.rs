//! Devices that serve what a system does, one request after the other: a
//! nearline disk and an NVMe-like device of today, as estimated in
//! `varve-disk`.
//!
//! The volume stands for a disk that is full of the like: runs of a mebibyte lie
//! evenly over the whole drive, so that the arm has as far to go as there. On a
//! volume of a few megabytes at the edge no layout would ever seek.

use serde::Serialize;
use std::sync::Arc;
use varve_disk::{Access, FlashModel, FlashParameters, Mechanism, Request, drives};

const BLOCK: u64 = 4096;
const BLOCK_SECTORS: u64 = 8;
/// Blocks that lie beside each other.
const RUN: u64 = 256;

/// Time that a device was busy, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// With writes, cleaning and its reads included.
    pub writing_ns: u64,
    /// With reads of users.
    pub reading_ns: u64,
}

impl Spent {
    /// All of it.
    pub fn total_ns(self) -> u64 {
        self.writing_ns + self.reading_ns
    }

    pub(super) fn add(&mut self, purpose: Purpose, ns: u64) {
        match purpose {
            Purpose::Read => self.reading_ns += ns,
            Purpose::Write | Purpose::Clean => self.writing_ns += ns,
        }
    }
}

/// Why something is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A user reads.
    Read,
    /// A user, or the cleaner, writes.
    Write,
    /// The cleaner reads.
    Clean,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Devices {
    disk: Mechanism,
    /// Blocks from one run's beginning to the next one's.
    stride: u64,
    disk_ns: u64,
    flash: FlashModel,
    flash_ns: u64,
    pub disk_spent: Spent,
    pub flash_spent: Spent,
}

impl Devices {
    /// For a volume of so many blocks.
    pub fn new(seed: u64, blocks: u64) -> Self {
        let drive = drives::nearline();
        let all = drive.geometry.total_sectors() / BLOCK_SECTORS;
        Devices {
            stride: (all / blocks.div_ceil(RUN).max(1)).max(RUN),
            disk: Mechanism::new(Arc::new(drive), seed),
            disk_ns: 0,
            flash: FlashModel::new(FlashParameters::nvme()),
            flash_ns: 0,
            disk_spent: Spent::default(),
            flash_spent: Spent::default(),
        }
    }

    /// Moves a run of blocks.
    pub fn serve(&mut self, purpose: Purpose, block: u64, blocks: u64) {
        let access = match purpose {
            Purpose::Write => Access::Write,
            Purpose::Read | Purpose::Clean => Access::Read,
        };
        let (mut next, end) = (block, block + blocks);
        while next < end {
            let until = end.min((next / RUN + 1) * RUN);
            let place = next / RUN * self.stride + next % RUN;
            let request = Request {
                access,
                sector: place * BLOCK_SECTORS,
                sectors: (until - next) * BLOCK_SECTORS,
                inside: false,
            };
            let end_ns = self.disk.serve(self.disk_ns, request).end_ns;
            self.disk_spent.add(purpose, end_ns - self.disk_ns);
            self.disk_ns = end_ns;
            next = until;
        }
        let service = self
            .flash
            .serve(self.flash_ns, access, block * BLOCK, blocks * BLOCK);
        self.flash_spent
            .add(purpose, service.end_ns - self.flash_ns);
        self.flash_ns = service.end_ns;
    }
}

/// Joins blocks that follow each other.
#[derive(Debug, Default)]
pub(super) struct Run {
    first: u64,
    blocks: u64,
}

impl Run {
    /// The run before, if this block does not continue it.
    pub fn push(&mut self, block: u64) -> Option<(u64, u64)> {
        if self.blocks > 0 && self.first + self.blocks == block {
            self.blocks += 1;
            return None;
        }
        let before = self.take();
        (self.first, self.blocks) = (block, 1);
        before
    }

    /// What is left.
    pub fn take(&mut self) -> Option<(u64, u64)> {
        let run = (self.first, std::mem::take(&mut self.blocks));
        (run.1 > 0).then_some(run)
    }
}
