//! Cleaning policies that are compared with those of a mount, and what only
//! the simulator can do: plugging holes, reordering buffers.

mod adaptive;
mod age_threshold;
mod hole_plugging;
mod limited;
mod reorder;
mod sepbit;

pub use adaptive::Adaptive;
pub use age_threshold::AgeThreshold;
pub use hole_plugging::HolePlugging;
pub use limited::Limited;
pub use reorder::{Heat, Reordering, Waiting};
pub use sepbit::SepBit;

use varve_lfs::policy::{Candidate, CostBenefit, Greedy, LifeClasses, Policy};

/// A policy that the simulator can follow.
pub trait Simulated: Policy {
    /// Segments whose live blocks are written into dead blocks of the fullest
    /// segments, instead of `copied`, which the policy chose; at most `limit`,
    /// best first.
    fn plugged(
        &self,
        _candidates: &[Candidate],
        _copied: &[Candidate],
        _limit: usize,
    ) -> Option<Vec<Candidate>> {
        None
    }
}

impl Simulated for Greedy {}
impl Simulated for CostBenefit {}
impl Simulated for LifeClasses {}

/// One of each, in the order of reports.
pub fn all() -> Vec<Box<dyn Simulated>> {
    vec![
        Box::new(Greedy),
        Box::new(CostBenefit),
        Box::new(AgeThreshold),
        Box::new(HolePlugging),
        Box::new(Adaptive::with_one_buffer()),
        Box::<SepBit>::default(),
        Box::<LifeClasses>::default(),
    ]
}
