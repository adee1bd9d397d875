//! Marks: how much may wait in memory while clean segments are short, and where
//! writers begin to slow down.

use super::{FormatOptions, MountOptions, Volume, settled_file};
use crate::control::Pace;
use crate::counts::{Counts, with_summaries};
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::{Purpose, Unwritten};

const MIB: u64 = 1 << 20;

/// So many bytes wait in memory.
fn dirty(bytes: u64) -> Unwritten {
    Unwritten {
        bytes,
        ..Unwritten::default()
    }
}

impl Volume {
    /// Leaves the most clean segments with which the cleaner works for so many
    /// bytes that wait, and `more`.
    fn leave_ample(&self, waiting: u64, more: u64) {
        self.lfs.segments.lock().waiting.bytes = with_summaries(waiting);
        let pace = self.lfs.cleaner.cleaner_settings().pace;
        let (_, _, _, high) = self.lfs.space.cleaning_marks(&pace);
        self.leave_clean(high + more);
        assert_eq!(u64::from(self.clean()), high + more);
    }
}

#[test]
fn what_waits_is_written_before_the_cleaner_works_for_it() {
    let v = Volume::new();
    settled_file(&v, 400);
    for threaded in [false, true] {
        let mut settings = v.lfs.cleaner.cleaner_settings();
        settings.pace.threaded = threaded;
        v.lfs.cleaner.set_cleaner(settings).unwrap();
        // With a thread, the slope is longer: the second round takes fewer.
        let waiting = if threaded { MIB / 2 } else { MIB };
        v.leave_ample(waiting, 1);
        assert!(
            !v.lfs.space.stock().is_short_of(dirty(waiting)),
            "threaded: {threaded}"
        );
        v.leave_ample(waiting, 0);
        assert!(
            v.lfs.space.stock().is_short_of(dirty(waiting)),
            "threaded: {threaded}"
        );
        assert!(
            !v.lfs.space.stock().is_short_of(dirty(MIB / 4)),
            "a group of its own"
        );
    }
}

#[test]
fn where_much_is_to_spare_more_may_wait_unless_there_is_no_room_for_it() {
    let v = Volume::made(
        512 << 20,
        &FormatOptions::default(),
        MountOptions::default(),
    );
    let segment = u64::from(v.lfs.geometry.segment_bytes);
    // A 64th of some 490 MiB.
    let (less, more) = (7 * MIB, 8 * MIB);
    v.leave_ample(more, 0);
    assert!(v.lfs.space.stock().is_short_of(dirty(more)));
    v.leave_ample(less, 0);
    assert!(!v.lfs.space.stock().is_short_of(dirty(less)));
    let goal = v.lfs.space.stock().goal(
        Counts {
            bytes: with_summaries(less),
            ..Counts::default()
        },
        Purpose::Grow,
    );
    v.leave_clean(goal);
    assert!(!v.lfs.space.stock().is_short_of(dirty(less)));
    v.leave_clean(goal - 1);
    assert!(v.lfs.space.stock().is_short_of(dirty(less)));
    v.leave_clean(v.lfs.space.stock().goal(Counts::default(), Purpose::Grow));
    assert!(v.lfs.space.stock().is_short_of(dirty(2 * segment + 1)));
    assert!(!v.lfs.space.stock().is_short_of(dirty(2 * segment)));
}

/// Writers begin to pay so many segments before they must wait: eight mebibytes,
/// but no more than a 32nd of the volume, where a thread cleans and takes what
/// is written; elsewhere as many as the cleaner wants in hand.
#[test]
fn where_a_thread_cleans_writers_have_a_slope_to_slow_down_on() {
    for (volume_bytes, segment_bytes, slope) in [
        (512 << 20, 1 << 20, 8),
        (256 << 20, 1 << 20, 7),
        (1 << 30, 4 << 20, 4),
    ] {
        let format = FormatOptions {
            segment_bytes,
            ..FormatOptions::default()
        };
        let v = Volume::made(volume_bytes, &format, MountOptions::default());
        v.lfs.control.reuses_early.store(true, Relaxed);
        let batch = v.lfs.space.batch_segments();
        assert_eq!(batch, 2);
        let marks = |threaded| {
            let pace = Pace {
                threaded,
                ..Pace::default()
            };
            let (floor, need, low, high) = v.lfs.space.cleaning_marks(&pace);
            (need - floor, low - need, high - low)
        };
        assert_eq!(marks(true), (slope, 0, batch));
        assert_eq!(marks(false), (batch, 0, batch));
        v.lfs.control.plugs.looked(true);
        assert_eq!(marks(true), (batch, 0, batch));
    }
}
