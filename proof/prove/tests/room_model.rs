//! Explores the abstract model of the rules for free space.

use varve_prove::random::{Random, announce_seed, scaled};
use varve_prove::room::{
    Broken, Explored, Geometry, Limits, Missing, Rules, batch_for, explore, explore_from, filled,
    slack_for, walk,
};

/// A volume with one block of the map and one block of the directory.
const SMALL: Geometry = Geometry {
    segments: 8,
    slots: 3,
    per_map: 16,
    per_directory: 16,
    files: 9,
    largest: 1,
};

fn told(what: &str, explored: &Explored) {
    let Explored { states, broken, .. } = explored;
    println!("{what}: {states} states, {broken:?}");
}

/// Explores every state, with crashes at any step.
fn explored(geometry: Geometry, rules: Rules) -> Explored {
    let explored = explore(geometry, rules, Limits::exhaustive(10_000_000));
    told(&format!("{geometry:?} {rules:?}"), &explored);
    explored
}

/// A batch of this size and the least slack with which the exploration finds no error.
#[test]
fn every_removal_is_admitted_and_room_is_back() {
    let mut volumes = vec![(SMALL, 7, 0), (SMALL, 6, 3), (SMALL, 5, 4)];
    if scaled(1) > 1 {
        let two_maps = Geometry {
            per_map: 8,
            per_directory: 8,
            ..SMALL
        };
        let large_files = Geometry {
            largest: 2,
            ..SMALL
        };
        volumes.extend([(SMALL, 4, 6), (two_maps, 5, 6), (large_files, 5, 6)]);
    }
    for (geometry, batch, slack) in volumes {
        let rules = Rules::new(batch, slack);
        let explored = explored(geometry, rules);
        assert_eq!(explored.broken, None);
        assert!(explored.complete && explored.states > 4000, "{explored:?}");
        // The volume was as full as the rules allow.
        let held = rules.floor() + slack + 2 * geometry.slots;
        assert_eq!(explored.fullest + held, geometry.segments * geometry.slots);
    }
}

#[test]
fn a_smaller_batch_lets_a_removal_be_refused() {
    for (batch, slack) in [(6, 0), (4, 3), (3, 4)] {
        let explored = explored(SMALL, Rules::new(batch, slack));
        let (broken, _) = explored.broken.expect("too small a batch is missed");
        assert_eq!(broken, Broken::RemovalRefused);
    }
}

#[test]
fn each_rule_is_missed_when_it_is_left_out() {
    for missing in Missing::ALL {
        let mut rules = Rules::new(5, 4);
        if missing == Missing::RemovalsUseTheFloor {
            (rules.more, rules.slack) = (4, 0);
        }
        rules.missing = Some(missing);
        let explored = explored(SMALL, rules);
        if missing == Missing::AppendedFirst {
            assert!(explored.complete, "somebody misses {missing:?} after all");
            continue;
        }
        let (broken, story) = explored
            .broken
            .unwrap_or_else(|| panic!("nobody misses {missing:?}"));
        println!("without {missing:?}: {story}");
        assert!(
            matches!(broken, Broken::RemovalRefused | Broken::Stuck),
            "{broken:?}"
        );
    }
}

/// A power cut before the record of a checkpoint loses what the checkpoint wrote, and its
/// changes still have to be folded. No batch of this size suffices for that.
#[test]
fn a_torn_checkpoint_takes_room_for_good() {
    let mut limits = Limits::exhaustive(1_000_000);
    limits.torn = 1;
    let explored = explore(SMALL, Rules::new(5, 4), limits);
    told("a torn checkpoint", &explored);
    assert!(explored.broken.is_some());
}

