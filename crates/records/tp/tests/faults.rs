//! A failing storage, a full one, and damaged files.

use crate::common::{Model, Random, TABLE, content, seed, small, wherever_pages_lie};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_tp::storage::{Fault, MemoryStorage, Survival};
use varve_tp::{Error, Placement, Result, TableDefinition, TornPages};

/// Works until a request fails. Returns the states that a restart may show.
fn work(random: &mut Random, storage: &MemoryStorage, fault: Option<Fault>) -> Vec<Model> {
    let environment = small().open_storage(Arc::new(storage.clone())).unwrap();
    storage.set_fault(fault);
    let mut model = Model::new();
    for _ in 0..25 {
        let mut changed = model.clone();
        let transaction = environment.begin_write();
        let result = (|| -> Result<()> {
            let table = transaction.open_table(TABLE)?;
            for _ in 0..8 {
                let (key, value) = (random.key(), random.value());
                match random.one_in(3) {
                    true => _ = (table.remove(&key)?, changed.remove(&key)),
                    false => _ = (table.insert(&key, &value)?, changed.insert(key, value)),
                }
            }
            Ok(())
        })();
        if result.is_err() {
            drop(transaction);
            // The environment may continue or be poisoned; in either case no partial
            // transaction is visible.
            if environment.statistics().active == 0
                && let Ok(read) = environment.begin_read().open_table(TABLE)
                && let Ok(rows) = read.iter()
                && let Ok(rows) = rows.collect::<Result<Model>>()
            {
                assert_eq!(rows, model);
            }
            return vec![model];
        }
        if transaction.commit().is_err() {
            return vec![model, changed];
        }
        model = changed;
        // A failed checkpoint is not a failed transaction.
        let _ = environment.maintain();
    }
    vec![model]
}

fn reopens_as(storage: &MemoryStorage, allowed: &[Model], what: &str) {
    let environment = small().open_storage(Arc::new(storage.clone()));
    let environment = environment.unwrap_or_else(|error| panic!("{what}: {error}"));
    let verified = environment
        .verify()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(verified.lost_pages, 0, "{what}");
    assert!(allowed.contains(&content(&environment)), "{what}");
}

#[test]
fn any_request_may_fail() {
    any_request("any_request_may_fail", 5);
}

#[test]
fn any_request_may_fail_in_place() {
    wherever_pages_lie(|| any_request("any_request_may_fail_in_place", 11));
}

fn any_request(test: &str, step: usize) {
    let seed = seed(test);
    for (no_room, reads) in [(false, false), (false, true), (true, false)] {
        for sticky in [false, true] {
            for at in (0..400).step_by(step) {
                let storage = MemoryStorage::new();
                let fault = Fault {
                    at,
                    sticky,
                    reads,
                    no_room,
                };
                let allowed = work(&mut Random::new(seed), &storage, Some(fault));
                storage.set_fault(None);
                reopens_as(&storage, &allowed, &format!("{fault:?}"));
            }
        }
    }
}

#[test]
fn opening_may_fail_anywhere() {
    wherever_pages_lie(|| {
        let seed = seed("opening_may_fail_anywhere");
        let storage = MemoryStorage::new();
        let allowed = work(&mut Random::new(seed), &storage, None);
        let files = storage.files();
        for at in 0..200 {
            let storage = MemoryStorage::with_files(files.clone());
            storage.set_fault(Some(Fault {
                at,
                sticky: false,
                reads: true,
                no_room: false,
            }));
            let failed = small().open_storage(Arc::new(storage.clone())).is_err();
            storage.set_fault(None);
            reopens_as(
                &storage,
                &allowed,
                &format!("opening failed at {at}: {failed}"),
            );
        }
    });
}

/// The log fails after an image was appended: its page must not be overwritten, because
/// nothing would restore it if that write were torn.
#[test]
fn a_page_whose_image_was_lost_is_not_written_over() {
    let mut random = Random::new(seed("a_page_whose_image_was_lost_is_not_written_over"));
    let key = u32::to_be_bytes;
    for (at, no_room) in (0..24).flat_map(|at| [(at, false), (at, true)]) {
        let storage = MemoryStorage::new();
        storage.record();
        let mut options = small();
        options.placement(Placement::InPlace(TornPages::LogImages));
        let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
        let mut model = Model::new();
        let mut change = |numbers: std::ops::Range<u32>, byte| {
            let transaction = environment.begin_write();
            let table = transaction.open_table(TABLE).unwrap();
            for number in numbers {
                table.insert(&key(number), &[byte; 1000]).unwrap();
                model.insert(key(number).into(), vec![byte; 1000]);
            }
            transaction.commit().unwrap();
        };
        // There are more pages than frames; then fewer are dirty, and their log is
        // durable.
        change(0..150, 1);
        environment.checkpoint().unwrap();
        change(0..50, 2);
        storage.set_fault(Some(Fault {
            at,
            sticky: false,
            reads: false,
            no_room,
        }));
        let read = environment.begin_read();
        let table = read.open_table(TABLE).unwrap();
        for number in 0..150 {
            let _ = table.get(&key(number));
        }
        drop(read);
        drop(environment);
        let mut crashes = storage.crashes(BTreeMap::new());
        while crashes.step() {}
        for _ in 0..4 {
            let mut draw = |_| random.below(3) as u8;
            let image = crashes.image(Survival::Draw(&mut draw));
            match open(image) {
                Ok(found) => assert!(found == model, "{at} {no_room}"),
                Err(error) => panic!("{at} {no_room}: {error}"),
            }
        }
    }
}

