//! The compactor: its results, its limits, and that readers do not notice it.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const BLOCK: u64 = 4096;
const FILES: u64 = 12;
const BLOCKS: u64 = 100;

fn eager_mount() -> VlfsMountOptions {
    VlfsMountOptions {
        seed: Some(2),
        compaction: Watermarks::ALWAYS,
        ..VlfsMountOptions::default()
    }
}

fn mounted_with(medium: &Arc<dyn Medium>, options: VlfsMountOptions) -> System {
    let layout = Arc::new(Vlfs::mount(Arc::clone(medium), clock(), options).unwrap());
    FileSystem::mount(layout, clock(), super::options()).unwrap()
}

fn mounted_eager(medium: &Arc<dyn Medium>) -> System {
    mounted_with(medium, eager_mount())
}

/// Returns the content of block `block` of file `file` after `round` rounds.
fn content(file: u64, block: u64, round: u64) -> Vec<u8> {
    let mut bytes = vec![round as u8; BLOCK as usize];
    bytes[..8].copy_from_slice(&(file * 1000 + block).to_le_bytes());
    bytes
}

/// Returns the tail of a file, which is rewritten at each sync: its number of sectors
/// depends on the file and on the step.
fn tail(file: u64, step: u64) -> Vec<u8> {
    content(file, BLOCKS, step)[..512 * (1 + (file + step) as usize % 8)].to_vec()
}

const STEPS: u64 = 2 * BLOCKS / 10;

/// Creates files whose blocks are scattered over the volume, with holes between them:
/// each fourth block is as of round 1.
fn scattered(system: &System) -> Vec<InodeNo> {
    let files: Vec<InodeNo> = (0..FILES)
        .map(|nth| create(system, &format!("file{nth}")))
        .collect();
    let root = Caller::root();
    for round in 0..2 {
        for block in 0..BLOCKS {
            for (nth, &file) in (0..).zip(&files) {
                if round == 0 || block % 4 == 0 {
                    write(system, file, block * BLOCK, &content(nth, block, round)).unwrap();
                }
            }
            if block % 10 == 9 {
                let step = (round * BLOCKS + block) / 10 + 1;
                for (nth, &file) in (0..).zip(&files) {
                    let set = varve_fs::SetAttr {
                        size: Some(BLOCKS * BLOCK),
                        ..varve_fs::SetAttr::default()
                    };
                    system.setattr(&root, file, &set).unwrap();
                    write(system, file, BLOCKS * BLOCK, &tail(nth, step)).unwrap();
                }
                system.sync().unwrap();
            }
        }
    }
    let value = vec![5; 300];
    for &file in &files[..3] {
        let set = system.setxattr(&root, file, b"user.x", &value, false, false);
        set.unwrap();
    }
    system.sync().unwrap();
    files
}

fn verify(system: &System, files: &[InodeNo]) {
    for (nth, &file) in (0..).zip(files) {
        for block in 0..BLOCKS {
            let round = u64::from(block % 4 == 0);
            let found = read(system, file, block * BLOCK, BLOCK as usize);
            assert!(found == content(nth, block, round), "{nth}, block {block}");
        }
        let found = read(system, file, BLOCKS * BLOCK, BLOCK as usize);
        assert!(found == tail(nth, STEPS), "the tail of {nth}");
    }
    for &file in &files[..3] {
        let found = system.getxattr(&Caller::root(), file, b"user.x");
        assert_eq!(found.unwrap(), vec![5; 300]);
    }
}

fn compact(system: &System) -> Compaction {
    system.layout().compact(u64::MAX, &|_| true).unwrap()
}

#[test]
fn regions_are_emptied_and_nobody_sees_it() {
    for (medium, unit) in [
        (memory(8 << 20, 4096), 0),
        (memory(8 << 20, 512), 512),
        (drive_of(4), 0),
    ] {
        made(&medium, unit).layout().unmount().unwrap();
        let system = mounted_eager(&medium);
        let files = scattered(&system);
        // Another mount does not know the owners of blocks.
        system.checkpoint().unwrap();
        drop(system);
        let system = mounted_eager(&medium);
        let before = system.layout().statistics();
        let usage = system.usage();
        let done = compact(&system);
        let after = system.layout().statistics();
        assert!(done.finished && done.regions_emptied > 0, "{done:?}");
        assert!(after.regions_empty > before.regions_empty, "{after:?}");
        assert!(after.units_immovable == 0 && after.owners_known > 0);
        assert_eq!(system.usage(), usage);
        // There is nothing more to gain, until another write.
        assert_eq!(compact(&system).units_moved, 0);
        system.drop_caches();
        system.layout().drop_caches();
        verify(&system, &files);
        drop(system);
        sound(&medium);
        let system = again(&medium);
        verify(&system, &files);
    }
}

