//! The cleaner gives way: for whom, for how long, and when not.

use super::Volume;
use crate::Lfs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use varve_device::Clock;

const MS: u64 = 1_000_000;

/// One on a slow device, whose cleaner is the calling thread and has time.
fn cleaning() -> Volume {
    let v = Volume::new();
    v.set_threaded(true);
    v.lfs.control.cleans_here();
    v.appears_slow();
    v
}

/// The layout for as long as a closure may live.
fn lasting(v: &Volume) -> &'static Lfs {
    Box::leak(Box::new(Arc::clone(&v.lfs)))
}

#[test]
fn a_portion_waits_for_requests_that_began_before_it_and_no_others() {
    let v = cleaning();
    let lfs = lasting(&v);
    assert_eq!(
        v.waits(|_| (), || lfs.mechanism.give_way()).1,
        0,
        "nobody is there"
    );
    let mut first = Some(lfs.control.way.begin());
    let mut second = None;
    let others = move |look| {
        second.get_or_insert_with(|| lfs.control.way.begin());
        if look == 3 {
            first.take();
        }
    };
    let ((), waited_ns) = v.waits(others, || lfs.mechanism.give_way());
    assert_eq!(waited_ns, 3 * MS / 2, "three looks, as the first ended");
    assert_eq!(lfs.counters.cleaner_way_ns.load(Relaxed), waited_ns);
}

#[test]
fn nobody_is_waited_for_for_ever() {
    let v = cleaning();
    let stuck = v.lfs.control.way.begin();
    assert_eq!(v.waits(|_| (), || v.lfs.mechanism.give_way()).1, 100 * MS);
    drop(stuck);
    assert_eq!(v.waits(|_| (), || v.lfs.mechanism.give_way()).1, 0);
}

#[test]
fn short_portions_and_other_threads_give_no_way() {
    let quick = Volume::new();
    quick.set_threaded(true);
    quick.lfs.control.cleans_here();
    let _under_way = quick.lfs.control.way.begin();
    assert_eq!(quick.waits(|_| (), || quick.lfs.mechanism.give_way()).1, 0);

    let v = Volume::threaded();
    v.appears_slow();
    let _under_way = v.lfs.control.way.begin();
    let ((), waited_ns) = v.waits(|_| (), || v.lfs.mechanism.give_way());
    assert_eq!(waited_ns, 0, "it is somebody's who waits for it");
}

#[test]
fn who_waits_for_room_is_no_reason_to_wait() {
    let v = cleaning();
    let _under_way = v.lfs.control.way.begin();
    let lfs = lasting(&v);
    let comes = move |look| {
        if look == 4 {
            std::mem::forget(lfs.control.in_need());
        }
    };
    let ((), waited_ns) = v.waits(comes, || lfs.mechanism.give_way());
    assert_eq!(
        waited_ns,
        3 * MS / 2,
        "three looks, and at the fourth he comes"
    );
    assert_eq!(v.waits(|_| (), || lfs.mechanism.give_way()).1, 0);
}

#[test]
fn a_cleaner_in_a_hurry_gives_no_way() {
    let v = cleaning();
    let gauge = v.lfs.space.cleaning_gauge();
    v.leave_clean((gauge.floor + gauge.need).div_ceil(2) + 1);
    let under_way = v.lfs.control.way.begin();
    assert!(!v.lfs.space.cleaning_gauge().is_pressed());
    assert_eq!(v.waits(|_| (), || v.lfs.mechanism.give_way()).1, 100 * MS);
    drop(under_way);

    // It needs more than half of its time to keep up.
    let learn = |used: u64| {
        v.clock.advance(Duration::from_secs(1));
        let now_ns = v.clock.monotonic_ns();
        let segment = i64::from(v.lfs.geometry.segment_bytes);
        let pacer = &mut v.lfs.control.shared().pacer;
        pacer.learn(now_ns, 500 * MS, 3 * segment, used, 0);
        pacer.has_time()
    };
    assert!(learn(0));
    assert!(!learn(1 << 40));
    let _under_way = v.lfs.control.way.begin();
    assert_eq!(v.waits(|_| (), || v.lfs.mechanism.give_way()).1, 0);

    // Half of what lies before a standstill is gone.
    let pressed = cleaning();
    pressed.leave_clean(gauge.floor + 1);
    assert!(pressed.lfs.space.cleaning_gauge().is_pressed());
    let _under_way = pressed.lfs.control.way.begin();
    assert_eq!(
        pressed.waits(|_| (), || pressed.lfs.mechanism.give_way()).1,
        0
    );
}
