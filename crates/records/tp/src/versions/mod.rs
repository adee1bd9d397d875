//! Old values next to the trees, for readers that never wait: multi-version reads.
//!
//! A transaction that changes a record first keeps the old value here, under the latch of
//! the record's leaf. A version ends with the commit of its writer; when all snapshots
//! see that commit, it is dropped.
//!
//! Invariants:
//! - Under a leaf's latch, the leaf and the versions of its keys agree: the value in a
//!   snapshot is that of the first version whose writer the snapshot does not see, or
//!   else the leaf's.
//! - A transaction becomes visible atomically: its stamp is set before the clock, and
//!   commit records are appended in the order of the clock.
//! - A version is dropped when the horizon has passed its end. If the memory limit drops
//!   it earlier, the low watermark of snapshots rises first, and older snapshots get an
//!   error.
//! - A writer that alone exceeds the limit keeps no more versions, but leaves a mark in
//!   its tables: a reader that does not see it reads only pages there that are older than
//!   it.
//!
//! Lock order: a leaf's latch before a table's versions; the mutex of kept transactions
//! before them.
//!
//! Source: Bernstein, Hadzilacos, Goodman 1987, §5.5 (locking writers, multi-version
//! queries).

mod snapshot;
mod view;
mod writer;

pub(crate) use snapshot::Snapshot;
pub(crate) use view::{Found, Record, View, is_empty};
pub(crate) use writer::Writer;

use crate::active::Active;
use crate::log::Lsn;
use crate::planted::{self, Planted};
use foldhash::HashMap;
use smallvec::SmallVec;
use snapshot::Slot;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use varve_device::sync::{Mutex, RwLock};

/// The LSN of the commit record by which a transaction became visible; 0 if it is not
/// visible.
#[derive(Debug, Default)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    fn get(&self) -> Option<Lsn> {
        match self.0.load(SeqCst) {
            0 => None,
            lsn => Some(Lsn(lsn)),
        }
    }
}

/// A value in the form of a leaf: true if it is large, and its bytes or its descriptor.
pub(crate) type Before = Option<(bool, Arc<[u8]>)>;

/// The value of a record until a transaction changed it.
#[derive(Debug)]
struct Version {
    until: Arc<Stamp>,
    before: Before,
}

/// Approximate bytes of a version in addition to its key and value.
const OVERHEAD: usize = 160;

impl Version {
    fn bytes(&self, key: &[u8]) -> usize {
        let value = self.before.as_ref().map_or(0, |(_, value)| value.len());
        key.len() + value + OVERHEAD
    }
}

/// A writer that keeps no versions, and the LSN below which it has changed nothing.
#[derive(Debug)]
struct Unversioned {
    until: Arc<Stamp>,
    began: u64,
}

#[derive(Debug, Default)]
struct Keys {
    /// The oldest version first.
    versions: BTreeMap<Arc<[u8]>, SmallVec<[Version; 1]>>,
    unversioned: Vec<Unversioned>,
}

/// The versions of a table.
#[derive(Debug, Default)]
struct TableVersions(RwLock<Keys>);

/// A committed transaction that some snapshot may not see.
#[derive(Debug)]
struct Kept {
    commit: Lsn,
    writer: Option<Writer>,
    /// Set if its pages must still be freed.
    finish: Option<Arc<Active>>,
}

#[derive(Debug)]
pub(crate) struct Versions {
    clock: AtomicU64,
    /// Lower bound of the LSNs that active transactions have logged.
    oldest: AtomicU64,
    slots: Box<[Slot]>,
    further: Mutex<BTreeMap<u64, usize>>,
    /// Locked while a commit record is appended and made visible.
    order: Mutex<()>,
    tables: RwLock<HashMap<u32, Arc<TableVersions>>>,
    /// Kept transactions in the order of their commits.
    kept: Mutex<VecDeque<Kept>>,
    kept_count: AtomicUsize,
    /// Transactions dropped here whose pages the next writer frees.
    finish: Mutex<Vec<Arc<Active>>>,
    finish_count: AtomicUsize,
    /// Low watermark: older snapshots have lost versions.
    floor: AtomicU64,
    bytes: AtomicUsize,
    pub limit: usize,
}

impl Versions {
    pub(crate) fn new(limit: usize) -> Self {
        Versions {
            clock: AtomicU64::new(0),
            oldest: AtomicU64::new(u64::MAX),
            slots: snapshot::slots(),
            further: Mutex::default(),
            order: Mutex::new(()),
            tables: RwLock::default(),
            kept: Mutex::default(),
            kept_count: AtomicUsize::new(0),
            finish: Mutex::default(),
            finish_count: AtomicUsize::new(0),
            floor: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            limit,
        }
    }

