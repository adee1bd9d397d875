//! Transactions in concurrent threads on the real log. The run records what each
//! transaction did and saw, and judges the record when all have ended.
//!
//! The threads read lists and append to them, in transactions, in nested transactions,
//! and outside of transactions; some transactions abort. Meanwhile another thread syncs,
//! maintains and cleans the volume and drops its caches. At the end the run reads every
//! list once more, and again after a new mount, so that it also finds an acknowledged
//! commit that is lost.

use super::history::{Action, Judgement, Level, Object, Outcome, Record};
use super::objects::Objects;
use super::{Fs, Txn, as_planted, judge};
use crate::explorer::mix;
use crate::mounted::Subject;
use crate::random::Random;
use crate::subjects::{Log, clean};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use varve_device::{Device, HostClock, MemoryDevice};
use varve_fs::planted::Planted;
use varve_fs::{Error, FileSystem, Isolation, Result, TransactionOptions};

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Isolation of the transactions.
    pub isolation: Isolation,
    /// True if locking transactions lock byte ranges of a page.
    pub subpage: bool,
    /// Number of concurrent threads.
    pub threads: u64,
    /// Number of transactions per thread.
    pub transactions: u64,
    /// Longest wait for a lock. No transaction here keeps a lock for long, so a longer
    /// wait never succeeds.
    pub patience: Duration,
    /// True if some operations happen outside of transactions. Such an operation waits
    /// without limit, even for a lock that a bug never releases.
    pub outsiders: bool,
    /// The planted bug, if any.
    pub bug: Option<Planted>,
    /// Seed of all random choices. The order in which the threads run does not depend on
    /// it.
    pub seed: u64,
}

impl Plan {
    /// Returns the plan for continuous integration.
    pub fn quick(isolation: Isolation, seed: u64) -> Plan {
        Plan {
            isolation,
            subpage: false,
            threads: 4,
            transactions: 100,
            patience: Duration::from_secs(20),
            outsiders: true,
            bug: None,
            seed,
        }
    }

