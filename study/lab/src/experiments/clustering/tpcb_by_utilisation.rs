//! L2: TPC-B against utilisation (Seltzer et al. 1995, §4, figure 7): on FFS, on the log
//! before it has to clean, and on the log in the steady state.
//!
//! The file system has half of the paper's drive, 512 MB, on all of its surfaces. The bank
//! is the wanted share of it, with nothing else there. The store's log is on a drive of its
//! own, for which nobody waits.
//!
//! The paper's FFS writes a page when it is put out of the store's cache, and its store
//! puts out one at a time; both are done so here, on the log, too. What Varve does, that
//! pages go out by 32 and wait in memory, in the order of the disk, stands beside it.
//!
//! The paper's cleaner chooses by cost and benefit. Varve's best on this load is greedy,
//! and where some accounts are drawn more often, life-classes on several heads; both with
//! segments of 256 KB, as a volume of this size has. Beside all stands what no cleaner is
//! expected to surpass that reads segments of 1 MB whole ([`Machine::beside_cleaning`]).
//! At two utilisations the same is asked of an NVMe-like device of today.

use crate::experiments::bank::{Setting, Skew, When, accounts};
use crate::experiments::rivals::{MIB, Machine, NVME, SPARC_2, curves_of_the_paper, ffs, seeds_of};
use crate::experiments::updates::unless_full;
use crate::experiments::{Context, Experiment, Point, Row};
use crate::platform::records::Habits;
use crate::platform::{Cleaning, Layout};
use crate::report::{Curve, Picture, Verdict, mean};

pub const L2: Experiment = Experiment::new("L2", points, verdicts, picture)
    .on_machine()
    .taking(381.0);

const FFS: &str = "FFS-m8r2";
const SORTED: &str = "FFS-m8r2, 32 pages together";
const NEVER: &str = "LFS, no cleaner";
const PAPERS: &str = "LFS, cost-benefit";
const BEST: &str = "LFS, greedy, 256 KB";
const SKEWED: &str = "LFS, life-classes, 256 KB, 80/20";
const SKEWED_NEVER: &str = "LFS, no cleaner, 80/20";
const BOUND: &str = "bound";

/// The paper's least, and others.
const LEAST: f64 = 48.0;
const PERCENT: [f64; 5] = [LEAST, 60.0, 70.0, 80.0, 90.0];
/// Seeds at most, because each is a bank of 240 to 460 MB.
const SEEDS: usize = 2;
const DISK_BYTES: u64 = 512 * MIB;
const CACHE_BYTES: u64 = 4 * MIB;
const SEGMENT_BYTES: u32 = 1 << 20;
const SMALL_BYTES: u32 = 256 << 10;
/// Where skewed access and an NVMe-like device are measured.
const TWO: [f64; 2] = [LEAST, 80.0];
/// FFS-m8r2, with blocks of 4 KB.
const M8R2: Layout = ffs(4096, 8, 2);

fn machine() -> Machine {
    SPARC_2.part(DISK_BYTES, 1.0)
}

impl Setting {
    /// Of the 1995 paper.
    fn of_1995(machine: Machine, layout: Layout, percent: f64) -> Self {
        Setting {
            machine,
            layout,
            segment_bytes: SEGMENT_BYTES,
            cleaning: Cleaning::COST_BENEFIT,
            habits: Habits {
                log_apart: true,
                at_once: layout != Layout::Lfs,
            },
            accounts: accounts(machine, percent / 100.0, true),
            cache_bytes: CACHE_BYTES,
            together: 1,
            skew: Skew::Uniform,
        }
    }
}

/// A curve, its place, how that is measured, and when.
type Case = (String, f64, Setting, When);

/// The curves of a machine, at these places.
fn cases(on: &str, machine: Machine, places: &[f64]) -> Vec<Case> {
    let lfs = |percent| Setting::of_1995(machine, Layout::Lfs, percent);
    let case = |series, percent, setting, when| (format!("{on}{series}"), percent, setting, when);
    let mut cases = vec![case(NEVER, LEAST, lfs(LEAST), When::FRESH)];
    for &percent in places {
        let in_place = Setting::of_1995(machine, M8R2, percent);
        let best = Setting {
            cleaning: Cleaning::GREEDY,
            segment_bytes: SMALL_BYTES,
            ..lfs(percent)
        };
        cases.push(case(FFS, percent, in_place, When::FRESH));
        cases.push(case(PAPERS, percent, lfs(percent), When::STEADY));
        cases.push(case(BEST, percent, best, When::STEADY));
    }
    cases
}

