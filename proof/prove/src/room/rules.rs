//! Admission of operations, and the freeing of space: the rules under test.

use super::geometry::Geometry;
use super::log::{Log, NoRoom};

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// R1: an operation is admitted if it fits by itself, whatever folding it writes.
    FoldIsKept,
    /// R2: growth and overwriting are admitted like removals.
    FloorIsLeft,
    /// R3: growth requires clean slots only, and not that all live slots fit.
    LiveIsBounded,
    /// R4: a removal must leave the minimum of free space, like growth.
    RemovalsUseTheFloor,
    /// R4: space is freed before the dirty state has been appended.
    AppendedFirst,
    /// R4: space is freed by checkpoints alone.
    Cleaned,
    /// R4: a removal frees space only when the log would be stuck, not a batch earlier.
    BatchIsKept,
    /// R5: the fullest segments are cleaned first.
    EmptiestFirst,
    /// R5: one segment is cleaned for each pair of checkpoints.
    Batches,
    /// R5: each copy is priced as if it changed its own block of the map.
    BlocksOnce,
}

impl Missing {
    /// All rules.
    pub const ALL: [Missing; 10] = [
        Missing::FoldIsKept,
        Missing::FloorIsLeft,
        Missing::LiveIsBounded,
        Missing::RemovalsUseTheFloor,
        Missing::AppendedFirst,
        Missing::Cleaned,
        Missing::BatchIsKept,
        Missing::EmptiestFirst,
        Missing::Batches,
        Missing::BlocksOnce,
    ];
}

/// The rules, in numbers of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Slots that removals leave, if cleaning can provide them: a batch for the cleaner.
    pub batch: usize,
    /// Slots that growth and overwriting leave in addition to the batch.
    pub more: usize,
    /// Dead slots that live slots must leave in addition, so that cleaning frees space.
    pub slack: usize,
    /// The rule that is left out.
    pub missing: Option<Missing>,
}

/// Purpose of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The number of live slots grows, or live slots are written again.
    Grow,
    /// The number of live slots shrinks.
    Shrink,
}

/// Returns a batch that suffices for removals with any slack: two generations of the
/// metadata that they write, `metadata` slots (the map, the table, the directory with its
/// image), a pair of tables and one slot.
pub fn batch_for(metadata: usize) -> usize {
    2 * metadata + 3
}

/// Returns the least slack for which a batch always frees space, with a map of `maps`
/// blocks.
///
/// Of `n` segments in use, with `d` dead slots in all, the `v` emptiest have at least
/// `v * d / n` dead slots. Moving their live slots, folding and a pair of checkpoints write
/// `maps + 2` slots in addition to copies of live slots. So they free space if
/// `v * d > (maps + 2) * n`, and need `v` segments of free space.
pub fn slack_for(batch: usize, geometry: &Geometry, maps: usize) -> usize {
    let all = geometry.slots * (geometry.segments - 2);
    ((maps + 2) * all)
        .div_ceil(batch)
        .saturating_sub(geometry.slots)
}

impl Rules {
    /// Returns rules with a batch and a slack, in slots, with every rule kept and no
    /// further slots for growth.
    pub fn new(batch: usize, slack: usize) -> Self {
        Rules {
            batch,
            more: 0,
            slack,
            missing: None,
        }
    }

    fn lacks(&self, rule: Missing) -> bool {
        self.missing == Some(rule)
    }

    /// Returns the slots of the log that growth and overwriting leave beyond R1.
    pub fn floor(&self) -> usize {
        self.batch + self.more
    }

    fn outstanding(&self, log: &Log) -> usize {
        match self.lacks(Missing::FoldIsKept) {
            true => log.waiting_slots(),
            false => log.to_write(),
        }
    }

    /// Checks R1 with this number of further slots.
    pub fn keeps(&self, log: &Log, more: usize) -> bool {
        log.room() >= self.outstanding(log) + more
    }

    /// Checks R3: live slots leave the head's two segments, the minimum of free space and
    /// the slack.
    pub fn fits(&self, log: &Log) -> bool {
        let geometry = &log.geometry;
        let held = self.floor() + self.slack;
        let all = geometry.slots * (geometry.segments - 2);
        self.lacks(Missing::LiveIsBounded) || log.live() + held <= all
    }

    /// Returns the number of slots that an operation for this purpose leaves if cleaning
    /// can provide them.
    fn left(&self, purpose: Purpose) -> usize {
        let floor = self.floor();
        match purpose {
            Purpose::Grow if self.lacks(Missing::FloorIsLeft) => 0,
            Purpose::Grow => floor,
            Purpose::Shrink if self.lacks(Missing::RemovalsUseTheFloor) => floor,
            Purpose::Shrink if self.lacks(Missing::BatchIsKept) => 0,
            Purpose::Shrink => self.batch,
        }
    }

