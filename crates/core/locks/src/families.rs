//! The nesting of transactions, for requests that meet locks of another transaction.
//!
//! Whether a lock conflicts with a request follows from the requester's own line. This
//! table is needed only to find out which branch the request waits for.

use crate::owner::{Line, Owner, OwnerId};
use crate::places::{Place, RwLock};
use foldhash::HashMap;
use varve_device::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The lines of nested transactions. The line of a transaction that is not nested is
/// itself.
pub(crate) struct Families {
    nested: RwLock<HashMap<OwnerId, Line>>,
    /// Number of nested transactions. Usually it is zero, and the map is not read.
    count: AtomicUsize,
}

impl Families {
    pub(crate) fn new() -> Families {
        Families {
            nested: RwLock::new(Place::Families, HashMap::default()),
            count: AtomicUsize::new(0),
        }
    }

    pub(crate) fn enter(&self, owner: &Owner) {
        if owner.line.len() > 1 {
            let mut nested = self.nested.write();
            nested.insert(owner.id(), owner.line.clone());
            self.count.store(nested.len(), SeqCst);
        }
    }

    pub(crate) fn leave(&self, owner: &Owner) {
        if owner.line.len() > 1 {
            let mut nested = self.nested.write();
            nested.remove(&owner.id());
            self.count.store(nested.len(), SeqCst);
        }
    }

    /// Returns the outermost transaction around `of`.
    pub(crate) fn root(&self, of: OwnerId) -> OwnerId {
        self.branch(of, &[])
    }

    /// Returns the branch that must end before a lock of `of` is released or no longer
    /// conflicts for the owner with the line `line`: the outermost transaction around
    /// `of` that is not in `line`.
    pub(crate) fn branch(&self, of: OwnerId, line: &[OwnerId]) -> OwnerId {
        if self.count.load(SeqCst) == 0 {
            return of;
        }
        let nested = self.nested.read();
        let alone = [of];
        let its = nested.get(&of).map_or(&alone[..], |line| &line[..]);
        let outside = its.iter().zip(line).find(|(its, mine)| its != mine);
        let outside = outside.map(|(its, _)| its).or(its.get(line.len()));
        *outside.unwrap_or(&of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_branch_is_the_outermost_that_a_line_is_not_part_of() {
        let families = Families::new();
        let mut made: Vec<Arc<Owner>> = Vec::new();
        let mut make = |id, parent: Option<usize>| {
            let parent = parent.map(|at| Arc::clone(&made[at]));
            let owner = Arc::new(Owner::new(OwnerId(id), parent));
            families.enter(&owner);
            made.push(owner);
            made.last().unwrap().line.clone()
        };
        // The transactions are 0 ─ 1 ─ 2, 0 ─ 3, and 4.
        let lines = [
            make(0, None),
            make(1, Some(0)),
            make(2, Some(1)),
            make(3, Some(0)),
            make(4, None),
        ];
        let branch = |of, to: usize| families.branch(OwnerId(of), &lines[to]).0;
        assert_eq!(branch(2, 4), 0, "another family waits for all");
        assert_eq!(branch(2, 3), 1, "a sibling's sibling");
        assert_eq!(branch(3, 2), 3);
        assert_eq!(branch(2, 0), 1, "a parent waits for its child's branch");
        assert_eq!(branch(2, 1), 2);
        assert_eq!(branch(4, 2), 4);
        assert_eq!([2, 3, 4].map(|of| families.root(OwnerId(of)).0), [0, 0, 4]);
        for owner in &made {
            families.leave(owner);
        }
        assert_eq!(families.count.load(SeqCst), 0);
    }
}
