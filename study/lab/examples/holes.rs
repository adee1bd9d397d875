//! What writing into holes would cost, before there is any (`docs/design/holes.md`):
//! device blocks per user block at random overwrites, everything counted, with
//! the log's own rules about when a dead block may be written over.
//!
//! ```text
//! cargo run --release -p varve-lab --example holes
//! ```
//!
//! Abstract but for the rules: units of 4 KiB; a segment is a summary and
//! blocks; a hole or an empty segment is used two checkpoints after the last
//! death in it (rules 20, P1, P2); a checkpoint writes an index node for each
//! 126 blocks of which one was touched. Plugging fills every usable hole of the
//! segment that has most of them, a map first; a checkpoint is taken after each
//! batch, and when clean segments run short. Without holes to write to, blocks
//! go to the head, and the cleaner moves what lives in the emptiest segments, a
//! batch of a 32nd of the volume at a time without plugging, four with it.

use varve_prove::random::Random;

/// Units of the volume.
const BLOCKS: usize = 1 << 16;
/// Blocks that an index node points to.
const FANOUT: usize = 126;
/// Entries that a unit of summary has room for.
const ENTRIES: u64 = 99;

/// What a unit holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Nothing, since the checkpoint with this number.
    Dead(u32),
    /// A block, or with numbers beyond the last block an index node.
    Live(u32),
    /// A summary or a map.
    Testimony,
}

struct Segment {
    units: Vec<Unit>,
    /// Number of the checkpoint that covers the last write into it.
    written: u32,
    /// Where its map stands.
    map: Vec<usize>,
}

/// What goes into holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plugs {
    Nothing,
    Blocks,
    BlocksAndNodes,
}

#[derive(Clone, Copy)]
struct Case {
    segments: usize,
    units: usize,
    percent: usize,
    plugs: Plugs,
    hot: bool,
    /// Of the volume, what is written between two checkpoints.
    batch: usize,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    user: u64,
    moved: u64,
    nodes: u64,
    maps: u64,
    summaries: u64,
    checkpoints: u64,
}

struct Volume {
    case: Case,
    segments: Vec<Segment>,
    /// Where each block and node is.
    places: Vec<(u32, u32)>,
    blocks: usize,
    touched: Vec<bool>,
    /// The last complete checkpoint.
    checkpoint: u32,
    since: usize,
    clean: Vec<usize>,
    head: (usize, usize),
    /// The segment that is being plugged, and its holes that are left.
    plugging: (usize, Vec<usize>),
    /// Segments that may be plugged before the next checkpoint, by the number
    /// of their holes; looked for when first asked.
    candidates: Option<Vec<(usize, usize)>>,
    entries: u64,
    counts: Counts,
    /// The cleaner has gained nothing, or the head has nowhere to go.
    stuck: bool,
}

impl Volume {
    fn new(case: Case) -> Self {
        // As mkfs reserves: heads, cleaner, slack, and what a checkpoint writes.
        let reserve = 10 + case.segments / 50;
        let blocks = (case.segments - reserve) * (case.units - 1) * case.percent / 100;
        let nodes = blocks.div_ceil(FANOUT);
        let segment = || Segment {
            units: vec![Unit::Dead(0); case.units],
            written: 0,
            map: Vec::new(),
        };
        let mut volume = Volume {
            segments: (0..case.segments).map(|_| segment()).collect(),
            places: vec![(u32::MAX, 0); blocks + nodes],
            blocks,
            touched: vec![false; nodes],
            checkpoint: 1,
            since: 0,
            clean: (1..case.segments).rev().collect(),
            head: (0, case.units),
            plugging: (usize::MAX, Vec::new()),
            candidates: None,
            entries: 0,
            counts: Counts::default(),
            stuck: false,
            case,
        };
        for block in 0..blocks {
            volume.write(block);
        }
        volume
    }

    fn batch(&self) -> usize {
        self.case.segments * self.case.units / self.case.batch
    }

    /// Units of a segment's map.
    fn map_units(&self) -> usize {
        (128 + 40 * self.case.units).div_ceil(4096)
    }

