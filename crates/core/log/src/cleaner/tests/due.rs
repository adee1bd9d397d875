//! When the mount's own cleaner begins a pass, what it takes, and when it gives
//! up.

use super::{FormatOptions, MountOptions, Urgency, Volume, settled_file};
use crate::control::Pace;
use std::collections::BTreeSet;
use std::time::Duration;

const MS: u64 = 1_000_000;

impl Volume {
    fn set_pace(&self, change: impl FnOnce(&mut Pace)) {
        let mut settings = self.lfs.cleaner.cleaner_settings();
        change(&mut settings.pace);
        self.lfs.cleaner.set_cleaner(settings).unwrap();
    }

    /// Leaves so many segments clean.
    pub(super) fn leave_clean(&self, clean: u64) {
        while u64::from(self.clean()) > clean {
            self.lfs.segments.lock().take(0).unwrap();
        }
    }

    pub(super) fn checkpoints_of(&self, work: impl FnOnce()) -> u64 {
        let before = self.lfs.statistics().checkpoints;
        work();
        self.lfs.statistics().checkpoints - before
    }
}

/// Barren passes follow each other no more than four times, until something has
/// been written.
#[test]
fn a_cleaner_that_gains_nothing_rests_until_something_is_written() {
    let v = Volume::new();
    settled_file(&v, 400);
    v.set_pace(|pace| (pace.low_percent, pace.high_percent) = (Some(89), Some(90)));
    v.leave_clean(150);
    let begins = || {
        v.clock.advance(Duration::from_secs(1));
        let now_ns = v.lfs.clock.monotonic_ns();
        v.lfs.cleaner.clean_if_due().unwrap();
        v.lfs.control.shared().learnt.0 >= now_ns
    };
    let least = 2 * v.lfs.space.dependable_bytes() as i64 / 100;
    let mut barren = 0;
    for pass in 0.. {
        assert!(pass < 50, "still gaining");
        let before = v.lfs.cleaner.gained_bytes();
        assert!(begins(), "pass {pass}");
        let gained = v.lfs.cleaner.gained_bytes() - before;
        barren = if gained < least { barren + 1 } else { 0 };
        assert_eq!(v.lfs.control.shared().fruitless, barren == 4);
        if barren == 4 {
            break;
        }
    }
    assert!(!begins());
    let file = v.create("more");
    v.write(file, 0, 1);
    v.fs.sync().unwrap();
    assert!(begins());
}

#[test]
fn a_cleaner_that_is_not_to_run_does_not() {
    let (v, _) = Volume::half_dead(600);
    let pace = |running| {
        v.set_pace(|pace| {
            (pace.running, pace.low_percent, pace.high_percent) = (running, Some(89), Some(90));
        });
        v.lfs.cleaner.clean_if_due().unwrap();
        v.lfs.statistics().segments_cleaned
    };
    assert!(!v.lfs.cleaner.wants_cleaning());
    assert_eq!(pace(false), 0);
    assert!(!v.lfs.cleaner.wants_cleaning());
    assert!(pace(true) > 0);
    // Between the marks none begins, unless somebody waits.
    v.set_pace(|pace| (pace.low_percent, pace.high_percent) = (Some(1), Some(90)));
    let cleaned = v.lfs.statistics().segments_cleaned;
    v.lfs.cleaner.clean_if_due().unwrap();
    assert_eq!(v.lfs.statistics().segments_cleaned, cleaned);
    assert!(!v.lfs.cleaner.wants_cleaning());
    let needy = v.lfs.control.in_need();
    assert!(v.lfs.cleaner.wants_cleaning());
    v.set_pace(|pace| pace.running = false);
    assert!(!v.lfs.cleaner.wants_cleaning());
    drop(needy);
    v.set_pace(|pace| {
        *pace = Pace {
            low_percent: Some(89),
            ..Pace::default()
        }
    });
    assert!(v.lfs.cleaner.wants_cleaning());
}

