//! Deadlocks, and which owner is aborted.

use super::{Asked, Table, ask, owners, table, table_on_call};
use varve_locks::LockError::*;
use varve_locks::Mode::*;
use varve_locks::OwnerId;

const KEYS: [&str; 3] = ["x", "y", "z"];

/// Makes each owner lock one key and wait for the next owner's, and the last for the
/// first's.
fn circle_of_three(table: &Table) -> ([OwnerId; 3], [Asked; 3]) {
    let all: [OwnerId; 3] = owners(table);
    for (owner, key) in all.iter().zip(KEYS) {
        assert!(table.try_lock(*owner, &key, Write));
    }
    let asked = [0, 1, 2].map(|n| ask(table, all[n], KEYS[(n + 1) % 3], Read));
    (all, asked)
}

fn only_one_gave_way(all: [OwnerId; 3], asked: [Asked; 3], table: &Table, victim: usize) {
    // The end of the victim lets the one before it continue, and so on around the
    // cycle.
    let mut asked = asked.map(Some);
    let result = asked[victim].take().unwrap().result();
    assert_eq!(result, Err(Deadlock));
    for n in 0..2 {
        table.end(all[(victim + 3 - n) % 3]);
        asked[(victim + 2 - n) % 3].take().unwrap().granted();
    }
}

#[test]
fn three_in_a_circle_are_found_by_the_last() {
    let table = table();
    let (all, asked) = circle_of_three(&table);
    // All have one lock, so the youngest is aborted.
    only_one_gave_way(all, asked, &table, 2);
    assert!(table.detect().is_empty());
}

#[test]
fn detect_finds_three_in_a_circle() {
    let table = table_on_call();
    let (all, asked) = circle_of_three(&table);
    assert_eq!(table.waiting().len(), 3);
    assert_eq!(table.detect(), [all[2]]);
    assert!(table.detect().is_empty());
    only_one_gave_way(all, asked, &table, 2);
}

#[test]
fn detect_finds_every_circle() {
    let table = table_on_call();
    let [a, b, c, d] = owners(&table);
    for (one, other, keys) in [(a, b, ["x", "y"]), (c, d, ["z", "w"])] {
        assert!(table.try_lock(one, &keys[0], Write));
        assert!(table.try_lock(other, &keys[1], Write));
        let asked = [
            ask(&table, one, keys[1], Read),
            ask(&table, other, keys[0], Read),
        ];
        assert!(asked.iter().all(Asked::waits));
    }
    let mut victims = table.detect();
    victims.sort();
    assert_eq!(victims, [b, d]);
    [a, b, c, d].into_iter().for_each(|owner| table.end(owner));
}

#[test]
fn the_cheapest_gives_way() {
    let table = table_on_call();
    let (all, asked) = circle_of_three(&table);
    for (owner, cost) in all.iter().zip([20, 10, 30]) {
        table.set_cost(*owner, cost);
    }
    assert_eq!(table.detect(), [all[1]]);
    only_one_gave_way(all, asked, &table, 1);
}

#[test]
fn the_cheapest_is_by_default_who_has_locked_least() {
    let table = table();
    let [a, b] = owners(&table);
    assert!(table.try_lock(a, &"x", Write));
    for key in ["y", "z", "w"] {
        assert!(table.try_lock(b, &key, Write));
    }
    let victim = ask(&table, a, "y", Read);
    let asked = ask(&table, b, "x", Read);
    assert_eq!(victim.result(), Err(Deadlock));
    table.end(a);
    asked.granted();
}

#[test]
fn who_is_pinned_never_gives_way() {
    let table = table_on_call();
    let (all, asked) = circle_of_three(&table);
    table.set_cost(all[2], 0);
    table.pin(all[2]);
    table.pin(all[1]);
    assert_eq!(table.detect(), [all[0]]);
    only_one_gave_way(all, asked, &table, 0);
}

#[test]
fn all_pinned_wait_until_one_is_cancelled() {
    let table = table();
    let [a, b] = owners(&table);
    for (owner, key) in [(a, "x"), (b, "y")] {
        table.pin(owner);
        assert!(table.try_lock(owner, &key, Write));
    }
    let asked = [ask(&table, a, "y", Read), ask(&table, b, "x", Read)];
    assert!(table.detect().is_empty());
    assert!(asked.iter().all(Asked::waits));
    table.unpin(a);
    assert_eq!(table.detect(), [a]);
    let [first, second] = asked;
    assert_eq!(first.result(), Err(Deadlock));
    table.end(a);
    second.granted();
}

/// B waits behind a request of C, which waits for A, and A waits for B elsewhere.
#[test]
fn a_wait_behind_a_request_is_a_wait() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    assert!(table.try_lock(b, &"y", Write));
    let writer = ask(&table, c, "x", Write);
    let behind = ask(&table, b, "x", Read);
    table.set_cost(a, 9);
    table.set_cost(b, 9);
    let closing = ask(&table, a, "y", Read);
    assert_eq!(writer.result(), Err(Deadlock), "the cheapest");
    behind.granted();
    table.end(b);
    closing.granted();
}

/// Both threads act for one transaction: both must continue before it ends.
#[test]
fn two_threads_of_one_owner_are_in_circles_together() {
    let table = table();
    let [shared, other] = owners(&table);
    assert!(table.try_lock(shared, &"x", Write));
    assert!(table.try_lock(other, &"y", Write));
    let first = ask(&table, shared, "y", Read);
    table.set_cost(shared, 9);
    assert_eq!(table.lock(other, &"x", Read, None), Err(Deadlock));
    assert!(
        table.try_lock(shared, &"z", Read),
        "a second thread goes on"
    );
    table.end(other);
    first.granted();
}

/// A request never waits for a request that waits for its own owner.
#[test]
fn two_threads_of_one_owner_want_the_same() {
    let table = table();
    let [shared, other, holder] = owners(&table);
    assert!(table.try_lock(holder, &"x", Write));
    let first = ask(&table, shared, "x", Write);
    let between = ask(&table, other, "x", Write);
    let second = ask(&table, shared, "x", Write);
    table.end(holder);
    [first, second].into_iter().for_each(Asked::granted);
    assert!(between.waits());
    table.end(shared);
    between.granted();
    assert_eq!(table.statistics().deadlocks, 0);
}
