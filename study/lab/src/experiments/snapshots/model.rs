//! A log with snapshots: blocks and segments, a greedy cleaner, and copies that snapshots
//! keep. Counts of blocks, no device.
//!
//! Snapshots are numbered from 1, and the newest few are kept. A copy of a block that was
//! written when there were `birth` snapshots and displaced when there were `death` is part
//! of those numbered `birth + 1` to `death`. So it is kept while `death` is.

use std::collections::{BTreeMap, HashSet};
use varve_prove::random::Random;

const NONE: u32 = u32::MAX;
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry of the history, which is merged with others once.
const HISTORY_BYTES: u64 = 2 * 64;
/// Entries of the address table in a block: 32 bytes each (NILFS2).
const TABLE_ENTRIES: u32 = (BLOCK_BYTES / 32) as u32;

/// How snapshots keep copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// There are no snapshots.
    None,
    /// Segments with kept copies are not cleaned.
    Pinned,
    /// A table from virtual to real addresses (NILFS2).
    Table,
    /// Displaced pointers are listed by what they are (`docs/design/snapshots.md`).
    History,
}

/// The measures of a volume.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub segments: u32,
    pub segment_blocks: u32,
    /// Blocks that users rewrite.
    pub live: u32,
    /// Clean segments that the cleaner provides.
    pub clean: u32,
    /// Snapshots kept, and user blocks between two.
    pub kept: u32,
    pub interval: u32,
}

/// Blocks written, by cause.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    pub user: u64,
    pub moved: u64,
    /// Blocks of tables or the history.
    pub noted: f64,
    /// Snapshots taken, and those deleted because no segment could be cleaned.
    pub taken: u64,
    pub forced: u64,
}

impl Written {
    /// Blocks written for each block of users.
    pub fn amplification(&self) -> f64 {
        (self.user as f64 + self.moved as f64 + self.noted) / self.user as f64
    }
}

#[derive(Debug, Clone, Copy)]
struct Copy {
    slot: u32,
    birth: u32,
    /// [`NONE`] while it is live.
    death: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    Open,
    Full,
    /// Cleaned, and not to be written yet.
    Withheld,
}

/// A simulated log with snapshots of one design.
#[derive(Debug)]
pub struct Log {
    design: Design,
    shape: Shape,
    /// The copy in each slot.
    slots: Vec<u32>,
    copies: Vec<Copy>,
    unused: Vec<u32>,
    current: Vec<u32>,
    /// Used slots of each segment, and of these the kept ones.
    used: Vec<(u32, u32)>,
    state: Vec<State>,
    clean: Vec<u32>,
    head: (u32, u32),
    newest: u32,
    oldest: u32,
    dead: BTreeMap<u32, Vec<u32>>,
    dirty: HashSet<u32>,
    pub written: Written,
    /// Segments of an image that the cleaner has not read, while it is being archived.
    pub image: Option<HashSet<u32>>,
    /// Segments of the image are not written again before the archive is complete.
    pub withholds: bool,
}

impl Log {
    pub fn new(design: Design, shape: Shape) -> Self {
        let segments = shape.segments as usize;
        let mut log = Log {
            design,
            shape,
            slots: vec![NONE; segments * shape.segment_blocks as usize],
            copies: Vec::new(),
            unused: Vec::new(),
            current: vec![NONE; shape.live as usize],
            used: vec![(0, 0); segments],
            state: vec![State::Clean; segments],
            clean: (0..shape.segments).rev().collect(),
            head: (NONE, shape.segment_blocks),
            newest: 0,
            oldest: 1,
            dead: BTreeMap::new(),
            dirty: HashSet::new(),
            written: Written::default(),
            image: None,
            withholds: false,
        };
        for block in 0..shape.live {
            log.write(block);
        }
        log
    }

