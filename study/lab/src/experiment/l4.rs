//! L4: the micro-benchmarks of Rosenblum & Ousterhout on the machine of Seltzer et al.
//! (1995, §2, figures 1 and 2), who ran them to show that their log-structured file
//! system is one: as R1 and R2, on a faster processor and drive, and beside an FFS
//! with clusters.
//!
//! The figures are lost, so what is asked is what the text says of them.

use super::rivals::{
    BSD_LFS, CREATE, DELETE, M1R2, M8R2, PASSES, RANDOM_READ, RANDOM_WRITE, READ, READ_AGAIN,
    READ_ONCE, Rival, SPARC_2, WRITE, large_bytes, large_file, many_files, rates, ratio,
};
use super::{Context, Experiment, Point, Row};
use crate::platform::files::Phase;
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
        let files = many_files(context, 1024);
        rates(files, &Phase::SMALL, system, series, seed)
    });
    let large = SPARC_2.points(RIVALS, "a large file, ", |context, series, system, seed| {
        let rows = large_file(system, series, large_bytes(context), seed)?;
        let behind = |row: Row| Row {
            x: LARGE + row.x,
            ..row
        };
        Ok(rows.into_iter().map(behind).collect())
    });
    small.chain(large).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let (lfs, single, clusters) = (BSD_LFS.0, M1R2.0, M8R2.0);
    let mut verdicts = Vec::new();
    for ffs in [single, clusters] {
        for (what, phase, expected, least) in [
            ("create", CREATE, "an order of magnitude, at least 6", 6.0),
            ("delete", DELETE, "an order of magnitude, at least 6", 6.0),
            ("read", READ, "comparable or faster, at least 0.8", 0.8),
        ] {
            let times = ratio(rows, lfs, ffs, phase, "files_per_s");
            verdicts.push(Verdict::of(
                format!("files of 1 KB, {what}: LFS against {ffs}"),
                expected,
                format!("{times:.2} x"),
                times >= least,
            ));
        }
    }
    for (pass, one, other, expected, within) in [
        (
            WRITE,
            lfs,
            single,
            "without clusters FFS has less than a third of the bandwidth: at least 2",
            2.0..,
        ),
        (RANDOM_WRITE, lfs, clusters, "far better, at least 2", 2.0..),
        (
            READ_ONCE,
            lfs,
            single,
            "better, as it reads clusters: at least 1.05",
            1.05..,
        ),
        (
            READ_AGAIN,
            clusters,
            lfs,
            "better: the log lies as it was written; at least 1.05",
            1.05..,
        ),
        (
            // Read-ahead of blocks that nobody wants costs LFS.
            RANDOM_READ,
            clusters,
            lfs,
            "LFS is no faster than 1.1 x, as it reads ahead: at least 0.91",
            0.91..,
        ),
    ] {
        let times = ratio(rows, one, other, LARGE + pass as f64, "kb_per_s");
        verdicts.push(Verdict::of(
            format!("100 MB, {}: {one} against {other}", PASSES[pass]),
            expected,
            format!("{times:.2} x"),
            within.contains(&times),
        ));
    }
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
