//! What one pass takes, and when it ends.

use super::{Among, BLOCK, Caller, InodeNo, PUNCH, Urgency, Volume, settled_file};
use crate::control::claims::CleanerId;
use crate::policy::PolicyKind;
use std::collections::BTreeSet;

impl Volume {
    /// Segments of which this is true.
    pub(super) fn which(&self, is_one: impl Fn(u32) -> bool) -> BTreeSet<u32> {
        (0..self.lfs.geometry.segment_count)
            .filter(|segment| is_one(*segment))
            .collect()
    }

    /// A file every second block of which has died, behind two checkpoints.
    pub(super) fn half_dead(blocks: u64) -> (Self, InodeNo) {
        let v = Volume::new();
        let file = v.create("file");
        v.write(file, 0, blocks);
        v.checkpoint();
        (0..blocks)
            .step_by(2)
            .for_each(|block| v.write(file, block, 1));
        for _ in 0..2 {
            v.checkpoint();
            v.write(file, blocks, 1);
        }
        v.checkpoint();
        (v, file)
    }

    fn cleans(&self, urgency: Urgency, among: Among, wanted: u64) -> BTreeSet<u32> {
        let cleaning = self.lfs.cleaner.lock_cleaning();
        self.lfs
            .cleaner
            .clean_segments(&cleaning, urgency, among, wanted)
            .unwrap();
        drop(cleaning);
        self.which(|segment| self.lfs.segments.lock().get(segment).cleaned.is_some())
    }

    fn freed(&self, segments: &BTreeSet<u32>) -> u64 {
        let whole = self.lfs.space.dependable_bytes();
        let freed = segments.iter().map(|s| whole.saturating_sub(self.live(*s)));
        freed.sum()
    }
}

#[test]
fn a_pass_ends_when_what_it_has_freed_is_as_much_as_was_wanted() {
    for wanted in [1, 3] {
        let (v, _) = Volume::half_dead(1200);
        let freed: u64 = v
            .cleans(Urgency::Waiting, Among::All, wanted)
            .iter()
            .map(|&segment| {
                v.lfs
                    .space
                    .dependable_bytes()
                    .saturating_sub(v.live(segment))
            })
            .sum();
        let segment = v.lfs.space.dependable_bytes();
        let enough = wanted * segment..(wanted + 1) * segment;
        assert!(enough.contains(&freed), "{freed} for {wanted} of {segment}");
    }
    let (v, _) = Volume::half_dead(1200);
    assert_eq!(v.cleans(Urgency::Waiting, Among::All, 0).len(), 0);
}

#[test]
fn what_is_to_be_had_at_once_is_data_that_no_record_needs() {
    let early = |v: &Volume| v.which(|s| v.lfs.segments.lock().may_vacate(s));
    let (v, file) = Volume::half_dead(600);
    let may = early(&v);
    let cleaned = v.cleans(Urgency::Ahead, Among::AtOnce, u64::MAX);
    assert!(!cleaned.is_empty() && cleaned.is_subset(&may));
    v.is_whole(file, 0, 600);

    let (v, file) = Volume::half_dead(600);
    let (may, behind) = (early(&v), v.which(|s| v.lfs.segments.lock().is_behind(s)));
    let cleaned = v.cleans(Urgency::Ahead, Among::Behind, u64::MAX);
    assert!(cleaned.is_subset(&behind) && !cleaned.is_subset(&may));
    let (v, _) = (v, file);
    let newest = v.which(|s| !v.lfs.segments.lock().is_behind(s));
    assert!(!newest.is_empty());
    v.is_whole(file, 0, 600);
}

/// What is to be had at once is left alone where it is twice as dear as what a
/// checkpoint would give.
#[test]
fn what_is_to_be_had_at_once_must_not_be_far_dearer() {
    let (v, _) = Volume::half_dead(600);
    let may = v.which(|s| v.lfs.segments.lock().may_vacate(s));
    let (&one, whole) = (may.first().unwrap(), v.lfs.space.dependable_bytes());
    let mut segments = v.lfs.segments.lock();
    // All others are full, and one that waits for checkpoints gives most.
    let behind = segments
        .iter()
        .map(|(number, _)| number)
        .find(|n| segments.is_behind(*n) && !may.contains(n) && segments.get(*n).live_bytes > 0);
    let freed = whole - u64::from(segments.get(one).live_bytes);
    for &segment in may.iter().skip(1) {
        segments.get_mut(segment).suspect = true;
    }
    let behind = behind.expect("metadata");
    segments.get_mut(behind).live_bytes = (whole - (2 * freed + 2).min(whole)) as u32;
    let dearest = whole - u64::from(segments.get(behind).live_bytes);
    drop(segments);
    assert!(freed * 2 < dearest);
    let cleaned = v.cleans(Urgency::Ahead, Among::AtOnce, u64::MAX);
    assert!(!cleaned.contains(&one), "{cleaned:?}");
    v.lfs.segments.lock().get_mut(behind).live_bytes = (whole - 2 * freed) as u32;
    let cleaned = v.cleans(Urgency::Ahead, Among::AtOnce, u64::MAX);
    assert!(cleaned.contains(&one), "{cleaned:?}");
}

