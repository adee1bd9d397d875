//! Record stores of `varve-tp` on volumes.
#![cfg(feature = "tp")]

use std::sync::Arc;
use varve::{Volume, VolumeStorage};
use varve_tp::{Environment, Options, TableDefinition};

const NUMBERS: TableDefinition<u32, &[u8]> = TableDefinition::new("numbers");

fn open(volume: &Volume) -> Environment {
    let storage = VolumeStorage::new(volume, "/records").unwrap();
    let mut options = Options::new();
    options.segment(256 << 10).checkpoint_after(256 << 10);
    options.open_storage(Arc::new(storage)).unwrap()
}

#[test]
fn what_was_committed_is_there_after_a_power_cut() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("volume.img");
    let volume = Volume::create(&image, 256 << 20).unwrap();
    let environment = open(&volume);
    for number in 0..500 {
        let transaction = environment.begin_write();
        let table = transaction.open_table(NUMBERS).unwrap();
        table.insert(number, &[number as u8; 700]).unwrap();
        transaction.commit().unwrap();
    }
    drop(environment);
    // Like a killed process: no sync and no checkpoint.
    volume.abandon();
    let volume = Volume::open(&image).unwrap();
    let environment = open(&volume);
    let transaction = environment.begin_read();
    let table = transaction.open_table(NUMBERS).unwrap();
    assert_eq!(table.iter().unwrap().count(), 500);
    drop(transaction);
    environment.verify().unwrap();
    environment.close().unwrap();
    volume.close().unwrap();
}
