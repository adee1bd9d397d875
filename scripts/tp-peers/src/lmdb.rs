//! LMDB, through heed: one writer at a time, pages by copy on write, no log.

use crate::Peer;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;
use varve_tp::tpcb::{BRANCHES, TELLERS, Transfer, balance, next};

pub struct Lmdb {
    env: Env,
    files: [Database<Bytes, Bytes>; 4],
}

impl Lmdb {
    pub fn open(directory: &Path, sync: bool) -> Self {
        let mut options = EnvOpenOptions::new();
        options.map_size(8 << 30).max_dbs(4).max_readers(64);
        let flags = if sync {
            EnvFlags::empty()
        } else {
            EnvFlags::NO_SYNC
        };
        // SAFETY: nobody else has these files, and they lie on a local file system.
        let env = unsafe { options.flags(flags).open(directory) }.unwrap();
        let mut transaction = env.write_txn().unwrap();
        let files = ["accounts", "tellers", "branches", "history"]
            .map(|name| env.create_database(&mut transaction, Some(name)).unwrap());
        transaction.commit().unwrap();
        Lmdb { env, files }
    }
}

impl Peer for Lmdb {
    fn load(&self, accounts: u32) {
        let mut transaction = self.env.write_txn().unwrap();
        for (file, count) in self.files.iter().zip([accounts, TELLERS, BRANCHES]) {
            for number in 0..count {
                let key = number.to_be_bytes();
                file.put(&mut transaction, &key, &[0; 100]).unwrap();
            }
        }
        transaction.commit().unwrap();
    }

    fn transfer(&self, transfer: &Transfer) {
        let mut transaction = self.env.write_txn().unwrap();
        for (file, key) in self.files.iter().zip(transfer.keys()) {
            let key = key.to_be_bytes();
            let record = file.get(&transaction, &key).unwrap().unwrap();
            let record = transfer.changed(record.try_into().unwrap());
            file.put(&mut transaction, &key, &record).unwrap();
        }
        let last = self.files[3].last(&transaction).unwrap();
        let number = last.map_or(0, |(key, _)| {
            u64::from_be_bytes(key.try_into().unwrap()) + 1
        });
        let key = number.to_be_bytes();
        let put = self.files[3].put(&mut transaction, &key, &transfer.history());
        put.unwrap();
        transaction.commit().unwrap();
    }

    fn sums(&self) -> [i64; 4] {
        let transaction = self.env.read_txn().unwrap();
        self.files.map(|file| {
            let rows = file.iter(&transaction).unwrap();
            rows.map(|row| balance(row.unwrap().1)).sum()
        })
    }

    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64 {
        let mut sum = 0;
        for _ in 0..count {
            let transaction = self.env.read_txn().unwrap();
            let key = (next(random) % u64::from(accounts)) as u32;
            let record = self.files[0].get(&transaction, &key.to_be_bytes());
            sum += balance(record.unwrap().unwrap());
        }
        sum
    }

    fn settle(&self) {
        self.env.force_sync().unwrap();
    }
}