#[test]
fn the_own_cleaner_lets_go_of_its_claims_behind_a_pass() {
    let (v, _) = Volume::half_dead(600);
    let cleaned = v.cleans(Urgency::Ahead, Among::All, 2);
    assert!(!cleaned.is_empty());
    let shared = v.lfs.control.shared();
    let stranger = CleanerId(77);
    assert!(
        cleaned
            .iter()
            .all(|&s| shared.claims.is_free_for(stranger, s))
    );
}

/// Whoever comes to wait gets what there is, once it is worth the checkpoints;
/// one who waits already is served by a pass of his own.
#[test]
fn a_pass_ends_for_somebody_who_waits_once_it_has_half_a_batch() {
    for (urgency, yields) in [(Urgency::Background, true), (Urgency::Waiting, false)] {
        let (v, _) = Volume::half_dead(2000);
        let segment = v.lfs.space.dependable_bytes();
        let half = v.lfs.space.batch_segments() * segment / 2;
        let _needy = v.lfs.control.in_need();
        let cleaned = v.cleans(urgency, Among::All, u64::MAX);
        let freed = v.freed(&cleaned);
        assert!(freed >= half, "{urgency:?}: {freed} of {half}");
        assert_eq!(
            freed < half + segment,
            yields,
            "{urgency:?}: {freed} of {half}"
        );
    }
}

/// Of those that wait for a checkpoint, as many as are worth it.
#[test]
fn a_pass_ends_when_enough_wait_for_checkpoints() {
    let (v, _) = Volume::half_dead(2000);
    for segment in v.which(|s| v.lfs.segments.lock().may_vacate(s)) {
        v.lfs.segments.lock().takes_metadata(segment);
    }
    let worth = v.lfs.cleaner.worth_checkpoints();
    let cleaned = v.cleans(Urgency::Ahead, Among::Behind, u64::MAX);
    assert_eq!(cleaned.len() as u64, worth);
}

#[test]
fn a_thread_gives_back_behind_each_step_what_somebody_waits_for() {
    for (urgency, threaded, at_once) in [
        (Urgency::Background, true, true),
        (Urgency::Pressed, true, true),
        (Urgency::Idle, true, false),
        (Urgency::Ahead, true, false),
        (Urgency::Background, false, false),
    ] {
        let (v, _) = Volume::half_dead(600);
        v.appears_slow(); // a step is a segment then
        let mut settings = v.lfs.cleaner.cleaner_settings();
        settings.pace.threaded = threaded;
        v.lfs.cleaner.set_cleaner(settings).unwrap();
        let _needy = v.lfs.control.in_need();
        let before = v.lfs.statistics().segments_vacated;
        v.cleans(urgency, Among::AtOnce, u64::MAX);
        let given_back = v.lfs.statistics().segments_vacated > before;
        assert_eq!(given_back, at_once, "{urgency:?}, threaded {threaded}");
    }
}

/// What is collected to be sorted asks for room together.
#[test]
fn segments_moved_together_must_find_room_together() {
    let (v, _) = Volume::half_dead(600);
    let mut settings = v.lfs.cleaner.cleaner_settings();
    settings.policy = PolicyKind::COST_BENEFIT;
    v.lfs.cleaner.set_cleaner(settings).unwrap();
    let live: Vec<u64> = v
        .lfs
        .cleaner
        .candidates()
        .iter()
        .map(|c| c.live_bytes)
        .collect();
    let largest = *live.iter().max().unwrap();
    let waits = |bytes| v.lfs.segments.lock().waiting.bytes = bytes;
    let fits = |bytes| v.lfs.space.may_move(bytes, Default::default());
    // Room for one of them, and for hardly more.
    let mut waiting = 0;
    while fits(largest + 4096) {
        waiting += 4096;
        waits(waiting);
    }
    assert!(fits(largest - 4096), "{largest}");
    let cleaned = v.cleans(Urgency::Waiting, Among::All, u64::MAX);
    assert!(!cleaned.is_empty());
    let before = v.lfs.statistics().segments_cleaned;
    assert_eq!(before, cleaned.len() as u64);
}

/// What gives back less than an eighth is left alone in the background, and not
/// if somebody will soon want room.
#[test]
fn nobody_hurries_to_clean_what_is_nearly_full() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 100);
    let (segment, whole) = (segments[1], v.lfs.space.dependable_bytes());
    let block = (0..100).find(|&block| v.segment(v.place(file, block)) == segment);
    let block = block.unwrap();
    let freed = || whole.saturating_sub(v.live(segment));
    let (caller, mut hole) = (Caller::root(), block + 1);
    while freed() * 16 < whole {
        v.fs.fallocate(&caller, file, PUNCH, hole * BLOCK, BLOCK)
            .unwrap();
        v.checkpoint();
        hole += 1;
    }
    assert!(freed() * 8 < whole, "{} of {whole}", freed());
    let clean = |urgency| {
        let cleaning = v.lfs.cleaner.lock_cleaning();
        v.lfs
            .cleaner
            .clean_segments(&cleaning, urgency, Among::All, u64::MAX)
            .unwrap();
        v.segment(v.place(file, block))
    };
    assert_eq!(clean(Urgency::Background), segment);
    assert_ne!(clean(Urgency::Ahead), segment);
}
