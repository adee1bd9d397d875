//! Backups, archives, restores and standbys, and crashes of either side, for the tests of
//! these and of planted faults.

use super::pieces::InPieces;
use super::prefixed::{Prefixed, part};
use super::{Model, Random, TABLE, change, content, small};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_tp::storage::{Choice, CrashImages, Fault, MemoryStorage, Storage, Survival};
use varve_tp::tpcb::{Store, Transfer};
use varve_tp::{Environment, Error, Options, Standby, Until};

type Files = BTreeMap<String, Vec<u8>>;

fn archiving(archive: Arc<dyn Storage>) -> Options {
    let mut options = small();
    options.archive(Some(archive));
    options
}

/// Commits changes, and returns LSN and content after each.
fn work(
    random: &mut Random,
    environment: &Environment,
    model: &mut Model,
    transactions: u32,
) -> Vec<(u64, Model)> {
    work_alone(random, environment, model, transactions, true)
}

/// Does the same in an environment without background work.
fn work_alone(
    random: &mut Random,
    environment: &Environment,
    model: &mut Model,
    transactions: u32,
    maintained: bool,
) -> Vec<(u64, Model)> {
    let mut states = Vec::new();
    for _ in 0..transactions {
        let transaction = environment.begin_write();
        let mut changed = model.clone();
        for _ in 0..1 + random.below(8) {
            change(random, &transaction, &mut changed);
        }
        match random.one_in(6) {
            true => transaction.abort().unwrap(),
            false => {
                transaction.commit().unwrap();
                *model = changed;
            }
        }
        environment.sync().unwrap();
        states.push((environment.durable_lsn(), model.clone()));
        if maintained {
            environment.maintain().unwrap();
        }
    }
    states
}

fn standby(files: &Files) -> Result<Standby, Error> {
    Standby::open(&small(), Arc::new(MemoryStorage::with_files(files.clone())))
}

fn restored(copy: &Files, archive: &MemoryStorage, until: Until) -> Result<Model, Error> {
    let mut standby = standby(copy)?;
    standby.apply_archive(archive, until)?;
    let environment = standby.promote()?;
    assert_eq!(environment.verify()?.lost_pages, 0);
    Ok(content(&environment))
}

/// Makes an original with an archive and a copy from the middle of its history. Returns
/// the copy, the archive, and the content at each LSN.
fn history(seed: u64) -> (Files, MemoryStorage, Vec<(u64, Model)>) {
    let mut random = Random::new(seed);
    let (archive, mut copy) = (MemoryStorage::new(), MemoryStorage::new());
    let options = archiving(Arc::new(archive.clone()));
    let storage = MemoryStorage::new();
    let environment = options.open_storage(Arc::new(storage.clone())).unwrap();
    let mut model = Model::new();
    work(&mut random, &environment, &mut model, 40);
    environment.backup(&copy).unwrap();
    while !copy.files().contains_key("wal-0") {
        // The log ended at the end of a segment.
        work(&mut random, &environment, &mut model, 1);
        copy = MemoryStorage::new();
        environment.backup(&copy).unwrap();
    }
    let mut states = vec![(environment.durable_lsn(), model.clone())];
    states.extend(work(&mut random, &environment, &mut model, 60));
    // One more life, after a crash that precedes the end of archiving.
    states.extend(work_alone(&mut random, &environment, &mut model, 40, false));
    std::mem::forget(environment);
    let files = storage.files();
    let storage = Arc::new(MemoryStorage::with_files(files));
    let environment = options.open_storage(storage).unwrap();
    states.extend(work(&mut random, &environment, &mut model, 100));
    (copy.files(), archive, states)
}

