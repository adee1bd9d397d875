//! N3: a file that was updated at random is read in its own order, and in the order in
//! which it lies in the log (`FileSystem::stretches`).
//!
//! 100 MB are written in order, and half, once and four times as many blocks of 4 KB
//! updated at random as there are. Then all is read in its own order, 64 KB at a time,
//! and in that of the places. On three drives of the papers and one of today.

use super::rivals::{
    HP_380, KIB, LFS, Machine, NEARLINE, Rival, SPARC_2, SUN_4, large_bytes, ratio, timed,
};
use super::{Context, Experiment, LabError, Point, Row};
use crate::platform::{BLOCK, System};
use crate::report::{Curve, Picture, Verdict};
use varve_prove::random::Random;

/// See the module's head.
pub const N3: Experiment = Experiment {
    id: "N3",
    about: "reading a file in the order of its segments after random updates",
    needs_traces: false,
    points,
    verdicts,
    picture,
};

const RIVALS: &[Rival] = &[LFS];
const DRIVES: [(&str, Machine); 4] = [
    ("Wren IV", SUN_4),
    ("DSP 3105", SPARC_2),
    ("SD97560", HP_380),
    (TODAY, NEARLINE),
];
const TODAY: &str = "7200 rpm";
/// Updates for each block of the file.
const UPDATES: [f64; 3] = [0.5, 1.0, 4.0];

fn in_order(drive: &str) -> String {
    format!("{drive}, in order")
}

fn by_place(drive: &str) -> String {
    format!("{drive}, by place")
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (name, machine) in DRIVES {
        for &updates in context.size(&UPDATES[..], &UPDATES[1..2]) {
            points.extend(
                machine.points(RIVALS, name, move |context, _, system, seed| {
                    let bytes = large_bytes(context);
                    let (ordered, scanned) = read_twice(system, bytes, updates, seed)?;
                    let row = |series: String, s: f64| {
                        Row::new(series, updates, seed).with("kb_per_s", bytes as f64 / 1e3 / s)
                    };
                    Ok(vec![
                        row(in_order(name), ordered),
                        row(by_place(name), scanned),
                    ])
                }),
            );
        }
    }
    points
}

/// Seconds of reading in order, and by place.
fn read_twice(
    system: &mut dyn System,
    bytes: u64,
    updates: f64,
    seed: u64,
) -> Result<(f64, f64), LabError> {
    const PIECE: u64 = 64 * KIB;
    let mut random = Random::new(seed);
    system.create(0)?;
    for at in (0..bytes).step_by(PIECE as usize) {
        system.write(0, at, PIECE as u32, false)?;
    }
    let blocks = bytes / BLOCK;
    for _ in 0..(blocks as f64 * updates) as u64 {
        system.write(0, random.below(blocks) * BLOCK, BLOCK as u32, false)?;
    }
    system.sync()?;
    system.forget();
    let ordered = timed(system, |system| {
        let mut all = (0..bytes).step_by(PIECE as usize);
        all.try_for_each(|at| system.read(0, at, PIECE as u32))
    })?;
    let scanned = timed(system, |system| system.scan(0))?;
    Ok((ordered, scanned))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, _) in DRIVES {
        for updates in UPDATES {
            let times = ratio(rows, &by_place(name), &in_order(name), updates, "kb_per_s");
            let verdict = Verdict::of(
                format!("{name}, {updates} updates a block: by place against in order"),
                "at least 5 x",
                format!("{times:.2} x"),
                times >= 5.0,
            );
            verdicts.push(match name {
                TODAY => verdict.on_todays_devices(),
                _ => verdict,
            });
        }
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "A file of 100 MB read after random updates".into(),
        x: "updates for each block".into(),
        y: "KB/s".into(),
        y_max: None,
        curves: Curve::all(rows, "kb_per_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}
