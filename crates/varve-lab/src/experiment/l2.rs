//! L2: TPC-B against utilisation (Seltzer et al. 1995, §4, figure 7): on FFS, on the log
//! before it has to clean, and on the log in the steady state.
//!
//! The file system has half of the paper's drive, 512 MB, and of that four of fourteen
//! surfaces; bank and cache are in proportion. The bank is the wanted share of it, with
//! nothing else there. The store's log is on a drive of its own, for which nobody waits.
//!
//! The paper's FFS writes a page when it is put out of the store's cache, and its store
//! puts out one at a time; both are done so here, on the log, too. What Varve does, that
//! pages go out by 32 and wait in memory, in the order of the disk, stands beside it.
//!
//! The paper's cleaner chooses by cost and benefit. Varve's best on this load is greedy.
//! Beside both stands what no cleaner is expected to surpass that reads segments whole
//! ([`Machine::beside_cleaning`]).

use super::bank::{Setting, Skew, When, accounts};
use super::rivals::{MIB, Machine, SPARC_2, ffs};
use super::updates::unless_full;
use super::{Context, Experiment, Point, Row};
use crate::platform::records::Habits;
use crate::platform::{Cleaning, Layout};
use crate::report::{Curve, Picture, Verdict, mean};

/// See the module's head.
pub const L2: Experiment = Experiment {
    id: "L2",
    about: "TPC-B against utilisation, 48 to 90 %",
    needs_traces: false,
    points,
    verdicts,
    picture,
};

const FFS: &str = "FFS-m8r2";
const SORTED: &str = "FFS-m8r2, 32 pages together";
const NEVER: &str = "LFS, no cleaner";
const PAPERS: &str = "LFS, cost-benefit";
const BEST: &str = "LFS, greedy";
const SKEWED: &str = "LFS, greedy, 80/20";
const SKEWED_NEVER: &str = "LFS, no cleaner, 80/20";
const BOUND: &str = "bound";

/// The paper's least, and others.
const LEAST: f64 = 48.0;
const PERCENT: [f64; 5] = [LEAST, 60.0, 70.0, 80.0, 90.0];
/// Of the drive's surfaces.
const SHARE: f64 = 4.0 / 14.0;
const DISK_BYTES: u64 = 512 * MIB;
const CACHE_BYTES: u64 = 4 * MIB;
const SEGMENT_BYTES: u32 = 1 << 20;
/// FFS-m8r2, with blocks of 4 KB.
const M8R2: Layout = ffs(4096, 8, 2);

fn machine() -> Machine {
    SPARC_2.part(DISK_BYTES, SHARE)
}

impl Setting {
    /// Of the 1995 paper.
    fn of_1995(layout: Layout, percent: f64) -> Self {
        let machine = machine();
        Setting {
            machine,
            layout,
            segment_bytes: SEGMENT_BYTES,
            cleaning: Cleaning::GREEDY,
            habits: Habits {
                log_apart: true,
                at_once: layout != Layout::Lfs,
            },
            accounts: accounts(machine, percent / 100.0, true),
            cache_bytes: (CACHE_BYTES as f64 * SHARE) as u64,
            together: 1,
            skew: Skew::Uniform,
        }
    }
}

fn points(context: &Context) -> Vec<Point> {
    let lfs = |percent| Setting::of_1995(Layout::Lfs, percent);
    let papers = |percent| Setting {
        cleaning: Cleaning::COST_BENEFIT,
        ..lfs(percent)
    };
    let skewed = |percent| Setting {
        skew: Skew::Eighty,
        ..lfs(percent)
    };
    let in_place = |percent| Setting::of_1995(M8R2, percent);
    let sorted = |percent| Setting {
        habits: Habits {
            log_apart: true,
            at_once: false,
        },
        together: 32,
        ..in_place(percent)
    };
    let mut all = vec![
        (NEVER, LEAST, lfs(LEAST), When::FRESH),
        (SKEWED_NEVER, LEAST, skewed(LEAST), When::FRESH),
        (SORTED, LEAST, sorted(LEAST), When::FRESH),
    ];
    for &percent in context.size(&PERCENT[..], &PERCENT[..1]) {
        all.push((FFS, percent, in_place(percent), When::FRESH));
        all.push((PAPERS, percent, papers(percent), When::STEADY));
        all.push((BEST, percent, lfs(percent), When::STEADY));
        all.push((SKEWED, percent, skewed(percent), When::STEADY));
    }
    let point = |(series, percent, setting, when): (&'static str, f64, Setting, When)| {
        Point::per_seed(format!("{series} at {percent} %"), move |context, seed| {
            let found = setting.measure(context, when, seed);
            let row = found.map(|found| found.row(series, percent, seed));
            unless_full(Row::new(series, percent, seed), row)
        })
    };
    all.into_iter().map(point).collect()
}

/// What is left for one who cleans as well as uniform updates allow.
fn bound(rows: &[Row], never: &str, percent: f64) -> f64 {
    let of = |what| mean(rows, never, LEAST, what);
    machine().beside_cleaning((of("tps"), of("log_bytes")), SEGMENT_BYTES, percent / 100.0)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let tps = |series: &str, percent: f64| mean(rows, series, percent, "tps");
    let never = tps(NEVER, LEAST);
    let loss = |series: &str, percent: f64| 100.0 * (1.0 - tps(series, percent) / never);
    let told = |series: &str, percent: f64| match mean(rows, series, percent, "full").is_finite() {
        true => "no room".to_owned(),
        false => {
            let (tps, loss) = (tps(series, percent), loss(series, percent));
            format!("{tps:.1} tps, loses {loss:.0} %")
        }
    };
    let near = |found: f64, paper: f64| (found / paper - 1.0).abs() <= 0.15;
    let mut verdicts = vec![Verdict::of(
        "LFS without cleaner",
        "41 to 42.6 tps, within 15 %",
        format!("{never:.1} tps"),
        (41.0 * 0.85..=42.6 * 1.15).contains(&never),
    )];
    for percent in [LEAST, 80.0] {
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
            format!("Varve's cleaner at {percent} %: greedy"),
            "at least 0.9 x what uniform updates allow",
            format!(
                "{}; allowed {bound:.1} and {:.0} %",
                told(BEST, percent),
                100.0 * (1.0 - bound / never)
            ),
            found >= 0.9 * bound,
        ));
    }
    for percent in [LEAST, 80.0] {
        let never = tps(SKEWED_NEVER, LEAST);
        let most = 50.0 * (1.0 - bound(rows, SKEWED_NEVER, percent) / never);
        let found = 100.0 * (1.0 - tps(SKEWED, percent) / never);
        verdicts.push(Verdict::of(
            format!("Varve's cleaner at {percent} %, 80/20"),
            format!("half of what uniform updates lose: {most:.0} %"),
            format!("{found:.0} %"),
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
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let bound = |percent| (percent, bound(rows, NEVER, percent));
    Picture {
        title: "TPC-B against utilisation".into(),
        x: "the bank, per cent of the drive".into(),
        y: "transactions a second".into(),
        y_max: None,
        curves: Curve::all(rows, "tps"),
        references: vec![
            Curve::named(BOUND, PERCENT.map(bound).to_vec()),
            Curve::named("paper, FFS", vec![(LEAST, 28.0), (90.0, 28.0)]),
            Curve::named("paper, no cleaner", vec![(LEAST, 42.0), (90.0, 42.0)]),
        ],
    }
    .with_room_for_names()
}
