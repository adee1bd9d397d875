//! The model of the lock table: its rules, written without regard to speed.

use std::collections::{BTreeMap, BTreeSet};
use varve_locks::{Mode, OwnerId};

pub(crate) const OBJECTS: u64 = 2;
pub(crate) const UNITS: u32 = 3;

pub(crate) type Place = (u64, u32);
/// The modes that each owner was granted at each place, one by one.
pub(crate) type Held = BTreeMap<(OwnerId, Place), Vec<Mode>>;

#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) owner: OwnerId,
    pub(crate) object: u64,
    pub(crate) span: std::ops::Range<u32>,
    pub(crate) mode: Mode,
}

impl Wish {
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let object = self.object;
        self.span.clone().map(move |unit| (object, unit))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) parents: BTreeMap<OwnerId, OwnerId>,
    pub(crate) held: Held,
    /// The waiting requests in the order of arrival.
    pub(crate) queue: Vec<Wish>,
}

impl Model {
    pub(crate) fn line(&self, owner: OwnerId) -> Vec<OwnerId> {
        let up = |owner: &OwnerId| self.parents.get(owner).copied();
        std::iter::successors(Some(owner), up).collect()
    }

    /// Returns the branch of `of` that must end for `waiter`: the topmost one that
    /// `waiter` is not part of.
    pub(crate) fn branch(&self, of: OwnerId, waiter: OwnerId) -> OwnerId {
        let mine = self.line(waiter);
        let its = self.line(of).into_iter();
        its.take_while(|one| !mine.contains(one))
            .last()
            .expect("not of his line")
    }

    pub(crate) fn conflicts(&self, wish: &Wish, owner: OwnerId, place: Place, mode: Mode) -> bool {
        wish.places().any(|at| at == place)
            && !wish.mode.compatible(mode)
            && !self.line(wish.owner).contains(&owner)
    }

    /// Returns the branches that a wish waits for, if the requests before `at` are
    /// ahead of it.
    pub(crate) fn waits_for(&self, wish: &Wish, at: usize) -> BTreeSet<OwnerId> {
        let mut branches = BTreeSet::new();
        for ((owner, place), modes) in &self.held {
            if modes
                .iter()
                .any(|mode| self.conflicts(wish, *owner, *place, *mode))
            {
                branches.insert(self.branch(*owner, wish.owner));
            }
        }
        let line = self.line(wish.owner);
        for (ahead, other) in self.queue[..at].iter().enumerate() {
            let in_the_way = |place| self.conflicts(wish, other.owner, place, other.mode);
            if other.places().any(in_the_way) {
                let its = self.waits_for(other, ahead);
                if !line.iter().any(|member| its.contains(member)) {
                    branches.insert(self.branch(other.owner, wish.owner));
                }
            }
        }
        branches
    }

    pub(crate) fn grant(&mut self, wish: &Wish) {
        for place in wish.places() {
            let modes = self.held.entry((wish.owner, place)).or_default();
            modes.push(wish.mode);
        }
    }

    /// Grants a wish if this needs no wait, and returns true; otherwise it is not
    /// queued.
    pub(crate) fn try_lock(&mut self, wish: &Wish) -> bool {
        let holds_it = wish.places().all(|place| {
            let modes = self.held.get(&(wish.owner, place));
            modes.is_some_and(|modes| joined(modes).covers(wish.mode))
        });
        let free = holds_it || self.waits_for(wish, self.queue.len()).is_empty();
        if free {
            self.grant(wish);
        }
        free
    }

    /// Grants requests that wait for nothing, again from the first, until all wait.
    pub(crate) fn settle(&mut self) {
        let free = |at: &usize| self.waits_for(&self.queue[*at], *at).is_empty();
        if let Some(at) = (0..self.queue.len()).find(free) {
            let wish = self.queue.remove(at);
            self.grant(&wish);
            self.settle();
        }
    }

    pub(crate) fn end(&mut self, owner: OwnerId) {
        self.queue.retain(|wish| wish.owner != owner);
        self.settle();
        self.held.retain(|(holder, _), _| *holder != owner);
        self.settle();
    }

    pub(crate) fn commit(&mut self, child: OwnerId) {
        let its = |(owner, _): &(OwnerId, Place)| *owner == child;
        let keys: Vec<_> = self.held.keys().copied().filter(its).collect();
        for (owner, place) in keys {
            let modes = self.held.remove(&(owner, place)).unwrap();
            let to = (self.parents[&child], place);
            self.held.entry(to).or_default().extend(modes);
        }
        self.settle();
    }

    pub(crate) fn downgrade(&mut self, owner: OwnerId, object: u64, mode: Mode) {
        for ((holder, place), modes) in &mut self.held {
            let now = joined(modes);
            if *holder == owner && place.0 == object && now.covers(mode) {
                *modes = vec![mode];
            }
        }
        self.settle();
    }

    /// Returns true if a wish reaches itself by a chain of waits.
    pub(crate) fn is_in_circle(&self, of: usize) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![of]);
        while let Some(at) = next.pop() {
            let branches = self.waits_for(&self.queue[at], at);
            for (to, other) in self.queue.iter().enumerate() {
                let reached = self.line(other.owner).iter().any(|o| branches.contains(o));
                if reached && seen.insert(to) {
                    next.push(to);
                }
            }
        }
        seen.contains(&of)
    }

    pub(crate) fn in_circles(&self) -> BTreeSet<OwnerId> {
        let all = (0..self.queue.len()).filter(|at| self.is_in_circle(*at));
        all.map(|at| self.queue[at].owner).collect()
    }
}

pub(crate) fn joined(modes: &[Mode]) -> Mode {
    modes
        .iter()
        .copied()
        .reduce(Mode::join)
        .expect("one at least")
}
