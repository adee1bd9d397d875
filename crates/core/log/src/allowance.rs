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

use crate::pending::Pending;
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
const MARGIN_PENDING: Pending = Pending {
    bytes: 4 << 20,
    files: 1024,
    blocks: 2048,
    run_blocks: 8192,
    height: 0,
};

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    state: AtomicU64,
    granted: RwLock<Grant>,
}

/// Room for a tree of `total` while so much waits in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grant {
    state: u64,
    pub total: Usage,
    pub pending: Pending,
}

impl Grant {
    /// More than `total` and `pending`, to be derived from what is read from
    /// now on.
    pub fn beyond(state: u64, total: Usage, pending: Pending) -> Self {
        Grant {
            state,
            total: Usage {
                inodes: total.inodes.saturating_add(MARGIN.inodes),
                blocks: total.blocks.saturating_add(MARGIN.blocks),
                sectors: total.sectors.saturating_add(MARGIN.sectors),
            },
            pending: pending + MARGIN_PENDING,
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
    pub fn covers(&self, total: &Usage, pending: &Pending) -> bool {
        let granted = self.granted.read();
        granted.state == self.state()
            && pending.is_within(&granted.pending)
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

    fn pending(bytes: u64, files: u64, blocks: u64, height: u8) -> Pending {
        Pending {
            bytes,
            files,
            blocks,
            height,
            run_blocks: 0,
        }
    }

    #[test]
    fn nothing_is_covered_before_a_grant() {
        assert!(!Allowance::default().covers(&Usage::default(), &Pending::default()));
    }

    #[test]
    fn a_grant_covers_up_to_its_margin_in_every_measure() {
        let allowance = Allowance::default();
        let state = allowance.state();
        allowance.grant(Grant::beyond(state, total(1, 2, 3), pending(4, 5, 6, 7)));
        let most = total(1 + MARGIN.inodes, 2 + MARGIN.blocks, 3 + MARGIN.sectors);
        let waits = pending(4, 5, 6, 7) + MARGIN_PENDING;
        assert!(allowance.covers(&most, &waits));
        for more in [
            pending(1, 0, 0, 0),
            pending(0, 1, 0, 0),
            pending(0, 0, 1, 0),
            pending(0, 0, 0, 8),
        ] {
            assert!(!allowance.covers(&most, &(waits + more)), "{more:?}");
        }
        for (inodes, blocks, sectors) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
            let more = total(
                most.inodes + inodes,
                most.blocks + blocks,
                most.sectors + sectors,
            );
            assert!(!allowance.covers(&more, &Pending::default()), "{more:?}");
        }
    }

    #[test]
    fn a_change_voids_grants_given_and_those_derived_before_it() {
        let (allowance, nothing) = (Allowance::default(), Pending::default());
        let granted = || allowance.covers(&Usage::default(), &nothing);
        allowance.grant(Grant::beyond(allowance.state(), Usage::default(), nothing));
        let derived_before = allowance.state();
        allowance.void();
        assert!(!granted());
        allowance.grant(Grant::beyond(derived_before, Usage::default(), nothing));
        assert!(!granted());
        allowance.grant(Grant::beyond(allowance.state(), Usage::default(), nothing));
        assert!(granted());
    }
}
