//! Transactions: changes of any number of files that take effect together.

use crate::conflict::Conflict;
use crate::error::{Cause, Error, Result};
use crate::file::File;
use crate::tree::Tree;
use crate::volume::Volume;
use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use varve_ffs::Ffs;
use varve_fs::Isolation;
use varve_lfs::Lfs;
use varve_vlfs::Vlfs;

/// Largest number of attempts of [`Volume::transact`].
const ATTEMPTS: u32 = 64;
/// Pause after the first conflict, in µs. Each further pause is up to twice as long, to
/// at most a thousand times this value.
const PAUSE_US: u64 = 50;

/// Options of a transaction.
///
/// ```
/// use std::time::Duration;
/// use varve::{Isolation, TransactionOptions};
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// let options = TransactionOptions::new()
///     .isolation(Isolation::Locking)
///     .timeout(Duration::from_secs(1));
/// let transaction = volume.begin_with(&options)?;
/// transaction.write("/a", b"1")?;
/// transaction.commit()?;
/// # Ok::<(), varve::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TransactionOptions {
    inner: varve_fs::TransactionOptions,
}

impl TransactionOptions {
    /// Returns the defaults: snapshot isolation, where the first of two conflicting
    /// transactions commits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the isolation. Default: [`Isolation::Snapshot`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.inner.isolation = isolation;
        self
    }

    /// Sets the longest wait of a locking transaction for one lock; the transaction is
    /// aborted after that. Default: no limit. A deadlock is found at once and resolved by
    /// aborting the transaction with the least work.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.inner.timeout = Some(timeout);
        self
    }

    /// If set, a locking transaction locks the bytes that it uses instead of whole pages.
    /// Default: off.
    #[must_use]
    pub fn subpage(mut self, subpage: bool) -> Self {
        self.inner.subpage = subpage;
        self
    }
}

/// Changes that become visible and durable together, or not at all.
///
/// A transaction has all methods of [`Volume`]. It sees the tree as it was at its
/// beginning, with its own changes, which are invisible outside until
/// [`Transaction::commit`]. A transaction that is dropped is aborted without a trace. Its
/// [`crate::File`]s end with it.
///
/// ```
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// volume.write("/checking", b"100")?;
/// volume.write("/savings", b"250")?;
///
/// let transfer = volume.begin()?;
/// transfer.write("/checking", b"70")?;
/// transfer.write("/savings", b"280")?;
/// assert_eq!(volume.read("/checking")?, b"100");
/// transfer.commit()?; // both are durable, or neither
/// assert_eq!(volume.read("/savings")?, b"280");
/// # Ok::<(), varve::Error>(())
/// ```
///
/// A transaction may be sent to another thread that continues it, and several threads may
/// use it at a time: they see each other's changes at once, and only the owner can
/// commit. A transaction that is sent and never received is aborted.
///
/// ```
/// use std::sync::mpsc::channel;
/// let volume = varve::Volume::in_memory(16 << 20)?;
/// let (hand_over, taken) = channel();
/// let transaction = volume.begin()?;
/// transaction.create_dir("/parts")?;
/// hand_over.send(transaction).expect("somebody takes it");
/// let rest = std::thread::spawn(move || -> varve::Result<()> {
///     let transaction = taken.recv().expect("it was sent");
///     std::thread::scope(|scope| {
///         let parts = ["a", "b"].map(|part| {
///             let transaction = &transaction;
///             scope.spawn(move || transaction.write(format!("/parts/{part}"), part))
///         });
///         parts.into_iter().try_for_each(|part| part.join().expect("no panic"))
///     })?;
///     transaction.commit()
/// });
/// rest.join().expect("no panic")?;
/// assert_eq!(volume.read("/parts/b")?, b"b");
/// # Ok::<(), varve::Error>(())
/// ```
///
/// A savepoint is a transaction inside another one:
///
/// ```
/// # let volume = varve::Volume::in_memory(16 << 20)?;
/// let transaction = volume.begin()?;
/// transaction.write("/kept", b"1")?;
/// let attempt = transaction.savepoint()?;
/// attempt.write("/tried", b"2")?;
/// attempt.abort();
/// transaction.commit()?;
/// assert!(volume.exists("/kept")? && !volume.exists("/tried")?);
/// # Ok::<(), varve::Error>(())
/// ```
#[derive(Debug)]
pub struct Transaction {
    volume: Volume,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Log(varve_fs::Transaction<Lfs>),
    VirtualLog(varve_fs::Transaction<Vlfs>),
    InPlace(varve_fs::Transaction<Ffs>),
}