/// With few frames, pages are written all the time, including those that are being
/// copied.
pub fn backup_at_work(memory: usize) {
    let environment = small()
        .memory(memory)
        .background(true)
        .checkpoint_after(128 << 10)
        .log(256 << 20) // A backup pins the log, however long it waits for a processor.
        .open_storage(Arc::new(InPieces(MemoryStorage::new())))
        .unwrap();
    const ACCOUNTS: u32 = 2_000;
    environment.load(ACCOUNTS).unwrap();
    let stop = AtomicBool::new(false);
    let (environment, stop) = (&environment, &stop);
    /// If one thread fails, this stops the others.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _stop = Stop(stop);
        for thread in 0..2 {
            scope.spawn(move || {
                let mut random = thread + 1;
                while !stop.load(Relaxed) {
                    let transfer = Transfer::draw(&mut random, ACCOUNTS);
                    while let Err(error) = environment.transfer(&transfer) {
                        assert!(error.is_conflict(), "{error}");
                    }
                }
            });
        }
        for _ in 0..3 {
            let copy = MemoryStorage::new();
            let before = environment.durable_lsn();
            let report = environment.backup(&copy).unwrap();
            assert!(report.until >= before && report.pages > 50, "{report:?}");
            let copy = small().open_storage(Arc::new(copy)).unwrap();
            assert_eq!(copy.verify().unwrap().lost_pages, 0);
            let sums = copy.sums().unwrap();
            assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        }
    });
    let sums = environment.sums().unwrap();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    assert_eq!(environment.verify().unwrap().lost_pages, 0);
}

pub fn archive_leads_everywhere(seed: u64) {
    let (copy, archive, states) = history(seed);
    let mut standby = standby(&copy).unwrap();
    let end = standby
        .apply_archive(&archive, Until::End)
        .unwrap()
        .position;
    assert!(end > states[100].0, "several segments were archived");
    for (lsn, model) in states.iter().filter(|(lsn, _)| *lsn <= end).step_by(7) {
        let found = restored(&copy, &archive, Until::Lsn(*lsn)).unwrap();
        assert!(found == *model, "at {lsn}");
    }
    // No batch that was closed after 1970 is applied.
    let error = restored(&copy, &archive, Until::Time(0)).unwrap_err();
    assert!(error.to_string().contains("take an older one"), "{error}");
    let all = restored(&copy, &archive, Until::Time(u64::MAX)).unwrap();
    assert!(all == restored(&copy, &archive, Until::End).unwrap());
}

pub fn misfits_are_named(seed: u64) {
    let (copy, archive, _) = history(seed);
    let files = archive.files();
    let names: Vec<&String> = files.keys().collect();
    assert!(names.len() > 6, "{names:?}");
    let refused = |files: Files| {
        let archive = MemoryStorage::with_files(files);
        restored(&copy, &archive, Until::End).unwrap_err()
    };
    let name = names[names.len() - 3];
    let mut missing = files.clone();
    missing.remove(name);
    let error = refused(missing);
    assert!(
        matches!(&error, Error::LogMissing { file, .. } if file == name),
        "{error}"
    );
    let next = names[names.len() - 2];
    let mut swapped = files.clone();
    swapped.insert(name.clone(), files[next].clone());
    swapped.insert(next.clone(), files[name].clone());
    let error = refused(swapped);
    let named =
        matches!(&error, Error::Damaged { file, what, .. } if file == name && what.contains(next));
    assert!(named, "{error}");
    // This is a later piece, while the rest of the present one is missing.
    let mut early = standby(&copy).unwrap();
    let from = |name: &String| u64::from_le_bytes(files[name][32..40].try_into().unwrap());
    let mut later = names.iter().filter(|name| from(name) > early.position());
    let later = later.next().unwrap().to_string();
    let error = early.apply(&later, &files[&later], Until::End).unwrap_err();
    assert!(matches!(error, Error::LogMissing { .. }), "{error}");
    for (at, cut) in [
        (3, 0),
        (30, 0),
        (70, 0),
        (5_000, 0),
        (60_000, 0),
        (0, 1),
        (0, 40_000),
    ] {
        let mut torn = files.clone();
        let bytes = torn.get_mut(name).unwrap();
        match cut {
            0 => bytes[at] ^= 1,
            cut => bytes.truncate(bytes.len() - cut),
        }
        let error = refused(torn);
        assert!(
            matches!(&error, Error::Damaged { file, .. } if file == name),
            "{error}"
        );
    }
    let (_, other, _) = history(seed + 1);
    let mut foreign = files.clone();
    foreign.insert(name.clone(), other.files().into_values().next().unwrap());
    let error = refused(foreign);
    assert!(
        matches!(&error, Error::Incompatible { file, .. } if file == name),
        "{error}"
    );
    // An original does not use the archive of another one either.
    let foreign = archiving(Arc::new(other)).open_storage(Arc::new(MemoryStorage::new()));
    assert!(matches!(foreign.unwrap_err(), Error::Incompatible { .. }));
    // A copy whose log is shorter than it was.
    let mut short = copy.clone();
    let log = short.keys().rfind(|name| name.starts_with("wal-"));
    let log = log.unwrap().clone();
    short.get_mut(&log).unwrap()[..4096].fill(0);
    let error = restored(&short, &archive, Until::End).unwrap_err();
    assert!(matches!(&error, Error::Damaged { .. }), "{error}");
}

