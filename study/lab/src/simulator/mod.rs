//! The write-cost simulator: a volume, a policy, a write buffer, counters.
//!
//! As in the simulations of Rosenblum & Ousterhout (1992, §3.5) there are
//! blocks and segments and no device: what is counted is what would be read
//! and written. Blocks have dense numbers; the policies' clock ticks once per
//! block a user writes, the write buffer's follows the workload. Survivors are
//! held in memory while their segments become clean, so no room is needed to
//! make room. A summary costs a block when it is counted, but takes no room.

pub mod allocation;
mod buffer;
mod counters;
mod oracle;
pub mod transactions;
mod transfers;
mod volume;

pub use buffer::{Buffer, FLUSH_AFTER_NS};
pub use counters::{Counters, STEPS};
pub use oracle::{Future, Oracle};
pub use transfers::{Motion, Transfer};
pub use volume::{Origin, Volume};

use crate::policy::{Reordering, Simulated};
use crate::workload::{Locality, Op};
use buffer::Buffered;
use transfers::Transfers;
use varve_lfs::policy::{Candidate, Measures, Survivor, Watermarks, Write, best};
use volume::Taken;

/// Segments held back on every simulated volume: one that is open and two that
/// the low watermark keeps clean.
pub const RESERVE: u32 = 3;

/// Operations whose blocks are looked up together.
const AHEAD: usize = 16;

/// Blocks of a segment for so many live blocks, as in N1: the largest power of
/// two from 8 to 256 that gives them 256 segments.
pub fn segment_blocks(live_max: u32) -> u32 {
    let sizes = [256, 128, 64, 32, 16];
    sizes
        .into_iter()
        .find(|size| live_max / size >= 256)
        .unwrap_or(8)
}

/// The measures of a simulated volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Block numbers lie below this.
    pub blocks: u32,
    /// Segments, [`RESERVE`] included.
    pub segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Whether the summary of a plugged run takes one of its holes, as in
    /// Varve's format; a hole of one block is then of no use.
    pub summaries_in_holes: bool,
}

impl Shape {
    /// A volume on which `live_max` of `blocks` fill `utilisation` of the
    /// segments outside the reserve.
    ///
    /// # Panics
    /// If `utilisation` is not in `(0, 1)`.
    pub fn for_utilisation(
        blocks: u32,
        live_max: u32,
        segment_blocks: u32,
        utilisation: f64,
    ) -> Self {
        assert!(utilisation > 0.0 && utilisation < 1.0);
        let segments = f64::from(live_max) / utilisation / f64::from(segment_blocks);
        // At least one block must be dead for the cleaner to get anywhere.
        let least = live_max / segment_blocks + 1;
        Shape {
            blocks,
            segments: (segments.ceil() as u32).max(least) + RESERVE,
            segment_blocks,
            summaries_in_holes: true,
        }
    }

    /// What placement is told of such a volume.
    pub fn measures(&self, live: u32) -> Measures {
        let packed = live.div_ceil(self.segment_blocks);
        Measures {
            spare_segments: (self.segments - RESERVE).saturating_sub(packed),
            segment_blocks: self.segment_blocks,
        }
    }
}

/// What becomes of the live blocks of segments that are cleaned.
#[derive(Debug, Clone, Copy)]
enum Method {
    /// They are appended to the log.
    Copy,
    /// They are written into dead blocks of the fullest segments.
    Plug,
}

/// What a segment's age is counted from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Age {
    /// The youngest user write in it, as the formula of Rosenblum & Ousterhout
    /// (1992, §3.6) has it, and as a mount does.
    #[default]
    Youngest,
    /// The moment when the segment was begun, whatever was copied into it: the
    /// last write of data to the segment, which is what their segment usage
    /// table stores (table 1).
    Begun,
}

/// How a simulation is set up.
#[derive(Debug)]
pub struct Setup {
    /// The volume.
    pub shape: Shape,
    /// Most blocks that live at a time.
    pub live_max: u32,
    /// Decides.
    pub policy: Box<dyn Simulated>,
    /// Segments that are cleaned together, at least one.
    pub batch: u32,
    /// Blocks of the write buffer; `None` sends writes straight to the log.
    pub buffer_blocks: Option<usize>,
    /// Reordering buffers, if any.
    pub reordering: Option<Reordering>,
    /// What policies are told of a segment's age.
    pub age: Age,
}

/// Called for each segment about to be cleaned, with its utilisation.
pub type Witness<'a> = Box<dyn FnMut(&Volume, &Candidate) + 'a>;

/// See the module's head.
pub struct Simulator<'a> {
    shape: Shape,
    volume: Volume,
    policy: Box<dyn Simulated>,
    batch: u32,
    age: Age,
    high: u32,
    buffer: Option<Buffer>,
    locality: &'a dyn Locality,
    witness: Option<Witness<'a>>,
    counters: Counters,
    /// User blocks submitted since the beginning.
    clock: u64,
    now_ns: i64,
    candidates: Vec<Candidate>,
    taken: Vec<Taken>,
    flushed: Vec<Buffered>,
    /// What went to and from a device, if somebody asks.
    transfers: Option<Transfers>,
}