/// Returns an environment that was dropped without a checkpoint.
fn dead(transactions: u32) -> (BTreeMap<String, Vec<u8>>, Model) {
    let storage = MemoryStorage::new();
    let environment = small().open_storage(Arc::new(storage.clone())).unwrap();
    let mut model = Model::new();
    for number in 0..transactions {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        let (key, value) = (number.to_be_bytes(), [number as u8; 20]);
        table.insert(&key, &value).unwrap();
        model.insert(key.into(), value.into());
        transaction.commit().unwrap();
    }
    drop(environment);
    (storage.files(), model)
}

fn open(files: BTreeMap<String, Vec<u8>>) -> Result<Model> {
    let environment = small().open_storage(Arc::new(MemoryStorage::with_files(files)))?;
    Ok(content(&environment))
}

/// Returns the offsets of the batches in a log file, in the order of their LSNs.
fn batches(file: &[u8]) -> Vec<usize> {
    let units = file.chunks(512).enumerate();
    let lsn = |unit: &[u8]| u64::from_le_bytes(unit[16..24].try_into().unwrap());
    let mut found: Vec<_> = units
        .filter(|(_, unit)| unit.starts_with(b"VTPB"))
        .map(|(number, unit)| (lsn(unit), number * 512))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, at)| at).collect()
}

#[test]
fn a_torn_tail_is_told_from_damage() {
    wherever_pages_lie(|| {
        let (files, model) = dead(12);
        let logs = files.keys().filter(|name| name.starts_with("wal-"));
        let log = logs
            .max_by_key(|name| batches(&files[*name]).len())
            .unwrap()
            .clone();
        let places = batches(&files[&log]);
        assert!(places.len() > 8);
        // The last batch is torn, as by a power cut.
        let mut torn = files.clone();
        torn.get_mut(&log).unwrap()[*places.last().unwrap() + 60] ^= 1;
        assert_ne!(open(torn).unwrap(), model);
        // A batch in the middle is damaged; later ones record that it was durable.
        let mut damaged = files;
        damaged.get_mut(&log).unwrap()[places[places.len() - 4] + 60] ^= 1;
        let error = open(damaged).unwrap_err();
        assert!(
            matches!(&error, Error::Damaged { file, .. } if file == "wal"),
            "{error}"
        );
    });
}

#[test]
fn either_copy_of_a_checkpoint_is_enough() {
    let (files, model) = dead(12);
    for (lost, kept) in [("check-0", "check-1"), ("check-1", "check-0")] {
        let mut one = files.clone();
        one.remove(lost);
        assert_eq!(open(one).unwrap(), model);
        let mut one = files.clone();
        one.get_mut(lost).unwrap()[50] ^= 1;
        assert_eq!(open(one.clone()).unwrap(), model);
        one.get_mut(kept).unwrap()[50] ^= 1;
        assert!(matches!(open(one).unwrap_err(), Error::Damaged { .. }));
    }
}

#[test]
fn a_damaged_page_is_an_error() {
    wherever_pages_lie(|| {
        let storage = MemoryStorage::new();
        let environment = small().open_storage(Arc::new(storage.clone())).unwrap();
        let numbers: TableDefinition<u32, [u8; 100]> = TableDefinition::new("numbers");
        let transaction = environment.begin_write();
        let table = transaction.open_table(numbers).unwrap();
        table
            .bulk_load((0..2000).map(|number| (number, &[7; 100])))
            .unwrap();
        transaction.commit().unwrap();
        environment.close().unwrap();
        let files = storage.files();
        let mut found = 0;
        for slot in 1..files["pages"].len() / 4096 {
            let mut files = files.clone();
            files.get_mut("pages").unwrap()[slot * 4096 + 3000] ^= 0x10;
            let storage = Arc::new(MemoryStorage::with_files(files));
            let verified = small().open_storage(storage).and_then(|e| e.verify());
            match verified {
                Err(Error::Damaged { .. }) => found += 1,
                // The slot is free.
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(found > 40, "{found}");
    });
}

#[test]
fn a_full_log_refuses_and_can_be_undone() {
    wherever_pages_lie(|| {
        let mut options = small();
        options.log(4 * (64 << 10));
        let environment = options
            .open_storage(Arc::new(MemoryStorage::new()))
            .unwrap();
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        let mut random = Random::new(3);
        let refused = loop {
            if let Err(error) = table.insert(&random.key(), &random.value()) {
                break error;
            }
        };
        assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
        transaction.abort().unwrap();
        assert!(content(&environment).is_empty());
        // Other transactions continue indefinitely, because checkpoints free log.
        for _ in 0..300 {
            let transaction = environment.begin_write();
            let table = transaction.open_table(TABLE).unwrap();
            table.insert(&random.key(), &random.value()).unwrap();
            transaction.commit().unwrap();
        }
        assert_eq!(environment.verify().unwrap().lost_pages, 0);
    });
}
