//! V4: small files (Wang et al. 1999, §5.1): 1500 files of 1 KB are made, read
//! after the caches were emptied, and removed, on an empty disk.
//!
//! A phase ends with a sync, so that what the log-structured layout holds back
//! is paid for. On update in place everything is synchronous: names, inodes and
//! data.

use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::files::{Files, Phase};
use crate::platform::{Disk, Layout, Platform, System};
use crate::report::{Curve, Picture, Verdict, mean};

pub const V4: Experiment = Experiment::new("V4", points, verdicts, picture);

const PHASES: [&str; 3] = ["create", "read", "delete"];

/// The four systems of the paper's figures.
pub(in crate::experiments) const SYSTEMS: [(&str, Layout, Disk); 4] = [
    ("UFS, regular disk", Layout::UFS, Disk::Regular),
    ("UFS, VLD", Layout::UFS, Disk::VirtualLog),
    ("LFS, regular disk", Layout::Lfs, Disk::Regular),
    ("LFS, VLD", Layout::Lfs, Disk::VirtualLog),
];

fn points(_: &Context) -> Vec<Point> {
    SYSTEMS
        .map(|(name, layout, disk)| {
            Point::new(name, move |context: &Context| {
                let rows = context.seeds().map(|seed| {
                    let mut system = Platform::of_virtual_log_paper(layout, disk).build(seed)?;
                    let files = context.size(1500, 120);
                    // As the paper runs it: only the log-structured system waits.
                    small_files(name, &mut *system, files, layout == Layout::UFS, seed)
                });
                Ok(rows.collect::<Result<Vec<_>, LabError>>()?.concat())
            })
        })
        .into()
}

/// The three phases, of so many files; with `sync`, each file and each removal
/// is on the medium before the next.
pub(in crate::experiments) fn small_files(
    series: &str,
    system: &mut dyn System,
    files: u32,
    sync: bool,
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    let all = Files {
        count: files,
        bytes: 1024,
        in_directory: 0,
    };
    for (nth, phase) in Phase::SMALL.into_iter().enumerate() {
        let before = system.store().spent();
        all.run(phase, system, sync)?;
        let spent = system.store().spent() - before;
        let ms = |ns: u64| ns as f64 / 1e6 / f64::from(files);
        rows.push(
            Row::new(series, nth as f64 + 1.0, seed)
                .with("ms", ms(spent.total_ns))
                .with("host_ms", ms(spent.host_ns))
                .with("drive_ms", ms(spent.drive.total_ns())),
        );
    }
    Ok(rows)
}

/// How many times as fast as the first system.
fn speed(rows: &[Row], series: &str, phase: usize) -> f64 {
    let ms = |series: &str| mean(rows, series, phase as f64, "ms");
    ms(SYSTEMS[0].0) / ms(series)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (phase, least) in [(1, 2.0), (3, 2.0)] {
        let times = speed(rows, "UFS, VLD", phase);
        verdicts.push(Verdict::of(
            format!("UFS on the VLD: {}", PHASES[phase - 1]),
            format!("several times faster, at least {least}"),
            format!("{times:.2} x"),
            times >= least,
        ));
    }
    let read = speed(rows, "UFS, VLD", 2);
    verdicts.push(Verdict::of(
        "UFS on the VLD: read",
        "slightly slower: 0.6 to 1",
        format!("{read:.2} x"),
        (0.6..=1.0).contains(&read),
    ));
    for phase in 1..=3 {
        let (plain, eager) = (
            speed(rows, "LFS, regular disk", phase),
            speed(rows, "LFS, VLD", phase),
        );
        let ratio = eager / plain;
        // Reading is no batch: the text says it of writes.
        let beside = phase == 2;
        verdicts.push(
            Verdict::of(
                format!(
                    "LFS on the VLD against LFS on the disk: {}",
                    PHASES[phase - 1]
                ),
                "equal within 15 %",
                format!("{ratio:.2} x"),
                (0.85..=1.15).contains(&ratio),
            )
            .beside_the_claim(beside),
        );
        if !beside {
            verdicts.push(Verdict::of(
                format!("LFS against UFS on the disk: {}", PHASES[phase - 1]),
                "comfortably faster, at least 2",
                format!("{plain:.1} x"),
                plain >= 2.0,
            ));
        }
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |(name, _, _): (&str, Layout, Disk)| {
        let points = (1..=3).map(|phase| (phase as f64, speed(rows, name, phase)));
        Curve::named(name, points.collect())
    };
    Picture {
        title: "1500 files of 1 KB: 1 create, 2 read, 3 delete".into(),
        x: "phase".into(),
        y: "times as fast as UFS on the regular disk".into(),
        y_max: None,
        curves: SYSTEMS.map(curve).into(),
        references: vec![Curve::named(
            "paper: create and delete on the VLD at least 2",
            vec![(1.0, 2.0), (3.0, 2.0)],
        )],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::host::Host;
    use crate::platform::seagate;
    use varve_disk::Rotation;

    /// A drive whose rotation takes no time: there is nothing to gain by writing
    /// where the head is.
    #[test]
    fn a_wrong_drive_fails() {
        let pass = |rotation: Rotation| {
            let drive = varve_disk::Drive {
                rotation,
                ..seagate()
            };
            let run = |(name, layout, disk): (&str, Layout, Disk)| {
                let platform = Platform::of_virtual_log_paper(layout, disk);
                let platform = platform.on(drive.clone(), Host::SPARCSTATION_10);
                let mut system = platform.build(1).unwrap();
                small_files(name, &mut *system, 40, true, 1).unwrap()
            };
            let rows = [SYSTEMS[0], SYSTEMS[1]].map(run).concat();
            verdicts(&rows)[0].pass
        };
        let right = seagate().rotation;
        assert!(pass(right) && !pass(Rotation::of_rpm(1_000_000)));
    }
}
