//! Overwrites at random on a full volume, under power cuts: what is reused
//! ahead of checkpoints is missed by nobody.

use varve_prove::overwritten::explore;
use varve_prove::random::announce_seed;

#[test]
fn overwritten_blocks_survive_whichever_record_recovery_begins_at() {
    let seed = announce_seed("--test overwritten", 1);
    for percent in [70, 90] {
        let mut images = 0;
        let reused = explore(seed, percent, 12, &mut images)
            .unwrap_or_else(|wrong| panic!("{percent} %: {wrong}"));
        eprintln!("{percent} %: {reused:?}, {images} images");
        assert!(reused.vacated > 20 && reused.plugged > 10 && images > 100);
    }
}
