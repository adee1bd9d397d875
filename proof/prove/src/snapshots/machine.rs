//! A volume with snapshots, step by step, and the state that its users must see.

use super::model::{
    BLOCKS, Base, Birth, Delta, Displaced, Entry, Key, Pointer, Request, Row, SLOTS, Seen, Slot,
    current, fold, is_kept, newest, read,
};
use super::rules::Missing;
use std::collections::BTreeMap;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A file is created.
    Create,
    /// The attributes of the file change.
    Change,
    /// A block of it is written.
    Write(usize),
    /// A block of it becomes a hole.
    Punch(usize),
    /// It is removed.
    Free,
    /// The inode must be written again, unchanged.
    Touch,
    /// A transaction spills a block.
    Spill,
    /// It commits: its block becomes the file's first.
    Commit,
    /// The cleaner judges and reads the content of a slot.
    Clean(Slot),
    /// It appends the copy, and counts the slot as vacated.
    Move,
    /// A checkpoint begins.
    Freeze(Request),
    /// It has written its record.
    Install,
    /// It has failed, and the next one includes its delta.
    Fail,
    /// The power fails; the newest record is used.
    Crash,
    /// The power fails and the newest record is damaged.
    FallBack,
}

/// A group of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    serial: Birth,
    entry: Entry,
}

/// The volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    missing: Option<Missing>,
    serial: Birth,
    version: u16,
    /// Content of each slot, and the serial of the group that wrote it.
    slots: [Option<(Birth, Key, Birth)>; SLOTS],
    records: [Base; 2],
    log: Vec<Group>,
    frozen: Option<(Delta, Request)>,
    live: Delta,
    spilled: Option<Pointer>,
    /// The slot that the cleaner has read, and the serial of its content then.
    claimed: Option<(Slot, Birth)>,
    /// True if it was live then.
    was_live: bool,
    /// Slots from which it has moved everything needed.
    vacated: [bool; SLOTS],
    /// The state that each snapshot must show.
    wanted: BTreeMap<u16, Seen>,
    /// The state that the snapshot of the running checkpoint will have to show.
    pending: Option<Seen>,
}

impl Machine {
    /// Returns an empty volume.
    pub fn new(missing: Option<Missing>) -> Self {
        Machine {
            missing,
            serial: 0,
            version: 0,
            slots: [None; SLOTS],
            records: Default::default(),
            log: Vec::new(),
            frozen: None,
            live: Delta::default(),
            spilled: None,
            claimed: None,
            was_live: false,
            vacated: [false; SLOTS],
            wanted: BTreeMap::new(),
            pending: None,
        }
    }

    fn base(&self) -> &Base {
        &self.records[1]
    }

    fn deltas(&self) -> Vec<&Delta> {
        let frozen = self.frozen.as_ref().map(|(delta, _)| delta);
        std::iter::once(&self.live).chain(frozen).collect()
    }

    /// Returns the newest snapshot below the live delta: that of a running checkpoint, if
    /// it takes one.
    fn newest(&self) -> Option<Row> {
        match &self.frozen {
            Some((delta, Request::Take)) => Some(Row {
                number: self.base().next_number + 1,
                position: delta.boundary,
                deleted: false,
            }),
            _ => newest(&self.base().rows),
        }
    }

    /// Returns the possible steps.
    pub fn steps(&self) -> Vec<Step> {
        let file = current(self.base(), &self.deltas());
        let mut steps = Vec::new();
        let has_free = self.free_slot().is_some();
        match &file {
            None => steps.push(Step::Create),
            Some(file) => {
                steps.extend([Step::Change, Step::Free, Step::Touch]);
                for block in 0..BLOCKS {
                    if has_free {
                        steps.push(Step::Write(block));
                    }
                    if file.blocks[block].is_some() {
                        steps.push(Step::Punch(block));
                    }
                }
                match self.spilled {
                    None if has_free => steps.push(Step::Spill),
                    Some(_) if has_free => steps.push(Step::Commit),
                    _ => {}
                }
            }
        }
        if has_free {
            let used = (0..SLOTS).filter(|&slot| self.identity(slot).is_some());
            steps.extend(used.map(Step::Clean));
            if self.claimed.is_some() {
                steps.push(Step::Move);
            }
        }
        match &self.frozen {
            None => {
                steps.push(Step::Freeze(Request::Nothing));
                if self.base().rows.len() < 3 {
                    steps.push(Step::Freeze(Request::Take));
                }
                let rows = self.base().rows.iter().filter(|row| !row.deleted);
                steps.extend(rows.map(|row| Step::Freeze(Request::Delete(row.number))));
            }
            Some(_) => steps.extend([Step::Install, Step::Fail]),
        }
        steps.extend([Step::Crash, Step::FallBack]);
        steps
    }

