//! Transactions on a full or nearly full volume.
//!
//! The test fills a volume to the last block and removes some of it. Then transactions of
//! every kind ask for some, most or more than all of the free space. A transaction that
//! does not fit is refused, in an operation or at its commit, and leaves nothing: the
//! tree and the used space are as before. At the end, transactions that only remove empty
//! the volume, and none of them may be refused.

use super::mix::{Change, Home, Tree, within};
use super::{Fs, Txn};
use crate::explorer::mix;
use crate::failure::{Failure, Promise};
use crate::mounted::Subject;
use crate::random::Random;
use crate::runner::new_clock;
use crate::subjects::Log;
use std::sync::Arc;
use varve_device::MemoryDevice;
use varve_fs::{Error, Isolation, Transaction, TransactionOptions};

const KINDS: [Isolation; 3] = [
    Isolation::Snapshot,
    Isolation::Serializable,
    Isolation::Locking,
];
/// Number of attempts of a removing transaction. An attempt is aborted if its snapshot
/// pins space that is needed.
const ATTEMPTS: u32 = 4;

/// Counts of the work done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Number of transactions that fitted.
    pub fitted: u64,
    /// Number of transactions that were refused in an operation.
    pub refused_early: u64,
    /// Number of transactions that were refused at their commit.
    pub refused_at_commit: u64,
    /// Number of transactions that only removed.
    pub removals: u64,
    /// Number of further attempts of those transactions.
    pub begun_again: u64,
}

struct Volume {
    log: Log,
    device: Arc<MemoryDevice>,
    fs: Arc<Fs>,
    home: Home,
    tree: Tree,
    random: Random,
    salt: u64,
}

/// Fills a volume, asks for too much of it, and empties it.
///
/// # Errors
///
/// The remains of a refused transaction, or a removal that was refused.
pub fn run(seed: u64, index: u64, done: &mut Done) -> Result<(), Failure> {
    let told = |text: String| Failure::new(Promise::Space, format!("volume {index}: {text}"));
    let mut volume = Volume::new(mix(seed, index)).map_err(told)?;
    volume.fill().map_err(told)?;
    volume.make_some_room().map_err(told)?;
    for attempt in 0..12 {
        let asked = volume.ask(attempt, done);
        asked.map_err(|text| told(format!("attempt {attempt}: {text}")))?;
    }
    volume.empty(done).map_err(told)?;
    volume.finish().map_err(told)
}

fn told(error: Error) -> String {
    error.to_string()
}

fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSpace | Error::Aborted | Error::TransactionTooLarge
    )
}

impl Volume {
    fn new(seed: u64) -> Result<Volume, String> {
        let mut random = Random::new(seed);
        let mut log = Log {
            device_bytes: within(&mut random, 5..9) << 20,
            ..Log::default()
        };
        log.options.cache_bytes = 16 << 20;
        let device = Arc::new(MemoryDevice::new(log.device_bytes));
        log.format(device.clone(), new_clock()).map_err(told)?;
        let fs = log
            .system(device.clone(), new_clock(), seed)
            .map_err(told)?;
        let (home, tree) = Home::make(&fs).map_err(told)?;
        Ok(Volume {
            log,
            device,
            fs: Arc::new(fs),
            home,
            tree,
            random,
            salt: seed,
        })
    }

    fn salt(&mut self) -> u64 {
        self.salt += 1;
        self.salt
    }

    fn path(&mut self, name: String) -> (u8, String) {
        (self.random.below(2) as u8, name)
    }

    /// Makes a change outside of transactions. Returns false if the volume has no space
    /// for it.
    fn outside(&mut self, change: &Change) -> Result<bool, String> {
        match self.home.change(&self.fs, change) {
            Ok(()) => {
                self.tree.change(change);
                Ok(true)
            }
            Err(Error::NoSpace) => Ok(false),
            Err(error) => Err(format!("{change:?}: {error}")),
        }
    }

    /// Fills the volume to the last block.
    fn fill(&mut self) -> Result<(), String> {
        let mut number = 0;
        for length in [60_000, 4096, 1] {
            loop {
                number += 1;
                let path = self.path(format!("filler{number}"));
                if !self.outside(&Change::Make(path.clone()))? {
                    break;
                }
                let salt = self.salt();
                let write = Change::Write(path.clone(), 0, length, salt);
                match self.home.change(&self.fs, &write) {
                    Ok(()) => self.tree.change(&write),
                    Err(Error::NoSpace) => {
                        // The call may have written a part before the error.
                        self.outside(&Change::Remove(path))?;
                        break;
                    }
                    Err(error) => return Err(format!("{write:?}: {error}")),
                }
            }
            self.fs.sync().map_err(told)?;
            self.fs.maintain().map_err(told)?;
        }
        Ok(())
    }

    fn make_some_room(&mut self) -> Result<(), String> {
        let share = self.random.below(30);
        let names: Vec<_> = self.tree.0.keys().cloned().collect();
        for path in names {
            if path.1 != "shared" && self.random.below(100) < share {
                self.outside(&Change::Remove(path))?;
            }
        }
        self.fs.sync().map_err(told)?;
        self.fs.maintain().map_err(told)
    }

