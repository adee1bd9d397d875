//! The state of the compactor between calls. Its operations are in `compact`.

use crate::options::Watermarks;
use std::collections::BTreeSet;

/// Nanoseconds of the medium's clock that the last step of each kind took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    pub claim_ns: u64,
    pub move_ns: u64,
    pub commit_ns: u64,
    pub fold_ns: u64,
    pub checkpoint_ns: u64,
}

/// The state of the compactor between calls.
#[derive(Debug, Default)]
pub struct Compactor {
    /// True between the two watermarks, once it has begun.
    pub working: bool,
    /// Regions that could not be emptied in this pass.
    pub tried: BTreeSet<u32>,
    /// True if a region was emptied since the first window was begun.
    pub emptied: bool,
    /// Number of groups appended, and share of the free space in empty regions, at the
    /// last time when there was nothing to gain.
    pub rested: Option<(u64, f64)>,
    pub took: Took,
}

impl Compactor {
    #[cfg(test)]
    pub fn forget_rest(&mut self) {
        self.rested = None;
    }

    pub fn wants(&mut self, marks: Watermarks, share: f64) -> bool {
        let mark = if self.working { marks.end } else { marks.begin };
        self.working = share < mark;
        self.working
    }
}
