//! What was granted in advance.
//!
//! Every operation asks whether there is space, and while there is ample the answer is
//! the same for thousands of them. So a grant is given for more than was asked, and
//! holds for every request that measures no more, until an append or a checkpoint
//! changes what it follows from. (Asked of a kept stock each time, a create takes 1.12
//! and a write 1.28 of the instructions.)
//!
//! Invariant: a grant bears the number of the state that it was derived from. The number
//! is read before the state is, and grows under the write lock of the committed state; so
//! a grant derived from a state that a change has displaced never counts.

use varve_device::sync::RwLock;
use varve_device::sync::atomic::AtomicU64;
use varve_device::sync::atomic::Ordering::{AcqRel, Acquire};
use varve_fs::{Request, Usage, Waiting};

/// Granted beyond what is asked.
const MORE_BYTES: u64 = 4 << 20;
const MORE_FILES: u64 = 1024;
const MORE_BLOCKS: u64 = 2048;
const MORE_OF_TREE: u64 = 8192;

/// A request that was granted: all that measure no more are granted, too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grant {
    state: u64,
    pub total: Usage,
    pub waiting: Waiting,
    /// Inode numbers given out and in no group.
    pub loose: u64,
}

impl Grant {
    /// More than the request.
    pub fn beyond(state: u64, request: &Request, loose: u64) -> Self {
        let mut grant = Grant {
            state,
            total: request.total,
            waiting: request.waiting,
            loose: loose + MORE_FILES,
        };
        let (total, waiting) = (&mut grant.total, &mut grant.waiting);
        for (measure, more) in [
            (&mut total.inodes, MORE_FILES),
            (&mut total.blocks, MORE_OF_TREE),
            (&mut total.sectors, 8 * MORE_OF_TREE),
            (&mut waiting.unwritten.bytes, MORE_BYTES),
            (&mut waiting.unwritten.blocks, MORE_BLOCKS),
            (&mut waiting.unwritten.images, MORE_FILES),
            (&mut waiting.unwritten.ranges, MORE_FILES / 16),
            (&mut waiting.operations, MORE_FILES / 64),
            (&mut waiting.promised, MORE_BYTES / 4),
            (&mut waiting.asked, MORE_BYTES / 16),
            (&mut waiting.highest_block, MORE_OF_TREE),
        ] {
            *measure = measure.saturating_add(more);
        }
        grant
    }

    /// True if the request is no larger in any measure.
    pub fn covers(&self, request: &Request, loose: u64) -> bool {
        let (most, asked) = (&self.waiting, &request.waiting);
        let (unwritten, total) = (&asked.unwritten, &request.total);
        total.inodes <= self.total.inodes
            && total.blocks <= self.total.blocks
            && total.sectors <= self.total.sectors
            && unwritten.bytes <= most.unwritten.bytes
            && unwritten.blocks <= most.unwritten.blocks
            && unwritten.further <= most.unwritten.further
            && unwritten.images <= most.unwritten.images
            && unwritten.ranges <= most.unwritten.ranges
            && asked.promised <= most.promised
            && asked.promised_attributes <= most.promised_attributes
            && asked.asked <= most.asked
            && asked.asked_attributes <= most.asked_attributes
            && asked.operations <= most.operations
            && asked.highest_block <= most.highest_block
            && loose <= self.loose
    }
}

/// The last grant, and the number of the present state.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    state: AtomicU64,
    last: RwLock<Grant>,
}

impl Grants {
    /// What was granted no longer counts. The caller holds the lock of the committed state
    /// for a change.
    pub fn void(&self) {
        self.state.fetch_add(1, AcqRel);
    }

    /// The number of the present state, which no grant has at the beginning.
    pub fn state(&self) -> u64 {
        self.state.load(Acquire) + 1
    }

    /// From now on requests that are no larger are granted.
    pub fn grant(&self, grant: Grant) {
        assert!(grant.state <= self.state(), "a grant of a later state");
        *self.last.write() = grant;
    }

    /// True if the last grant counts, and covers the request.
    pub fn covers(&self, request: &Request, loose: u64) -> bool {
        let last = self.last.read();
        last.state == self.state() && last.covers(request, loose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_fs::Purpose;

    #[test]
    fn a_grant_covers_no_more_than_it_has_of_any_measure() {
        let asked = Request::new(Usage::default(), Waiting::default(), Purpose::Grow);
        assert!(!Grants::default().covers(&asked, 0));
        let grant = Grant::beyond(1, &asked, 5);
        assert!(grant.covers(&asked, 5) && grant.covers(&asked, 5 + MORE_FILES));
        assert!(!grant.covers(&asked, 6 + MORE_FILES));
        let mut most = asked;
        (most.total, most.waiting) = (grant.total, grant.waiting);
        assert!(grant.covers(&most, 0));
        let measures: [fn(&mut Request) -> &mut u64; 14] = [
            |r| &mut r.total.inodes,
            |r| &mut r.total.blocks,
            |r| &mut r.total.sectors,
            |r| &mut r.waiting.unwritten.bytes,
            |r| &mut r.waiting.unwritten.blocks,
            |r| &mut r.waiting.unwritten.further,
            |r| &mut r.waiting.unwritten.images,
            |r| &mut r.waiting.unwritten.ranges,
            |r| &mut r.waiting.promised,
            |r| &mut r.waiting.promised_attributes,
            |r| &mut r.waiting.asked,
            |r| &mut r.waiting.asked_attributes,
            |r| &mut r.waiting.operations,
            |r| &mut r.waiting.highest_block,
        ];
        for (nth, measure) in measures.iter().enumerate() {
            let mut more = most;
            *measure(&mut more) += 1;
            assert!(!grant.covers(&more, 0), "measure {nth}");
        }
    }

    #[test]
    fn a_change_voids_grants_derived_before_it() {
        let grants = Grants::default();
        let asked = Request::new(Usage::default(), Waiting::default(), Purpose::Grow);
        let grant = || grants.grant(Grant::beyond(grants.state(), &asked, 0));
        grant();
        assert!(grants.covers(&asked, 0));
        let derived_before = Grant::beyond(grants.state(), &asked, 0);
        grants.void();
        assert!(!grants.covers(&asked, 0));
        grants.grant(derived_before);
        assert!(!grants.covers(&asked, 0));
        grant();
        assert!(grants.covers(&asked, 0));
    }
}