    /// Rewrites `count` blocks at random, and takes snapshots between. False if no segment
    /// could be cleaned.
    pub fn run(&mut self, count: u64, random: &mut Random) -> bool {
        for _ in 0..count {
            if !self.make_space() {
                return false;
            }
            self.write(random.below(u64::from(self.shape.live)) as u32);
            let interval = u64::from(self.shape.interval);
            if self.design != Design::None && self.written.user.is_multiple_of(interval) {
                self.snapshot();
            }
        }
        true
    }

    /// Counts from here on.
    pub fn start(&mut self) {
        self.written = Written::default();
    }

    /// Used slots among those of all segments except the reserve.
    pub fn utilisation(&self) -> f64 {
        let used: u64 = self.used.iter().map(|(used, _)| u64::from(*used)).sum();
        let all = (self.shape.segments - self.shape.clean) * self.shape.segment_blocks;
        used as f64 / f64::from(all)
    }

    /// Numbers of the segments that are used.
    pub fn used_segments(&self) -> HashSet<u32> {
        let used = (0..).zip(&self.used).filter(|(_, (used, _))| *used > 0);
        used.map(|(number, _)| number).collect()
    }

    fn write(&mut self, block: u32) {
        self.written.user += 1;
        let old = std::mem::replace(&mut self.current[block as usize], NONE);
        if old != NONE {
            self.displace(old);
        }
        let copy = Copy {
            slot: NONE,
            birth: self.newest,
            death: NONE,
        };
        let number = match self.unused.pop() {
            Some(number) => {
                self.copies[number as usize] = copy;
                number
            }
            None => {
                self.copies.push(copy);
                self.copies.len() as u32 - 1
            }
        };
        self.current[block as usize] = number;
        self.place(number);
        self.note_table(number);
    }

    fn displace(&mut self, number: u32) {
        self.note_table(number);
        let birth = self.copies[number as usize].birth;
        if birth >= self.newest || self.newest < self.oldest {
            return self.free(number);
        }
        let copy = &mut self.copies[number as usize];
        copy.death = self.newest;
        let segment = copy.slot / self.shape.segment_blocks;
        self.used[segment as usize].1 += 1;
        self.dead.entry(self.newest).or_default().push(number);
        self.note_history();
    }

    fn free(&mut self, number: u32) {
        let Copy { slot, death, .. } = self.copies[number as usize];
        self.leave(slot, death != NONE);
        self.unused.push(number);
    }

    fn leave(&mut self, slot: u32, kept: bool) {
        self.slots[slot as usize] = NONE;
        let (used, held) = &mut self.used[(slot / self.shape.segment_blocks) as usize];
        *used -= 1;
        *held -= u32::from(kept);
    }

    fn place(&mut self, number: u32) {
        if self.head.1 == self.shape.segment_blocks {
            if self.head.0 != NONE {
                self.state[self.head.0 as usize] = State::Full;
            }
            let segment = self.clean.pop().expect("the cleaner keeps some clean");
            self.state[segment as usize] = State::Open;
            self.head = (segment, 0);
            // A checkpoint for each segment: the table's dirty blocks are written.
            self.written.noted += self.dirty.drain().count() as f64;
        }
        let slot = self.head.0 * self.shape.segment_blocks + self.head.1;
        self.head.1 += 1;
        self.slots[slot as usize] = number;
        let copy = &mut self.copies[number as usize];
        copy.slot = slot;
        let (used, held) = &mut self.used[self.head.0 as usize];
        *used += 1;
        *held += u32::from(copy.death != NONE);
    }

    fn snapshot(&mut self) {
        self.newest += 1;
        self.written.taken += 1;
        if self.newest - self.oldest >= self.shape.kept {
            self.delete_oldest();
        }
    }

    fn delete_oldest(&mut self) {
        for number in self.dead.remove(&self.oldest).unwrap_or_default() {
            self.free(number);
        }
        self.oldest += 1;
    }

