//! RocksDB's TransactionDB, through the C interface of Debian's librocksdb: a log-structured
//! merge tree with a log, and a lock for each record.

use crate::{MEMORY, Peer};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_tp::tpcb::{BRANCHES, TELLERS, Transfer, balance, next};

type Handle = *mut c_void;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_free(memory: Handle);
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_set_create_if_missing(options: Handle, yes: c_uchar);
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_set_block_cache(table: Handle, cache: Handle);
    fn rocksdb_block_based_options_set_filter_policy(table: Handle, policy: Handle);
    fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> Handle;
    fn rocksdb_cache_create_lru(bytes: usize) -> Handle;
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_set_sync(options: Handle, yes: c_uchar);
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_transactiondb_options_create() -> Handle;
    fn rocksdb_transaction_options_create() -> Handle;
    fn rocksdb_transactiondb_open(
        options: Handle,
        transaction_options: Handle,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_transactiondb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
    fn rocksdb_transactiondb_get(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_bytes: usize,
        bytes: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut u8;
    fn rocksdb_transactiondb_create_iterator(db: Handle, options: Handle) -> Handle;
    fn rocksdb_iter_seek(iterator: Handle, key: *const u8, key_bytes: usize);
    fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    fn rocksdb_iter_next(iterator: Handle);
    fn rocksdb_iter_key(iterator: Handle, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_value(iterator: Handle, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_transaction_begin(
        db: Handle,
        options: Handle,
        transaction_options: Handle,
        old: Handle,
    ) -> Handle;
    fn rocksdb_transaction_get_for_update(
        transaction: Handle,
        options: Handle,
        key: *const u8,
        key_bytes: usize,
        bytes: *mut usize,
        exclusive: c_uchar,
        error: *mut *mut c_char,
    ) -> *mut u8;
    fn rocksdb_transaction_put(
        transaction: Handle,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_transaction_commit(transaction: Handle, error: *mut *mut c_char);
    fn rocksdb_transaction_destroy(transaction: Handle);
    fn rocksdb_options_set_max_background_jobs(options: Handle, count: c_int);
}

pub struct RocksDb {
    db: Handle,
    read: Handle,
    write: Handle,
    transaction: Handle,
    next: AtomicU64,
}

// SAFETY: a TransactionDB may be used by several threads at once, and the options are
// only read.
unsafe impl Sync for RocksDb {}

/// Calls with a place for an error, which ends the program.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> T {
    let mut error = std::ptr::null_mut();
    let result = call(&mut error);
    if !error.is_null() {
        // SAFETY: an error is a string that ends with zero.
        panic!("{}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
    }
    result
}

/// One key space for all files: the file's number comes first.
fn key(file: usize, number: u64) -> [u8; 9] {
    let mut key = [file as u8; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

impl RocksDb {
    pub fn open(directory: &Path, sync: bool) -> Self {
        let name = CString::new(directory.join("bank").to_str().unwrap()).unwrap();
        // SAFETY: handles are used as the interface says, and live as long as the program.
        unsafe {
            let table = rocksdb_block_based_options_create();
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(MEMORY));
            let filter = rocksdb_filterpolicy_create_bloom_full(10.0);
            rocksdb_block_based_options_set_filter_policy(table, filter);
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_max_background_jobs(options, 2);
            rocksdb_options_set_block_based_table_factory(options, table);
            let transactions = rocksdb_transactiondb_options_create();
            let write = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(write, sync.into());
            RocksDb {
                db: checked(|e| {
                    rocksdb_transactiondb_open(options, transactions, name.as_ptr(), e)
                }),
                read: rocksdb_readoptions_create(),
                write,
                transaction: rocksdb_transaction_options_create(),
                next: AtomicU64::new(0),
            }
        }
    }

    fn transact<T>(&self, work: impl FnOnce(Handle) -> T) -> T {
        // SAFETY: the transaction is used by this thread only, until it is committed.
        unsafe {
            let none = std::ptr::null_mut();
            let transaction =
                rocksdb_transaction_begin(self.db, self.write, self.transaction, none);
            let result = work(transaction);
            checked(|e| rocksdb_transaction_commit(transaction, e));
            rocksdb_transaction_destroy(transaction);
            result
        }
    }
}

fn put(transaction: Handle, key: &[u8], value: &[u8]) {
    // SAFETY: key and value are copied.
    checked(|e| unsafe {
        let (k, v) = (key.as_ptr(), value.as_ptr());
        rocksdb_transaction_put(transaction, k, key.len(), v, value.len(), e);
    });
}

/// A record that the library has handed out, which is given back.
fn record(bytes: *mut u8, length: usize) -> [u8; 100] {
    assert!(!bytes.is_null() && length == 100, "a record is missing");
    // SAFETY: so many bytes are there, and nobody else has them.
    unsafe {
        let record = std::slice::from_raw_parts(bytes, length).try_into();
        rocksdb_free(bytes.cast());
        record.unwrap()
    }
}

impl Peer for RocksDb {
    fn load(&self, accounts: u32) {
        for (file, count) in [accounts, TELLERS, BRANCHES].into_iter().enumerate() {
            let numbers: Vec<u32> = (0..count).collect();
            for some in numbers.chunks(10_000) {
                self.transact(|transaction| {
                    for number in some {
                        put(transaction, &key(file, u64::from(*number)), &[0; 100]);
                    }
                });
            }
        }
    }

    fn transfer(&self, transfer: &Transfer) {
        self.transact(|transaction| {
            for (file, number) in transfer.keys().into_iter().enumerate() {
                let key = key(file, u64::from(number));
                let mut length = 0;
                // SAFETY: see `record`.
                let found = checked(|e| unsafe {
                    let (k, read) = (key.as_ptr(), self.read);
                    let length = &mut length;
                    rocksdb_transaction_get_for_update(transaction, read, k, 9, length, 1, e)
                });
                put(transaction, &key, &transfer.changed(record(found, length)));
            }
            let number = self.next.fetch_add(1, Relaxed);
            put(transaction, &key(3, number), &transfer.history());
        });
    }

    fn sums(&self) -> [i64; 4] {
        let mut sums = [0; 4];
        // SAFETY: what the iterator shows is read before it goes on.
        unsafe {
            let rows = rocksdb_transactiondb_create_iterator(self.db, self.read);
            rocksdb_iter_seek(rows, [0].as_ptr(), 1);
            while rocksdb_iter_valid(rows) != 0 {
                let mut length = 0;
                let file = *rocksdb_iter_key(rows, &mut length);
                let value = rocksdb_iter_value(rows, &mut length);
                sums[usize::from(file)] += balance(std::slice::from_raw_parts(value, length));
                rocksdb_iter_next(rows);
            }
            rocksdb_iter_destroy(rows);
        }
        sums
    }

    fn reads(&self, random: &mut u64, accounts: u32, count: u64) -> i64 {
        let mut sum = 0;
        for _ in 0..count {
            let key = key(0, next(random) % u64::from(accounts));
            let mut length = 0;
            // SAFETY: see `record`.
            let found = checked(|e| unsafe {
                let (k, length) = (key.as_ptr(), &mut length);
                rocksdb_transactiondb_get(self.db, self.read, k, 9, length, e)
            });
            sum += balance(&record(found, length));
        }
        sum
    }

    fn settle(&self) {
        // SAFETY: the options live as long as the program.
        checked(|e| unsafe {
            rocksdb_transactiondb_flush(self.db, rocksdb_flushoptions_create(), e);
        });
    }
}
