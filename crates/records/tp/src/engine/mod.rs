//! The engine: log, buffer, locks and active transactions, which are needed to make a
//! change.
//!
//! Invariants:
//! - A change is appended to the log, applied and marked under the same latches of all
//!   its pages.
//! - The records of a transaction, and the changes of its state, are appended under its
//!   own mutex, so a checkpoint that looks at it sees everything that precedes the
//!   checkpoint's beginning.

pub(crate) use crate::active::{Active, Listed, State};

use crate::buffer::{Pool, WritePage};
use crate::change::Change;
use crate::error::{Error, Result};
use crate::log::format::{COMPENSATION, RecordHeader};
use crate::log::{Draft, Log, Lsn};
use crate::page::Cell;
use crate::planted::{self, Planted};
use crate::routes::Routes;
use crate::versions::{Versions, Writer};
use foldhash::{HashMap, HashSet};
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_device::sync::{Mutex, RwLock};
use varve_locks::LockTable;

/// The object of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockKey {
    Database,
    Table(u32),
    /// A table number, and a hash of the key.
    Record(u32, u64),
}

/// Bytes of log for freeing a chain, including its entry in the commit record.
pub(crate) const FREEING: u64 = 128;

#[derive(Debug)]
pub(crate) struct Engine {
    pub log: Arc<Log>,
    pub pool: Pool,
    pub locks: LockTable<LockKey>,
    /// True if transactions may not write.
    pub read_only: bool,
    active: Mutex<Actives>,
    next: AtomicU64,
    pub versions: Versions,
    pub routes: Routes,
    /// Tables dropped since the environment was opened. A transaction that looked one up
    /// before, and gets its lock afterwards, finds it here.
    dropped: RwLock<HashSet<u32>>,
}

/// Transactions that have not ended, by number.
#[derive(Debug, Default)]
struct Actives {
    running: HashMap<u64, Arc<Active>>,
    /// Committed transactions whose pages may remain for long because of snapshots, and
    /// transactions that a restart ends.
    finishing: HashMap<u64, Arc<Active>>,
}

/// The author of changes: a transaction, forward or undoing, or none for changes of the
/// structure.
#[derive(Debug)]
pub(crate) struct Author {
    pub active: Option<Arc<Active>>,
    /// During an undo: the record that is undone next.
    pub undo_next: Option<Lsn>,
    /// Collector of old values for snapshots.
    pub writer: Option<Writer>,
    draft: Draft,
}

impl Author {
    pub(crate) fn nobody() -> Self {
        Author {
            active: None,
            undo_next: None,
            writer: None,
            draft: Draft::new(),
        }
    }
}

impl Engine {
    pub(crate) fn new(
        log: Arc<Log>,
        pool: Pool,
        locks: LockTable<LockKey>,
        versions: Versions,
    ) -> Self {
        Engine {
            log,
            pool,
            locks,
            read_only: false,
            active: Mutex::default(),
            next: AtomicU64::new(1),
            versions,
            routes: Routes::new(),
            dropped: RwLock::default(),
        }
    }

    /// Returns an upper bound of the commits seen by a reader of a page that was last
    /// changed at `lsn`. Uncommitted changes of other transactions are locked.
    pub(crate) fn visible(&self, lsn: u64) -> Lsn {
        Lsn(lsn).min(self.versions.clock())
    }

    /// Appends a change. If the author is a transaction, the change is undone with it.
    pub(crate) fn log(&self, author: &mut Author, table: u32, change: &Change<'_>) -> Result<Lsn> {
        let Some(active) = author.active.clone() else {
            return self.log_structure(author, table, change);
        };
        let body = author.draft.clear();
        let mut flags = 0;
        if let Some(next) = author.undo_next {
            body.extend_from_slice(&next.0.to_le_bytes());
            flags = COMPENSATION;
        }
        let kind = change.encode(body);
        let mut chain = active.chain.lock();
        author.draft.seal(RecordHeader {
            crc: 0.into(),
            length: 0.into(),
            transaction: active.number.into(),
            previous: chain.last.0.into(),
            table: table.into(),
            kind,
            flags,
            reserved: 0.into(),
        });
        let lsn = self.log.append(&author.draft)?;
        if chain.first == Lsn::NONE {
            chain.first = lsn;
        }
        chain.last = lsn;
        if flags == 0 && Change::is_undone(kind) {
            let undo = self.undo_bytes(change, author.draft.len());
            chain.promised += undo;
            self.log.promise(undo);
        }
        match change {
            Change::Chains { chains } => chain.chains.extend(crate::change::chains(chains)),
            Change::Commit { chains } => {
                chain.chains.extend(crate::change::chains(chains));
                chain.state = match chain.chains.is_empty() {
                    true => State::Ended,
                    false => State::Committed,
                };
            }
            Change::Free { chain: freed, .. } => chain.chains.retain(|other| other != freed),
            Change::End => chain.state = State::Ended,
            _ => {}
        }
        Ok(lsn)
    }