fn points(context: &Context) -> Vec<Point> {
    let sorted = Setting {
        habits: Habits {
            log_apart: true,
            at_once: false,
        },
        together: 32,
        ..Setting::of_1995(machine(), M8R2, LEAST)
    };
    let skewed_never = Setting {
        skew: Skew::Eighty,
        ..Setting::of_1995(machine(), Layout::Lfs, LEAST)
    };
    let skewed = |percent| Setting {
        skew: Skew::Eighty,
        cleaning: Cleaning::LIFE_CLASSES,
        segment_bytes: SMALL_BYTES,
        ..Setting::of_1995(machine(), Layout::Lfs, percent)
    };
    let two = context.size(&TWO[..], &TWO[..1]);
    let mut all = cases("", machine(), context.size(&PERCENT[..], &PERCENT[..1]));
    all.push((SORTED.into(), LEAST, sorted, When::FRESH));
    all.push((SKEWED_NEVER.into(), LEAST, skewed_never, When::FRESH));
    for &percent in two {
        all.push((SKEWED.into(), percent, skewed(percent), When::STEADY));
    }
    all.extend(cases(NVME, machine().on_flash(), two));
    let point = |(series, percent, setting, when): Case| {
        let label = format!("{series} at {percent} %");
        Point::new(label, move |context: &Context| {
            let mut rows: Vec<Row> = Vec::new();
            for seed in context.seeds().take(seeds_of(&series).min(SEEDS)) {
                let found = setting.measure(context, when, seed);
                let row = found.map(|found| found.row(&series, percent, seed));
                let row = unless_full(Row::new(&*series, percent, seed), row)?;
                let full = row.values.contains_key("full");
                rows.push(row);
                // Where one finds no room, all would take as long to find none.
                if full {
                    break;
                }
            }
            Ok(rows)
        })
    };
    all.into_iter().map(point).collect()
}

/// What is left for one who cleans as well as uniform updates allow.
fn bound(rows: &[Row], never: &str, percent: f64) -> f64 {
    let of = |what| mean(rows, never, LEAST, what);
    machine().beside_cleaning((of("tps"), of("log_bytes")), SEGMENT_BYTES, percent / 100.0)
}

/// What became of them, and how many per cent of `never` that loses.
fn told(rows: &[Row], series: &str, percent: f64, never: f64) -> String {
    match mean(rows, series, percent, "full").is_finite() {
        true => "no room".to_owned(),
        false => {
            let tps = mean(rows, series, percent, "tps");
            let loss = 100.0 * (1.0 - tps / never);
            format!("{tps:.1} tps, loses {loss:.0} %")
        }
    }
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let tps = |series: &str, percent: f64| mean(rows, series, percent, "tps");
    let never = tps(NEVER, LEAST);
    let loss = |series: &str, percent: f64| 100.0 * (1.0 - tps(series, percent) / never);
    let told = |series: &str, percent: f64| told(rows, series, percent, never);
    let near = |found: f64, paper: f64| (found / paper - 1.0).abs() <= 0.15;
    let mut verdicts = vec![Verdict::of(
        "LFS without cleaner",
        "41 to 42.6 tps, within 15 %",
        format!("{never:.1} tps"),
        (41.0 * 0.85..=42.6 * 1.15).contains(&never),
    )];
    for percent in TWO {
        let found = tps(FFS, percent);
        verdicts.push(Verdict::of(
            format!("FFS at {percent} %"),
            "28 tps, within 15 %",
            format!("{found:.1} tps"),
            near(found, 28.0),
        ));
    }
    for (percent, paper) in [(LEAST, 34.0), (70.0, 41.0), (80.0, 41.0), (90.0, 41.0)] {
        let found = loss(PAPERS, percent);
        verdicts.push(Verdict::of(
            format!("what the cleaner costs at {percent} %: cost-benefit"),
            format!("{paper} %, within 8 points"),
            told(PAPERS, percent),
            (found - paper).abs() <= 8.0,
        ));
    }
    for percent in PERCENT {
        let (found, bound) = (tps(BEST, percent), bound(rows, NEVER, percent));
        verdicts.push(Verdict::of(
            format!("Varve's best at {percent} %: greedy, 256 KB"),
            "at least 0.9 x what uniform updates allow",
            format!(
                "{}; allowed {bound:.1} and {:.0} %",
                told(BEST, percent),
                100.0 * (1.0 - bound / never)
            ),
            found >= 0.9 * bound,
        ));
    }
    for percent in TWO {
        let never = tps(SKEWED_NEVER, LEAST);
        let most = 50.0 * (1.0 - bound(rows, SKEWED_NEVER, percent) / never);
        let found = 100.0 * (1.0 - tps(SKEWED, percent) / never);
        verdicts.push(Verdict::of(
            format!("Varve's best at {percent} %, 80/20: life-classes, 256 KB"),
            format!("half of what uniform updates lose: {most:.0} %"),
            self::told(rows, SKEWED, percent, never),
            found <= most,
        ));
    }
    let (sorted, one_by_one) = (tps(SORTED, LEAST), tps(FFS, LEAST));
    verdicts.push(
        Verdict::of(
            "FFS, where 32 pages go out together and wait in memory",
            "faster than one by one",
            format!("{sorted:.1} and {one_by_one:.1} tps"),
            sorted > one_by_one,
        )
        .beside_the_claim(true),
    );
    verdicts.extend(todays(rows));
    verdicts
}