#[test]
fn a_table_that_covers_a_part_of_the_volume_is_enough() {
    let medium = memory(8 << 20, 512);
    made(&medium, 512).layout().unmount().unwrap();
    let options = VlfsMountOptions {
        owners_units: 2000,
        ..eager_mount()
    };
    let system = mounted_with(&medium, options);
    let files = scattered(&system);
    system.checkpoint().unwrap();
    let before = system.layout().statistics();
    let done = compact(&system);
    let after = system.layout().statistics();
    assert!(done.finished && done.regions_emptied > 0, "{done:?}");
    assert!(after.regions_empty > before.regions_empty, "{after:?}");
    assert!(after.owners_known <= 2000 + 64 * 8, "{after:?}");
    verify(&system, &files);
    drop(system);
    sound(&medium);
}

#[test]
fn it_stops_at_the_next_block_and_between_the_watermarks() {
    let medium = memory(8 << 20, 4096);
    made(&medium, 0).layout().unmount().unwrap();
    let system = mounted_eager(&medium);
    let files = scattered(&system);
    let layout = system.layout();
    let done = layout.compact(5, &|_| true).unwrap();
    assert_eq!((done.units_moved, done.finished), (5, false));
    let asked = std::cell::Cell::new(0);
    let may = |_| {
        asked.set(asked.get() + 1);
        asked.get() < 10
    };
    let done = layout.compact(u64::MAX, &may).unwrap();
    assert!(done.units_moved < 10 && !done.finished, "{done:?}");
    assert_eq!(asked.get(), 10, "it was told to stop");
    verify(&system, &files);
    drop(system);
    sound(&medium);
    let options = VlfsMountOptions {
        compaction: Watermarks {
            begin: 0.0,
            end: 1.0,
        },
        ..eager_mount()
    };
    let system = mounted_with(&medium, options);
    assert_eq!(compact(&system).units_moved, 0);
}

#[test]
fn what_was_claimed_and_has_changed_since_is_not_moved() {
    let medium = memory(8 << 20, 4096);
    made(&medium, 0).layout().unmount().unwrap();
    let system = mounted_eager(&medium);
    let files = scattered(&system);
    let root = Caller::root();
    let claims = system.layout().claim_region().unwrap().expect("a region");
    // Blocks that may be among `claims` are removed or overwritten, and the numbers of
    // their inodes are reused.
    for (nth, &file) in (0..).zip(&files) {
        let name = format!("file{nth}");
        match nth % 3 {
            0 => {
                let gone = system.unlink(&root, InodeNo::ROOT, name.as_bytes());
                gone.unwrap();
                create(&system, &format!("new{nth}"));
            }
            1 => {
                let set = varve_fs::SetAttr {
                    size: Some(10 * BLOCK),
                    ..varve_fs::SetAttr::default()
                };
                system.setattr(&root, file, &set).unwrap();
                write(&system, file, BLOCKS * BLOCK, &[1]).unwrap();
            }
            _ => {
                for block in 0..BLOCKS {
                    write(&system, file, block * BLOCK, &[9; BLOCK as usize]).unwrap();
                }
            }
        }
    }
    system.sync().unwrap();
    system.layout().move_claims(claims).unwrap();
    system.sync().unwrap();
    system.drop_caches();
    for (nth, &file) in (0..).zip(&files) {
        match nth % 3 {
            0 => {}
            1 => {
                let found = read(&system, file, 10 * BLOCK, ((BLOCKS - 10) * BLOCK) as usize);
                assert!(found.iter().all(|&byte| byte == 0), "a hole");
            }
            _ => {
                let found = read(&system, file, 0, (BLOCKS * BLOCK) as usize);
                assert!(found.iter().all(|&byte| byte == 9), "what was written last");
            }
        }
    }
    drop(system);
    sound(&medium);
}

