//! Transactions that are written before their commit, under power cuts. Each is complete
//! or absent, and no reader finds its remains.

use varve_prove::random::announce_seed;
use varve_prove::spilled::explore;

#[test]
fn spilled_transactions_survive_as_a_whole_or_leave_nothing() {
    let seed = announce_seed("--test spilled", 1);
    let mut images = 0;
    for seed in seed..seed + 2 {
        let done =
            explore(seed, 14, &mut images).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        eprintln!("seed {seed}: {done:?}, {images} images so far");
        assert!(done.commits > 3 && done.spilled > 1000 && done.emptied > 10);
    }
    assert!(images > 200);
}

#[cfg(feature = "planted")]
#[test]
fn every_bug_planted_in_spilling_is_caught() {
    use varve_fs::planted::{self, Planted};
    let mut missed = Vec::new();
    for bug in [
        Planted::SpillReused,
        Planted::SpillApplied,
        Planted::SpillCounted,
        Planted::PlacedLost,
    ] {
        let mut images = 0;
        let run = |seed| planted::with(bug, || explore(seed, 14, &mut images).err());
        let caught = (1..6).find_map(run);
        eprintln!("{bug:?}: {images} images: {caught:?}");
        if caught.is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "missed: {missed:?}");
}
