//! L4: the micro-benchmarks of Rosenblum & Ousterhout on the machine of Seltzer et al.
//! (1995, §2, figures 1 and 2), who ran them to show that their log-structured file
//! system is one: as R1 and R2, on a faster processor and drive, and beside an FFS
//! with clusters.
//!
//! The figures are lost, so what is asked is what the text says of them.

use crate::experiments::rivals::{
    BSD_LFS, CREATE, DELETE, M1R2, M8R2, Machine, ORDER_OF_MAGNITUDE, PASSES, RANDOM_READ,
    RANDOM_WRITE, READ, READ_AGAIN, READ_ONCE, Rival, SCALE_ACCESS, SCALE_BANDWIDTH, SCALE_CPU,
    SPARC_2, SPRITE_LFS, SUN_4, SUN_FFS, WRITE, large_bytes, large_file, many_files, rates, ratio,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::platform::files::Phase;
use crate::report::{Curve, Picture, Verdict, mean};

pub const L4: Experiment = Experiment::new("L4", points, verdicts, picture)
    .on_machine()
    .taking(18.0);

const RIVALS: &[Rival] = &[BSD_LFS, M1R2, M8R2];
const SPRITE: &[Rival] = &[SPRITE_LFS, SUN_FFS];
const AN_ORDER: &str = "an order of magnitude, 3.2 to 31.6 times";
/// How far scaled rates may be off, as factors of L1.
const SCALED_WITHIN: f64 = 0.4;
/// Of a share of the processor.
const BUSY_WITHIN: f64 = 0.2;
/// Passes through the large file come behind the phases of the small ones.
const LARGE: f64 = 10.0;

fn points(_: &Context) -> Vec<Point> {
    let on = |machine: Machine, rivals: &'static [Rival]| {
        let small = machine.points(rivals, "small files, ", |context, series, system, seed| {
            let files = many_files(context, 1024);
            rates(files, &Phase::SMALL, system, series, seed)
        });
        let large = machine.points(rivals, "a large file, ", |context, series, system, seed| {
            let rows = large_file(system, series, large_bytes(context), seed)?;
            let behind = |row: Row| Row {
                x: LARGE + row.x,
                ..row
            };
            Ok(rows.into_iter().map(behind).collect())
        });
        small.chain(large)
    };
    on(SPARC_2, RIVALS).chain(on(SUN_4, SPRITE)).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let (lfs, single, clusters) = (BSD_LFS.0, M1R2.0, M8R2.0);
    let mut verdicts = Vec::new();
    for ffs in [single, clusters] {
        for (what, phase, expected, within) in [
            ("create", CREATE, AN_ORDER, ORDER_OF_MAGNITUDE),
            ("delete", DELETE, AN_ORDER, ORDER_OF_MAGNITUDE),
            (
                "read",
                READ,
                "comparable or faster, at least 0.8",
                0.8..f64::INFINITY,
            ),
        ] {
            let times = ratio(rows, lfs, ffs, phase, "files_per_s");
            verdicts.push(Verdict::of(
                format!("files of 1 KB, {what}: LFS against {ffs}"),
                expected,
                format!("{times:.2} x"),
                within.contains(&times),
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
            RANDOM_READ,
            clusters,
            lfs,
            "faster: the log reads ahead what is not wanted; above 1",
            1.0..,
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
    verdicts.extend(scaled(rows));
    verdicts.extend(busy(rows));
    verdicts
}

/// Rates of Sprite's machine, times the scales of table 2, against those of 4.4BSD's: what
/// the section is about.
fn scaled(rows: &[Row]) -> Vec<Verdict> {
    let large = |pass: usize| LARGE + pass as f64;
    let (log, ffs) = ((BSD_LFS, SPRITE_LFS), (M1R2, SUN_FFS));
    let rate = |(name, _): Rival, x: f64| mean(rows, name, x, "kb_per_s");
    // What the text says of each, and how far the factor may be off.
    [
        ("create", CREATE, log, SCALE_CPU, 0.75, "25 % worse"),
        ("read", READ, log, SCALE_BANDWIDTH, f64::NAN, "better"),
        (
            "write",
            large(WRITE),
            log,
            SCALE_BANDWIDTH,
            1.0,
            "nearly the same",
        ),
        (
            "random write",
            large(RANDOM_WRITE),
            log,
            SCALE_BANDWIDTH,
            1.0,
            "nearly the same",
        ),
        ("create", CREATE, ffs, SCALE_ACCESS, 1.0, "comparable"),
        ("delete", DELETE, ffs, SCALE_ACCESS, 1.0, "comparable"),
        (
            "sequential read",
            large(READ_ONCE),
            ffs,
            SCALE_BANDWIDTH,
            1.0,
            "comparable",
        ),
        (
            "random write",
            large(RANDOM_WRITE),
            ffs,
            SCALE_ACCESS,
            1.0,
            "comparable",
        ),
    ]
    .map(|(what, x, (bsd, sprite), scale, factor, said)| {
        let times = rate(bsd, x) / (scale * rate(sprite, x));
        let (expected, pass) = match factor.is_nan() {
            true => ("above 1".to_owned(), times > 1.0),
            false => (
                format!("{factor} x, within {:.0} %", 100.0 * SCALED_WITHIN),
                (times / factor - 1.0).abs() <= SCALED_WITHIN,
            ),
        };
        Verdict::of(
            format!("{what}: {} against {scale} x {}", bsd.0, sprite.0),
            format!("{said}: {expected}"),
            format!("{times:.2} x"),
            pass,
        )
    })
    .into()
}

/// Shares of the processor, the only ones that the paper gives: they judge the table of
/// what the host does.
fn busy(rows: &[Row]) -> Vec<Verdict> {
    let share = |(name, _): Rival, phase| mean(rows, name, phase, "processor_percent");
    [
        (BSD_LFS, "create", CREATE, 64.0, 64.0),
        (BSD_LFS, "delete", DELETE, 73.0, 73.0),
        (M1R2, "create", CREATE, 5.0, 6.0),
        (M1R2, "delete", DELETE, 5.0, 6.0),
    ]
    .map(|(rival, what, phase, from, to)| {
        let found = share(rival, phase);
        let within = from * (1.0 - BUSY_WITHIN)..=to * (1.0 + BUSY_WITHIN);
        Verdict::of(
            format!("the processor is busy, {what}, {}", rival.0),
            match from == to {
                true => format!("{from} %, within 20 %"),
                false => format!("{from} to {to} %, within 20 %"),
            },
            format!("{found:.1} %"),
            within.contains(&found),
        )
    })
    .into()
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