    /// Admits an operation if there is space for it or space can be freed. Returns the
    /// steps that freed space, and true if the operation was admitted.
    ///
    /// # Errors
    /// The log is stuck: a step that should fit did not.
    pub fn admit(
        &self,
        log: &mut Log,
        purpose: Purpose,
        operation: impl Fn(&mut Log),
    ) -> Result<(Vec<Log>, bool), NoRoom> {
        let mut steps = Vec::new();
        let taken = |log: &Log| {
            let mut after = log.clone();
            operation(&mut after);
            after
        };
        if purpose == Purpose::Grow && !self.fits(&taken(log)) {
            return Ok((steps, false));
        }
        loop {
            let after = taken(log);
            if self.keeps(&after, self.left(purpose)) {
                *log = after;
                return Ok((steps, true));
            }
            if !self.make_room(log, &mut steps)? {
                break;
            }
        }
        let after = taken(log);
        let insists = purpose == Purpose::Shrink && !self.lacks(Missing::RemovalsUseTheFloor);
        let admitted = insists && self.keeps(&after, 0);
        if admitted {
            *log = after;
        }
        Ok((steps, admitted))
    }

    /// Takes a step that frees space. Returns false if there is none.
    fn make_room(&self, log: &mut Log, steps: &mut Vec<Log>) -> Result<bool, NoRoom> {
        if log.waits() && !self.lacks(Missing::AppendedFirst) {
            log.append()?;
            steps.push(log.clone());
            return Ok(true);
        }
        let slots = log.geometry.slots;
        let room = log.room().saturating_sub(self.waiting(log));
        let coming = log.coming().into_iter().filter(|comes| *comes).count();
        for (checkpoints, segments) in [(1, log.emptied()), (2, coming)] {
            let pays = log.changed() + checkpoints;
            if room >= pays && segments * slots > pays {
                self.checkpoints(log, checkpoints, steps)?;
                return Ok(true);
            }
        }
        if self.lacks(Missing::Cleaned) {
            return Ok(false);
        }
        let Some((victims, _)) = self.plan(log) else {
            return Ok(false);
        };
        for victim in victims {
            log.clean(victim)?;
            steps.push(log.clone());
        }
        self.checkpoints(log, 2, steps)?;
        Ok(true)
    }

    /// Returns the number of slots beyond R1 that can be freed from here: the smaller,
    /// the closer the log is to being stuck.
    pub fn reach(&self, log: &Log) -> isize {
        let (mut log, mut steps) = (log.clone(), Vec::new());
        while let Ok(true) = self.make_room(&mut log, &mut steps) {}
        log.room() as isize - log.to_write() as isize
    }

    fn waiting(&self, log: &Log) -> usize {
        self.outstanding(log) - usize::from(!self.lacks(Missing::FoldIsKept)) * (log.changed() + 1)
    }

    fn checkpoints(&self, log: &mut Log, count: usize, steps: &mut Vec<Log>) -> Result<(), NoRoom> {
        for _ in 0..count {
            log.checkpoint()?;
            steps.push(log.clone());
        }
        Ok(())
    }

    /// Returns the segments whose cleaning before two checkpoints frees the most, and the
    /// number of slots freed: those with the least live slots, as many as there is space
    /// for. Blocks of the map that will be written anyway cost nothing.
    pub fn plan(&self, log: &Log) -> Option<(Vec<u8>, usize)> {
        let victims = log.victims();
        let mut victims: Vec<_> = victims
            .iter()
            .map(|(live, at)| (*live, *at, log.price(*at)))
            .collect();
        let room = log.room().saturating_sub(self.waiting(log));
        let coming = log.coming().into_iter().filter(|comes| *comes).count();
        let (mut copies, mut maps) = (0, 0);
        let (mut chosen, mut best) = (Vec::new(), None);
        while let Some(next) = self.next_victim(log, &victims, maps) {
            let (_, victim, price) = victims.swap_remove(next);
            (copies, maps) = (copies + price.0, maps | price.1);
            chosen.push(victim);
            let pays = copies + log.changed_with(maps) + 2;
            let priced = match self.lacks(Missing::BlocksOnce) {
                true => pays + copies,
                false => pays,
            };
            if priced > room {
                break;
            }
            let gains = (coming + chosen.len()) * log.geometry.slots;
            let gain = gains.saturating_sub(pays);
            if gain > best.map_or(0, |(_, gain)| gain) {
                best = Some((chosen.len(), gain));
            }
            if self.lacks(Missing::Batches) {
                break;
            }
        }
        let (count, gain) = best?;
        chosen.truncate(count);
        Some((chosen, gain))
    }

    fn next_victim(
        &self,
        log: &Log,
        victims: &[(u16, u8, (usize, u128))],
        maps: u128,
    ) -> Option<usize> {
        let before = log.changed_with(maps);
        let takes = |at: &usize| {
            let (live, victim, (copies, more)) = victims[*at];
            let takes = copies + log.changed_with(maps | more) - before;
            (takes, live, victim)
        };
        let all = 0..victims.len();
        match self.lacks(Missing::EmptiestFirst) {
            true => all.max_by_key(takes),
            false => all.min_by_key(takes),
        }
    }
}
