//! Volumes filled with short blocks until nothing goes in: whatever was accepted
//! can be written over for ever, and removed.

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

fn ready(medium: &Arc<dyn Medium>) -> System {
    let options = VlfsFormatOptions {
        unit_bytes: 512,
        // So many that room is what ends.
        inodes: 4096,
        seed: Some(1),
        ..VlfsFormatOptions::default()
    };
    format(&**medium, &*clock(), &options).unwrap();
    FileSystem::format(&mounted(medium), &*clock(), (0, 0)).unwrap();
    again(medium)
}

/// Files of so many units until there is no room, in several directories; `each`
/// with a sync of its own.
fn fill(system: &System, units: &mut dyn FnMut(usize) -> usize, each: bool) -> Vec<File> {
    let root = Caller::root();
    let directory = |nth: usize| {
        let name = format!("directory{nth}");
        let made = system.mkdir(View::Live, &root, InodeNo::ROOT, name.as_bytes(), 0o755);
        made.unwrap().ino
    };
    let directories: Vec<InodeNo> = (0..20).map(directory).collect();
    let mut files = Vec::new();
    for nth in 0.. {
        let (name, bytes) = (format!("file{nth}"), 512 * units(nth));
        let parent = directories[nth % directories.len()];
        let made = system.mknod(View::Live, &root, parent, name.as_bytes(), 0o100644, 0);
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
            system.fsync(View::Live, ino, false).unwrap();
        }
    }
    system.sync().unwrap();
    files
}

/// Writes all over in random order, with a sync after so many.
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
        let gone = system.unlink(View::Live, &root, file.parent, file.name.as_bytes());
        gone.unwrap_or_else(|error| panic!("{nth} of {}: {error}", files.len()));
        if nth % 10 == 0 {
            system.sync().unwrap();
        }
    }
    full::ends_sound(system, medium);
}

/// Right after a checkpoint all that is given up waits for the next one, so that
/// what is written over goes to blocks of its own.
#[test]
fn a_full_volume_of_short_blocks_is_written_over_after_a_checkpoint() {
    for mixed in [false, true] {
        for each in [false, true] {
            let medium = drive_of(3);
            let system = ready(&medium);
            let units = |nth: usize| if mixed { 1 + nth * 5 % 8 } else { 3 };
            let mut files = fill(&system, &mut { units }, each);
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
                    let set = system.setattr(View::Live, &Caller::root(), file.ino, &mode);
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

/// A short block that is written anew leaves the others of its block: what lives
/// grows, and not beyond what was counted when the volume was filled.
#[test]
fn short_blocks_of_a_full_volume_are_written_over_for_ever() {
    for medium in [memory(6 << 20, 512), drive_of(3)] {
        let system = ready(&medium);
        let mut files = fill(&system, &mut |nth| 1 + nth % 7, false);
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