    fn level(&self) -> Level {
        match self.isolation {
            Isolation::Snapshot => Level::Snapshot,
            Isolation::Serializable | Isolation::Locking => Level::Serializable,
        }
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct Ran {
    /// Verdict of the checker.
    pub judgement: Judgement,
    /// Number of transactions that met a conflict and aborted.
    pub conflicts: usize,
    /// The whole record, for debugging.
    pub records: Vec<Record>,
}

struct World {
    fs: Arc<Fs>,
    objects: Objects,
    plan: Plan,
    clock: AtomicU64,
    values: AtomicU64,
    stop: AtomicBool,
}

/// The reason that a thread stops: an error that a transaction must never return.
type Broken = String;

fn unexpected(error: &Error) -> bool {
    !matches!(error, Error::Conflict(_) | Error::Deadlock | Error::Aborted)
}

impl World {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn begin(&self) -> Result<Txn> {
        self.fs.begin_transaction(&TransactionOptions {
            isolation: self.plan.isolation,
            timeout: Some(self.plan.patience),
            subpage: self.plan.subpage,
        })
    }

    /// Reads an object and, in most cases, appends to it.
    fn step(&self, fs: &Fs, random: &mut Random, actions: &mut Vec<Action>) -> Result<()> {
        let object = random.below(self.objects.count()) as Object;
        let adds = !random.once_in(3);
        let mut before = Vec::new();
        if !adds || self.objects.reads_first(object) {
            before = self.objects.read(fs, object)?;
            let values = before.clone();
            actions.push(Action::Read { object, values });
        }
        if random.once_in(2) {
            std::thread::yield_now();
        }
        if adds {
            let value = self.values.fetch_add(1, SeqCst);
            // The append is recorded first, because a failed call may have done a part of
            // it.
            actions.push(Action::Append { object, value });
            if !self.objects.append(fs, object, &before, value)? {
                actions.pop();
            }
        }
        Ok(())
    }

    fn steps(&self, txn: &Txn, random: &mut Random, actions: &mut Vec<Action>) -> Result<()> {
        for _ in 0..=random.below(4) {
            if !random.once_in(6) {
                self.step(txn, random, actions)?;
                continue;
            }
            let child = txn
                .tree()
                .begin_transaction(&TransactionOptions::default())?;
            let mut inner = Vec::new();
            let done = self.step(&child, random, &mut inner);
            if done.is_ok() && random.once_in(3) {
                child.abort();
                continue;
            }
            done?;
            child.commit()?;
            actions.append(&mut inner);
        }
        Ok(())
    }

    /// Runs one transaction to its end.
    fn transact(&self, random: &mut Random) -> std::result::Result<Record, Broken> {
        let mut actions = Vec::new();
        let begun = self.now();
        let txn = self.begin().map_err(|error| format!("begin: {error}"))?;
        let mut done = self.steps(&txn, random, &mut actions);
        let mut given_up = false;
        if done.is_ok() {
            given_up = random.once_in(12);
            done = match random.below(3) {
                _ if given_up => {
                    txn.abort();
                    Ok(())
                }
                0 => txn.commit(),
                1 => txn.commit_async().and_then(|ticket| ticket.wait()),
                _ => txn.commit_async().map(drop),
            };
        } else {
            drop(txn);
        }
        if let Err(error) = &done
            && unexpected(error)
        {
            return Err(format!("a transaction got `{error}`"));
        }
        Ok(Record {
            begun,
            ended: self.now(),
            actions,
            outcome: match done.is_ok() && !given_up {
                true => Outcome::Committed,
                false => Outcome::Aborted,
            },
        })
    }

    /// Runs one operation outside of transactions.
    fn outside(&self, random: &mut Random) -> std::result::Result<Record, Broken> {
        let mut object;
        loop {
            object = random.below(self.objects.count()) as Object;
            if self.objects.is_read_at_once(object) {
                break;
            }
        }
        let begun = self.now();
        let done = match self.objects.reads_first(object) || random.once_in(2) {
            true => self
                .objects
                .read(&self.fs, object)
                .map(|values| Action::Read { object, values }),
            false => {
                let value = self.values.fetch_add(1, SeqCst);
                let added = self.objects.append(&self.fs, object, &[], value);
                added.map(|_| Action::Append { object, value })
            }
        };
        let action = done.map_err(|error| format!("outside: {error}"))?;
        Ok(Record {
            begun,
            ended: self.now(),
            actions: vec![action],
            outcome: Outcome::Committed,
        })
    }

    fn work(&self, thread: u64) -> std::result::Result<Vec<Record>, Broken> {
        let mut random = Random::new(mix(self.plan.seed, thread));
        let mut records = Vec::new();
        for _ in 0..self.plan.transactions {
            if self.stop.load(SeqCst) {
                break; // another thread found an error
            }
            let record = match random.once_in(6) && self.plan.outsiders {
                true => self.outside(&mut random),
                false => self.transact(&mut random),
            };
            records.push(record.inspect_err(|_| self.stop.store(true, SeqCst))?);
        }
        Ok(records)
    }

    fn disturb(&self, over: &AtomicBool) -> std::result::Result<(), Broken> {
        let mut random = Random::new(mix(self.plan.seed, 1000));
        while !over.load(SeqCst) {
            let done = match random.below(4) {
                0 => self.fs.sync(),
                1 => self.fs.maintain(),
                2 => clean(&self.fs),
                _ => {
                    self.fs.drop_caches();
                    Ok(())
                }
            };
            done.map_err(|error| format!("beside them: {error}"))?;
            std::thread::sleep(Duration::from_micros(random.below(2000)));
        }
        Ok(())
    }

    /// Reads every object in its present state.
    fn look(&self, fs: &Fs) -> Result<Record> {
        let begun = self.now();
        let look = |object: u64| {
            let object = object as Object;
            let values = self.objects.read(fs, object)?;
            Ok(Action::Read { object, values })
        };
        let actions = (0..self.objects.count()).map(look).collect::<Result<_>>()?;
        Ok(Record {
            begun,
            ended: self.now(),
            actions,
            outcome: Outcome::Committed,
        })
    }
}

fn volume() -> Log {
    let mut log = Log {
        device_bytes: 32 << 20,
        ..Log::default()
    };
    log.mount.cache_bytes = 8 << 20;
    log.options.cache_bytes = 4 << 20;
    log
}

/// Runs a plan and judges the result.
///
/// # Errors
///
/// An error that a transaction must never return, or the call that failed.
pub fn run(plan: &Plan) -> std::result::Result<Ran, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let log = volume();
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(log.device_bytes));
    let clock = || Arc::new(HostClock::default());
    log.format(Arc::clone(&device), clock())
        .map_err(|e| told(&e))?;
    let mount = || log.system(Arc::clone(&device), clock(), plan.seed);
    let fs: Arc<FileSystem<_>> = Arc::new(mount().map_err(|e| told(&e))?);
    let protected = plan.isolation == Isolation::Locking;
    let world = World {
        objects: Objects::make(&fs, protected).map_err(|e| told(&e))?,
        fs,
        plan: plan.clone(),
        clock: AtomicU64::new(0),
        values: AtomicU64::new(1),
        stop: AtomicBool::new(false),
    };
    let over = AtomicBool::new(false);
    let results = std::thread::scope(|scope| {
        let (world, over) = (&world, &over);
        let workers: Vec<_> = (0..plan.threads)
            .map(|thread| scope.spawn(move || as_planted(plan.bug, || world.work(thread))))
            .collect();
        let disturber = scope.spawn(move || world.disturb(over));
        let results: Vec<_> = workers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        over.store(true, SeqCst);
        disturber.join().map_err(|_| "who disturbs panicked")??;
        Ok::<_, Broken>(results)
    })?;
    let mut records = Vec::new();
    for result in results {
        records.extend(result.map_err(|_| "a thread panicked")??);
    }
    let looked = match plan.outsiders {
        true => world.look(&world.fs),
        false => world.begin().and_then(|txn| world.look(&txn)),
    };
    records.push(looked.map_err(|e| told(&e))?);
    world.fs.unmount().map_err(|e| told(&e))?;
    world.fs.layout().unmount().map_err(|e| told(&e))?;
    if let Some(error) = log.check(Arc::clone(&device)).first() {
        return Err(format!("the check: {error}"));
    }
    let again = mount().map_err(|e| told(&e))?;
    records.push(world.look(&again).map_err(|e| told(&e))?);
    let aborted = |record: &&Record| record.outcome == Outcome::Aborted;
    Ok(Ran {
        judgement: judge(&records, plan.level()),
        conflicts: records.iter().filter(aborted).count(),
        records,
    })
}
