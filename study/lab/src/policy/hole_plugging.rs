//! The emptiest segments fill the holes of the fullest (Wilkes et al. 1996).
//!
//! Each segment gained costs what lives in one, however full the volume is;
//! but the blocks go one by one to where the holes are, so a device pays an
//! access for each, and every run of holes pays a summary.

use super::Simulated;
use varve_lfs::policy::{Candidate, Policy, emptiest};

/// See the module's head.
#[derive(Debug, Clone, Copy, Default)]
pub struct HolePlugging;

impl Policy for HolePlugging {
    fn name(&self) -> &'static str {
        "hole-plugging"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64, limit: usize) -> Vec<Candidate> {
        emptiest(candidates, limit)
    }
}

impl Simulated for HolePlugging {
    fn plugged(
        &self,
        _candidates: &[Candidate],
        copied: &[Candidate],
        _limit: usize,
    ) -> Option<Vec<Candidate>> {
        Some(copied.to_vec())
    }
}
