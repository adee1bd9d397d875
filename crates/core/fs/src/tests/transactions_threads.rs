//! Transactions in threads: amounts move between counters, and their sum is constant.
//!
//! A counter is eight bytes in a file of several blocks. A transfer changes two files, or
//! two blocks of one, and a name that contains the number of its owner's transfers. Other
//! threads write into blocks between the counters all the while.

use super::harness::*;
use crate::{
    Caller, Error, InodeNo, Layout, MemoryOptions, Options, Rename, Result, TransactionOptions,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const FILES: usize = 4;
/// Number of counters in each file.
const COUNTERS: u64 = 3;
const STRIDE: u64 = 8192;
const START: u64 = 1000;
const SUM: u64 = FILES as u64 * COUNTERS * START;

fn begin(fs: &Arc<Fs>) -> Result<Txn> {
    fs.begin_transaction(&TransactionOptions::default())
}

fn get(fs: &Fs, file: InodeNo, counter: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    let read = fs.read(file, counter * STRIDE, &mut bytes)?;
    assert_eq!(read, 8);
    Ok(u64::from_le_bytes(bytes))
}

fn sum(fs: &Fs, files: &[InodeNo]) -> Result<u64> {
    let mut sum = 0;
    for file in files {
        for counter in 0..COUNTERS {
            sum += get(fs, *file, counter)?;
        }
    }
    Ok(sum)
}

/// The names of an owner.
fn names_of(fs: &Fs, directory: InodeNo, owner: usize) -> Result<Vec<String>> {
    let start = format!("{owner}-");
    let mut found = Vec::new();
    fs.readdir(directory, 2, &mut |entry| {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        if name.starts_with(&start) {
            found.push(name);
        }
        true
    })?;
    Ok(found)
}

struct Bank {
    fs: Arc<Fs>,
    files: Vec<InodeNo>,
    /// Two directories, between which names move.
    directories: [InodeNo; 2],
    commits: AtomicU64,
    conflicts: AtomicU64,
    stop: AtomicBool,
}

impl Bank {
    fn open(options: Options) -> Arc<Bank> {
        let memory = MemoryOptions {
            group_bytes: 65_536,
            ..MemoryOptions::default()
        };
        let mut fs = fresh_with(memory, options);
        fs.settings.step_blocks = 8;
        let files = (0..FILES).map(|i| {
            let file = fs.t_file(&format!("f{i}"), &pattern(30_000, i as u8));
            for counter in 0..COUNTERS {
                fs.t_write(file, counter * STRIDE, &START.to_le_bytes());
            }
            file
        });
        let files = files.collect();
        let directories = ["left", "right"].map(|name| fs.t_mkdir(ROOT, name));
        for owner in 0..4 {
            fs.t_create(directories[0], &format!("{owner}-0"));
        }
        Arc::new(Bank {
            fs: Arc::new(fs),
            files,
            directories,
            commits: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// Moves an amount, and the owner's name.
    fn transfer(&self, txn: &Fs, owner: usize, count: u64, rng: &mut impl RngExt) -> Result<()> {
        let any = |rng: &mut _| {
            let file = RngExt::random_range(rng, 0..FILES);
            (self.files[file], RngExt::random_range(rng, 0..COUNTERS))
        };
        let ((from, a), (to, b)) = (any(rng), any(rng));
        let amount = rng.random_range(0..50).min(get(txn, from, a)?);
        let root = Caller::root();
        let add = |file, counter, amount: i64| {
            let now = get(txn, file, counter)?.wrapping_add_signed(amount);
            txn.write(&root, file, counter * STRIDE, &now.to_le_bytes())
        };
        add(from, a, -(amount as i64))?;
        add(to, b, amount as i64)?;
        let place = |count: u64| self.directories[count as usize % 2];
        let (old, new) = (format!("{owner}-{count}"), format!("{owner}-{}", count + 1));
        let (here, there) = (place(count), place(count + 1));
        match rng.random_bool(0.5) {
            true => {
                let plain = Rename::default();
                txn.rename(&root, here, old.as_bytes(), there, new.as_bytes(), plain)
            }
            false => {
                txn.unlink(&root, here, old.as_bytes())?;
                let made = txn.mknod(&root, there, new.as_bytes(), 0o644, 0)?;
                txn.write(&root, made.ino, 0, &pattern(5000, 1)).map(|_| ())
            }
        }
    }

    fn work(&self, owner: usize, seed: u64, transfers: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut count = 0;
        while count < transfers {
            let txn = begin(&self.fs).unwrap();
            let done = match rng.random_range(0..3) {
                0 => {
                    let child = nested(&txn);
                    let done = self.transfer(&child, owner, count, &mut rng);
                    done.and_then(|()| child.commit())
                }
                _ => self.transfer(&txn, owner, count, &mut rng),
            };
            done.unwrap();
            assert_eq!(sum(&txn, &self.files).unwrap(), SUM, "in the transaction");
            let committed = match rng.random_range(0..4) {
                0 => txn.commit(),
                _ => txn.commit_async().map(drop),
            };
            match committed {
                Ok(()) => {
                    self.commits.fetch_add(1, Relaxed);
                    count += 1;
                }
                Err(Error::Conflict(_)) => {
                    self.conflicts.fetch_add(1, Relaxed);
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Checks the sum, and each owner's one name, in snapshots and in the mounted tree.
    fn watch(&self) {
        while !self.stop.load(Relaxed) {
            let txn = begin(&self.fs).unwrap();
            assert_eq!(sum(&txn, &self.files).unwrap(), SUM, "in a snapshot");
            for owner in 0..4 {
                let [a, b] = self.directories.map(|d| names_of(&txn, d, owner).unwrap());
                assert_eq!(a.len() + b.len(), 1, "{a:?} {b:?}");
            }
            drop(txn);
            // The file of each name always exists.
            for directory in self.directories {
                let mut names = Vec::new();
                self.fs
                    .readdir(directory, 2, &mut |entry| {
                        names.push(entry.name.to_vec());
                        true
                    })
                    .unwrap();
                for name in names {
                    match self.fs.lookup(&Caller::root(), directory, &name) {
                        Ok(_) | Err(Error::NotFound) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
        }
    }

    /// Writes between the counters, and does other disturbing work.
    fn disturb(&self, seed: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        while !self.stop.load(Relaxed) {
            let file = self.files[rng.random_range(0..FILES)];
            match rng.random_range(0..8) {
                0 => self.fs.sync().unwrap(),
                1 => self.fs.maintain().unwrap(),
                2 => self.fs.layout().memory().move_blocks(),
                3 => self.fs.drop_caches(),
                4 => {
                    let name = format!("noise{}", rng.random_range(0..3));
                    let made = self
                        .fs
                        .mknod(&Caller::root(), ROOT, name.as_bytes(), 0o644, 0);
                    match made {
                        Ok(made) => self.fs.t_write(made.ino, 0, &pattern(60_000, 1)),
                        Err(_) => self.fs.t_unlink(&name),
                    }
                }
                _ => {
                    let between = rng.random_range(0..COUNTERS) * STRIDE + 4096;
                    self.fs.t_write(file, between, &pattern(4000, rng.random()));
                }
            }
        }
    }
}

fn run(seed: u64, options: Options, transfers: u64) {
    eprintln!("seed {seed}");
    let bank = Bank::open(options);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|owner| {
                let bank = &bank;
                scope.spawn(move || bank.work(owner, seed + owner as u64, transfers))
            })
            .collect();
        scope.spawn(|| bank.watch());
        scope.spawn(|| bank.disturb(seed + 100));
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        bank.stop.store(true, Relaxed);
        for worker in ended {
            worker.unwrap();
        }
    });
    let (commits, conflicts) = (bank.commits.load(Relaxed), bank.conflicts.load(Relaxed));
    eprintln!("{commits} commits, {conflicts} conflicts");
    assert_eq!(commits, 4 * transfers);
    let fs = &bank.fs;
    fs.sync().unwrap();
    fs.unmount().unwrap();
    assert_eq!(fs.layout().usage(), fs.usage());
    assert_eq!(fs.layout().memory().snapshots(), 0);
    for fs in [&**fs, &crash(fs, None)] {
        assert_eq!(sum(fs, &bank.files).unwrap(), SUM);
        for owner in 0..4 {
            let place = bank.directories[transfers as usize % 2];
            assert_eq!(
                names_of(fs, place, owner).unwrap(),
                [format!("{owner}-{transfers}")]
            );
        }
    }
}

#[test]
fn the_sum_stays() {
    for seed in seeds(0, 4) {
        run(seed * 1000, Options::default(), 60);
    }
}

#[test]
fn the_sum_stays_in_little_memory() {
    for seed in seeds(50, 4) {
        let options = Options {
            cache_bytes: 4 << 20,
            read_ahead_threads: 2,
            ..Options::default()
        };
        run(seed * 1000, options, 60);
    }
}
