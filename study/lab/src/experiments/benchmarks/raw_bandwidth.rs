//! B1: raw bandwidth against the size of transfers (Seltzer 1992, §7.3): a file of so
//! many bytes is written again and again, with an fsync each time, and read again and
//! again from an empty cache, ten times for each seed, so fifty in all.
//!
//! Host and drive overlap as `study/file-systems.md` says. *Raw* is the drive without a file
//! system: 64 KB are copied and transferred, one after the other, as the paper found.
//! FFS and EFS have a cluster written as soon as it is full, and go on; LFS gathers
//! 800 KB. Beside them an LFS that does as EFS: what the paper says of LFS is that it
//! begins late.

use crate::experiments::rivals::{COMMAND_BYTES, EFS, FFS, HP_380, KIB, LFS, Rival, write_behind};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::System;
use crate::platform::host::{CALL, COPY_BYTE};
use crate::platform::store::Store;
use crate::program::bandwidth::{SIZES_KB, Whole};
use crate::report::{Curve, Picture, Verdict, mean};
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::Device;
use varve_prove::random::Random;

pub const B1: Experiment = Experiment::new("B1", points, verdicts, picture)
    .on_machine()
    .taking(17.0);

const RAW: &str = "raw";
/// LFS that has a cluster written as soon as it is full, as EFS does.
const SOON: (Rival, Option<u64>) = (("LFS, soon", LFS.1), Some(64 * KIB - 1));
const RUNS: u32 = 10;
/// Longest pause between two runs.
const PAUSE_NS: u64 = 100_000_000;

/// Of the sizes above: those that are less than a cluster, those that LFS only gathers,
/// and those at which a rate is that of the drive and not of an arm.
const SMALL: std::ops::Range<usize> = 0..3;
const GATHERED: std::ops::Range<usize> = 3..7;
const LARGE: std::ops::Range<usize> = 7..10;

/// What bus and medium carry (table 7-1), KB/s.
const BUS_KB_S: f64 = 1.6 * 1024.0;
const MEDIUM_KB_S: f64 = 2.2 * 1024.0;
/// How far readers are from raw in the paper, per cent.
const ALIKE: f64 = 3.0;
/// Points that all of this may be off.
const WITHIN: f64 = 7.0;

fn points(_: &Context) -> Vec<Point> {
    let mut points = vec![Point::new(RAW, |context: &Context| {
        rows(context, |seed| {
            let store = HP_380.with(LFS.1).store(seed)?;
            let mut random = Random::new(seed);
            let row = |&kb: &u64| Ok(row(RAW, kb, seed, raw(&store, kb * KIB, &mut random)?));
            sizes(context).iter().map(row).collect()
        })
    })];
    let usual = [FFS, EFS, LFS].map(|rival| (rival, write_behind(rival.1)));
    for ((name, layout), write_back_bytes) in usual.into_iter().chain([SOON]) {
        points.push(Point::new(name, move |context: &Context| {
            rows(context, |seed| {
                let platform = HP_380.writing_behind(layout, write_back_bytes);
                let store = platform.store(seed)?;
                let _part = platform.take_part(&store);
                let mut system = platform.mount(Arc::clone(&store), seed)?;
                let mut random = Random::new(seed);
                let mut row = |&kb: &u64| {
                    let file_of = (kb as u32, kb * KIB);
                    let took = file(&mut *system, &store, file_of, &mut random)?;
                    Ok(row(name, kb, seed, took))
                };
                sizes(context).iter().map(&mut row).collect()
            })
        }));
    }
    points
}

fn sizes(context: &Context) -> &'static [u64] {
    context.size(&SIZES_KB[..], &SIZES_KB[..6])
}

fn rows(
    context: &Context,
    of: impl Fn(u64) -> Result<Vec<Row>, LabError>,
) -> Result<Vec<Row>, LabError> {
    let rows = context.seeds().map(of).collect::<Result<Vec<_>, _>>()?;
    Ok(rows.concat())
}

/// What a run took to write, of that for the fsync, to read, and to open before that, in
/// seconds.
type Took = [f64; 4];

fn row(series: &str, kb: u64, seed: u64, [write_s, fsync_s, read_s, open_s]: Took) -> Row {
    Row::new(series, kb as f64, seed)
        .with("write_kb_s", kb as f64 / write_s)
        .with("write_ms", 1e3 * write_s)
        .with("fsync_ms", 1e3 * fsync_s)
        .with("read_kb_s", kb as f64 / read_s)
        .with("open_ms", 1e3 * open_s)
}

/// Seconds that a run takes. Runs begin wherever the platter stands.
fn timed(
    store: &Store,
    random: &mut Random,
    mut run: impl FnMut() -> Result<(), LabError>,
) -> Result<f64, LabError> {
    let mut all_ns = 0;
    for _ in 0..RUNS {
        store.wait(store.now_ns() + random.below(PAUSE_NS));
        let begun_ns = store.now_ns();
        run()?;
        all_ns += store.now_ns() - begun_ns;
    }
    Ok(all_ns as f64 / 1e9 / f64::from(RUNS))
}

/// A file, on a file system.
fn file(
    system: &mut dyn System,
    store: &Store,
    (file, bytes): (u32, u64),
    random: &mut Random,
) -> Result<Took, LabError> {
    let whole = Whole {
        file,
        bytes: bytes as u32,
    };
    whole.make(system)?;
    let (mut syncing, mut opening) = (0.0, 0.0);
    let writing = timed(store, random, || {
        syncing += whole.write(system)? as f64 / 1e9 / f64::from(RUNS);
        Ok(())
    })?;
    let reading = timed(store, random, || {
        system.forget();
        opening += whole.read(system)? as f64 / 1e9 / f64::from(RUNS);
        Ok(())
    })?;
    Ok([writing, syncing, reading - opening, opening])
}

