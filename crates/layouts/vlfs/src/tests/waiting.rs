//! Pending changes on a nearly full volume: accepted data is written, and data that
//! cannot be written is not accepted.

use super::full::{Content, ends_sound, new};
use super::*;
use varve_fs::Error;

/// Accepted data is written: a byte at a large offset in each of many files needs a
/// whole path of index nodes, for few pending bytes.
#[test]
fn what_was_accepted_is_written_however_far_out() {
    for (unit, bytes) in [(4096, 8 << 20), (4096, 40 << 20), (512, 8 << 20)] {
        let (medium, mut filled) = new(bytes, unit);
        let mut files = Vec::new();
        while let Some(ino) = filled.make(InodeNo::ROOT, false) {
            if !filled.write(ino, 0, 1000) || !filled.write(ino, 1 << 50, 1) {
                break;
            }
            files.push(ino);
        }
        assert!(files.len() > 50, "{unit}: only {} files", files.len());
        filled.system.sync().unwrap();
        drop(filled);
        sound(&medium);
        let system = again(&medium);
        for &ino in &files {
            assert_eq!(read(&system, ino, 1 << 50, 2), [7]);
        }
    }
}

/// A reservation in the middle of a whole index needs three paths: to both of its ends,
/// and to the file's first block, because the index grows above it.
#[test]
fn what_was_reserved_far_out_is_written() {
    let (medium, mut filled) = new(40 << 20, 4096);
    let mut files = Vec::new();
    for _ in 0..1000 {
        let ino = filled.make(InodeNo::ROOT, false).unwrap();
        assert!(filled.write(ino, 0, 4000));
        files.push(ino);
    }
    filled.system.sync().unwrap();
    let (root, keep_size) = (Caller::root(), 1);
    let middle = (2 * 338u64.pow(5) - 1) * 4096;
    let mut reserved = 0;
    for &ino in &files {
        match (filled.system).fallocate(&root, ino, keep_size, middle, 8192) {
            Ok(()) => reserved += 1,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((100..1000).contains(&reserved), "{reserved}");
    filled.system.sync().unwrap();
    ends_sound(filled.system, &medium);
}

/// Read times are images, and pending until the next append.
#[test]
fn a_full_volume_of_which_all_was_read_is_unmounted() {
    for (unit, bytes) in [(4096, 5 << 20), (4096, 40 << 20), (512, 5 << 20)] {
        let (medium, mut filled) = new(bytes, unit);
        filled.fill(Content::SmallFiles);
        filled.system.sync().unwrap();
        drop(filled);
        let system = again(&medium);
        let mut numbers = Vec::new();
        let listed = system.readdir(InodeNo::ROOT, 2, &mut |entry| {
            numbers.push(entry.ino);
            true
        });
        listed.unwrap();
        for &ino in &numbers {
            read(&system, ino, 0, 1);
        }
        ends_sound(system, &medium);
    }
}

/// A hole in each of many parts of a file changes an index node for each, while no byte
/// is pending.
#[test]
fn holes_are_written_however_many() {
    for (unit, stride) in [(4096, 338), (512, 40)] {
        let (medium, mut filled) = new(16 << 20, unit);
        let file = filled.make(InodeNo::ROOT, false).unwrap();
        let mut parts = 0;
        while filled.write(file, parts * stride * 4096, 8192) {
            parts += 1;
        }
        filled.system.sync().unwrap();
        let filler = filled.make(InodeNo::ROOT, false);
        let mut at = 0;
        while filler.is_some_and(|filler| filled.write(filler, at, 4096)) {
            at += 4096;
        }
        assert!(parts > 300, "{unit}: {parts}");
        for part in 0..parts {
            let (root, offset) = (Caller::root(), part * stride * 4096);
            // This mode makes a hole and keeps the size.
            let mode = 3;
            let punched = (filled.system).fallocate(&root, file, mode, offset, 4096);
            punched.unwrap();
        }
        filled.system.sync().unwrap();
        drop(filled);
        sound(&medium);
        let system = again(&medium);
        for part in 0..parts {
            let found = read(&system, file, part * stride * 4096, 8192);
            assert!(
                found[..4096].iter().all(|&byte| byte == 0),
                "{unit}: {part}"
            );
            assert!(
                found[4096..].iter().all(|&byte| byte == 7),
                "{unit}: {part}"
            );
        }
    }
}

/// Blocks all over a file and small files are written again and again at 95 to 100 %
/// full: accepted data is not refused when it is written.
#[test]
fn what_waits_on_a_full_volume_is_written() {
    for (unit, bytes) in [
        (4096, 6 << 20),
        (512, 6 << 20),
        (4096, 24 << 20),
        (512, 24 << 20),
    ] {
        for share in [95, 98, 100] {
            let what = format!("units of {unit}, {bytes} bytes, {share} %");
            let (medium, mut filled) = new(bytes, unit);
            let large = filled.make(InodeNo::ROOT, false).unwrap();
            let empty = filled.system.statfs().free;
            let (mut blocks, mut small) = (0, Vec::new());
            while filled.system.statfs().free * 100 > empty * (100 - share) {
                if !filled.write(large, blocks * 4096, 4096) {
                    break;
                }
                blocks += 1;
                if blocks % 4 == 0
                    && let Some(ino) = filled.make(InodeNo::ROOT, false)
                    && filled.write(ino, 0, 1500)
                {
                    small.push(ino);
                }
            }
            filled.system.sync().unwrap();
            let mut state = 1u64;
            let mut expected = vec![7; blocks as usize];
            let mut accepted = 0;
            for round in 0..4u8 {
                for _ in 0..blocks {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let nth = (state >> 33) % blocks;
                    match write(&filled.system, large, nth * 4096, &[round; 4096]) {
                        Ok(_) => {
                            expected[nth as usize] = round;
                            accepted += 1;
                        }
                        Err(Error::NoSpace) => {}
                        Err(error) => panic!("{what}: {error}"),
                    }
                    if let Some(&ino) = small.get((state >> 40) as usize % small.len().max(1)) {
                        filled.write(ino, 0, 1500);
                    }
                }
                filled.system.sync().unwrap();
            }
            // Beyond that, moved inodes may break so many blocks that none is left.
            assert!(
                share > 95 || accepted > blocks / 2,
                "{what}: {accepted} of {}",
                4 * blocks
            );
            drop(filled);
            sound(&medium);
            let system = again(&medium);
            for (nth, &value) in expected.iter().enumerate() {
                let found = read(&system, large, nth as u64 * 4096, 4096);
                assert!(found.iter().all(|&byte| byte == value), "{what}: {nth}");
            }
        }
    }
}
