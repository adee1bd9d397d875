//! redb: one writer at a time, pages by copy on write, no log.

use crate::{MEMORY, Peer};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use varve_tp::tpcb::{BRANCHES, TELLERS, Transfer, balance, next};

const FILES: [TableDefinition<u32, &[u8]>; 3] = [
    TableDefinition::new("accounts"),
    TableDefinition::new("tellers"),
    TableDefinition::new("branches"),
];
const HISTORY: TableDefinition<u64, &[u8]> = TableDefinition::new("history");

pub struct Redb {
    database: Database,
    sync: bool,
}

impl Redb {
    pub fn open(directory: &Path, sync: bool) -> Self {
        let mut builder = Database::builder();
        builder.set_cache_size(MEMORY);
        let database = builder.create(directory.join("bank.redb")).unwrap();
        Redb { database, sync }
    }
}

impl Peer for Redb {
    fn load(&self, accounts: u32) {
        let transaction = self.database.begin_write().unwrap();
        for (file, count) in FILES.into_iter().zip([accounts, TELLERS, BRANCHES]) {
            let mut table = transaction.open_table(file).unwrap();
            for number in 0..count {
                table.insert(number, &[0; 100][..]).unwrap();
            }
        }
        transaction.open_table(HISTORY).unwrap();
        transaction.commit().unwrap();
    }

    fn transfer(&self, transfer: &Transfer) {
        let mut transaction = self.database.begin_write().unwrap();
        if !self.sync {
            transaction.set_durability(Durability::None).unwrap();
        }
        for (file, key) in FILES.into_iter().zip(transfer.keys()) {
            let mut table = transaction.open_table(file).unwrap();
            let record = table.get(key).unwrap().unwrap().value().to_vec();
            let record = transfer.changed(record.try_into().unwrap());
            table.insert(key, &record[..]).unwrap();
        }
        {
            let mut history = transaction.open_table(HISTORY).unwrap();
            let last = history.last().unwrap().map(|(key, _)| key.value());
            let number = last.map_or(0, |last| last + 1);
            history.insert(number, &transfer.history()[..]).unwrap();
        }
        transaction.commit().unwrap();
    }

    fn sums(&self) -> [i64; 4] {
        let transaction = self.database.begin_read().unwrap();
        let mut sums = [0; 4];
        for (file, sum) in FILES.into_iter().zip(&mut sums) {
            let table = transaction.open_table(file).unwrap();
            let rows = table.iter().unwrap();
            *sum = rows.map(|row| balance(row.unwrap().1.value())).sum();
        }
        let history = transaction.open_table(HISTORY).unwrap();
        let rows = history.iter().unwrap();
        sums[3] = rows.map(|row| balance(row.unwrap().1.value())).sum();
        sums
    }

    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64 {
        let mut sum = 0;
        for _ in 0..count {
            let transaction = self.database.begin_read().unwrap();
            let table = transaction.open_table(FILES[0]).unwrap();
            let key = (next(random) % u64::from(accounts)) as u32;
            sum += balance(table.get(key).unwrap().unwrap().value());
        }
        sum
    }

    fn settle(&self) {
        let mut transaction = self.database.begin_write().unwrap();
        transaction.set_durability(Durability::Immediate).unwrap();
        transaction.commit().unwrap();
    }
}