/// Checkpoints for what others have cleaned: if it is needed, and no more than
/// two a second.
#[test]
fn what_others_have_cleaned_waits_for_half_a_second() {
    let v = Volume::new();
    let (_, segments) = settled_file(&v, 100);
    v.set_pace(|pace| {
        (pace.running, pace.low_percent, pace.high_percent) = (false, Some(89), Some(90));
    });
    v.leave_clean(150);
    let due = || v.checkpoints_of(|| v.lfs.cleaner.clean_if_due().unwrap());
    assert_eq!(v.lfs.cleaner.waiting_for_checkpoint(), 0);
    assert_eq!(due(), 0, "nothing waits");
    let entry = |cleaned| v.lfs.segments.lock().get_mut(segments[0]).cleaned = cleaned;
    entry(Some(u64::MAX));
    assert_eq!(due(), 1);
    assert_eq!(due(), 0);
    v.clock.advance(Duration::from_nanos(500 * MS - 1));
    assert_eq!(due(), 0);
    v.clock.advance(Duration::from_nanos(1));
    assert_eq!(due(), 1);
    // Where the mount's own runs, only if there are others.
    v.clock.advance(Duration::from_secs(1));
    v.set_pace(|pace| {
        (pace.running, pace.low_percent, pace.high_percent) = (true, Some(1), Some(90));
    });
    assert_eq!(due(), 0);
    let now_ns = v.lfs.clock.monotonic_ns();
    let joined = v.lfs.control.shared().claims.join("greedy", 1, now_ns);
    joined.unwrap();
    assert_eq!(due(), 1);
    // Nor if there is enough.
    v.clock.advance(Duration::from_secs(1));
    v.set_pace(|pace| (pace.low_percent, pace.high_percent) = (Some(1), Some(2)));
    let gauge = v.lfs.space.cleaning_gauge();
    assert!(gauge.clean >= gauge.high, "{gauge:?}");
    assert_eq!(due(), 0);
}

#[test]
fn a_checkpoint_is_taken_before_cleaning_once_an_eighth_of_the_volume_is_logged() {
    let v = Volume::new();
    settled_file(&v, 100);
    let eighth = v.lfs.geometry.volume_bytes() / 8;
    for (logged, checkpoints) in [(eighth - 1, 0), (eighth, 1)] {
        v.lfs.layers.change().live.log_bytes = logged;
        let cleaning = v.lfs.cleaner.lock_cleaning();
        let taken = v.checkpoints_of(|| {
            v.lfs
                .cleaner
                .gain_early(&cleaning, Urgency::Background, 0)
                .map(|_| ())
                .unwrap();
        });
        assert_eq!(taken, checkpoints, "{logged} of {eighth}");
    }
}

#[test]
fn a_volume_lives_early_if_most_of_what_could_be_cleaned_does() {
    let (v, _) = Volume::half_dead(600);
    let candidates = v.lfs.cleaner.candidates();
    let may = |segment: u32| v.lfs.segments.lock().may_vacate(segment);
    // So many of them, as near half as can be.
    let mut early = candidates.iter().filter(|c| may(c.segment)).count();
    for candidate in candidates.iter() {
        assert_eq!(v.lfs.cleaner.lives_early(), 2 * early > candidates.len());
        if may(candidate.segment) {
            v.lfs.segments.lock().takes_metadata(candidate.segment);
            early -= 1;
        }
    }
    assert_eq!(early, 0);
    assert!(!v.lfs.cleaner.lives_early());
}

/// Of several heads, the mean.
#[test]
fn what_is_left_of_open_segments_is_told_in_hundredths() {
    for heads in [1, 2] {
        let format = FormatOptions {
            segment_bytes: 128 << 10,
            ..FormatOptions::default()
        };
        let options = MountOptions {
            heads,
            ..MountOptions::default()
        };
        let v = Volume::made(256 << 20, &format, options);
        let heads = heads as usize;
        assert_eq!(v.lfs.space.heads(), heads);
        let file = v.create("file");
        let segment = u64::from(v.lfs.geometry.segment_bytes);
        let mut seen = BTreeSet::new();
        for block in 0..40 {
            v.write(file, block, 1);
            v.fs.sync().unwrap();
            let end = v.lfs.log.lock().end;
            let left = (0..heads).map(|head| segment - u64::from(end.at(head).offset.get()));
            let percent = left.sum::<u64>() * 100 / (segment * heads as u64);
            assert_eq!(
                u64::from(v.lfs.space.cleaning_gauge().open_percent),
                percent
            );
            seen.insert(percent);
        }
        assert!(seen.len() > 5, "{heads} heads: {seen:?}");
    }
}

#[test]
fn marks_are_taken_from_1_to_90_and_the_high_one_above_the_low() {
    let v = Volume::new();
    let mut settings = v.lfs.cleaner.cleaner_settings();
    let mut takes = |low, high| {
        (settings.pace.low_percent, settings.pace.high_percent) = (low, high);
        settings.check().is_ok()
    };
    assert!(takes(None, None) && takes(Some(1), None) && takes(None, Some(90)));
    assert!(takes(Some(29), Some(30)) && !takes(Some(30), Some(29)));
    assert!(!takes(Some(91), None) && !takes(None, Some(0)));
}
