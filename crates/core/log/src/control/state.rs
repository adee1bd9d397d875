//! The state of the cleaner between passes.

use crate::policy::{Policy, PolicyKind};

/// The refusal of a caller although everything would have fitted: a new attempt is
/// useless until something has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastRefusal {
    pub bytes: u64,
    pub data_bytes: u64,
    pub sectors: u64,
}

/// The state of the cleaner between passes.
#[derive(Debug)]
pub struct CleanerState {
    pub kind: PolicyKind,
    pub policy: Box<dyn Policy>,
    /// Serial of the log's end after a pass that gained nothing.
    pub fruitless_at: Option<u64>,
    /// Number of passes since the last gain.
    pub barren: u32,
    /// Clean segments when cleaning ahead of need last ended.
    pub rested_at: Option<u64>,
    /// The last refusal for lack of clean segments.
    pub refused: Option<LastRefusal>,
}

impl CleanerState {
    /// The state before the first pass.
    pub(crate) fn new(policy: PolicyKind) -> Self {
        CleanerState {
            kind: policy,
            policy: policy.policy(),
            fruitless_at: None,
            barren: 0,
            rested_at: None,
            refused: None,
        }
    }
}
