//! Nested transactions.

use super::{ask, owners, table};
use varve_locks::LockError::*;
use varve_locks::Mode::*;

#[test]
fn a_child_takes_what_its_parent_holds() {
    let table = table();
    let [parent, other] = owners(&table);
    let child = table.begin(Some(parent));
    let grandchild = table.begin(Some(child));
    assert!(table.try_lock(parent, &"x", Write));
    assert!(table.try_lock(grandchild, &"x", Write));
    assert!(!table.try_lock(child, &"x", Read), "its own child has it");
    assert!(!table.try_lock(other, &"x", Read));
}

#[test]
fn a_child_goes_past_who_waits_for_its_parent() {
    let table = table();
    let [parent, other] = owners(&table);
    let child = table.begin(Some(parent));
    assert!(table.try_lock(parent, &"x", Read));
    let waiting = ask(&table, other, "x", Write);
    assert!(table.try_lock(child, &"x", Write));
    table.end(child);
    assert!(waiting.waits());
    table.end(parent);
    waiting.granted();
}

#[test]
fn a_child_that_aborts_leaves_its_parent_what_it_had() {
    let table = table();
    let [parent, other] = owners(&table);
    let child = table.begin(Some(parent));
    assert!(table.try_lock(parent, &"x", Read));
    assert!(table.try_lock(child, &"x", Write));
    assert!(table.try_lock(child, &"y", Write));
    table.end(child);
    assert!(table.try_lock(other, &"x", Read));
    assert!(!table.try_lock(other, &"x", Write));
    assert!(table.try_lock(other, &"y", Write));
    assert_eq!(table.held(parent).len(), 1);
}

#[test]
fn a_child_that_commits_gives_its_locks_to_its_parent() {
    let table = table();
    let [parent, other] = owners(&table);
    let [child, sibling] = [(); 2].map(|()| table.begin(Some(parent)));
    assert!(table.try_lock(parent, &"x", Read));
    assert!(table.try_lock(child, &"x", IntentionWrite));
    assert!(table.try_lock(child, &"y", Write));
    let waiting = ask(&table, sibling, "y", Write);
    table.hand_to_parent(child);
    table.end(child);
    waiting.granted();
    assert!(!table.try_lock(other, &"y", Read));
    let held = table.held(parent).into_iter();
    let held: Vec<_> = held.map(|held| (held.object, held.mode)).collect();
    assert_eq!(held, [("x", ReadIntentionWrite), ("y", Write)]);
    table.end(sibling);
    table.end(parent);
    assert!(table.try_lock(other, &"y", Write));
    assert_eq!(table.statistics().objects, 1);
}

#[test]
fn siblings_wait_for_each_other() {
    let table = table();
    let [parent] = owners(&table);
    let [a, b] = [(); 2].map(|()| table.begin(Some(parent)));
    assert!(table.try_lock(a, &"x", Write));
    assert!(!table.try_lock(b, &"x", Read));
    assert!(table.try_lock(b, &"y", Write));
    let waiting = ask(&table, a, "y", Read);
    assert_eq!(table.lock(b, &"x", Read, None), Err(Deadlock));
    table.end(b);
    waiting.granted();
}

/// B waits for the parent's lock, which is released when the child has ended.
#[test]
fn a_wait_for_one_of_a_family_is_a_wait_for_all_of_it() {
    let table = table();
    let [parent, other] = owners(&table);
    let child = table.begin(Some(parent));
    assert!(table.try_lock(parent, &"x", Write));
    assert!(table.try_lock(other, &"y", Write));
    let waiting = ask(&table, other, "x", Read);
    assert_eq!(table.lock(child, &"y", Read, None), Err(Deadlock));
    table.end(child);
    table.end(parent);
    waiting.granted();
}

#[test]
fn a_lock_of_a_child_concerns_the_family_of_who_waits_for_it() {
    let table = table();
    let [one, two] = owners(&table);
    let [child_one, child_two] = [one, two].map(|parent| table.begin(Some(parent)));
    let second = table.begin(Some(two));
    assert!(table.try_lock(child_one, &"x", Write));
    assert!(table.try_lock(child_two, &"y", Write));
    // A sibling of the owner of y waits, and the owner cannot commit before the sibling
    // ends.
    let waiting = ask(&table, second, "x", Read);
    table.set_cost(second, 9);
    assert_eq!(table.lock(one, &"y", Read, None), Err(Deadlock));
    table.end(child_one);
    waiting.granted();
}

#[test]
fn a_child_of_one_that_has_ended_is_cancelled() {
    let table = table();
    let [parent, other] = owners(&table);
    assert!(table.try_lock(other, &"x", Write));
    table.end(parent);
    let child = table.begin(Some(parent));
    assert_eq!(table.lock(child, &"x", Read, None), Err(Cancelled));
}

#[test]
fn a_parent_that_ends_first_does_not_keep_what_it_is_handed() {
    let table = table();
    let [parent] = owners(&table);
    let child = table.begin(Some(parent));
    assert!(table.try_lock(child, &"x", Write));
    table.end(parent);
    table.hand_to_parent(child);
    table.end(child);
    assert_eq!(table.statistics().objects, 0);
}
