//! V8: idle time (Wang et al. 1999, §5.5): bursts of random updates of 4 KB at
//! 80 %, with idle intervals between them. The log-structured layout on a
//! regular disk with 6.1 MB of non-volatile memory, whose cleaner works in idle
//! time segment by segment and which then writes back what waits; update in
//! place on a virtual log disk, whose compactor works track by track.
//!
//! Utilisation is what `df` says, reserve included
//! ([`RESERVED_PERCENT`](crate::experiments::updates::RESERVED_PERCENT)), on both.
//!
//! In parallel, what the end of §5.5 proposes and does not measure: the same memory
//! before a virtual log disk.
//!
//! A burst begins when its interval is over, or when what could not be
//! interrupted is; that wait is the burst's.

use crate::experiments::updates::{Updates, ms_each, unless_full};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::{BLOCK, Disk, Layout, Platform};
use crate::report::{Curve, Picture, Verdict, mean};

pub const V8: Experiment = Experiment::new("V8", points, verdicts, picture).taking(75.0);

const PERCENT: u64 = 80;
const BURSTS_KB: [u64; 4] = [128, 512, 1024, 2048];
const IDLE_S: [f64; 11] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0];
const LOG: &str = "LFS + NVRAM";
const EAGER: &str = "UFS, VLD";
const BOTH: &str = "UFS + NVRAM, VLD";

fn series(name: &str, kb: u64) -> String {
    format!("{name}, {kb} KB")
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (name, layout, disk) in [
        (LOG, Layout::Lfs, Disk::Regular),
        (EAGER, Layout::UFS, Disk::VirtualLog),
        (BOTH, Layout::UFS, Disk::VirtualLog),
    ] {
        for &kb in context.size(&BURSTS_KB[..], &BURSTS_KB[..1]) {
            for &idle_s in context.size(&IDLE_S[..], &IDLE_S[..2]) {
                let label = format!("{} and {idle_s} s", series(name, kb));
                points.push(Point::per_seed(label, move |context, seed| {
                    let platform = Platform::of_virtual_log_paper(layout, disk);
                    let row = Row::new(series(name, kb), idle_s, seed);
                    let sync = name == EAGER;
                    let measured = measure(context, row.clone(), (&platform, sync), kb, idle_s);
                    unless_full(row, measured)
                }));
            }
        }
    }
    points
}

fn measure(
    context: &Context,
    row: Row,
    (platform, sync): (&Platform, bool),
    kb: u64,
    idle_s: f64,
) -> Result<Row, LabError> {
    let percent = context.size(PERCENT, 20);
    let system = platform.build(row.seed)?;
    let mut updates = Updates::new(system, percent, sync, row.seed)?;
    let burst = kb * 1024 / BLOCK;
    let all = context.size(updates.drive_blocks() / 2, 100);
    let bursts = all.div_ceil(burst);
    let go = |updates: &mut Updates| -> Result<u64, LabError> {
        let mut busy_ns = 0;
        for _ in 0..bursts {
            let due = updates.system.now_ns() + (idle_s * 1e9) as u64;
            if idle_s > 0.0 {
                updates.system.idle(due)?;
            }
            updates.run(burst)?;
            busy_ns += updates.system.now_ns() - due;
        }
        Ok(busy_ns)
    };
    go(&mut updates)?;
    let busy_ns = go(&mut updates)?;
    Ok(row.with("ms", ms_each(busy_ns, bursts * burst)))
}

/// The shortest idle interval that brings half of what the longest does.
fn half_way(rows: &[Row], series: &str) -> f64 {
    let ms = |idle_s: f64| mean(rows, series, idle_s, "ms");
    let (none, most) = (ms(IDLE_S[0]), ms(IDLE_S[IDLE_S.len() - 1]));
    let half = f64::midpoint(none, most);
    let found = IDLE_S.into_iter().find(|&idle_s| ms(idle_s) <= half);
    found.unwrap_or(f64::NAN)
}

