//! One simulation: warm up, measure, count.

use crate::simulator::{Counters, RESERVE, Setup, Shape, Simulator, Witness};
use crate::workload::{Op, Workload, gather};
use varve_lfs::cleaner::policy::{Candidate, Choice, Policy, Reordering};

/// How a workload is simulated.
pub struct Study {
    /// Live blocks per block outside the reserve.
    pub utilisation: f64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Decides.
    pub policy: Box<dyn Policy>,
    /// Segments that are cleaned together.
    pub batch: u32,
    /// Blocks of the write buffer.
    pub buffer_blocks: Option<usize>,
    /// Reordering buffers.
    pub reordering: Option<Reordering>,
    /// User writes until the steady state, and while it is measured, in
    /// multiples of what lives.
    pub turns: (u32, u32),
}

/// What came out.
pub struct Measured {
    /// Counted in the steady state.
    pub counters: Counters,
    /// Utilisation of the sealed segments at the end.
    pub utilisations: Vec<f64>,
}

impl Study {
    /// What a simulator is made of.
    pub(super) fn setup(self, blocks: u32, live_max: u32) -> Setup {
        let Study {
            utilisation,
            segment_blocks,
            ..
        } = self;
        Setup {
            shape: Shape {
                // As in the papers: a hole takes a block.
                summaries_in_holes: false,
                ..Shape::for_utilisation(blocks, live_max, segment_blocks, utilisation)
            },
            live_max,
            policy: self.policy,
            batch: self.batch,
            buffer_blocks: self.buffer_blocks,
            reordering: self.reordering,
        }
    }

    /// Runs a workload from its beginning. Every segment cleaned in the steady
    /// state is shown to the witness.
    pub fn run<'a>(self, workload: &mut dyn Workload, witness: Option<Witness<'a>>) -> Measured {
        let locality = workload.locality();
        let live = workload.live_max();
        let (warm, measured) = self.turns;
        let setup = self.setup(workload.blocks(), live);
        let mut sim = Simulator::new(setup, &*locality);
        let mut ops: Vec<Op> = Vec::new();
        workload.prefill(&mut ops);
        sim.run(&ops);
        let mut advance = |sim: &mut Simulator<'_>, turns: u32| {
            for _ in 0..turns {
                ops.clear();
                gather(workload, live as usize, &mut ops);
                sim.run(&ops);
            }
        };
        advance(&mut sim, warm);
        sim.reset();
        if let Some(witness) = witness {
            sim.watch(witness);
        }
        advance(&mut sim, measured);
        Measured {
            counters: sim.counters().clone(),
            utilisations: sim.volume().utilisations(),
        }
    }

    /// Replays a trace: whole passes, one of them to fill the volume.
    pub fn replay(self, trace: &crate::trace::Trace) -> Measured {
        let (warm, measured) = self.turns;
        let setup = self.setup(trace.blocks, trace.live_max);
        replay(setup, trace, warm, measured)
    }
}

/// Replays a trace in a given setup.
pub fn replay(setup: Setup, trace: &crate::trace::Trace, warm: u32, measured: u32) -> Measured {
    let mut sim = Simulator::new(setup, &trace.locality);
    for pass in 0..warm + measured {
        if pass == warm {
            sim.reset();
        }
        sim.run(&trace.ops);
    }
    sim.volume().recount();
    Measured {
        counters: sim.counters().clone(),
        utilisations: sim.volume().utilisations(),
    }
}

/// A policy whose survivors are sorted by age over so many segments, as the
/// simulations of Rosenblum & Ousterhout (1992, §3.5) do whatever is chosen.
#[derive(Debug)]
pub struct Sorting<P> {
    /// Chooses.
    pub policy: P,
    /// Segments.
    pub segments: u64,
}

impl<P: Policy> Policy for Sorting<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Choice {
        self.policy.choose(candidates, now_ns, limit)
    }

    fn sorted_segments(&self) -> u64 {
        self.segments
    }
}

/// Live blocks of a volume of about so many segments.
pub fn live_for(segments: u32, segment_blocks: u32, utilisation: f64) -> u32 {
    (f64::from((segments - RESERVE) * segment_blocks) * utilisation) as u32
}
