//! The emptiest segments fill the holes of the fullest (Wilkes et al. 1996).
//!
//! Each segment gained costs what lives in one, however full the volume is;
//! but the blocks go one by one to where the holes are, so a device pays an
//! access for each, and every run of holes pays a summary.

use super::{Candidate, Choice, Method, Policy, emptiest};

/// See the module's head.
#[derive(Debug, Clone, Copy, Default)]
pub struct HolePlugging;

impl Policy for HolePlugging {
    fn name(&self) -> &'static str {
        "hole-plugging"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64, limit: usize) -> Choice {
        Choice {
            segments: emptiest(candidates, limit),
            method: Method::Plug,
        }
    }
}
