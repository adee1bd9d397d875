//! Random overwrites on a full volume, under power cuts. Every recovery must find its
//! blocks, although space is reused ahead of checkpoints.

use varve_prove::overwritten::explore;
use varve_prove::random::announce_seed;

fn blocks_survive_whichever_record_recovery_begins_at(percent: u64) {
    let seed = announce_seed("--test overwritten", 1);
    let mut images = 0;
    let reused = explore(seed, percent, 12, &mut images)
        .unwrap_or_else(|wrong| panic!("{percent} %: {wrong}"));
    eprintln!("{percent} %: {reused:?}, {images} images");
    assert!(reused.vacated > 20 && reused.plugged > 10 && images > 100);
}

#[test]
fn seventy_percent_full() {
    blocks_survive_whichever_record_recovery_begins_at(70);
}

#[test]
fn ninety_percent_full() {
    blocks_survive_whichever_record_recovery_begins_at(90);
}