    fn put(&mut self, thing: usize, (segment, unit): (usize, usize)) {
        let now = self.checkpoint + 1;
        let (of, at) = self.places[thing];
        if of != u32::MAX {
            self.segments[of as usize].units[at as usize] = Unit::Dead(now);
        }
        self.places[thing] = (segment as u32, unit as u32);
        let into = &mut self.segments[segment];
        into.units[unit] = Unit::Live(thing as u32);
        into.written = now;
        self.entries += 1;
        if self.entries.is_multiple_of(ENTRIES) {
            self.counts.summaries += 1;
        }
    }

    fn append(&mut self, thing: usize) {
        let (mut segment, mut unit) = self.head;
        if unit == self.case.units {
            let Some(next) = self.clean.pop() else {
                self.stuck = true;
                return;
            };
            segment = next;
            let entered = &mut self.segments[segment];
            entered.units.fill(Unit::Dead(0));
            entered.units[0] = Unit::Testimony;
            entered.map.clear();
            self.counts.summaries += 1;
            unit = 1;
        }
        self.put(thing, (segment, unit));
        self.head = (segment, unit + 1);
    }

    /// Units of a segment that may be written over.
    fn holes(&self, segment: usize) -> impl Iterator<Item = usize> {
        let (covered, of) = (self.checkpoint - 1, &self.segments[segment]);
        let open = segment == self.head.0 || of.written > covered;
        let lives = of.units.iter().any(|unit| matches!(unit, Unit::Live(_)));
        (0..self.case.units)
            .filter(move |_| lives && !open)
            .filter(move |unit| matches!(of.units[*unit], Unit::Dead(since) if since <= covered))
    }

    /// A hole, if any segment has enough of them to pay for its map.
    fn hole(&mut self) -> Option<(usize, usize)> {
        if self.plugging.1.is_empty() {
            let map = self.map_units();
            let mut candidates = self.candidates.take().unwrap_or_else(|| {
                let all = 0..self.case.segments;
                let mut all: Vec<(usize, usize)> = all
                    .map(|segment| (self.holes(segment).count(), segment))
                    .filter(|(count, _)| *count >= 3 * map && *count < self.case.units / 2)
                    .collect();
                all.sort_unstable();
                all
            });
            let next = candidates.pop();
            self.candidates = Some(candidates);
            let (_, segment) = next?;
            let mut holes: Vec<usize> = self.holes(segment).collect();
            if holes.len() < 3 * map {
                // Something has been written there since.
                return None;
            }
            let new: Vec<usize> = holes.drain(..map).collect();
            let now = self.checkpoint + 1;
            let into = &mut self.segments[segment];
            for unit in std::mem::replace(&mut into.map, new.clone()) {
                into.units[unit] = Unit::Dead(now);
            }
            for unit in new {
                into.units[unit] = Unit::Testimony;
            }
            self.counts.maps += map as u64;
            self.plugging = (segment, holes);
        }
        let (segment, holes) = &mut self.plugging;
        holes.pop().map(|unit| (*segment, unit))
    }

    fn checkpoint(&mut self) {
        for node in 0..self.touched.len() {
            if std::mem::take(&mut self.touched[node]) {
                let hole = match self.case.plugs == Plugs::BlocksAndNodes {
                    true => self.hole(),
                    false => None,
                };
                match hole {
                    Some(place) => self.put(self.blocks + node, place),
                    None => self.append(self.blocks + node),
                }
                self.counts.nodes += 1;
            }
        }
        self.checkpoint += 1;
        self.counts.checkpoints += 1;
        self.since = 0;
        self.candidates = None;
        // Its map was written before: what is plugged later needs another.
        self.plugging = (usize::MAX, Vec::new());
        let covered = self.checkpoint - 1;
        let known: std::collections::HashSet<usize> = self.clean.iter().copied().collect();
        for (number, segment) in self.segments.iter().enumerate() {
            let free = |unit: &Unit| match unit {
                Unit::Dead(since) => *since <= covered,
                Unit::Testimony => true,
                Unit::Live(_) => false,
            };
            let unused = number != self.head.0 && number != self.plugging.0;
            let settled = segment.written <= covered && !known.contains(&number);
            if unused && settled && segment.units.iter().all(free) {
                self.clean.insert(0, number);
            }
        }
    }

