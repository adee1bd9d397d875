//! Aged file systems hold what they are said to, and a seed decides all.

use super::volume::Full;
use super::*;
use std::collections::BTreeSet;

fn make() -> Make {
    Make {
        groups: 4,
        group_blocks: 256,
        ..Profile::Accounts.make()
    }
}

/// Random files beside a sum of what they hold, and the map when all are gone.
#[test]
fn what_files_hold_is_what_is_not_free() {
    let seed = 5;
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    let mut volume = Volume::new(make()).unwrap();
    let directories: Vec<usize> = (0..20).map(|_| volume.mkdir()).collect();
    let empty = volume.map().free_bytes();
    let mut files = BTreeSet::new();
    let mut refused = 0;
    for _ in 0..20_000 {
        let bytes = 1 + random.below(60_000);
        let file = files
            .iter()
            .nth(random.below(files.len() as u64 + 1) as usize);
        match (random.below(5), file.copied()) {
            (0 | 1, _) => match volume.create(*random.pick(&directories), bytes) {
                Ok(file) => drop(files.insert(file)),
                Err(Full) => refused += 1,
            },
            (2, Some(file)) => {
                let before = volume.bytes_of(file);
                match volume.grow(file, bytes) {
                    Ok(()) => {
                        assert_eq!(volume.bytes_of(file), before + bytes.next_multiple_of(1024))
                    }
                    Err(Full) => refused += 1,
                }
            }
            (_, Some(file)) => {
                volume.remove(file);
                files.remove(&file);
            }
            _ => {}
        }
        if random.once_in(500) {
            let held: u64 = files.iter().map(|&file| volume.bytes_of(file)).sum();
            assert_eq!(volume.map().free_bytes(), empty - held);
            let share = 1.0 - volume.map().free_bytes() as f64 / volume.bytes() as f64;
            assert!((volume.utilisation() - share).abs() < 1e-9);
        }
    }
    assert!(refused > 10 && volume.refused() == refused, "{refused}");
    files.iter().for_each(|&file| volume.remove(file));
    assert_eq!(volume.map().free_bytes(), empty);
}

#[test]
fn directories_are_spread_and_files_near_theirs() {
    let mut volume = Volume::new(make()).unwrap();
    let directories: Vec<usize> = (0..4).map(|_| volume.mkdir()).collect();
    for _ in 0..10 {
        volume.create(directories[2], 8192).unwrap();
    }
    let map = serde_json::to_value(volume.map()).unwrap();
    let free_in = |group: usize| -> u64 {
        let runs = map["groups"][group].as_array().unwrap();
        runs.iter().map(|run| run[1].as_u64().unwrap()).sum()
    };
    let used: Vec<u64> = (0..4).map(|group| 256 * 8192 - free_in(group)).collect();
    // A directory in each, and the files with the third.
    assert_eq!(used, [1024, 1024, 1024 + 80 * 1024, 1024]);
}

#[test]
fn a_seed_decides_and_every_profile_lives() {
    for profile in Profile::ALL {
        let aged = age(profile, 30, 16, 7).unwrap();
        let again = age(profile, 30, 16, 7).unwrap();
        assert_eq!((&aged.map, aged.told), (&again.map, again.told));
        let other = age(profile, 30, 16, 8).unwrap();
        assert_ne!(aged.map, other.map);
        let told = aged.told;
        assert!(told.operations > 300, "{}: {told:?}", profile.name());
        assert!(
            (0.05..0.95).contains(&told.utilisation),
            "{}: {told:?}",
            profile.name()
        );
        let refused = told.refused as f64 / told.operations as f64;
        assert!(refused < 0.05, "{}: {told:?}", profile.name());
    }
}

#[test]
fn a_list_is_read_and_played() {
    let text = "# a tree\n100 a/b\n+ 20000 a/c d\n\n> 5000 a/b\n- a/c d\n+ 3 a/b\n- nothing\n";
    let events = parse(text).unwrap();
    assert_eq!(events.len(), 6);
    assert_eq!(events[1], Event::Made(20_000, "a/c d".into()));
    assert_eq!(events[2], Event::Grown(5000, "a/b".into()));
    let aged = age_by(make(), &events).unwrap();
    // A directory and three bytes.
    assert_eq!(aged.map.bytes() - aged.map.free_bytes(), 2048);
    assert_eq!((aged.told.files, aged.told.refused), (1, 0));
    for wrong in ["12", "a b", "+ x y", "> 5", "12 ", "-3 x"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let many: Vec<Event> = (0..100)
        .map(|n| Event::Made(1 << 20, format!("{n}")))
        .collect();
    let aged = age_by(make(), &many).unwrap();
    assert!(aged.told.refused > 80, "{:?}", aged.told);
    let huge = [
        Event::Made(u64::MAX, "x".into()),
        Event::Grown(u64::MAX, "x".into()),
    ];
    assert_eq!(age_by(make(), &huge).unwrap().told.files, 0);
}

#[test]
fn impossible_file_systems_are_refused() {
    for (block_bytes, fragment_bytes) in [(8192, 0), (8192, 512), (8192, 3000), (0, 0)] {
        let make = Make {
            block_bytes,
            fragment_bytes,
            ..make()
        };
        assert!(Volume::new(make).is_err(), "{block_bytes} {fragment_bytes}");
    }
}
