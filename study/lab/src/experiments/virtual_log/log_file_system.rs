//! V9: the file system on the virtual log, which Wang et al. 1999 designed in
//! §3.3 and never built, beside the systems from which they deduced how fast it
//! would be (§5.2): update in place on a virtual log disk when everybody waits
//! for each write, the log-structured layout when writes may wait.
//!
//! Three loads, each once with waiting for the medium and once without:
//! random updates of 4 KB at several utilisations (as V6), small files (as V4)
//! and a large one (as V5). Waiting is an fsync here, on every system: nobody
//! has non-volatile memory. Where nobody waits, all have 6.1 MB for what is dirty.

use crate::experiments::updates::{Updates, ms_each, unless_full};
use crate::experiments::virtual_log::large_file::{
    RANDOM_READ, RANDOM_WRITE, RANDOM_WRITE_SYNC, READ_AGAIN, SEQUENTIAL_READ, SEQUENTIAL_WRITE,
    large_file, platform,
};
use crate::experiments::virtual_log::small_files::{SYSTEMS, small_files};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::{BLOCK, Disk, Layout, Platform};
use crate::report::{Curve, Picture, Verdict, mean};

pub const V9: Experiment = Experiment::new("V9", points, verdicts, picture).taking(49.0);

const NEW: &str = "VLFS";
/// What it is to reach where everybody waits, and where nobody does.
const EAGER: &str = "UFS, VLD";
const LOG: &str = "LFS, regular disk";
/// Utilisation as in V6.
const PERCENT: [u64; 4] = [20, 40, 60, 80];
/// It was never built there, so no figure of the paper is finer than this.
const TIE: f64 = 1.01;

/// The four systems of the paper, and the fifth.
fn systems() -> impl Iterator<Item = (&'static str, Layout, Disk)> {
    let new = (NEW, Layout::Vlfs, Disk::Regular);
    SYSTEMS.into_iter().chain([new])
}

/// Who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Sync,
    Buffered,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Sync => "sync",
            Load::Buffered => "buffered",
        }
    }
}

fn updates_of(name: &str, load: Load) -> String {
    format!("{name}, {}", load.name())
}

fn files_of(name: &str, load: Load) -> String {
    format!("files: {name}, {}", load.name())
}

fn large_of(name: &str) -> String {
    format!("large file: {name}")
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (name, layout, disk) in systems() {
        for load in [Load::Sync, Load::Buffered] {
            for &percent in context.size(&PERCENT[..], &PERCENT[..1]) {
                let series = updates_of(name, load);
                let label = format!("updates at {percent} %, {series}");
                points.push(Point::per_seed(label, move |context, seed| {
                    let platform = Platform::of_virtual_log_paper(layout, disk);
                    let row = Row::new(&*series, percent as f64, seed);
                    unless_full(row.clone(), steady(context, row, &platform, load))
                }));
            }
            let series = files_of(name, load);
            points.push(Point::new(series.clone(), move |context: &Context| {
                let rows = context.seeds().map(|seed| {
                    let mut system = Platform::of_virtual_log_paper(layout, disk).build(seed)?;
                    let files = context.size(1500, 120);
                    small_files(&series, &mut *system, files, load == Load::Sync, seed)
                });
                Ok(rows.collect::<Result<Vec<_>, LabError>>()?.concat())
            }));
        }
        let series = large_of(name);
        points.push(Point::new(series.clone(), move |context: &Context| {
            let rows = context.seeds().map(|seed| {
                let mut system = platform(layout, disk).build(seed)?;
                let blocks = context.size(10 << 20, 1 << 20) / BLOCK;
                large_file(&series, &mut *system, blocks, true, seed)
            });
            Ok(rows.collect::<Result<Vec<_>, LabError>>()?.concat())
        }));
    }
    points
}

/// As many updates as the drive has blocks, after as many that are not
/// measured; twice that for a log whose segments are cleaned.
fn steady(context: &Context, row: Row, platform: &Platform, load: Load) -> Result<Row, LabError> {
    let percent = row.x as u64;
    let sync = load == Load::Sync;
    let mut updates = Updates::new(platform.build(row.seed)?, percent, sync, row.seed)?;
    let all = context.size(updates.drive_blocks(), 300);
    let before = match platform.layout {
        Layout::Lfs => 2 * all,
        _ => all,
    };
    updates.run(before)?;
    let spent = updates.run(all)?;
    Ok(row
        .with("ms", ms_each(spent.total_ns, all))
        .with("host_ms", ms_each(spent.host_ns, all))
        .with("locate_ms", ms_each(spent.drive.locate_ns(), all)))
}

