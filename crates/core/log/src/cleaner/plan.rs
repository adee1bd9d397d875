//! What a pass goes by: which segments it takes, what is too dear, and when it
//! has gained enough. Numbers in, answers out: no lock, no device.

use crate::policy::{Candidate, Policy, emptiest};
use crate::segments::SegmentTable;

/// How much a pass may cost for what it gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Nobody waits: segments are cleaned that give an eighth back at least.
    Background,
    /// Nobody is there: the same, and it ends when somebody comes, behind the
    /// batch that is being appended.
    Idle,
    /// Writers are slowed down: a sixteenth at least.
    Pressed,
    /// Nobody waits, but somebody soon will: the same, on his own thread.
    Ahead,
    /// A caller waits for room: every segment the policy finds worth it.
    Waiting,
    /// The same, and that has gained nothing, or must not fail: the emptiest
    /// first, whatever the policy says.
    Starved,
}

impl Urgency {
    /// A caller waits for room.
    pub fn is_waited_for(self) -> bool {
        matches!(self, Urgency::Waiting | Urgency::Starved)
    }
}

/// Which segments a pass takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// Those behind both records that hold data alone: clean once they are empty.
    AtOnce,
    /// Those behind both records: most are clean without a checkpoint, and
    /// others wait for one.
    Behind,
    /// Any.
    All,
}

impl Among {
    /// Whether it takes a segment that stands so.
    pub fn includes(self, standing: SegmentStanding) -> bool {
        match self {
            Among::AtOnce => standing.at_once,
            Among::Behind => standing.behind,
            Among::All => true,
        }
    }
}

/// How a segment stands with the two retained records.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentStanding {
    /// It is clean as soon as it is empty, without a checkpoint.
    pub at_once: bool,
    /// The log of both has left it behind.
    pub behind: bool,
}

impl SegmentStanding {
    pub fn of(segments: &SegmentTable, segment: u32) -> Self {
        SegmentStanding {
            at_once: segments.may_vacate(segment),
            behind: segments.is_behind(segment),
        }
    }
}

/// When a pass has gained enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// Bytes that are free without a checkpoint, or at all if it takes any
    /// segment.
    pub bytes: u64,
    /// Segments that wait for checkpoints, and are worth taking them.
    pub for_checkpoints: u64,
    /// Bytes, if somebody waits for a pass in which nobody does.
    pub share_bytes: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Plan {
    urgency: Urgency,
    among: Among,
    goal: Goal,
    /// Bytes that the emptiest of those behind both records would free.
    best_behind: u64,
    freed_bytes: u64,
    /// Of these, what counts for the goal.
    gained_bytes: u64,
    for_checkpoints: u64,
}

impl Plan {
    pub fn new((urgency, among): (Urgency, Among), goal: Goal) -> Self {
        Plan {
            urgency,
            among,
            goal,
            best_behind: 0,
            freed_bytes: 0,
            gained_bytes: 0,
            for_checkpoints: 0,
        }
    }

    /// The segments to take, best first.
    pub fn choose(
        &mut self,
        standings: &[(Candidate, SegmentStanding)],
        policy: &dyn Policy,
        now_ns: i64,
    ) -> Vec<Candidate> {
        let behind = standings.iter().filter(|(_, standing)| standing.behind);
        let freed = behind.map(|(candidate, _)| candidate.freed_bytes());
        self.best_behind = freed.max().unwrap_or(0);
        let taken = standings.iter().filter(|(_, s)| self.among.includes(*s));
        let candidates: Vec<Candidate> = taken.map(|(candidate, _)| *candidate).collect();
        match self.urgency {
            Urgency::Starved => emptiest(&candidates, usize::MAX),
            _ => policy.choose(&candidates, now_ns, usize::MAX),
        }
    }

    /// Frees too little for what it costs.
    pub fn is_dear(&self, candidate: &Candidate) -> bool {
        let (freed, all) = (candidate.freed_bytes(), candidate.segment_bytes);
        match (self.among, self.urgency) {
            // Without a checkpoint to pay for, less is worth it; but what is had
            // at once must not be far dearer than what is not.
            (Among::AtOnce, _) => freed * 16 < all || freed * 2 < self.best_behind,
            (Among::Behind, _) => freed * 16 < all,
            (Among::All, Urgency::Background | Urgency::Idle) => freed * 8 < all,
            (Among::All, Urgency::Pressed | Urgency::Ahead) => freed * 16 < all,
            (Among::All, Urgency::Waiting | Urgency::Starved) => false,
        }
    }

    /// Takes in a segment as it was found.
    pub fn gain(&mut self, candidate: &Candidate, standing: SegmentStanding) {
        let freed = candidate.freed_bytes();
        self.freed_bytes += freed;
        match self.among == Among::All || standing.at_once {
            true => self.gained_bytes += freed,
            false => self.for_checkpoints += 1,
        }
    }

