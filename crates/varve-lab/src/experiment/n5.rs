//! N5: what a mounted log writes on every recorded trace, under the policies a
//! mount offers, with holes and without, and how far that is from the oracle.
//!
//! Traces have few blocks, and a log with several heads needs many segments. So
//! several clients follow a trace at the same time, each in its own part of one
//! file, as many as make about a thousand segments of 256 KiB. The oracle, which
//! is N1's, has segments of as many blocks as one client has in each. Passes: six
//! hundred thousand block writes, at least four passes, the second half measured.

use super::mounted::{Mounted, Setting, counted, volume_bytes};
use super::n1::{ORACLE_HEADS, simulate};
use super::{Context, Experiment, LabError, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use crate::simulator::{Future, Oracle};
use crate::trace::{self, Trace};
use crate::workload::Op;
use std::time::Duration;
use varve_lfs::policy::PolicyKind;

const UTILISATIONS: [f64; 3] = [0.8, 0.9, 0.95];
const SEGMENT_BYTES: u32 = 256 << 10;
/// Blocks of 4 KiB in it.
const SEGMENT_BLOCKS: u32 = 64;
/// Blocks that live, of all clients together, at least.
const LIVE: u32 = 50_000;
/// The most clients: the oracle's segments have two blocks then.
const CLIENTS: u32 = 32;
const WRITES: u64 = 600_000;

/// How many follow the trace.
fn clients(trace: &Trace) -> u32 {
    let clients = LIVE.div_ceil(trace.live_max).next_power_of_two();
    clients.min(CLIENTS)
}
/// Of the oracle.
const LEAST: f64 = 0.85;

/// See the module's head.
pub const N5: Experiment = Experiment {
    id: "N5",
    about: "what a mounted log writes on every trace, beside the oracle",
    needs_traces: true,
    points,
    verdicts,
    picture,
};

/// How a mount is told to place and clean.
#[derive(Clone, Copy)]
struct Mount {
    name: &'static str,
    policy: PolicyKind,
    heads: u32,
    holes: bool,
}

const MOUNTS: [Mount; 4] = [
    Mount {
        name: "greedy, holes",
        policy: PolicyKind::GREEDY,
        heads: 1,
        holes: true,
    },
    Mount {
        name: "life-classes, holes",
        policy: PolicyKind::LIFE_CLASSES,
        heads: 0,
        holes: true,
    },
    Mount {
        name: "greedy",
        policy: PolicyKind::GREEDY,
        heads: 1,
        holes: false,
    },
    Mount {
        name: "life-classes",
        policy: PolicyKind::LIFE_CLASSES,
        heads: 0,
        holes: false,
    },
];

fn points(context: &Context) -> Vec<Point> {
    let names: Vec<&'static str> = trace::names().collect();
    // Of the tiny size, the smallest trace.
    let names = context.size(&names[..], &names[6..]);
    let utilisations = context.size(&UTILISATIONS[..], &UTILISATIONS[..1]);
    let mut points = Vec::new();
    for &name in names {
        for &u in utilisations {
            for mount in MOUNTS {
                let label = format!("{}, {name} at {u}", mount.name);
                points.push(Point::new(label, move |c| {
                    Ok(vec![measure(c, name, u, mount)?])
                }));
            }
            points.push(Point::new(format!("oracle, {name} at {u}"), move |c| {
                oracle(c, name, u)
            }));
        }
    }
    points
}

fn oracle(context: &Context, name: &'static str, utilisation: f64) -> Result<Vec<Row>, LabError> {
    let trace = context.trace(name)?;
    let future = Future::of(&trace.ops, trace.blocks);
    let rows = ORACLE_HEADS.iter().map(|heads| {
        let oracle = Oracle::new(future.clone(), trace.blocks, *heads);
        let shape = (utilisation, SEGMENT_BLOCKS / clients(&trace));
        simulate(&trace, shape, Box::new(oracle), None)
    });
    let data = |row: &Row| row.values["amplification"];
    let best = rows.min_by(|a, b| data(a).total_cmp(&data(b)));
    let of = |row: Row| {
        // Its summaries, one for a few blocks, would say nothing.
        Row::new(format!("oracle, {name}"), utilisation, context.seed)
            .with("data", row.values["amplification"])
    };
    Ok(best.map(of).into_iter().collect())
}

fn measure(
    context: &Context,
    name: &'static str,
    utilisation: f64,
    mount: Mount,
) -> Result<Row, LabError> {
    let trace = context.trace(name)?;
    let clients = clients(&trace);
    let live = u64::from(trace.live_max) * u64::from(clients);
    let volume = volume_bytes(context, (live as f64 / utilisation) as u64, SEGMENT_BYTES);
    let mut log = Mounted::new(
        context,
        Setting {
            volume_bytes: volume,
            segment_bytes: SEGMENT_BYTES,
            policy: mount.policy,
            heads: mount.heads,
            holes: mount.holes,
            checkpoint_bytes: None,
        },
    );
    let writes = trace.writes * u64::from(clients);
    let passes = (context.size(WRITES, 1) / writes).clamp(4, 40);
    let row = Row::new(format!("{}, {name}", mount.name), utilisation, context.seed)
        .with("clients", f64::from(clients))
        .with("passes", passes as f64)
        .with("live", live as f64)
        .with("volume_bytes", volume as f64);
    let mut before = log.statistics();
    for pass in 0..passes {
        if pass == passes / 2 {
            before = log.statistics();
        }
        if !replay(&mut log, &trace, clients) {
            return Ok(row.with("refused_in_pass", (pass + 1) as f64));
        }
    }
    Ok(counted(row, &before, &log.statistics()))
}

/// A pass. False if the volume had no room for a write.
fn replay(log: &mut Mounted, trace: &Trace, clients: u32) -> bool {
    let places = |block: u32| (0..clients).map(move |client| (client, block));
    let place = |(client, block): (u32, u32)| {
        u64::from(client) * u64::from(trace.blocks) + u64::from(block)
    };
    for op in &trace.ops {
        match *op {
            Op::Write { block } => {
                if !places(block).map(place).all(|b| log.write(b)) {
                    return false;
                }
            }
            Op::Trim { block } => places(block).map(place).for_each(|b| log.trim(b)),
            Op::Sync => log.sync(),
            Op::Wait { ns } => log.wait(Duration::from_nanos(ns)),
            Op::Read { .. } => {}
        }
    }
    true
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for name in trace::names() {
        let of = |mount: &str, u| mean(rows, &format!("{mount}, {name}"), u, "data");
        let reached = |u: &f64| of("oracle", *u) / of("greedy, holes", *u);
        let known = UTILISATIONS.iter().filter(|u| !of("oracle", **u).is_nan());
        let told: Vec<String> = known
            .map(|u| match reached(u) {
                no if no.is_nan() => format!("no room at {u}"),
                part => format!("{part:.2} at {u}"),
            })
            .collect();
        let reached = UTILISATIONS.iter().map(reached);
        // A volume that refuses to be filled so far has nothing to compare.
        let Some(worst) = reached.filter(|part| !part.is_nan()).min_by(f64::total_cmp) else {
            continue;
        };
        verdicts.push(Verdict::of(
            format!("a mount by default on {name}, data blocks: the oracle's over its own"),
            format!("at least {LEAST}"),
            told.join(", "),
            worst >= LEAST,
        ));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let some: Vec<Row> = rows
        .iter()
        .filter(|row| row.series.ends_with(", android-facebook"))
        .cloned()
        .collect();
    let rows = if some.is_empty() { rows } else { &some };
    Picture {
        title: "What a mounted log writes on a telephone's trace".into(),
        x: "utilisation".into(),
        y: "data blocks written per user block".into(),
        y_max: None,
        curves: Curve::all(rows, "data"),
        references: Vec::new(),
    }
}
