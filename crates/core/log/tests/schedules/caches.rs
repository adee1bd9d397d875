//! The buffer cache and the inode cache: one file changes, is read, is written
//! back and is forgotten, all at once. Nobody ever sees an older version than
//! the last whose write had returned.

use crate::stage::{Stage, create, explore, fill, find, fsync, unlink, versions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

const VERSIONS: u8 = 4;
const BLOCKS: usize = 3;

pub fn story() {
    let stage = Stage::new(0, 1);
    let ino = create(&stage.system, "a");
    fill(&stage.system, ino, BLOCKS, 1);
    stage.system.sync().unwrap();
    stage.system.drop_caches();
    // Not a checker's: nobody is scheduled by it.
    let written = Arc::new(AtomicU8::new(1));
    let writes = Arc::clone(&written);
    let writer = stage.spawn(move |system, _| {
        for version in 2..=VERSIONS {
            fill(system, ino, BLOCKS, version);
            writes.store(version, SeqCst);
            fsync(system, ino);
        }
    });
    let readers = [0, 1].map(|_| {
        let written = Arc::clone(&written);
        stage.spawn(move |system, _| {
            for _ in 0..4 {
                let oldest = written.load(SeqCst);
                let seen = versions(system, find(system, "a").unwrap(), BLOCKS);
                let newer = seen.len() == BLOCKS && seen.iter().all(|block| *block >= oldest);
                assert!(newer, "{seen:?} after {oldest} was written");
            }
        })
    });
    let forgetful = stage.spawn(|system, _| {
        for _ in 0..5 {
            system.drop_caches();
        }
    });
    let namer = stage.spawn(|system, _| {
        for _ in 0..2 {
            let ino = create(system, "b");
            fill(system, ino, 1, 9);
            assert_eq!(versions(system, ino, 1), [9]);
            unlink(system, "b");
            assert_eq!(find(system, "b"), None);
        }
    });
    for thread in [writer, forgetful, namer].into_iter().chain(readers) {
        thread.join().unwrap();
    }
    assert_eq!(versions(&stage.system, ino, BLOCKS), [VERSIONS; BLOCKS]);
    let stage = stage.remount();
    assert_eq!(versions(&stage.system, ino, BLOCKS), [VERSIONS; BLOCKS]);
    stage.finish();
}

#[test]
fn nobody_sees_an_older_version_than_was_written() {
    explore("nobody_sees_an_older_version_than_was_written", 300, story);
}
