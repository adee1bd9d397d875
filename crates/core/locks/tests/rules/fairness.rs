//! The order in which requests are granted.

use super::{ask, ask_span, owners, table};
use varve_locks::Mode::*;

#[test]
fn who_came_first_goes_first() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Write));
    let second = ask(&table, b, "x", Write);
    let third = ask(&table, c, "x", Write);
    table.end(a);
    second.granted();
    assert!(third.waits());
    table.end(b);
    third.granted();
}

#[test]
fn a_reader_does_not_overtake_a_waiting_writer() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    let writer = ask(&table, b, "x", Write);
    assert!(!table.try_lock(c, &"x", Read), "would starve the writer");
    let reader = ask(&table, c, "x", Read);
    table.end(a);
    writer.granted();
    assert!(reader.waits());
    table.end(b);
    reader.granted();
}

#[test]
fn what_is_compatible_with_all_who_wait_goes_past_them() {
    let table = table();
    let [a, b, c, d] = owners(&table);
    assert!(table.try_lock(a, &"x", Update));
    let other = ask(&table, b, "x", Update);
    assert!(table.try_lock(c, &"x", Read), "in nobody's way");
    assert!(!table.try_lock(d, &"x", IntentionWrite));
    table.end(a);
    other.granted();
}

#[test]
fn readers_behind_a_writer_are_granted_together() {
    let table = table();
    let [a, b, c, d] = owners(&table);
    assert!(table.try_lock(a, &"x", Write));
    let readers = [b, c].map(|owner| ask(&table, owner, "x", Read));
    let writer = ask(&table, d, "x", Write);
    table.end(a);
    readers.into_iter().for_each(super::Asked::granted);
    assert!(writer.waits());
    table.end(b);
    assert!(writer.waits());
    table.end(c);
    writer.granted();
}

/// Each upgrade waits behind the update, which waits for none of the upgrading owners.
#[test]
fn readers_who_upgrade_do_not_starve_a_waiting_update() {
    let table = table();
    let [a, b, c, d] = owners(&table);
    assert!(table.try_lock(a, &"x", Update));
    let waiting = ask(&table, b, "x", Update);
    assert!(table.try_lock(c, &"x", Read));
    let upgrade = ask(&table, c, "x", Write);
    assert!(table.try_lock(d, &"y", Read));
    table.end(a);
    waiting.granted();
    assert!(upgrade.waits());
    table.end(b);
    upgrade.granted();
}

#[test]
fn waits_are_listed_and_the_longest_is_remembered() {
    let table = table();
    let [a, b] = owners(&table);
    assert!(table.try_lock(a, &"x", Write));
    let asked = ask_span(&table, b, "x", 3..5, Read);
    let [waiting] = &table.waiting()[..] else {
        panic!("{:?}", table.waiting());
    };
    assert_eq!((waiting.owner, waiting.object), (b, "x"));
    assert_eq!((waiting.span.clone(), waiting.mode), (3..5, Read));
    let now = table.statistics();
    assert_eq!((now.waiting, now.waits, now.owners), (1, 1, 2));
    assert!(now.longest_wait_ns > 0);
    std::thread::sleep(std::time::Duration::from_millis(2));
    table.end(a);
    asked.granted();
    table.end(b);
    let after = table.statistics();
    assert!(after.longest_wait_ns >= 2_000_000, "{after:?}");
    assert_eq!((after.waiting, after.objects, after.owners), (0, 0, 0));
    assert_eq!(after.granted, 2);
}
