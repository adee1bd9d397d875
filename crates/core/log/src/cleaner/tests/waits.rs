//! How writers and the cleaner wait for each other: who, for what, and how long.
//!
//! Time passes where somebody waits, and nowhere else, so every wait is exact.

use super::{Volume, settled_file};
use crate::cleaner::pace::Pacer;
use crate::cleaner::{LEASE_NS, PATIENCE_NS};
use crate::control::claims::CleanerId;
use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use varve_device::sync::turns::{Turns, take_part};
use varve_device::{Clock, VirtualClock};

const MS: u64 = 1_000_000;

/// What others do while somebody waits, told how often he has.
type Others = Box<dyn FnMut(u32)>;

thread_local! {
    static OTHERS: RefCell<Option<Others>> = const { RefCell::new(None) };
}

/// Lets the clock run on as long as somebody waits.
struct Waiting {
    clock: Arc<VirtualClock>,
    waits: AtomicU64,
}

impl Turns for Waiting {
    fn wait(&self, timeout: Option<Duration>, ready: &dyn Fn() -> bool) {
        let nth = self.waits.fetch_add(1, Relaxed);
        assert!(nth < 10_000, "waits for ever");
        let others = OTHERS.with(|others| others.borrow_mut().take());
        if let Some(mut others) = others {
            others(nth as u32 + 1);
            OTHERS.with(|before| *before.borrow_mut() = Some(others));
        }
        if !ready() {
            self.clock.advance(timeout.expect("somebody ends it"));
        }
    }
}

impl Volume {
    /// One whose cleaner has a thread of its own.
    pub(super) fn threaded() -> Self {
        let v = Volume::new();
        v.set_threaded(true);
        thread::scope(|s| s.spawn(|| v.lfs.control.cleans_here()).join().unwrap());
        v
    }

    pub(super) fn set_threaded(&self, threaded: bool) {
        let mut settings = self.lfs.cleaner.cleaner_settings();
        settings.pace.threaded = threaded;
        self.lfs.cleaner.set_cleaner(settings).unwrap();
    }

    /// What comes of `wait`, and how long it took, nanoseconds. `others` is
    /// called whenever it waits.
    pub(super) fn waits<T>(
        &self,
        others: impl FnMut(u32) + 'static,
        wait: impl FnOnce() -> T,
    ) -> (T, u64) {
        let waiting = Waiting {
            clock: Arc::clone(&self.clock),
            waits: AtomicU64::new(0),
        };
        OTHERS.with(|before| *before.borrow_mut() = Some(Box::new(others)));
        let begun_ns = self.clock.monotonic_ns();
        let part = take_part(Arc::new(waiting));
        let outcome = wait();
        drop(part);
        OTHERS.with(|others| others.borrow_mut().take());
        (outcome, self.clock.monotonic_ns() - begun_ns)
    }

    /// Waits for the cleaner as a writer does. True if the writer must clean.
    fn waits_for_cleaner(&self, patience_ns: u64, goal: u64) -> (bool, u64) {
        self.waits(
            |_| (),
            || {
                let enough = || u64::from(self.clean()) >= goal;
                self.lfs
                    .cleaner
                    .wait_for_cleaner(patience_ns, enough)
                    .is_some()
            },
        )
    }

    /// How often the thread that cleans is told to come.
    fn summons(&self) -> Arc<AtomicU64> {
        let summons = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&summons);
        self.lfs.cleaner.on_need(Box::new(move || {
            counted.fetch_add(1, Relaxed);
        }));
        summons
    }
}

#[test]
fn who_has_enough_waits_for_nobody() {
    let v = Volume::threaded();
    let summons = v.summons();
    let clean = v.clean().into();
    assert_eq!(v.waits_for_cleaner(PATIENCE_NS, clean), (false, 0));
    assert_eq!(summons.load(Relaxed), 0);
}

