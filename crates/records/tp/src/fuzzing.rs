//! Entry points of the fuzzer: parsers of pages, log and checkpoints, and whole
//! environments.

use crate::change::Change;
use crate::checkpoint::Checkpoint;
use crate::log::format::{BATCH_HEADER, BatchHeader, RECORD_HEADER, RecordHeader, record};
use crate::page::{self, Page, PageMut};
use crate::storage::MemoryStorage;
use crate::{Options, Placement, TableDefinition, TornPages};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const PAGE: usize = 4096;
const PLACEMENTS: [Placement; 3] = [
    Placement::Shadow,
    Placement::InPlace(TornPages::LogImages),
    Placement::InPlace(TornPages::Never),
];
const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("table");

/// Parses bytes as a page, a record's body, a batch and a checkpoint.
pub fn structures(data: &[u8]) {
    let mut bytes = data.to_vec();
    bytes.resize(PAGE, 0);
    let is_page = page::check(&bytes).is_ok();
    if is_page {
        look(Page(&bytes));
    }
    let _ = BatchHeader::parse(data, 0);
    let _ = record(data);
    crate::archive::look_at_piece(data);
    crate::process::look_at_frame(data);
    crate::bundle::look(data);
    let named = BTreeMap::from([("identity".to_owned(), data.to_vec())]);
    let _ = crate::archive::identity::read(&MemoryStorage::with_files(named));
    let _ = Checkpoint::parse(data);
    for version in 1..=2 {
        let _ = Checkpoint::parse(&sealed_checkpoint(data, version));
    }
    let Some((kind, body)) = data.split_first() else {
        return;
    };
    let kind = *kind % 17;
    let Some(change) = Change::parse(kind, body) else {
        return;
    };
    let mut again = Vec::new();
    assert_eq!(change.encode(&mut again), kind, "the kind stays");
    assert_eq!(again, body, "it survives being written");
    // Applies the change to an empty leaf, an inner page, and the input itself if it is a
    // page.
    let mut leaf = vec![0; PAGE];
    PageMut(&mut leaf).format(1, 0);
    let mut inner = vec![0; PAGE];
    PageMut(&mut inner).format(1, 1);
    let made = PageMut(&mut inner).set_low(&[]) && PageMut(&mut inner).insert_child(0, &[], 9);
    assert!(made, "an empty page");
    let pages = [leaf, inner].into_iter().chain(is_page.then_some(bytes));
    for number in change.pages() {
        for mut page in pages.clone() {
            PageMut(&mut page).header().number = number.into();
            if change.apply(number, &mut PageMut(&mut page)).is_ok() && page::check(&page).is_ok() {
                look(Page(&page));
            }
        }
    }
}

/// Runs every query on an accepted page.
fn look(page: Page<'_>) {
    if !page.is_of_tree(page.header().table.get()) {
        return;
    }
    let mut copy = page.0.to_vec();
    PageMut(&mut copy).pack();
    for (at, other) in (0..page.count()).zip(0..) {
        assert_eq!(page.key(at), Page(&copy).key(other));
        if page.header().level == 0 {
            assert_eq!(page.value(at), Page(&copy).value(other));
        } else {
            let _ = page.child(at);
        }
        assert_eq!(page.search(page.key(at)), page::Found::At(at));
    }
    let _ = (page.low(), page.high(), page.used(), page.fits(10, 10));
}

fn sealed_checkpoint(data: &[u8], version: u32) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(bytes.len().max(96), 0);
    bytes[..8].copy_from_slice(b"VARVETP1");
    let length = bytes.len() as u32;
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    bytes[16..20].copy_from_slice(&version.to_le_bytes());
    let crc = crate::checksum(0, &bytes[12..]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Parses bytes as a device's table of files.
pub fn device_table(data: &[u8]) {
    crate::storage::look_at_table(data);
}

/// Returns seeds for [`device_table`].
pub fn device_table_seeds() -> Vec<Vec<u8>> {
    vec![crate::storage::table_seed(), Vec::new()]
}

fn options() -> Options {
    let mut options = Options::new();
    options
        .memory(24 * PAGE)
        .segment(64 << 10)
        .log(1 << 20)
        .background(false);
    options
}

/// Returns the files of an environment that was not closed.
fn sample(placement: Placement) -> BTreeMap<String, Vec<u8>> {
    let storage = MemoryStorage::new();
    let environment = options()
        .placement(placement)
        .open_storage(Arc::new(storage.clone()))
        .expect("in memory");
    for round in 0..8u8 {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).expect("in memory");
        for number in 0..40u8 {
            let value = vec![number; if number % 16 == 7 { 5000 } else { 60 }];
            table.insert(&[round, number], &value).expect("in memory");
        }
        // Two keys of one bundle, and one alone.
        for key in [[7; 600], [7; 600], [round; 600]].iter_mut().enumerate() {
            key.1[599] = key.0 as u8 + round;
            table.insert(&key.1[..], &[round; 9]).expect("in memory");
        }
        transaction.commit().expect("in memory");
        if round == 3 {
            environment.checkpoint().expect("in memory");
        }
    }
    storage.files()
}

