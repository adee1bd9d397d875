//! The ends of waits that are not granted.

use super::{ask, owners, table};
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_locks::LockError::*;
use varve_locks::Mode::*;

#[test]
fn a_wait_ends_at_its_time() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    let (start, patience) = (Instant::now(), Duration::from_millis(20));
    let result = table.lock(b, &"x", Write, Some(patience));
    assert_eq!(result, Err(Timeout));
    assert!(start.elapsed() >= patience);
    assert!(table.held(b).is_empty());
    assert!(table.try_lock(c, &"x", Read), "nobody waits any more");
    let now = table.statistics();
    assert_eq!((now.timeouts, now.waiting), (1, 0));
    assert_eq!(
        table.lock(b, &"x", Write, Some(Duration::ZERO)),
        Err(Timeout)
    );
    assert_eq!(table.statistics().waits, 1, "that did not wait");
}

#[test]
fn one_that_gives_up_lets_those_behind_it_in() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    let writer = ask(&table, b, "x", Write);
    let reader = ask(&table, c, "x", Read);
    table.cancel(b);
    assert_eq!(writer.result(), Err(Cancelled));
    reader.granted();
}

#[test]
fn who_is_cancelled_waits_no_more() {
    let table = table();
    let [a, b] = owners(&table);
    let child = table.begin(Some(b));
    assert!(table.try_lock(a, &"x", Write));
    assert!(table.try_lock(b, &"y", Write));
    let waiting = [ask(&table, b, "x", Read), ask(&table, child, "x", Read)];
    table.cancel(b);
    assert_eq!(waiting.map(super::Asked::result), [Err(Cancelled); 2]);
    assert_eq!(table.lock(b, &"x", Read, None), Err(Cancelled));
    assert_eq!(table.lock(b, &"y", Write, None), Ok(()), "no wait");
    assert!(table.try_lock(b, &"z", Write), "no wait");
    assert_eq!(table.held(b).len(), 2);
    assert_eq!(table.statistics().cancels, 2);
}

#[test]
fn an_end_fails_the_waits_of_other_threads() {
    let table = table();
    let [a, b] = owners(&table);
    assert!(table.try_lock(a, &"x", Write));
    let waiting = ask(&table, b, "x", Read);
    table.end(b);
    assert_eq!(waiting.result(), Err(Cancelled));
    assert_eq!(table.lock(b, &"new", Read, None), Err(Cancelled));
    table.end(a);
    let now = table.statistics();
    assert_eq!((now.objects, now.owners, now.waiting), (0, 0, 0));
}

/// Ends and grants occur in every order; nothing stays locked.
#[test]
fn what_is_granted_to_an_owner_that_ends_is_released() {
    let table = table();
    for _ in 0..2_000 {
        let [a, b] = owners(&table);
        assert!(table.try_lock(a, &"x", Write));
        let waiter = Arc::clone(&table);
        let waiting = std::thread::spawn(move || waiter.lock(b, &"x", Read, None));
        let ender = Arc::clone(&table);
        let ending = std::thread::spawn(move || ender.end(b));
        table.end(a);
        ending.join().unwrap();
        _ = waiting.join().unwrap();
        let now = table.statistics();
        assert_eq!((now.objects, now.owners), (0, 0));
    }
}