/// A claim that the virtual log is at least as fast: `rival` and `new` take so
/// long for the same. A rival that cannot do it at all is slower.
fn at_least(what: String, rival: &str, theirs: f64, ours: f64) -> Verdict {
    let (measured, pass) = match theirs.is_finite() {
        true => (
            format!(
                "{ours:.3} for {theirs:.3} ms, {:.2} x as fast",
                theirs / ours
            ),
            ours <= theirs * TIE,
        ),
        false => (format!("{ours:.3} ms; {rival} is full"), ours.is_finite()),
    };
    let expected = format!("at least as fast as {rival}, ties within 1 %");
    Verdict::of(what, expected, measured, pass)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let ms = |series: &str, x: f64| mean(rows, series, x, "ms");
    // Milliseconds for a block.
    let large = |name: &str, phase: f64| {
        let rate = mean(rows, &large_of(name), phase, "mb_per_s");
        BLOCK as f64 / 1e3 / rate
    };
    for percent in PERCENT {
        let at = |name: &str| ms(&updates_of(name, Load::Sync), percent as f64);
        verdicts.push(at_least(
            format!("synchronous updates of 4 KB at {percent} %"),
            EAGER,
            at(EAGER),
            at(NEW),
        ));
    }
    for (phase, what) in [(1.0, "made"), (3.0, "removed")] {
        let of = |name: &str| ms(&files_of(name, Load::Sync), phase);
        verdicts.push(at_least(
            format!("files of 1 KB {what}, each on the medium before the next"),
            EAGER,
            of(EAGER),
            of(NEW),
        ));
    }
    verdicts.push(at_least(
        "synchronous random writes to a large file".into(),
        EAGER,
        large(EAGER, RANDOM_WRITE_SYNC),
        large(NEW, RANDOM_WRITE_SYNC),
    ));
    for percent in PERCENT {
        let at = |name: &str| ms(&updates_of(name, Load::Buffered), percent as f64);
        verdicts.push(at_least(
            format!("updates of 4 KB that wait in memory, at {percent} %"),
            LOG,
            at(LOG),
            at(NEW),
        ));
    }
    for (phase, what) in [(1.0, "made"), (3.0, "removed")] {
        let of = |name: &str| ms(&files_of(name, Load::Buffered), phase);
        verdicts.push(at_least(
            format!("files of 1 KB {what}, with one sync at the end"),
            LOG,
            of(LOG),
            of(NEW),
        ));
    }
    let writes = [
        (SEQUENTIAL_WRITE, "sequential writes to a large file"),
        (RANDOM_WRITE, "random writes to it"),
    ];
    for (phase, what) in writes {
        verdicts.push(at_least(
            format!("{what}, with one sync at the end"),
            LOG,
            large(LOG, phase),
            large(NEW, phase),
        ));
    }
    let reads = [
        (SEQUENTIAL_READ, "sequential reads of a large file"),
        (READ_AGAIN, "the same after random writes"),
        (RANDOM_READ, "random reads of it"),
    ];
    for (phase, what) in reads {
        let verdict = at_least(what.into(), LOG, large(LOG, phase), large(NEW, phase));
        verdicts.push(verdict.beside_the_claim(true));
    }
    let of = |name: &str| ms(&files_of(name, Load::Buffered), 2.0);
    let verdict = at_least("files of 1 KB read".into(), LOG, of(LOG), of(NEW));
    verdicts.push(verdict.beside_the_claim(true));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let of = |load: Load| {
        let suffix = format!(", {}", load.name());
        let all = Curve::all(rows, "ms").into_iter();
        all.filter(move |c| c.name.ends_with(&suffix) && !c.name.starts_with("files"))
    };
    Picture {
        title: "Random updates of 4 KB, each waited for (sync) or not (buffered)".into(),
        x: "file, per cent of the drive".into(),
        y: "ms for each".into(),
        // LFS goes far beyond at 80 %.
        y_max: Some(20.0),
        curves: of(Load::Sync).chain(of(Load::Buffered)).collect(),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log-structured layout under the name of that on the virtual log: who
    /// waits for it waits for the platter.
    #[test]
    fn a_wrong_layout_fails() {
        let row = |name: &str, layout, disk| {
            let row = Row::new(updates_of(name, Load::Sync), 20.0, 1);
            let platform = Platform::of_virtual_log_paper(layout, disk);
            steady(&Context::tiny(), row, &platform, Load::Sync).unwrap()
        };
        let rival = row(EAGER, Layout::UFS, Disk::VirtualLog);
        let pass = |layout| {
            let rows = [rival.clone(), row(NEW, layout, Disk::Regular)];
            verdicts(&rows)[0].pass
        };
        assert!(pass(Layout::Vlfs) && !pass(Layout::Lfs));
    }
}
