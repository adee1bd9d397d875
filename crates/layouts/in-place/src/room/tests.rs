//! The free space compared with a model in random operations.

use super::*;
use crate::allocate::Fit;
use crate::{FfsFormatOptions, plan};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use varve_device::MemoryDevice;

fn room(name: &str, fragment_bytes: u32) -> (Policy, Room) {
    room_with(Policy::named(name).unwrap(), fragment_bytes)
}

fn room_with(policy: Policy, fragment_bytes: u32) -> (Policy, Room) {
    let options = FfsFormatOptions {
        fragment_bytes,
        group_blocks: 512,
        seed: Some(1),
        policy,
        ..FfsFormatOptions::default()
    };
    let device = MemoryDevice::with_geometry(varve_device::Geometry {
        size: 16 << 20,
        logical_block: 512,
        physical_block: 512,
    });
    let superblock = plan(&device, &options, 0).unwrap();
    let geometry = Geometry::of(&superblock);
    let mut used = Bits::new(geometry.fragments());
    (0..geometry.fragments()).for_each(|at| used.set(at, true));
    for group in 0..geometry.groups() {
        geometry
            .data_fragments(group)
            .for_each(|at| used.set(at, false));
    }
    let room = Room::new(geometry, &options.policy, used).unwrap();
    (options.policy, room)
}

const POLICIES: [(&str, u32); 9] = [
    ("ffs", 512),
    ("ffs", 1024),
    ("ffs", 4096),
    ("ffs-m8r2", 512),
    ("efs", 4096),
    ("fixed", 0),
    ("extent", 0),
    ("buddy", 0),
    ("restricted", 0),
];

