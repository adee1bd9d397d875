//! L1: 32 MB in files of one size, from 1 KB to 32 MB, are made, read, overwritten and
//! removed (Seltzer et al. 1995, §3), by the log and by FFS with clusters, with and
//! without a gap between them. Of files larger than 3 MB there are ten.
//!
//! Each size has a fresh volume; the paper emptied that of FFS instead.

use crate::experiments::rivals::{
    BSD_LFS, CREATE, DELETE, M8R0, M8R2, OVERWRITE, READ, Rival, SPARC_2, rates,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::platform::files::{Files, Phase};
use crate::report::{Curve, Picture, Verdict, mean};

pub const L1: Experiment = Experiment::new("L1", points, verdicts, picture)
    .on_machine()
    .taking(139.0);

const RIVALS: &[Rival] = &[BSD_LFS, M8R0, M8R2];
/// Sizes in KB: 1, 2, 4 to 32,768.
const SIZES: u32 = 16;
const ALL_KB: u64 = 32 << 10;
const FILES_AT_LEAST: u64 = 10;

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for step in (0..SIZES).step_by(context.size(1, 8)) {
        let kb = 1 << step;
        points.extend(
            SPARC_2.points(RIVALS, "", move |context, series, system, seed| {
                let all = context.size(ALL_KB, 512) / kb;
                let files = Files {
                    count: all.max(context.size(FILES_AT_LEAST, 2)) as u32,
                    bytes: kb << 10,
                    in_directory: 100,
                };
                let rows = rates(files, &Phase::ALL, system, series, seed)?;
                let by_size = |row: Row| Row {
                    series: format!("{series}, {}", phase(row.x)),
                    x: kb as f64,
                    ..row
                };
                Ok(rows.into_iter().map(by_size).collect())
            }),
        );
    }
    points
}

fn phase(number: f64) -> &'static str {
    match number {
        CREATE => "create",
        READ => "read",
        OVERWRITE => "overwrite",
        _ => "delete",
    }
}

/// How many times as fast `one` is as `other`, files of so many KB.
fn times(rows: &[Row], of: f64, (one, other): (Rival, Rival), kb: u64) -> f64 {
    let rate = |rival: Rival| {
        let series = format!("{}, {}", rival.0, phase(of));
        mean(rows, &series, kb as f64, "files_per_s")
    };
    rate(one) / rate(other)
}

/// Share of the bandwidth of the bus at which large files are written (C157), per cent.
const OF_BANDWIDTH: [(Rival, f64); 3] = [(BSD_LFS, 67.0), (M8R0, 67.0), (M8R2, 75.0)];
/// The step of size at which that is judged, and points that it may be off.
const LARGE_KB: u64 = 4096;
const POINTS: f64 = 10.0;
/// The factors of the text may be off by so much.
const WITHIN: f64 = 0.4;

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let best = |of: f64, kb: u64| {
        let against = |ffs: Rival| times(rows, of, (BSD_LFS, ffs), kb);
        against(M8R0).min(against(M8R2))
    };
    let mut least = |of: f64, kb: u64, factor: f64| {
        let found = best(of, kb);
        verdicts.push(Verdict::of(
            format!(
                "{}, files of {kb} KB: LFS against the better FFS",
                phase(of)
            ),
            format!("{factor} x, within 40 %"),
            format!("{found:.2} x"),
            (factor * (1.0 - WITHIN)..=factor * (1.0 + WITHIN)).contains(&found),
        ));
    };
    least(CREATE, 1, 10.0);
    least(CREATE, 2, 4.0);
    least(CREATE, 32, 2.0);
    least(CREATE, 512, 1.0);
    least(CREATE, 4096, 1.0);
    least(READ, 8, 1.0);
    least(READ, 32, 1.0);
    least(DELETE, 1, 10.0);
    least(DELETE, 4096, 3.5);
    // Beyond a claim's breakpoint who is ahead may have changed a step sooner or later.
    let mut ahead = |of: f64, sizes: &[u64], (one, other): (Rival, Rival), factor: f64| {
        let found: Vec<f64> = sizes
            .iter()
            .map(|&kb| times(rows, of, (one, other), kb))
            .collect();
        let told: Vec<String> = found.iter().map(|times| format!("{times:.2}")).collect();
        verdicts.push(Verdict::of(
            format!(
                "{}, files of {} to {} KB: {} against {}",
                phase(of),
                sizes[0],
                sizes[sizes.len() - 1],
                one.0,
                other.0
            ),
            format!("ahead, at least {factor} x"),
            format!("{} x", told.join(", ")),
            found.iter().all(|&times| times >= factor),
        ));
    };
    let middle = [128, 256, 512, 1024, 2048];
    ahead(READ, &middle, (BSD_LFS, M8R0), 1.0);
    ahead(READ, &middle, (BSD_LFS, M8R2), 1.0);
    ahead(OVERWRITE, &[1, 4, 16, 64, 128], (BSD_LFS, M8R0), 1.0);
    ahead(OVERWRITE, &[1, 4, 16, 64, 128], (BSD_LFS, M8R2), 1.0);
    ahead(OVERWRITE, &[512, 1024, 4096], (M8R2, BSD_LFS), 1.05);
    let bus = SPARC_2.drive().bus_bytes_per_s as f64 / 1e3;
    verdicts.extend(OF_BANDWIDTH.map(|(rival, expected)| {
        let series = format!("{}, {}", rival.0, phase(CREATE));
        let found = 100.0 * mean(rows, &series, LARGE_KB as f64, "kb_per_s") / bus;
        Verdict::of(
            format!(
                "create, files of {LARGE_KB} KB: {} of the bandwidth",
                rival.0
            ),
            format!("{expected} %, within {POINTS} points"),
            format!("{found:.0} %"),
            (found - expected).abs() <= POINTS,
        )
    }));
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |rival: Rival, of: f64| {
        let series = format!("{}, {}", rival.0, phase(of));
        let sizes = (0..SIZES).map(f64::from);
        let points = sizes.map(|step| (step, mean(rows, &series, step.exp2(), "kb_per_s")));
        Curve::named(&series, points.filter(|(_, y)| y.is_finite()).collect())
    };
    let curves = [CREATE, READ, OVERWRITE]
        .into_iter()
        .flat_map(|of| RIVALS.iter().map(move |&rival| curve(rival, of)));
    Picture {
        title: "32 MB in files of one size".into(),
        x: "size of a file, powers of two, KB".into(),
        y: "KB/s".into(),
        y_max: None,
        curves: curves.collect(),
        references: Vec::new(),
    }
    .with_room_for_names()
}
