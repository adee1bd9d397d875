//! Backups, archives, restores and standbys; and crashes of either side.

mod common;

use common::{copying, seed};

#[test]
fn a_backup_of_an_environment_at_work_is_whole() {
    copying::backup_at_work();
}

#[test]
fn an_archive_leads_to_every_commit() {
    copying::archive_leads_everywhere(seed("an_archive_leads_to_every_commit"));
}

#[test]
fn what_does_not_fit_is_named() {
    copying::misfits_are_named(seed("what_does_not_fit_is_named"));
}

#[test]
fn a_standby_follows_is_read_and_takes_over() {
    copying::standby_follows(seed("a_standby_follows_is_read_and_takes_over"));
}

#[test]
fn crashes_of_an_original_leave_archive_and_backup_whole() {
    copying::crashes_of_original(seed(
        "crashes_of_an_original_leave_archive_and_backup_whole",
    ));
}

#[test]
fn crashes_of_a_standby_lose_nothing_that_it_gets_again() {
    copying::crashes_of_standby(seed("crashes_of_a_standby_lose_nothing_that_it_gets_again"));
}

#[test]
fn an_archive_that_is_full_stops_writers_at_the_limit_only() {
    copying::archive_is_full(seed(
        "an_archive_that_is_full_stops_writers_at_the_limit_only",
    ));
}

/// The log goes on in the next segment where a batch does not fit: what is torn there has
/// to be cleared, too, before a copy becomes an original.
#[test]
fn a_receipt_torn_where_a_segment_begins_is_cleared() {
    copying::crashes_of_standby(7);
    copying::crashes_of_standby(9);
}
