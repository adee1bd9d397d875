//! A copy that follows its original is at the end of every group what the original was
//! then. `shipped.rs` explains how.

use std::sync::Arc;
use varve_device::{Device, Limits, MemoryDevice, MemoryImage, RecordingDevice};
use varve_lfs::format::Mark;
use varve_lfs::shipping::ShipError;
use varve_lfs::{Lfs, MountOptions};
use varve_prove::model::Model;
use varve_prove::mounted::Subject;
use varve_prove::operation::story;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::runner::{Runner, new_clock};
use varve_prove::shipped::{Pair, explore, files_of, replay, take};
use varve_prove::subjects::Log;
use varve_prove::variants::Variant;

#[test]
fn a_copy_is_what_its_original_was() {
    let seed = announce_seed("a_copy_is_what_its_original_was", 1);
    let (mut groups, mut bases) = (0, 0);
    for story in 0..scaled(4) {
        let subject = Log::default();
        let mut pair = Pair::new(&subject, seed.wrapping_mul(1000) + story).unwrap();
        for life in 0..4 {
            let lived = pair.live(4, 40);
            lived.unwrap_or_else(|failure| panic!("story {story}, life {life}: {failure}"));
        }
        pair.show()
            .unwrap_or_else(|failure| panic!("story {story}: {failure}"));
        let counts = pair.counts();
        eprintln!("story {story}: {counts:?}");
        groups += counts.groups;
        bases += counts.bases;
    }
    assert!(groups > 50 && bases == 0);
}

#[test]
fn a_replay_is_cut_short_anywhere() {
    let seed = announce_seed("a_replay_is_cut_short_anywhere", 1);
    let limits = Limits {
        exhaustive_writes: 3,
        random_subsets: 3,
        each_shape: 3,
        torn_writes: 1,
        torn_variants: 2,
        scattered: 1,
    };
    let mut states = 0;
    for story in 0..scaled(2) {
        let subject = Log::default();
        let seed = seed.wrapping_mul(1000) + story;
        let mut pair = Pair::new(&subject, seed).unwrap();
        // The replays begin at the base, and at the end of an earlier replay.
        for round in 0..2 {
            let base = pair.copy.clone();
            let since = mark_of(&subject, &base);
            pair.live(3, 25).unwrap();
            let stream = pair.shipped(since).unwrap();
            let how = (limits, [512, 4096][round as usize % 2], seed + round);
            let explored = explore(&subject, &base, &stream, &pair.course, how);
            let counts = explored.unwrap_or_else(|failure| panic!("story {story}: {failure}"));
            eprintln!("story {story}, {round}: {counts:?}");
            assert!(counts.groups > 2 && counts.again > 0);
            states += counts.states;
        }
    }
    assert!(states > 200);
}

fn read_only(subject: &Log) -> MountOptions {
    MountOptions {
        read_only: true,
        ..subject.mount.clone()
    }
}

fn mark_of(subject: &Log, image: &MemoryImage) -> Mark {
    let device = Arc::new(MemoryDevice::from_image(image));
    Lfs::mount(device, new_clock(), read_only(subject))
        .unwrap()
        .mark()
}

#[test]
fn streams_that_are_no_good_leave_a_copy_at_the_end_of_a_group() {
    let seed = announce_seed("streams_that_are_no_good", 1);
    let subject = Log::default();
    let mut pair = Pair::new(&subject, seed).unwrap();
    let base = pair.copy.clone();
    let since = mark_of(&subject, &base);
    pair.live(3, 30).unwrap();
    let good = pair.shipped(since).unwrap();
    let mut random = varve_prove::random::Random::new(seed);
    let mut ended = 0;
    for _ in 0..scaled(60) {
        let mut bad = good.clone();
        let at = random.below(bad.len() as u64) as usize;
        match random.below(3) {
            0 => bad[at] ^= 1 << random.below(8),
            // A piece is missing, or is repeated.
            1 => drop(bad.drain(at..(at + 64).min(good.len()))),
            _ => {
                let piece: Vec<u8> = bad[at..(at + 64).min(good.len())].to_vec();
                bad.splice(at..at, piece);
            }
        }
        let device = Arc::new(MemoryDevice::from_image(&base));
        match replay(device.clone(), &subject.mount, &bad) {
            Err(ShipError::BadStream { .. } | ShipError::Unfit(_)) => ended += 1,
            // The added bytes are after the end.
            Ok(_) => {}
            Err(other) => panic!("{other}"),
        }
        let looked = pair.course.look(&subject, &device.snapshot());
        looked.unwrap_or_else(|failure| panic!("{failure}"));
    }
    assert!(ended > scaled(60) * 2 / 3 - 1, "{ended}");
}

