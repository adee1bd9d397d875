//! N5: what a mounted log writes on every recorded trace, under the policies a
//! mount offers, with holes and without, and how far that is from the oracle.
//!
//! Traces have few blocks, and a log with several heads needs many segments. So
//! several clients follow a trace at the same time, each in its own part of one
//! file, as many as make about a thousand segments of 256 KiB. The oracle, which
//! is N1's, has segments of as many blocks as one client has in each. Passes: six
//! hundred thousand block writes, at least four passes, the second half measured.

use crate::experiments::beyond::policies_on_traces;
use crate::experiments::mounted::{Mounted, Setting, counted, volume_bytes};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use crate::trace::Trace;
use crate::workload::Op;
use std::time::Duration;
use varve_lfs::policy::PolicyKind;

const UTILISATIONS: [f64; 3] = [0.8, 0.9, 0.95];
/// Where the others are measured beside the default, which the claim is about.
const BESIDE: f64 = 0.9;
/// That of a tiny volume, which has little room beside its reserve.
const TINY_UTILISATION: [f64; 1] = [0.4];
const SEGMENT_BYTES: u32 = 256 << 10;
/// Blocks of 4 KiB in it.
const SEGMENT_BLOCKS: u32 = 64;
/// Blocks that live, of all clients together, at least; and on a tiny volume.
const LIVE: (u32, u32) = (50_000, 2000);
/// The most clients: the oracle's segments have two blocks then.
const CLIENTS: u32 = 32;
const WRITES: u64 = 600_000;

/// Of the oracle.
const LEAST: f64 = 0.85;

pub const N5: Experiment = Experiment::new("N5", points, verdicts, picture)
    .only_with_traces()
    .taking(610.0);

/// A policy, and whether blocks are written into holes; the first is a mount's default.
const MOUNTS: [(PolicyKind, bool); 4] = [
    (PolicyKind::GREEDY, true),
    (PolicyKind::LIFE_CLASSES, true),
    (PolicyKind::GREEDY, false),
    (PolicyKind::LIFE_CLASSES, false),
];

fn series((policy, holes): (PolicyKind, bool), name: &str) -> String {
    let holes = if holes { "holes, " } else { "" };
    format!("{}, {holes}{name}", policy.name())
}

/// How many follow the trace.
fn clients(context: &Context, trace: &Trace) -> u32 {
    let live = context.size(LIVE.0, LIVE.1);
    let clients = live.div_ceil(trace.live_max).next_power_of_two();
    clients.min(CLIENTS)
}

fn points(context: &Context) -> Vec<Point> {
    let names = context.trace_names();
    let utilisations = context.size(&UTILISATIONS[..], &TINY_UTILISATION[..]);
    let mut points = Vec::new();
    for name in names {
        for &u in utilisations {
            let beside = u == BESIDE || context.small;
            for mount in MOUNTS
                .into_iter()
                .take(if beside { MOUNTS.len() } else { 1 })
            {
                let label = format!("{} at {u}", series(mount, name));
                points.push(Point::new(label, move |c| {
                    Ok(vec![measure(c, name, u, mount)?])
                }));
            }
            points.push(Point::new(format!("oracle, {name} at {u}"), move |c| {
                Ok(vec![oracle(c, name, u)?])
            }));
        }
    }
    points
}

fn oracle(context: &Context, name: &str, utilisation: f64) -> Result<Row, LabError> {
    let trace = context.trace(name)?;
    let segment_blocks = SEGMENT_BLOCKS / clients(context, &trace);
    let best = policies_on_traces::oracle(&trace, (utilisation, segment_blocks));
    // Its summaries, one for a few blocks, would say nothing.
    Ok(
        Row::new(format!("oracle, {name}"), utilisation, context.seed)
            .with("data", best.values["amplification"]),
    )
}

fn measure(
    context: &Context,
    name: &str,
    utilisation: f64,
    mount: (PolicyKind, bool),
) -> Result<Row, LabError> {
    let trace = context.trace(name)?;
    let clients = clients(context, &trace);
    let live = u64::from(trace.live_max) * u64::from(clients);
    let volume = volume_bytes(context, (live as f64 / utilisation) as u64, SEGMENT_BYTES);
    let mut log = Mounted::new(
        context,
        Setting {
            volume_bytes: volume,
            segment_bytes: SEGMENT_BYTES,
            policy: mount.0,
            heads: 0,
            holes: mount.1,
            checkpoint_bytes: None,
            discard: false,
        },
    );
    let writes = trace.writes * u64::from(clients);
    let passes = (context.size(WRITES, 1) / writes).clamp(context.size(4, 2), 40);
    let row = Row::new(series(mount, name), utilisation, context.seed)
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
    let oracles = rows.iter().filter_map(|row| {
        let name = row.series.strip_prefix("oracle, ")?;
        let of = |series: &str| mean(rows, series, row.x, "data");
        let reached = of(&row.series) / of(&series(MOUNTS[0], name));
        let told = match reached.is_nan() {
            true => "no room for the trace".into(),
            false => format!("{reached:.2}"),
        };
        Some(Verdict::of(
            format!(
                "a mount by default on {name} at {}: the oracle's data blocks over its own",
                row.x
            ),
            format!("at least {LEAST}"),
            told,
            reached >= LEAST,
        ))
    });
    oracles.collect()
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "What a mounted log writes on a telephone's trace".into(),
        x: "utilisation".into(),
        y: "data blocks written per user block".into(),
        y_max: None,
        curves: Curve::all(
            &policies_on_traces::of_trace(rows, "android-facebook"),
            "data",
        ),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::sprite_lfs::greedy_cleaning::tests::Fullest;
    use crate::experiments::tests::tiny::{recorded, tiny};

    /// A mount whose cleaner takes the fullest segments, on a volume that is fuller than it should be.
    #[test]
    fn a_wrong_cleaner_fails() {
        const FULLEST: PolicyKind = PolicyKind::new("fullest", || Box::new(Fullest));
        const NAME: &str = "tpcc-small";
        let traces = tempfile::tempdir().unwrap();
        std::fs::write(traces.path().join("tpcc-small.ascii"), recorded(1000)).unwrap();
        let context = Context {
            traces: Some(traces.path().to_owned()),
            ..Context::tiny()
        };
        let found = measure(&context, NAME, 0.6, (FULLEST, false)).unwrap();
        let mut rows = tiny("N5").rows.clone();
        assert!(verdicts(&rows)[0].pass);
        let default = series(MOUNTS[0], NAME);
        for row in rows.iter_mut().filter(|row| row.series == default) {
            row.values.clone_from(&found.values);
        }
        let wrong = &verdicts(&rows)[0];
        assert!(
            found.values.contains_key("data") && !wrong.pass,
            "{wrong} {found:?}"
        );
    }
}
