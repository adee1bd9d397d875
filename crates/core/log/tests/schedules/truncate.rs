//! A file is cut while a checkpoint folds what it consists of: what was cut
//! off is gone, also once the file is longer again.

use crate::stage::{BLOCK, Stage, create, explore, fill, resize, versions};
use varve_fs::Layout;

const BLOCKS: usize = 3;
const FILES: usize = 12;

fn story() {
    let stage = Stage::new(0, 0);
    let inos: Vec<_> = (0..FILES)
        .map(|n| create(&stage.system, &format!("f{n}")))
        .collect();
    for ino in &inos {
        fill(&stage.system, *ino, BLOCKS, 7);
    }
    stage.system.sync().unwrap();
    let checkpoint = stage.spawn(|system, _| system.layout().checkpoint().unwrap());
    let cut = inos.clone();
    let writer = stage.spawn(move |system, _| {
        for ino in cut {
            resize(system, ino, BLOCK as u64);
            resize(system, ino, (BLOCKS * BLOCK) as u64);
        }
    });
    for thread in [checkpoint, writer] {
        thread.join().unwrap();
    }
    stage.system.sync().unwrap();
    stage.system.drop_caches();
    for ino in &inos {
        assert_eq!(versions(&stage.system, *ino, BLOCKS), [7, 0, 0]);
    }
    stage.finish();
}

/// A look for the next block asked the image first and the deltas then; a
/// checkpoint that was installed in between hid the block from both.
#[test]
fn what_is_cut_off_during_a_checkpoint_stays_away() {
    explore("what_is_cut_off_during_a_checkpoint_stays_away", 600, story);
}
