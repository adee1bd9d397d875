//! Upgrades, downgrades and early releases.

use super::{ask, ask_span, owners, table};
use varve_locks::LockError::*;
use varve_locks::Mode::{self, *};
use varve_locks::{Held, OwnerId};

fn modes(table: &super::Table, owner: OwnerId) -> Vec<Mode> {
    let held = table.held(owner).into_iter();
    held.map(|held: Held<_>| held.mode).collect()
}

#[test]
fn an_upgrade_goes_ahead_of_new_requests() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    assert!(table.try_lock(b, &"x", Read));
    let new = ask(&table, c, "x", Write);
    let upgrade = ask(&table, a, "x", Write);
    table.end(b);
    upgrade.granted();
    assert!(new.waits());
    assert_eq!(modes(&table, a), [Write]);
    table.end(a);
    new.granted();
}

#[test]
fn an_upgrade_that_nobody_holds_up_goes_past_who_waits_for_it() {
    let table = table();
    let [a, b] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    let waiting = ask(&table, b, "x", Write);
    assert!(table.try_lock(a, &"x", Write));
    assert!(waiting.waits());
    table.end(a);
    waiting.granted();
}

#[test]
fn of_two_readers_who_upgrade_one_gives_way() {
    let table = table();
    let [a, b] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    assert!(table.try_lock(b, &"x", Read));
    let older = ask(&table, a, "x", Write);
    assert_eq!(table.lock(b, &"x", Write, None), Err(Deadlock));
    assert_eq!(modes(&table, b), [Read], "held before");
    table.end(b);
    older.granted();
    assert_eq!(table.statistics().deadlocks, 1);
}

#[test]
fn who_reads_to_update_does_not_meet_that() {
    let table = table();
    let [a, b, reader] = owners(&table);
    assert!(table.try_lock(a, &"x", Update));
    assert!(table.try_lock(reader, &"x", Read));
    let second = ask(&table, b, "x", Update);
    let upgrade = ask(&table, a, "x", Write);
    table.end(reader);
    upgrade.granted();
    assert!(second.waits());
    table.end(a);
    second.granted();
    assert_eq!(table.lock(b, &"x", Write, None), Ok(()));
    assert_eq!(table.statistics().deadlocks, 0);
}

#[test]
fn who_reads_and_means_to_write_parts_has_both() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Read));
    assert!(table.try_lock(a, &"x", IntentionWrite));
    assert_eq!(modes(&table, a), [ReadIntentionWrite]);
    assert!(!table.try_lock(b, &"x", Read));
    assert!(table.try_lock(c, &"x", IntentionRead));
}

#[test]
fn a_downgrade_lets_others_in() {
    let table = table();
    let [a, b, c] = owners(&table);
    assert!(table.try_lock(a, &"x", Write));
    let reader = ask(&table, b, "x", Read);
    let writer = ask(&table, c, "x", Write);
    table.downgrade(a, &"x", IntentionWrite);
    assert!(reader.waits(), "conflicts still");
    table.downgrade(a, &"x", Read);
    assert_eq!(modes(&table, a), [IntentionWrite], "a read is not less");
    table.release(a, &"x");
    reader.granted();
    assert!(writer.waits());
    assert!(table.held(a).is_empty());
    table.end(b);
    writer.granted();
}

#[test]
fn what_is_released_early_is_off_the_chain() {
    let table = table();
    let [a] = owners(&table);
    for _ in 0..3 {
        assert!(table.try_lock(a, &"x", Write));
        assert!(table.try_lock(a, &"y", Read));
        table.release(a, &"x");
    }
    assert_eq!(table.held(a).len(), 1);
    table.end(a);
    assert_eq!(table.statistics().objects, 0);
}

/// An early release of a part can close a cycle, although no request begins to wait.
#[test]
fn what_went_past_looks_again_when_its_owner_gives_up_a_part() {
    let table = table();
    let [u, v, w, z] = owners(&table);
    assert!(table.try_lock_span(v, &"x", 0..10, Read));
    assert!(table.try_lock_span(u, &"x", 20..30, Read));
    assert!(table.try_lock_span(z, &"x", 40..50, Read));
    assert!(table.try_lock(v, &"y", Write));
    let whole = ask(&table, w, "x", Write);
    let past = ask_span(&table, v, "x", 20..30, Write);
    let of_v = ask(&table, z, "y", Read);
    assert!(whole.waits(), "for U, V and Z; V for U, and Z for V");
    table.release(v, &"x");
    // V is now behind W, which waits for Z, which waits for V.
    assert_eq!(whole.result(), Err(Deadlock));
    table.end(u);
    past.granted();
    table.end(v);
    of_v.granted();
}