    fn next(&mut self) -> Birth {
        self.serial += 1;
        self.serial
    }

    /// Takes a step.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Create => {
                self.version += 1;
                let version = self.version;
                let birth = self.next();
                self.append(Entry::Create { version, birth });
            }
            Step::Change => {
                let birth = self.next();
                self.append(Entry::Change { birth });
            }
            Step::Write(block) => {
                if let Some(pointer) = self.store(block) {
                    self.append(Entry::Write { block, pointer });
                }
            }
            Step::Punch(block) => {
                self.next();
                self.append(Entry::Punch { block });
            }
            Step::Free => {
                self.next();
                self.spilled = None;
                self.append(Entry::Free);
            }
            Step::Touch => {
                self.next();
                self.append(Entry::Touch);
            }
            Step::Spill => self.spilled = self.store(0),
            Step::Commit => self.commit(),
            Step::Clean(slot) => self.clean(slot),
            Step::Move => self.move_claimed(),
            Step::Freeze(request) => self.freeze(request),
            Step::Install => self.install(),
            Step::Fail => self.fail(),
            Step::Crash => self.recover(),
            Step::FallBack => {
                self.records[1] = self.records[0].clone();
                self.recover();
            }
        }
    }

    fn append(&mut self, entry: Entry) {
        let below = current(self.base(), &self.deltas());
        let newest = self.newest();
        self.live
            .apply(&entry, below.as_ref(), newest, self.missing);
        self.live.boundary = self.serial;
        let serial = self.serial;
        self.log.push(Group { serial, entry });
    }

    /// Writes a block of the present file into a free slot.
    fn store(&mut self, block: usize) -> Option<Pointer> {
        let slot = self.free_slot()?;
        let version = current(self.base(), &self.deltas())?.version;
        let birth = self.next();
        self.slots[slot] = Some((birth, (version, block), birth));
        self.vacated[slot] = false;
        Some(Pointer { slot, birth })
    }

    fn commit(&mut self) {
        let Some(mut pointer) = self.spilled.take() else {
            return;
        };
        let is_old = self
            .newest()
            .is_some_and(|row| pointer.birth <= row.position);
        if is_old && self.missing != Some(Missing::SpilledAgain) {
            // The block is spilled again, with a birth behind the snapshot.
            let Some(again) = self.store(0) else { return };
            pointer = again;
        }
        self.next();
        self.append(Entry::Write { block: 0, pointer });
    }

    fn identity(&self, slot: Slot) -> Option<(Key, Birth)> {
        self.slots[slot].map(|(birth, key, _)| (key, birth))
    }

    fn lives(&self, slot: Slot) -> bool {
        let Some((key, birth)) = self.identity(slot) else {
            return false;
        };
        let copy = Some(Pointer { slot, birth });
        let file = current(self.base(), &self.deltas());
        self.spilled == copy
            || file.is_some_and(|file| file.version == key.0 && file.blocks[key.1] == copy)
    }

    /// Returns true if a snapshot needs the content of the slot.
    fn keeps(&self, slot: Slot) -> bool {
        let Some((key, birth)) = self.identity(slot) else {
            return false;
        };
        let copy = Pointer { slot, birth };
        let leads = |base: &Base, deltas: &[&Delta]| {
            let file = current(base, deltas);
            file.is_some_and(|file| file.version == key.0 && file.blocks[key.1] == Some(copy))
        };
        let missing = |rule| self.missing == Some(rule);
        let frozen = self.frozen.as_ref().map(|(delta, _)| delta);
        let is_old = |row: Option<Row>| row.is_some_and(|row| birth <= row.position);
        // The deltas may have moved the block.
        let moved = self.deltas().iter().find_map(|delta| {
            let live = delta.blocks[key.1].flatten().filter(|p| p.birth == birth);
            let slot = live.map(|p| p.slot);
            slot.or_else(|| delta.kept.get(&(key, birth)).copied())
        });
        if moved.is_some_and(|to| to != slot) {
            return false;
        }
        let mut kept = self
            .deltas()
            .iter()
            .any(|delta| delta.kept.get(&(key, birth)) == Some(&slot));
        if !missing(Missing::DisplacedJudged) {
            kept |= is_old(newest(&self.base().rows)) && leads(self.base(), &[]);
        }
        if let Some(frozen) = frozen
            && !missing(Missing::FrozenJudged)
        {
            kept |= is_old(self.newest()) && leads(self.base(), &[frozen]);
        }
        if !missing(Missing::HistoryJudged) {
            let base = self.base();
            let mut entries = base.blocks.iter();
            kept |= entries.any(|entry| {
                (entry.key, entry.pointer) == (key, copy) && is_kept(&base.rows, entry)
            });
        }
        kept
    }

    /// Returns a slot that may be written: its content precedes both records, and is not
    /// live.
    fn free_slot(&self) -> Option<Slot> {
        (0..SLOTS).find(|&slot| match self.slots[slot] {
            None => true,
            Some((_, _, written)) => {
                let is_behind = self.records.iter().all(|base| written <= base.position);
                is_behind && (self.vacated[slot] || (!self.lives(slot) && !self.keeps(slot)))
            }
        })
    }

    fn clean(&mut self, slot: Slot) {
        let (lives, keeps) = (self.lives(slot), self.keeps(slot));
        let is_spilled = self.spilled.is_some_and(|spilled| spilled.slot == slot);
        if (lives || keeps) && !is_spilled {
            let written = self.slots[slot].map_or(0, |content| content.2);
            (self.claimed, self.was_live) = (Some((slot, written)), lives);
        }
    }

    fn move_claimed(&mut self) {
        let Some((slot, written)) = self.claimed.take() else {
            return;
        };
        if self.slots[slot].is_none_or(|content| content.2 != written) {
            return; // opened again meanwhile
        }
        let (Some((key, birth)), Some(to)) = (self.identity(slot), self.free_slot()) else {
            return;
        };
        let written = self.next();
        self.slots[to] = Some((birth, key, written));
        self.vacated[to] = false;
        self.vacated[slot] = true;
        let from = Pointer { slot, birth };
        // This applies to any copy that a snapshot may have, because a user may have
        // displaced it meanwhile.
        let is_old = self.newest().is_some_and(|row| birth <= row.position);
        let kept = match self.missing {
            Some(Missing::StaleKept) => is_old && !self.was_live,
            _ => is_old,
        };
        self.append(Entry::Move {
            key,
            from,
            to,
            kept,
        });
        if self.missing == Some(Missing::KeptMarked)
            && let Some(group) = self.log.last_mut()
        {
            let kept = false;
            group.entry = Entry::Move {
                key,
                from,
                to,
                kept,
            };
        }
    }

    fn freeze(&mut self, request: Request) {
        self.live.boundary = self.serial;
        let frozen = std::mem::take(&mut self.live);
        self.live.boundary = self.serial;
        if request == Request::Take {
            let file = current(self.base(), &[&frozen]);
            self.pending = Some(file.map(|file| {
                let births = file.blocks.map(|p| p.map(|p| p.birth));
                (file.version, file.attributes, births)
            }));
        }
        self.frozen = Some((frozen, request));
    }

    fn install(&mut self) {
        let Some((frozen, request)) = self.frozen.take() else {
            return;
        };
        let next = fold(self.base(), &frozen, request, self.missing);
        if let Some(seen) = self.pending.take() {
            self.wanted.insert(next.next_number, seen);
        }
        // A lease was verified against the former image, and must be verified again.
        self.claimed = None;
        self.records.swap(0, 1);
        self.records[1] = next;
        let from = self.records[0].position;
        self.log.retain(|group| group.serial > from);
    }

    fn fail(&mut self) {
        let Some((mut frozen, _)) = self.frozen.take() else {
            return;
        };
        self.pending = None;
        let younger = std::mem::take(&mut self.live);
        let base = self.base().clone();
        frozen.absorb(&younger, &base, newest(&base.rows), self.missing);
        self.live = frozen;
    }

    /// Replays the log above the newest record.
    fn recover(&mut self) {
        self.frozen = None;
        self.pending = None;
        self.spilled = None;
        self.claimed = None;
        self.vacated = [false; SLOTS];
        // Both slots of the ring are trusted only up to this record from here on.
        self.records[0] = self.records[1].clone();
        let base = self.base().clone();
        let newest = newest(&base.rows);
        self.live = Delta {
            boundary: base.position,
            ..Delta::default()
        };
        for group in self.log.clone() {
            if group.serial > base.position {
                let below = current(&base, &[&self.live]);
                self.live
                    .apply(&group.entry, below.as_ref(), newest, self.missing);
                self.live.boundary = group.serial;
            }
        }
        self.serial = self.serial.max(self.live.boundary);
        let kept: Vec<u16> = base.rows.iter().map(|row| row.number).collect();
        self.wanted.retain(|number, _| kept.contains(number));
    }

    /// Returns the first violated rule: in memory, after a crash, or by the older record.
    pub fn wrong(&self) -> Option<String> {
        if let Some(problem) = self.wrong_now() {
            return Some(problem);
        }
        let mut crashed = self.clone();
        crashed.recover();
        if let Some(problem) = crashed.wrong_now() {
            return Some(format!("after a crash: {problem}"));
        }
        let mut older = self.clone();
        older.step(Step::FallBack);
        older
            .wrong_now()
            .map(|p| format!("by the older record: {p}"))
    }

    fn wrong_now(&self) -> Option<String> {
        let base = self.base();
        let deltas = self.deltas();
        if let Some(file) = current(base, &deltas) {
            for (block, pointer) in file.blocks.iter().enumerate() {
                if let Some(p) = pointer
                    && self.slots[p.slot].map(|s| s.0) != Some(p.birth)
                {
                    return Some(format!("live block {block} of {file:?} is overwritten"));
                }
            }
        }
        for row in base.rows.iter().filter(|row| !row.deleted) {
            let Some(wanted) = self.wanted.get(&row.number) else {
                continue;
            };
            let found = read(base, &deltas, *row, self.missing);
            let seen: Seen = found.map(|(version, attributes, blocks)| {
                (version, attributes, blocks.map(|p| p.map(|p| p.birth)))
            });
            if seen != *wanted {
                return Some(format!("snapshot {row:?} shows {seen:?}, not {wanted:?}"));
            }
            let pointers = found.into_iter().flat_map(|f| f.2).flatten();
            for p in pointers {
                if self.slots[p.slot].map(|s| s.0) != Some(p.birth) {
                    return Some(format!("snapshot {row:?}: {p:?} is overwritten"));
                }
            }
        }
        self.wrong_history()
    }

    /// Checks that the history has no duplicates and nothing that no snapshot keeps.
    fn wrong_history(&self) -> Option<String> {
        let base = self.base();
        let mut seen = BTreeMap::<(Key, Birth), Displaced>::new();
        for entry in &base.blocks {
            if let Some(other) = seen.insert((entry.key, entry.pointer.birth), *entry) {
                return Some(format!("{entry:?} is listed twice: {other:?}"));
            }
            if !is_kept(&base.rows, entry) {
                return Some(format!("{entry:?} is kept by no snapshot"));
            }
        }
        None
    }
}