    /// The pass is over: its goal is reached, it is time for checkpoints, or it
    /// has gained a share and somebody waits.
    pub fn has_enough(&self, somebody_waits: impl FnOnce() -> bool) -> bool {
        let gives_way = !self.urgency.is_waited_for() && self.freed_bytes >= self.goal.share_bytes;
        self.gained_bytes >= self.goal.bytes
            || self.for_checkpoints >= self.goal.for_checkpoints
            || gives_way && somebody_waits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Greedy;

    const GOAL: Goal = Goal {
        bytes: 2000,
        for_checkpoints: 2,
        share_bytes: 700,
    };
    const AT_ONCE: SegmentStanding = SegmentStanding {
        at_once: true,
        behind: true,
    };
    const LATER: SegmentStanding = SegmentStanding {
        at_once: false,
        behind: true,
    };
    const AHEAD: SegmentStanding = SegmentStanding {
        at_once: false,
        behind: false,
    };

    fn candidate(segment: u32, live_bytes: u64) -> Candidate {
        Candidate {
            segment,
            live_bytes,
            segment_bytes: 1600,
            newest_ns: 0,
        }
    }

    fn numbers(chosen: &[Candidate]) -> Vec<u32> {
        chosen.iter().map(|c| c.segment).collect()
    }

    #[test]
    fn a_pass_takes_what_stands_as_it_asks() {
        let standings = [
            (candidate(1, 800), AT_ONCE),
            (candidate(2, 400), LATER),
            (candidate(3, 100), AHEAD),
        ];
        for (among, taken) in [
            (Among::AtOnce, &[1][..]),
            (Among::Behind, &[2, 1]),
            (Among::All, &[3, 2, 1]),
        ] {
            let mut plan = Plan::new((Urgency::Background, among), GOAL);
            let chosen = plan.choose(&standings, &Greedy, 0);
            assert_eq!(numbers(&chosen), taken, "{among:?}");
        }
    }

    #[test]
    fn the_starved_take_the_emptiest_whatever_the_policy_says() {
        let standings = [(candidate(1, 800), AHEAD), (candidate(2, 400), AHEAD)];
        let mut plan = Plan::new((Urgency::Starved, Among::All), GOAL);
        let old_first = crate::policy::CostBenefit;
        let mut old = standings;
        old[1].0.newest_ns = 1_000_000;
        assert_eq!(numbers(&plan.choose(&old, &old_first, 1_000_001)), [2, 1]);
        let mut plan = Plan::new((Urgency::Waiting, Among::All), GOAL);
        assert_eq!(numbers(&plan.choose(&old, &old_first, 1_000_001)), [1, 2]);
    }

    #[test]
    fn who_is_in_a_hurry_pays_more() {
        let dear = |urgency, among, live_bytes| {
            Plan::new((urgency, among), GOAL).is_dear(&candidate(1, live_bytes))
        };
        for urgency in [Urgency::Background, Urgency::Idle] {
            assert!(dear(urgency, Among::All, 1401) && !dear(urgency, Among::All, 1400));
        }
        for urgency in [Urgency::Pressed, Urgency::Ahead] {
            assert!(dear(urgency, Among::All, 1501) && !dear(urgency, Among::All, 1500));
        }
        assert!(!dear(Urgency::Waiting, Among::All, 1599));
        assert!(dear(Urgency::Waiting, Among::Behind, 1501));
    }

    #[test]
    fn what_is_had_at_once_is_at_most_twice_as_dear() {
        let mut plan = Plan::new((Urgency::Pressed, Among::AtOnce), GOAL);
        plan.choose(&[(candidate(2, 600), LATER)], &Greedy, 0);
        assert!(plan.is_dear(&candidate(1, 1101)) && !plan.is_dear(&candidate(1, 1100)));
    }

    #[test]
    fn a_pass_ends_at_its_goal_for_checkpoints_or_for_who_waits() {
        let empty = candidate(1, 0);
        let plan = |urgency, among| Plan::new((urgency, among), GOAL);
        let mut all = plan(Urgency::Waiting, Among::All);
        all.gain(&empty, AHEAD);
        assert!(!all.has_enough(|| true), "it is itself waited for");
        all.gain(&empty, AHEAD);
        assert!(all.has_enough(|| false));
        let mut behind = plan(Urgency::Waiting, Among::Behind);
        behind.gain(&empty, LATER);
        assert!(!behind.has_enough(|| false));
        behind.gain(&empty, LATER);
        assert!(behind.has_enough(|| false), "two wait for checkpoints");
        let mut nobody = plan(Urgency::Background, Among::All);
        assert!(!nobody.has_enough(|| true), "nothing gained yet");
        nobody.gain(&candidate(1, 900), AHEAD);
        assert!(nobody.has_enough(|| true) && !nobody.has_enough(|| false));
    }
}
