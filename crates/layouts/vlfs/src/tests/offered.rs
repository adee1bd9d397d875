//! Space that `statfs` reports as free can be used, and removed files are included at
//! once.

use super::full::{Filled, ends_sound, new};
use super::*;
use varve_fs::Error;

/// Reserves `blocks` blocks of a file; returns true if they fitted.
fn reserves(filled: &Filled, file: InodeNo, blocks: u64) -> bool {
    let (root, bytes) = (Caller::root(), blocks * 4096);
    match (filled.system).fallocate(&root, file, 0, 0, bytes) {
        Ok(()) => true,
        Err(Error::NoSpace) => false,
        Err(error) => panic!("{error}"),
    }
}

fn unlink(filled: &Filled, name: &str) {
    let (root, name) = (Caller::root(), name.as_bytes());
    (filled.system.unlink(&root, InodeNo::ROOT, name)).unwrap();
}

/// All that is reported can be reserved, except a hundredth, and at most a hundredth
/// more.
#[test]
fn what_is_offered_can_be_reserved() {
    for unit in [4096, 1024, 512] {
        for mebibytes in [16, 64, 256, 1024, 2048] {
            let (medium, mut filled) = new(mebibytes << 20, unit);
            let file = filled.make(InodeNo::ROOT, false).unwrap();
            let free = filled.system.statfs().free;
            let what = format!("{mebibytes} MiB, units of {unit}, of {free}");
            assert!(!reserves(&filled, file, free + free / 100), "{what}");
            assert!(reserves(&filled, file, free - free / 100), "{what}");
            // The checkpoint writes the index nodes, which brief transactions leave in
            // memory.
            filled.system.checkpoint().unwrap();
            let left = filled.system.statfs().free;
            assert!(left <= free / 100 + 8, "{what}: {left} are left");
            // The reserved blocks can be written.
            for nth in 0..100 {
                let at = free * 9 / 1000 * nth * 4096;
                assert!(filled.write(file, at, 10_000), "{what}");
            }
            ends_sound(filled.system, &medium);
        }
    }
}

/// All that is reported can be written, whatever the length of the writes.
#[test]
fn what_is_offered_can_be_written() {
    for unit in [4096, 512] {
        for (mebibytes, bytes) in [(16, 4096), (16, 64 << 10), (16, 1 << 20), (128, 1 << 20)] {
            let (medium, mut filled) = new(mebibytes << 20, unit);
            let file = filled.make(InodeNo::ROOT, false).unwrap();
            let free = filled.system.statfs().free;
            let mut at = 0;
            loop {
                match write(&filled.system, file, at, &vec![7; bytes]) {
                    Ok(written) => at += written as u64,
                    Err(Error::NoSpace) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let what = format!("{mebibytes} MiB by {bytes}, units of {unit}");
            let had = at / 4096;
            assert!(had + free / 100 >= free, "{what}: {had} of {free}");
            ends_sound(filled.system, &medium);
        }
    }
}

/// A large file is freed in steps, and the last of them count, too.
#[test]
fn what_was_removed_can_be_reserved_at_once() {
    for unit in [4096, 512] {
        let (medium, mut filled) = new(2 << 30, unit);
        let names = [
            "a name of some length, number 0",
            "a name of some length, number 1",
        ];
        for (nth, name) in names.into_iter().enumerate() {
            let file = filled.make(InodeNo::ROOT, false).unwrap();
            assert!(reserves(&filled, file, (1100 << 20) / 4096), "number {nth}");
            unlink(&filled, name);
        }
        ends_sound(filled.system, &medium);
    }
}