pub fn standby_follows(seed: u64) {
    let mut random = Random::new(seed);
    let original = small()
        .checkpoint_after(4 << 20)
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap();
    let mut model = Model::new();
    work(&mut random, &original, &mut model, 10);
    let copy = MemoryStorage::new();
    original.backup(&copy).unwrap();
    let mut standby = Standby::open(&small(), Arc::new(copy.clone())).unwrap();
    // A reader opened at the beginning sees that state, whatever is applied meanwhile.
    let (early, first) = (standby.open_read_only().unwrap(), model.clone());
    for round in 0..12 {
        // One transaction has not ended when the piece is shipped.
        let open = original.begin_write();
        let table = open.open_table(TABLE).unwrap();
        table.insert(b"not committed", &[round]).unwrap();
        original.sync().unwrap();
        while let Some(piece) = original.ship(standby.position()).unwrap() {
            let applied = standby.apply("piece", &piece, Until::End).unwrap();
            assert!(applied.records > 0, "every piece brings it further");
            let again = standby.apply("piece", &piece, Until::End).unwrap();
            assert_eq!((again.records, again.position), (0, applied.position));
        }
        assert_eq!(standby.position(), original.durable_lsn());
        let reader = standby.open_read_only().unwrap();
        assert!(content(&reader) == model, "round {round}");
        let transaction = reader.begin_write();
        let refused = transaction.open_table(TABLE).unwrap().insert(b"a", b"b");
        assert!(matches!(refused.unwrap_err(), Error::ReadOnly));
        drop(transaction);
        open.abort().unwrap();
        work(&mut random, &original, &mut model, 10);
        if round % 4 == 3 {
            // It continues from its own files.
            drop(standby);
            let files = copy.files();
            standby = Standby::open(&small(), Arc::new(MemoryStorage::with_files(files))).unwrap();
        }
    }
    assert!(content(&early) == first);
    drop(early);
    original.sync().unwrap();
    while let Some(piece) = original.ship(standby.position()).unwrap() {
        standby.apply("piece", &piece, Until::End).unwrap();
    }
    let behind = standby.position();
    let promoted = standby.promote().unwrap();
    assert!(content(&promoted) == model);
    work(&mut random, &promoted, &mut model, 20);
    assert!(content(&promoted) == model);
    assert_eq!(promoted.verify().unwrap().lost_pages, 0);
    // The two environments have diverged.
    work(&mut random, &original, &mut content(&original), 5);
    let piece = original.ship(behind).unwrap().unwrap();
    let copy = MemoryStorage::new();
    promoted.backup(&copy).unwrap();
    let mut other = Standby::open(&small(), Arc::new(copy)).unwrap();
    let error = other.apply("piece", &piece, Until::End).unwrap_err();
    assert!(matches!(error, Error::Incompatible { .. }), "{error}");
    let original = MemoryStorage::new();
    small().open_storage(Arc::new(original.clone())).unwrap();
    let error = Standby::open(&small(), Arc::new(original)).unwrap_err();
    assert!(matches!(error, Error::Incompatible { .. }), "{error}");
}

