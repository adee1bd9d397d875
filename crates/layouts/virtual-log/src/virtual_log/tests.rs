//! All live records are reachable after any sequence of writes.

use super::*;
use std::collections::HashMap;

/// The medium: the content of the last record written to each unit.
#[derive(Default)]
struct Medium(HashMap<u64, (u64, u32, [Branch; BRANCHES])>);

impl Medium {
    /// Returns the youngest record of each piece that can be reached from the root.
    fn reach(&self, root: Branch, floor: u64) -> BTreeMap<u32, u64> {
        let mut frontier = BTreeMap::from([(root.seq.get(), root.unit.get())]);
        let mut newest = BTreeMap::new();
        while let Some((seq, unit)) = frontier.pop_last() {
            match self.0.get(&unit) {
                Some((found, piece, branches)) if *found == seq && seq > floor => {
                    newest.entry(*piece).or_insert(seq);
                    let named = branches.iter().filter(|branch| branch.seq.get() > 0);
                    frontier.extend(named.map(|branch| (branch.seq.get(), branch.unit.get())));
                }
                _ => {}
            }
        }
        newest
    }
}

struct Bench {
    log: VirtualLog,
    medium: Medium,
    free: Vec<u64>,
    units: u64,
}

impl Bench {
    fn new() -> Self {
        Bench {
            log: VirtualLog::new(1, 0, 0),
            medium: Medium::default(),
            free: Vec::new(),
            units: 0,
        }
    }

    fn write(&mut self, piece: u32) {
        // The space that was released last is taken first, so that it is reused as soon
        // as possible.
        let unit = self.free.pop().unwrap_or_else(|| {
            self.units += 1;
            self.units
        });
        let appended = self.log.append(piece, unit);
        self.medium
            .0
            .insert(unit, (appended.seq, piece, appended.branches));
        assert_eq!(appended.live as usize, self.log.live());
        let newer = self.log.newer();
        let above = self.log.by_piece.values().filter(|seq| **seq > newer);
        assert_eq!(appended.live_newer as usize, above.count());
        self.free.extend(self.log.reclaim());
        self.log.check();
        assert_eq!(
            self.medium
                .reach(self.log.root().unwrap(), self.log.floor()),
            self.log.by_piece
        );
    }
}

#[test]
fn the_writes_for_which_two_branches_are_not_enough() {
    let mut bench = Bench::new();
    [0, 1, 2, 1, 3, 1]
        .into_iter()
        .for_each(|piece| bench.write(piece));
    assert_eq!(bench.log.live(), 4);
}

#[test]
fn every_short_sequence_of_writes_keeps_every_piece() {
    const PIECES: u32 = 4;
    for number in 0..PIECES.pow(7) {
        let mut bench = Bench::new();
        let mut rest = number;
        for _ in 0..7 {
            bench.write(rest % PIECES);
            rest /= PIECES;
        }
    }
}

#[test]
fn long_random_sequences_keep_little_that_is_dead() {
    for seed in 1..6u64 {
        let (mut bench, mut state, mut most) = (Bench::new(), seed, 0);
        for _ in 0..2000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Half of the writes are to an eighth of the pieces.
            let piece = (state >> 33) % if state >> 63 == 0 { 40 } else { 5 };
            bench.write(piece as u32);
            most = most.max(bench.log.waiting());
        }
        assert!(most <= 6, "{most} dead records kept, seed {seed}");
    }
}

#[test]
fn checkpoints_cut_the_log() {
    let mut bench = Bench::new();
    (0..20).for_each(|nth| bench.write(nth % 7));
    let floor = bench.log.last_seq() - 3;
    let gone = bench.log.truncate(floor);
    bench.log.check();
    assert_eq!((bench.log.live(), gone.len() >= 4), (3, true));
    bench.free.extend(gone);
    (0..30).for_each(|nth| bench.write(nth % 11));
    assert_eq!(bench.log.floor(), floor);
    let all = bench.log.truncate(bench.log.last_seq());
    assert!(bench.log.root().is_none() && !all.is_empty());
    assert_eq!(bench.log.units().count(), 0);
    assert_eq!(
        bench.log.append(0, 5).branches,
        [Branch::default(); BRANCHES]
    );
}

#[test]
fn pieces_that_are_retired_leave_the_rest_within_reach() {
    for seed in 1..6u64 {
        let (mut bench, mut state, mut most) = (Bench::new(), seed, 0);
        let mut slot = 40;
        for _ in 0..3000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match (state >> 33) % 100 {
                // The record appended next is the first that does not count them.
                0..4 => {
                    bench.log.retire(40..);
                    slot = 40;
                    bench.write((state >> 40) as u32 % 40);
                    assert!(bench.log.by_piece.keys().all(|piece| *piece < 40));
                    most = most.max(bench.log.waiting());
                }
                4..20 => slot += 1,
                _ => bench.write(slot),
            }
        }
        assert!(most <= 6, "{most} dead records kept, seed {seed}");
    }
}