#[test]
fn no_fragment_is_given_twice_and_a_block_that_is_counted_is_had() {
    for (seed, (name, fragment_bytes)) in (0..).zip(POLICIES) {
        eprintln!("{name}, seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (policy, mut room) = room(name, fragment_bytes);
        let all = room.free_fragments();
        let each = room.geometry.block_fragments();
        let mut files: HashMap<u64, FileView> = HashMap::new();
        let mut held: Vec<Extent> = Vec::new();
        let mut given_up: Vec<Extent> = Vec::new();
        let mut refused = 0;
        for _ in 0..6000 {
            let number = rng.random_range(2..60u64);
            let file = *files.entry(number).or_insert_with(|| FileView {
                number,
                home: room
                    .geometry
                    .data_fragments(number % room.geometry.groups())
                    .start,
                ..FileView::default()
            });
            match rng.random_range(0..10) {
                0..4 => {
                    let free = room.free_blocks();
                    let blocks = rng.random_range(1..20);
                    let taken = room.take(&file, blocks * each);
                    assert_eq!(taken.is_some(), free > 0, "{free} blocks are free");
                    refused += u32::from(taken.is_none());
                    let taken = taken.unwrap_or_default();
                    assert_eq!(sum(&taken), blocks.min(free) * each);
                    files.insert(number, file.with(&taken));
                    held.extend(taken);
                }
                4..6 if each > 1 => {
                    let units = rng.random_range(1..each);
                    let taken = room.take(&file, units);
                    assert!(taken.iter().flatten().all(|tail| tail.units == units));
                    held.extend(taken.into_iter().flatten());
                }
                6 => held.extend(room.take_alone(file.home, each)),
                7 if !held.is_empty() => {
                    let at = rng.random_range(0..held.len());
                    let units = held[at].units + 1;
                    if units <= each && room.lengthen(held[at], units) {
                        held[at].units = units;
                    }
                }
                8 if !held.is_empty() => {
                    let extent = held.swap_remove(rng.random_range(0..held.len()));
                    room.give_up(extent);
                    given_up.push(extent);
                    room.close_window(number);
                    files.remove(&number);
                }
                _ => given_up.drain(..).for_each(|extent| room.release(extent)),
            }
        }
        assert!(refused > 0 || held.len() > 100);
        let mut owner = Bits::new(room.geometry.fragments());
        for at in held.iter().flat_map(|extent| extent.start..extent.end()) {
            assert!(!owner.get(at), "{at} twice");
            owner.set(at, true);
        }
        for group in 0..room.geometry.groups() {
            for at in room.geometry.data_fragments(group) {
                assert_eq!(room.used.get(at), owner.get(at), "{at}");
            }
        }
        given_up.drain(..).for_each(|extent| room.release(extent));
        room.close_windows();
        let again = Room::new(room.geometry, &policy, room.used.clone()).unwrap();
        assert_eq!(again.free_blocks(), room.free_blocks());
        assert_eq!(again.free_runs(), room.free_runs(), "as after a mount");
        for extent in held {
            room.give_up(extent);
            room.release(extent);
        }
        assert_eq!(room.free_fragments(), all);
    }
}

/// Two files of a damaged volume have the same space, and both are deleted.
#[test]
fn what_is_given_back_twice_is_free_once() {
    for (name, fragment_bytes) in POLICIES {
        let (_, mut room) = room(name, fragment_bytes);
        let each = room.geometry.block_fragments();
        let all = room.free_fragments();
        let home = room.geometry.data_fragments(1).start;
        let extent = room.take_alone(home, each).unwrap();
        for _ in 0..2 {
            room.give_up(extent);
            room.release(extent);
        }
        assert_eq!(room.free_fragments(), all, "{name}");
    }
}

#[test]
fn a_window_is_the_files_until_others_need_it() {
    let (_, mut room) = room("extent", 0);
    let all = room.free_fragments();
    let home = room.geometry.data_fragments(0).start;
    let file = |number| FileView {
        number,
        home,
        ..FileView::default()
    };
    let (first, second) = (file(7), file(8));
    let a = room.take(&first, 1).unwrap();
    let b = room.take(&second, 1).unwrap();
    let kept = room.window_fragments();
    assert!(kept > 10, "the rest of two extents of 16: {kept}");
    assert_eq!(room.free_fragments(), all - 2);
    // The file continues behind itself, although another file was written in between.
    let more = room.take(&first.with(&a), 1).unwrap();
    assert_eq!(more[0].start, a[0].end());
    assert!(b[0].start > more[0].start);
    room.close_window(8);
    assert!(room.window_fragments() < kept);
    // A caller that wants all the space gets it.
    let mut taken = 3;
    while let Some(found) = room.take(&file(9), 64) {
        taken += sum(&found);
    }
    assert_eq!((taken, room.free_fragments()), (all, 0));
}

/// If no free piece has a buddy's size, the file continues behind its end.
#[test]
fn pieces_are_sought_behind_the_files_end() {
    let (_, mut room) = room("buddy", 0);
    let data = room.geometry.data_fragments(0);
    let taken = room.free_runs();
    assert!(taken.into_iter().all(|run| room.withhold(run)));
    let holes = [data.start, data.start + 20, data.start + 40];
    for start in holes {
        room.free(Extent { start, units: 1 });
    }
    let file = FileView {
        number: 7,
        held: 4,
        end: Some(data.start + 19),
        home: data.start,
        wish: 0,
    };
    let found = room.take(&file, 2).unwrap();
    let starts: Vec<u64> = found.iter().map(|extent| extent.start).collect();
    assert_eq!(starts, holes[1..]);
}

/// Nor does it close a window of another file.
#[test]
fn what_does_not_grow_opens_no_window() {
    let (fit, sizes) = (Fit::First, vec![3]);
    let (_, mut room) = room_with(Policy::Extents { fit, sizes }, 0);
    let home = room.geometry.data_fragments(0).start;
    for number in 2..2 + windows::FILES_MAX as u64 {
        let file = FileView {
            number,
            home,
            ..FileView::default()
        };
        room.take(&file, 1).unwrap();
    }
    let kept = room.window_fragments();
    room.take_alone(home, 1).unwrap();
    assert_eq!(room.window_fragments(), kept);
}
