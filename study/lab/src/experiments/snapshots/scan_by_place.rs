//! S2: a tree is read file after file, and in the order of the log (`FileSystem::scan`).
//!
//! Files of 8 and of 64 KB fill 32 MB and are then rewritten in blocks of 4 KB, as many as
//! there are, at random over all files. Then all is read: file by file in the order in
//! which they were made, each file by place (`FileSystem::stretches`), and the tree by
//! place. On a drive of the papers and one of today.

use crate::experiments::rivals::{KIB, LFS, Machine, NEARLINE, Rival, SUN_4, ratio, timed};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::{BLOCK, System};
use crate::report::{Curve, Picture, Verdict};
use varve_prove::random::Random;

pub const S2: Experiment = Experiment::new("S2", points, verdicts, picture);

const RIVALS: &[Rival] = &[LFS];
const TODAY: &str = "7200 rpm";
const DRIVES: [(&str, Machine); 2] = [("Wren IV", SUN_4), (TODAY, NEARLINE)];
/// KB of each file.
const FILES: [u64; 2] = [8, 64];
const BYTES: u64 = 32 << 20;

fn series(drive: &str, order: &str) -> String {
    format!("{drive}, {order}")
}

const BY_NAME: &str = "by name";
const BY_FILE: &str = "each file by place";
const BY_PLACE: &str = "the tree by place";

fn points(context: &Context) -> Vec<Point> {
    let bytes = context.size(BYTES, 2 << 20);
    let mut points = Vec::new();
    for (name, machine) in DRIVES {
        for kilobytes in FILES {
            points.extend(machine.points(RIVALS, name, move |_, _, system, seed| {
                let seconds = read_thrice(system, bytes, kilobytes * KIB, seed)?;
                let orders = [BY_NAME, BY_FILE, BY_PLACE].into_iter().zip(seconds);
                let row = |(order, s): (&str, f64)| {
                    Row::new(series(name, order), kilobytes as f64, seed)
                        .with("kb_per_s", bytes as f64 / 1e3 / s)
                };
                Ok(orders.map(row).collect())
            }));
        }
    }
    points
}

/// Seconds of reading by name, each file by place, and the tree by place.
fn read_thrice(
    system: &mut dyn System,
    bytes: u64,
    file_bytes: u64,
    seed: u64,
) -> Result<[f64; 3], LabError> {
    let mut random = Random::new(seed);
    let files = (bytes / file_bytes) as u32;
    for file in 0..files {
        system.create(file)?;
        system.write(file, 0, file_bytes as u32, false)?;
    }
    system.sync()?;
    for _ in 0..bytes / BLOCK {
        let file = random.below(u64::from(files)) as u32;
        let at = random.below(file_bytes / BLOCK) * BLOCK;
        system.write(file, at, BLOCK as u32, false)?;
    }
    system.sync()?;
    let mut cold = |read: &mut dyn FnMut(&mut dyn System) -> Result<(), LabError>| {
        system.forget();
        timed(system, |system| read(system))
    };
    Ok([
        cold(&mut |system| {
            (0..files).try_for_each(|file| system.read(file, 0, file_bytes as u32))
        })?,
        cold(&mut |system| (0..files).try_for_each(|file| system.scan(file)))?,
        cold(&mut |system| system.scan_all())?,
    ])
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, _) in DRIVES {
        for kilobytes in FILES {
            let gain = |order| {
                let (one, other) = (series(name, BY_PLACE), series(name, order));
                ratio(rows, &one, &other, kilobytes as f64, "kb_per_s")
            };
            let (by_name, by_file) = (gain(BY_NAME), gain(BY_FILE));
            let verdict = Verdict::of(
                format!("{name}, files of {kilobytes} KB: the tree by place, next to by name"),
                "at least twice as fast",
                format!("{by_name:.1} times, and {by_file:.1} times each file by place"),
                by_name >= 2.0,
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
        title: "A tree of 32 MB read after random updates".into(),
        x: "KB of a file".into(),
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
    use crate::experiments::rivals::LFS;

    /// Reading by name under the name of reading by place.
    #[test]
    fn a_wrong_order_fails() {
        let (name, _) = DRIVES[0];
        let mut system = SUN_4.with(LFS.1).build(1).unwrap();
        let [by_name, _, by_place] = read_thrice(&mut *system, 4 << 20, 8 * KIB, 1).unwrap();
        let pass = |seconds: f64| {
            let row =
                |order, s: f64| Row::new(series(name, order), 8.0, 1).with("kb_per_s", 1.0 / s);
            let rows = [row(BY_NAME, by_name), row(BY_PLACE, seconds)];
            let claim = format!("{name}, files of 8 KB: the tree by place, next to by name");
            let verdicts = verdicts(&rows);
            verdicts
                .iter()
                .find(|verdict| verdict.claim == claim)
                .unwrap()
                .pass
        };
        assert!(pass(by_place) && !pass(by_name));
    }
}