/// Volumes that are too large to be explored fully are filled and then explored by random
/// walks.
#[test]
fn larger_volumes_are_emptied_with_two_generations_of_metadata_in_the_batch() {
    let seed = announce_seed("larger_volumes_are_emptied", 1);
    // Segments, slots, and the number of inode numbers and of names in a block.
    let volumes = [(12, 6, 60, 60), (12, 6, 8, 60), (12, 6, 60, 8)];
    for (nth, (segments, slots, per_map, per_directory)) in volumes.into_iter().enumerate() {
        let geometry = Geometry {
            segments,
            slots,
            per_map,
            per_directory,
            files: 44,
            largest: 1,
        };
        let mut refused = 0;
        for life in 0..scaled(1) {
            let mut random = Random::new(seed + life);
            // The metadata of the volume is as large as possible with the batch set
            // aside.
            let full = filled(geometry, &Rules::new(batch_for(4), 0), &mut random);
            let metadata = 2 + full.maps() + full.directories();
            let rules = Rules::new(batch_for(metadata), 0);
            let full = filled(geometry, &rules, &mut random);
            let hunt = explore_from(full.clone(), rules, Limits::hunt(60));
            told(&format!("{geometry:?}, metadata {metadata}"), &hunt);
            assert_eq!(hunt.broken, None);
            let few = Rules::new(metadata - metadata / 4, 0);
            let full = filled(geometry, &few, &mut random);
            refused += u32::from(explore_from(full, few, Limits::hunt(60)).broken.is_some());
        }
        assert!(refused > 0, "volume {nth}: less would do");
    }
}

/// Blocks that change when something moves, such as those of the map and index nodes,
/// count twice. A quarter of them is too little, and so is half.
#[test]
fn what_a_move_changes_counts_twice() {
    let seed = announce_seed("what_a_move_changes", 1);
    for (segments, slots, files) in [(16, 8, 70), (14, 6, 44)] {
        let geometry = Geometry {
            segments,
            slots,
            per_map: 4,
            per_directory: 60,
            files,
            largest: 1,
        };
        for life in 0..scaled(1) {
            let with = |rules: Rules| filled(geometry, &rules, &mut Random::new(seed + life));
            let full = with(Rules::new(batch_for(4), 0));
            let kept = batch_for(2 + full.directories());
            let refused = [1, 2, 8].map(|quarters| {
                let rules = Rules::new(kept + full.maps() * quarters / 4, 0);
                let hunt = explore_from(with(rules), rules, Limits::hunt(60));
                told(&format!("{geometry:?}, {quarters} quarters"), &hunt);
                hunt.broken.is_some()
            });
            assert_eq!(refused, [true, true, false]);
        }
    }
}

/// Directory blocks need no reserve of their own where the low watermark and the slack let
/// a batch free space wherever the dead slots are, because moving one changes no other
/// block of a directory.
#[test]
fn directories_need_no_floor_of_their_own_where_a_batch_gains() {
    let seed = announce_seed("directories_need_no_floor", 1);
    let geometry = Geometry {
        segments: 16,
        slots: 8,
        per_map: 60,
        per_directory: 4,
        files: 70,
        largest: 1,
    };
    for floor in [16, 20, 24] {
        let rules = Rules::new(floor, slack_for(floor, &geometry, 2));
        for life in 0..2 * scaled(1) {
            let full = filled(geometry, &rules, &mut Random::new(seed + life));
            let directories = full.directories();
            let hunt = explore_from(full, rules, Limits::hunt(60));
            told(
                &format!("{rules:?}, {directories} blocks of directories"),
                &hunt,
            );
            assert_eq!(hunt.broken, None);
            assert!(directories * 2 > floor / 2);
        }
    }
}

/// A full volume can be overwritten without end if the low watermark and the slack
/// together let a batch free space wherever the dead slots are. Without the slack most
/// overwrites are refused, but no removal.
#[test]
fn a_full_volume_is_overwritten_for_ever_with_floor_and_slack() {
    let seed = announce_seed("a_full_volume_is_overwritten", 1);
    let geometry = Geometry {
        segments: 20,
        slots: 8,
        per_map: 40,
        per_directory: 200,
        files: 110,
        largest: 1,
    };
    let maps = 3;
    for floor in [24, 32] {
        let slack = slack_for(floor, &geometry, maps);
        let with = |slack: usize| {
            let mut random = Random::new(seed);
            walk(geometry, &Rules::new(floor, slack), scaled(4), &mut random)
        };
        let walked = with(slack);
        println!("floor {floor} slack {slack}: {walked:?}");
        assert_eq!(walked.broken, None);
        assert!(walked.overwrites.0 > 100);
        assert_eq!(walked.overwrites.1, 0);
        let walked = with(0);
        println!("floor {floor} slack 0: {walked:?}");
        assert_eq!(walked.broken, None);
        assert!(walked.overwrites.1 > 0, "slack is good for nothing");
    }
}
