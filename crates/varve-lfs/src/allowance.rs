//! Room that operations may count on without asking anew.
//!
//! Every operation asks whether what it adds will fit, and while there is room
//! to spare the answer is the same for thousands of them. So an answer is given
//! for more than was asked, and holds for whoever asks for no more than that,
//! until an append or a checkpoint changes what it was derived from.
//!
//! Invariant: a grant bears the number of the state that it was derived from.
//! The number is read before the state is, and grows while the lock of the
//! committed state is held for a change; so a grant derived from what a change
//! has displaced never counts.

use varve_device::sync::RwLock;
use varve_device::sync::atomic::AtomicU64;
use varve_device::sync::atomic::Ordering::{AcqRel, Acquire};
use varve_fs::Usage;

/// What is granted beyond what is asked for.
const MARGIN: Usage = Usage {
    inodes: 4096,
    blocks: 8192,
    sectors: 8 * 8192,
};
const MARGIN_BYTES: u64 = 4 << 20;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    state: AtomicU64,
    granted: RwLock<Grant>,
}

/// Room for a tree of `total` while `bytes` wait in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grant {
    state: u64,
    pub total: Usage,
    pub bytes: u64,
}

impl Grant {
    /// More than `total` and `bytes`, to be derived from what is read from
    /// now on.
    pub fn beyond(state: u64, total: Usage, bytes: u64) -> Self {
        Grant {
            state,
            total: Usage {
                inodes: total.inodes.saturating_add(MARGIN.inodes),
                blocks: total.blocks.saturating_add(MARGIN.blocks),
                sectors: total.sectors.saturating_add(MARGIN.sectors),
            },
            bytes: bytes.saturating_add(MARGIN_BYTES),
        }
    }
}

impl Allowance {
    /// The number of the present state.
    pub fn state(&self) -> u64 {
        self.state.load(Acquire) + 1
    }

    /// What was granted no longer counts. The caller holds the lock of the
    /// committed state for a change.
    pub fn void(&self) {
        self.state.fetch_add(1, AcqRel);
    }

    /// From now on whoever asks for no more than this may go on.
    pub fn grant(&self, grant: Grant) {
        *self.granted.write() = grant;
    }

    /// True if this has been granted.
    pub fn covers(&self, total: Usage, bytes: u64) -> bool {
        let granted = *self.granted.read();
        granted.state == self.state()
            && bytes <= granted.bytes
            && total.inodes <= granted.total.inodes
            && total.blocks <= granted.total.blocks
            && total.sectors <= granted.total.sectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(inodes: u64, blocks: u64, sectors: u64) -> Usage {
        Usage {
            inodes,
            blocks,
            sectors,
        }
    }

    #[test]
    fn nothing_is_covered_before_a_grant() {
        assert!(!Allowance::default().covers(Usage::default(), 0));
    }

    #[test]
    fn a_grant_covers_up_to_its_margin_in_every_measure() {
        let allowance = Allowance::default();
        allowance.grant(Grant::beyond(allowance.state(), total(1, 2, 3), 4));
        let most = total(1 + MARGIN.inodes, 2 + MARGIN.blocks, 3 + MARGIN.sectors);
        assert!(allowance.covers(most, 4 + MARGIN_BYTES));
        assert!(!allowance.covers(most, 5 + MARGIN_BYTES));
        for (inodes, blocks, sectors) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
            let more = total(
                most.inodes + inodes,
                most.blocks + blocks,
                most.sectors + sectors,
            );
            assert!(!allowance.covers(more, 0), "{more:?}");
        }
    }

    #[test]
    fn a_change_voids_grants_given_and_those_derived_before_it() {
        let allowance = Allowance::default();
        allowance.grant(Grant::beyond(allowance.state(), Usage::default(), 0));
        let derived_before = allowance.state();
        allowance.void();
        assert!(!allowance.covers(Usage::default(), 0));
        allowance.grant(Grant::beyond(derived_before, Usage::default(), 0));
        assert!(!allowance.covers(Usage::default(), 0));
        allowance.grant(Grant::beyond(allowance.state(), Usage::default(), 0));
        assert!(allowance.covers(Usage::default(), 0));
    }
}
