//! Choices against a search of every place.

use std::sync::Arc;

use varve_disk::{Access, Mechanism, TrackId, drives};

use super::*;
use crate::free_space::Regions;
use crate::medium::tracks;

const UNITS: u32 = 8;

struct Bench {
    head: HeadPosition,
    free: FreeSpace,
    state: u64,
}

impl Bench {
    fn new(seed: u64, cylinders: u32) -> Self {
        let drive = Arc::new(drives::st19101().with_cylinders(cylinders));
        let blocks = (drive.geometry.total_sectors() / 8) as u32;
        let mechanism = Mechanism::new(drive.clone(), seed);
        let head = HeadPosition {
            track: mechanism.track(),
            platter_ns: mechanism.platter_ns(0),
            drive: drive.clone(),
        };
        let free = FreeSpace::new(tracks(&drive, blocks, 4096), UNITS, 1);
        Bench {
            head,
            free,
            state: seed,
        }
    }

    fn draw(&mut self, end: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 20) % end
    }

    /// Uses so many percent of the blocks, and single units of others.
    fn fill(&mut self, percent: u64) {
        let blocks = self
            .free
            .regions()
            .blocks(self.free.regions().len() - 1)
            .end;
        for block in 0..blocks {
            match self.draw(100) {
                chance if chance < percent => self.free.take_block(block),
                chance if chance % 10 == 0 => self.free.take(block, 0b11),
                _ => {}
            }
        }
    }

    fn time_to(&self, unit: u64) -> u64 {
        let (track, nth) = self.head.drive.geometry.locate(unit);
        let arrival = self.head.drive.arrival_ns(
            self.head.platter_ns,
            self.head.track,
            track.id,
            Access::Write,
        );
        arrival - self.head.platter_ns + self.head.drive.rotation_to(arrival, &track, nth)
    }
}

const GREEDY: Policy = Policy { fill: 0.0 };

#[test]
fn the_greedy_choice_is_the_nearest_block_ahead() {
    for (seed, percent) in [(1, 0), (2, 50), (3, 80), (4, 97), (5, 99)] {
        let mut bench = Bench::new(seed, 6);
        bench.fill(percent);
        for _ in 0..40 {
            bench.head.track = TrackId {
                cylinder: bench.draw(3) as u32,
                head: bench.draw(16) as u32,
            };
            bench.head.platter_ns += bench.draw(6_000_000);
            let here = bench.head.track.cylinder;
            let mut eager = Eager::new(GREEDY);
            let chosen = eager.choose(
                &bench.free,
                Some(&bench.head),
                Want::Block,
                Avoid::default(),
            );
            let sectors = bench.head.drive.geometry.total_sectors();
            let free = (0..sectors / 8).filter(|&block| bench.free.mask(block as u32) == 0);
            let ahead = free
                .filter(|block| bench.head.drive.geometry.locate(block * 8).0.id.cylinder >= here);
            let nearest = ahead.map(|block| bench.time_to(block * 8)).min();
            assert_eq!(chosen.map(|unit| bench.time_to(unit)), nearest);
        }
    }
}

#[test]
fn the_sweep_starts_over_when_nothing_is_ahead() {
    let mut bench = Bench::new(9, 4);
    let blocks = bench.free.regions().blocks(63).end;
    (40..blocks).for_each(|block| bench.free.take_block(block));
    bench.head.track.cylinder = 3;
    let mut eager = Eager::new(GREEDY);
    let chosen = eager.choose(
        &bench.free,
        Some(&bench.head),
        Want::Block,
        Avoid::default(),
    );
    assert!(chosen.is_some_and(|unit| unit < 40 * 8));
    (0..40).for_each(|block| bench.free.take_block(block));
    let none = eager.choose(&bench.free, Some(&bench.head), Want::Unit, Avoid::default());
    assert_eq!(none, None);
}

