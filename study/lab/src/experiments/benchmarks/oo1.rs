//! B5: OO1 (Seltzer 1992, §7.6, tables 7-4 and 7-5): 1,000 parts are looked up, 100
//! inserted, connections followed from a part forth and back, each with empty caches.
//!
//! A test ends when its transaction is committed. On the log what it wrote may wait; on FFS
//! and EFS it waits for each page that the store puts out, where in the thesis 97 % of the
//! writes were asynchronous. The database is made anew for each of ten rounds.

use crate::database::oo1::{CONNECTIONS, HOPS, INSERTS, LOOKUPS, PARTS, Part, Parts, Program, Way};
use crate::experiments::benchmarks::database::{self, AT_ONCE, Database, Took, WAIT, timed};
use crate::experiments::rivals::{EFS, FFS, LFS, Rival};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::System;
use crate::platform::records::Habits;
use crate::report::{Curve, Picture, Verdict, mean};
use varve_prove::random::Random;

pub const B5: Experiment = Experiment::new("B5", points, verdicts, picture)
    .on_machine()
    .taking(20.0);

const RIVALS: &[Rival] = &[FFS, EFS, LFS];
const PAGE_BYTES: u32 = 4096;
/// Rounds of each seed: ten with the usual five.
const ROUNDS: u64 = 2;
/// The tests, and seconds of FFS, EFS and LFS in table 7-5.
const TESTS: [(&str, [f64; 3]); 4] = [
    ("lookup", [16.3, 16.4, 16.3]),
    ("insert", [4.4, 4.2, 4.3]),
    ("traverse forward", [28.1, 28.4, 28.3]),
    ("traverse backward", [28.6, 28.8, 29.0]),
];
const EQUAL: f64 = 0.05;

/// How FFS and EFS write in the thesis; the log waits for whole segments.
fn habits_of(series: &str) -> Habits {
    match series == LFS.0 {
        true => WAIT,
        false => AT_ONCE,
    }
}

fn points(_: &Context) -> Vec<Point> {
    let each = RIVALS.iter().map(|&(name, layout)| {
        Point::new(name, move |context: &Context| {
            let mut rows = Vec::new();
            for seed in context.seeds() {
                for round in 0..context.size(ROUNDS, 1) {
                    let chance = seed.wrapping_mul(ROUNDS).wrapping_add(round);
                    let platform = database::platform(layout, habits_of(name));
                    let mut system = context.platform(platform).build(chance)?;
                    let took = run(context, &mut *system, habits_of(name), chance)?;
                    rows.extend((1..).zip(took).map(|(test, (took, seen)): (u32, _)| {
                        Row::new(name, f64::from(test), chance)
                            .with("s", took.seconds)
                            .with("seen", seen as f64)
                            .with("reads", took.reads as f64)
                            .with("writes", took.writes as f64)
                    }));
                }
            }
            Ok(rows)
        })
    });
    each.collect()
}

/// What each test takes, and the sum of what is in the parts that it sees.
fn run(
    context: &Context,
    system: &mut dyn System,
    habits: Habits,
    seed: u64,
) -> Result<Vec<(Took, u64)>, LabError> {
    let (count, hops) = context.size((PARTS, HOPS), (500, 4));
    let lookups = context.size(LOOKUPS, 50);
    let database = Database::new(PAGE_BYTES);
    let loading = database.open_to_load(system, |options| options)?;
    let loaded = Parts::load(&loading, count, &mut Random::new(seed));
    drop(loaded.map_err(LabError::system)?);
    loading.close().map_err(LabError::system)?;
    let programs: [Program; TESTS.len()] = [
        Program::LookUp(lookups),
        Program::Insert(INSERTS),
        Program::Follow(Way::Forward, hops),
        Program::Follow(Way::Backward, hops),
    ];
    let mut all = Vec::new();
    for (test, (program, (name, _))) in programs.into_iter().zip(TESTS).enumerate() {
        let environment = database.open_cold(system, habits, |options| options)?;
        // The second test has inserted some.
        let count = if test > 1 { count + INSERTS } else { count };
        let mut parts = Parts::open(&environment, count);
        let mut random = Random::new(seed ^ ((test as u64 + 1) << 32));
        let (mut seen, mut sum) = (0, 0);
        let mut see = |part: Part| {
            seen += 1;
            sum += u64::from(part.x ^ part.y);
        };
        let took = timed(system, || {
            let work = program.run(&mut parts, &mut random, &mut see);
            work.map_err(LabError::system)
        })?;
        let sound = match test {
            0 => seen == lookups,
            1 => seen == 0,
            2 => seen == (CONNECTIONS.pow(hops + 1) - 1) / (CONNECTIONS - 1),
            // As many as lead there, on every file system the same.
            _ => seen > 0,
        };
        if !sound {
            return Err(LabError::System(format!("{name} saw {seen} parts")));
        }
        all.push((took, sum));
        drop(parts);
        environment.close().map_err(LabError::system)?;
    }
    Ok(all)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let each = (1..).zip(TESTS).map(|(test, (name, _))| {
        let found = RIVALS.iter();
        let found: Vec<f64> = found
            .map(|(series, _)| mean(rows, series, f64::from(test), "s"))
            .collect();
        let least = found.iter().copied().fold(f64::INFINITY, f64::min);
        let most = found.iter().copied().fold(0.0, f64::max);
        let told: Vec<String> = found.iter().map(|s| format!("{s:.2}")).collect();
        let apart = most / least - 1.0;
        // Which are the same parts on all of them.
        let seen = |(series, _): &Rival| mean(rows, series, f64::from(test), "seen");
        let alike = RIVALS.iter().all(|rival| seen(rival) == seen(&RIVALS[0]));
        Verdict::of(
            format!("{name}: FFS, EFS and LFS"),
            "equal, within 5 %",
            format!("{} s: {:.1} % apart", told.join(", "), 100.0 * apart),
            alike && found.iter().all(|s| s.is_finite()) && apart <= EQUAL,
        )
    });
    each.collect()
}

fn picture(rows: &[Row]) -> Picture {
    let paper = |at: usize, name: &str| {
        let points = (1..).zip(TESTS).map(|(x, (_, s))| (f64::from(x), s[at]));
        Curve::named(format!("paper, {name}"), points.collect())
    };
    Picture {
        title: "OO1: 1 lookup, 2 insert, 3 traverse forward, 4 traverse backward".into(),
        x: "test".into(),
        y: "seconds".into(),
        y_max: None,
        curves: Curve::all(rows, "s"),
        references: vec![paper(0, FFS.0), paper(2, LFS.0)],
    }
    .with_room_for_names()
}
