//! X4: what transactions feel of the cleaner. In Seltzer 1992, §5.4, nothing
//! went on for 30 to 60 seconds whenever it ran.
//!
//! The real log on a part of a drive, 192 MiB, with a database of one file.
//! Three threads on virtual time share the drive, which serves who comes first:
//! one runs transactions without a pause (read a random block of 4 KB, write it,
//! fsync), one reads a random block every 50 ms, and one maintains the volume as
//! a mount's thread does, with the mount's own cleaner and its pace. Only the
//! drive takes time.
//!
//! Of the longest transaction it is said what it waited for: its own requests,
//! those of others before them in the drive's queue, the writers' toll, and
//! anything else (room, locks, a partial segment before its own).
//!
//! A stall is what a transaction or a read takes beyond the time in which the
//! drive writes one segment, mean seek and half a revolution included. The goal is our
//! own, and follows from the drive: a request can find a segment's write before it and
//! then waits for its own access, a seek over all cylinders and a revolution at worst.

use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::BLOCK;
use crate::platform::shared_drive::{SharedDrive, Taken};
use crate::platform::threads::{Part, Threads};
use crate::report::{Curve, Picture, Verdict, mean};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use varve_device::{Clock, VirtualClock};
use varve_disk::{Access, Drive, drives};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::cleaner::Pace;
use varve_lfs::{FormatOptions, Lfs, MountOptions};
use varve_prove::random::Random;

pub const X4: Experiment = Experiment::new("X4", points, verdicts, picture).taking(278.0);

/// Of what the segments outside the reserve hold. The thesis's disk was as full
/// as the second (ch. 7 says so of ch. 5).
const PERCENT: [u64; 3] = [50, 70, 80];
/// Transactions before anything is cleaned, then as often until the log has gone
/// round and something is, then measured.
const FRESH: u64 = 1000;
const TRANSACTIONS: u64 = 6000;
/// How often at most: what has not been cleaned then will not be.
const ROUNDS: u32 = 4;
const VOLUME: u64 = 192 << 20;
/// The thesis's segments (table 7-9), and its smaller ones.
const SEGMENTS_KB: [u32; 2] = [1024, 256];
/// Time between two reads.
const READ_EVERY: Duration = Duration::from_millis(50);
/// How a mount's thread looks at its volume: when it is idle, when its log
/// grows, and when clean segments run out.
const LOOKS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_millis(50),
    Duration::from_millis(2),
];

/// So much of a drive's outermost cylinders as makes the volume.
fn part_of(drive: Drive) -> Drive {
    let cylinder = drive.geometry.bytes() / u64::from(drive.geometry.cylinders());
    let cylinders = VOLUME.div_ceil(cylinder).max(2) as u32;
    drive.with_cylinders(cylinders)
}