#[test]
fn where_no_other_thread_cleans_the_writer_does_at_once() {
    let v = Volume::new();
    v.set_threaded(true);
    assert_eq!(v.waits_for_cleaner(PATIENCE_NS, u64::MAX), (true, 0));
    // The thread that cleans does not wait for itself.
    v.lfs.control.cleans_here();
    assert_eq!(v.waits_for_cleaner(PATIENCE_NS, u64::MAX), (true, 0));
}

#[test]
fn patience_ends_when_so_long_nothing_has_been_gained() {
    let v = Volume::threaded();
    let summons = v.summons();
    assert_eq!(
        v.waits_for_cleaner(PATIENCE_NS, u64::MAX),
        (true, PATIENCE_NS)
    );
    // A look every hundredth of a second.
    assert_eq!(summons.load(Relaxed), 50);
    assert!(!v.lfs.control.somebody_comes_next());
    assert_eq!(v.waits_for_cleaner(0, u64::MAX), (true, 0));
}

#[test]
fn every_gain_renews_patience() {
    let v = Volume::threaded();
    let goal = u64::from(v.clean());
    let taken: Vec<u32> = (0..3)
        .map(|_| v.lfs.segments.lock().take(0).unwrap())
        .collect();
    let lfs = Arc::clone(&v.lfs);
    // A segment every 0.4 s.
    let gains = move |look: u32| {
        if look.is_multiple_of(40) {
            lfs.segments.lock().put_back(taken[look as usize / 40 - 1]);
        }
    };
    let enough = || u64::from(v.clean()) >= goal;
    let (must_clean, took_ns) = v.waits(gains, || {
        v.lfs
            .cleaner
            .wait_for_cleaner(PATIENCE_NS, enough)
            .is_some()
    });
    assert!(!must_clean);
    assert!(took_ns > 2 * PATIENCE_NS, "{took_ns}");
}

#[test]
fn who_is_told_of_a_gain_looks_at_once() {
    let v = Volume::threaded();
    let goal = u64::from(v.clean());
    let taken = v.lfs.segments.lock().take(0).unwrap();
    let lfs = Arc::clone(&v.lfs);
    let gains = move |_| {
        lfs.segments.lock().put_back(taken);
        lfs.control.tell_gain();
    };
    let enough = || u64::from(v.clean()) >= goal;
    let (must_clean, took_ns) = v.waits(gains, || {
        v.lfs
            .cleaner
            .wait_for_cleaner(PATIENCE_NS, enough)
            .is_some()
    });
    assert_eq!((must_clean, took_ns), (false, 0));
}

#[test]
fn nobody_waits_for_a_thread_that_gains_nothing_or_a_volume_that_closes() {
    let v = Volume::threaded();
    v.lfs.control.shared().fruitless = true;
    assert_eq!(v.waits_for_cleaner(PATIENCE_NS, u64::MAX), (true, 0));
    v.lfs.control.shared().fruitless = false;
    v.lfs.cleaner.hurry();
    assert_eq!(v.waits_for_cleaner(PATIENCE_NS, u64::MAX), (true, 0));
}

/// One whose patience is over waits for the pass that is going on, and the
/// cleaner's thread begins no other before he has had his.
#[test]
fn the_thread_stands_back_for_a_writer_who_must_clean() {
    let v = Volume::threaded();
    let mut settings = v.lfs.cleaner.cleaner_settings();
    (settings.pace.low_percent, settings.pace.high_percent) = (Some(89), Some(90));
    v.lfs.cleaner.set_cleaner(settings).unwrap();
    v.leave_clean(20);
    let gauge = v.lfs.space.cleaning_gauge();
    assert!(gauge.clean < gauge.low, "a pass is due: {gauge:?}");
    let (begun, has_begun) = mpsc::channel();
    let (end, is_to_end) = mpsc::channel::<()>();
    let (ended, has_ended) = mpsc::channel();
    thread::scope(|s| {
        let lfs = &v.lfs;
        s.spawn(move || {
            let pass = lfs.cleaner.lock_cleaning();
            begun.send(()).unwrap();
            is_to_end.recv().unwrap();
            drop(pass);
            ended.send(()).unwrap();
        });
        has_begun.recv().unwrap();
        let lfs = Arc::clone(&v.lfs);
        let others = move |look| {
            assert!(lfs.control.somebody_comes_next());
            // It would wait for the pass that is going on.
            lfs.cleaner.clean_if_due().unwrap();
            if look == 3 {
                end.send(()).unwrap();
                has_ended.recv().unwrap();
            }
        };
        let (right, took_ns) = v.waits(others, || {
            v.lfs.cleaner.wait_for_cleaner(0, || false).is_some()
        });
        assert_eq!((right, took_ns), (true, 30 * MS));
    });
    assert!(!v.lfs.control.somebody_comes_next());
}