#[test]
fn empty_tracks_are_filled_to_the_threshold() {
    let mut bench = Bench::new(3, 2);
    let mut eager = Eager::new(Policy::default());
    let mut last = 0;
    for written in 0..32 * 24 {
        let unit = eager
            .choose(
                &bench.free,
                Some(&bench.head),
                Want::Block,
                Avoid::default(),
            )
            .unwrap();
        let block = (unit / 8) as u32;
        bench.free.take_block(block);
        // 24 of 32 blocks of a track are three quarters.
        let region = bench.free.regions().of(block) as u64;
        assert_eq!(region, written / 24);
        assert!(region >= last);
        last = region;
        bench.head.track = bench.head.drive.geometry.locate(unit).0.id;
        bench.head.platter_ns += 1_000_000;
    }
    assert!(bench.free.empty_regions().is_empty());
    let greedy = eager.choose(
        &bench.free,
        Some(&bench.head),
        Want::Block,
        Avoid::default(),
    );
    assert!(greedy.is_some());
}

#[test]
fn who_fills_holes_leaves_its_own_track_and_empty_ones_alone() {
    let mut bench = Bench::new(4, 2);
    bench.free.take_block(1);
    bench.free.take_block(33);
    let avoid = Avoid {
        region: Some(0),
        empty: true,
        ..Avoid::default()
    };
    let mut eager = Eager::new(Policy::default());
    let chosen = eager.choose(&bench.free, Some(&bench.head), Want::Block, avoid);
    let region = chosen.map(|unit| bench.free.regions().of((unit / 8) as u32));
    assert_eq!(region, Some(1));
    (32..64)
        .filter(|&block| block != 33)
        .for_each(|block| bench.free.take_block(block));
    let chosen = eager.choose(&bench.free, Some(&bench.head), Want::Block, avoid);
    let region = chosen.map(|unit| bench.free.regions().of((unit / 8) as u32));
    assert!(
        region.is_some_and(|region| region > 1),
        "an empty one after all"
    );
}

#[test]
fn map_sectors_prefer_blocks_that_are_broken_already() {
    let mut bench = Bench::new(5, 2);
    let mut eager = Eager::new(GREEDY);
    let first = eager.choose(&bench.free, Some(&bench.head), Want::Unit, Avoid::default());
    let first = first.unwrap();
    let near = ((first / 8 + 1) % 32) as u32;
    bench.free.take(near, 1);
    let second = eager.choose(&bench.free, Some(&bench.head), Want::Unit, Avoid::default());
    assert_eq!(second.map(|unit| unit / 8), Some(u64::from(near)));
}

fn hole(units: u32) -> Want {
    let filled = false;
    Want::Hole { units, filled }
}

#[test]
fn parts_are_the_nearest_or_nearly_and_holes_break_nothing() {
    for (seed, percent) in [(1, 0), (2, 50), (3, 80), (4, 97)] {
        let mut bench = Bench::new(seed, 6);
        bench.fill(percent);
        let patience = bench.head.drive.rotation.revolution_ns() / 32;
        for nth in 0..40 {
            let here = bench.draw(3) as u32;
            bench.head.track = TrackId {
                cylinder: here,
                head: bench.draw(16) as u32,
            };
            bench.head.platter_ns += bench.draw(6_000_000);
            let units = 1 + nth % 7;
            let choose = |want| {
                let mut eager = Eager::new(Policy::default());
                eager.choose(&bench.free, Some(&bench.head), want, Avoid::default())
            };
            let (part, a_hole) = (choose(Want::Part(units)), choose(hole(units)));
            if units == 1 {
                assert_eq!(part, choose(Want::Unit));
            }
            let geometry = &bench.head.drive.geometry;
            let nearest = |holes: bool| {
                let of = |unit: u64| {
                    let (block, bits) = bench.free.part(unit, units)?;
                    let mask = bench.free.mask(block);
                    let ahead = geometry.locate(unit).0.id.cylinder >= here;
                    let fits = mask & bits == 0 && (mask != 0 || !holes);
                    (ahead && fits).then(|| bench.time_to(unit))
                };
                (0..geometry.total_sectors()).filter_map(of).min()
            };
            assert_eq!(a_hole.map(|unit| bench.time_to(unit)), nearest(true));
            let times = part.map(|unit| bench.time_to(unit)).zip(nearest(false));
            let (time, soonest) = times.expect("a place ahead");
            assert!((soonest..=soonest + patience).contains(&time));
            for unit in [part, a_hole].into_iter().flatten() {
                let (block, bits) = bench.free.part(unit, units).expect("in one block");
                assert_eq!(bench.free.mask(block) & bits, 0);
            }
        }
    }
}