/// A commit that is visible and not yet known to be durable.
#[derive(Debug)]
#[must_use = "the changes are durable once it has been waited for"]
pub struct Ticket(Awaited);

#[derive(Debug)]
enum Awaited {
    Log(varve_fs::Ticket<Lfs>),
    VirtualLog(varve_fs::Ticket<Vlfs>),
    InPlace(varve_fs::Ticket<Ffs>),
}

impl Ticket {
    /// Waits until the changes are durable.
    ///
    /// # Errors
    /// The write or flush that failed. The changes were made and may be lost.
    pub fn wait(self) -> Result<()> {
        let durable = match self.0 {
            Awaited::Log(ticket) => ticket.wait(),
            Awaited::VirtualLog(ticket) => ticket.wait(),
            Awaited::InPlace(ticket) => ticket.wait(),
        };
        durable.map_err(|error| failed("commit", error))
    }
}

fn failed(operation: &'static str, error: varve_fs::Error) -> Error {
    Error::of_volume(operation, Cause::Tree(error))
}

impl Volume {
    /// Begins a transaction.
    ///
    /// # Errors
    /// `Unsupported` on a volume of another layout than the log, `NotConnected` if the
    /// volume was closed, and errors of writing the dirty data that precedes the
    /// transaction.
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(&TransactionOptions::default())
    }

    /// Begins a transaction with options.
    ///
    /// # Errors
    /// The same as [`Volume::begin`].
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction> {
        let mounted = self.mounted();
        let open = mounted.admit();
        let _open = open.map_err(|cause| Error::of_volume("begin a transaction", cause))?;
        let inner = match mounted.tree() {
            Tree::Log(fs) => fs.begin_transaction(&options.inner).map(Inner::Log),
            Tree::VirtualLog(fs) => fs.begin_transaction(&options.inner).map(Inner::VirtualLog),
            Tree::InPlace(fs) => fs.begin_transaction(&options.inner).map(Inner::InPlace),
        };
        self.transaction(inner)
    }

    fn transaction(&self, inner: varve_fs::Result<Inner>) -> Result<Transaction> {
        let inner = inner.map_err(|error| failed("begin a transaction", error))?;
        let tree = match &inner {
            Inner::Log(transaction) => Tree::Log(Arc::clone(transaction.tree())),
            Inner::VirtualLog(transaction) => Tree::VirtualLog(Arc::clone(transaction.tree())),
            Inner::InPlace(transaction) => Tree::InPlace(Arc::clone(transaction.tree())),
        };
        Ok(Transaction {
            volume: self.within(tree),
            inner,
        })
    }

    /// Runs `work` in a transaction and commits it. After a conflict it pauses and
    /// repeats both, at most 64 times in all, so effects of `work` outside the
    /// transaction must be safe to repeat.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.create_dir("/conf")?;
    /// let renamed = volume.transact(|transaction| {
    ///     for name in ["server", "client"] {
    ///         transaction.write(format!("/conf/{name}.new"), b"port = 80")?;
    ///         transaction.rename(format!("/conf/{name}.new"), format!("/conf/{name}"))?;
    ///     }
    ///     Ok(2)
    /// })?;
    /// assert_eq!(renamed, 2);
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `work`, which aborts the transaction, and those of [`Volume::begin`]
    /// and [`Transaction::commit`].
    pub fn transact<T>(&self, work: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(&TransactionOptions::default(), work)
    }

    /// Does the same as [`Volume::transact`] with options. A deadlock is retried like a
    /// conflict.
    ///
    /// # Errors
    /// The same as [`Volume::transact`].
    pub fn transact_with<T>(
        &self,
        options: &TransactionOptions,
        mut work: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut pauses = (0..ATTEMPTS - 1).map(|attempt| PAUSE_US << attempt.min(10));
        loop {
            let transaction = self.begin_with(options)?;
            let outcome = work(&transaction).and_then(|value| {
                transaction.commit()?;
                Ok(value)
            });
            match (outcome, pauses.next()) {
                (Err(error), Some(pause_us)) if error.is_conflict() => {
                    // A random part of the pause separates the transactions.
                    let part = u64::from(std::hash::BuildHasher::hash_one(
                        &std::hash::RandomState::new(),
                        pause_us,
                    ) as u32);
                    let pause_us = pause_us + pause_us * part / u64::from(u32::MAX);
                    thread::sleep(Duration::from_micros(pause_us));
                }
                (outcome, _) => return outcome,
            }
        }
    }
}

