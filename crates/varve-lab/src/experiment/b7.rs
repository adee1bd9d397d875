//! B7: TPC-B on a file system that is 80 % full (Seltzer 1992, §7.8, table 7-9).
//!
//! A bank of 237 MB on 300 MB of the drive, of both what nine of nineteen surfaces hold. The
//! store's log lies beside the pages, and a commit waits for it.
//!
//! FFS writes a page when the store puts it out; EFS, which gathers clusters, lets it
//! wait, and so does the log. Where there is a cleaner, the log has gone round twice
//! before anything is measured.

use super::bank::{Setting, Skew, When, accounts};
use super::rivals::{EFS, FFS, HP_380, MIB, Machine};
use super::{Context, Experiment, Point, Row};
use crate::platform::records::Habits;
use crate::platform::{Cleaning, Layout};
use crate::report::{Curve, Picture, Verdict, mean};

/// See the module's head.
pub const B7: Experiment = Experiment {
    id: "B7",
    about: "TPC-B at 80 % utilisation: FFS, EFS, LFS and what its cleaner costs",
    needs_traces: false,
    points,
    verdicts,
    picture,
};

const NEVER: &str = "LFS, no cleaner";
const PAPERS: &str = "LFS, cost-benefit";
const PAPERS_SMALL: &str = "LFS, cost-benefit, 256 KB";
/// With the segments that a volume of this size has.
const BEST: &str = "LFS, greedy, 256 KB";

/// What is full, and what a bank takes of it.
const DISK_BYTES: u64 = 300 * MIB;
const UTILISATION: f64 = 0.8;
/// The same where nothing is to be cleaned: of what is left here at 80 %, a third is the
/// log's reserve.
const NEVER_FULL: f64 = 0.7;
/// Of the drive's surfaces.
const SHARE: f64 = 9.0 / 19.0;
/// Not said in the thesis; that of Seltzer et al. 1995.
const CACHE_BYTES: u64 = 4 * MIB;
const SEGMENT_BYTES: u32 = 1 << 20;
const SMALL_BYTES: u32 = 256 << 10;

fn machine() -> Machine {
    HP_380.part(DISK_BYTES, SHARE)
}

fn points(_: &Context) -> Vec<Point> {
    let in_place = |layout, at_once| Setting {
        machine: machine(),
        layout,
        segment_bytes: SEGMENT_BYTES,
        cleaning: Cleaning::COST_BENEFIT,
        habits: Habits {
            log_apart: false,
            at_once,
        },
        accounts: accounts(machine(), UTILISATION, false),
        cache_bytes: (CACHE_BYTES as f64 * SHARE) as u64,
        together: 1,
        skew: Skew::Uniform,
    };
    let papers = in_place(Layout::Lfs, false);
    let never = Setting {
        accounts: accounts(machine(), NEVER_FULL, false),
        ..papers
    };
    let small = Setting {
        segment_bytes: SMALL_BYTES,
        ..papers
    };
    let best = Setting {
        cleaning: Cleaning::GREEDY,
        ..small
    };
    let all = [
        (FFS.0, in_place(FFS.1, true), When::STEADY),
        (EFS.0, in_place(EFS.1, false), When::STEADY),
        (NEVER, never, When::FRESH),
        (PAPERS, papers, When::STEADY),
        (PAPERS_SMALL, small, When::STEADY),
        (BEST, best, When::STEADY),
    ];
    let point = |(x, (series, setting, when)): (f64, (&'static str, Setting, When))| {
        Point::per_seed(series, move |context, seed| {
            let found = setting.measure(context, when, seed)?;
            Ok(found.row(series, x, seed))
        })
    };
    (1..).map(f64::from).zip(all).map(point).collect()
}

/// Each with its place in the picture, and what table 7-9 says.
const TABLE: [(&str, f64, f64); 5] = [
    (FFS.0, 1.0, 14.2),
    (EFS.0, 2.0, 16.8),
    (NEVER, 3.0, 19.3),
    (PAPERS, 4.0, 11.6),
    (PAPERS_SMALL, 5.0, 12.4),
];

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |series: &str, x: f64, what: &str| mean(rows, series, x, what);
    let mut verdicts = Vec::new();
    for (series, x, paper) in TABLE {
        let found = of(series, x, "tps");
        verdicts.push(Verdict::of(
            series,
            format!("{paper} tps, within 20 %"),
            format!("{found:.1} tps"),
            (found / paper - 1.0).abs() <= 0.2,
        ));
    }
    let full = 100.0 * of(PAPERS, 4.0, "moved_bytes")
        / of(PAPERS, 4.0, "cleaned")
        / f64::from(SEGMENT_BYTES);
    verdicts.push(Verdict::of(
        "how full segments are that are cleaned, of 1 MB",
        "71 %, within 8 points",
        format!("{full:.0} %"),
        (full - 71.0).abs() <= 8.0,
    ));
    let share = 100.0 * of(PAPERS, 4.0, "cleaner_share");
    verdicts.push(Verdict::of(
        "what the cleaner writes, of all that is written, segments of 1 MB",
        "60 to 80 %",
        format!("{share:.0} %"),
        (60.0..=80.0).contains(&share),
    ));
    let (best, efs) = (of(BEST, 6.0, "tps"), of(EFS.0, 2.0, "tps"));
    let never = (of(NEVER, 3.0, "tps"), of(NEVER, 3.0, "log_bytes"));
    let bound = machine().beside_cleaning(never, SMALL_BYTES, UTILISATION);
    verdicts.push(Verdict::of(
        "Varve's best against EFS",
        "at least as fast, or at least 0.9 x what uniform updates allow, if that is less",
        format!(
            "{best:.1} and {efs:.1} tps; allowed {bound:.1}, a transaction taking {:.1} KB",
            never.1 / 1e3
        ),
        best >= efs.min(0.9 * bound),
    ));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let paper = TABLE.map(|(_, x, tps)| (x, tps));
    Picture {
        title: "TPC-B at 80 %: 1 FFS, 2 EFS, 3 LFS, 4 cleaner, 5 256 KB, 6 greedy".into(),
        x: "file system".into(),
        y: "transactions a second".into(),
        y_max: None,
        curves: Curve::all(rows, "tps"),
        references: vec![Curve::named("paper", paper.to_vec())],
    }
    .with_room_for_names()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Rows as table 7-9 and its text have them, and a best that is as fast as EFS.
    pub(in crate::experiment) fn thesis() -> Vec<Row> {
        let best = (BEST, 6.0, TABLE[1].2);
        let row = |(series, x, tps): (&str, f64, f64)| {
            Row::new(series, x, 1)
                .with("tps", tps)
                .with("log_bytes", 12e3)
                .with("moved_bytes", 0.71 * f64::from(SEGMENT_BYTES))
                .with("cleaned", 1.0)
                .with("cleaner_share", 0.7)
        };
        TABLE.into_iter().chain([best]).map(row).collect()
    }
}
