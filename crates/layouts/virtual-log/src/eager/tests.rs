//! The choices compared with a search of all places.

mod hole;

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

    /// Uses `percent` of the blocks, and single units of others.
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

    /// Returns the time from the end of a block to the next free unit of its track; at
    /// most the time to another track of the cylinder.
    fn way_on(&self, block: u64) -> u64 {
        let (track, nth) = self.head.drive.geometry.locate(block * 8);
        let sectors = u64::from(track.sectors);
        let free = |&gap: &u64| {
            let sector = track.first_sector + (u64::from(nth) + 8 + gap) % sectors;
            self.free.mask((sector / 8) as u32) & 1 << (sector % 8) == 0
        };
        let gap = (0..sectors - 8).find(free).unwrap_or(sectors);
        let sector_ns = self.head.drive.rotation.revolution_ns() / sectors;
        (gap * sector_ns).min(self.head.drive.head_switch_ns + self.head.drive.write_settle_ns)
    }
}

const GREEDY: Policy = Policy {
    fill: 0.0,
    leave_early: LeaveEarly::Never,
};

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
fn what_may_lie_anywhere_goes_to_the_nearest_units_that_hold_it() {
    let mut astride = 0;
    for (seed, percent) in [(1, 0), (2, 50), (3, 80), (4, 97)] {
        let mut bench = Bench::new(seed, 6);
        bench.fill(percent);
        for _ in 0..40 {
            let here = bench.draw(3) as u32;
            bench.head.track = TrackId {
                cylinder: here,
                head: bench.draw(16) as u32,
            };
            bench.head.platter_ns += bench.draw(6_000_000);
            let (head, none) = (Some(&bench.head), Avoid::default());
            let chosen = Eager::new(GREEDY).choose(&bench.free, head, Want::Anywhere, none);
            let geometry = &bench.head.drive.geometry;
            let time_to = |unit: u64| {
                let track = geometry.locate(unit).0;
                let ahead = track.id.cylinder >= here && geometry.locate(unit + 7).0 == track;
                (ahead && bench.free.are_free(unit, 8)).then(|| bench.time_to(unit))
            };
            let nearest = (0..geometry.total_sectors() - 7).filter_map(time_to).min();
            assert_eq!(chosen.and_then(time_to), nearest);
            astride += u32::from(chosen.is_some_and(|unit| unit % 8 != 0));
        }
    }
    assert!(astride > 60, "{astride} of 160 lie astride");
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
fn who_is_far_sighted_leaves_the_last_cylinder_when_the_next_sweep_is_sooner() {
    let mut bench = Bench::new(6, 4);
    let cylinder = 32 * 16;
    (0..4 * cylinder).for_each(|block| bench.free.take_block(block));
    bench.head.track = TrackId {
        cylinder: 3,
        head: 0,
    };
    // The only place of the cylinder has just passed the head.
    let here = 3 * cylinder..3 * cylinder + 32;
    let passed = here.max_by_key(|&block| bench.time_to(u64::from(block) * 8));
    let passed = passed.expect("a track has blocks");
    bench.free.give_block(passed);
    (0..16).for_each(|block| bench.free.give_block(block));
    let choose = |mut eager: Eager| {
        let head = Some(&bench.head);
        let unit = eager.choose(&bench.free, head, Want::Block, Avoid::default());
        (unit.expect("a free block") / 8) as u32
    };
    assert_eq!(choose(Eager::new(GREEDY)), passed);
    assert!(choose(Eager::far_sighted(GREEDY)) < 16);
}

#[test]
fn who_is_far_sighted_chooses_block_and_way_on_together() {
    let mut others = 0;
    for (seed, percent) in [(1, 0), (2, 50), (3, 80), (4, 97)] {
        let mut bench = Bench::new(seed, 6);
        bench.fill(percent);
        for _ in 0..40 {
            bench.head.track.head = bench.draw(16) as u32;
            bench.head.platter_ns += bench.draw(6_000_000);
            let choose = |mut eager: Eager| {
                let head = Some(&bench.head);
                let unit = eager.choose(&bench.free, head, Want::Block, Avoid::default());
                unit.expect("a free block") / 8
            };
            let sum = |block: u64| bench.time_to(block * 8) + bench.way_on(block);
            let blocks = 0..bench.head.drive.geometry.total_sectors() / 8;
            let free = blocks.filter(|&block| bench.free.mask(block as u32) == 0);
            let (chosen, nearest) = (
                choose(Eager::far_sighted(GREEDY)),
                choose(Eager::new(GREEDY)),
            );
            assert_eq!(Some(sum(chosen)), free.map(sum).min());
            others += u32::from(sum(nearest) > sum(chosen));
        }
    }
    assert!(others > 20, "{others} of 160 choices were others");
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
fn a_track_is_left_early_where_the_next_empty_one_is_sooner() {
    let mut bench = Bench::new(3, 2);
    let mut choose = |leave_early: LeaveEarly, want: Want| {
        let mut eager = Eager::new(Policy {
            leave_early,
            ..Policy::default()
        });
        let mut free = bench.free.clone();
        let head = &mut bench.head;
        let mut next = |_| {
            let unit = eager.choose(&free, Some(head), want, Avoid::default());
            let unit = unit.expect("an empty drive");
            free.take_units(unit, 8);
            head.track = head.drive.geometry.locate(unit).0.id;
            free.regions().of((unit / 8) as u32)
        };
        // The time stands still, so each block is further from the head than the last
        // one.
        let regions: Vec<usize> = (0..20).map(&mut next).collect();
        regions
            .iter()
            .filter(|&&region| region == regions[0])
            .count()
    };
    for want in [Want::Block, Want::Anywhere] {
        assert_eq!(choose(LeaveEarly::Never, want), 20);
        assert!((1..20).contains(&choose(LeaveEarly::Always, want)));
    }
    assert_eq!(choose(LeaveEarly::DataAnywhere, Want::Block), 20);
    assert!((1..20).contains(&choose(LeaveEarly::DataAnywhere, Want::Anywhere)));
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

#[test]
fn parts_are_the_nearest_or_nearly() {
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
            let part = choose(Want::Part(units));
            if units == 1 {
                assert_eq!(part, choose(Want::Unit));
            }
            let geometry = &bench.head.drive.geometry;
            let of = |unit: u64| {
                let (block, bits) = bench.free.part(unit, units)?;
                let ahead = geometry.locate(unit).0.id.cylinder >= here;
                let fits = bench.free.mask(block) & bits == 0;
                (ahead && fits).then(|| bench.time_to(unit))
            };
            let soonest = (0..geometry.total_sectors()).filter_map(of).min();
            let (time, soonest) = (part.map(|unit| bench.time_to(unit)))
                .zip(soonest)
                .expect("a place ahead");
            assert!((soonest..=soonest + patience).contains(&time));
            let (block, bits) = part.and_then(|unit| bench.free.part(unit, units)).unwrap();
            assert_eq!(bench.free.mask(block) & bits, 0);
        }
    }
}

/// Returns a function that chooses without a head and takes the place, with blocks of
/// eight units.
fn takes_in_order() -> impl FnMut(&mut FreeSpace, Want) -> Option<u64> {
    let mut eager = Eager::new(Policy::default());
    move |free, want| {
        let unit = eager.choose(free, None, want, Avoid::default())?;
        free.take_units(unit, want.units(8));
        Some(unit)
    }
}

#[test]
fn without_a_head_parts_join_what_was_written_last() {
    let mut free = FreeSpace::new(Regions::even(100, 10), 8, 1);
    (0..5).for_each(|block| free.take_block(block));
    let mut choose = takes_in_order();
    assert_eq!(choose(&mut free, Want::Part(5)), Some(40));
    assert_eq!(choose(&mut free, Want::Part(3)), Some(45));
    assert_eq!(choose(&mut free, Want::Part(2)), Some(48));
    assert_eq!(choose(&mut free, Want::Part(7)), Some(56));
    assert_eq!(choose(&mut free, Want::Block), Some(64));
}

#[test]
fn without_a_head_what_may_lie_anywhere_follows_within_its_region() {
    let mut free = FreeSpace::new(Regions::even(20, 10), 8, 1);
    (0..5).for_each(|block| free.take_block(block));
    let mut choose = takes_in_order();
    assert_eq!(choose(&mut free, Want::Unit), Some(40));
    for unit in [41, 49, 57, 65] {
        assert_eq!(choose(&mut free, Want::Anywhere), Some(unit));
    }
    // Seven units are left in the first region.
    for unit in (80..160).step_by(8) {
        assert_eq!(choose(&mut free, Want::Anywhere), Some(unit));
    }
    assert_eq!(choose(&mut free, Want::Anywhere), None);
    free.give_units(43, 8);
    assert_eq!(
        choose(&mut free, Want::Anywhere),
        Some(43),
        "round and round"
    );
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
    // The next map sector is placed next to the last one; data continues behind it.
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