/// The greatest share of the whole gain that comes with one step of the interval.
fn greatest_step(rows: &[Row], series: &str) -> f64 {
    let ms = |idle_s: f64| mean(rows, series, idle_s, "ms");
    let whole = ms(IDLE_S[0]) - ms(IDLE_S[IDLE_S.len() - 1]);
    let steps = IDLE_S.windows(2).map(|w| (ms(w[0]) - ms(w[1])) / whole);
    steps.fold(0.0, f64::max)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let last = IDLE_S[IDLE_S.len() - 1];
    for kb in BURSTS_KB {
        let (log, eager) = (series(LOG, kb), series(EAGER, kb));
        let (coarse, fine) = (half_way(rows, &log), half_way(rows, &eager));
        verdicts.push(Verdict::of(
            format!("bursts of {kb} KB: the idle interval for half of the gain"),
            "LFS needs a longer one than the VLD",
            format!("{coarse} s, VLD {fine} s"),
            coarse > fine,
        ));
        let falls = IDLE_S
            .windows(2)
            .all(|w| mean(rows, &eager, w[1], "ms") <= 1.05 * mean(rows, &eager, w[0], "ms"));
        verdicts.push(Verdict::of(
            format!("bursts of {kb} KB: the VLD improves along a continuum"),
            "faster in the end, never more than 5 % above a shorter interval, no step more than \
             60 % of the gain",
            format!(
                "{:.2} ms to {:.2} ms, greatest step {:.0} %",
                mean(rows, &eager, 0.0, "ms"),
                mean(rows, &eager, last, "ms"),
                100.0 * greatest_step(rows, &eager)
            ),
            falls
                && mean(rows, &eager, last, "ms") < mean(rows, &eager, 0.0, "ms")
                && greatest_step(rows, &eager) <= 0.6,
        ));
    }
    let (log, eager) = (series(LOG, 128), series(EAGER, 128));
    let at = |series: &str, idle_s: f64| mean(rows, series, idle_s, "ms");
    verdicts.push(Verdict::of(
        "with enough idle time LFS runs at the speed of its NVRAM",
        "below the VLD",
        format!("{:.2} ms, VLD {:.2} ms", at(&log, last), at(&eager, last)),
        at(&log, last) < at(&eager, last),
    ));
    verdicts.push(Verdict::of(
        "without idle time the VLD is ahead of LFS",
        "below LFS",
        format!("{:.2} ms, LFS {:.2} ms", at(&eager, 0.0), at(&log, 0.0)),
        at(&eager, 0.0) < at(&log, 0.0),
    ));
    let both = series(BOTH, 128);
    verdicts.push(
        Verdict::of(
            "the same memory before a VLD, without idle time (end of §5.5)",
            "below LFS and below the VLD alone",
            format!("{:.2} ms, {:.2} with 5 s", at(&both, 0.0), at(&both, last)),
            at(&both, 0.0) < at(&log, 0.0).min(at(&eager, 0.0)),
        )
        .beside_the_claim(true),
    );
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Random updates at 80 %, by idle time".into(),
        x: "idle interval, s".into(),
        y: "ms for each update".into(),
        y_max: None,
        curves: Curve::all(rows, "ms"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Update in place under the name of the log: it does not run at the speed of a
    /// memory, however long it rests, and is behind without a rest, where the log, as
    /// long as its memory holds the file, is not.
    #[test]
    fn a_wrong_layout_fails() {
        let row = |name: &str, layout, disk, idle_s| {
            let platform = Platform::of_virtual_log_paper(layout, disk);
            let row = Row::new(series(name, 128), idle_s, 1);
            let sync = name == EAGER || layout != Layout::Lfs;
            measure(&Context::tiny(), row, (&platform, sync), 128, idle_s).unwrap()
        };
        let pass = |layout| {
            let rows = [0.0, 5.0].map(|idle_s| {
                [
                    row(EAGER, Layout::UFS, Disk::VirtualLog, idle_s),
                    row(LOG, layout, Disk::Regular, idle_s),
                ]
            });
            let mut verdicts = verdicts(&rows.concat()).into_iter().rev().skip(1);
            let (without, enough) = (verdicts.next(), verdicts.next());
            [without, enough].map(|verdict| verdict.expect("it is there").pass)
        };
        assert_eq!(pass(Layout::Lfs), [false, true]);
        assert_eq!(pass(Layout::UFS), [true, false]);
    }
}