    /// Moves what lives in the emptiest segments out of them.
    fn clean_some(&mut self) {
        let goal = match self.case.plugs {
            Plugs::Nothing => self.case.segments / 32,
            _ => 4,
        };
        let live = |segment: &Segment| {
            let live = segment.units.iter().filter(|u| matches!(u, Unit::Live(_)));
            live.count()
        };
        let mut gained = 0;
        let mut order: Vec<(usize, usize)> = (0..self.case.segments)
            .filter(|n| *n != self.head.0 && *n != self.plugging.0 && !self.clean.contains(n))
            .map(|number| (live(&self.segments[number]), number))
            .filter(|(live, _)| *live > 0)
            .collect();
        order.sort_unstable();
        let spare = self.touched.len() / self.case.units + 3;
        for (live, number) in order {
            let room = self.clean.len().saturating_sub(spare) * (self.case.units - 1);
            if gained >= goal * self.case.units || live > room {
                break;
            }
            gained += self.case.units - live;
            for unit in 0..self.case.units {
                if let Unit::Live(thing) = self.segments[number].units[unit] {
                    self.append(thing as usize);
                    match (thing as usize).checked_sub(self.blocks) {
                        Some(_) => self.counts.nodes += 1,
                        None => {
                            self.counts.moved += 1;
                            self.touched[thing as usize / FANOUT] = true;
                        }
                    }
                }
            }
        }
        self.checkpoint();
        if self.case.plugs == Plugs::Nothing {
            self.checkpoint();
        }
    }

    fn write(&mut self, block: usize) {
        self.counts.user += 1;
        self.since += 1;
        self.touched[block / FANOUT] = true;
        // Two checkpoints' nodes, and the cleaner's way to work.
        let low = 2 * (self.touched.len() / self.case.units) + 6;
        if self.since >= self.batch() {
            self.checkpoint();
        }
        let mut rounds = 0;
        while self.clean.len() < low {
            // What was displaced so far may be enough.
            match self.case.plugs != Plugs::Nothing && self.since > self.batch() / 4 {
                true => self.checkpoint(),
                false => self.clean_some(),
            }
            rounds += 1;
            self.stuck |= rounds == 100;
            if self.stuck {
                return;
            }
        }
        let mut hole = None;
        if self.case.plugs != Plugs::Nothing && self.clean.len() < low + self.case.segments / 32 {
            hole = self.hole();
        }
        match hole {
            Some(place) => self.put(block, place),
            None => self.append(block),
        }
    }
}

/// None if the volume gets stuck.
fn measure(case: Case) -> Option<Counts> {
    let mut volume = Volume::new(case);
    let mut random = Random::new(1);
    let all = case.segments * case.units;
    let mut run = |volume: &mut Volume, writes| {
        for _ in 0..writes {
            if volume.stuck {
                break;
            }
            let among = match case.hot && !random.once_in(10) {
                true => volume.blocks / 10,
                false => volume.blocks,
            };
            let block = random.below(among as u64) as usize;
            volume.write(block);
        }
    };
    run(&mut volume, 3 * all);
    volume.counts = Counts::default();
    run(&mut volume, all);
    (!volume.stuck).then_some(volume.counts)
}

fn main() {
    println!("load, units of a segment, per cent full, what is plugged, checkpoints:");
    println!("device blocks per user block, of which moved, nodes, maps, summaries");
    let none = (Plugs::Nothing, 32);
    let some = [Plugs::Blocks, Plugs::BlocksAndNodes];
    let some = some.map(|plugs| [24, 32, 48, 64].map(|batch| (plugs, batch)));
    for (hot, units) in [(false, 64), (false, 256), (true, 64), (true, 256)] {
        for percent in [80, 85, 90, 95] {
            for (plugs, batch) in std::iter::once(none).chain(some.concat()) {
                let case = Case {
                    segments: BLOCKS / units - 1,
                    units,
                    percent,
                    plugs,
                    hot,
                    batch,
                };
                let load = if hot { "hot and cold" } else { "uniform" };
                print!("{load}, {units}, {percent} %, {plugs:?}, 1/{batch}");
                let Some(counts) = measure(case) else {
                    println!(": stuck");
                    continue;
                };
                let share = |count: u64| count as f64 / counts.user as f64;
                let parts = [counts.moved, counts.nodes, counts.maps, counts.summaries].map(share);
                let in_all = 1.0 + parts.iter().sum::<f64>();
                println!(" ({}): {in_all:.2} {parts:.2?}", counts.checkpoints);
            }
        }
    }
}