/// Returns a copy of the image to which `files` files were written.
fn written_to(subject: &Log, image: &MemoryImage, files: u64) -> MemoryImage {
    let device = Arc::new(MemoryDevice::from_image(image));
    let mounted = subject.mount(device.clone(), new_clock(), 77).unwrap();
    let mut runner = Runner::new(mounted, new_clock(), Model::new(4096));
    for file in 0..files {
        let text = format!("create z{file}; write z{file} 0+9000 #{file}; sync");
        for operation in story(&text) {
            runner.perform(&operation).unwrap();
        }
    }
    runner.mounted().unmount().unwrap();
    device.snapshot()
}

#[test]
fn another_history_is_refused_and_left_alone() {
    let seed = announce_seed("another_history_is_refused_and_left_alone", 1);
    let subject = Log::default();
    let mut pair = Pair::new(&subject, seed).unwrap();
    let base = pair.copy.clone();
    pair.live(1, 30).unwrap();
    let copy = pair.copy.clone();
    let since = mark_of(&subject, &base);
    pair.live(3, 30).unwrap();
    let stream = pair.shipped(since).unwrap();
    // A copy to which files were written has another history, and refuses the stream.
    for (image, files) in [(&base, 1), (&base, 40), (&copy, 1), (&copy, 40)] {
        let other = written_to(&subject, image, files);
        let device = Arc::new(MemoryDevice::from_image(&other));
        let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&other)));
        let refused = replay(recorder.clone(), &subject.mount, &stream);
        match refused {
            Err(ShipError::OtherHistory { .. }) => {}
            // Its own log may have advanced further than the stream.
            Ok(done) if done.ahead => {}
            other => panic!("{files} files: {other:?}"),
        }
        assert!(recorder.take_trace().is_empty());
        let lfs = Lfs::mount(device, new_clock(), read_only(&subject)).unwrap();
        assert!(!lfs.is_copy());
    }
    let idle = written_to(&subject, &copy, 0);
    assert_eq!(mark_of(&subject, &idle), mark_of(&subject, &copy));
    let device = Arc::new(MemoryDevice::from_image(&idle));
    replay(device.clone(), &subject.mount, &stream).unwrap();
    pair.course.look(&subject, &device.snapshot()).unwrap();
    // The copy cannot be shipped, and its mark cannot be shipped from another volume.
    let lfs = Lfs::mount(device, new_clock(), read_only(&subject)).unwrap();
    assert!(matches!(lfs.ship(lfs.mark()), Err(ShipError::IsACopy(_))));
    let device: Arc<dyn Device> = pair.original().clone();
    let lfs = Lfs::mount(device, new_clock(), read_only(&subject)).unwrap();
    let own = lfs.mark();
    for wrong in [
        Mark {
            check: own.check ^ 1,
            ..own
        },
        Mark {
            serial: own.serial + 1,
            ..own
        },
        Mark {
            serial: u64::MAX,
            check: 0,
        },
        Mark {
            check: since.check ^ 1,
            ..since
        },
    ] {
        assert!(
            matches!(lfs.ship(wrong), Err(ShipError::OtherHistory { .. })),
            "{wrong}"
        );
    }
}

