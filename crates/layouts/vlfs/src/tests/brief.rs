//! Brief transactions: records of changes, and their state after a crash.

use super::super::format::{CHANGES, Change, Delta};
use super::*;
use std::io::IoSlice;
use varve_fs::Inode;

const BLOCKS: u64 = 200;

fn media() -> [Arc<dyn Medium>; 3] {
    [memory(16 << 20, 4096), memory(16 << 20, 512), drive()]
}

/// Creates a volume with a file whose index has nodes, all of it in a checkpoint.
fn with_file(medium: &Arc<dyn Medium>) -> (System, InodeNo) {
    let system = made(medium, 0);
    let file = create(&system, "file");
    let content: Vec<u8> = (0..BLOCKS).flat_map(|n| [n as u8; 4096]).collect();
    write(&system, file, 0, &content).unwrap();
    system.checkpoint().unwrap();
    (system, file)
}

fn update(system: &System, file: InodeNo, block: u64, byte: u8) {
    write(system, file, block * 4096, &[byte; 4096]).unwrap();
    system.fsync(file, false).unwrap();
}

#[test]
fn small_updates_write_a_block_and_a_record_and_survive() {
    for medium in media() {
        let (mut system, file) = with_file(&medium);
        let mut expected: Vec<u8> = (0..BLOCKS).map(|n| n as u8).collect();
        for life in 0..4u64 {
            for nth in 0..60 {
                // Some blocks are written again and again, in the same slot and in
                // others.
                let block = (nth * nth * 7 + life) % 90 * 2;
                let byte = (life * 60 + nth) as u8;
                update(&system, file, block, byte);
                expected[block as usize] = byte;
            }
            let counts = system.layout().statistics();
            assert!(counts.brief >= 50, "{counts:?}");
            if life == 2 {
                system.checkpoint().unwrap();
                assert_eq!(system.layout().writer.lock().unfolded.used(), 0);
            }
            drop(system);
            sound(&medium);
            system = again(&medium);
            let changes = system.layout().recovery_report().changes;
            assert_eq!(changes > 0, life != 2, "{changes} in life {life}");
            for (block, byte) in (0..).zip(&expected) {
                let found = read(&system, file, block * 4096, 4096);
                assert!(found == [*byte; 4096], "block {block} in life {life}");
            }
        }
        system.unmount().unwrap();
        system.layout().unmount().unwrap();
        sound(&medium);
        assert_eq!(mounted(&medium).recovery_report().changes, 0);
    }
}

#[test]
fn files_come_and_go_between_two_folds() {
    for medium in media() {
        let (system, _) = with_file(&medium);
        let root = Caller::root();
        // A block and a tail, with every possible number of sectors.
        let length = |round: u8| 4096 + 512 * (1 + usize::from(round) % 8);
        let synced = |system: &System| system.fsync(InodeNo::ROOT, false).unwrap();
        for round in 0..12u8 {
            let name = format!("f{}", round % 3);
            let unlinked = system.unlink(&root, InodeNo::ROOT, name.as_bytes());
            assert_eq!(unlinked.is_ok(), round >= 3);
            synced(&system);
            let made = create(&system, &name);
            write(&system, made, 0, &[round; 8192][..length(round)]).unwrap();
            system.fsync(made, false).unwrap();
        }
        // The space of the file's index must not be reused before the fold.
        system.unlink(&root, InodeNo::ROOT, b"file").unwrap();
        synced(&system);
        let other = create(&system, "other");
        for block in 0..100 {
            update(&system, other, block, block as u8);
        }
        drop(system);
        sound(&medium);
        let system = again(&medium);
        let found = |name: &str| {
            let found = system.lookup(&root, InodeNo::ROOT, name.as_bytes());
            found.ok().map(|found| found.ino)
        };
        assert_eq!((found("file"), found("other")), (None, Some(other)));
        for (nth, round) in (9..12u8).enumerate() {
            let ino = found(&format!("f{nth}")).expect("the last of its name");
            assert!(read(&system, ino, 0, 9000) == [round; 8192][..length(round)]);
        }
        // No number is allocated twice.
        let more: Vec<InodeNo> = (0..5)
            .map(|nth| create(&system, &format!("more{nth}")))
            .collect();
        assert!(more.iter().all(|ino| *ino != other));
        system.sync().unwrap();
        drop(system);
        sound(&medium);
    }
}

