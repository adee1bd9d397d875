//! Making room: what needs no checkpoint, what does, and what is not tried where
//! a checkpoint does not fit.

use super::{Urgency, Volume, settled_file};

impl Volume {
    /// Gains segments up to `goal`. Returns how many were cleaned on the way.
    fn gains(&self, urgency: Urgency, goal: u64) -> u32 {
        let cleaning = self.lfs.cleaner.lock_cleaning();
        self.lfs
            .cleaner
            .gain_segments(&cleaning, urgency, goal)
            .unwrap()
    }
}

#[test]
fn what_needs_no_checkpoint_comes_first_and_may_be_enough() {
    for urgency in [Urgency::Background, Urgency::Waiting] {
        let (v, file) = Volume::half_dead(600);
        let clean = u64::from(v.clean());
        let taken = v.checkpoints_of(|| {
            assert!(v.gains(urgency, clean + 1) > 0);
        });
        assert_eq!(taken, 0, "{urgency:?}");
        assert!(u64::from(v.clean()) > clean, "{urgency:?}");
        v.is_whole(file, 0, 600);
    }
}

#[test]
fn who_has_enough_gains_nothing() {
    let (v, _) = Volume::half_dead(600);
    let taken = v.checkpoints_of(|| assert_eq!(v.gains(Urgency::Waiting, v.clean().into()), 0));
    assert_eq!((taken, v.lfs.statistics().segments_cleaned), (0, 0));
}

/// What was cleaned and holds metadata becomes clean by two checkpoints.
#[test]
fn what_waits_for_checkpoints_is_had_by_checkpoints() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 200);
    for &segment in &segments[..3] {
        v.lfs.segments.lock().takes_metadata(segment);
        assert!(v.lfs.cleaner.clean_segment(segment).unwrap());
    }
    let are_clean = || segments[..3].iter().all(|s| v.is_clean(*s));
    assert!(!are_clean());
    let goal = u64::from(v.clean()) + 1;
    let taken = v.checkpoints_of(|| {
        v.gains(Urgency::Waiting, goal);
    });
    assert!((1..=2).contains(&taken) && are_clean(), "{taken}");
    v.is_whole(file, 0, 200);
}

/// Where a checkpoint might not find room none is tried, and that is no error.
#[test]
fn no_checkpoint_is_tried_that_does_not_fit() {
    let (v, file) = Volume::half_dead(600);
    let logged = v.lfs.geometry.volume_bytes();
    v.leave_clean(0);
    assert!(!v.lfs.checkpoints.checkpoint_fits());
    let taken = v.checkpoints_of(|| {
        v.lfs.layers.change().live.log_bytes = logged;
        for urgency in [Urgency::Background, Urgency::Waiting] {
            v.gains(urgency, 50);
        }
        let mut settings = v.lfs.cleaner.cleaner_settings();
        settings.pace.running = false;
        v.lfs.cleaner.set_cleaner(settings).unwrap();
        v.lfs.segments.lock().get_mut(0).cleaned = Some(u64::MAX);
        v.lfs.cleaner.clean_if_due().unwrap();
    });
    assert_eq!(taken, 0);
    v.is_whole(file, 0, 600);
}

/// A replayed log may have left segments empty: they are looked at one by one,
/// and no more of them than it takes until a checkpoint fits.
#[test]
fn what_replay_may_have_left_empty_is_looked_at_until_there_is_room() {
    let (v, file) = Volume::half_dead(1200);
    let may = v.which(|s| v.lfs.segments.lock().may_vacate(s));
    assert!(may.len() > 16, "{}", may.len());
    let places: Vec<u64> = (0..1200).map(|b| v.place(file, b).sector()).collect();
    {
        let mut segments = v.lfs.segments.lock();
        segments.moved_from.extend(&may);
        segments.stale = true;
    }
    assert!(v.lfs.checkpoints.checkpoint_fits());
    v.lfs.checkpoints.look_for_room();
    let segments = v.lfs.segments.lock();
    assert_eq!(segments.moved_from.len(), may.len() - 16);
    assert!(segments.stale, "the others are left for later");
    drop(segments);
    // What lives there stays there.
    assert!((0..1200).all(|b| v.place(file, b).sector() == places[b as usize]));
    assert_eq!(v.lfs.statistics().segments_vacated, 0);
}

#[test]
fn as_many_as_are_worth_checkpoints_is_a_batch_or_two_folds() {
    let v = Volume::new();
    settled_file(&v, 100);
    let worth = || v.lfs.cleaner.worth_checkpoints();
    assert_eq!(
        worth(),
        v.lfs
            .space
            .batch_segments()
            .max(2 * v.lfs.space.fold_segments())
    );
    let folds = v.lfs.space.fold_segments();
    let many = 20 * v.lfs.space.dependable_bytes();
    v.lfs.layers.change().live.counts.bytes = many;
    assert_eq!(v.lfs.space.fold_segments(), folds + 20);
    assert_eq!(worth(), 2 * (folds + 20));
}
