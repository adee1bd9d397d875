//! Environments of earlier versions must open with their content.
//!
//! `tests/images/README.md` explains how to add one.

use crate::common::prefixed::part;
use crate::common::{Model, Random, change};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use varve_tp::storage::{MemoryStorage, Storage};
use varve_tp::{Environment, Options, Placement, Standby, TableDefinition, TornPages, Until};

type Files = BTreeMap<String, Vec<u8>>;
/// Tables with their types and content.
type Tables = BTreeMap<(String, String), Model>;

const NUMBERS: TableDefinition<u64, &str> = TableDefinition::new("numbers");

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/images")
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn take<'a>(from: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (now, rest) = from.split_at(bytes);
    *from = rest;
    now
}

fn piece<'a>(from: &mut &'a [u8]) -> &'a [u8] {
    let length = u64::from_le_bytes(take(from, 8).try_into().unwrap());
    take(from, length as usize)
}

fn pack(files: &Files) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, bytes) in files {
        all.extend_from_slice(&(name.len() as u32).to_le_bytes());
        all.extend_from_slice(name.as_bytes());
        put(&mut all, bytes);
    }
    compress_to_vec(&all[..], CompressionLevel::Fastest)
}

fn unpack(packed: &[u8]) -> Files {
    let mut all = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed).unwrap();
    decoder.read_to_end(&mut all).unwrap();
    let (mut files, mut rest) = (Files::new(), &all[..]);
    while !rest.is_empty() {
        let length = u32::from_le_bytes(take(&mut rest, 4).try_into().unwrap());
        let name = String::from_utf8(take(&mut rest, length as usize).to_vec()).unwrap();
        files.insert(name, piece(&mut rest).to_vec());
    }
    files
}

fn tables(environment: &Environment) -> Tables {
    let transaction = environment.begin_read();
    let table = |name: String| {
        let types = environment.table_types(&name).unwrap();
        let rows = transaction.open_raw(&name).unwrap().iter().unwrap();
        ((name, types), rows.map(Result::unwrap).collect())
    };
    environment.tables().into_iter().map(table).collect()
}

fn expected(tables: &Tables) -> Vec<u8> {
    let mut all = Vec::new();
    for ((name, types), rows) in tables {
        put(&mut all, name.as_bytes());
        put(&mut all, types.as_bytes());
        all.extend_from_slice(&(rows.len() as u64).to_le_bytes());
        for (key, value) in rows {
            put(&mut all, key);
            put(&mut all, value);
        }
    }
    all
}

fn options() -> Options {
    let mut options = Options::new();
    options
        .memory(24 * 4096)
        .segment(64 << 10)
        .log(16 << 20)
        .checkpoint_after(96 << 10)
        .background(false);
    options
}

/// Runs a workload that leaves pages and log records of every kind.
fn work(random: &mut Random, environment: &Environment, model: &mut Model) {
    for round in 0..25 {
        let transaction = environment.begin_write();
        let mut changed = model.clone();
        (0..8).for_each(|_| change(random, &transaction, &mut changed));
        let numbers = transaction.open_table(NUMBERS).unwrap();
        numbers.insert(round, "some words").unwrap();
        match random.one_in(5) {
            true => transaction.abort().unwrap(),
            false => {
                transaction.commit().unwrap();
                *model = changed;
            }
        }
        environment.maintain().unwrap();
    }
}

/// Makes images with this version: one closed, one that was killed, and a backup with an
/// archive.
fn make(version: &str, placement: Placement) {
    let mut random = Random::new(28);
    let storage = MemoryStorage::new();
    let environment = options()
        .placement(placement)
        .open_storage(Arc::new(storage.clone()))
        .unwrap();
    let mut model = Model::new();
    work(&mut random, &environment, &mut model);
    let held = tables(&environment);
    environment.close().unwrap();
    save(version, "closed", storage.files(), &held);

    let archive = MemoryStorage::new();
    let archived: Arc<dyn Storage> = Arc::new(archive.clone());
    let environment = options()
        .archive(Some(archived))
        .open_storage(Arc::new(storage.clone()))
        .unwrap();
    work(&mut random, &environment, &mut model);
    let copy = MemoryStorage::new();
    environment.backup(&copy).unwrap();
    for _ in 0..3 {
        work(&mut random, &environment, &mut model);
    }
    let held = tables(&environment);
    let open = environment.begin_write();
    let mut lost = model.clone();
    (0..20).for_each(|_| change(&mut random, &open, &mut lost));
    environment.sync().unwrap();
    save(version, "crashed", storage.files(), &held);

    let mut files = copy.files();
    let files_of_archive = archive.files().into_iter();
    files.extend(files_of_archive.map(|(name, bytes)| (format!("archive/{name}"), bytes)));
    let held = tables(&restored(&files));
    save(version, "copy", files, &held);
}

fn restored(files: &Files) -> Environment {
    let archive = MemoryStorage::with_files(part(files, "archive"));
    let mut copy = files.clone();
    copy.retain(|name, _| !name.contains('/'));
    let copy = Arc::new(MemoryStorage::with_files(copy));
    let mut standby = Standby::open(&options(), copy).unwrap();
    let applied = standby.apply_archive(&archive, Until::End).unwrap();
    assert!(applied.records > 0);
    standby.promote().unwrap()
}

fn save(version: &str, kind: &str, mut files: Files, held: &Tables) {
    files.insert("expected".into(), expected(held));
    let path = directory().join(format!("{version}-{kind}.zst"));
    assert!(!path.exists(), "{} is there already", path.display());
    std::fs::write(path, pack(&files)).unwrap();
}

#[test]
fn environments_of_every_version_open() {
    if let Ok(version) = std::env::var("VARVE_TP_IMAGE") {
        make(&version, Placement::Shadow);
        let in_place = Placement::InPlace(TornPages::LogImages);
        make(&format!("{version}-in-place"), in_place);
    }
    let mut looked = 0;
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "zst") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut files = unpack(&std::fs::read(&path).unwrap());
        let wanted = files.remove("expected").unwrap();
        let environment = match name.contains("-copy") {
            true => restored(&files),
            false => {
                let storage = Arc::new(MemoryStorage::with_files(files));
                let opened = options().create(false).open_storage(storage);
                opened.unwrap_or_else(|error| panic!("{name}: {error}"))
            }
        };
        if name.contains("-crashed") {
            let report = environment.recovery();
            let in_place = name.contains("-in-place");
            assert!(
                report.redone > 0 && report.undone == 1 && (report.restored > 0) == in_place,
                "{name}: {report:?}"
            );
        }
        let verified = environment.verify();
        let verified = verified.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(verified.lost_pages, 0, "{name}");
        assert!(expected(&tables(&environment)) == wanted, "{name}");
        looked += 1;
    }
    assert!(looked >= 3, "{looked} images");
}
