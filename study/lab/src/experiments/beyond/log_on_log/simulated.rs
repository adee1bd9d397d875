//! The simulated log of N1 over flash and zones.

use super::beneath::{Beneath, FlashKind, Told};
use crate::experiments::study::live_for;
use crate::experiments::{Context, LabError, Row};
use crate::policy::{Limited, Reordering, Simulated};
use crate::replay;
use crate::simulator::{Age, Counters, RESERVE, Setup, Shape, Simulator, segment_blocks};
use crate::trace::Trace;
use crate::workload::{Locality, Op, Skew, Skewed, Workload, gather};
use varve_lfs::policy::Policy;

/// Blocks of a segment under drawn loads.
const SEGMENT_BLOCKS: u32 = 64;
/// Segments of the volume, and of a tiny one.
const SEGMENTS: (u32, u32) = (1024, 256);
/// Turns of a drawn load, the first of which fills the volume, and those that are
/// measured behind them.
const TURNS: (u32, u32) = (4, 2);
/// Block writes of a trace, in at least so many passes and at most so many.
const WRITES: u64 = 400_000;
const PASSES: (u64, u64) = (4, 24);
/// Operations between two looks at what they wrote.
const AT_ONCE: usize = 1024;

/// What is written to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Uniform,
    /// Nine in ten writes to a tenth of the blocks.
    Hot,
    /// A recorded trace.
    Recorded(&'static str),
}

impl Load {
    pub fn name(self) -> &'static str {
        match self {
            Load::Uniform => "uniform",
            Load::Hot => "hot-and-cold",
            Load::Recorded(name) => name,
        }
    }
}

/// A load on a volume that it fills so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub load: Load,
    pub percent: u32,
    /// A name of [`replay::policies`].
    pub policy: &'static str,
}

impl Case {
    pub fn series(self) -> String {
        format!("{} {} %, {}", self.load.name(), self.percent, self.policy)
    }

    fn utilisation(self) -> f64 {
        f64::from(self.percent) / 100.0
    }

    fn system(self) -> (Box<dyn Simulated>, Option<Reordering>) {
        replay::policy(self.policy).expect("names come from the list")
    }
}

/// Where operations come from.
enum Source {
    Drawn(Skewed),
    Recorded(Trace),
}

impl Source {
    fn of(context: &Context, case: Case) -> Result<Self, LabError> {
        let live = || {
            let segments = context.size(SEGMENTS.0, SEGMENTS.1);
            live_for(segments, SEGMENT_BLOCKS, case.utilisation())
        };
        let drawn = |skew| Source::Drawn(Skewed::of_blocks(skew, live(), context.seed));
        Ok(match case.load {
            Load::Uniform => drawn(Skew::Uniform),
            Load::Hot => drawn(Skew::HotCold {
                accesses: 90,
                files: 10,
            }),
            Load::Recorded(name) => Source::Recorded(context.trace(name)?),
        })
    }

    /// Block numbers there are, how many live, and blocks of a segment.
    fn measures(&self) -> (u32, u32, u32) {
        match self {
            Source::Drawn(load) => (load.blocks(), load.live_max(), SEGMENT_BLOCKS),
            Source::Recorded(trace) => {
                (trace.blocks, trace.live_max, segment_blocks(trace.live_max))
            }
        }
    }

    fn locality(&self) -> Box<dyn Locality> {
        match self {
            Source::Drawn(load) => load.locality(),
            Source::Recorded(trace) => Box::new(trace.locality.clone()),
        }
    }

    /// Turns until what is measured begins, and those that are.
    fn turns(&self, context: &Context) -> (u32, u32) {
        match self {
            Source::Drawn(_) => context.size(TURNS, (2, 1)),
            Source::Recorded(trace) => {
                let passes = (WRITES / trace.writes).clamp(PASSES.0, PASSES.1) as u32;
                (passes / 2, passes - passes / 2)
            }
        }
    }

    fn turn(&mut self, nth: u32, mut give: impl FnMut(&[Op])) {
        match self {
            Source::Drawn(load) => {
                let mut ops = Vec::new();
                match nth {
                    0 => load.prefill(&mut ops),
                    _ => {
                        let live = load.live_max() as usize;
                        gather(load, live, &mut ops);
                    }
                }
                give(&ops);
            }
            Source::Recorded(trace) => give(&trace.ops),
        }
    }
}

/// Runs a load over what is beneath.
fn run(
    context: &Context,
    source: &mut Source,
    setup: Setup,
    deaths: bool,
    beneath: &mut Beneath,
) -> Counters {
    let locality = source.locality();
    let (warm, measured) = source.turns(context);
    let mut simulator = Simulator::new(setup, &*locality);
    simulator.note_transfers(deaths);
    let mut transfers = Vec::new();
    for nth in 0..warm + measured {
        if nth == warm {
            simulator.reset();
            beneath.reset();
        }
        source.turn(nth, |ops| {
            for ops in ops.chunks(AT_ONCE) {
                simulator.run(ops);
                simulator.take_transfers(&mut transfers);
                beneath.take(&transfers);
                transfers.clear();
            }
        });
    }
    simulator.counters().clone()
}

