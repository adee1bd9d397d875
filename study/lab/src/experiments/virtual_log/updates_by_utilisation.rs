//! V6: random synchronous updates of 4 KB against utilisation, without idle
//! time (Wang et al. 1999, §5.3): update in place on a disk and on a virtual
//! log disk, and the log-structured layout with 6.1 MB of non-volatile memory.
//!
//! Utilisation is what `df` says, reserve included
//! ([`RESERVED_PERCENT`]). Measured in the steady state: after as many updates as the drive has blocks, twice that for LFS.

use crate::experiments::updates::{RESERVED_PERCENT, Updates, ms_each, unless_full};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::{Disk, Layout, NVRAM_BYTES, Platform, seagate};
use crate::report::{Curve, Picture, Verdict, mean};

pub const V6: Experiment = Experiment::new("V6", points, verdicts, picture).taking(36.0);

const IN_PLACE: &str = "UFS, regular disk";
const EAGER: &str = "UFS, VLD";
const LOG: &str = "LFS + NVRAM, regular disk";
const PERCENT: [u64; 12] = [15, 20, 25, 30, 35, 50, 60, 65, 70, 75, 80, 85];

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for &percent in context.size(&PERCENT[..], &PERCENT[1..4]) {
        for (name, layout, disk) in [
            (IN_PLACE, Layout::UFS, Disk::Regular),
            (EAGER, Layout::UFS, Disk::VirtualLog),
            (LOG, Layout::Lfs, Disk::Regular),
        ] {
            points.push(Point::per_seed(
                format!("{name} at {percent} %"),
                move |context, seed| {
                    let platform = Platform::of_virtual_log_paper(layout, disk);
                    measure(context, name, &platform, percent, seed)
                },
            ));
        }
    }
    points
}

fn measure(
    context: &Context,
    name: &str,
    platform: &Platform,
    percent: u64,
    seed: u64,
) -> Result<Row, LabError> {
    let row = Row::new(name, percent as f64, seed);
    let measured = steady(context, row.clone(), platform, percent);
    match platform.layout {
        Layout::Lfs => unless_full(row, measured),
        _ => measured,
    }
}

fn steady(context: &Context, row: Row, platform: &Platform, percent: u64) -> Result<Row, LabError> {
    let log = platform.layout == Layout::Lfs;
    let mut updates = Updates::new(platform.build(row.seed)?, percent, !log, row.seed)?;
    let all = context.size(updates.drive_blocks(), 300);
    updates.run(if log { 2 * all } else { all })?;
    let spent = updates.run(all)?;
    Ok(row
        .with("ms", ms_each(spent.total_ns, all))
        .with("host_ms", ms_each(spent.host_ns, all))
        .with("locate_ms", ms_each(spent.drive.locate_ns(), all)))
}

/// Where, on the axis, the file is as large as the non-volatile memory.
fn nvram_percent() -> f64 {
    let held = 100.0 * NVRAM_BYTES as f64 / seagate().geometry.bytes() as f64;
    held + RESERVED_PERCENT as f64
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let ms = |series: &str, percent: u64| mean(rows, series, percent as f64, "ms");
    let span = |series: &str, from: u64, to: u64| {
        let within = PERCENT.iter().filter(|p| (from..=to).contains(p));
        let values = within.map(|&percent| ms(series, percent));
        // What was not measured is no extreme; of nothing there is none.
        values.fold((f64::NAN, f64::NAN), |(low, high), ms| {
            (low.min(ms), high.max(ms))
        })
    };
    let range = |(low, high): (f64, f64)| format!("{low:.2} to {high:.2} ms");
    let in_place = span(IN_PLACE, 15, 85);
    let eager = span(EAGER, 15, 85);
    let plateau = span(LOG, 60, 85);
    let (below, above) = (ms(LOG, 35), ms(LOG, 50));
    let nvram = nvram_percent();
    let holds = |percent: &&u64| ms(LOG, **percent).is_finite();
    let fullest = PERCENT.iter().rev().find(holds).copied().unwrap_or(0);
    let ratio = in_place.0 / eager.1;
    vec![
        Verdict::of(
            "UFS on the regular disk is flat",
            "a slight rise: at most 1.5 from end to end",
            range(in_place),
            in_place.1 <= 1.5 * in_place.0,
        ),
        Verdict::of(
            "and slow: its best against the worst of UFS on the VLD",
            "at least 1.5 x",
            format!("{ratio:.2} x"),
            ratio >= 1.5,
        ),
        Verdict::of(
            format!("LFS while the file fits in the NVRAM ({nvram:.0} %)"),
            "faster than UFS on the VLD",
            format!("{below:.2} ms at 35 %, VLD {:.2}", ms(EAGER, 35)),
            below < ms(EAGER, 35),
        ),
        Verdict::of(
            "LFS collapses once it does not",
            "at least 2 x from 35 to 50 %",
            format!("{below:.2} to {above:.2} ms"),
            above >= 2.0 * below,
        ),
        Verdict::of(
            "LFS has a plateau from 60 to 85 %",
            "at most 1.5 from lowest to highest",
            range(plateau),
            plateau.1 <= 1.5 * plateau.0,
        ),
        Verdict::of(
            "UFS on the VLD is nearly flat",
            "at most 2 from end to end",
            range(eager),
            eager.1 <= 2.0 * eager.0,
        ),
        Verdict::of(
            format!("LFS passes UFS on the VLD (at {fullest} %, the most that its reserve leaves)"),
            "slower",
            format!("{:.2} and {:.2} ms", ms(LOG, fullest), ms(EAGER, fullest)),
            ms(LOG, fullest) > ms(EAGER, fullest),
        ),
    ]
}

