//! A volume of the simulator: which block lives where.
//!
//! Blocks have dense numbers. A block's slot is right by definition; a slot is
//! live if the block that was written there last still has it. So overwriting
//! touches the block and two segment counts, and nothing else.

use super::{Age, Counters, Shape};
use varve_lfs::policy::{Candidate, Cleaned};

/// No slot, segment or block.
pub const NONE: u32 = u32::MAX;
/// Bytes of a block, for policies that count in bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// What is known of a block.
#[derive(Debug, Clone, Copy)]
pub struct Logical {
    /// Where it is, or [`NONE`].
    pub slot: u32,
    /// User blocks written before its last user write.
    pub written: u64,
}

/// Of a block that is nowhere.
const NOWHERE: Logical = Logical {
    slot: NONE,
    written: 0,
};

/// Which of the two wrote most of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Users: their writes were appended as they arrived.
    Users,
    /// The cleaner: its blocks survived in segments that were cleaned.
    Cleaner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    Open,
    Sealed,
}

/// What is known of a segment.
#[derive(Debug, Clone, Copy)]
struct Segment {
    live: u32,
    filled: u32,
    /// Blocks appended to it by the cleaner, whether or not they still live.
    survivors: u32,
    /// Youngest user write in it.
    newest: u64,
    /// User blocks written when it was opened.
    opened: u64,
    head: u8,
    state: State,
}

/// See the module's head.
#[derive(Debug)]
pub struct Volume {
    shape: Shape,
    logical: Vec<Logical>,
    /// The block last written to each slot.
    owners: Vec<u32>,
    segments: Vec<Segment>,
    clean: Vec<u32>,
    /// The open segment of each head.
    open: Vec<u32>,
    /// The write to which each head's last partial segment belongs.
    partial: Vec<u64>,
    epoch: u64,
    live: u64,
}

/// A live block taken from a segment that is cleaned.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Which.
    pub block: u32,
    /// The head that wrote its segment.
    pub head: u8,
    /// Its last user write.
    pub written: u64,
}

impl Volume {
    /// An empty volume.
    pub fn new(shape: Shape, heads: usize) -> Self {
        let empty = Segment {
            live: 0,
            filled: 0,
            survivors: 0,
            newest: 0,
            opened: 0,
            head: 0,
            state: State::Clean,
        };
        let slots = shape.segments as usize * shape.segment_blocks as usize;
        assert!(slots < NONE as usize, "slots have 32 bits");
        Volume {
            shape,
            logical: vec![NOWHERE; shape.blocks as usize],
            owners: vec![NONE; slots],
            segments: vec![empty; shape.segments as usize],
            clean: (0..shape.segments).rev().collect(),
            open: vec![NONE; heads],
            partial: vec![0; heads],
            epoch: 1,
            live: 0,
        }
    }

    /// What is known of a block.
    pub fn block(&self, block: u32) -> &Logical {
        &self.logical[block as usize]
    }

    /// Clean segments.
    pub fn clean_segments(&self) -> u32 {
        self.clean.len() as u32
    }

    /// Live blocks.
    pub fn live_blocks(&self) -> u64 {
        self.live
    }

    fn segment_of(&self, slot: u32) -> usize {
        (slot / self.shape.segment_blocks) as usize
    }

    /// The head that wrote the segment of a slot.
    pub fn head_of(&self, slot: u32) -> u8 {
        self.segments[self.segment_of(slot)].head
    }

    /// Looks up blocks that will be asked for one by one: memory answers many
    /// questions at a time as soon as one.
    #[inline]
    pub fn look_up(&self, blocks: impl Iterator<Item = u32>) {
        let slots = blocks.map(|block| self.logical[block as usize].slot);
        std::hint::black_box(slots.fold(0, u32::wrapping_add));
    }

    /// The block is written by a user, or removed: its present copy dies. Where
    /// that was, if there was one.
    #[inline]
    pub fn kill(&mut self, block: u32) -> Option<u32> {
        let slot = std::mem::replace(&mut self.logical[block as usize].slot, NONE);
        if slot == NONE {
            return None;
        }
        let segment = self.segment_of(slot);
        self.segments[segment].live -= 1;
        self.live -= 1;
        Some(slot)
    }

    /// What follows is another write: it begins partial segments of its own.
    pub fn begin_write(&mut self) {
        self.epoch += 1;
    }

    /// Stores a block that has no copy at the end of a head's log.
    ///
    /// # Panics
    /// If neither a clean segment nor an open one with room is left: the
    /// cleaner keeps some.
    #[inline]
    pub fn append(&mut self, block: u32, head: usize, written: u64, now: u64, c: &mut Counters) {
        let head = self.open_head(head, now);
        let number = self.open[head];
        let segment = &mut self.segments[number as usize];
        let slot = number * self.shape.segment_blocks + segment.filled;
        segment.filled += 1;
        segment.live += 1;
        segment.newest = segment.newest.max(written);
        if segment.filled == self.shape.segment_blocks {
            segment.state = State::Sealed;
            self.open[head] = NONE;
        }
        if self.partial[head] != self.epoch {
            self.partial[head] = self.epoch;
            c.summaries += 1;
        }
        self.live += 1;
        self.owners[slot as usize] = block;
        self.logical[block as usize] = Logical { slot, written };
    }

    /// Notes that the block's copy was appended by the cleaner.
    pub fn note_survivor(&mut self, block: u32) {
        let segment = self.segment_of(self.logical[block as usize].slot);
        self.segments[segment].survivors += 1;
    }

    /// Which of the two wrote most of a segment, when it was filled: what has
    /// died since does not change it.
    pub fn origin(&self, number: u32) -> Origin {
        match self.segments[number as usize].survivors * 2 > self.shape.segment_blocks {
            true => Origin::Cleaner,
            false => Origin::Users,
        }
    }

