//! Commits that share groups and flushes, locks that are given up before the flush,
//! and who reads what they let be seen.

use crate::stage::{BLOCK, Stage, create, explore, fill, find, versions};
use std::sync::Arc;
use varve_fs::{Error, FileSystem, InodeNo, Isolation, Transaction, TransactionOptions};
use varve_lfs::Lfs;

type Fs = FileSystem<Lfs>;

fn begin(fs: &Arc<Fs>, isolation: Isolation) -> Transaction<Lfs> {
    let options = TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    };
    fs.begin_transaction(&options).unwrap()
}

fn version(fs: &Fs, ino: InodeNo) -> u8 {
    versions(fs, ino, 1)[0]
}

/// Each of three threads changes two files at a time.
pub fn commits() {
    const NAMES: [[&str; 2]; 3] = [["a", "b"], ["c", "d"], ["e", "f"]];
    let stage = Stage::new(1, 0);
    let pairs = NAMES.map(|pair| pair.map(|name| create(&stage.system, name)));
    for ino in pairs.iter().flatten() {
        fill(&stage.system, *ino, 1, 0);
    }
    stage.system.sync().unwrap();
    let threads = [0, 1, 2].map(|number: usize| {
        let (fs, pair) = (Arc::clone(&stage.system), pairs[number]);
        stage.spawn(move |_, mark| {
            for version in 1..=2 {
                let txn = begin(&fs, Isolation::Snapshot);
                pair.iter().for_each(|ino| fill(&txn, *ino, 1, version));
                txn.commit().unwrap();
                mark(number as u64 * 100 + u64::from(version));
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    stage.cut_at_marks(|marks, fs| {
        let pairs = NAMES.map(|pair| pair.map(|name| find(fs, name).expect("synced at first")));
        let found = pairs.map(|pair| pair.map(|ino| version(fs, ino)));
        assert!(found.iter().all(|[a, b]| a == b), "torn: {found:?}");
        for mark in marks {
            let (number, version) = ((mark / 100) as usize, (mark % 100) as u8);
            assert!(
                found[number][0] >= version,
                "{mark} was committed: {found:?}"
            );
        }
    });
}

/// One commits and waits for nothing. What others read of it is durable when their
/// commits return, although they changed nothing.
pub fn readers() {
    let stage = Stage::new(1, 0);
    let ino = create(&stage.system, "a");
    fill(&stage.system, ino, 1, 0);
    stage.system.sync().unwrap();
    let fs = Arc::clone(&stage.system);
    let writer = stage.spawn(move |_, _| {
        for version in 1..=2 {
            let txn = begin(&fs, Isolation::Locking);
            fill(&txn, ino, 1, version);
            drop(txn.commit_async().unwrap());
        }
    });
    let readers = [Isolation::Snapshot, Isolation::Locking].map(|isolation| {
        let fs = Arc::clone(&stage.system);
        stage.spawn(move |_, mark| {
            for _ in 0..2 {
                let txn = begin(&fs, isolation);
                let seen = version(&txn, ino);
                txn.commit().unwrap();
                mark(u64::from(seen));
            }
        })
    });
    writer.join().unwrap();
    for reader in readers {
        reader.join().unwrap();
    }
    stage.cut_at_marks(|marks, fs| {
        let found = version(fs, find(fs, "a").expect("synced at first"));
        let seen = marks.iter().max().copied().unwrap_or(0);
        assert!(
            u64::from(found) >= seen,
            "{seen} was seen, {found} is there"
        );
    });
}

/// Threads that add to one number, each behind the other's lock.
pub fn counters() {
    let stage = Stage::new(1, 0);
    let ino = create(&stage.system, "a");
    fill(&stage.system, ino, 1, 0);
    stage.system.sync().unwrap();
    let threads = [0, 1].map(|_| {
        let fs = Arc::clone(&stage.system);
        stage.spawn(move |_, _| {
            let mut added = 0;
            while added < 2 {
                let txn = begin(&fs, Isolation::Locking);
                match add(&txn, ino) {
                    Ok(()) => {
                        drop(txn.commit_async().unwrap());
                        added += 1;
                    }
                    Err(Error::Deadlock) => {} // both read, and want to write
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(version(&stage.system, ino), 4, "an update is lost");
    stage.finish();
}

fn add(txn: &Fs, ino: InodeNo) -> varve_fs::Result<()> {
    let mut block = [0; BLOCK];
    txn.read(ino, 0, &mut block)?;
    let more = [block[0] + 1; BLOCK];
    txn.write(&varve_fs::Caller::root(), ino, 0, &more)?;
    Ok(())
}

#[test]
fn commits_that_share_a_flush_are_whole_and_durable() {
    explore("commits_that_share_a_flush", 60, commits);
}

#[test]
fn who_read_what_is_not_durable_waits_for_it() {
    explore("who_read_what_is_not_durable", 60, readers);
}

#[test]
fn locks_are_given_up_and_waiters_woken() {
    explore("locks_are_given_up", 60, counters);
}
