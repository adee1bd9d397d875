//! R4: long-term use (Rosenblum & Ousterhout 1992, §5.2): four months of a
//! volume like Sprite's /user6, after two months to settle.
//!
//! 1280 MB, 75 % in use, 3.2 MB written an hour, files of about 24 KB on
//! average, segments of 1 MB: with those the segments that the paper's table 2
//! counts as cleaned hold what it says was written. No trace of months can be
//! had, so the files are drawn, from a law that has nothing left to choose but
//! how lives depend on sizes (`workload/balance.rs`). What that takes from
//! elsewhere is the share of the bytes that dies within ten minutes: 35 % on
//! the desktops of a research group, 70 % in an instructional laboratory
//! (WOLF, figure 3). Nothing published says how lives grow with sizes, so the
//! claim must hold whether they do not, by the root, or in proportion.

use super::r3::sorting;
use super::study::Study;
use super::{Context, Experiment, Point, Row};
use crate::policy::Simulated;
use crate::report::{Curve, Picture, Verdict, mean};
use crate::simulator::{Age, RESERVE, STEPS};
use crate::workload::{BALANCED_ROOM, Balance, Facts, Lifetimes, Population, SizeLaw};
use varve_lfs::policy::{CostBenefit, Greedy};

const UTILISATION: f64 = 0.75;
const MONTH_HOURS: f64 = 30.0 * 24.0;
const MONTHS: (f64, f64) = (2.0, 4.0);
/// /user6: bytes of the volume, and written an hour.
const VOLUME_BYTES: f64 = 1280.0 * MIB;
const BYTES_PER_HOUR: f64 = 3.2e6;
const MIB: f64 = 1_048_576.0;
const BLOCK_BYTES: f64 = 4096.0;
/// Powers of the size by which lives grow.
const POWERS: [f64; 3] = [0.0, 0.5, 1.0];

/// See the module's head.
pub const R4: Experiment = Experiment {
    id: "R4",
    about: "long-term use: months of an office's home directories",
    needs_traces: false,
    points,
    verdicts,
    picture,
};

/// What is simulated. The usual one is the claim's.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    early_share: f64,
    large_files: bool,
    together: u32,
    segment_blocks: u32,
    /// The paper's volume, so many times.
    volumes: u32,
    batch: u32,
    policy: fn(u32) -> Box<dyn Simulated>,
    age: Age,
}

const CLAIM: Case = Case {
    name: "cost-benefit",
    early_share: 0.35,
    large_files: false,
    together: 1,
    segment_blocks: 256,
    volumes: 1,
    batch: 32,
    policy: |batch| sorting(CostBenefit, batch),
    age: Age::Youngest,
};

/// The claim, and one change at a time.
const CASES: [Case; 12] = [
    CLAIM,
    Case {
        name: "ten times the volume",
        volumes: 10,
        ..CLAIM
    },
    Case {
        name: "greedy",
        policy: |batch| sorting(Greedy, batch),
        ..CLAIM
    },
    Case {
        name: "age of the segment",
        age: Age::Begun,
        ..CLAIM
    },
    Case {
        name: "8 at a time",
        batch: 8,
        ..CLAIM
    },
    Case {
        name: "64 at a time",
        batch: 64,
        ..CLAIM
    },
    Case {
        name: "segments of 512 KB",
        segment_blocks: 128,
        ..CLAIM
    },
    Case {
        name: "70 % dead early",
        early_share: 0.7,
        ..CLAIM
    },
    Case {
        name: "large files",
        large_files: true,
        ..CLAIM
    },
    Case {
        name: "32 files die together",
        together: 32,
        ..CLAIM
    },
    Case {
        name: "256 files die together",
        together: 256,
        ..CLAIM
    },
    Case {
        name: "70 % dead early, large files, 256 die together",
        early_share: 0.7,
        large_files: true,
        together: 256,
        ..CLAIM
    },
];

fn points(context: &Context) -> Vec<Point> {
    let cases = context.size(&CASES[..], &CASES[..1]);
    let pairs = cases
        .iter()
        .flat_map(|case| POWERS.map(|power| (*case, power)));
    let point = |(case, power): (Case, f64)| {
        let label = format!("{}, power {power}", case.name);
        Point::new(label, move |context: &Context| {
            let months = |seed| months(context, case, power, seed);
            let seeds = context.seeds().take(case.seeds());
            Ok(seeds.flat_map(months).collect())
        })
    };
    pairs.map(point).collect()
}

impl Case {
    /// Seeds at most: on ten volumes as many files are drawn as with ten seeds.
    fn seeds(self) -> usize {
        if self.volumes == 1 { usize::MAX } else { 2 }
    }

    fn study(self, turns: (u32, u32)) -> Study {
        Study {
            utilisation: UTILISATION * BALANCED_ROOM,
            segment_blocks: self.segment_blocks,
            policy: (self.policy)(self.batch),
            batch: self.batch,
            buffer_blocks: Some(self.segment_blocks as usize),
            reordering: None,
            age: self.age,
            turns,
            certain: None,
        }
    }
}