fn draw(random: &mut Random, crashes: &CrashImages, number: u64) -> Files {
    match number {
        0 => crashes.image(Survival::None),
        1 => crashes.image(Survival::All),
        _ => {
            let mut choose = |choice: Choice| match choice {
                Choice::Write => random.below(3) as u8,
                Choice::Sector => random.below(2) as u8,
            };
            crashes.image(Survival::Draw(&mut choose))
        }
    }
}

/// The original, its archive and a running backup crash together at every point: the
/// archive is complete up to its end, the backup is complete or missing, and all
/// continue.
pub fn crashes_of_original(seed: u64) {
    let mut random = Random::new(seed);
    let all = MemoryStorage::new();
    let open = |all: &MemoryStorage| {
        let archive = Arc::new(Prefixed(all.clone(), "archive"));
        let storage = Arc::new(Prefixed(all.clone(), "original"));
        archiving(archive).open_storage(storage)
    };
    let environment = open(&all).unwrap();
    let mut model = Model::new();
    let mut states = work(&mut random, &environment, &mut model, 15);
    environment.backup(&Prefixed(all.clone(), "base")).unwrap();
    let base = part(&all.files(), "base");
    // The record numbers files in the order of their names.
    environment.close().unwrap();
    let before = all.files();
    let all = MemoryStorage::with_files(before.clone());
    all.record();
    let environment = open(&all).unwrap();
    states.push((environment.durable_lsn(), model.clone()));
    states.extend(work(&mut random, &environment, &mut model, 10));
    environment
        .backup(&Prefixed(all.clone(), "second"))
        .unwrap();
    states.extend(work(&mut random, &environment, &mut model, 15));
    let is_state = |model: &Model| states.iter().any(|(_, state)| state == model);
    let mut crashes = all.crashes(before);
    let (mut point, mut looked, mut seconds) = (0, 0, 0);
    while crashes.step() {
        point += 1;
        let number = random.below(4);
        let image = draw(&mut random, &crashes, number);
        let place = format!("seed {seed}, point {point}, draw {number}");
        looked += 1;
        let archive = MemoryStorage::with_files(part(&image, "archive"));
        let found = restored(&base, &archive, Until::End);
        let found = found.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(is_state(&found), "{place}");
        let second = part(&image, "second");
        match small()
            .create(false)
            .open_storage(Arc::new(MemoryStorage::with_files(second)))
        {
            Ok(second) => {
                assert!(is_state(&content(&second)), "{place}");
                seconds += 1;
            }
            Err(Error::Incompatible { .. }) => {}
            Err(error) => panic!("{place}: {error}"),
        }
        if !random.one_in(8) {
            continue;
        }
        // The original and the archive continue.
        let all = MemoryStorage::with_files(image);
        let environment = open(&all).unwrap_or_else(|error| panic!("{place}: {error}"));
        let mut model = content(&environment);
        work(&mut random, &environment, &mut model, 30);
        let archive = MemoryStorage::with_files(part(&all.files(), "archive"));
        let mut standby = standby(&base).unwrap();
        standby.apply_archive(&archive, Until::End).unwrap();
        while let Some(piece) = environment.ship(standby.position()).unwrap() {
            standby.apply("piece", &piece, Until::End).unwrap();
        }
        assert!(content(&standby.promote().unwrap()) == model, "{place}");
    }
    eprintln!("{looked} images, {seconds} with a backup");
    assert!(looked > 60 && seconds > 10, "{looked}, {seconds}");
}

