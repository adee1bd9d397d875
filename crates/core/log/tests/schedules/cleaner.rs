//! The cleaner and checkpoints beside writers and readers: what moves is never
//! older than what was written, and nothing is moved over it.

use crate::stage::{Stage, create, explore, fill, find, fsync, unlink, versions};
use varve_fs::{FileSystem, Layout};
use varve_lfs::Lfs;

const BLOCKS: usize = 4;

/// Judges what lives in every segment, and then moves it: whoever gets in
/// between makes the judgement old.
fn clean(system: &FileSystem<Lfs>) {
    let layout = system.layout();
    let judge = |segment| {
        let contents = layout.mechanism().read_segment(segment).unwrap();
        let found = layout.mechanism().bmapv(&contents).unwrap();
        (segment, contents.edition, found)
    };
    let candidates = layout.cleaner().candidates();
    let judged: Vec<_> = candidates.iter().map(|c| judge(c.segment)).collect();
    for (segment, edition, found) in judged {
        let data = found.is_all_data();
        if let Some(checkpoint) = layout.mechanism().markv(found).unwrap() {
            layout
                .mechanism()
                .segclean(segment, edition, checkpoint, data);
        }
    }
}

pub fn story() {
    let stage = Stage::new(1, 0);
    let inos = ["a", "b", "c", "d"].map(|name| create(&stage.system, name));
    for ino in inos {
        fill(&stage.system, ino, BLOCKS, 1);
    }
    stage.system.checkpoint().unwrap();
    // The first segment is left, and half of it is dead.
    let filler = create(&stage.system, "filler");
    fill(&stage.system, filler, 40, 5);
    fill(&stage.system, inos[0], BLOCKS, 2);
    stage.system.sync().unwrap();
    let cleaner = stage.spawn(|system, _| {
        for _ in 0..2 {
            clean(system);
            system.layout().checkpoint().unwrap();
        }
        system.maintain().unwrap();
    });
    let writer = stage.spawn(move |system, mark| {
        for version in 2..=3 {
            fill(system, inos[1], BLOCKS, version);
            fsync(system, inos[1]);
            mark(u64::from(version));
        }
        unlink(system, "d");
        let ino = create(system, "e");
        fill(system, ino, BLOCKS, 4);
        fsync(system, ino);
        mark(4);
    });
    let reader = stage.spawn(move |system, _| {
        for _ in 0..3 {
            system.drop_caches();
            assert_eq!(versions(system, inos[0], BLOCKS), [2; BLOCKS]);
            assert_eq!(versions(system, inos[2], BLOCKS), [1; BLOCKS]);
        }
    });
    for thread in [cleaner, writer, reader] {
        thread.join().unwrap();
    }
    stage.system.sync().unwrap();
    stage.system.drop_caches();
    assert_eq!(versions(&stage.system, inos[1], BLOCKS), [3; BLOCKS]);
    stage.cut_at_marks(|marks, system| {
        let newest = marks.iter().copied().max().unwrap_or(1).min(3) as u8;
        let seen = versions(system, find(system, "b").unwrap(), BLOCKS);
        assert!(seen.iter().all(|version| *version >= newest), "{seen:?}");
        assert_eq!(
            versions(system, find(system, "a").unwrap(), BLOCKS),
            [2; BLOCKS]
        );
        assert_eq!(
            versions(system, find(system, "c").unwrap(), BLOCKS),
            [1; BLOCKS]
        );
        if marks.contains(&4) {
            assert_eq!(find(system, "d"), None);
            assert_eq!(
                versions(system, find(system, "e").unwrap(), BLOCKS),
                [4; BLOCKS]
            );
        }
    });
}

#[test]
fn the_cleaner_moves_nothing_over_newer_data() {
    explore("the_cleaner_moves_nothing_over_newer_data", 150, story);
}
