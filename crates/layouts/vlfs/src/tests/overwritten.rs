//! Volumes filled with short blocks, or extended attributes, until nothing more fits:
//! accepted content can be overwritten without end, and removed.

use super::*;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use varve_fs::{Error, SetAttr};

struct File {
    parent: InodeNo,
    name: String,
    ino: InodeNo,
    bytes: usize,
}

pub(super) fn ready(medium: &Arc<dyn Medium>) -> System {
    let options = VlfsFormatOptions {
        unit_bytes: 512,
        // The limit of inodes is so high that the space ends first.
        inodes: 4096,
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    format(&**medium, &*clock(), &options).unwrap();
    FileSystem::format(&*mounted(medium), &*clock(), (0, 0)).unwrap();
    again(medium)
}

/// Creates at most `most` files with the given numbers of units until there is no
/// space, in several directories. With `each`, every file is synced.
fn fill(
    system: &System,
    units: &mut dyn FnMut(usize) -> usize,
    most: usize,
    each: bool,
) -> Vec<File> {
    let root = Caller::root();
    let directory = |nth: usize| {
        let name = format!("directory{nth}");
        let made = system.mkdir(&root, InodeNo::ROOT, name.as_bytes(), 0o755);
        made.unwrap().ino
    };
    let directories: Vec<InodeNo> = (0..20).map(directory).collect();
    let mut files = Vec::new();
    for nth in 0..most {
        let (name, bytes) = (format!("file{nth}"), 512 * units(nth));
        let parent = directories[nth % directories.len()];
        let made = system.mknod(&root, parent, name.as_bytes(), 0o100644, 0);
        let written = made.map(|made| (made.ino, write(system, made.ino, 0, &vec![1; bytes])));
        match written {
            Ok((ino, Ok(_))) => files.push(File {
                parent,
                name,
                ino,
                bytes,
            }),
            Ok((ino, Err(Error::NoSpace))) => {
                files.push(File {
                    parent,
                    name,
                    ino,
                    bytes: 0,
                });
                break;
            }
            Err(Error::NoSpace) => break,
            Ok((_, Err(error))) | Err(error) => panic!("{error}"),
        }
        if each {
            let ino = files.last().expect("the one just made").ino;
            system.fsync(ino, false).unwrap();
        }
    }
    system.sync().unwrap();
    files
}

/// Overwrites everything in random order, with a sync now and then.
fn write_over(
    system: &System,
    files: &mut [File],
    random: &mut Xoshiro256PlusPlus,
    (round, sync_one_in): (u8, usize),
) {
    files.shuffle(random);
    for (nth, file) in files.iter().enumerate() {
        let outcome = write(system, file.ino, 0, &vec![round; file.bytes]);
        let live = system.layout().statistics().blocks_live;
        assert!(
            outcome.is_ok(),
            "round {round}, {nth} of {}: {outcome:?}, {live} blocks live",
            files.len()
        );
        if nth % sync_one_in == 0 {
            system.sync().unwrap();
        }
    }
}

fn ends_empty(system: System, medium: &Arc<dyn Medium>, files: &[File], round: u8) {
    assert_eq!(system.layout().stopped(), None);
    drop(system);
    sound(medium);
    let system = again(medium);
    for file in files {
        assert!(read(&system, file.ino, 0, 5000) == vec![round; file.bytes]);
    }
    let root = Caller::root();
    for (nth, file) in files.iter().enumerate() {
        let gone = system.unlink(&root, file.parent, file.name.as_bytes());
        gone.unwrap_or_else(|error| panic!("{nth} of {}: {error}", files.len()));
        if nth % 10 == 0 {
            system.sync().unwrap();
        }
    }
    full::ends_sound(system, medium);
}

/// Directly after a checkpoint all released space waits for the next one, so that
/// rewritten data is written to new blocks.
#[test]
fn a_full_volume_of_short_blocks_is_written_over_after_a_checkpoint() {
    for mixed in [false, true] {
        for each in [false, true] {
            let medium = drive_of(3);
            let system = ready(&medium);
            let units = |nth: usize| if mixed { 1 + nth * 5 % 8 } else { 3 };
            let mut files = fill(&system, &mut { units }, usize::MAX, each);
            assert!(files.len() > 400, "{} files", files.len());
            system.layout().checkpoint().unwrap();
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
            for round in 2..5 {
                write_over(&system, &mut files, &mut random, (round, 20));
                files.shuffle(&mut random);
                for file in &files {
                    let mode = SetAttr {
                        mode: Some(0o600 + u32::from(round)),
                        ..SetAttr::default()
                    };
                    let set = system.setattr(&Caller::root(), file.ino, &mode);
                    set.unwrap();
                }
                if each == (round % 2 == 0) {
                    system.layout().checkpoint().unwrap();
                }
            }
            ends_empty(system, &medium, &files, 4);
        }
    }
}

/// A short block that is rewritten leaves the others in its block: the number of live
/// blocks grows, but not beyond the number counted when the volume was filled.
#[test]
fn short_blocks_of_a_full_volume_are_written_over_for_ever() {
    for medium in [memory(6 << 20, 512), drive_of(3)] {
        let system = ready(&medium);
        let mut files = fill(&system, &mut |nth| 1 + nth % 7, usize::MAX, false);
        let (measures, told) = (*system.layout().measures(), system.statfs());
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for round in 2..8 {
            let one_in = [1, 100, usize::MAX][usize::from(round) % 3];
            write_over(&system, &mut files, &mut random, (round, one_in));
            system.sync().unwrap();
            let live = system.layout().statistics().blocks_live;
            let most = measures.capacity_blocks() - measures.reserve_blocks;
            assert!(live <= most, "{live} of {most} blocks live");
            let free = system.statfs().free;
            assert!(free.abs_diff(told.free) < 8, "{free}, first {}", told.free);
        }
        ends_empty(system, &medium, &files, 7);
    }
}

/// Many units at once are written to whole blocks, and leave holes in others.
#[test]
fn blocks_of_a_unit_on_a_full_volume_are_written_over_for_ever() {
    for (medium, most) in [(memory(4 << 20, 512), 3000), (drive_of(2), 1400)] {
        let system = ready(&medium);
        // A name needs more space than there is at the end.
        let mut files = fill(&system, &mut |_| 0, most, false);
        let fits = |file: &File| write(&system, file.ino, 0, &[1; 512]).is_ok();
        let full = files.iter().take_while(|file| fits(file)).count();
        assert!(full + 20 < files.len(), "{full} of {} fit", files.len());
        let mut rest = files.split_off(full);
        files.iter_mut().for_each(|file| file.bytes = 512);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for round in 2..12 {
            let one_in = [usize::MAX, 100, usize::MAX][usize::from(round) % 3];
            write_over(&system, &mut files, &mut random, (round, one_in));
            system.sync().unwrap();
        }
        files.append(&mut rest);
        ends_empty(system, &medium, &files, 11);
    }
}

/// Sets an attribute of `bytes` bytes.
pub(super) fn set(system: &System, ino: InodeNo, bytes: usize, fill: u8) -> varve_fs::Result<()> {
    let (root, value) = (Caller::root(), vec![fill; bytes]);
    system.setxattr(&root, ino, b"user.a", &value, false, false)
}

/// Returns the count of extended attributes in the totals, after comparing it with a
/// walk.
pub(super) fn counted(system: &System) -> u64 {
    let layout = system.layout();
    let tables = layout.tables.read().clone();
    let (_, long) = recovery::walk(&layout.store, &tables).unwrap();
    assert_eq!(layout.writer.lock().long_xattrs, long);
    long
}

/// Attributes of several units share blocks as short blocks do, and are counted as the
/// blocks that they may grow to.
#[test]
fn attributes_of_a_full_volume_are_written_over_for_ever() {
    for medium in [memory(6 << 20, 512), drive_of(3)] {
        let mut system = ready(&medium);
        let root = Caller::root();
        let mut files: Vec<File> = Vec::new();
        loop {
            let nth = files.len();
            let (name, bytes) = (format!("file{nth}"), 512 * (1 + nth % 4) + 300);
            let made = system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100644, 0);
            let set = made.and_then(|made| set(&system, made.ino, bytes, 1).map(|()| made.ino));
            match set {
                Ok(ino) => files.push(File {
                    parent: InodeNo::ROOT,
                    name,
                    ino,
                    bytes,
                }),
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        // The last block is filled, too.
        let filler = files[0].ino;
        let mut at = 0;
        while write(&system, filler, at, &[1; 4096]).is_ok() {
            at += 4096;
        }
        system.layout().checkpoint().unwrap();
        assert_eq!(counted(&system), files.len() as u64);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for round in 2..10u8 {
            files.shuffle(&mut random);
            for (nth, file) in files.iter().enumerate() {
                let outcome = set(&system, file.ino, file.bytes, round);
                let live = system.layout().statistics().blocks_live;
                assert!(
                    outcome.is_ok(),
                    "round {round}, {nth} of {}: {outcome:?}, {live} blocks live",
                    files.len()
                );
                if nth % 20 == 0 {
                    system.sync().unwrap();
                }
            }
            system.sync().unwrap();
            // This is as after a crash: from the checkpoint and the differences since.
            drop(system);
            system = again(&medium);
            assert_eq!(counted(&system), files.len() as u64);
        }
        for file in &files {
            let gone = system.unlink(&root, file.parent, file.name.as_bytes());
            gone.unwrap();
        }
        system.sync().unwrap();
        system.maintain().unwrap();
        full::ends_sound(system, &medium);
    }
}

/// The blocks that they may grow to are reported as used from the beginning.
#[test]
fn attributes_that_come_apart_take_no_room_that_was_told() {
    for medium in [memory(6 << 20, 512), drive_of(3)] {
        let system = ready(&medium);
        let files: Vec<InodeNo> = (0..300)
            .map(|nth| create(&system, &format!("file{nth}")))
            .collect();
        for &file in &files {
            set(&system, file, 1300, 1).unwrap();
        }
        system.checkpoint().unwrap();
        let told = system.statfs().free;
        let packed = system.layout().statistics().blocks_live;
        assert!(
            packed < 260,
            "{packed} blocks for 300 attributes of 3 units"
        );
        for round in 2..5 {
            for (nth, &file) in files.iter().enumerate() {
                if (nth + usize::from(round)) % 3 > 0 {
                    set(&system, file, 1300, round).unwrap();
                }
            }
            system.checkpoint().unwrap();
            let free = system.statfs().free;
            assert!(free.abs_diff(told) < 8, "{free} blocks, {told} at first");
        }
    }
}