impl Transaction {
    /// That of the file system, on the log.
    pub(crate) fn log(&self) -> Option<&varve_fs::Transaction<Lfs>> {
        match &self.inner {
            Inner::Log(transaction) => Some(transaction),
            Inner::VirtualLog(_) | Inner::InPlace(_) => None,
        }
    }

    /// Begins a transaction inside this one. Its commit adds its changes to this
    /// transaction; aborting it leaves this one as it was. Until it ends, every other
    /// operation of this transaction fails with `EBUSY`, including a second savepoint.
    /// Committing or dropping this transaction aborts the savepoint.
    ///
    /// # Errors
    /// `ECANCELED` if this transaction has ended, `EBUSY` while a savepoint is open.
    pub fn savepoint(&self) -> Result<Transaction> {
        self.volume.begin()
    }

    /// Returns an open file of the volume as this transaction sees it, without walking
    /// its path again.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// let accounts = volume.create_file("/accounts")?;
    /// let transaction = volume.begin()?;
    /// transaction.file(&accounts)?.write_all_at(b"100", 0)?;
    /// transaction.commit()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ESTALE` if the file was created or removed after the transaction began,
    /// `ECANCELED` after its end.
    pub fn file(&self, file: &File) -> Result<File> {
        file.within(self.volume.mounted())
    }

    /// Makes the changes part of the volume, and waits until they are durable.
    ///
    /// # Errors
    /// Nothing was changed after a conflict ([`Error::conflict`]) with a change that was
    /// made since the beginning, after `StorageFull`, and after `ECANCELED`: the volume
    /// was closed, or needed the space that the transaction's snapshot pinned. If a flush
    /// fails, the changes were made and may be lost.
    pub fn commit(self) -> Result<()> {
        self.commit_async()?.wait()
    }

    /// Does the same as [`Transaction::commit`] without waiting: the changes are visible
    /// to all threads.
    ///
    /// # Errors
    /// The same as [`Transaction::commit`], without failed flushes.
    pub fn commit_async(self) -> Result<Ticket> {
        let ticket = match self.inner {
            Inner::Log(transaction) => transaction.commit_async().map(Awaited::Log),
            Inner::VirtualLog(transaction) => transaction.commit_async().map(Awaited::VirtualLog),
            Inner::InPlace(transaction) => transaction.commit_async().map(Awaited::InPlace),
        };
        ticket.map(Ticket).map_err(|error| match error {
            varve_fs::Error::Conflict(met) => {
                let path = self.volume.mounted().path_of(met.ino);
                Error::of_volume("commit", Cause::Conflict(Conflict::new(met, path)))
            }
            error => failed("commit", error),
        })
    }

    /// Discards all changes. Dropping the transaction does the same.
    pub fn abort(self) {}
}

impl Deref for Transaction {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn volume() -> Volume {
        let volume = Volume::in_memory(32 << 20).unwrap();
        volume.write("/file", b"before").unwrap();
        volume
    }

    #[test]
    fn a_conflict_says_what_it_met() {
        let volume = volume();
        let (one, two) = (volume.begin().unwrap(), volume.begin().unwrap());
        one.write("/file", b"one").unwrap();
        two.write("/file", b"two").unwrap();
        one.commit().unwrap();
        let error = two.commit().unwrap_err();
        assert!(error.is_conflict());
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        let text = error.to_string();
        assert!(
            text.starts_with("cannot commit: a conflict with another change"),
            "{text}"
        );
    }

    #[test]
    fn what_is_left_of_an_ended_one_is_refused() {
        let volume = volume();
        let transaction = volume.begin().unwrap();
        let mut file = transaction.open_file("/file").unwrap();
        let tree = (*transaction).clone();
        transaction.commit().unwrap();
        let mut content = Vec::new();
        assert!(file.read_to_end(&mut content).is_err());
        assert_eq!(tree.write("/late", b"x").unwrap_err().errno(), 125);
        assert!(tree.close().is_err());
        assert_eq!(volume.read("/file").unwrap(), b"before");
    }

