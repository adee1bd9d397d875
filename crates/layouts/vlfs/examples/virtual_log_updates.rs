//! Random synchronous updates of 4 KiB on a simulated ST19101 (the drive and benchmark
//! of Wang et al. 1999, §5.3): in place, on a virtual log disk, and of a file on VLFS,
//! at several utilisations. The result is the mean of all updates in virtual time. With
//! a burst, BURST updates and an idle time alternate, in which the compactors work;
//! time beyond the idle time counts for the burst.
//!
//! ```sh
//! cargo run --release -p varve-vlfs --example virtual_log_updates [UPDATES [BURST IDLE_MS [PERCENT]]]
//! ```

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Clock, Device, VirtualClock};
use varve_disk::{SimulatedDisk, drives};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};
use varve_vlfs::{Vlfs, VlfsFormatOptions, VlfsMountOptions, VlfsStatistics, Watermarks, format};
use varve_vlog::{FormatOptions, Granularity, InDrive, Medium, Vld};

const BLOCK: u64 = 4096;
const CYLINDERS: u32 = 11;
const SEED: u64 = 9;
/// Number of bytes written at once while the file is made.
const CHUNK: u64 = 256 << 10;

/// A stream of random numbers, determined by its seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 20) % end
    }
}

fn disk() -> (Arc<SimulatedDisk>, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = drives::st19101().with_cylinders(CYLINDERS);
    (
        Arc::new(SimulatedDisk::new(drive, clock.clone(), SEED)),
        clock,
    )
}

/// The number of updates, and the pauses between them.
#[derive(Clone, Copy)]
struct Load {
    updates: u64,
    /// Number of updates without a pause.
    burst: u64,
    idle_ms: u64,
}

impl Load {
    /// Returns the mean time of an update in virtual time, in milliseconds. `idle` gets
    /// the end of the idle time, and may overrun it.
    fn mean_ms(
        self,
        clock: &VirtualClock,
        mut update: impl FnMut(),
        mut idle: impl FnMut(u64),
    ) -> f64 {
        let mut busy_ns = 0;
        for first in (0..self.updates).step_by(self.burst.max(1) as usize) {
            let due = clock.monotonic_ns() + self.idle_ms * 1_000_000;
            if self.idle_ms > 0 {
                idle(due);
                let rest = due.saturating_sub(clock.monotonic_ns());
                clock.advance(Duration::from_nanos(rest));
            }
            for _ in 0..self.burst.min(self.updates - first) {
                update();
            }
            busy_ns += clock.monotonic_ns() - due;
        }
        busy_ns as f64 / self.updates as f64 / 1e6
    }
}

fn in_place(blocks: u64, load: Load) -> f64 {
    let (disk, clock) = disk();
    let mut draw = Draw(SEED);
    let update = || {
        let at = draw.below(blocks) * BLOCK;
        disk.write(at, &[IoSlice::new(&[3; BLOCK as usize])])
            .expect("a sound drive");
    };
    load.mean_ms(&clock, update, |_| ())
}

fn vld(blocks: u64, load: Load) -> f64 {
    let (disk, clock) = disk();
    let medium = Arc::new(InDrive(disk));
    let options = FormatOptions {
        block_bytes: BLOCK as u32,
        logical_bytes: Some(blocks * BLOCK),
        volume: 1,
        anywhere: false,
    };
    Vld::format(&medium, options).expect("it fits");
    let run = varve_vlog::Options {
        synchronous: true,
        ..varve_vlog::Options::default()
    };
    let (vld, _) = Vld::open(medium, run).expect("just made");
    let bytes = [7; BLOCK as usize];
    for block in 0..blocks {
        vld.write(block * BLOCK, &[IoSlice::new(&bytes)])
            .expect("room");
    }
    let mut draw = Draw(SEED);
    let update = || {
        let at = draw.below(blocks) * BLOCK;
        vld.write(at, &[IoSlice::new(&bytes)]).expect("room");
    };
    load.mean_ms(&clock, update, |until_ns| {
        vld.compact(until_ns, Granularity::Blocks(8))
            .expect("a sound drive");
    })
}

/// Fills a file until `blocks` blocks of the drive are live, and updates it.
fn vlfs(blocks: u64, load: Load) -> (f64, VlfsStatistics) {
    let (disk, clock) = disk();
    let medium: Arc<dyn Medium> = Arc::new(InDrive(disk));
    let shared: Arc<dyn Clock> = clock.clone();
    let options = VlfsFormatOptions {
        seed: Some(SEED),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock, &options).expect("it fits");
    let mount = VlfsMountOptions {
        compaction: Watermarks::ALWAYS,
        ..VlfsMountOptions::default()
    };
    let layout = Vlfs::mount(medium, shared.clone(), mount);
    let layout = Arc::new(layout.expect("just made"));
    FileSystem::format(&*layout, &*clock, (0, 0)).expect("room");
    let options = Options {
        read_ahead_threads: 0,
        ..Options::default()
    };
    let fs = FileSystem::mount(Arc::clone(&layout), shared, options).expect("a tree");
    let caller = Caller::root();
    let made = fs.mknod(&caller, InodeNo::ROOT, b"file", 0o100_644, 0);
    let file = made.expect("room").ino;
    let mut bytes = 0;
    while layout.statistics().blocks_live < blocks {
        let left = (blocks - layout.statistics().blocks_live) * BLOCK;
        let chunk = vec![7; CHUNK.min(left) as usize];
        fs.write(&caller, file, bytes, &chunk).expect("room");
        fs.fsync(file, false).expect("a sound drive");
        bytes += chunk.len() as u64;
    }
    let mut draw = Draw(SEED);
    let update = || {
        let at = draw.below(bytes / BLOCK) * BLOCK;
        fs.write(&caller, file, at, &[3; BLOCK as usize])
            .expect("room");
        fs.fsync(file, true).expect("a sound drive");
    };
    let ms = load.mean_ms(&clock, update, |until_ns| {
        let may = |ns| clock.monotonic_ns() + ns < until_ns;
        layout.maintain().expect("a sound drive");
        layout.compact(u64::MAX, &may).expect("a sound drive");
    });
    (ms, layout.statistics())
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"))
        .collect();
    let updates = numbers.first().copied().unwrap_or(2000);
    let load = Load {
        updates,
        burst: numbers.get(1).copied().unwrap_or(updates),
        idle_ms: numbers.get(2).copied().unwrap_or(0),
    };
    let all = disk().0.geometry().size / BLOCK;
    println!(
        "utilisation  in place ms  VLD ms  VLFS ms  VLD/VLFS  VLFS: transactions, full ones, \
         checkpoints, units moved, tracks emptied, empty"
    );
    for percent in [20, 40, 60, 80] {
        if numbers.get(3).is_some_and(|&only| only != percent) {
            continue;
        }
        let blocks = all * percent / 100;
        let (place, vld) = (in_place(blocks, load), vld(blocks, load));
        let (vlfs, s) = vlfs(blocks, load);
        println!(
            "{percent:>10} %  {place:>11.3}  {vld:>6.3}  {vlfs:>7.3}  {:>8.2}  {}, {}, {}, {}, {}, {}",
            vld / vlfs,
            s.transactions,
            s.transactions - s.brief,
            s.checkpoints,
            s.units_moved,
            s.regions_emptied,
            s.regions_empty
        );
    }
}
