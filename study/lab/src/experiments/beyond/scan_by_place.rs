//! N3: a file that was updated at random is read in its own order, and in the order in
//! which it lies in the log (`FileSystem::stretches`).
//!
//! 100 MB are written in order, and half, once and four times as many blocks of 4 KB
//! updated at random as there are. Then all is read in its own order, 64 KB at a time,
//! and in that of the places. On three drives of the papers and one of today.

use crate::experiments::rivals::{
    HP_380, KIB, LFS, Machine, NEARLINE, Rival, SPARC_2, SUN_4, large_bytes, ratio, timed,
};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::{BLOCK, System};
use crate::report::{Curve, Picture, Verdict};
use varve_prove::random::Random;

pub const N3: Experiment = Experiment::new("N3", points, verdicts, picture)
    .on_machine()
    .taking(50.0);

const RIVALS: &[Rival] = &[LFS];
const DRIVES: [(&str, Machine); 4] = [
    ("Wren IV", SUN_4),
    ("DSP 3105", SPARC_2),
    ("SD97560", HP_380),
    (TODAY, NEARLINE),
];
const TODAY: &str = "7200 rpm";
/// Of the rate at which the file is read in order before anything is updated, which no
/// order of reading exceeds. Half of it is nearer to that than to reading at random.
const OF_FRESH: f64 = 0.5;
/// Updates for each block of the file.
const UPDATES: [f64; 3] = [0.5, 1.0, 4.0];

fn in_order(drive: &str) -> String {
    format!("{drive}, in order")
}

fn fresh(drive: &str) -> String {
    format!("{drive}, before updates")
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
                    let [before, ordered, scanned] = read_thrice(system, bytes, updates, seed)?;
                    let row = |series: String, s: f64| {
                        Row::new(series, updates, seed).with("kb_per_s", bytes as f64 / 1e3 / s)
                    };
                    Ok(vec![
                        row(fresh(name), before),
                        row(in_order(name), ordered),
                        row(by_place(name), scanned),
                    ])
                }),
            );
        }
    }
    points
}

/// Seconds of reading in order before updates, in order, and by place.
fn read_thrice(
    system: &mut dyn System,
    bytes: u64,
    updates: f64,
    seed: u64,
) -> Result<[f64; 3], LabError> {
    const PIECE: u64 = 64 * KIB;
    let mut random = Random::new(seed);
    let all = || (0..bytes).step_by(PIECE as usize);
    let in_order = |system: &mut dyn System| {
        system.forget();
        timed(system, |system| {
            all().try_for_each(|at| system.read(0, at, PIECE as u32))
        })
    };
    system.create(0)?;
    all().try_for_each(|at| system.write(0, at, PIECE as u32, false))?;
    system.sync()?;
    let before = in_order(system)?;
    let blocks = bytes / BLOCK;
    for _ in 0..(blocks as f64 * updates) as u64 {
        system.write(0, random.below(blocks) * BLOCK, BLOCK as u32, false)?;
    }
    system.sync()?;
    let ordered = in_order(system)?;
    let scanned = timed(system, |system| system.scan(0))?;
    Ok([before, ordered, scanned])
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, _) in DRIVES {
        for updates in UPDATES {
            let of_fresh = |series: &str| ratio(rows, series, &fresh(name), updates, "kb_per_s");
            let (place, order) = (of_fresh(&by_place(name)), of_fresh(&in_order(name)));
            let verdict = Verdict::of(
                format!("{name}, {updates} updates a block: by place, of the rate before updates"),
                "at least half, which no order of reading exceeds",
                format!(
                    "{place:.2}; in order {order:.2}, {:.1} times as slow",
                    place / order
                ),
                place >= OF_FRESH,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading in order under the name of reading by place.
    #[test]
    fn a_wrong_order_fails() {
        let row = |series: String, rate: f64| Row::new(series, 1.0, 1).with("kb_per_s", rate);
        let (name, _) = DRIVES[0];
        let mut system = SUN_4.with(LFS.1).build(1).unwrap();
        let [before, ordered, _] = read_thrice(&mut *system, 8 << 20, 1.0, 1).unwrap();
        let pass = |seconds: f64| {
            let rows = [
                row(fresh(name), 1.0 / before),
                row(in_order(name), 1.0 / ordered),
                row(by_place(name), 1.0 / seconds),
            ];
            let claim = format!("{name}, 1 updates a block: by place, of the rate before updates");
            let verdicts = verdicts(&rows);
            verdicts.iter().find(|v| v.claim == claim).unwrap().pass
        };
        assert!(pass(before) && !pass(ordered));
    }
}
