//! Dropping and renaming tables, and nested transactions.

use crate::common::{small, wherever_pages_lie};
use std::sync::Arc;
use std::time::Duration;
use varve_tp::storage::MemoryStorage;
use varve_tp::{Environment, Error, Options, Placement, TableDefinition, TornPages};

const TABLE: TableDefinition<u32, &[u8]> = TableDefinition::new("table");
const OTHER: TableDefinition<u32, &[u8]> = TableDefinition::new("other");

fn open() -> Environment {
    let mut options = small();
    options.lock_timeout(Some(Duration::from_millis(20)));
    let storage = Arc::new(MemoryStorage::new());
    options.open_storage(storage).unwrap()
}

fn fill(environment: &Environment, records: u32) {
    let transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    for number in 0..records {
        let length = if number % 50 == 0 { 9_000 } else { 90 };
        table.insert(number, &vec![number as u8; length]).unwrap();
    }
    transaction.commit().unwrap();
}

/// The pages are reused: ten tables need no more space than two.
#[test]
fn the_room_of_a_dropped_table_comes_back() {
    let environment = open();
    fill(&environment, 1_000);
    let mut most = 0;
    for round in 0..10 {
        let transaction = environment.begin_write();
        transaction.drop_table("table").unwrap();
        assert!(matches!(
            transaction.drop_table("table"),
            Err(Error::NoTable(_))
        ));
        transaction.commit().unwrap();
        assert!(environment.tables().is_empty());
        let verified = environment.verify().unwrap();
        assert_eq!((verified.lost_pages, verified.kept_pages), (0, 0));
        assert_eq!((verified.tree_pages, verified.overflow_pages), (1, 0));
        if round == 1 {
            most = verified.free_pages;
        }
        assert!(round < 2 || verified.free_pages <= most, "{verified:?}");
        fill(&environment, 1_000);
    }
}

#[test]
fn a_drop_that_is_undone_leaves_the_table() {
    let environment = open();
    fill(&environment, 300);
    let mut transaction = environment.begin_write();
    let table = transaction.open_table(TABLE).unwrap();
    table.insert(7, b"before").unwrap();
    let savepoint = transaction.savepoint();
    transaction.drop_table("table").unwrap();
    assert!(matches!(table.get(7), Err(Error::TableDropped)));
    assert!(matches!(table.insert(7, b""), Err(Error::TableDropped)));
    transaction.rollback_to(savepoint).unwrap();
    assert_eq!(table.get(7).unwrap().unwrap(), b"before");
    let child = transaction.begin_nested();
    child.drop_table("table").unwrap();
    // This is another table of that name.
    child.open_table(TABLE).unwrap().insert(1, b"new").unwrap();
    child.abort().unwrap();
    transaction.drop_table("table").unwrap();
    transaction.abort().unwrap();
    let reader = environment.begin_read();
    assert_eq!(
        reader.open_table(TABLE).unwrap().iter().unwrap().count(),
        300
    );
    assert_eq!(environment.verify().unwrap().lost_pages, 0);
}

#[test]
fn a_snapshot_goes_on_with_a_table_that_was_dropped_or_renamed() {
    let environment = open();
    fill(&environment, 300);
    let early = environment.begin_read();
    let transaction = environment.begin_write();
    transaction.rename_table("table", "other").unwrap();
    let taken = transaction.rename_table("table", "another");
    assert!(matches!(taken, Err(Error::NoTable(_))));
    assert_eq!(
        transaction
            .open_table(OTHER)
            .unwrap()
            .iter()
            .unwrap()
            .count(),
        300
    );
    transaction.commit().unwrap();
    let between = environment.begin_read();
    let transaction = environment.begin_write();
    transaction.drop_table("other").unwrap();
    transaction
        .open_table(TABLE)
        .unwrap()
        .insert(1, b"new")
        .unwrap();
    transaction.commit().unwrap();
    let late = environment.begin_read();
    environment.maintain().unwrap();
    for round in 0..2 {
        let all = |table: varve_tp::ReadTable<'_, '_, u32, &[u8]>| {
            let rows = table.iter().unwrap().map(Result::unwrap);
            rows.inspect(|(key, value)| assert_eq!(value[0], *key as u8))
                .count()
        };
        assert_eq!(all(early.open_table(TABLE).unwrap()), 300);
        assert_eq!(all(between.open_table(OTHER).unwrap()), 300);
        assert!(early.open_table(OTHER).is_err() && between.open_table(TABLE).is_err());
        let new = late.open_table(TABLE).unwrap();
        assert_eq!(new.get(1).unwrap().unwrap(), b"new");
        assert!(late.open_table(OTHER).is_err());
        let verified = environment.verify().unwrap();
        assert!(verified.kept_pages > 20 && verified.lost_pages == 0);
        if round == 0 {
            // A new table would take the pages if they were free.
            let transaction = environment.begin_write();
            let table = transaction.open_table(OTHER).unwrap();
            (0..500).for_each(|number| _ = table.insert(number, &[9; 90]).unwrap());
            transaction.commit().unwrap();
        }
    }
    drop((early, between, late));
    environment.maintain().unwrap();
    let verified = environment.verify().unwrap();
    assert_eq!((verified.kept_pages, verified.lost_pages), (0, 0));
}