fn setup(
    shape: Shape,
    live_max: u32,
    policy: Box<dyn Simulated>,
    reordering: Option<Reordering>,
    buffer_blocks: u32,
) -> Setup {
    Setup {
        shape,
        live_max,
        policy,
        batch: 1,
        buffer_blocks: Some(buffer_blocks as usize),
        reordering,
        age: Age::Youngest,
    }
}

/// A policy as it is, over flash of these kinds, and over zones of a segment: a
/// row of the log's own, and one for each flash that is possible.
pub(super) fn on_flash(
    context: &Context,
    case: Case,
    kinds: &[FlashKind],
) -> Result<Vec<Row>, LabError> {
    let mut source = Source::of(context, case)?;
    let (blocks, live, segment_blocks) = source.measures();
    let shape = Shape::for_utilisation(blocks, live, segment_blocks, case.utilisation());
    let (mut policy, reordering) = case.system();
    let heads = policy.heads(&shape.measures(live)).max(1);
    // Streams of one head are those of none.
    let kinds = kinds
        .iter()
        .copied()
        .filter(|kind| heads > 1 || !kind.apart);
    let kinds: Vec<FlashKind> = kinds.collect();
    let mut beneath = Beneath::new(shape, heads, &kinds);
    let deaths = kinds.iter().any(|kind| kind.told == Told::Deaths);
    let setup = setup(shape, live, policy, reordering, 2 * segment_blocks);
    let counters = run(context, &mut source, setup, deaths, &mut beneath);
    let log = beneath.written() as f64 / counters.logged.max(1) as f64;
    let row = Row::new(case.series(), 1.0, context.seed)
        .with("log", log)
        .with("data", counters.amplification())
        .with("heads", heads as f64);
    let mut rows = vec![beneath.zones.told(row)];
    for flash in &beneath.flash {
        let series = format!("{}, {}", case.series(), flash.kind.name());
        let counted = flash.counted();
        let under = counted.amplification();
        let total = (counted.written + counted.moved) as f64 / counters.logged.max(1) as f64;
        rows.push(
            Row::new(series, flash.kind.ratio(), context.seed)
                .with("log", log)
                .with("beneath", under)
                .with("total", total),
        );
    }
    Ok(rows)
}

/// A policy that writes into no hole, on zones of so many segments, of which so
/// many may be open; 0 for as many as it likes. No row if what lives has no room
/// on so few zones.
pub(super) fn on_zones(
    context: &Context,
    case: Case,
    segments: u32,
    max_open: u32,
) -> Result<Vec<Row>, LabError> {
    let mut source = Source::of(context, case)?;
    let (blocks, live, segment_blocks) = source.measures();
    let whole = Shape::for_utilisation(blocks, live, segment_blocks, case.utilisation());
    let zone_blocks = segment_blocks * segments;
    let shape = Shape {
        segments: whole.segments / segments,
        segment_blocks: zone_blocks,
        ..whole
    };
    let (policy, reordering) = case.system();
    let most = if max_open == 0 { u32::MAX } else { max_open };
    let mut policy = Limited::new(policy, most as usize);
    let room = (shape.segments.saturating_sub(RESERVE)) * zone_blocks;
    if f64::from(live) > 0.98 * f64::from(room) {
        return Ok(Vec::new());
    }
    let heads = policy.heads(&shape.measures(live));
    // With every head's zone but begun, something must still be worth cleaning.
    let closed = shape.segments.saturating_sub(2 + heads as u32) * zone_blocks;
    if f64::from(live) > 0.97 * f64::from(closed) {
        return Ok(Vec::new());
    }
    let mut beneath = Beneath::new(shape, heads, &[]);
    let setup = setup(
        shape,
        live,
        Box::new(policy),
        reordering,
        2 * segment_blocks,
    );
    let counters = run(context, &mut source, setup, false, &mut beneath);
    let log = beneath.written() as f64 / counters.logged.max(1) as f64;
    let series = zone_series(case, max_open);
    let row = Row::new(series, f64::from(segments), context.seed)
        .with("total", log)
        .with("zones", f64::from(shape.segments))
        .with("heads", heads as f64)
        .with("most_open", f64::from(beneath.zones.most_open));
    Ok(vec![beneath.zones.told(row)])
}

pub(super) fn zone_series(case: Case, max_open: u32) -> String {
    match max_open {
        0 => format!("{}, zones", case.series()),
        most => format!("{}, zones, {most} open", case.series()),
    }
}
