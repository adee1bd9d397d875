//! varve-tp, in this process and through the holder's socket.

use crate::{MEMORY, Peer};
use std::path::Path;
use std::process::{Child, Command};
use varve_tp::tpcb::{Store, Transfer, balance, next};
use varve_tp::{Durability, Environment, Options, SharedEnvironment, TableDefinition};

const ACCOUNTS: TableDefinition<u32, [u8; 100]> = TableDefinition::new("accounts");

fn options(sync: bool) -> Options {
    let mut options = Options::new();
    options.memory(MEMORY);
    if !sync {
        options.durability(Durability::Buffered);
    }
    options
}

pub struct Local(Environment);

impl Local {
    pub fn open(directory: &Path, sync: bool) -> Self {
        Local(options(sync).open(directory).unwrap())
    }
}

/// Transactions that lost a deadlock are done again.
fn again(store: &impl Store, transfer: &Transfer) {
    while let Err(error) = store.transfer(transfer) {
        assert!(error.is_conflict(), "{error}");
    }
}

impl Peer for Local {
    fn load(&self, accounts: u32) {
        Store::load(&self.0, accounts).unwrap();
    }

    fn transfer(&self, transfer: &Transfer) {
        again(&self.0, transfer);
    }

    fn sums(&self) -> [i64; 4] {
        Store::sums(&self.0).unwrap()
    }

    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64 {
        let mut sum = 0;
        for _ in 0..count {
            let transaction = self.0.begin_read();
            let table = transaction.open_table(ACCOUNTS).unwrap();
            let key = (next(random) % u64::from(accounts)) as u32;
            sum += balance(&table.get(key).unwrap().unwrap());
        }
        sum
    }

    fn settle(&self) {
        self.0.checkpoint().unwrap();
    }
}

/// The same through the socket of a holder, which is another process.
pub struct Client {
    shared: Option<SharedEnvironment>,
    holder: Child,
}

impl Client {
    pub fn open(directory: &Path, sync: bool) -> Self {
        if std::env::var_os("TP_PEERS_HOLD").is_some() {
            let _held = options(sync).share(directory).unwrap();
            loop {
                std::thread::park();
            }
        }
        let mut holder = Command::new(std::env::current_exe().unwrap());
        holder
            .args(std::env::args_os().skip(1))
            .env("TP_PEERS_HOLD", "1");
        let holder = holder.spawn().unwrap();
        let socket = directory.join("socket");
        while !socket.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let shared = options(sync).share(directory).unwrap();
        assert!(shared.held().is_none(), "the other process holds");
        Client {
            shared: Some(shared),
            holder,
        }
    }

    fn shared(&self) -> &SharedEnvironment {
        self.shared.as_ref().expect("until it is dropped")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared = None;
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

impl Peer for Client {
    fn load(&self, accounts: u32) {
        self.shared().load(accounts).unwrap();
    }

    fn transfer(&self, transfer: &Transfer) {
        again(self.shared(), transfer);
    }

    fn sums(&self) -> [i64; 4] {
        self.shared().sums().unwrap()
    }

    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64 {
        let mut sum = 0;
        for _ in 0..count {
            let transaction = self.shared().begin_read().unwrap();
            let table = transaction.open_table(ACCOUNTS).unwrap();
            let key = (next(random) % u64::from(accounts)) as u32;
            sum += balance(&table.get(key).unwrap().unwrap());
            transaction.commit().unwrap();
        }
        sum
    }
}