fn named_drives() -> [(&'static str, Drive); 3] {
    [
        ("RZ55", part_of(drives::rz55())),
        ("ST19101", part_of(drives::st19101())),
        ("7200 rpm", part_of(drives::nearline())),
    ]
}

fn series(drive: &str, segment_kb: u32) -> String {
    format!("{drive}, {segment_kb} KB segments")
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (name, drive) in named_drives() {
        for &kb in context.size(&SEGMENTS_KB[..], &SEGMENTS_KB[1..]) {
            for &percent in context.size(&PERCENT[..], &PERCENT[2..]) {
                let (drive, series) = (drive.clone(), series(name, kb));
                let label = format!("{series} at {percent} %");
                points.push(Point::per_seed(label, move |context, seed| {
                    let row = Row::new(&*series, percent as f64, seed);
                    measure(context, row, &drive, kb << 10)
                }));
            }
        }
    }
    points
}

/// Milliseconds in which the drive writes a segment.
fn segment_ms(drive: &Drive, segment_bytes: u32) -> f64 {
    let seek = drive.seek.average_ms(drive.geometry.cylinders());
    let turn = drive.rotation.revolution_ns() as f64 / 2e6;
    let overhead = drive.overhead_ns(Access::Write) as f64 / 1e6;
    let rate = drive.sustained_bytes_per_s();
    seek + turn + overhead + f64::from(segment_bytes) / rate * 1e3
}

/// Milliseconds that one access of the drive takes at worst.
fn access_ms(drive: &Drive) -> f64 {
    let cylinders = drive.geometry.cylinders();
    let seek = drive.seek.seek_ns(cylinders - 1);
    let turn = drive.rotation.revolution_ns();
    (seek + turn + drive.overhead_ns(Access::Read)) as f64 / 1e6
}

/// The volume, with its database.
struct Database {
    fs: FileSystem<Lfs>,
    clock: Arc<VirtualClock>,
    file: InodeNo,
    blocks: u64,
}

impl Database {
    /// Made by the only thread there is so far.
    fn new(
        context: &Context,
        device: &Arc<SharedDrive>,
        clock: &Arc<VirtualClock>,
        (segment_bytes, percent): (u32, u64),
        seed: u64,
    ) -> Result<Self, LabError> {
        let format = FormatOptions {
            segment_bytes,
            seed: Some(seed),
            ..FormatOptions::default()
        };
        let shared: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
        Lfs::format(&**device, &*shared, &format).map_err(LabError::system)?;
        let mount = || {
            let options = MountOptions {
                seed: Some(seed),
                pace: Pace {
                    threaded: true,
                    ..Pace::default()
                },
                ..MountOptions::default()
            };
            let device = Arc::clone(device);
            Lfs::mount(device, Arc::clone(&shared), options).map_err(LabError::system)
        };
        let layout = mount()?;
        FileSystem::format(&layout, &*shared, (0, 0)).map_err(LabError::system)?;
        layout.unmount().map_err(LabError::system)?;
        drop(layout);
        let options = Options {
            cache_bytes: 16 << 20,
            ..Options::default()
        };
        let fs = FileSystem::mount(Arc::new(mount()?), Arc::clone(&shared), options);
        let fs = fs.map_err(LabError::system)?;
        let geometry = fs.layout().geometry_of_volume();
        let segments = u64::from(geometry.segment_count - geometry.reserve_segments);
        let room = segments * u64::from(geometry.usable_bytes()) / BLOCK;
        let root = Caller::root();
        let made = fs.mknod(&root, InodeNo::ROOT, b"accounts", 0o100_644, 0);
        let database = Database {
            file: made.map_err(LabError::system)?.ino,
            fs,
            clock: Arc::clone(clock),
            // More than the cache holds.
            blocks: context.size(room * percent / 100, 6000),
        };
        for block in 0..database.blocks {
            database.write(block)?;
        }
        database.fs.sync().map_err(LabError::system)?;
        Ok(database)
    }

    fn write(&self, block: u64) -> Result<(), LabError> {
        let data = [block as u8; BLOCK as usize];
        let (root, at) = (Caller::root(), block * BLOCK);
        let written = self.fs.write(&root, self.file, at, &data);
        written.map(|_| ()).map_err(LabError::system)
    }

    fn read(&self, block: u64) -> Result<(), LabError> {
        let mut data = [0; BLOCK as usize];
        let read = self.fs.read(self.file, block * BLOCK, &mut data);
        read.map_err(LabError::system)?;
        match data == [block as u8; BLOCK as usize] {
            true => Ok(()),
            false => Err(LabError::System(format!("block {block} reads otherwise"))),
        }
    }

    /// Reads a block, writes it, and waits until that is on the medium.
    fn transact(&self, block: u64) -> Result<(), LabError> {
        self.read(block)?;
        self.write(block)?;
        let durable = self.fs.fsync(self.file, true);
        durable.map_err(LabError::system)
    }

    /// Milliseconds that `work` takes.
    fn timed(&self, work: impl FnOnce() -> Result<(), LabError>) -> Result<f64, LabError> {
        let begun_ns = self.clock.monotonic_ns();
        work()?;
        Ok((self.clock.monotonic_ns() - begun_ns) as f64 / 1e6)
    }

    /// What the thread behind a mount does, until `over`; it is woken when
    /// somebody is in need.
    fn maintain(
        &self,
        part: &Part,
        over: &AtomicBool,
        summoned: &AtomicBool,
    ) -> Result<(), LabError> {
        let (mut groups, mut pause) = (0, LOOKS[0]);
        loop {
            part.wait(Some(pause), &|| {
                summoned.swap(false, Relaxed) || over.load(Relaxed)
            });
            if over.load(Relaxed) {
                return Ok(());
            }
            self.fs.maintain().map_err(LabError::system)?;
            let before = std::mem::replace(&mut groups, self.fs.layout().statistics().groups);
            pause = match groups == before {
                true => LOOKS[0],
                false if self.fs.layout().cleaner().wants_cleaning() => LOOKS[2],
                false => LOOKS[1],
            };
        }
    }

    fn read_now_and_then(
        &self,
        part: &Part,
        over: &AtomicBool,
        seed: u64,
    ) -> Result<Vec<f64>, LabError> {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut took = Vec::new();
        while !over.load(Relaxed) {
            let block = random.below(self.blocks);
            took.push(self.timed(|| self.read(block))?);
            part.wait(Some(READ_EVERY), &|| over.load(Relaxed));
        }
        Ok(took)
    }
}

/// What the longest transaction had of the drive, milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Longest {
    ms: f64,
    served_ms: f64,
    queued_ms: f64,
    toll_ms: f64,
}

