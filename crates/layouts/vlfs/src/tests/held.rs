//! Space that brief transactions keep, changed inodes, and numbers that cannot have
//! been used.

use super::super::format::{Change, Delta};
use super::*;
use std::io::IoSlice;

fn unlink(system: &System, name: &str) {
    let root = Caller::root();
    system
        .unlink(&root, InodeNo::ROOT, name.as_bytes())
        .unwrap();
    system.fsync(InodeNo::ROOT, false).unwrap();
}

#[test]
fn room_that_waits_for_the_fold_is_no_more_than_half_of_what_is_free() {
    const FILES: u64 = 400;
    for medium in [memory(16 << 20, 4096), memory(16 << 20, 512)] {
        let system = made(&medium, 0);
        // The content is in the inode: a removal gives up nothing else.
        for nth in 0..FILES {
            let file = create(&system, &format!("file{nth}"));
            write(&system, file, 0, b"little").unwrap();
        }
        let filler = create(&system, "filler");
        let mut blocks = 0;
        while system.statfs().free > 200 {
            write(&system, filler, blocks * 4096, &[1; 4096]).unwrap();
            system.fsync(filler, false).unwrap();
            blocks += 1;
        }
        system.checkpoint().unwrap();
        let before = system.layout().statistics();
        for nth in 0..FILES {
            unlink(&system, &format!("file{nth}"));
            let writer = system.layout().writer.lock();
            let (held, free) = (writer.space.held_units(), writer.space.free_blocks());
            // The limit is noticed by the next transaction.
            let most = (free / 2).max(16) + 2;
            assert!(held <= most, "{held} held, {free} free after {nth}");
        }
        let after = system.layout().statistics();
        assert!(after.brief > before.brief + FILES / 2, "{after:?}");
        drop(system);
        sound(&medium);
        let system = again(&medium);
        let root = Caller::root();
        for nth in 0..FILES {
            let name = format!("file{nth}");
            let found = system.lookup(&root, InodeNo::ROOT, name.as_bytes());
            assert!(found.is_err(), "{name} is back");
        }
    }
}

#[test]
fn the_inode_map_says_what_has_changed_since_the_fold() {
    let medium = memory(16 << 20, 4096);
    let system = made(&medium, 0);
    let (old, gone) = (create(&system, "old"), create(&system, "gone"));
    system.checkpoint().unwrap();
    write(&system, old, 0, &[1; 4096]).unwrap();
    let new = create(&system, "new");
    system.fsync(new, false).unwrap();
    system.fsync(old, false).unwrap();
    unlink(&system, "gone");
    drop(system);
    let volume = mounted(&medium);
    assert!(volume.recovery_report().changes > 0);
    let map = volume.inode_map();
    let found = |ino: InodeNo| map[ino.0 as usize];
    assert!(found(old).0.unit().is_some() && found(old).1);
    assert!(found(new).0.unit().is_none() && found(new).1);
    assert!(found(gone).0.unit().is_none() && !found(gone).1);
    assert!(found(InodeNo::ROOT).1, "a name came and one went");
    let checked = check(medium, clock(), true).unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    assert_eq!(checked.usage.inodes, 3);
    assert!(checked.recovery.changes > 0);
}

#[test]
fn a_number_far_beyond_all_others_is_refused() {
    // The image is sparse.
    let medium = memory(2 << 30, 512);
    let options = VlfsFormatOptions {
        unit_bytes: 512,
        inodes: 3 << 20,
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock(), &options).unwrap();
    FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
    let system = again(&medium);
    let file = create(&system, "file");
    system.fsync(file, false).unwrap();
    let measures = *system.layout().measures();
    let unit = system.layout().writer.lock().log.root().unwrap().unit.get();
    drop(system);
    let at = measures.unit_byte(unit);
    let mut bytes = vec![0; 512];
    medium.read(at, &mut bytes).unwrap();
    let sound = Delta::parse(&bytes, unit, &measures).unwrap();
    for (ino, refused) in [(1 << 19, false), (measures.inodes - 1, true)] {
        let mut record = sound.clone();
        let freed = Change::Freed {
            ino,
            next_version: 2,
        };
        record.changes.push((freed, false));
        let bytes = record.encode(&measures);
        medium.write(at, &[IoSlice::new(&bytes)]).unwrap();
        let options = VlfsMountOptions {
            read_only: true,
            ..VlfsMountOptions::default()
        };
        let mount = Vlfs::mount(Arc::clone(&medium), clock(), options);
        match (mount, refused) {
            (Ok(volume), false) => assert_eq!(volume.inode_map().len() as u64, ino + 1),
            (Err(error), true) => {
                let text = error.to_string();
                assert!(text.contains("only"), "{text}");
            }
            (outcome, _) => panic!("number {ino}: {:?}", outcome.err()),
        }
    }
}