/// A volume on which writers pay a part, and what they pay for a segment,
/// nanoseconds.
fn pressed() -> (Volume, f64) {
    let v = Volume::threaded();
    let marks = v.lfs.space.cleaning_gauge();
    v.leave_clean(marks.floor + 1);
    let toll = v.lfs.space.cleaning_gauge().toll();
    assert!(toll > 0.0, "{:?}", v.lfs.space.cleaning_gauge());
    let segment_ns = v.lfs.control.shared().pacer.segment_ns(0);
    (v, segment_ns * toll)
}

fn log(v: &Volume, segments: u64) {
    let bytes = segments * v.lfs.space.dependable_bytes();
    v.lfs.counters.user_log_bytes.fetch_add(bytes, Relaxed);
}

fn pays(v: &Volume) -> (bool, u64) {
    let before = v.lfs.counters.toll_ns.load(Relaxed);
    let (paid, took_ns) = v.waits(|_| (), || v.lfs.cleaner.pay_toll());
    assert_eq!(v.lfs.counters.toll_ns.load(Relaxed) - before, took_ns);
    (paid, took_ns)
}

#[test]
fn writers_pay_for_what_they_have_logged_a_little_at_once() {
    let (v, segment_ns) = pressed();
    let summons = v.summons();
    pays(&v); // for what was logged before
    v.lfs.control.owed_ns.store(0, Relaxed);
    let segments = (50.0 * MS as f64 / segment_ns) as u64;
    let due_ns = (segments as f64 * segment_ns) as u64;
    log(&v, segments);
    assert_eq!(pays(&v), (true, 20 * MS));
    assert_eq!(pays(&v), (true, 20 * MS));
    assert_eq!(pays(&v), (true, due_ns - 40 * MS));
    assert_eq!(pays(&v), (true, 0));
    assert_eq!(summons.load(Relaxed), 5, "it may have gone to sleep");
    // Less than a millisecond is carried, and more than a second is not.
    v.lfs.control.owed_ns.store(MS - 1, Relaxed);
    assert_eq!(pays(&v), (true, 0));
    assert_eq!(v.lfs.control.owed_ns.load(Relaxed), MS - 1);
    v.lfs.control.owed_ns.store(MS, Relaxed);
    assert_eq!(pays(&v), (true, MS));
    log(&v, 1_000_000);
    assert_eq!(pays(&v), (true, 20 * MS));
    assert_eq!(v.lfs.control.owed_ns.load(Relaxed), 1000 * MS);
}

#[test]
fn on_a_slow_device_a_writer_pays_a_quarter_of_a_segments_write_at_once() {
    let (v, _) = pressed();
    let took = Duration::from_millis(400);
    let write = || -> Result<(), ()> {
        v.clock.advance(took);
        Ok(())
    };
    let bytes = v.lfs.space.dependable_bytes();
    for _ in 0..200 {
        v.lfs.counters.speed.timed(bytes, write).unwrap();
    }
    let write_ns = v.lfs.counters.speed.request_ns(bytes);
    assert!(write_ns > 300 * MS, "{write_ns}");
    log(&v, 100);
    assert_eq!(pays(&v), (true, write_ns / 4));
}