#[test]
fn a_full_volume_takes_updates_for_ever() {
    for medium in [memory(6 << 20, 4096), memory(6 << 20, 512)] {
        let system = made(&medium, 0);
        let file = create(&system, "file");
        let mut blocks = 0;
        while write(&system, file, blocks * 4096, &[1; 4096]).is_ok() {
            blocks += 1;
        }
        system.sync().unwrap();
        for nth in 0..600 {
            update(&system, file, nth * 37 % blocks, nth as u8);
        }
        assert!(system.layout().stopped().is_none());
        drop(system);
        sound(&medium);
        let system = again(&medium);
        update(&system, file, 0, 77);
        assert!(read(&system, file, 0, 4096) == [77; 4096]);
    }
}

#[test]
fn without_slots_every_transaction_is_full() {
    let medium = memory(16 << 20, 4096);
    let options = VlfsFormatOptions {
        slots: Some(0),
        ..VlfsFormatOptions::default()
    };
    let made = format(&*medium, &*clock(), &options).unwrap();
    assert_eq!(made.incompat.get() & CHANGES, 0);
    FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
    let system = again(&medium);
    let file = create(&system, "file");
    (0..20).for_each(|nth| update(&system, file, nth, 1));
    let counts = system.layout().statistics();
    assert_eq!(counts.brief, 0);
    assert!(counts.transactions >= 20);
    drop(system);
    sound(&medium);
    assert!(read(&again(&medium), file, 19 * 4096, 4096) == [1; 4096]);
}

#[test]
fn changes_that_contradict_the_tree_are_refused() {
    let medium = memory(16 << 20, 4096);
    let (system, file) = with_file(&medium);
    update(&system, file, 5, 1);
    let other = system.layout().map(View::Live, file, 6, 1).unwrap()[0].pointer;
    let measures = *system.layout().measures();
    let unit = system.layout().writer.lock().log.root().unwrap().unit.get();
    drop(system);
    let at = measures.unit_byte(unit);
    let mut bytes = vec![0; 4096];
    medium.read(at, &mut bytes).unwrap();
    let sound = Delta::parse(&bytes, unit, &measures).unwrap();
    let mount = || Vlfs::mount(Arc::clone(&medium), clock(), VlfsMountOptions::default());
    let ino = file.0;
    let block = |block, place| Change::Block {
        ino,
        version: 1,
        block,
        place,
    };
    let taken = sound.changes.iter().find_map(|(c, _)| c.place().copied());
    let reserved = |from| Change::Reserved {
        ino,
        version: 1,
        from,
        to: from + measures.reserved_max(),
    };
    let inode = sound.changes.iter().find_map(|(change, _)| match change {
        Change::Inode(inode) if inode.ino == file => Some((**inode).clone()),
        _ => None,
    });
    let inode = inode.unwrap();
    let inline = Inode {
        flags: inode.flags | varve_fs::flags::INLINE,
        size: 3,
        inline: vec![1, 2, 3],
        ..inode.clone()
    };
    let changes = [
        // A place that another block has.
        (vec![block(5, other)], true),
        // The same place twice.
        (vec![block(7, taken.unwrap())], true),
        // More than a program would leave to be folded.
        (vec![reserved(1 << 20), reserved(1 << 30)], true),
        // Content in an inode that has an index, which is beyond the reach of the root.
        (vec![Change::Inode(Box::new(inline))], true),
        (
            vec![Change::Freed {
                ino: 900,
                next_version: 2,
            }],
            false,
        ),
        (
            vec![Change::Cut {
                ino,
                version: 1,
                from: 9,
                to: 3,
            }],
            false,
        ),
    ];
    for (nth, (changes, refused)) in changes.into_iter().enumerate() {
        let mut record = sound.clone();
        let changes = changes.into_iter().map(|change| (change, false));
        record.changes.extend(changes);
        let bytes = record.encode(&measures);
        medium.write(at, &[IoSlice::new(&bytes)]).unwrap();
        assert_eq!(mount().is_err(), refused, "change {nth}");
    }
    // Counts that would overflow any sum.
    let mut record = sound.clone();
    let counts = Inode {
        sectors: u64::MAX,
        blocks: u64::MAX,
        ..inode
    };
    let counts = Change::Inode(Box::new(counts));
    record.changes.push((counts, false));
    let bytes = record.encode(&measures);
    medium.write(at, &[IoSlice::new(&bytes)]).unwrap();
    let most = measures.blocks * measures.block_sectors();
    let image = mount().unwrap().tables.read().images[&ino].clone();
    assert_eq!((image.inode.blocks, image.inode.sectors), (most, most));

    let bytes = sound.encode(&measures);
    medium.write(at, &[IoSlice::new(&bytes)]).unwrap();
    assert!(read(&again(&medium), file, 5 * 4096, 4096) == [1; 4096]);
}