    /// Starts with everything before `end` committed, and no active transaction.
    pub(crate) fn begin(&self, end: Lsn) {
        self.clock.store(end.0.saturating_sub(1), SeqCst);
    }

    /// Returns the last visible commit.
    pub(crate) fn clock(&self) -> Lsn {
        Lsn(self.clock.load(SeqCst))
    }

    /// Sets the least LSN that an active transaction may have logged; `u64::MAX` if there
    /// is none.
    pub(crate) fn set_oldest(&self, oldest: u64) {
        self.oldest.store(oldest, SeqCst);
    }

    /// Appends a commit record and makes its transaction visible, atomically for every
    /// snapshot.
    pub(crate) fn commit<E>(
        &self,
        writer: Option<&Writer>,
        append: impl FnOnce() -> Result<Lsn, E>,
    ) -> Result<Lsn, E> {
        let _order = self.order.lock();
        let commit = append()?;
        if let Some(writer) = writer {
            writer.stamp.0.store(commit.0, SeqCst);
        }
        self.clock.store(commit.0, SeqCst);
        Ok(commit)
    }

    /// Keeps a committed transaction's versions, and the pages that it must free, for as
    /// long as a snapshot may need them. Returns the transaction if its pages can be
    /// freed now.
    pub(crate) fn keep(
        &self,
        commit: Lsn,
        writer: Option<Writer>,
        finish: Option<Arc<Active>>,
    ) -> Option<Arc<Active>> {
        let needed = self.horizon() < commit && !planted::is(Planted::VersionDroppedEarly);
        if needed {
            let mut kept = self.kept.lock();
            // Concurrent commits may arrive in another order.
            let at = kept.partition_point(|other| other.commit < commit);
            let (now, later) = match planted::is(Planted::ChainFreedEarly) {
                true => (finish, None),
                false => (None, finish),
            };
            let finish = later;
            let entry = Kept {
                commit,
                writer,
                finish,
            };
            kept.insert(at, entry);
            self.kept_count.store(kept.len(), SeqCst);
            return now;
        }
        if let Some(writer) = writer {
            self.forget(writer);
        }
        finish
    }

    /// Drops everything that no snapshot needs, without waiting for a lock.
    pub(crate) fn drop_unneeded(&self) {
        if self.kept_count.load(SeqCst) == 0 {
            return;
        }
        let Some(mut kept) = self.kept.try_lock() else {
            return;
        };
        let horizon = self.horizon();
        while kept.front().is_some_and(|first| first.commit <= horizon) {
            self.drop_first(&mut kept);
        }
    }

    fn drop_first(&self, kept: &mut VecDeque<Kept>) {
        if let Some(first) = kept.pop_front() {
            if let Some(writer) = first.writer {
                self.forget(writer);
            }
            if first.finish.is_some() {
                let mut finish = self.finish.lock();
                finish.extend(first.finish);
                self.finish_count.store(finish.len(), SeqCst);
            }
        }
        self.kept_count.store(kept.len(), SeqCst);
    }

    pub(crate) fn has_to_finish(&self) -> bool {
        self.drop_unneeded();
        self.finish_count.load(SeqCst) > 0
    }

    /// Returns committed transactions whose pages may be freed now.
    pub(crate) fn to_finish(&self) -> Vec<Arc<Active>> {
        let mut finish = self.finish.lock();
        self.finish_count.store(0, SeqCst);
        std::mem::take(&mut *finish)
    }

    /// Removes tables without versions.
    pub(crate) fn sweep(&self) {
        let in_use = |table: &Arc<TableVersions>| {
            // No other thread can obtain the table meanwhile, because the map of tables
            // is locked.
            let keys = table.0.read();
            Arc::strong_count(table) > 1
                || !keys.versions.is_empty()
                || !keys.unversioned.is_empty()
        };
        self.tables.write().retain(|_, table| in_use(table));
    }

    /// Returns the approximate bytes of versions.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn table(&self, table: u32) -> Arc<TableVersions> {
        if let Some(found) = self.tables.read().get(&table) {
            return found.clone();
        }
        self.tables.write().entry(table).or_default().clone()
    }

    fn existing(&self, table: u32) -> Option<Arc<TableVersions>> {
        self.tables.read().get(&table).cloned()
    }
}
