//! Many threads on a full volume: no request is refused because of the requests of
//! others.

use super::full::{Filled, ends_empty, ends_sound, new};
use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use varve_fs::Error;

const THREADS: u64 = 12;

/// Returns a volume that one file fills to the last block, and the file's number and
/// blocks.
fn full(unit: u32) -> (Arc<dyn Medium>, Filled, InodeNo, u64) {
    let (medium, mut filled) = new(20 << 20, unit);
    let file = filled.make(InodeNo::ROOT, false).unwrap();
    let mut blocks = 0;
    while filled.write(file, blocks * 4096, 4096) {
        blocks += 1;
    }
    filled.system.sync().unwrap();
    while filled.write(file, blocks * 4096, 4096) {
        blocks += 1;
    }
    (medium, filled, file, blocks)
}

/// Overwrites blocks of a file in an order that depends on the thread; some writes are
/// synced.
fn write_over(system: &System, file: InodeNo, blocks: u64, thread: u64, refused: &AtomicU64) {
    for round in 0..200 {
        let block = (round * 7919 + thread * 104_729) % blocks;
        match write(system, file, block * 4096, &[round as u8; 4096]) {
            Ok(_) => {}
            Err(Error::NoSpace) => _ = refused.fetch_add(1, Relaxed),
            Err(error) => panic!("{error}"),
        }
        if (round + thread).is_multiple_of(5) {
            system.fsync(file, true).unwrap();
        }
    }
}

/// Formerly each request counted the requests of all threads: of two threads one
/// request in a hundred was refused, of four one in two.
#[test]
fn a_full_volume_is_written_over_by_many_at_once() {
    for unit in [4096, 512] {
        for grows in [false, true] {
            let (medium, filled, file, blocks) = full(unit);
            let (system, refused) = (&filled.system, AtomicU64::new(0));
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let refused = &refused;
                    scope.spawn(move || write_over(system, file, blocks, thread, refused));
                }
                if grows {
                    scope.spawn(move || {
                        for nth in 0..300 {
                            let more = write(system, file, (blocks + nth) * 4096, &[1; 4096]);
                            assert!(matches!(more, Ok(_) | Err(Error::NoSpace)), "{more:?}");
                        }
                    });
                }
            });
            let refused = refused.into_inner();
            assert_eq!(refused, 0, "units of {unit}, beside growth: {grows}");
            let names = ["a name of some length, number 0".to_owned()];
            ends_empty(filled.system, &medium, &names);
        }
    }
}

/// A request that is refused is no reason to refuse others.
#[test]
fn nobody_is_refused_for_what_others_ask_for_in_vain() {
    let (medium, mut filled) = new(20 << 20, 4096);
    let file = filled.make(InodeNo::ROOT, false).unwrap();
    let (system, over, asked) = (&filled.system, AtomicBool::new(false), AtomicU64::new(0));
    let root = Caller::root();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let more = system.fallocate(&root, file, 0, 0, 1 << 50);
                assert!(matches!(more, Err(Error::NoSpace)), "{more:?}");
                asked.fetch_add(1, Relaxed);
            }
        });
        let mut done = Ok(());
        for nth in 0.. {
            let name = format!("file {nth}");
            let (above, name) = (InodeNo::ROOT, name.as_bytes());
            let made = system.mknod(&root, above, name, 0o100644, 0);
            let gone = made.and_then(|_| system.unlink(&root, above, name));
            done = done.and(gone.map_err(|error| format!("number {nth}: {error}")));
            if done.is_err() || (nth > 500 && asked.load(Relaxed) > 100) {
                break;
            }
        }
        over.store(true, Relaxed);
        assert_eq!(done, Ok(()));
    });
    ends_sound(filled.system, &medium);
}
