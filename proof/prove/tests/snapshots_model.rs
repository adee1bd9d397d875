//! Explores the abstract model of the rules for snapshots.

use varve_prove::random::{announce_seed, scale};
use varve_prove::snapshots::{Missing, Walks, every, walk};

#[test]
fn each_snapshot_shows_its_moment_whatever_happens() {
    let seed = announce_seed("--test snapshots_model", 1);
    let walks = Walks {
        seed,
        lives: (4_000.0 * scale()) as u64,
        steps: 60,
    };
    assert_eq!(walk(walks, None), None);
}

#[test]
fn every_short_life_keeps_its_snapshots() {
    let states = every(6).unwrap_or_else(|problem| panic!("{problem}"));
    println!("{states} states");
    assert!(states > 10_000, "{states}");
}

#[test]
fn each_rule_is_missed_when_it_is_left_out() {
    for missing in Missing::ALL {
        let walks = Walks {
            seed: 1,
            lives: 60_000,
            steps: 60,
        };
        let story = walk(walks, Some(missing));
        let story = story.unwrap_or_else(|| panic!("no life was broken without {missing:?}"));
        println!("without {missing:?}: {story}");
    }
}