    /// The head itself if it has an open segment or may open one; otherwise
    /// the nearest head that has. The last clean segment is for whoever has
    /// nobody to share with.
    fn open_head(&mut self, head: usize, now: u64) -> usize {
        if self.open[head] != NONE {
            return head;
        }
        if self.clean.len() <= 1 {
            let others = (0..self.open.len()).filter(|h| self.open[*h] != NONE);
            if let Some(near) = others.min_by_key(|h| h.abs_diff(head)) {
                return near;
            }
        }
        let number = self.clean.pop().expect("the cleaner keeps a clean segment");
        self.open[head] = number;
        self.partial[head] = 0;
        self.segments[number as usize] = Segment {
            live: 0,
            filled: 0,
            survivors: 0,
            newest: 0,
            opened: now,
            head: head as u8,
            state: State::Open,
        };
        head
    }

    /// Fills `candidates` with the segments that may be cleaned.
    pub fn candidates(&self, age: Age, candidates: &mut Vec<Candidate>) {
        candidates.clear();
        let sealed = self.segments.iter().enumerate();
        let sealed = sealed.filter(|(_, s)| s.state == State::Sealed);
        candidates.extend(sealed.map(|(number, s)| Candidate {
            segment: number as u32,
            live_bytes: u64::from(s.live) * BLOCK_BYTES,
            segment_bytes: u64::from(self.shape.segment_blocks) * BLOCK_BYTES,
            newest_ns: match age {
                Age::Youngest => s.newest as i64,
                Age::Begun => s.opened as i64,
            },
        }));
    }

    /// Takes what lives out of a segment and makes it clean.
    pub fn empty(&mut self, number: u32, now: u64, taken: &mut Vec<Taken>) -> Cleaned {
        let segment = self.segments[number as usize];
        assert_eq!(segment.state, State::Sealed, "only sealed ones are cleaned");
        let first = number * self.shape.segment_blocks;
        let owners = &self.owners[first as usize..][..self.shape.segment_blocks as usize];
        let before = taken.len();
        let nothing = Taken {
            block: NONE,
            head: segment.head,
            written: 0,
        };
        taken.resize(before + owners.len(), nothing);
        // Whether a block lives here is as good as drawn: without a branch nothing
        // waits for it, and the next are looked up meanwhile.
        let mut end = before;
        for (slot, &block) in (first..).zip(owners) {
            let known = self.logical.get(block as usize).unwrap_or(&NOWHERE);
            taken[end] = Taken {
                block,
                written: known.written,
                ..nothing
            };
            end += usize::from(known.slot == slot);
        }
        taken.truncate(end);
        assert_eq!(taken.len() - before, segment.live as usize, "recount");
        for t in &taken[before..] {
            self.logical[t.block as usize].slot = NONE;
        }
        self.live -= u64::from(segment.live);
        self.segments[number as usize].state = State::Clean;
        self.segments[number as usize].live = 0;
        self.clean.push(number);
        Cleaned {
            head: usize::from(segment.head),
            life: now - segment.opened,
        }
    }

    /// Writes `taken` into dead slots of `targets`, in this order. Returns how
    /// many found one. Each run of holes is a partial segment: its summary is
    /// counted, and takes the first of them if the shape says so.
    pub fn plug(&mut self, taken: &[Taken], targets: &[u32], c: &mut Counters) -> usize {
        let mut plugged = 0;
        for &number in targets {
            let first = number * self.shape.segment_blocks;
            let end = first + self.shape.segment_blocks;
            let mut slot = first;
            while slot < end && plugged < taken.len() {
                let holes = (slot..end).take_while(|s| self.is_dead(*s)).count() as u32;
                let summary = u32::from(self.shape.summaries_in_holes);
                let usable = holes.saturating_sub(summary) as usize;
                let filled = usable.min(taken.len() - plugged);
                for (at, t) in taken[plugged..plugged + filled].iter().enumerate() {
                    self.fill(number, slot + summary + at as u32, t);
                }
                plugged += filled;
                c.summaries += u64::from(filled > 0);
                // Past the holes and the live slot behind them.
                slot += holes + 1;
            }
        }
        plugged
    }

    fn is_dead(&self, slot: u32) -> bool {
        let block = self.owners[slot as usize];
        block == NONE || self.logical[block as usize].slot != slot
    }

    fn fill(&mut self, segment: u32, slot: u32, taken: &Taken) {
        let Taken { block, written, .. } = *taken;
        self.owners[slot as usize] = block;
        self.logical[block as usize] = Logical { slot, written };
        let segment = &mut self.segments[segment as usize];
        segment.live += 1;
        segment.newest = segment.newest.max(written);
        self.live += 1;
    }

    /// Utilisation of every sealed segment.
    pub fn utilisations(&self) -> Vec<f64> {
        let sealed = self.segments.iter().filter(|s| s.state == State::Sealed);
        let blocks = f64::from(self.shape.segment_blocks);
        sealed.map(|s| f64::from(s.live) / blocks).collect()
    }

    /// Counts everything again and compares.
    ///
    /// # Panics
    /// If a count is wrong.
    pub fn recount(&self) {
        let mut live = vec![0; self.segments.len()];
        for (block, logical) in self.logical.iter().enumerate() {
            if logical.slot != NONE {
                live[self.segment_of(logical.slot)] += 1;
                assert_eq!(self.owners[logical.slot as usize] as usize, block);
            }
        }
        for (number, segment) in self.segments.iter().enumerate() {
            assert_eq!(segment.live, live[number], "segment {number}");
        }
        assert_eq!(self.live, live.iter().map(|l| u64::from(*l)).sum::<u64>());
    }
}