/// The same questions of an NVMe-like device.
fn todays(rows: &[Row]) -> Vec<Verdict> {
    let tps = |series: &str, percent: f64| mean(rows, &format!("{NVME}{series}"), percent, "tps");
    let never = tps(NEVER, LEAST);
    let ffs = tps(FFS, LEAST);
    let mut verdicts = vec![Verdict::of(
        format!("{NVME}LFS without cleaner against FFS"),
        "ahead (by half in the paper)",
        format!("{never:.0} and {ffs:.0} tps"),
        never > ffs,
    )];
    for (percent, paper) in [(LEAST, 34.0), (80.0, 41.0)] {
        let found = 100.0 * (1.0 - tps(PAPERS, percent) / never);
        verdicts.push(Verdict::of(
            format!("{NVME}what the cleaner costs at {percent} %: cost-benefit"),
            format!("at most the {paper} % of the paper"),
            told(rows, &format!("{NVME}{PAPERS}"), percent, never),
            found <= paper,
        ));
        let (best, ffs) = (tps(BEST, percent), tps(FFS, percent));
        verdicts.push(Verdict::of(
            format!("{NVME}Varve's best at {percent} % against FFS"),
            "at least as fast",
            format!("{best:.0} and {ffs:.0} tps"),
            best >= ffs,
        ));
    }
    let todays = verdicts.into_iter();
    todays.map(Verdict::on_todays_devices).collect()
}

fn picture(rows: &[Row]) -> Picture {
    let bound = |percent| (percent, bound(rows, NEVER, percent));
    Picture {
        title: "TPC-B against utilisation".into(),
        x: "the bank, per cent of the drive".into(),
        y: "transactions a second".into(),
        y_max: None,
        curves: curves_of_the_paper(rows, "tps"),
        references: vec![
            Curve::named(BOUND, PERCENT.map(bound).to_vec()),
            Curve::named("paper, FFS", vec![(LEAST, 28.0), (90.0, 28.0)]),
            Curve::named("paper, no cleaner", vec![(LEAST, 42.0), (90.0, 42.0)]),
        ],
    }
    .with_room_for_names()
}

#[cfg(test)]
pub(in crate::experiments) mod tests {
    use super::*;

    /// Rows as figure 7 and its text have them, and others that lose as much.
    pub(in crate::experiments) fn paper() -> Vec<Row> {
        let mut rows = Vec::new();
        let mut row = |series: &str, percent: f64, tps: f64| {
            let row = Row::new(series, percent, 1).with("tps", tps);
            rows.push(row.with("log_bytes", 5e3));
        };
        for on in ["", NVME] {
            let mut row = |series: &str, percent, tps| row(&format!("{on}{series}"), percent, tps);
            for never in [NEVER, SKEWED_NEVER] {
                row(never, LEAST, 42.0);
            }
            row(SORTED, LEAST, 30.0);
            for percent in PERCENT {
                let loss = if percent == LEAST { 0.34 } else { 0.41 };
                row(FFS, percent, 28.0);
                for series in [PAPERS, BEST, SKEWED] {
                    row(series, percent, 42.0 * (1.0 - loss));
                }
            }
        }
        rows
    }
}