#[test]
fn a_log_that_was_cleaned_away_is_said_to_be_gone() {
    let seed = announce_seed("a_log_that_was_cleaned_away_is_said_to_be_gone", 1);
    let subject = Log {
        device_bytes: 4 << 20,
        ..Log::default()
    };
    let pair = Pair::new(&subject, seed).unwrap();
    let since = mark_of(&subject, &pair.copy);
    let device = pair.original().clone();
    let (mounted, lfs) = subject.mount_and_layout(device, new_clock(), 5).unwrap();
    let mut runner = Runner::new(mounted, new_clock(), Model::new(4096));
    // A shipper that reads nothing does not disturb the volume.
    let mut idle = lfs.ship(since).unwrap();
    for round in 0..200 {
        for operation in story(&format!(
            "create a; write a 0+200000 #{round}; sync; unlink a; sync"
        )) {
            runner.perform(&operation).unwrap();
        }
    }
    assert!(lfs.statistics().segments_opened > 60);
    let gone = loop {
        match idle.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("all of it is there"),
            Err(gone) => break gone,
        }
    };
    assert!(matches!(gone, ShipError::LogGone { .. }), "{gone}");
    assert!(matches!(lfs.ship(since), Err(ShipError::LogGone { .. })));
    assert!(gone.to_string().contains("make a new base"));
}

/// Follows an original in the setup of one variant.
fn follow(name: &str, variant: &Variant, seed: u64) {
    let seed = announce_seed(name, seed);
    let profile = variant.plan.profile.clone();
    let mut pair = Pair::using(&variant.subject, profile, seed).unwrap();
    for life in 0..scaled(4) {
        let lived = pair.live(3, variant.length.min(60));
        lived.unwrap_or_else(|failure| panic!("{name}, life {life}: {failure}"));
    }
    pair.show()
        .unwrap_or_else(|failure| panic!("{name}: {failure}"));
    let counts = pair.counts();
    eprintln!("{name}: {counts:?}");
    assert!(counts.groups > scaled(10));
}

#[test]
fn volumes_of_all_kinds_are_followed() {
    for seed in 0..2 {
        follow("under_cleaning", &Variant::under_cleaning(seed), seed);
        follow("with_claims", &Variant::with_claims(seed), seed);
        follow("with_strangers", &Variant::with_strangers(seed), seed);
        follow("under_coalescing", &Variant::under_coalescing(seed), seed);
        follow(
            "with_flushes_between",
            &Variant::with_flushes_between(seed),
            seed,
        );
        follow(
            "with_other_measures",
            &Variant::with_other_measures(seed),
            seed,
        );
        follow("with_deep_indexes", &Variant::with_deep_indexes(seed), seed);
    }
}

#[test]
fn logs_with_several_heads_are_followed() {
    for seed in 0..2 {
        follow("with_heads", &Variant::with_heads(seed), seed);
        let small = Variant::with_heads_under_cleaning(seed);
        follow("with_heads_under_cleaning", &small, seed);
        follow(
            "with_changing_heads",
            &Variant::with_changing_heads(seed),
            seed,
        );
    }
}

#[test]
fn a_full_volume_is_followed_until_it_is_empty() {
    let seed = announce_seed("a_full_volume_is_followed_until_it_is_empty", 1);
    let subject = Log {
        device_bytes: 4 << 20,
        ..Log::default()
    };
    let pair = Pair::new(&subject, seed).unwrap();
    let mut copy = pair.copy.clone();
    let device = pair.original().clone();
    let (mounted, lfs) = subject.mount_and_layout(device, new_clock(), 5).unwrap();
    let mut runner = Runner::new(mounted, new_clock(), Model::new(4096));
    let mut files = 0;
    let mut step = |runner: &mut Runner, text: &str| -> bool {
        let done = story(text)
            .iter()
            .all(|operation| match runner.perform(operation) {
                Ok(_) => true,
                Err(varve_fs::Error::NoSpace) => false,
                Err(error) => panic!("{operation}: {error}"),
            });
        runner.mounted().sync().unwrap();
        let base = Arc::new(MemoryDevice::from_image(&copy));
        let stream = take(&lfs, mark_of(&subject, &copy)).unwrap();
        replay(base.clone(), &subject.mount, &stream.bytes).unwrap();
        copy = base.snapshot();
        let lfs_of_copy = Lfs::mount(base, new_clock(), read_only(&subject)).unwrap();
        assert_eq!(files_of(&lfs).unwrap(), files_of(&lfs_of_copy).unwrap());
        done
    };
    while step(
        &mut runner,
        &format!("create f{files}; write f{files} 0+40000 #{files}"),
    ) {
        files += 1;
    }
    assert!(files > 20, "{files}");
    for file in (0..files).step_by(2).chain((1..files).step_by(2)) {
        assert!(step(&mut runner, &format!("unlink f{file}")));
    }
}