#[test]
fn who_pays_nothing_owes_nothing() {
    let v = Volume::threaded();
    let summons = v.summons();
    log(&v, 1000);
    v.lfs.control.owed_ns.store(9 * MS, Relaxed);
    assert_eq!(pays(&v), (true, 0));
    assert_eq!(v.lfs.control.owed_ns.load(Relaxed), 0);
    v.leave_clean(v.lfs.space.cleaning_gauge().low);
    assert_eq!(pays(&v), (true, 0));
    assert_eq!(summons.load(Relaxed), 0, "there is nothing to clean for");
    // What was logged meanwhile is not paid for later.
    v.leave_clean(v.lfs.space.cleaning_gauge().floor);
    assert_eq!(pays(&v), (true, 0));
}

#[test]
fn writers_pay_only_if_somebody_cleans_for_them() {
    let (v, _) = pressed();
    let stranger = {
        let mut shared = v.lfs.control.shared();
        let now_ns = v.clock.monotonic_ns();
        let id = shared.claims.join("greedy", 1, now_ns).unwrap();
        shared.fruitless = true;
        id
    };
    assert!(!v.lfs.cleaner.pay_toll(), "the thread gains nothing");
    let cleans = |id: CleanerId| {
        let now_ns = v.clock.monotonic_ns();
        let mut shared = v.lfs.control.shared();
        shared.claims.renew(id, now_ns).unwrap();
        shared.claims.count_cleaned(id, now_ns);
    };
    cleans(stranger);
    assert!(v.lfs.cleaner.pay_toll(), "a process does");
    v.set_threaded(false);
    assert!(
        !v.lfs.cleaner.pay_toll(),
        "nobody is held back for a mount without thread"
    );
    v.set_threaded(true);
    v.clock.advance(Duration::from_nanos(LEASE_NS + 1));
    assert!(!v.lfs.cleaner.pay_toll(), "it has died");
}

/// A volume whose cleaner is at work, with a share of a half.
fn half_at_work() -> Volume {
    let v = Volume::threaded();
    let mut settings = v.lfs.cleaner.cleaner_settings();
    (settings.pace.low_percent, settings.pace.high_percent) = (Some(60), Some(80));
    v.lfs.cleaner.set_cleaner(settings).unwrap();
    let gauge = v.lfs.space.cleaning_gauge();
    v.leave_clean((gauge.low + gauge.high) / 2);
    v.lfs.cleaner.work_begins();
    v
}

fn share(v: &Volume) -> f64 {
    let gauge = v.lfs.space.cleaning_gauge();
    v.lfs.control.shared().pacer.share(&gauge)
}

#[test]
fn the_cleaner_rests_as_its_share_says_and_looks_up_meanwhile() {
    let v = half_at_work();
    let due_ns = Pacer::rest_ns(170 * MS, share(&v));
    assert!((160 * MS..180 * MS).contains(&due_ns), "{due_ns}");
    let rested = || v.lfs.counters.cleaner_rest_ns.load(Relaxed);
    let ((), took_ns) = v.waits(|_| (), || v.lfs.cleaner.rest(170 * MS));
    assert_eq!((took_ns, rested()), (due_ns, due_ns));
    // That was no work: what follows is.
    v.clock.advance(Duration::from_millis(7));
    assert_eq!(v.lfs.cleaner.work_is_done(), 7 * MS);
    assert_eq!(v.lfs.cleaner.work_is_done(), 0);

    // From the second look on there is enough.
    let lfs = Arc::clone(&v.lfs);
    let taken: Vec<u32> = (0..lfs.geometry.segment_count)
        .filter(|segment| !v.is_clean(*segment) && v.live(*segment) == 0)
        .collect();
    let gains = move |look| {
        if look == 2 {
            let mut segments = lfs.segments.lock();
            taken.iter().for_each(|segment| segments.put_back(*segment));
        }
    };
    let ((), took_ns) = v.waits(gains, || v.lfs.cleaner.rest(500 * MS));
    assert_eq!(took_ns, 100 * MS);
    assert_eq!(share(&v), 0.0);
    let ((), took_ns) = v.waits(|_| (), || v.lfs.cleaner.rest(500 * MS));
    assert_eq!(took_ns, 0);
}

