//! Who is admitted, and how room is made: the rules under test.

use super::geometry::Geometry;
use super::log::{Log, NoRoom};

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// R1: admitted is what fits by itself, whatever folding it writes.
    FoldIsKept,
    /// R2: growth and overwriting are admitted as removals are.
    FloorIsLeft,
    /// R3: growth asks for clean slots only, not whether all that lives fits.
    LiveIsBounded,
    /// R4: a removal must leave the floor, as growth must.
    RemovalsUseTheFloor,
    /// R4: room is made before what waits has been appended.
    AppendedFirst,
    /// R4: room is made by checkpoints alone.
    Cleaned,
    /// R4: a removal has room made when the log would be stuck, not a batch before.
    BatchIsKept,
    /// R5: the fullest segments first.
    EmptiestFirst,
    /// R5: one segment for each pair of checkpoints.
    Batches,
    /// R5: each copy is priced as if it changed a block of the map of its own.
    BlocksOnce,
}

impl Missing {
    /// Every one.
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
    /// What removals leave, if cleaning can provide it: a batch for the cleaner.
    pub batch: usize,
    /// What growth and overwriting leave beside the batch.
    pub more: usize,
    /// What neither lives nor is left by growth: dead slots, so that cleaning gains.
    pub slack: usize,
    /// The rule that is not kept.
    pub missing: Option<Missing>,
}

/// What an operation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// More will live, or the same anew.
    Grow,
    /// Less will live.
    Shrink,
}

/// A batch that is enough for removals whatever the slack: two generations of the
/// metadata that they write, `metadata` slots (the map, the table, the directory with
/// its image), a pair of tables and one slot.
pub fn batch_for(metadata: usize) -> usize {
    2 * metadata + 3
}

/// The least slack for which a batch always gains, with a map of so many blocks.
///
/// Of `n` segments in use, with `d` dead slots in all, the `v` emptiest have `v * d / n` at
/// least. Moving what lives in them, folding and a pair of checkpoints write `maps + 2`
/// slots beside copies of what lives: so they gain if `v * d > (maps + 2) * n`, and take
/// `v` segments of room.
pub fn slack_for(batch: usize, geometry: &Geometry, maps: usize) -> usize {
    let all = geometry.slots * (geometry.segments - 2);
    ((maps + 2) * all)
        .div_ceil(batch)
        .saturating_sub(geometry.slots)
}

impl Rules {
    /// A floor and a slack, in slots, with every rule kept and no more for growth than
    /// for removals.
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

    /// Slots of the log that growth and overwriting leave beyond R1.
    pub fn floor(&self) -> usize {
        self.batch + self.more
    }

    fn outstanding(&self, log: &Log) -> usize {
        match self.lacks(Missing::FoldIsKept) {
            true => log.waiting_slots(),
            false => log.to_write(),
        }
    }

    /// R1, with so many slots more.
    pub fn keeps(&self, log: &Log, more: usize) -> bool {
        log.room() >= self.outstanding(log) + more
    }

    /// R3: what lives leaves the head's two segments, the floor and the slack.
    pub fn fits(&self, log: &Log) -> bool {
        let geometry = &log.geometry;
        let held = self.floor() + self.slack;
        let all = geometry.slots * (geometry.segments - 2);
        self.lacks(Missing::LiveIsBounded) || log.live() + held <= all
    }

    /// What an operation for this purpose leaves if cleaning can provide it.
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

    /// Takes an operation if there is room for it or room can be made. The steps by
    /// which room was made, and whether the operation was taken.
    ///
    /// # Errors
    /// The log is stuck: a step that was to fit did not.
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

    /// A step that makes room. False if there is none.
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

    /// Slots beyond R1 that can be had from here: the less, the nearer the log is to
    /// being stuck.
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

    /// Segments to be cleaned before two checkpoints, that gain most, and what they
    /// gain: those that take least, as many as room is for. Blocks of the map that will
    /// be written anyway take nothing.
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
