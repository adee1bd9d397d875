//! fsyncs that share captures and flushes: what one was told is durable is.

use crate::stage::{Stage, create, explore, fill, find, fsync, versions};

/// Versions each of three threads writes and syncs.
const VERSIONS: u8 = 2;
const BLOCKS: usize = 2;

pub fn story() {
    let stage = Stage::new(1, 0);
    let inos = ["a", "b", "c"].map(|name| create(&stage.system, name));
    stage.system.sync().unwrap();
    let threads = [0, 1, 2].map(|number| {
        let ino = inos[number];
        stage.spawn(move |system, mark| {
            for version in 1..=VERSIONS {
                fill(system, ino, BLOCKS, version);
                fsync(system, ino);
                mark(number as u64 * 100 + u64::from(version));
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    stage.cut_at_marks(|marks, system| {
        for mark in marks {
            let (file, version) = ((mark / 100) as usize, (mark % 100) as u8);
            let ino = find(system, ["a", "b", "c"][file]).expect("it was synced at first");
            let found = versions(system, ino, BLOCKS);
            let kept = found.len() == BLOCKS && found.iter().all(|block| *block >= version);
            assert!(kept, "file {file}: {version} was synced, found {found:?}");
        }
    });
}

#[test]
fn what_one_of_many_syncs_was_told_is_durable() {
    explore("what_one_of_many_syncs_was_told_is_durable", 500, story);
}
