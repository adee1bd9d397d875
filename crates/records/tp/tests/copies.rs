//! Backups, archives, restores and standbys, and crashes of either side.

use crate::common::{TABLE, content, copying, seed, small, wherever_pages_lie};
use std::ops::Range;
use std::sync::Arc;
use varve_tp::storage::{Fault, MemoryStorage};
use varve_tp::{Environment, Error, Standby, Until};

/// Commits a transaction for each number.
fn put(environment: &Environment, numbers: Range<u32>, value: &[u8]) {
    for number in numbers {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        table.insert(&number.to_be_bytes(), value).unwrap();
        transaction.commit().unwrap();
    }
}

#[test]
fn a_backup_of_an_environment_at_work_is_whole() {
    wherever_pages_lie(|| {
        copying::backup_at_work(1 << 20);
        copying::backup_at_work(24 * 4096);
    });
}

#[test]
fn an_archive_leads_to_every_commit() {
    wherever_pages_lie(|| {
        copying::archive_leads_everywhere(seed("an_archive_leads_to_every_commit"));
    });
}

#[test]
fn what_does_not_fit_is_named() {
    wherever_pages_lie(|| {
        copying::misfits_are_named(seed("what_does_not_fit_is_named"));
    });
}

#[test]
fn a_standby_follows_is_read_and_takes_over() {
    wherever_pages_lie(|| {
        copying::standby_follows(seed("a_standby_follows_is_read_and_takes_over"));
    });
}

#[test]
fn crashes_of_an_original_leave_archive_and_backup_whole() {
    wherever_pages_lie(|| {
        copying::crashes_of_original(seed(
            "crashes_of_an_original_leave_archive_and_backup_whole",
        ));
    });
}

#[test]
fn crashes_of_a_standby_lose_nothing_that_it_gets_again() {
    wherever_pages_lie(|| {
        copying::crashes_of_standby(seed("crashes_of_a_standby_lose_nothing_that_it_gets_again"));
    });
}

#[test]
fn an_archive_that_is_full_stops_writers_at_the_limit_only() {
    wherever_pages_lie(|| {
        copying::archive_is_full(seed(
            "an_archive_that_is_full_stops_writers_at_the_limit_only",
        ));
    });
}

/// The log continues in the next segment if a batch does not fit: a torn receipt there
/// must also be cleared before a copy becomes an original.
#[test]
fn a_receipt_torn_where_a_segment_begins_is_cleared() {
    wherever_pages_lie(|| {
        copying::crashes_of_standby(7);
        copying::crashes_of_standby(9);
    });
}

#[test]
fn a_standby_that_is_read_does_not_take_over() {
    wherever_pages_lie(|| {
        let original = small()
            .open_storage(Arc::new(MemoryStorage::new()))
            .unwrap();
        put(&original, 0..300, b"before");
        let copy = Arc::new(MemoryStorage::new());
        original.backup(&*copy).unwrap();
        let mut standby = Standby::open(&small(), copy.clone()).unwrap();
        let reader = standby.open_read_only().unwrap();
        let refused = standby.promote().unwrap_err();
        assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
        let before = content(&reader);
        assert_eq!(before.len(), 300);
        drop(reader);
        let mut standby = Standby::open(&small(), copy).unwrap();
        drop(standby.open_read_only().unwrap());
        assert!(content(&standby.promote().unwrap()) == before);
    });
}

/// Any interruption of a promotion leaves an original, or a copy that still follows.
#[test]
fn a_promotion_that_is_cut_short_leaves_a_copy_that_follows() {
    wherever_pages_lie(|| {
        let original = small()
            .open_storage(Arc::new(MemoryStorage::new()))
            .unwrap();
        put(&original, 0..50, b"before");
        let copy = MemoryStorage::new();
        original.backup(&copy).unwrap();
        put(&original, 20..90, b"after");
        let (files, whole) = (copy.files(), content(&original));
        let (mut copies, mut originals) = (0, 0);
        for at in 0.. {
            let copy = Arc::new(MemoryStorage::with_files(files.clone()));
            copy.set_fault(Some(Fault {
                at,
                sticky: true,
                reads: false,
                no_room: false,
            }));
            let done = small().open_storage(copy.clone()).is_ok();
            copy.set_fault(None);
            match Standby::open(&small(), copy) {
                Ok(mut standby) => {
                    while let Some(piece) = original.ship(standby.position()).unwrap() {
                        let applied = standby.apply("piece", &piece, Until::End).unwrap();
                        assert!(
                            applied.records > 0,
                            "at {at}: every piece brings it further"
                        );
                    }
                    assert!(content(&standby.open_read_only().unwrap()) == whole);
                    copies += 1;
                }
                Err(Error::Incompatible { .. }) => originals += 1,
                Err(error) => panic!("at {at}: {error}"),
            }
            if done {
                break;
            }
        }
        assert!(copies > 3 && originals > 3, "{copies}, {originals}");
    });
}

#[test]
fn what_no_standby_can_stand_at_is_not_shipped() {
    wherever_pages_lie(|| {
        let original = small()
            .open_storage(Arc::new(MemoryStorage::new()))
            .unwrap();
        put(&original, 0..50, b"before");
        let copy = Arc::new(MemoryStorage::new());
        original.backup(&*copy).unwrap();
        let at = Standby::open(&small(), copy).unwrap().position();
        put(&original, 0..50, b"after");
        assert!(original.ship(at).unwrap().is_some());
        let refused = original.ship(at + 1).unwrap_err();
        assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
        assert!(original.ship(u64::MAX).unwrap().is_none());
    });
}

/// The archive continues behind the log's end, as after a restore of the environment's
/// files, or its files have wrong names.
#[test]
fn an_archive_of_another_state_is_refused() {
    wherever_pages_lie(|| {
        let (archive, storage) = (MemoryStorage::new(), MemoryStorage::new());
        let mut options = small();
        options.archive(Some(Arc::new(archive.clone())));
        let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
        put(&environment, 0..300, b"before");
        let copy = Arc::new(MemoryStorage::new());
        environment.backup(&*copy).unwrap();
        environment.checkpoint().unwrap();
        let early = storage.files();
        put(&environment, 0..600, b"after");
        environment.checkpoint().unwrap();
        let late = storage.files();
        drop(environment);
        let open = |files, archive: MemoryStorage| {
            let mut options = small();
            options.archive(Some(Arc::new(archive)));
            options.open_storage(Arc::new(MemoryStorage::with_files(files)))
        };
        let again = MemoryStorage::with_files(archive.files());
        open(late.clone(), again).unwrap();
        let again = MemoryStorage::with_files(archive.files());
        let refused = open(early, again).unwrap_err();
        assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
        let mut files = archive.files();
        let one = files.values().next().unwrap().clone();
        files.insert(format!("log-{}", u64::MAX), one);
        let lying = MemoryStorage::with_files(files);
        let mut standby = Standby::open(&small(), copy).unwrap();
        let before = standby.position();
        let refused = standby.apply_archive(&lying, Until::End).unwrap_err();
        let named = matches!(&refused, Error::Damaged { file, .. } if file.ends_with("615"));
        assert!(named, "{refused}");
        assert!(
            standby.position() > before,
            "what comes before it is applied"
        );
        let refused = open(late, lying).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
    });
}