    /// Returns the largest number of bytes that undoing a change appends, except in rare
    /// cases: undoing a change that made a record smaller may split a page.
    fn undo_bytes(&self, change: &Change<'_>, bytes: usize) -> u64 {
        let split = match change {
            // The page is freed whatever its content is.
            Change::Overflow { .. } | Change::Tree { .. } => return FREEING,
            Change::Delete { .. } | Change::Replace { .. } => self.pool.page_bytes,
            _ => 0,
        };
        (bytes + split + 64) as u64
    }

    /// Appends a change that is never undone.
    pub(crate) fn log_structure(
        &self,
        author: &mut Author,
        table: u32,
        change: &Change<'_>,
    ) -> Result<Lsn> {
        let kind = change.encode(author.draft.clear());
        author.draft.seal(RecordHeader::of_nobody(kind, table));
        self.log.append(&author.draft)
    }

    /// Applies a logged change to its pages, which must be latched.
    pub(crate) fn apply(
        &self,
        change: &Change<'_>,
        lsn: Lsn,
        pages: &mut [&mut WritePage<'_>],
    ) -> Result<()> {
        for page in pages {
            let number = page.number();
            if change.apply(number, &mut page.edit()).is_err() {
                let what = format!("page {number} does not take the change at LSN {}", lsn.0);
                let error = Error::damaged("pages", 0, what);
                self.log.poison(&error);
                return Err(error);
            }
            page.mark(lsn);
        }
        Ok(())
    }

    /// Registers a transaction that is about to write.
    pub(crate) fn enter(&self) -> Arc<Active> {
        let number = self.next.fetch_add(1, Relaxed);
        let mut actives = self.active.lock();
        let active = Arc::new(Active::new(number, self.log.end().0));
        actives.running.insert(number, active.clone());
        self.set_oldest(&actives);
        drop(actives);
        self.log.active.fetch_add(1, Relaxed);
        active
    }

    fn set_oldest(&self, actives: &Actives) {
        let running = actives.running.values();
        let began = running.map(|active| active.began);
        self.versions.set_oldest(began.min().unwrap_or(u64::MAX));
    }

    /// Keeps the old value of a record for snapshots, before an author changes it for the
    /// first time. Its leaf must be latched. A value that an undo restores was kept
    /// before.
    pub(crate) fn note(
        &self,
        author: &mut Author,
        table: u32,
        key: &[u8],
        before: Option<Cell<'_>>,
    ) {
        if author.undo_next.is_some() || planted::is(Planted::VersionNotNoted) {
            return;
        }
        if let Some(writer) = &mut author.writer {
            let copy = |cell: Cell<'_>| (cell.overflow, cell.bytes.into());
            self.versions.note(writer, table, key, || before.map(copy));
        }
    }

    /// Records that a transaction has committed while its pages are not freed yet. It is
    /// no longer undone and no longer affects snapshots.
    pub(crate) fn committed(&self, active: &Active) {
        let mut actives = self.active.lock();
        if let Some(active) = actives.running.remove(&active.number) {
            actives.finishing.insert(active.number, active);
            self.log.active.fetch_sub(1, Relaxed);
        }
        self.set_oldest(&actives);
        drop(actives);
        let mut chain = active.chain.lock();
        let freeing = FREEING * chain.chains.len() as u64;
        let undoing = chain.promised.saturating_sub(freeing);
        chain.promised -= undoing;
        self.log.release(undoing);
    }

    /// Registers a transaction that a restart has found.
    pub(crate) fn resume(&self, listed: &Listed) -> Arc<Active> {
        let active = Arc::new(Active::resumed(listed));
        let mut actives = self.active.lock();
        actives.finishing.insert(listed.number, active.clone());
        active
    }

    /// Removes a transaction that has ended.
    pub(crate) fn leave(&self, active: &Active) {
        let mut actives = self.active.lock();
        actives.finishing.remove(&active.number);
        if actives.running.remove(&active.number).is_some() {
            self.log.active.fetch_sub(1, Relaxed);
        }
        self.set_oldest(&actives);
        drop(actives);
        let promised = std::mem::take(&mut active.chain.lock().promised);
        self.log.release(promised);
    }

    /// Records that a committing transaction, which still owns the table's lock, drops
    /// the table.
    pub(crate) fn dropped(&self, table: u32) {
        self.dropped.write().insert(table);
    }

    pub(crate) fn is_dropped(&self, table: u32) -> bool {
        self.dropped.read().contains(&table)
    }

    /// Sets the number of the next transaction.
    pub(crate) fn number_from(&self, next: u64) {
        self.next.store(next.max(1), Relaxed);
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Returns all transactions that have not ended, each in its state at one moment.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let all: Vec<Arc<Active>> = {
            let actives = self.active.lock();
            let (running, finishing) = (&actives.running, &actives.finishing);
            running
                .values()
                .chain(finishing.values())
                .cloned()
                .collect()
        };
        let mut listed: Vec<Listed> = all.iter().filter_map(|active| active.listed()).collect();
        listed.sort_by_key(|active| active.number);
        listed
    }

    /// Returns the number of transactions that have written and not ended.
    pub(crate) fn active_count(&self) -> usize {
        self.active.lock().running.len()
    }
}