/// Changes bytes of an environment, makes its checksums right, then opens, reads and
/// writes it; it must not panic. The first byte of the input selects the placement; each
/// change is a file, an offset and a byte.
pub fn environment(data: &[u8]) {
    let Some((placement, data)) = data.split_first() else {
        return;
    };
    let mut files = sample(PLACEMENTS[usize::from(*placement) % PLACEMENTS.len()]);
    let names: Vec<String> = files.keys().cloned().collect();
    for change in data.chunks_exact(5).take(64) {
        let name = &names[usize::from(change[0]) % names.len()];
        let file = files.get_mut(name).expect("it is there");
        let at = u32::from_le_bytes([change[1], change[2], change[3], 0]) as usize;
        if file.is_empty() {
            continue;
        }
        let at = at % file.len();
        file[at] = change[4];
        match name.as_str() {
            "pages" => seal_page(file, at / PAGE * PAGE),
            wal if wal.starts_with("wal") => seal_batches(file),
            _ => {
                let length = file.len().min(crate::checkpoint::format::LONGEST as usize);
                let crc = crate::checksum(0, &file[12..length]);
                file[8..12].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }
    let storage = Arc::new(MemoryStorage::with_files(files));
    let Ok(environment) = options().open_storage(storage) else {
        return;
    };
    let _ = environment.verify();
    let transaction = environment.begin_write();
    let Ok(table) = transaction.open_table(TABLE) else {
        return;
    };
    if let Ok(rows) = table.iter() {
        let _ = rows.take(1000).filter(Result::is_ok).count();
    }
    if let Ok(rows) = table.iter() {
        let _ = rows.rev().take(1000).filter(Result::is_ok).count();
    }
    for number in 0..40u8 {
        let _ = table.insert(&[2, number], &[1; 300]);
        let _ = table.remove(&[3, number]);
    }
    let _ = transaction.abort();
    let _ = environment.close();
}

fn seal_page(file: &mut [u8], at: usize) {
    let Some(bytes) = file.get_mut(at..at + PAGE) else {
        return;
    };
    let number = Page(bytes).header().number.get();
    let sum = page::sum(number, bytes);
    PageMut(bytes).header().crc = sum.into();
}

/// Gives every batch the checksums of its present content.
fn seal_batches(file: &mut [u8]) {
    for unit in 0..file.len() / 512 {
        let bytes = &mut file[unit * 512..];
        let Ok((header, _)) = BatchHeader::read_from_prefix(bytes) else {
            continue;
        };
        let length = header.length.get() as usize;
        if !bytes.starts_with(b"VTPB") || length < BATCH_HEADER as usize || length > bytes.len() {
            continue;
        }
        let mut at = BATCH_HEADER as usize;
        while at + RECORD_HEADER <= length {
            let Ok((record, _)) = RecordHeader::read_from_prefix(&bytes[at..length]) else {
                break;
            };
            let end = at + record.length.get() as usize;
            if end > length || end < at + RECORD_HEADER {
                break;
            }
            let crc = crate::checksum(0, &bytes[at + 4..end]);
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
            at = end;
        }
        let mut header = header;
        header.records_crc = crate::checksum(0, &bytes[BATCH_HEADER as usize..length]).into();
        bytes[..BATCH_HEADER as usize].copy_from_slice(header.sealed().as_bytes());
    }
}

/// Returns seeds for [`structures`].
pub fn structure_seeds() -> Vec<Vec<u8>> {
    let shadow = sample(Placement::Shadow);
    let mut seeds: Vec<Vec<u8>> = shadow["pages"]
        .chunks_exact(PAGE)
        .map(<[u8]>::to_vec)
        .collect();
    seeds.push(shadow["check-0"].clone());
    let in_place = sample(Placement::InPlace(TornPages::LogImages));
    seeds.push(in_place["check-0"].clone());
    let value = page::Cell {
        overflow: true,
        bytes: &[3; 20],
    };
    let bundle = crate::bundle::of_one(b"head, base", 4, value);
    let bundle = crate::bundle::Bundle::parse(b"head", bundle).expect("it was just made");
    seeds.push(bundle.with(b"head, and own", Some(value)));
    for (name, file) in shadow.iter().chain(&in_place) {
        if !name.starts_with("wal") {
            continue;
        }
        let units = (0..file.len()).step_by(512).map(|at| &file[at..]);
        for batch in units.filter(|unit| unit.starts_with(b"VTPB")) {
            seeds.push(batch[..512].to_vec());
            let mut rest = &batch[BATCH_HEADER as usize..];
            while let Some((header, body)) = record(rest) {
                seeds.push([&[header.kind], body].concat());
                rest = &rest[RECORD_HEADER + body.len()..];
            }
        }
    }
    seeds
}

/// Returns seeds for [`environment`].
pub fn environment_seeds() -> Vec<Vec<u8>> {
    let change = |file: u8, at: u32, byte: u8| {
        let [a, b, c, _] = at.to_le_bytes();
        vec![file, a, b, c, byte]
    };
    // Bytes of headers and cells of some pages, of log records, and of a checkpoint.
    let places =
        (0..12u32).flat_map(|page| [page * 4096 + 22, page * 4096 + 44, page * 4096 + 4000]);
    let pages = places.map(|at| change(2, at, 3));
    let logs = (0..40u32).map(|at| change(3 + (at % 3) as u8, 48 + 29 * at, 1));
    let checkpoints = (32..96u32).step_by(8).map(|at| change(0, at, 1));
    let changes = pages.chain(logs).chain(checkpoints).enumerate();
    let placed = |(number, change): (usize, Vec<u8>)| [vec![number as u8 % 3], change].concat();
    changes.map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The crafted environments exercise every part of a restart.
    #[test]
    fn samples_hold_images_to_put_back() {
        let files = sample(Placement::InPlace(TornPages::LogImages));
        let storage = Arc::new(MemoryStorage::with_files(files));
        let report = options().open_storage(storage).unwrap().recovery();
        assert!(report.restored > 0 && report.redone > 0, "{report:?}");
        let images = structure_seeds();
        assert!(images.iter().any(|seed| seed[0] == 16 && seed.len() > 100));
    }
}