impl Longest {
    /// One that took so long. Only transactions pay toll.
    fn see(&mut self, ms: f64, before: (Taken, u64), after: (Taken, u64)) {
        let ms_of = |before_ns: u64, after_ns: u64| (after_ns - before_ns) as f64 / 1e6;
        if ms > self.ms {
            *self = Longest {
                ms,
                served_ms: ms_of(before.0.served_ns, after.0.served_ns),
                queued_ms: ms_of(before.0.queued_ns, after.0.queued_ns),
                toll_ms: ms_of(before.1, after.1),
            };
        }
    }
}

/// Says that it is over when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The value below which so many of ten thousand lie.
fn quantile(sorted: &[f64], of_10000: usize) -> f64 {
    let at = sorted.len() * of_10000 / 10_000;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

fn measure(
    context: &Context,
    row: Row,
    drive: &Drive,
    segment_bytes: u32,
) -> Result<Row, LabError> {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let device = Arc::new(SharedDrive::new(
        drive.clone(),
        Arc::clone(&clock),
        row.seed,
    ));
    let (threads, part) = Threads::new(Arc::clone(&clock));
    let shape = (segment_bytes, row.x as u64);
    let database = Database::new(context, &device, &clock, shape, row.seed)?;
    let (over, summoned) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let wake = Arc::clone(&summoned);
    let layout = database.fs.layout();
    layout
        .cleaner()
        .on_need(Box::new(move || wake.store(true, Relaxed)));
    let seats = [threads.seat(), threads.seat()];
    std::thread::scope(|scope| {
        let (database, over, summoned, threads) = (&database, &over, &*summoned, &threads);
        // However this ends, the others must.
        let part = part;
        let _ends = Ends(over);
        let maintaining = scope.spawn(move || {
            let part = threads.begin(seats[0]);
            database.maintain(&part, over, summoned)
        });
        let reading = scope.spawn(move || {
            let part = threads.begin(seats[1]);
            database.read_now_and_then(&part, over, row.seed)
        });
        let mut random = Random::new(row.seed);
        let mut run = |count: u64| {
            let mut took = Vec::new();
            let mut longest = Longest::default();
            for _ in 0..count {
                let so_far = || (device.taken(), layout.statistics().toll_ns);
                let (block, before) = (random.below(database.blocks), so_far());
                let ms = database.timed(|| database.transact(block))?;
                longest.see(ms, before, so_far());
                took.push(ms);
            }
            took.sort_by(f64::total_cmp);
            Ok::<_, LabError>((took, longest))
        };
        let mut all = || {
            let (fresh, _) = run(context.size(FRESH, 50))?;
            for _ in 0..ROUNDS {
                run(context.size(TRANSACTIONS, 50))?;
                if layout.statistics().segments_cleaned > 0 {
                    break;
                }
            }
            let (before, begun_ns) = (layout.statistics(), clock.monotonic_ns());
            let took = run(context.size(TRANSACTIONS, 50))?;
            Ok((fresh, took, before, clock.monotonic_ns() - begun_ns))
        };
        let done: Result<_, LabError> = all();
        over.store(true, Relaxed);
        layout.cleaner().hurry();
        part.see_off();
        let lost = |_| LabError::System("a thread of the simulation panicked".into());
        maintaining.join().map_err(lost)??;
        let mut reads = reading.join().map_err(lost)??;
        let (fresh, (took, worst), before, all_ns) = done?;
        reads.sort_by(f64::total_cmp);
        let after = layout.statistics();
        let cleaned = after.segments_cleaned - before.segments_cleaned;
        let (segment_ms, access_ms) = (segment_ms(drive, segment_bytes), access_ms(drive));
        let longest = quantile(&took, 10_000);
        let longest_read = quantile(&reads, 10_000);
        Ok(row
            .with("segment_ms", segment_ms)
            .with("access_ms", access_ms)
            .with("fresh_p99_ms", quantile(&fresh, 9900))
            .with("p50_ms", quantile(&took, 5000))
            .with("p99_ms", quantile(&took, 9900))
            .with("p999_ms", quantile(&took, 9990))
            .with("longest_ms", longest)
            .with("read_longest_ms", longest_read)
            .with("longest_served_ms", worst.served_ms)
            .with("longest_queued_ms", worst.queued_ms)
            .with("longest_toll_ms", worst.toll_ms)
            .with(
                "longest_else_ms",
                (longest - worst.served_ms - worst.queued_ms - worst.toll_ms).max(0.0),
            )
            .with("read_p99_ms", quantile(&reads, 9900))
            .with("stall_ms", longest.max(longest_read) - segment_ms)
            .with(
                "of_allowed",
                longest.max(longest_read) / (segment_ms + access_ms),
            )
            .with("per_s", took.len() as f64 / (all_ns as f64 / 1e9))
            .with("cleaned", cleaned as f64))
    })
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, _) in named_drives() {
        for kb in SEGMENTS_KB {
            let series = series(name, kb);
            for percent in PERCENT {
                let verdict = stalls(rows, &series, percent as f64);
                // The claim's are the thesis's segments.
                let beside = kb != SEGMENTS_KB[0];
                verdicts.push(verdict.beside_the_claim(beside));
            }
        }
    }
    verdicts
}