#[test]
fn nobody_rests_while_somebody_waits_or_the_volume_closes() {
    let v = half_at_work();
    let needy = v.lfs.control.in_need();
    let ((), took_ns) = v.waits(|_| (), || v.lfs.cleaner.rest(500 * MS));
    assert_eq!(took_ns, 0);
    drop(needy);
    // Who comes to wait ends the rest.
    let lfs = Arc::clone(&v.lfs);
    let comes = move |look| {
        if look == 2 {
            std::mem::forget(lfs.control.in_need());
        }
    };
    let ((), took_ns) = v.waits(comes, || v.lfs.cleaner.rest(500 * MS));
    assert_eq!(took_ns, 50 * MS);

    let v = half_at_work();
    v.lfs.cleaner.hurry();
    let ((), took_ns) = v.waits(|_| (), || v.lfs.cleaner.rest(500 * MS));
    assert_eq!(took_ns, 0);
    assert!(share(&v) > 0.0);
}

#[test]
fn what_the_cleaner_has_gained_is_what_it_emptied_without_what_it_wrote() {
    let v = Volume::threaded();
    let before = v.lfs.cleaner.gained_bytes();
    let counters = &v.lfs.counters;
    counters.segments_emptied.fetch_add(3, Relaxed);
    counters.cleaner_log_bytes.fetch_add(1000, Relaxed);
    counters.checkpoint_log_bytes.fetch_add(234, Relaxed);
    let segments = 3 * v.lfs.space.dependable_bytes() as i64;
    assert_eq!(v.lfs.cleaner.gained_bytes() - before, segments - 1234);

    // The pace learns it, and nothing from before the work began.
    v.lfs.cleaner.work_begins();
    v.clock.advance(Duration::from_secs(1));
    counters.segments_emptied.fetch_add(1000, Relaxed);
    assert_eq!(v.lfs.cleaner.work_is_done(), 1_000_000_000);
    let segment_ns = v.lfs.control.shared().pacer.segment_ns(0);
    let dependable =
        v.lfs.space.dependable_bytes() as f64 / f64::from(v.lfs.geometry.segment_bytes);
    assert!((segment_ns * dependable - 1e6).abs() < 1e4, "{segment_ns}");
}

/// What a step has gained is given back before the pass is over, if writers pay
/// and it is worth the flush, or if somebody waits.
#[test]
fn what_a_step_has_gained_is_given_back_if_it_is_wanted() {
    let v = Volume::new();
    let (file, segments) = settled_file(&v, 1600);
    for _ in 0..2 {
        v.write(file, 2000, 1);
        v.checkpoint();
    }
    let vacated = |v: &Volume| v.lfs.segments.lock().vacated_count();
    let may = |segment: &&u32| v.lfs.segments.lock().may_vacate(**segment);
    let segments: Vec<u32> = segments.iter().filter(may).copied().collect();
    assert!(segments.len() > 20, "{segments:?}");
    let (one, others) = segments.split_first().unwrap();
    let over = |given_back: bool| {
        let before = vacated(&v);
        v.lfs.cleaner.step_is_over().unwrap();
        assert_eq!(vacated(&v), if given_back { 0 } else { before });
    };
    assert!(v.lfs.cleaner.clean_segment(*one).unwrap());
    over(false);
    let needy = v.lfs.control.in_need();
    over(true);
    drop(needy);

    // A mebibyte of them, where writers pay.
    let worth = (1u64 << 20).div_ceil(v.lfs.space.dependable_bytes()) as usize;
    for &segment in &others[..worth] {
        assert!(v.lfs.cleaner.clean_segment(segment).unwrap());
        over(false);
    }
    v.leave_clean(v.lfs.space.cleaning_gauge().need - 1);
    over(true);
    assert!(v.lfs.cleaner.clean_segment(others[worth]).unwrap());
    v.leave_clean(v.lfs.space.cleaning_gauge().need - 1);
    over(false);
}
