//! Cycles in the graph of waiting requests.
//!
//! The nodes are requests that wait. A request waits for branches, which is equivalent
//! to waiting for every request of their members, because a branch ends when all its
//! members have ended. A request waits until all of these have ended, so each cycle is
//! a deadlock.

use crate::object::Branches;
use crate::owner::{Owner, OwnerId};
use foldhash::HashMap;
use std::collections::VecDeque;

/// Waiting requests, and the branches that each of them waits for.
#[derive(Default)]
pub(crate) struct Graph<R> {
    nodes: Vec<(R, Branches)>,
    /// The requests of each branch, as indices into `nodes`.
    members: HashMap<OwnerId, Vec<usize>>,
}

impl<R> Graph<R> {
    pub(crate) fn new() -> Self {
        Graph {
            nodes: Vec::new(),
            members: HashMap::default(),
        }
    }

    pub(crate) fn add(&mut self, request: R, line: &[OwnerId], branches: Branches) {
        for owner in line {
            let members = self.members.entry(*owner).or_default();
            members.push(self.nodes.len());
        }
        self.nodes.push((request, branches));
    }

    /// Returns the shortest cycle through a request for which `is_it` is true.
    pub(crate) fn circle(&self, is_it: impl Fn(&R) -> bool) -> Option<Vec<&R>> {
        let start = self.nodes.iter().position(|(request, _)| is_it(request))?;
        // For each request, the one from which it was reached first.
        let mut from: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut next = VecDeque::from([start]);
        while let Some(at) = next.pop_front() {
            for to in self.waits_for(at) {
                if from[to].is_none() {
                    from[to] = Some(at);
                    next.push_back(to);
                }
            }
            if from[start].is_some() {
                break;
            }
        }
        let mut at = from[start]?;
        let mut circle = vec![start];
        while at != start {
            circle.push(at);
            at = from[at].expect("reached from the start");
        }
        Some(circle.into_iter().map(|at| &self.nodes[at].0).collect())
    }

    fn waits_for(&self, at: usize) -> impl Iterator<Item = usize> {
        let branches = self.nodes[at].1.iter();
        let members = branches.filter_map(|branch| self.members.get(branch));
        members.flatten().copied()
    }
}

/// Returns the request of a cycle whose owner is to be aborted: the one with the lowest
/// cost, and among equals the youngest. Returns `None` if all owners are pinned.
pub(crate) fn victim<'a, R>(circle: &[&'a R], owner: impl Fn(&'a R) -> &'a Owner) -> Option<&'a R> {
    let can = circle.iter().filter(|request| !owner(request).is_pinned());
    let rank = |request: &&&'a R| {
        let owner = owner(request);
        (owner.cost(), std::cmp::Reverse(owner.id()))
    };
    can.min_by_key(rank).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn graph(edges: &[(u64, &[u64])]) -> Graph<u64> {
        let mut graph = Graph::new();
        for (owner, waits_for) in edges {
            let branches = waits_for.iter().map(|id| OwnerId(*id)).collect();
            graph.add(*owner, &[OwnerId(*owner)], branches);
        }
        graph
    }

    #[test]
    fn the_shortest_circle_through_one_is_found() {
        let graph = graph(&[(1, &[2, 4]), (2, &[3]), (3, &[1]), (4, &[1, 9]), (5, &[1])]);
        let circle = |of| graph.circle(|request| *request == of);
        assert_eq!(circle(1), Some(vec![&1, &4]));
        assert_eq!(circle(2), Some(vec![&2, &1, &3]));
        assert_eq!(circle(5), None, "leads to circles, is in none");
        assert_eq!(circle(9), None);
    }

    #[test]
    fn a_branch_waits_for_what_its_members_wait_for() {
        let mut graph = Graph::new();
        let id = OwnerId;
        // 1 has the children 11 and 12. 2 waits for a lock of 11, and 12 waits for 2.
        graph.add(2, &[id(2)], smallvec![id(1)]);
        graph.add(12, &[id(1), id(12)], smallvec![id(2)]);
        assert_eq!(graph.circle(|r| *r == 2), Some(vec![&2, &12]));
        assert_eq!(graph.circle(|r| *r == 12), Some(vec![&12, &2]));
    }

    #[test]
    fn the_cheapest_gives_way_then_the_youngest_and_the_pinned_never() {
        let owners: Vec<Owner> = (0..4).map(|id| Owner::new(OwnerId(id), None)).collect();
        for (owner, cost) in owners.iter().zip([5, 3, 3, 1]) {
            owner.set_cost(cost);
        }
        owners[3].pin(true);
        let circle: Vec<&Owner> = owners.iter().collect();
        let chosen = |circle: &[&Owner]| victim(circle, |owner| owner_of(owner)).map(Owner::id);
        fn owner_of(owner: &Owner) -> &Owner {
            owner
        }
        assert_eq!(chosen(&circle), Some(OwnerId(2)));
        assert_eq!(chosen(&circle[3..]), None);
        owners[3].pin(false);
        assert_eq!(chosen(&circle), Some(OwnerId(3)));
    }
}
