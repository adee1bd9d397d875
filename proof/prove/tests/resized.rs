//! Changes of size and label: an interrupted change leaves the old or the new volume, and
//! it is whole. `resized.rs` explains how.

use varve_device::{Limits, MemoryDevice};
use varve_lfs::{Lfs, Tune};
use varve_prove::explorer::Explorer;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::resized::{Change, Counts, Cut, any_order, on_device_of, used};
use varve_prove::subjects::Log;
use varve_prove::variants::Variant;

/// A story that fills many segments and leaves holes in them.
const MIXED: &str = "create a; create b; create c; write a 0+900000 #1; sync; write b 0+700000 #2; \
                     sync; write a 0+400000 #3; sync; write c 0+500000 #4; sync; write b \
                     100000+300000 #5; sync; unlink c; sync; write a 700000+200000 #6; sync";

/// A story that fills a volume of 16 MiB to the end, and leaves half of it.
const MUCH: &str = "create a; create b; create c; create d; create e; create f; write a \
                    0+2000000 #1; write b 0+2000000 #2; write c 0+2000000 #3; sync; write d \
                    0+2000000 #4; write e 0+2000000 #5; sync; write f 0+1500000 #6; sync; unlink \
                    a; unlink c; sync; write b 300000+500000 #7; sync; unlink e; sync";

fn cut(subject: &Log, seed: u64, unit: u32) -> Cut<'_> {
    Cut {
        subject,
        limits: Limits {
            exhaustive_writes: 4,
            random_subsets: 6,
            each_shape: 4,
            torn_writes: 1,
            torn_variants: 4,
            scattered: 2,
        },
        unit,
        further_one_in: 6,
        seed,
    }
}

fn tell(what: &str, counts: Counts) {
    eprintln!(
        "{what}: {} states, {} said what is new, {} went on",
        counts.states, counts.changed, counts.further
    );
    assert!(counts.changed > 0 && counts.changed < counts.states);
    assert!(counts.further > 0);
}

#[test]
fn a_volume_that_grows_has_the_old_size_or_the_new_one() {
    let seed = announce_seed("a_volume_that_grows_has_the_old_size_or_the_new_one", 1);
    let subject = Log::default();
    for (round, unmounted) in (0..scaled(2)).zip([true, false].into_iter().cycle()) {
        let small = used(&subject, seed + round, (40, MIXED), unmounted);
        let base = on_device_of(&small, 24 << 20);
        for unit in [512, 4096] {
            let explored =
                cut(&subject, seed + round, unit).explore(&base, &Change::Size(24 << 20));
            tell(
                "grow",
                explored.unwrap_or_else(|failure| panic!("{failure}")),
            );
        }
    }
}

#[test]
fn a_volume_that_shrinks_has_the_old_size_or_the_new_one() {
    let seed = announce_seed("a_volume_that_shrinks_has_the_old_size_or_the_new_one", 1);
    let subject = Log {
        device_bytes: 16 << 20,
        ..Log::default()
    };
    for (round, unmounted) in (0..scaled(2)).zip([true, false].into_iter().cycle()) {
        let base = used(&subject, seed + round, (40, MUCH), unmounted);
        let unit = [512, 4096][round as usize % 2];
        let explored = cut(&subject, seed + round, unit).explore(&base, &Change::Size(8 << 20));
        tell(
            "shrink",
            explored.unwrap_or_else(|failure| panic!("{failure}")),
        );
    }
}

#[test]
fn a_volume_has_its_old_name_or_the_new_one() {
    let seed = announce_seed("a_volume_has_its_old_name_or_the_new_one", 1);
    let subject = Log::default();
    let base = used(&subject, seed, (40, MIXED), false);
    let tuning = Tune {
        label: Some("new".into()),
        uuid: Some([9; 16]),
        ..Tune::default()
    };
    for unit in [512, 4096] {
        let explored = cut(&subject, seed, unit).explore(&base, &Change::Name(tuning.clone()));
        tell(
            "tune",
            explored.unwrap_or_else(|failure| panic!("{failure}")),
        );
    }
}

#[test]
fn a_mounted_volume_grows_whatever_is_cut_short() {
    let seed = announce_seed("a_mounted_volume_grows_whatever_is_cut_short", 1);
    let Variant {
        subject,
        plan,
        length,
    } = Variant::growing(seed);
    let explorer = Explorer::new(&subject);
    for index in 0..scaled(2) {
        if let Err(failure) = explorer.explore_generated(index, length, &plan) {
            panic!("workload {index}\n{failure}");
        }
    }
    let counts = explorer.counts();
    eprintln!("{counts:?}");
    assert!(counts.states > 500);
    // The volume does grow.
    let explorer = Explorer::new(&subject);
    let story = "create a; switch-policy; write a 0+400000 #1; sync; switch-policy; write a \
                 300000+900000 #2; kill; switch-policy; write a 0+100000 #3; fsync a";
    let explored = explorer.explore_story(story, &plan);
    explored.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn sizes_in_any_order_are_no_matter_to_the_tree() {
    let seed = announce_seed("sizes_in_any_order_are_no_matter_to_the_tree", 1);
    let subject = Log::default();
    for story in 0..scaled(6) {
        let counts = any_order(&subject, seed.wrapping_mul(1000) + story, 12);
        let counts = counts.unwrap_or_else(|failure| panic!("story {story}: {failure}"));
        eprintln!(
            "story {story}: {} of {} sizes",
            counts.changed, counts.states
        );
        assert!(counts.changed > 3);
    }
}

#[test]
fn a_copy_of_before_the_change_does_not_count_on_the_cut_device() {
    let subject = Log::default();
    let base = used(&subject, 3, (20, MIXED), true);
    let short = on_device_of(&base, 6 << 20);
    let error = Lfs::find_superblock(&MemoryDevice::from_image(&short)).unwrap_err();
    assert!(error.to_string().contains("the volume needs"), "{error}");
}