    #[test]
    fn a_closed_volume_ends_its_transactions() {
        let volume = volume();
        let transaction = volume.begin().unwrap();
        transaction.write("/new", b"x").unwrap();
        volume.clone().close().unwrap();
        assert_eq!(transaction.commit().unwrap_err().errno(), 125);
        assert!(volume.begin().is_err());
    }

    #[test]
    fn threads_that_meet_all_get_their_turn() {
        let volume = volume();
        volume.write("/count", b"0").unwrap();
        let add = || {
            for _ in 0..20 {
                let added = volume.transact(|transaction| {
                    let count = transaction.read_to_string("/count")?;
                    let next = count.parse::<u32>().unwrap() + 1;
                    transaction.write("/count", next.to_string())
                });
                added.unwrap();
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(add))));
        assert_eq!(volume.read("/count").unwrap(), b"80");
    }

    #[test]
    fn threads_that_share_one_lose_nothing_of_each_other() {
        use std::io::Write;
        for isolation in [
            Isolation::Snapshot,
            Isolation::Serializable,
            Isolation::Locking,
        ] {
            let volume = volume();
            volume.write("/log", b"").unwrap();
            let options = TransactionOptions::new().isolation(isolation).subpage(true);
            let transaction = volume.begin_with(&options).unwrap();
            let work = |thread: u32| {
                let mut log = crate::OpenOptions::new();
                let mut log = log.append(true).open(&transaction, "/log").unwrap();
                for n in 0..50 {
                    let name = format!("/{thread}-{n}");
                    transaction.write(&name, vec![thread as u8; 5000]).unwrap();
                    log.write_all(b"0123456789").unwrap();
                    let moved = format!("/moved-{thread}-{n}");
                    transaction.rename(&name, &moved).unwrap();
                    assert_eq!(transaction.read(&moved).unwrap(), [thread as u8; 5000]);
                }
            };
            thread::scope(|scope| (0..4).for_each(|n| drop(scope.spawn(move || work(n)))));
            assert!(!volume.exists("/moved-0-0").unwrap());
            // Any thread may own and commit the transaction at the end.
            thread::spawn(|| transaction.commit().unwrap())
                .join()
                .unwrap();
            assert_eq!(volume.read("/log").unwrap(), b"0123456789".repeat(200));
            for thread in 0..4 {
                let last = volume.read(format!("/moved-{thread}-49")).unwrap();
                assert_eq!(last, [thread; 5000]);
            }
        }
    }

    #[test]
    fn one_that_nobody_takes_is_aborted() {
        let volume = volume();
        let (hand_over, taken) = std::sync::mpsc::channel();
        let transaction = volume.begin().unwrap();
        transaction.write("/new", b"x").unwrap();
        hand_over.send(transaction).unwrap();
        drop(taken);
        assert!(!volume.exists("/new").unwrap());
        let fs = crate::admin::tree(&volume).log().unwrap();
        assert_eq!(fs.statistics().transactions_open, 0);
    }

    #[test]
    fn while_a_savepoint_is_open_nothing_else_is_done() {
        let volume = volume();
        let transaction = volume.begin().unwrap();
        let savepoint = transaction.savepoint().unwrap();
        let refused = transaction.write("/file", b"x").unwrap_err();
        assert_eq!(refused.errno(), 16);
        assert!(refused.to_string().contains("has not ended"), "{refused}");
        assert_eq!(transaction.savepoint().unwrap_err().errno(), 16);
        savepoint.write("/file", b"in").unwrap();
        savepoint.commit().unwrap();
        transaction.commit().unwrap();
        assert_eq!(volume.read("/file").unwrap(), b"in");
    }

    #[test]
    fn the_virtual_log_refuses_them() {
        let mut options = crate::VolumeOptions::new();
        options.layout(crate::Layout::VirtualLog);
        let host = tempfile::tempdir().unwrap();
        let volume = options
            .size(64 << 20)
            .create(host.path().join("v.img"))
            .unwrap();
        let error = volume.begin().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    }
}
