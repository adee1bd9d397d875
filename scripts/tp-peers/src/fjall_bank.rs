//! fjall: a log-structured merge tree with a journal; one writer at a time.

use crate::{MEMORY, Peer};
use fjall::{
    KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_tp::tpcb::{BRANCHES, TELLERS, Transfer, balance, next};

pub struct Fjall {
    database: SingleWriterTxDatabase,
    files: [SingleWriterTxKeyspace; 4],
    next: AtomicU64,
    sync: bool,
}

impl Fjall {
    pub fn open(directory: &Path, sync: bool) -> Self {
        let builder = SingleWriterTxDatabase::builder(directory.join("bank"));
        let database = builder.cache_size(MEMORY as u64).open().unwrap();
        let files = ["accounts", "tellers", "branches", "history"].map(|name| {
            let made = database.keyspace(name, KeyspaceCreateOptions::default);
            made.unwrap()
        });
        Fjall {
            database,
            files,
            next: AtomicU64::new(0),
            sync,
        }
    }
}

impl Peer for Fjall {
    fn load(&self, accounts: u32) {
        for (file, count) in self.files.iter().zip([accounts, TELLERS, BRANCHES]) {
            let mut transaction = self.database.write_tx();
            for number in 0..count {
                transaction.insert(file, number.to_be_bytes(), [0; 100]);
            }
            transaction.commit().unwrap();
        }
    }

    fn transfer(&self, transfer: &Transfer) {
        let mode = self.sync.then_some(PersistMode::SyncData);
        let mut transaction = self.database.write_tx().durability(mode);
        for (file, key) in self.files.iter().zip(transfer.keys()) {
            let key = key.to_be_bytes();
            let record = transaction.get(file, key).unwrap().unwrap();
            let record = transfer.changed(record[..].try_into().unwrap());
            transaction.insert(file, key, record);
        }
        let number = self.next.fetch_add(1, Relaxed);
        transaction.insert(&self.files[3], number.to_be_bytes(), transfer.history());
        transaction.commit().unwrap();
    }

    fn sums(&self) -> [i64; 4] {
        let snapshot = self.database.read_tx();
        let sum = |file: &SingleWriterTxKeyspace| {
            let rows = snapshot.iter(file);
            rows.map(|row| balance(&row.value().unwrap())).sum()
        };
        std::array::from_fn(|at| sum(&self.files[at]))
    }

    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64 {
        let mut sum = 0;
        for _ in 0..count {
            let snapshot = self.database.read_tx();
            let key = (next(random) % u64::from(accounts)) as u32;
            let record = snapshot.get(&self.files[0], key.to_be_bytes());
            sum += balance(&record.unwrap().unwrap());
        }
        sum
    }

    fn settle(&self) {
        self.database.persist(PersistMode::SyncAll).unwrap();
    }
}
