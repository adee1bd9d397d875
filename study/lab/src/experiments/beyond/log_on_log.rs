//! N2: a log on a log. The policies of N1 over a flash translation layer, and
//! over sequential zones; the real log beside.
//!
//! What a simulated log writes goes page by page to flash of several kinds: its
//! erase blocks as large as a part of a segment, or as several; with little
//! spare or much; told which segments have become clean, or nothing, or every
//! death; one stream, or one for each head. *Total* is pages written to flash
//! for each block that users write to the log: the product of both logs'
//! amplification.
//!
//! Beneath is 1 on zones, as what is not in order is refused. A zone is what is
//! reset together, so segments are zones, and as large: what it costs is in the
//! log. The volume has the same bytes with zones of one segment and of sixteen.
//!
//! Volumes, unless a trace is replayed: 1024 segments of 64 blocks, three of
//! them in reserve as in N1, a write buffer of two; filled, overwritten as often
//! as three times what lives, and measured for two more. One seed.

mod beneath;
mod found;
mod mounted;
mod simulated;

use crate::experiments::{Context, Experiment, Point, Row};
use crate::replay;
use crate::report::{Curve, Picture};
use beneath::{FlashKind, Told};
use found::verdicts;
use mounted::Mount;
use simulated::{Case, Load, on_flash, on_zones, zone_series};
use varve_lfs::policy::PolicyKind;

pub const N2: Experiment = Experiment::new("N2", points, verdicts, picture)
    .with_traces()
    .taking(124.0);

const PERCENTS: [u32; 2] = [80, 90];
/// Of the volume.
const SPARE: [u32; 2] = [7, 28];
/// Erase blocks, in eighths of a segment: what every policy and mount is tried
/// with, and what the picture has.
const SIZES: [u32; 3] = [2, 8, 32];
const ALL_SIZES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Zones, in segments; the picture has all.
const ZONES: [u32; 3] = [1, 4, 16];
const ALL_ZONES: [u32; 5] = [1, 2, 4, 8, 16];
/// Open zones, beside as many as a policy wants.
const OPEN: [u32; 2] = [2, 1];
/// Those that write into holes, where that is cheaper.
const PLUGGING: [&str; 3] = ["hole-plugging", "adaptive", "wolf"];
/// Those with several heads.
const SEVERAL: [&str; 3] = ["sepbit", "life-classes", "wolf"];
/// The picture's.
const SHOWN: [&str; 2] = ["greedy", "life-classes"];

fn kind(eighths: u32, spare_percent: u32, told: Told, apart: bool) -> FlashKind {
    FlashKind {
        eighths,
        spare_percent,
        told,
        apart,
    }
}

/// The flash under a case.
fn kinds(case: Case) -> Vec<FlashKind> {
    let recorded = matches!(case.load, Load::Recorded(_));
    let sizes = match recorded {
        true => &SIZES[1..],
        false if is_shown(case) => &ALL_SIZES[..],
        false => &SIZES[..],
    };
    let mut kinds = Vec::new();
    for &eighths in sizes {
        kinds.extend(SPARE.map(|spare| kind(eighths, spare, Told::Segments, false)));
        kinds.push(kind(eighths, SPARE[0], Told::Segments, true));
        if !recorded && SIZES.contains(&eighths) {
            kinds.push(kind(eighths, SPARE[0], Told::Nothing, false));
            kinds.push(kind(eighths, SPARE[0], Told::Deaths, false));
        }
    }
    kinds
}

fn is_shown(case: Case) -> bool {
    case.load == Load::Hot && case.percent == PERCENTS[0] && SHOWN.contains(&case.policy)
}

fn mount_kinds() -> Vec<FlashKind> {
    let of = |eighths| SPARE.map(|spare| kind(eighths, spare, Told::Segments, false));
    SIZES.into_iter().flat_map(of).collect()
}

fn mounts() -> Vec<Mount> {
    let kinds = [
        (PolicyKind::GREEDY, true),
        (PolicyKind::GREEDY, false),
        (PolicyKind::LIFE_CLASSES, false),
    ];
    let mut mounts = Vec::new();
    for (policy, holes) in kinds {
        for percent in PERCENTS {
            for hot in [false, true] {
                let mount = |discard| Mount {
                    policy,
                    hot,
                    percent: percent.into(),
                    holes,
                    discard,
                };
                mounts.push(mount(true));
                // What telling is worth is seen with one policy, and some room.
                if policy == PolicyKind::GREEDY && percent == PERCENTS[0] {
                    mounts.push(mount(false));
                }
            }
        }
    }
    mounts
}

fn points(context: &Context) -> Vec<Point> {
    let mut loads = vec![Load::Hot, Load::Uniform];
    loads.truncate(context.size(2, 1));
    if context.traces.is_some() {
        loads.extend(context.trace_names().into_iter().map(Load::Recorded));
    }
    let policies = replay::policies();
    let few = ["greedy", "hole-plugging", "life-classes"];
    let policies = context.size(&policies[..], &few[..]);
    let mut points = Vec::new();
    for &load in &loads {
        for &percent in context.size(&PERCENTS[..], &PERCENTS[..1]) {
            for &policy in policies {
                let case = Case {
                    load,
                    percent,
                    policy,
                };
                let flash = move |c: &Context| on_flash(c, case, &kinds(case));
                points.push(Point::new(format!("{} over flash", case.series()), flash));
                if !matches!(load, Load::Recorded(_)) {
                    points.push(zones_point(case));
                }
            }
        }
    }
    let mounts = mounts();
    for &mount in context.size(&mounts[..], &mounts[..1]) {
        let run = move |c: &Context| Ok(mounted::measure(c, mount, &mount_kinds()));
        points.push(Point::new(mount.series(), run));
    }
    points
}

fn zones_point(case: Case) -> Point {
    let label = format!("{} on zones", case.series());
    Point::new(label, move |context: &Context| {
        let all = match is_shown(case) {
            true => &ALL_ZONES[..],
            false => &ZONES[..],
        };
        let mut rows = Vec::new();
        for &segments in all {
            rows.extend(on_zones(context, case, segments, 0)?);
        }
        if SEVERAL.contains(&case.policy) {
            for open in OPEN {
                for segments in ZONES {
                    rows.extend(on_zones(context, case, segments, open)?);
                }
            }
        }
        Ok(rows)
    })
}

fn picture(rows: &[Row]) -> Picture {
    let mut curves = Vec::new();
    for policy in SHOWN {
        let case = Case {
            load: Load::Hot,
            percent: PERCENTS[0],
            policy,
        };
        let mut add = |name: &str, series: String| {
            let of: Vec<Row> = rows
                .iter()
                .filter(|row| row.series == series)
                .cloned()
                .collect();
            let found = Curve::all(&of, "total").into_iter();
            curves
                .extend(found.map(|curve| Curve::named(format!("{policy}, {name}"), curve.points)));
        };
        let flash = |kind: FlashKind| format!("{}, {}", case.series(), kind.name());
        add("7 % spare", flash(kind(8, 7, Told::Segments, false)));
        add("28 % spare", flash(kind(8, 28, Told::Segments, false)));
        add("7 %, streams", flash(kind(8, 7, Told::Segments, true)));
        add("zones", zone_series(case, 0));
    }
    Picture {
        title: "Hot and cold at 80 %: a log on flash, and on zones".into(),
        x: "an erase block, or a zone, in segments".into(),
        y: "pages written for each of the user".into(),
        y_max: None,
        curves,
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests;
