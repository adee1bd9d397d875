//! Snapshots of the volume under power cuts: each shows what was.

use varve_prove::kept::explore;
use varve_prove::random::announce_seed;

#[test]
fn snapshots_survive_power_cuts_and_show_what_was() {
    let seed = announce_seed("--test kept", 1);
    let mut images = 0;
    for seed in seed..seed + 2 {
        let done =
            explore(seed, 12, &mut images).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        eprintln!("seed {seed}: {done:?}, {images} images so far");
        assert!(done.taken > 10 && done.deleted > 5 && done.emptied > 10);
    }
    assert!(images > 100);
}

#[cfg(feature = "planted")]
#[test]
fn every_bug_planted_in_snapshots_is_caught() {
    use varve_fs::planted::{self, Planted};
    let mut missed = Vec::new();
    for bug in [
        Planted::KeptUnlisted,
        Planted::KeptWithoutKind,
        Planted::KeptMoveDropped,
        Planted::KeptJudgedDead,
        Planted::KeptReplayLost,
        Planted::KeptSpillPlaced,
        Planted::KeptUncounted,
        Planted::KeptRowAtOnce,
        Planted::KeptImageLost,
    ] {
        let mut images = 0;
        let run = |seed| planted::with(bug, || explore(seed, 12, &mut images).err());
        let caught = (1..8).find_map(run);
        eprintln!("{bug:?}: {images} images: {caught:?}");
        if caught.is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "missed: {missed:?}");
}
