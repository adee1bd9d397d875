//! Groups as large as a workload can make them: each fits in the journal.

use super::*;
use varve_fs::{Rename, SetAttr};

/// Creates directories, each with a leaf that is nearly full.
fn directories(system: &System, count: usize) -> Vec<InodeNo> {
    let root = Caller::root();
    let file = create(system, "linked");
    let make = |nth: usize| {
        let name = format!("directory {nth}");
        let made = system.mkdir(&root, InodeNo::ROOT, name.as_bytes(), 0o755);
        let directory = made.unwrap().ino;
        for name in 0..45 {
            let name = format!("{name:060}");
            system
                .link(&root, file, directory, name.as_bytes())
                .unwrap();
        }
        directory
    };
    let made = (0..count).map(make).collect();
    system.checkpoint().unwrap();
    made
}

#[test]
fn a_name_in_each_of_many_directories() {
    for unit in [512, 4096] {
        let device = memory(16 << 20, unit);
        let system = made(&device);
        let root = Caller::root();
        let all = directories(&system, 400);
        for (nth, directory) in all.iter().enumerate() {
            let made = system.mknod(&root, *directory, b"new", 0o100644, 0);
            made.unwrap_or_else(|error| panic!("unit {unit}, directory {nth}: {error}"));
        }
        system.sync().unwrap();
        for directory in &all {
            system.unlink(&root, *directory, b"new").unwrap();
        }
        system.sync().unwrap();
        drop(system);
        sound(&device);
    }
}

/// A file whose data belongs to the epoch, because its content was in the inode.
#[test]
fn a_cut_file_is_written_here_and_there() {
    for unit in [512, 4096] {
        let device = memory(64 << 20, unit);
        let system = made(&device);
        let file = create(&system, "file");
        write(&system, file, 0, &[1; 100]).unwrap();
        system.sync().unwrap();
        let cut = SetAttr {
            size: Some(50),
            ..SetAttr::default()
        };
        system.setattr(&Caller::root(), file, &cut).unwrap();
        for nth in 0..600u64 {
            write(&system, file, nth << 27, &[2; 10])
                .unwrap_or_else(|error| panic!("unit {unit}, block {nth}: {error}"));
        }
        system.sync().unwrap();
        drop(system);
        sound(&device);
    }
}

/// Files that replace others are complete in their group.
#[test]
fn files_written_here_and_there_take_the_place_of_others() {
    for unit in [512, 4096] {
        let device = memory(64 << 20, unit);
        let system = made(&device);
        let root = Caller::root();
        for round in 0..2u64 {
            for nth in 0..20u64 {
                let temporary = create(&system, "temporary");
                for block in 0..30 {
                    write(&system, temporary, block << 30, &[nth as u8; 10]).unwrap();
                }
                let name = format!("file {nth}");
                let (from, to) = (b"temporary".as_slice(), name.as_bytes());
                system
                    .rename(
                        &root,
                        InodeNo::ROOT,
                        from,
                        InodeNo::ROOT,
                        to,
                        Rename::default(),
                    )
                    .unwrap_or_else(|error| panic!("unit {unit}, round {round}, {nth}: {error}"));
            }
        }
        system.sync().unwrap();
        drop(system);
        sound(&device);
    }
}

#[test]
fn many_wait_for_fsyncs_of_files_written_here_and_there() {
    let device = memory(16 << 20, 4096);
    let system = made(&device);
    let files: Vec<_> = (0..24)
        .map(|nth| create(&system, &format!("f{nth}")))
        .collect();
    for round in 0..2u64 {
        std::thread::scope(|scope| {
            for &file in &files {
                let system = &system;
                scope.spawn(move || {
                    for block in 0..16 {
                        write(system, file, (round << 34) + (block << 30), &[3; 10]).unwrap();
                    }
                    system.fsync(file, false).unwrap();
                });
            }
        });
    }
    drop(system);
    sound(&device);
}

/// Admitted operations wait at the gate while a group is captured, and all continue at
/// once.
#[test]
fn many_make_names_in_directories_of_their_own() {
    let device = memory(16 << 20, 4096);
    let system = made(&device);
    let root = Caller::root();
    let all = directories(&system, 96);
    std::thread::scope(|scope| {
        for &directory in &all {
            let (system, root) = (&system, &root);
            scope.spawn(move || {
                for nth in 0..40 {
                    let name = format!("new {nth}");
                    let made = system.mknod(root, directory, name.as_bytes(), 0o100644, 0);
                    made.unwrap();
                    system.unlink(root, directory, name.as_bytes()).unwrap();
                }
            });
        }
    });
    system.sync().unwrap();
    drop(system);
    sound(&device);
}

/// A sync in parallel with a continuous writer takes no more than fits.
#[test]
fn a_sync_beside_a_writer_here_and_there() {
    let device = memory(64 << 20, 4096);
    let system = made(&device);
    let file = create(&system, "file");
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..60_000u64 {
                let block = round * 7919 % 1500;
                if write(&system, file, block << 26, &[4; 10]).is_err() {
                    break;
                }
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            system.sync().unwrap();
        }
    });
    system.sync().unwrap();
    drop(system);
    sound(&device);
}

/// The smallest possible journal.
#[test]
fn a_journal_of_sixteen_blocks() {
    for unit in [512, 4096] {
        let options = FfsFormatOptions {
            journal_bytes: 64 << 10,
            group_blocks: 256,
            ..FfsFormatOptions::default()
        };
        let device = memory(16 << 20, unit);
        let system = made_with(&device, &options);
        let root = Caller::root();
        let all = directories(&system, 3);
        for (nth, &directory) in all.iter().enumerate() {
            for name in 0..30 {
                let name = format!("{name:040} {nth}");
                let made = system.mknod(&root, directory, name.as_bytes(), 0o100644, 0);
                let ino = made.unwrap().ino;
                write(&system, ino, nth as u64 * 4096, &[1; 600]).unwrap();
                let to = all[(nth + 1) % all.len()];
                let flags = Rename::default();
                let renamed = system.rename(&root, directory, name.as_bytes(), to, b"moved", flags);
                renamed.unwrap_or_else(|error| panic!("unit {unit}: {error}"));
            }
        }
        let file = create(&system, "file");
        write(&system, file, 0, &vec![2; 1 << 20]).unwrap();
        for nth in 0..30 {
            write(&system, file, nth << 28, &[2; 10]).unwrap();
        }
        system.sync().unwrap();
        drop(system);
        sound(&device);
    }
}
