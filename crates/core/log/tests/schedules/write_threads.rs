//! Large groups that threads write: segments filled and handed over while
//! others append, commit and read what is on its way.

use crate::stage::{Stage, create, explore, fill, find, fsync, versions};

/// So many that a group is handed to the threads, and fills segments.
const BLOCKS: usize = 300;

pub fn story() {
    let stage = Stage::sized(32 << 20, 2, 0);
    let large = ["a", "b"].map(|name| create(&stage.system, name));
    let small = create(&stage.system, "c");
    stage.system.sync().unwrap();
    let writers = [0, 1].map(|number| {
        let ino = large[number];
        stage.spawn(move |system, mark| {
            fill(system, ino, BLOCKS, 7);
            fsync(system, ino);
            mark(number as u64);
            assert_eq!(versions(system, ino, BLOCKS), [7; BLOCKS]);
        })
    });
    let beside = stage.spawn(move |system, mark| {
        fill(system, small, 1, 8);
        fsync(system, small);
        mark(2);
        system.drop_caches();
        let seen = versions(system, large[0], BLOCKS);
        // A write of that size goes in steps.
        assert_eq!(seen, vec![7; seen.len()]);
    });
    for thread in writers.into_iter().chain([beside]) {
        thread.join().unwrap();
    }
    stage.cut_at_marks(|marks, system| {
        for mark in marks {
            let (name, blocks, version) = match mark {
                0 => ("a", BLOCKS, 7),
                1 => ("b", BLOCKS, 7),
                _ => ("c", 1, 8),
            };
            let ino = find(system, name).expect("it was synced at first");
            assert_eq!(
                versions(system, ino, blocks),
                vec![version; blocks],
                "{name}"
            );
        }
    });
}

#[test]
fn segments_are_handed_over_whole() {
    explore("segments_are_handed_over_whole", 60, story);
}
