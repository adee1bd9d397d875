//! One simulation: warm up, measure, count.

use crate::policy::{Reordering, Simulated};
use crate::report::deviation_of_batches;
use crate::simulator::{Age, Counters, RESERVE, Setup, Shape, Simulator, Witness};
use crate::workload::{Op, Workload, gather};
use varve_lfs::policy::{Candidate, Policy, Watermarks};

/// How a workload is simulated.
pub struct Study {
    /// Live blocks per block outside the reserve.
    pub utilisation: f64,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Decides.
    pub policy: Box<dyn Simulated>,
    /// Segments that are cleaned together.
    pub batch: u32,
    /// Blocks of the write buffer.
    pub buffer_blocks: Option<usize>,
    /// Reordering buffers.
    pub reordering: Option<Reordering>,
    /// What a segment's age is counted from.
    pub age: Age,
    /// User writes until the steady state, and while it is measured, in
    /// multiples of what lives.
    pub turns: (u32, u32),
    /// Measuring ends earlier, with the turn after which half of the 95 %
    /// confidence interval of the write cost is at most this share of it, a turn a
    /// batch. Without it every turn is measured.
    pub certain: Option<f64>,
}

/// Turns that an interval is made of, at least.
const TURNS_MIN: usize = 3;

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
            age: self.age,
        }
    }

    /// Runs a workload from its beginning. Every segment cleaned in the steady
    /// state is shown to the witness.
    pub fn run<'a>(self, workload: &mut dyn Workload, witness: Option<Witness<'a>>) -> Measured {
        let locality = workload.locality();
        let live = workload.live_max();
        let ((warm, most), certain) = (self.turns, self.certain);
        let segment_blocks = self.segment_blocks;
        let setup = self.setup(workload.blocks(), live);
        let mut sim = Simulator::new(setup, &*locality);
        let mut ops: Vec<Op> = Vec::new();
        workload.prefill(&mut ops);
        sim.run(&ops);
        let mut turn = |sim: &mut Simulator<'_>| {
            ops.clear();
            gather(workload, live as usize, &mut ops);
            sim.run(&ops);
        };
        (0..warm).for_each(|_| turn(&mut sim));
        sim.reset();
        if let Some(witness) = witness {
            sim.watch(witness);
        }
        let mut costs = Vec::new();
        let mut before = sim.counters().clone();
        for _ in 0..most {
            turn(&mut sim);
            costs.push(sim.counters().write_cost_since(&before, segment_blocks));
            before.clone_from(sim.counters());
            let known = costs.len() >= TURNS_MIN;
            if certain.is_some_and(|share| known && deviation_of_batches(&costs) <= share) {
                break;
            }
        }
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

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
        self.policy.choose(candidates, now_ns, limit)
    }

    fn sorted_segments(&self) -> u64 {
        self.segments
    }
}

impl<P: Policy> Simulated for Sorting<P> {}

/// A policy in passes: when clean segments run out, it cleans as many segments
/// as survivors fill so many, sorts those by age, and no more before they run
/// out again. So the simulator of Rosenblum's dissertation (1992, §5.5.3) is
/// described by those who rebuilt it (RAMCloud, `misc/lfs_sim`, 2013).
#[derive(Debug)]
pub struct Passes<P> {
    /// Chooses.
    pub policy: P,
    /// Segments of survivors.
    pub segments: u64,
}

impl<P: Policy> Policy for Passes<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, _limit: usize) -> Vec<Candidate> {
        let mut chosen = self.policy.choose(candidates, now_ns, candidates.len());
        let mut live_bytes = 0;
        let fits = |c: &&Candidate| {
            live_bytes += c.live_bytes;
            live_bytes <= self.segments * c.segment_bytes
        };
        let count = chosen.iter().take_while(fits).count();
        chosen.truncate(count.max(1));
        chosen
    }

    fn wanted(&self, space: &Watermarks) -> u32 {
        u32::from(space.clean < space.low)
    }

    fn sorted_segments(&self) -> u64 {
        // Whatever a pass takes.
        u64::from(u32::MAX)
    }
}

impl<P: Policy> Simulated for Passes<P> {}

/// Live blocks of a volume of about so many segments.
pub fn live_for(segments: u32, segment_blocks: u32, utilisation: f64) -> u32 {
    (f64::from((segments - RESERVE) * segment_blocks) * utilisation) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Skew, Skewed};
    use varve_lfs::policy::Greedy;

    /// A run that is certain ends long before one that has all its turns, and finds
    /// the same.
    #[test]
    fn measuring_ends_when_it_is_certain() {
        let run = |certain| {
            let study = Study {
                utilisation: 0.8,
                segment_blocks: 32,
                policy: Box::new(Greedy),
                batch: 1,
                buffer_blocks: None,
                reordering: None,
                age: Age::Youngest,
                turns: (5, 40),
                certain,
            };
            let live = live_for(300, 32, 0.8);
            let mut workload = Skewed::of_blocks(Skew::Uniform, live, 1);
            let counters = study.run(&mut workload, None).counters;
            (counters.submitted, counters.write_cost(32))
        };
        let (whole, short) = (run(None), run(Some(0.01)));
        assert!(short.0 * 4 < whole.0, "{short:?} {whole:?}");
        assert!(
            (short.1 / whole.1 - 1.0).abs() < 0.01,
            "{short:?} {whole:?}"
        );
        assert_eq!(run(Some(0.0)), whole, "nothing is that certain");
    }

    #[test]
    fn a_pass_takes_what_survivors_fill_and_waits_until_clean_segments_run_out() {
        let candidate = |segment, live_bytes| Candidate {
            segment,
            live_bytes,
            segment_bytes: 1000,
            newest_ns: 0,
        };
        let passes = Passes {
            policy: Greedy,
            segments: 2,
        };
        let candidates = [700, 900, 500, 800].map(|live| candidate(live as u32, live));
        let chosen = passes.choose(&candidates, 0, 1);
        let chosen: Vec<u32> = chosen.iter().map(|c| c.segment).collect();
        assert_eq!(chosen, [500, 700, 800], "2000 bytes, not 2900");
        let one = Passes {
            segments: 0,
            ..passes
        };
        assert_eq!(one.choose(&candidates, 0, 9).len(), 1);
        let space = |clean| Watermarks {
            clean,
            low: 2,
            high: 33,
        };
        assert_eq!(
            [1, 2, 20].map(|clean| passes.wanted(&space(clean))),
            [1, 0, 0]
        );
    }
}