fn picture(rows: &[Row]) -> Picture {
    let nvram = nvram_percent();
    Picture {
        title: "Random synchronous updates of 4 KB without idle time".into(),
        x: "utilisation as df says, per cent".into(),
        y: "ms for each".into(),
        y_max: None,
        curves: Curve::all(rows, "ms"),
        references: vec![Curve::named(
            "paper: here the file outgrows the NVRAM",
            vec![(nvram, 0.0), (nvram, 5.0)],
        )],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_disk::{Drive, Rotation};

    fn rows(drive: &Drive, percent: u64) -> Vec<Row> {
        let row = |(name, layout, disk)| {
            let platform = Platform {
                drive: drive.clone(),
                ..Platform::of_virtual_log_paper(layout, disk)
            };
            measure(&Context::tiny(), name, &platform, percent, 1).unwrap()
        };
        [
            (IN_PLACE, Layout::UFS, Disk::Regular),
            (EAGER, Layout::UFS, Disk::VirtualLog),
            (LOG, Layout::Lfs, Disk::Regular),
        ]
        .map(row)
        .to_vec()
    }

    /// Drives whose rotation takes no time, where nothing is to be gained, or whose arm
    /// is slow, where a larger file costs more.
    #[test]
    fn a_wrong_drive_fails() {
        let pass = |drive: &Drive| {
            let verdicts = verdicts(&[rows(drive, 20), rows(drive, 85)].concat());
            [verdicts[0].pass, verdicts[1].pass]
        };
        let mut still = seagate();
        still.rotation = Rotation::of_rpm(1_000_000);
        let mut slow = seagate();
        slow.seek.short_base_ms *= 16.0;
        slow.seek.short_root_ms *= 16.0;
        assert_eq!(pass(&seagate()), [true; 2]);
        assert!(!pass(&still)[1] && !pass(&slow)[0]);
    }

    /// A log that waits for the platter at each update, as one without non-volatile
    /// memory does.
    #[test]
    fn a_wrong_log_fails() {
        let right = rows(&seagate(), 35);
        let system = Platform::of_virtual_log_paper(Layout::Lfs, Disk::Regular)
            .build(1)
            .unwrap();
        let mut updates = Updates::new(system, 35, true, 1).unwrap();
        let spent = updates.run(100).unwrap();
        let mut wrong = right.clone();
        wrong[2] = Row::new(LOG, 35.0, 1).with("ms", ms_each(spent.total_ns, 100));
        assert!(verdicts(&right)[2].pass && !verdicts(&wrong)[2].pass);
    }

    /// At full size: eager writing under the name of the log neither collapses nor falls
    /// behind.
    #[test]
    fn a_wrong_layout_fails() {
        let full = Context {
            small: false,
            ..Context::tiny()
        };
        let at = |name, layout, disk, percent| {
            measure(
                &full,
                name,
                &Platform::of_virtual_log_paper(layout, disk),
                percent,
                1,
            )
            .unwrap()
        };
        let pass = |layout, disk| {
            let log = [35, 50, 85].map(|percent| at(LOG, layout, disk, percent));
            let eager = at(EAGER, Layout::UFS, Disk::VirtualLog, 85);
            let verdicts = verdicts(&[&log[..], &[eager]].concat());
            [3, 6].map(|nth: usize| verdicts[nth].pass)
        };
        assert_eq!(pass(Layout::Lfs, Disk::Regular), [true; 2]);
        assert_eq!(pass(Layout::UFS, Disk::VirtualLog), [false; 2]);
    }
}
