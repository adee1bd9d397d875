//! Remembered ways beside removals and renames: who enters by one is in a
//! directory that its path led to while he entered, and that stays while he
//! holds it.

use crate::stage::{Stage, explore};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Rename};
use varve_lfs::Lfs;

const PATH: &[u8] = b"a/b";

fn make(system: &FileSystem<Lfs>, parent: InodeNo, name: &str) -> InodeNo {
    let made = system.mkdir(&Caller::root(), parent, name.as_bytes(), 0o755);
    made.unwrap().ino
}

pub fn story() {
    let stage = Stage::new(0, 0);
    let above = make(&stage.system, InodeNo::ROOT, "a");
    make(&stage.system, above, "b");
    stage.system.sync().unwrap();
    // Not a checker's: nobody is scheduled by it. Those that have left the
    // path for good; none of them is freed, so no number comes twice.
    let former = Arc::new(Mutex::new(HashSet::new()));
    let leaves = Arc::clone(&former);
    let mover = stage.spawn(move |system, _| {
        for round in 0..3 {
            let caller = Caller::root();
            let (old, new) = (b"b".as_slice(), format!("old{round}"));
            let there = system.lookup(&caller, above, old).unwrap().ino;
            let flags = Rename::default();
            let moved = system.rename(&caller, above, old, above, new.as_bytes(), flags);
            moved.unwrap();
            leaves.lock().unwrap().insert(there);
            make(system, above, "b");
        }
    });
    let enterers = [0, 1].map(|_| {
        let former = Arc::clone(&former);
        stage.spawn(move |system, _| {
            for _ in 0..4 {
                let left = former.lock().unwrap().clone();
                match system.directory_at(&Caller::root(), PATH) {
                    Err(Error::NotFound) => {}
                    entered => {
                        let ino = entered.unwrap().unwrap();
                        assert!(!left.contains(&ino), "{ino:?} had left before");
                        system.release(ino, 1);
                    }
                }
            }
        })
    });
    for thread in [mover].into_iter().chain(enterers) {
        thread.join().unwrap();
    }
    stage.finish();
}

/// The directory is removed, and freed unless somebody holds it.
pub fn removal() {
    let stage = Stage::new(0, 0);
    let above = make(&stage.system, InodeNo::ROOT, "a");
    make(&stage.system, above, "b");
    let remover = stage.spawn(move |system, _| {
        for _ in 0..3 {
            system.rmdir(&Caller::root(), above, b"b").unwrap();
            make(system, above, "b");
        }
    });
    let enterer = stage.spawn(|system, _| {
        for _ in 0..6 {
            match system.directory_at(&Caller::root(), PATH) {
                Err(Error::NotFound) => {}
                entered => {
                    let ino = entered.unwrap().unwrap();
                    system.getattr(ino).expect("held, and so not freed");
                    system.release(ino, 1);
                }
            }
        }
    });
    remover.join().unwrap();
    enterer.join().unwrap();
    assert_eq!(stage.system.usage().inodes, 3);
    stage.finish();
}

#[test]
fn a_way_leads_where_its_path_does() {
    explore("a_way_leads_where_its_path_does", 300, story);
}

#[test]
fn what_was_entered_is_not_freed() {
    explore("what_was_entered_is_not_freed", 300, removal);
}