fn months(context: &Context, case: Case, power: f64, seed: u64) -> Vec<Row> {
    let segment_bytes = f64::from(case.segment_blocks) * BLOCK_BYTES;
    let usual = (VOLUME_BYTES / segment_bytes) as u32;
    let segments = context.segments(usual, 150) * case.volumes;
    let mean_live = f64::from((segments - RESERVE) * case.segment_blocks) * UTILISATION;
    // A larger volume sees as much more written.
    let bytes_per_hour = BYTES_PER_HOUR * f64::from(segments) / f64::from(usual);
    let balance = Balance::of(&Facts {
        living: match case.large_files {
            true => SizeLaw::office_with_large_files(),
            false => SizeLaw::office(),
        },
        mean_life_s: mean_live * BLOCK_BYTES / bytes_per_hour * 3600.0,
        early_share: case.early_share,
        size_power: power,
        together: case.together,
    });
    let live_max = (mean_live * BALANCED_ROOM) as u32;
    let population = Population::balanced(balance, bytes_per_hour);
    let mut workload = Lifetimes::new(population, live_max, seed);
    let turns = |months: f64| {
        let blocks = months * MONTH_HOURS * bytes_per_hour / BLOCK_BYTES;
        (blocks / f64::from(live_max)).ceil() as u32
    };
    let study = case.study((turns(MONTHS.0), turns(MONTHS.1)));
    let counters = study.run(&mut workload, None).counters;
    let all: u64 = counters.by_utilisation.iter().sum();
    let outside = mean_live / UTILISATION;
    let row = Row::new(case.name, power, seed)
        .with("write_cost", counters.write_cost(case.segment_blocks))
        .with("empty_share", counters.empty_share())
        .with(
            "cleaned_utilisation",
            counters.cleaned_utilisation(case.segment_blocks),
        )
        .with("segments_cleaned", all as f64)
        .with("utilisation", workload.mean_live() / outside)
        .with("removed_early", workload.removed_early() as f64)
        .with("mean_file_kb", workload.mean_size() * BLOCK_BYTES / 1000.0);
    let by_step = counters
        .by_utilisation
        .iter()
        .enumerate()
        .map(move |(at, count)| {
            let middle = (at as f64 + 0.5) / STEPS as f64;
            let series = format!("{}, power {power}: cleaned", case.name);
            Row::new(series, middle, seed).with("share", *count as f64 / all.max(1) as f64)
        });
    std::iter::once(row).chain(by_step).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for case in CASES {
        let values = |name| POWERS.map(|power| mean(rows, case.name, power, name));
        let cost = values("write_cost");
        if cost[0].is_nan() {
            continue;
        }
        let [one, two, three] = POWERS;
        let lives = format!("lives by the power {one}, {two}, {three} of sizes");
        let shown = |values: [f64; 3]| values.map(|v| format!("{v:.2}")).join(", ");
        let beside = case.name != CLAIM.name;
        let empty = values("empty_share");
        let others = values("cleaned_utilisation");
        verdicts.push(
            Verdict::of(
                format!("write cost over months, {}, {lives}", case.name),
                "at most 1.6 in each",
                shown(cost),
                cost.iter().all(|c| *c <= 1.6),
            )
            .beside_the_claim(beside),
        );
        verdicts.push(
            Verdict::of(
                format!("share of cleaned segments that were empty, {}", case.name),
                "at least 0.50 in each",
                shown(empty),
                empty.iter().all(|e| *e >= 0.5),
            )
            .beside_the_claim(beside),
        );
        verdicts.push(
            Verdict::of(
                format!("mean utilisation of the others, {}", case.name),
                "0.12 to 0.54 in each",
                shown(others),
                others.iter().all(|u| (0.12..=0.54).contains(u)),
            )
            .beside_the_claim(true),
        );
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Segments cleaned in months of use".into(),
        x: "utilisation when cleaned".into(),
        y: "share of segments cleaned".into(),
        y_max: None,
        curves: Curve::all(rows, "share")
            .into_iter()
            .filter(|curve| curve.name.starts_with(CLAIM.name))
            .collect(),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::r3::tests::Fullest;
    use super::*;

    /// A cleaner that takes the fullest segments: where files die together, segments are
    /// not found empty any more, and where each dies by itself, the others are full.
    #[test]
    fn a_wrong_cleaner_fails() {
        let pass = |case: Case, wrong: bool| {
            let case = match wrong {
                true => Case {
                    policy: |batch| sorting(Fullest, batch),
                    ..case
                },
                false => case,
            };
            let context = Context::tiny();
            let rows = POWERS.map(|power| months(&context, case, power, 1));
            let verdicts = verdicts(&rows.concat());
            [0, 1, 2].map(|at| verdicts[at].pass)
        };
        let together = Case {
            name: CLAIM.name,
            batch: 8,
            ..CASES[11]
        };
        assert_eq!(pass(together, false)[..2], [true; 2]);
        assert_eq!(pass(together, true)[..2], [false; 2]);
        assert!(pass(CLAIM, false)[2] && !pass(CLAIM, true)[2]);
    }
}