/// A standby crashes at every point of following and of its promotion: it continues from
/// its position, or has a state that was committed.
pub fn crashes_of_standby(seed: u64) {
    let mut random = Random::new(seed);
    let original = small()
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap();
    let mut model = Model::new();
    work(&mut random, &original, &mut model, 10);
    let copy = MemoryStorage::new();
    original.backup(&copy).unwrap();
    let before = copy.files();
    let copy = MemoryStorage::with_files(before.clone());
    copy.record();
    let mut standby = Standby::open(&small(), Arc::new(copy.clone())).unwrap();
    let (mut states, mut pieces) = (vec![model.clone()], Vec::new());
    for _ in 0..8 {
        states.extend(
            work(&mut random, &original, &mut model, 6)
                .into_iter()
                .map(|state| state.1),
        );
        while let Some(piece) = original.ship(standby.position()).unwrap() {
            standby.apply("piece", &piece, Until::End).unwrap();
            pieces.push(piece);
        }
        if random.one_in(2) {
            standby.checkpoint().unwrap();
        }
    }
    drop(standby.promote().unwrap());
    let mut crashes = copy.crashes(before);
    let (mut point, mut looked, mut originals) = (0, 0, 0);
    while crashes.step() {
        point += 1;
        let number = random.below(4);
        let image = draw(&mut random, &crashes, number);
        let place = format!("seed {seed}, point {point}, draw {number}");
        looked += 1;
        match self::standby(&image) {
            Ok(mut standby) => {
                for piece in &pieces {
                    let applied = standby.apply("piece", piece, Until::End);
                    applied.unwrap_or_else(|error| panic!("{place}: {error}"));
                }
                assert!(
                    content(&standby.open_read_only().unwrap()) == model,
                    "{place}"
                );
            }
            // The promotion was complete before the crash.
            Err(Error::Incompatible { .. }) => originals += 1,
            Err(error) => panic!("{place}: {error}"),
        }
        let opened = small().open_storage(Arc::new(MemoryStorage::with_files(image)));
        let opened = opened.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(opened.verify().unwrap().lost_pages, 0, "{place}");
        let found = content(&opened);
        assert!(states.contains(&found), "{place}");
    }
    eprintln!("{looked} images, {originals} of them originals");
    assert!(looked > 60 && originals > 0, "{looked}, {originals}");
}

/// An archive that cannot be written stops writers when the log is full, and not earlier;
/// when it can be written again, they continue, and the archive has everything.
pub fn archive_is_full(seed: u64) {
    let mut random = Random::new(seed);
    let (archive, copy) = (MemoryStorage::new(), MemoryStorage::new());
    let mut options = archiving(Arc::new(archive.clone()));
    options.log(8 * (64 << 10));
    let environment = options
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap();
    environment.backup(&copy).unwrap();
    archive.set_fault(Some(Fault {
        at: 0,
        sticky: true,
        reads: false,
        no_room: true,
    }));
    let mut model = Model::new();
    let refused = loop {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        let (key, value) = (random.key(), random.value());
        if let Err(error) = table.insert(&key, &value) {
            transaction.abort().unwrap();
            break error;
        }
        transaction.commit().unwrap();
        model.insert(key, value);
        environment.maintain().unwrap();
    };
    assert!(matches!(refused, Error::LogFull { .. }), "{refused}");
    assert!(content(&environment) == model);
    assert!(environment.archive().is_err());
    archive.set_fault(None);
    let stuck = environment.durable_lsn();
    work(&mut random, &environment, &mut model, 100);
    assert!(
        environment.durable_lsn() > stuck + (64 << 10),
        "the log went on"
    );
    let mut standby = standby(&copy.files()).unwrap();
    standby.apply_archive(&archive, Until::End).unwrap();
    while let Some(piece) = environment.ship(standby.position()).unwrap() {
        standby.apply("piece", &piece, Until::End).unwrap();
    }
    assert!(content(&standby.promote().unwrap()) == model);
}