#[test]
fn without_a_head_parts_join_what_was_written_last() {
    let mut free = FreeSpace::new(Regions::even(100, 10), 8, 1);
    (0..5).for_each(|block| free.take_block(block));
    let mut eager = Eager::new(Policy::default());
    let mut choose = |free: &mut FreeSpace, want: Want| {
        let unit = eager.choose(free, None, want, Avoid::default())?;
        free.take_part(unit, want.units(8));
        Some(unit)
    };
    assert_eq!(choose(&mut free, Want::Part(5)), Some(40));
    assert_eq!(choose(&mut free, Want::Part(3)), Some(45));
    assert_eq!(choose(&mut free, Want::Part(2)), Some(48));
    assert_eq!(choose(&mut free, Want::Part(7)), Some(56));
    // No hole is large enough, then one is, wherever it is.
    assert_eq!(choose(&mut free, hole(7)), None);
    free.give(2, 0b111_1111);
    assert_eq!(choose(&mut free, hole(7)), Some(16));
    assert_eq!(choose(&mut free, Want::Block), Some(64));
    // One that is filled, though another one comes first.
    free.give(1, 0b1111);
    free.give(3, 0b110_0110);
    let filled = |units| Want::Hole {
        units,
        filled: true,
    };
    assert_eq!(choose(&mut free, filled(3)), None);
    assert_eq!(choose(&mut free, filled(2)), Some(25));
    assert_eq!(choose(&mut free, hole(2)), Some(8));
    assert_eq!(choose(&mut free, filled(6)), Some(50));
}

#[test]
fn without_a_head_places_follow_each_other() {
    let mut free = FreeSpace::new(Regions::even(100, 10), 4, 1);
    (0..5).for_each(|block| free.take_block(block));
    let mut eager = Eager::new(Policy::default());
    let mut choose = |free: &mut FreeSpace, want, avoid| {
        let unit = eager.choose(free, None, want, avoid);
        match (unit, want) {
            (Some(unit), Want::Block) => free.take_block((unit / 4) as u32),
            (Some(unit), Want::Unit) => free.take_unit(unit),
            _ => {}
        }
        unit
    };
    let none = Avoid::default();
    assert_eq!(choose(&mut free, Want::Block, none), Some(20));
    assert_eq!(choose(&mut free, Want::Unit, none), Some(24));
    // The next map sector joins the last; data goes on behind it.
    assert_eq!(choose(&mut free, Want::Block, none), Some(28));
    assert_eq!(choose(&mut free, Want::Unit, none), Some(25));
    assert_eq!(choose(&mut free, Want::Block, none), Some(32));
    for _ in 0..200 {
        choose(&mut free, Want::Block, none);
    }
    assert_eq!(choose(&mut free, Want::Block, none), None);
    free.give_block(3);
    assert_eq!(
        choose(&mut free, Want::Block, none),
        Some(12),
        "round and round"
    );
}

#[test]
fn single_blocks_wait_while_there_are_pairs_near() {
    let mut free = FreeSpace::new(Regions::even(1000, 10), 1, 8);
    let used = |block: &u32| ![3, 10, 11, 990].contains(block);
    (0..1000)
        .filter(used)
        .for_each(|block| free.take_block(block));
    let mut eager = Eager::new(Policy::default());
    let avoid = Avoid {
        single: true,
        ..Avoid::default()
    };
    let mut choose = || {
        let unit = eager.choose(&free, None, Want::Block, avoid)?;
        free.take_block(unit as u32);
        Some(unit)
    };
    let chosen: Vec<_> = std::iter::from_fn(&mut choose).collect();
    assert_eq!(chosen, [10, 11, 990, 3]);
}