impl std::fmt::Debug for Simulator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulator")
            .field("policy", &self.policy)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<'a> Simulator<'a> {
    /// An empty volume.
    pub fn new(setup: Setup, locality: &'a dyn Locality) -> Self {
        let mut policy = setup.policy;
        let measures = setup.shape.measures(setup.live_max);
        let heads = policy.heads(&measures).max(1);
        let batch = setup.batch.max(1);
        let buffer = |blocks| Buffer::new(blocks, setup.shape.blocks, setup.reordering);
        Simulator {
            shape: setup.shape,
            volume: Volume::new(setup.shape, heads),
            policy,
            batch,
            age: setup.age,
            // Room that is kept clean is room that garbage cannot gather in.
            high: RESERVE - 2 + batch.min(1 + measures.spare_segments / 4),
            buffer: setup.buffer_blocks.map(buffer),
            locality,
            witness: None,
            counters: Counters::default(),
            clock: 0,
            now_ns: 0,
            candidates: Vec::new(),
            taken: Vec::new(),
            flushed: Vec::new(),
            transfers: None,
        }
    }

    /// Has every segment shown that is going to be cleaned.
    pub fn watch(&mut self, witness: Witness<'a>) {
        self.witness = Some(witness);
    }

    /// Notes from now on what goes to and from a device, and with `deaths` every
    /// copy of a block that dies.
    pub fn note_transfers(&mut self, deaths: bool) {
        self.transfers = Some(Transfers::new(self.shape.segment_blocks, deaths));
    }

    /// Moves what was noted since the last time to the end of `into`.
    pub fn take_transfers(&mut self, into: &mut Vec<Transfer>) {
        if let Some(transfers) = &mut self.transfers {
            transfers.take(into);
        }
    }

    /// What was counted since the last reset.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts from zero: the volume is in its steady state.
    pub fn reset(&mut self) {
        self.counters = Counters::default();
    }

    /// The volume as it is.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Does what the workload says.
    pub fn run(&mut self, ops: &[Op]) {
        for ops in ops.chunks(AHEAD) {
            if self.buffer.is_none() {
                self.volume.look_up(ops.iter().filter_map(Op::changes));
            }
            self.run_these(ops);
        }
    }

    fn run_these(&mut self, ops: &[Op]) {
        for op in ops {
            match *op {
                Op::Write { block } => self.write(block),
                Op::Read { block } => self.touch(block),
                Op::Trim { block } => self.trim(block),
                Op::Sync => self.flush(),
                Op::Wait { ns } => {
                    let ns = i64::try_from(ns).unwrap_or(i64::MAX);
                    self.now_ns = self.now_ns.saturating_add(ns);
                    if self.buffer.as_ref().is_some_and(|b| b.is_due(self.now_ns)) {
                        self.flush();
                    }
                }
            }
        }
    }

    fn touch(&mut self, block: u32) {
        if let Some(buffer) = &mut self.buffer {
            buffer.touch(block, self.now_ns);
        }
    }

    fn trim(&mut self, block: u32) {
        if let Some(buffer) = &mut self.buffer {
            buffer.remove(block);
        }
        self.kill(block);
    }

    #[inline]
    fn kill(&mut self, block: u32) {
        let slot = self.volume.kill(block);
        if let (Some(transfers), Some(slot)) = (&mut self.transfers, slot) {
            transfers.death(slot);
        }
    }

    #[inline]
    fn write(&mut self, block: u32) {
        let arrival = self.clock;
        self.clock += 1;
        self.counters.submitted += 1;
        let Some(buffer) = &mut self.buffer else {
            return self.log(block, arrival, 0);
        };
        buffer.touch(block, self.now_ns);
        if buffer.put(block, arrival, self.now_ns) && buffer.is_due(self.now_ns) {
            self.flush();
        }
    }

    /// Writes what the buffer holds to the log.
    pub fn flush(&mut self) {
        let Some(buffer) = &mut self.buffer else {
            return;
        };
        let mut flushed = std::mem::take(&mut self.flushed);
        buffer.flush(|block| self.locality.of(block), &mut flushed);
        self.volume.begin_write();
        for w in &flushed {
            self.log(w.block, w.arrival, w.part);
        }
        self.flushed = flushed;
        self.written();
    }

    /// What was appended goes to the device: a run for each head.
    fn written(&mut self) {
        if let Some(transfers) = &mut self.transfers {
            transfers.write();
        }
    }

    fn note(&mut self, block: u32) {
        if let Some(transfers) = &mut self.transfers {
            let slot = self.volume.block(block).slot;
            transfers.append(slot, self.volume.head_of(slot));
        }
    }

    /// One block goes to the log.
    #[inline]
    fn log(&mut self, block: u32, arrival: u64, buffer: usize) {
        let before = self.volume.block(block);
        let life = (before.slot != volume::NONE).then(|| arrival - before.written);
        self.kill(block);
        let head = self.policy.place(&Write {
            block: u64::from(block),
            arrival,
            life,
            buffer,
        });
        if self.volume.clean_segments() < RESERVE - 1 {
            self.clean();
        }
        self.volume
            .append(block, head, arrival, self.clock, &mut self.counters);
        self.counters.logged += 1;
        self.note(block);
    }

    /// Cleans until the policy wants no more.
    fn clean(&mut self) {
        loop {
            let wanted = self.policy.wanted(&Watermarks {
                clean: self.volume.clean_segments(),
                low: RESERVE - 1,
                high: self.high,
            });
            if wanted == 0 {
                return;
            }
            self.volume.candidates(self.age, &mut self.candidates);
            let limit = wanted.max(self.batch) as usize;
            let now = self.clock as i64;
            let mut chosen = self.policy.choose(&self.candidates, now, limit);
            let plugged = self.policy.plugged(&self.candidates, &chosen, limit);
            let method = match plugged {
                Some(plugged) => {
                    chosen = plugged;
                    // One at a time: the next may be filled by this one's survivors.
                    chosen.truncate(1);
                    Method::Plug
                }
                None => Method::Copy,
            };
            if chosen.is_empty() {
                // Nothing is worth it, and yet somebody waits for room.
                let dead = |c: &Candidate| c.live_bytes < c.segment_bytes;
                chosen = best(&self.candidates, 1, |c| dead(c).then(|| -c.utilisation()));
            }
            if chosen.is_empty() {
                return;
            }
            self.clean_these(&chosen, method);
        }
    }

    fn clean_these(&mut self, segments: &[Candidate], method: Method) {
        for candidate in segments {
            if let Some(witness) = &mut self.witness {
                witness(&self.volume, candidate);
            }
            let step = (candidate.utilisation() * STEPS as f64) as usize;
            self.counters.by_utilisation[step] += 1;
            match candidate.live_bytes {
                0 => self.counters.emptied += 1,
                _ => {
                    self.counters.cleaned += 1;
                    if let Some(transfers) = &mut self.transfers {
                        transfers.read(candidate.segment);
                    }
                }
            }
        }
        let mut taken = std::mem::take(&mut self.taken);
        match method {
            Method::Copy => self.copy(segments, &mut taken),
            Method::Plug => self.plug(&segments[0], &mut taken),
        }
        taken.clear();
        self.taken = taken;
        self.written();
    }

    /// Takes what lives out of a segment: it is clean.
    fn empty(&mut self, segment: u32, taken: &mut Vec<Taken>) {
        let cleaned = self.volume.empty(segment, self.clock, taken);
        if let Some(transfers) = &mut self.transfers {
            transfers.clean(segment);
        }
        self.policy.learn(&cleaned);
    }

    /// Appends the survivors to the log, in batches that the policy wants
    /// sorted by age.
    fn copy(&mut self, segments: &[Candidate], taken: &mut Vec<Taken>) {
        let sorted = self.policy.sorted_segments() as usize * self.shape.segment_blocks as usize;
        let mut rest = segments.iter().peekable();
        self.volume.begin_write();
        while let Some(candidate) = rest.next() {
            self.empty(candidate.segment, taken);
            if taken.len() < sorted && rest.peek().is_some() {
                continue;
            }
            if sorted > 0 {
                // No two blocks were written at once.
                taken.sort_unstable_by_key(|t| t.written);
            }
            for survivor in taken.drain(..) {
                self.append_survivor(survivor);
            }
        }
        self.volume.begin_write();
    }

    fn append_survivor(&mut self, survivor: Taken) {
        let head = self.policy.place_survivor(&Survivor {
            block: u64::from(survivor.block),
            now: self.clock,
            age: self.clock - survivor.written,
            head: usize::from(survivor.head),
        });
        self.volume.append(
            survivor.block,
            head,
            survivor.written,
            self.clock,
            &mut self.counters,
        );
        self.volume.note_survivor(survivor.block);
        self.counters.copied += 1;
        self.note(survivor.block);
    }

    /// Writes the survivors into holes of the fullest segments; what finds no
    /// hole is appended.
    fn plug(&mut self, victim: &Candidate, taken: &mut Vec<Taken>) {
        self.empty(victim.segment, taken);
        let holes = |c: &Candidate| c.segment != victim.segment && c.live_bytes < c.segment_bytes;
        let mut enough = 0;
        let fullest = best(&self.candidates, taken.len().max(1), |c| {
            holes(c).then(|| c.utilisation())
        });
        let targets: Vec<u32> = fullest
            .iter()
            .take_while(|c| {
                let before = enough;
                enough += c.segment_bytes - c.live_bytes;
                before < taken.len() as u64 * volume::BLOCK_BYTES
            })
            .map(|c| c.segment)
            .collect();
        let plugged = self.volume.plug(taken, &targets, &mut self.counters);
        self.counters.plugged += plugged as u64;
        for plug in &taken[..plugged] {
            self.note(plug.block);
        }
        for survivor in taken.split_off(plugged) {
            self.append_survivor(survivor);
        }
    }
}

#[cfg(test)]
mod tests;