/// The drive's first bytes.
fn raw(store: &Store, bytes: u64, random: &mut Random) -> Result<Took, LabError> {
    let mut data = vec![0x5a; bytes as usize];
    let step = COMMAND_BYTES;
    let copy = |piece: &[u8]| store.cpu().work(piece.len() as u64 * COPY_BYTE);
    let writing = timed(store, random, || {
        store.cpu().work(CALL);
        for (at, piece) in (0..).step_by(step).zip(data.chunks(step)) {
            copy(piece);
            let written = store.write(at, &[IoSlice::new(piece)]);
            written
                .and_then(|()| store.flush())
                .map_err(LabError::system)?;
        }
        Ok(())
    })?;
    let reading = timed(store, random, || {
        store.cpu().work(CALL);
        for (at, piece) in (0..).step_by(step).zip(data.chunks_mut(step)) {
            store.read(at, piece).map_err(LabError::system)?;
            copy(piece);
        }
        Ok(())
    })?;
    Ok([writing, 0.0, reading, 0.0])
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let rate = |series: &str, at: usize, what: &str| mean(rows, series, SIZES_KB[at] as f64, what);
    // Per cent of the raw drive.
    let of_raw =
        |series: &str, at: usize, what: &str| 100.0 * rate(series, at, what) / rate(RAW, at, what);
    let told = |of: std::ops::Range<usize>, f: &dyn Fn(usize) -> f64| {
        of.map(|at| format!("{:.0}", f(at)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut verdicts = Vec::new();
    let writes = |series| move |at| of_raw(series, at, "write_kb_s");
    let mut at_raw = |series: &'static str, beside: bool| {
        let verdict = Verdict::of(
            format!("writes of 1 to 4 MB: {series} against raw"),
            format!("at raw's rate or above, or {WITHIN} points below"),
            format!("{} %", told(LARGE, &writes(series))),
            LARGE
                .map(writes(series))
                .all(|percent| percent >= 100.0 - WITHIN),
        );
        verdicts.push(verdict.beside_the_claim(beside));
    };
    at_raw(EFS.0, false);
    at_raw(SOON.0.0, true);
    for (sizes, these) in [("8 to 32 KB", SMALL), ("64 to 512 KB", GATHERED)] {
        let below = |at| {
            rate(LFS.0, at, "write_kb_s")
                < rate(EFS.0, at, "write_kb_s").min(rate(RAW, at, "write_kb_s"))
        };
        verdicts.push(Verdict::of(
            format!("writes of {sizes}: LFS against raw and EFS"),
            "below both",
            format!(
                "{} %, EFS {} %",
                told(these.clone(), &writes(LFS.0)),
                told(these.clone(), &writes(EFS.0))
            ),
            these.clone().all(below),
        ));
    }
    for (name, what, of, carries, percent) in [
        ("writes", "write_kb_s", "the bus", BUS_KB_S, 31.0),
        ("reads", "read_kb_s", "the medium", MEDIUM_KB_S, 25.0),
    ] {
        let found = |at| 100.0 * rate(FFS.0, at, what) / carries;
        verdicts.push(Verdict::of(
            format!("{name} of 1 to 4 MB: FFS, of what {of} carries"),
            format!("{percent} %, within {WITHIN} points"),
            format!("{} %", told(LARGE, &found)),
            LARGE
                .map(found)
                .all(|found| (found - percent).abs() <= WITHIN),
        ));
    }
    for (sizes, these, beside) in [
        ("1 to 4 MB", LARGE, false),
        ("64 to 512 KB", GATHERED, true),
    ] {
        for series in [EFS.0, LFS.0] {
            let reads = |at| of_raw(series, at, "read_kb_s");
            let alike = |percent: f64| (percent - 100.0).abs() <= ALIKE + WITHIN;
            let verdict = Verdict::of(
                format!("reads of {sizes}: {series} against raw"),
                format!("within {ALIKE} %, and {WITHIN} points"),
                format!("{} %", told(these.clone(), &reads)),
                these.clone().map(reads).all(alike),
            );
            verdicts.push(verdict.beside_the_claim(beside));
        }
    }
    // Figure 7-2: the fsync writes all that was gathered.
    let share = |at| 100.0 * rate(LFS.0, at, "fsync_ms") / rate(EFS.0, at, "write_ms");
    let alike = |percent: f64| (percent - 100.0).abs() <= ALIKE + WITHIN;
    verdicts.push(Verdict::of(
        "writes of 64 to 512 KB: the fsync of LFS against all of EFS's write",
        format!("nearly identical (T2074): within {ALIKE} %, and {WITHIN} points"),
        format!("{} %", told(GATHERED, &share)),
        GATHERED.map(share).all(alike),
    ));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |series: &str| {
        let step = |(step, kb): (usize, u64)| {
            (
                step as f64 + 3.0,
                mean(rows, series, kb as f64, "write_kb_s"),
            )
        };
        let points = SIZES_KB.into_iter().enumerate().map(step);
        Curve::named(series, points.filter(|(_, y)| y.is_finite()).collect())
    };
    let ends = [3.0, 12.0];
    Picture {
        title: "Writes, with an fsync each".into(),
        x: "size, powers of two, KB".into(),
        y: "KB/s".into(),
        y_max: None,
        curves: [RAW, FFS.0, EFS.0, LFS.0, SOON.0.0].map(curve).into(),
        references: vec![Curve::named(
            "FFS in the paper",
            ends.map(|x| (x, 0.31 * BUS_KB_S)).into(),
        )],
    }
    .with_room_for_names()
}