/// The longest stall of any seed, and what it was of that seed's longest transaction.
fn stalls(rows: &[Row], series: &str, percent: f64) -> Verdict {
    let at = |name: &str| mean(rows, series, percent, name);
    let of = rows.iter().filter(|row| row.series == series);
    let of = of.filter(|row| row.x == percent);
    let value = |row: &Row, name: &str| row.values.get(name).copied().unwrap_or(f64::NAN);
    let worst = of.max_by(|a, b| value(a, "stall_ms").total_cmp(&value(b, "stall_ms")));
    let worst = |name: &str| worst.map_or(f64::NAN, |row| value(row, name));
    let stall = worst("stall_ms");
    let of_all = format!(
        "{stall:.1} ms; {:.0} segments cleaned; p50 {:.1}, p99 {:.1} ({:.1} before anything is cleaned), p99.9 {:.1} ms; reads p99 {:.1} ms; {:.1} transactions/s",
        at("cleaned"),
        at("p50_ms"),
        at("p99_ms"),
        at("fresh_p99_ms"),
        at("p999_ms"),
        at("read_p99_ms"),
        at("per_s"),
    );
    let of_longest = format!(
        "with that seed the longest read takes {:.0} ms, the longest transaction {:.0}: {:.0} of its own requests, {:.0} behind others at the drive, {:.0} of toll, {:.0} of all else",
        worst("read_longest_ms"),
        worst("longest_ms"),
        worst("longest_served_ms"),
        worst("longest_queued_ms"),
        worst("longest_toll_ms"),
        worst("longest_else_ms"),
    );
    Verdict::of(
        format!("{series} at {percent} %: the longest stall"),
        format!(
            "at most an access, {:.1} ms, beyond a segment's {:.0} ms, while segments are cleaned",
            at("access_ms"),
            at("segment_ms")
        ),
        format!("{of_all}; {of_longest}"),
        stall <= at("access_ms") && at("cleaned") > 0.0,
    )
}

fn picture(rows: &[Row]) -> Picture {
    let all = PERCENT.map(|percent| (percent as f64, 1.0));
    Picture {
        title: "The longest wait beside the cleaner".into(),
        x: "per cent of what segments outside the reserve hold".into(),
        y: "parts of a segment's write and an access".into(),
        y_max: None,
        curves: Curve::all(rows, "of_allowed"),
        references: vec![Curve::named("the claim's bound", all.to_vec())],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stall of a drive is judged by its own access, not by another's.
    #[test]
    fn a_wrong_drive_fails() {
        let of = |drive: Drive| access_ms(&part_of(drive));
        let (old, new) = (of(drives::rz55()), of(drives::st19101()));
        let pass = |stall_ms: f64, access_ms: f64| {
            let row = Row::new("RZ55", 50.0, 1)
                .with("stall_ms", stall_ms)
                .with("access_ms", access_ms)
                .with("cleaned", 1.0);
            stalls(&[row], "RZ55", 50.0).pass
        };
        assert!(pass(old, old) && !pass(old, new));
    }

    #[test]
    fn three_threads_give_the_same_row_every_time() {
        let context = Context::tiny();
        let drive = part_of(drives::st19101());
        let row = |seed| measure(&context, Row::new("", 70.0, seed), &drive, 256 << 10).unwrap();
        let first = row(5);
        assert_eq!(first, row(5));
        assert_ne!(first.values, row(6).values);
    }
}
