//! SQLite with a write-ahead log; a connection for each thread.

use crate::Peer;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use varve_tp::tpcb::{BRANCHES, TELLERS, Transfer, balance, next};

const FILES: [&str; 3] = ["accounts", "tellers", "branches"];

pub struct Sqlite {
    path: PathBuf,
    sync: bool,
    idle: Mutex<Vec<Connection>>,
}

impl Sqlite {
    pub fn open(directory: &Path, sync: bool) -> Self {
        let sqlite = Sqlite {
            path: directory.join("bank.sqlite"),
            sync,
            idle: Mutex::default(),
        };
        sqlite.with(|connection| {
            for file in FILES {
                let text = format!("CREATE TABLE {file} (id INTEGER PRIMARY KEY, record BLOB)");
                connection.execute(&text, []).unwrap();
            }
            let text = "CREATE TABLE history (id INTEGER PRIMARY KEY, record BLOB)";
            connection.execute(text, []).unwrap();
        });
        sqlite
    }

    fn with<T>(&self, what: impl FnOnce(&mut Connection) -> T) -> T {
        let idle = self.idle.lock().unwrap().pop();
        let mut connection = idle.unwrap_or_else(|| {
            let connection = Connection::open(&self.path).unwrap();
            connection.busy_timeout(Duration::from_secs(60)).unwrap();
            let level = if self.sync { "FULL" } else { "OFF" };
            let text = format!(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous={level}; PRAGMA cache_size=-262144;"
            );
            connection.execute_batch(&text).unwrap();
            connection.set_prepared_statement_cache_capacity(32);
            connection
        });
        let answer = what(&mut connection);
        self.idle.lock().unwrap().push(connection);
        answer
    }
}

impl Peer for Sqlite {
    fn load(&self, accounts: u32) {
        self.with(|connection| {
            let transaction = connection.transaction().unwrap();
            for (file, count) in FILES.into_iter().zip([accounts, TELLERS, BRANCHES]) {
                let text = format!("INSERT INTO {file} VALUES (?, ?)");
                let mut insert = transaction.prepare(&text).unwrap();
                for number in 0..count {
                    insert.execute(params![number, &[0u8; 100][..]]).unwrap();
                }
            }
            transaction.commit().unwrap();
        });
    }

    fn transfer(&self, transfer: &Transfer) {
        self.with(|connection| {
            let text = "BEGIN IMMEDIATE";
            connection
                .prepare_cached(text)
                .unwrap()
                .execute([])
                .unwrap();
            for (file, key) in FILES.into_iter().zip(transfer.keys()) {
                let text = format!("SELECT record FROM {file} WHERE id = ?");
                let mut select = connection.prepare_cached(&text).unwrap();
                let record: Vec<u8> = select.query_row([key], |row| row.get(0)).unwrap();
                let record = transfer.changed(record.try_into().unwrap());
                let text = format!("UPDATE {file} SET record = ? WHERE id = ?");
                let mut update = connection.prepare_cached(&text).unwrap();
                update.execute(params![&record[..], key]).unwrap();
            }
            let text = "INSERT INTO history (record) VALUES (?)";
            let mut insert = connection.prepare_cached(text).unwrap();
            insert.execute([&transfer.history()[..]]).unwrap();
            connection
                .prepare_cached("COMMIT")
                .unwrap()
                .execute([])
                .unwrap();
        });
    }

    fn sums(&self) -> [i64; 4] {
        self.with(|connection| {
            ["accounts", "tellers", "branches", "history"].map(|file| {
                let text = format!("SELECT record FROM {file}");
                let mut select = connection.prepare(&text).unwrap();
                let rows = select
                    .query_map([], |row| row.get::<_, Vec<u8>>(0))
                    .unwrap();
                rows.map(|record| balance(&record.unwrap())).sum()
            })
        })
    }

    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64 {
        self.with(|connection| {
            let text = "SELECT record FROM accounts WHERE id = ?";
            let mut select = connection.prepare_cached(text).unwrap();
            let mut sum = 0;
            for _ in 0..count {
                let key = next(random) % u64::from(accounts);
                let key = key as i64;
                let read = select.query_row([key], |row| {
                    Ok(balance(row.get_ref(0)?.as_blob().expect("a blob")))
                });
                sum += read.unwrap();
            }
            sum
        })
    }

    fn settle(&self) {
        self.with(|connection| {
            let text = "PRAGMA wal_checkpoint(TRUNCATE)";
            connection.query_row(text, [], |_| Ok(())).unwrap();
        });
    }
}