#[test]
fn a_table_in_use_is_not_dropped_and_whoever_comes_late_is_told() {
    let environment = open();
    fill(&environment, 10);
    let user = environment.begin_write();
    let table = user.open_table(TABLE).unwrap();
    table.insert(1, b"used").unwrap();
    let late = environment.begin_write();
    let opened = late.open_table(TABLE).unwrap();
    let transaction = environment.begin_write();
    assert!(matches!(
        transaction.drop_table("table"),
        Err(Error::LockTimeout)
    ));
    user.commit().unwrap();
    transaction.drop_table("table").unwrap();
    transaction.commit().unwrap();
    assert!(matches!(opened.get(1), Err(Error::TableDropped)));
    assert!(matches!(
        opened.insert(1, b"late"),
        Err(Error::TableDropped)
    ));
}

/// The rules of Moss.
#[test]
fn children_inherit_locks_and_hand_them_on() {
    let environment = open();
    fill(&environment, 10);
    let mut parent = environment.begin_write();
    let table = |transaction: &varve_tp::WriteTransaction<'_>, number, value: &[u8]| {
        let table = transaction.open_table(TABLE)?;
        table.insert(number, value)
    };
    table(&parent, 1, b"parent").unwrap();
    let mut child = parent.begin_nested();
    // Locks of the parent do not block the child.
    table(&child, 1, b"child").unwrap();
    table(&child, 2, b"child").unwrap();
    let grandchild = child.begin_nested();
    table(&grandchild, 3, b"grandchild").unwrap();
    grandchild.commit().unwrap();
    let stranger = environment.begin_write();
    let refused = |number| table(&stranger, number, b"stranger").is_err();
    assert!(refused(1) && refused(2) && refused(3));
    child.abort().unwrap();
    // Locks that only the child owned are released, those of the parent are not.
    assert!(refused(1) && !refused(2) && !refused(3));
    stranger.abort().unwrap();
    let child = parent.begin_nested();
    table(&child, 4, b"child").unwrap();
    child.commit().unwrap();
    let stranger = environment.begin_write();
    assert!(table(&stranger, 4, b"stranger").is_err());
    drop(stranger);
    // Dropping the child aborts it.
    table(&parent.begin_nested(), 5, b"child").unwrap();
    parent.commit().unwrap();
    let reader = environment.begin_read();
    let all = reader.open_table(TABLE).unwrap();
    let value = |number| all.get(number).unwrap().unwrap();
    assert_eq!(
        (value(1), value(4)),
        (b"parent".to_vec(), b"child".to_vec())
    );
    assert_eq!(
        (value(2), value(3), value(5)),
        (vec![2; 90], vec![3; 90], vec![5; 90])
    );
}

/// An aborted child hides nothing of later changes of its records.
#[test]
fn what_follows_an_aborted_child_is_seen() {
    let environment = open();
    fill(&environment, 10);
    let early = environment.begin_read();
    let mut parent = environment.begin_write();
    let put = |transaction: &varve_tp::WriteTransaction<'_>, number, value: &[u8]| {
        let table = transaction.open_table(TABLE).unwrap();
        table.insert(number, value).unwrap();
    };
    put(&parent, 1, b"parent");
    let kept = environment.statistics().version_bytes;
    let child = parent.begin_nested();
    put(&child, 1, b"child");
    put(&child, 2, b"child");
    child.abort().unwrap();
    assert_eq!(environment.statistics().version_bytes, kept);
    let other = environment.begin_write();
    put(&other, 2, b"other");
    other.commit().unwrap();
    let get = |snapshot: &varve_tp::ReadTransaction<'_>, number| {
        let table = snapshot.open_table(TABLE).unwrap();
        table.get(number).unwrap().unwrap()
    };
    let late = environment.begin_read();
    assert_eq!(
        (get(&late, 1), get(&late, 2)),
        (vec![1; 90], b"other".to_vec())
    );
    put(&parent, 2, b"parent");
    parent.commit().unwrap();
    assert_eq!(
        (get(&late, 1), get(&late, 2)),
        (vec![1; 90], b"other".to_vec())
    );
    assert_eq!((get(&early, 1), get(&early, 2)), (vec![1; 90], vec![2; 90]));
    let last = environment.begin_read();
    assert_eq!(
        (get(&last, 1), get(&last, 2)),
        (b"parent".to_vec(), b"parent".to_vec())
    );
    drop((early, late, last));
    assert_eq!(environment.statistics().version_bytes, 0);
}

