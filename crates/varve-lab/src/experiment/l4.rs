//! L4: the micro-benchmarks of Rosenblum & Ousterhout on the machine of Seltzer et al.
//! (1995, §2, figures 1 and 2), who ran them to show that their log-structured file
//! system is one: as R1 and R2, on a faster processor and drive, and beside an FFS
//! with clusters.
//!
//! The figures are lost, so what is asked is what the text says of them.

use super::rivals::{
    BSD_LFS, CREATE, DELETE, Files, M1R2, M8R2, PASSES, RANDOM_READ, RANDOM_WRITE, READ,
    READ_AGAIN, READ_ONCE, Rival, SPARC_2, WRITE, large_file, ratio,
};
use super::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict};

/// See the module's head.
pub const L4: Experiment = Experiment {
    id: "L4",
    about: "the micro-benchmarks of LFS against Sprite's figures, scaled",
    needs_traces: false,
    points,
    verdicts,
    picture,
};

const RIVALS: &[Rival] = &[BSD_LFS, M1R2, M8R2];
/// Passes through the large file come behind the phases of the small ones.
const LARGE: f64 = 10.0;

fn points(_: &Context) -> Vec<Point> {
    let small = SPARC_2.points(RIVALS, "small files, ", |context, series, system, seed| {
        let files = Files {
            count: context.size(10_000, 200),
            bytes: 1024,
            in_directory: 100,
        };
        files.run(system, series, false, seed)
    });
    let large = SPARC_2.points(RIVALS, "a large file, ", |context, series, system, seed| {
        let bytes = context.size(100 << 20, 4 << 20);
        let rows = large_file(system, series, bytes, seed)?;
        let behind = |row: Row| Row {
            x: LARGE + row.x,
            ..row
        };
        Ok(rows.into_iter().map(behind).collect())
    });
    small.chain(large).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut claim = |what: String, expected: &str, times: f64, pass: bool| {
        verdicts.push(Verdict::of(what, expected, format!("{times:.2} x"), pass));
    };
    for (ffs, _) in [M1R2, M8R2] {
        for (what, phase) in [("create", CREATE), ("delete", DELETE)] {
            let times = ratio(rows, BSD_LFS.0, ffs, phase, "files_per_s");
            let what = format!("files of 1 KB, {what}: LFS against {ffs}");
            claim(
                what,
                "an order of magnitude, at least 6",
                times,
                times >= 6.0,
            );
        }
        let times = ratio(rows, BSD_LFS.0, ffs, READ, "files_per_s");
        let what = format!("files of 1 KB, read: LFS against {ffs}");
        claim(
            what,
            "comparable or faster, at least 0.8",
            times,
            times >= 0.8,
        );
    }
    let large = |one: &str, other: &str, pass: usize| {
        ratio(rows, one, other, LARGE + pass as f64, "kb_per_s")
    };
    let of = |pass: usize, one: &str, other: &str| {
        format!("100 MB, {}: {one} against {other}", PASSES[pass])
    };
    let (lfs, single, clusters) = (BSD_LFS.0, M1R2.0, M8R2.0);
    let times = large(lfs, single, WRITE);
    let expected = "without clusters FFS has less than a third of the bandwidth: at least 2";
    claim(of(WRITE, lfs, single), expected, times, times >= 2.0);
    let times = large(lfs, clusters, RANDOM_WRITE);
    let expected = "far better, at least 2";
    claim(
        of(RANDOM_WRITE, lfs, clusters),
        expected,
        times,
        times >= 2.0,
    );
    let times = large(lfs, single, READ_ONCE);
    let expected = "better, as it reads clusters";
    claim(of(READ_ONCE, lfs, single), expected, times, times > 1.0);
    let times = large(clusters, lfs, READ_AGAIN);
    let expected = "better: the log lies as it was written";
    claim(of(READ_AGAIN, clusters, lfs), expected, times, times > 1.0);
    let times = large(lfs, clusters, RANDOM_READ);
    let expected = "read-ahead of blocks that nobody wants costs LFS: no faster, at most 1.1";
    claim(
        of(RANDOM_READ, lfs, clusters),
        expected,
        times,
        times <= 1.1,
    );
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "1 create, 2 read, 4 delete files of 1 KB; 10 to 14: a large file".into(),
        x: "phase".into(),
        y: "KB/s".into(),
        y_max: None,
        curves: Curve::all(rows, "kb_per_s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}
