//! Room beside a map of who has what, under random operations.

use super::*;
use crate::{FfsFormatOptions, plan};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use varve_device::MemoryDevice;

fn room(fragment_bytes: u32) -> Room {
    let options = FfsFormatOptions {
        fragment_bytes,
        group_blocks: 512,
        seed: Some(1),
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
    Room::new(geometry, used)
}

#[test]
fn no_fragment_is_given_twice_and_counts_are_those_of_the_maps() {
    for seed in 0..6 {
        eprintln!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut room = room(1024 << (seed % 3));
        let each = room.geometry.block_fragments();
        let mut held: Vec<Extent> = Vec::new();
        let mut given_up: Vec<Extent> = Vec::new();
        for _ in 0..4000 {
            let near = rng.random_range(0..room.geometry.fragments());
            let taken = match rng.random_range(0..10) {
                0..3 => room.block(near),
                3 => room.run(near, rng.random_range(1..20)),
                4..7 if each > 1 => room.fragments(near, rng.random_range(1..each)),
                7 if !held.is_empty() => {
                    let at = rng.random_range(0..held.len());
                    let count = held[at].count + 1;
                    if count <= each && room.lengthen(held[at], count) {
                        held[at].count = count;
                    }
                    None
                }
                8 if !held.is_empty() => {
                    let extent = held.swap_remove(rng.random_range(0..held.len()));
                    let within =
                        |at: u64| (at / each * each + each).min(extent.fragment + extent.count);
                    let mut at = extent.fragment;
                    while at < extent.fragment + extent.count {
                        let part = Extent {
                            fragment: at,
                            count: within(at) - at,
                        };
                        room.give_up(part);
                        given_up.push(part);
                        at = within(at);
                    }
                    None
                }
                _ => {
                    given_up.drain(..).for_each(|extent| room.release(extent));
                    None
                }
            };
            held.extend(taken);
        }
        let mut owner = Bits::new(room.geometry.fragments());
        for extent in &held {
            for at in extent.fragment..extent.fragment + extent.count {
                assert!(!owner.get(at), "{at} twice");
                owner.set(at, true);
            }
        }
        for group in 0..room.geometry.groups() {
            for at in room.geometry.data_fragments(group) {
                assert_eq!(room.used.get(at), owner.get(at), "{at}");
            }
        }
        let again = Room::new(room.geometry, room.busy.clone());
        assert_eq!(again.free_blocks, room.free_blocks);
        assert_eq!(again.free_fragments, room.free_fragments);
    }
}

#[test]
fn a_tail_goes_where_it_fits_best_and_grows_in_place() {
    let mut room = room(512);
    let near = room.geometry.data_fragments(0).start;
    let three = room.fragments(near, 3).unwrap();
    let two = room.fragments(near, 2).unwrap();
    assert_eq!(two.fragment, three.fragment + 3);
    // 3 are left behind them: another block has 4.
    let four = room.fragments(near, 4).unwrap();
    assert_ne!(room.block_of(four.fragment), room.block_of(two.fragment));
    assert_eq!(room.fragments(near, 3).unwrap().fragment, two.fragment + 2);
    assert!(room.lengthen(four, 8) && !room.lengthen(two, 3));
}

#[test]
fn a_file_is_laid_behind_itself_and_a_cluster_is_found() {
    let mut room = room(4096);
    let near = room.geometry.data_fragments(1).start;
    let first = room.run(near, 20).unwrap();
    assert_eq!((first.fragment, first.count), (near, 20));
    let hole = Extent {
        fragment: near + 5,
        count: 1,
    };
    room.give_up(hole);
    room.release(hole);
    // One block is free near it, eight behind each other are not.
    assert_eq!(room.run(near, 8).unwrap().fragment, near + 20);
    assert_eq!(room.block(near).unwrap(), hole);
    // A full group sends what follows to another.
    while room.groups[1].free_blocks > 0 {
        assert!(
            room.geometry
                .data_fragments(1)
                .contains(&room.block(near).unwrap().fragment)
        );
    }
    assert!(
        !room
            .geometry
            .data_fragments(1)
            .contains(&room.block(near).unwrap().fragment)
    );
}