/// A rollback forgets exactly the names found since the savepoint.
#[test]
fn names_that_were_changed_before_a_savepoint_stay_changed() {
    let environment = open();
    fill(&environment, 10);
    let mut transaction = environment.begin_write();
    transaction.rename_table("table", "other").unwrap();
    let savepoint = transaction.savepoint();
    transaction
        .open_table(TABLE)
        .unwrap()
        .insert(77, b"new")
        .unwrap();
    transaction.rollback_to(savepoint).unwrap();
    assert_eq!(transaction.open_table(TABLE).unwrap().get(1).unwrap(), None);
    let child = transaction.begin_nested();
    child.drop_table("other").unwrap();
    child.abort().unwrap();
    assert_eq!(
        transaction
            .open_table(OTHER)
            .unwrap()
            .iter()
            .unwrap()
            .count(),
        10
    );
    transaction.commit().unwrap();
    let tables = environment.tables();
    assert_eq!(tables, ["other", "table"]);
}

#[test]
fn behind_the_highest_number_no_record_is_appended() {
    use varve_tp::RecordsDefinition;
    const LINES: RecordsDefinition<&[u8]> = RecordsDefinition::new("lines");
    let environment = open();
    let transaction = environment.begin_write();
    let lines = transaction.open_raw("lines", "records of [u8]").unwrap();
    for number in [0, u64::MAX] {
        lines.insert(&number.to_be_bytes(), b"there").unwrap();
    }
    let lines = transaction.open_records(LINES).unwrap();
    for _ in 0..3 {
        let refused = lines.append(b"more").unwrap_err();
        assert!(matches!(refused, Error::NoNumber), "{refused}");
    }
    assert_eq!(lines.get(0).unwrap().unwrap(), b"there");
}

#[test]
fn looking_makes_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let none = directory.path().join("none");
    let (mut looking, mut opening) = (small(), small());
    for options in [looking.read_only(true), opening.create(false)] {
        let refused = options.open(&none).unwrap_err();
        assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
        assert!(!none.exists());
    }
}

#[test]
fn several_look_at_once_and_nobody_writes_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let writing = small().open(directory.path()).unwrap();
    let mut looking = small();
    looking.read_only(true);
    let refused = looking.open(directory.path()).unwrap_err();
    assert!(matches!(refused, Error::InUse), "{refused}");
    drop(writing);
    let both = [(); 2].map(|()| looking.open(directory.path()).unwrap());
    let refused = small().open(directory.path()).unwrap_err();
    assert!(matches!(refused, Error::InUse), "{refused}");
    drop(both);
    small().open(directory.path()).unwrap();
}

/// A former fault: if all frames were dirty, each was written and then skipped, until the
/// error "all frames are pinned".
#[test]
fn a_pool_of_dirty_pages_makes_room() {
    wherever_pages_lie(|| {
        let mut options = small();
        options.segment(1 << 20).memory(256 << 10);
        let environment = options
            .open_storage(Arc::new(MemoryStorage::new()))
            .unwrap();
        const ROWS: TableDefinition<u32, [u8; 100]> = TableDefinition::new("rows");
        for part in 0..20u32 {
            let transaction = environment.begin_write();
            {
                let table = transaction.open_table(ROWS).unwrap();
                for row in part * 1000..(part + 1) * 1000 {
                    table.insert(row, &[part as u8; 100]).unwrap();
                }
            }
            transaction.commit().unwrap();
        }
        // Rows are far apart, so that each change needs a page that is not in memory.
        for step in 0..5000u32 {
            let row = step.wrapping_mul(2_654_435_761) % 20_000;
            let transaction = environment.begin_write();
            transaction
                .open_table(ROWS)
                .unwrap()
                .insert(row, &[200; 100])
                .unwrap();
            transaction.commit().unwrap();
        }
        let transaction = environment.begin_read();
        assert_eq!(
            transaction
                .open_table(ROWS)
                .unwrap()
                .iter()
                .unwrap()
                .count(),
            20_000
        );
    });
}

#[test]
fn pages_in_place_go_out_together_as_many_as_are_asked_for() {
    const TABLE: TableDefinition<u32, [u8; 100]> = TableDefinition::new("numbers");
    let first_out = |together| {
        let mut options = Options::new();
        options
            .background(false)
            .memory(64 * 4096)
            .placement(Placement::InPlace(TornPages::Never))
            .written_together(together);
        let storage = Arc::new(MemoryStorage::new());
        let environment = options.open_storage(storage).unwrap();
        let before = environment.statistics().page_writes;
        let mut number = 0;
        loop {
            let transaction = environment.begin_write();
            let table = transaction.open_table(TABLE).unwrap();
            table.insert(number, &[7; 100]).unwrap();
            transaction.commit().unwrap();
            number += 1;
            match environment.statistics().page_writes - before {
                0 => {}
                written => return written,
            }
        }
    };
    assert_eq!((first_out(1), first_out(0)), (1, 1));
    let together = first_out(4);
    assert!((2..=4).contains(&together), "{together}");
}