    fn make_space(&mut self) -> bool {
        while (self.clean.len() as u32) < self.shape.clean {
            let is_cleanable = |segment: &u32| {
                let (used, held) = self.used[*segment as usize];
                self.state[*segment as usize] == State::Full
                    && used < self.shape.segment_blocks
                    && (self.design != Design::Pinned || held == 0)
            };
            let all = (0..self.shape.segments).filter(is_cleanable);
            let Some(victim) = all.min_by_key(|segment| self.used[*segment as usize].0) else {
                if self.oldest > self.newest {
                    return false;
                }
                self.written.forced += 1;
                self.delete_oldest();
                continue;
            };
            // Survivors need a segment before one is gained.
            if self.withholds && self.clean.len() <= 1 {
                return false;
            }
            self.clean_segment(victim);
        }
        true
    }

    fn clean_segment(&mut self, segment: u32) {
        let of_image = self
            .image
            .as_mut()
            .is_some_and(|image| image.remove(&segment));
        let first = segment * self.shape.segment_blocks;
        let mut survivors = Vec::new();
        for slot in first..first + self.shape.segment_blocks {
            let number = self.slots[slot as usize];
            if number != NONE {
                self.leave(slot, self.copies[number as usize].death != NONE);
                survivors.push(number);
            }
        }
        self.state[segment as usize] = match of_image && self.withholds {
            true => State::Withheld,
            false => {
                self.clean.insert(0, segment);
                State::Clean
            }
        };
        for number in survivors {
            self.written.moved += 1;
            self.note_table(number);
            if self.copies[number as usize].death != NONE {
                self.note_history();
            }
            self.place(number);
        }
    }

    fn note_table(&mut self, number: u32) {
        if self.design == Design::Table {
            self.dirty.insert(number / TABLE_ENTRIES);
        }
    }

    fn note_history(&mut self) {
        if self.design == Design::History {
            self.written.noted += HISTORY_BYTES as f64 / BLOCK_BYTES as f64;
        }
    }
}

/// Utilisation of the segments that are cleaned on a volume of uniform updates that is
/// `utilisation` full: the solution of `u = (1 - c) / -ln c`.
///
/// Source: Menon & Stockmeyer 1998; Rosenblum & Ousterhout 1992 have the same curve.
pub fn cleaned_utilisation(utilisation: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let middle: f64 = (low + high) / 2.0;
        match (1.0 - middle) / -middle.ln() < utilisation {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        segments: 60,
        segment_blocks: 16,
        live: 600,
        clean: 3,
        kept: 3,
        interval: 40,
    };

    /// Counts of segments are those of their slots, and every copy is live or kept.
    #[test]
    fn accounts_agree() {
        for design in [Design::None, Design::Pinned, Design::Table, Design::History] {
            let mut log = Log::new(design, SHAPE);
            assert!(log.run(5000, &mut Random::new(1)));
            let mut used = vec![(0, 0); 60];
            for (slot, number) in log.slots.iter().enumerate().filter(|(_, n)| **n != NONE) {
                let copy = log.copies[*number as usize];
                assert_eq!(copy.slot as usize, slot);
                let count = &mut used[slot / 16];
                count.0 += 1;
                count.1 += u32::from(copy.death != NONE);
                assert!(copy.death == NONE || copy.death >= log.oldest);
            }
            assert_eq!(used, log.used, "{design:?}");
            let kept: usize = log.dead.values().map(Vec::len).sum();
            assert_eq!(
                used.iter().map(|(used, _)| *used as usize).sum::<usize>(),
                600 + kept
            );
            assert_eq!(kept > 0, design != Design::None);
        }
    }

    #[test]
    fn the_curve_of_uniform_updates() {
        // Half of a volume's segments alive: a fifth of a cleaned one is.
        assert!((cleaned_utilisation(0.5) - 0.2032).abs() < 1e-3);
        assert!((cleaned_utilisation(0.8) - 0.6286).abs() < 1e-3);
    }
}