#[test]
fn what_cannot_be_read_stays_where_it_is() {
    let medium = memory(8 << 20, 4096);
    made(&medium, 0).layout().unmount().unwrap();
    let system = mounted_eager(&medium);
    let files = scattered(&system);
    system.checkpoint().unwrap();
    let place = |system: &System| {
        let found = system.layout().map(View::Live, files[0], 1, 1).unwrap();
        found[0].pointer
    };
    let decayed = place(&system);
    let at = decayed.sector * 512;
    medium
        .write(at, &[std::io::IoSlice::new(&[0xee; BLOCK as usize])])
        .unwrap();
    system.drop_caches();
    assert!(compact(&system).finished);
    assert_eq!(place(&system), decayed, "nothing covers up the damage");
    let mut bytes = [0; BLOCK as usize];
    let read = system.read(files[0], BLOCK, &mut bytes);
    assert!(matches!(read, Err(varve_fs::Error::Damaged { .. })));
}

#[test]
fn a_volume_that_is_nearly_full_is_left_alone() {
    let medium = memory(6 << 20, 4096);
    made(&medium, 0).layout().unmount().unwrap();
    let system = mounted_eager(&medium);
    let file = create(&system, "file");
    let mut block = 0;
    while write(&system, file, block * BLOCK, &[1; BLOCK as usize]).is_ok() {
        block += 1;
        if block % 50 == 0 {
            system.sync().unwrap();
        }
    }
    system.sync().unwrap();
    assert_eq!(compact(&system).units_moved, 0);
    // Blocks that fit can also be overwritten.
    for block in 0..block {
        write(&system, file, block * BLOCK, &[2; BLOCK as usize]).unwrap();
        system.fsync(file, true).unwrap();
    }
    drop(system);
    sound(&medium);
}

#[test]
fn threads_read_and_write_while_it_moves() {
    let medium = memory(8 << 20, 4096);
    made(&medium, 0).layout().unmount().unwrap();
    let system = mounted_eager(&medium);
    let files = scattered(&system);
    let other = create(&system, "other");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..4 {
                system.drop_caches();
                verify(&system, &files);
            }
            over.store(true, Relaxed);
        });
        scope.spawn(|| {
            for round in (0..=u8::MAX).cycle() {
                for block in 0..20 {
                    write(&system, other, block * 3 * BLOCK, &[round; 4096]).unwrap();
                    system.fsync(other, true).unwrap();
                }
                if over.load(Relaxed) {
                    return;
                }
            }
        });
        while !over.load(Relaxed) {
            system.layout().compact(50, &|_| true).unwrap();
        }
    });
    assert!(system.layout().statistics().units_moved > 0);
    verify(&system, &files);
    drop(system);
    sound(&medium);
}

#[test]
fn it_does_not_rest_while_its_last_fold_leaves_something_to_gain() {
    for medium in [memory(16 << 20, 4096), memory(16 << 20, 512), drive()] {
        let system = mounted_eager(&{
            made(&medium, 0).layout().unmount().unwrap();
            Arc::clone(&medium)
        });
        let files = scattered(&system);
        system.checkpoint().unwrap();
        // These are brief transactions, which the compactor folds at its end.
        for nth in 0..40 {
            let block = nth * 7 % BLOCKS / 4 * 4;
            let file = nth % FILES;
            write(
                &system,
                files[file as usize],
                block * BLOCK,
                &content(file, block, 1),
            )
            .unwrap();
            system.fsync(files[file as usize], true).unwrap();
        }
        assert!(compact(&system).finished);
        let before = system.layout().statistics();
        assert_eq!(system.layout().writer.lock().unfolded.used(), 0);
        // The compactor forgets that it found nothing to gain, and looks again.
        system.layout().compactor.lock().forget_rest();
        let more = compact(&system);
        assert!(more.finished);
        assert_eq!((more.units_moved, more.regions_emptied), (0, 0));
        let after = system.layout().statistics();
        assert_eq!(before.regions_empty, after.regions_empty);
        verify(&system, &files);
        drop(system);
        sound(&medium);
    }
}
