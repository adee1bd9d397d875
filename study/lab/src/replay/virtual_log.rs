//! The virtual log: the chooser of the virtual log disk on the same nearline
//! drive, whose head it knows. A block goes to the free place that comes first,
//! and behind each buffer that is written go records of the map, one for every
//! part of it that changed. Nothing is compacted, as if there were no idle time.
//! For reads the volume lies over the whole drive, as everywhere here; the next
//! free place is near on any.
//!
//! On an NVMe-like device no place is nearer than another, so nothing is said of
//! it.

use super::devices::{Purpose, Spent};
use super::waiting::Buffer;
use super::{Finding, Layout, System, Volume};
use crate::workload::Op;
use std::sync::Arc;
use varve_disk::{Access, Drive, TrackId, drives};
use varve_vlog::free_space::FreeSpace;
use varve_vlog::medium::tracks;
use varve_vlog::{Avoid, Eager, HeadPosition, Policy, Want};

const BLOCK_BYTES: u32 = 4096;
const BLOCK_SECTORS: u32 = 8;
/// Entries of the map that a record holds.
const RECORD: u32 = 512;
const NONE: u32 = u32::MAX;

/// See the module's head.
pub(super) struct VirtualLog<'a> {
    volume: Volume<'a>,
    buffer: Buffer,
    drive: Arc<Drive>,
    free: FreeSpace,
    /// Cylinders of the drive for each of the volume.
    spread: u32,
    eager: Eager,
    head: HeadPosition,
    /// Where each block is, and behind them each record of the map.
    places: Vec<u32>,
    spent: Spent,
    written: u64,
    records: u64,
}

impl<'a> VirtualLog<'a> {
    pub fn new(volume: Volume<'a>) -> Self {
        let survey = volume.survey;
        let drive = Arc::new(drives::nearline());
        let records = survey.blocks.div_ceil(RECORD);
        // A block that is overwritten keeps its place until the new one is
        // written; so does a record.
        let used = f64::from(survey.live_max + records) / volume.utilisation;
        let blocks = used as u32 + 2 * volume.segment_blocks + records + 2;
        let home = TrackId {
            cylinder: 0,
            head: 0,
        };
        let last = u64::from(blocks) * u64::from(BLOCK_SECTORS) - 1;
        let cylinders = drive.geometry.locate(last).0.id.cylinder + 1;
        VirtualLog {
            spread: (drive.geometry.cylinders() / cylinders).max(1),
            buffer: Buffer::new(2 * volume.segment_blocks, survey.blocks),
            free: FreeSpace::new(
                tracks(&drive, blocks, BLOCK_BYTES),
                1,
                u64::from(BLOCK_SECTORS),
            ),
            eager: Eager::new(Policy::default()),
            head: HeadPosition {
                drive: Arc::clone(&drive),
                track: home,
                platter_ns: 0,
            },
            drive,
            places: vec![NONE; (survey.blocks + records) as usize],
            spent: Spent::default(),
            written: 0,
            records: 0,
            volume,
        }
    }

    /// Moves the head over a block; the time that it takes.
    fn pass(&mut self, place: u32, access: Access) -> u64 {
        let sector = u64::from(place) * u64::from(BLOCK_SECTORS);
        let (track, nth) = self.drive.geometry.locate(sector);
        let from_ns = self.head.platter_ns;
        let spread = match access {
            Access::Read => self.spread,
            Access::Write => 1,
        };
        let over = |track: TrackId| TrackId {
            cylinder: track.cylinder * spread,
            ..track
        };
        let arrival = self
            .drive
            .arrival_ns(from_ns, over(self.head.track), over(track.id), access);
        let begin = arrival + self.drive.rotation_to(arrival, &track, nth);
        let rotation = self.drive.rotation;
        self.head.track = track.id;
        self.head.platter_ns =
            begin + rotation.pass_ns(track.slot(nth), BLOCK_SECTORS, track.sectors);
        self.head.platter_ns - from_ns
    }

    /// A command: the drive is busy with it while the platter turns.
    fn command(&mut self, purpose: Purpose, overhead_ns: u64) {
        self.head.platter_ns += overhead_ns;
        self.spent.add(purpose, overhead_ns);
    }

    fn write(&mut self, entry: usize) {
        let head = Some(&self.head);
        let chosen = self
            .eager
            .choose(&self.free, head, Want::Block, Avoid::default());
        let place = chosen.expect("there is room for what waits") as u32;
        self.free.take_block(place);
        let ns = self.pass(place, Access::Write);
        self.spent.add(Purpose::Write, ns);
        let before = std::mem::replace(&mut self.places[entry], place);
        if before != NONE {
            self.free.give_block(before);
        }
    }

    fn flush(&mut self) {
        let waiting = self.buffer.flush();
        if waiting.is_empty() {
            return;
        }
        self.command(Purpose::Write, self.drive.write_overhead_ns);
        let mut record = None;
        for block in &waiting {
            self.write(*block as usize);
            let of = block / RECORD;
            if record != Some(of) {
                record = Some(of);
                self.records += 1;
                self.write((self.volume.survey.blocks + of) as usize);
            }
        }
        self.written += waiting.len() as u64;
    }

    fn read(&mut self, block: u32, before: Option<u32>) {
        let place = self.places[block as usize];
        if place == NONE {
            return;
        }
        // A block after the one before it is part of the same command.
        if before.is_none_or(|before| before + 1 != block) {
            self.command(Purpose::Read, self.drive.read_overhead_ns);
        }
        let ns = self.pass(place, Access::Read);
        self.spent.add(Purpose::Read, ns);
    }
}

impl System for VirtualLog<'_> {
    fn run(&mut self, ops: &[Op]) {
        let mut before = None;
        for op in ops {
            if let Op::Read { block } = op {
                self.read(*block, before);
                before = Some(*block);
                continue;
            }
            before = None;
            if self.buffer.take(*op) {
                self.flush();
            }
            if let Op::Trim { block } = op {
                let place = std::mem::replace(&mut self.places[*block as usize], NONE);
                if place != NONE {
                    self.free.give_block(place);
                }
            }
        }
    }

    fn measure(&mut self) {
        self.spent = Spent::default();
        (self.written, self.records) = (0, 0);
    }

    fn finding(&self) -> Finding {
        let written = self.written.max(1) as f64;
        Finding {
            utilisation: self.volume.utilisation,
            layout: Layout::VirtualLog,
            policy: None,
            amplification: 1.0,
            in_all: (self.written + self.records) as f64 / written,
            cleaned_at: None,
            disk: self.spent,
            flash: None,
        }
    }
}
