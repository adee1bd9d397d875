//! Locks on parts of an object.

use super::{ask_span, owners, table};
use varve_locks::Mode::*;

#[test]
fn disjoint_spans_are_granted_to_different_owners() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock_span(a, &"x", 0..10, Write));
    assert!(table.try_lock_span(b, &"x", 10..20, Write));
    assert!(!table.try_lock_span(c, &"x", 9..10, Read));
    assert!(!table.try_lock(c, &"x", Read));
    table.end(a);
    assert!(table.try_lock_span(c, &"x", 9..10, Read));
}

#[test]
fn one_owner_has_several_spans_in_different_modes() {
    let table = table();
    let [a, b] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    assert!(table.try_lock_span(a, &"x", 5..6, Write));
    assert!(table.try_lock_span(b, &"x", 0..5, Read));
    assert!(!table.try_lock_span(b, &"x", 0..6, Read));
    let mut held = table.held(a);
    held.sort_by_key(|held| held.span.start);
    let held: Vec<_> = held.into_iter().map(|h| (h.span, h.mode)).collect();
    assert_eq!(held, [(0..5, Read), (5..6, Write), (6..u32::MAX, Read)]);
    table.downgrade_span(a, &"x", 0..100, Read);
    assert_eq!(table.held(a).len(), 1, "one again");
}

#[test]
fn a_queue_holds_up_only_where_spans_overlap() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock_span(a, &"x", 0..10, Write));
    let waiting = ask_span(&table, b, "x", 5..15, Write);
    assert!(!table.try_lock_span(c, &"x", 10..20, Read), "overtakes");
    assert!(table.try_lock_span(c, &"x", 15..20, Write));
    table.end(a);
    waiting.granted();
}

/// A request for the whole waits for all holders of spans, which may therefore
/// continue.
#[test]
fn a_holder_of_one_span_gets_another_past_who_waits_for_the_whole() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock_span(a, &"x", 0..10, Write));
    let whole = ask_span(&table, b, "x", 0..100, Write);
    assert!(table.try_lock_span(a, &"x", 50..60, Write));
    assert!(!table.try_lock_span(c, &"x", 70..80, Write));
    table.end(a);
    whole.granted();
}

#[test]
#[should_panic(expected = "a lock on nothing")]
fn nothing_cannot_be_locked() {
    let table = table();
    let [a] = owners(&table);
    table.try_lock_span(a, &"x", 3..3, Read);
}