    fn begin(&self, isolation: Isolation) -> Result<Txn, String> {
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let txn = self.fs.begin_transaction(&options);
        txn.map_err(|error| format!("begin: {error}"))
    }

    /// Runs a transaction that asks for a part of the free space, or for more than all of
    /// it.
    fn ask(&mut self, attempt: u64, done: &mut Done) -> Result<(), String> {
        let isolation = *self.random.pick(&KINDS);
        let free = self.fs.statfs().free * 4096;
        let bytes = free * within(&mut self.random, 10..200) / 100 + 8192;
        let before = self.home.walk(&self.fs)?;
        let usage = self.fs.usage();
        let txn = self.begin(isolation)?;
        let mut view = self.tree.clone();
        let (mut asked, mut refused) = (0, false);
        while asked < bytes && !refused {
            // A part of the changes is made in nested transactions, which end like their
            // parent.
            let child = match self.random.once_in(4) {
                true => Some(
                    txn.tree()
                        .begin_transaction(&TransactionOptions::default())
                        .map_err(told)?,
                ),
                false => None,
            };
            let mut attempted = view.clone();
            for _ in 0..within(&mut self.random, 1..5) {
                let salt = self.salt();
                let change = attempted.draw(&mut self.random, 100 + attempt, 120_000, salt);
                if let Change::Write(_, _, length, _) = change {
                    asked += length;
                }
                asked += 512;
                let tree: &Fs = child.as_deref().unwrap_or(&txn);
                match self.home.change(tree, &change) {
                    Ok(()) => attempted.change(&change),
                    Err(error) if is_refusal(&error) => {
                        refused = true;
                        break;
                    }
                    Err(error) => return Err(format!("{isolation:?}, {change:?}: {error}")),
                }
            }
            match child.map(Transaction::commit) {
                Some(Err(error)) if is_refusal(&error) => refused = true,
                Some(Err(error)) => return Err(format!("{isolation:?}, within: {error}")),
                Some(Ok(())) | None => view = attempted,
            }
        }
        let fitted = match refused {
            true => {
                done.refused_early += 1;
                txn.abort();
                false
            }
            false => match txn.commit() {
                Ok(()) => true,
                Err(error) if is_refusal(&error) => {
                    done.refused_at_commit += 1;
                    false
                }
                Err(error) => return Err(format!("{isolation:?}, commit: {error}")),
            },
        };
        if fitted {
            done.fitted += 1;
            self.tree = view;
        } else if self.fs.usage() != usage {
            let after = self.fs.usage();
            return Err(format!("{isolation:?}: {usage:?} before, {after:?} after"));
        }
        let after = self.home.walk(&self.fs)?;
        match after == self.tree && (fitted || after == before) {
            true => Ok(()),
            false => Err(format!("{isolation:?}: {}", self.tree.difference(&after))),
        }
    }

    /// Empties the volume with transactions that only remove, a few names each.
    fn empty(&mut self, done: &mut Done) -> Result<(), String> {
        while self.tree.0.len() > 1 {
            let isolation = *self.random.pick(&KINDS);
            let count = within(&mut self.random, 1..12) as usize;
            let mut names: Vec<_> = self.tree.0.keys().cloned().collect();
            names.retain(|path| path.1 != "shared");
            let first = self.random.below(names.len() as u64) as usize;
            names.rotate_left(first);
            names.truncate(count);
            let changes: Vec<_> = names.into_iter().map(Change::Remove).collect();
            let nested = self.random.once_in(3);
            let mut attempts = 0..ATTEMPTS;
            loop {
                match self.remove(isolation, &changes, nested) {
                    Ok(()) => break,
                    Err(Error::Aborted) if attempts.next().is_some() => done.begun_again += 1,
                    Err(error) => return Err(format!("{isolation:?}, a removal: {error}")),
                }
            }
            changes.iter().for_each(|change| self.tree.change(change));
            done.removals += 1;
        }
        let after = self.home.walk(&self.fs)?;
        match after == self.tree {
            true => Ok(()),
            false => Err(format!("emptied: {}", self.tree.difference(&after))),
        }
    }

    fn remove(
        &self,
        isolation: Isolation,
        changes: &[Change],
        nested: bool,
    ) -> varve_fs::Result<()> {
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let txn = self.fs.begin_transaction(&options)?;
        let child = match nested {
            true => Some(txn.tree().begin_transaction(&options)?),
            false => None,
        };
        let tree: &Fs = child.as_deref().unwrap_or(&txn);
        changes
            .iter()
            .try_for_each(|change| self.home.change(tree, change))?;
        child.map_or(Ok(()), Transaction::commit)?;
        txn.commit()
    }

    /// Unmounts, checks the image, and reads the whole tree again after a new mount.
    fn finish(self) -> Result<(), String> {
        self.fs.unmount().map_err(told)?;
        self.fs
            .layout()
            .unmount()
            .map_err(|error| error.to_string())?;
        drop(self.fs);
        if let Some(error) = self.log.check(self.device.clone()).first() {
            return Err(format!("the check: {error}"));
        }
        let again = self
            .log
            .system(self.device.clone(), new_clock(), 7)
            .map_err(told)?;
        let seen = self.home.walk(&again)?;
        match seen == self.tree {
            true => Ok(()),
            false => Err(format!("mounted again: {}", self.tree.difference(&seen))),
        }
    }
}
