//! Making and ending a private tree.

use super::{Below, Isolation, Transaction, TransactionOptions};
use crate::error::{Error, Result};
use crate::file_system::{FileSystem, Parts, Settings};
use crate::isolation::{Kind, Locking, Snapshot};
use crate::layout::Layout;
use crate::memory::passages::Passages;
use crate::memory::queues::Queues;
use crate::memory::vnode::{Ground, Life};
use crate::memory::vnode_table::{SHARDS_PRIVATE, VnodeTable};
use crate::options::Atime;
use crate::planted::{self, Planted};
use crate::statistics::count;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Weak};
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicBool, AtomicU64};
use varve_locks::{LockTable, LockTableOptions};

impl<L: Layout> FileSystem<L> {
    /// Begins a transaction. In a transaction's tree it is nested and has the same
    /// isolation: its commit merges into the outer transaction, which takes no other
    /// calls meanwhile and no second nested transaction (`Suspended`).
    ///
    /// # Errors
    /// `NotSupported` if the layout has no snapshots, `ReadOnly`, `Aborted` if the volume
    /// is being unmounted or the outer transaction has ended, `Suspended` if another
    /// nested one is open, `Invalid` beyond the greatest depth, errors of writing a
    /// group.
    pub fn begin_transaction(
        self: &Arc<Self>,
        options: &TransactionOptions,
    ) -> Result<Transaction<L>> {
        self.check_writable()?;
        if let Some(below) = &self.below {
            let kind = match &below.kind {
                Kind::Snapshot | Kind::ReadOnly => Kind::Snapshot,
                Kind::Serializable(reads) => Kind::Serializable(Arc::clone(reads)),
                Kind::Locking(parent) => {
                    self.place_all(parent)?;
                    Kind::Locking(parent.nested())
                }
            };
            return self.begin_private(None, kind);
        }
        let (snapshot, kind) = match options.isolation {
            Isolation::Snapshot => (Some(self.take_snapshot()?), Kind::Snapshot),
            Isolation::Serializable => {
                let reads = Kind::Serializable(Arc::default());
                (Some(self.take_snapshot()?), reads)
            }
            Isolation::Locking if !self.store.geometry.snapshots => {
                return Err(Error::NotSupported);
            }
            Isolation::Locking => (None, Kind::Locking(self.locking(options))),
        };
        self.begin_private(snapshot, kind)
    }

    fn locking(&self, options: &TransactionOptions) -> Locking {
        let table = self.locks.get_or_init(|| {
            let options = LockTableOptions {
                detection: self.settings.deadlocks,
                ..LockTableOptions::default()
            };
            Arc::new(LockTable::with_options(Arc::clone(&self.clock), options))
        });
        Locking::new(table, None, options.timeout, options.subpage)
    }

    /// Examines all waits for locks, and aborts one transaction of each deadlock. Returns
    /// the number aborted. There is none where deadlocks are searched for [at each
    /// wait](varve_locks::Detection::AtWait).
    pub fn detect_deadlocks(&self) -> usize {
        let locks = self.locks.get();
        locks.map_or(0, |locks| locks.detect().len())
    }

    fn begin_private(
        self: &Arc<Self>,
        snapshot: Option<Arc<Snapshot<L>>>,
        kind: Kind,
    ) -> Result<Transaction<L>> {
        let tree = self.make_private(snapshot, kind)?;
        count(&self.store.counters.transactions, 1);
        Ok(Transaction { tree })
    }

    /// Makes a private tree, and enters it among those on this one.
    pub(crate) fn make_private(
        self: &Arc<Self>,
        snapshot: Option<Arc<Snapshot<L>>>,
        kind: Kind,
    ) -> Result<Arc<Self>> {
        let mut open = self.open.lock();
        if open.closed {
            return Err(Error::Aborted);
        }
        let has_inner = |outer: &Below<L>| outer.has_inner.load(SeqCst);
        if self.below.as_ref().is_some_and(has_inner) {
            return Err(Error::Suspended);
        }
        let tree = Arc::new(self.private(snapshot, kind)?);
        if let Some(outer) = &self.below {
            // Another thread that begins a transaction here waits for the mutex of
            // `open`.
            outer.has_inner.store(true, SeqCst);
            outer.is_suspended.store(true, SeqCst);
            if self.has_appending(outer) {
                // Another thread has appended since all bytes were placed.
                tree.end_private();
                return Err(Error::Suspended);
            }
        }
        open.trees.retain(|tree| tree.strong_count() > 0);
        open.trees.push(Arc::downgrade(&tree));
        Ok(tree)
    }

    /// Number of transactions on this tree that have not ended.
    pub(crate) fn open_transactions(&self) -> u64 {
        let open = self.open.lock();
        let trees = open.trees.iter().filter_map(Weak::upgrade);
        let changes = |tree: &Arc<Self>| !tree.has_ended() && !tree.is_read_only();
        trees.filter(changes).count() as u64
    }

    /// A tree of a snapshot of the volume.
    fn is_read_only(&self) -> bool {
        let below = self.below.as_ref();
        below.is_some_and(|below| matches!(below.kind, Kind::ReadOnly))
    }

    /// True for a transaction's tree that takes no more changes.
    pub fn has_ended(&self) -> bool {
        let below = self.below.as_ref();
        below.is_some_and(|below| below.ended.load(Relaxed))
    }

    fn private(
        self: &Arc<Self>,
        snapshot: Option<Arc<Snapshot<L>>>,
        kind: Kind,
    ) -> Result<FileSystem<L>> {
        let level = self.level.upon();
        let level = level.ok_or(Error::Invalid("too many transactions within each other"))?;
        // A private tree above another tree keeps its references to that tree's files.
        let vnodes = match snapshot {
            Some(_) => self.settings.read_times_max,
            None => usize::MAX,
        };
        let usage = self.space.present();
        Ok(FileSystem::new(Parts {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            read_ahead: Arc::clone(&self.read_ahead),
            budget: Arc::clone(&self.budget),
            level,
            table: VnodeTable::new(vnodes, SHARDS_PRIVATE, level),
            passages: Passages::new(vnodes.min(self.settings.read_times_max), 1),
            below: Some(Below {
                target: Arc::clone(self),
                snapshot: snapshot.as_ref().map(|held| (held.number, held.position)),
                holds: Mutex::new(snapshot),
                usage,
                charged: AtomicU64::new(0),
                kind,
                ended: AtomicBool::new(false),
                too_large: AtomicBool::new(false),
                has_inner: AtomicBool::new(false),
                is_suspended: AtomicBool::new(false),
                put_aside: Mutex::default(),
                spilling: Mutex::default(),
            }),
            usage,
            // A private tree is never written back, and no work in it is done in steps.
            settings: Settings {
                start_write_bytes: u64::MAX,
                stop_access_bytes: u64::MAX,
                strict_order: false,
                atime: Atime::Never,
                step_blocks: u64::MAX,
                ..self.settings
            },
        }))
    }

    /// Closes a private tree: it takes no change, no operation on it runs, and no tree is
    /// above it. Returns false if it was closed already.
    pub(crate) fn close_private(&self, below: &Below<L>) -> bool {
        if below.ended.swap(true, SeqCst) {
            return false;
        }
        if let Kind::Locking(locking) = &below.kind {
            // An operation that waits for a lock must not delay the end.
            locking.table.cancel(locking.owner);
        }
        drop(self.space.crowd.turn());
        self.end_open();
        if let Some(outer) = &below.target.below {
            outer.is_suspended.store(false, SeqCst);
        }
        true
    }

    /// Ends a private tree that has not been committed, and drops all its changes.
    pub(crate) fn end_private(&self) {
        let Some(below) = &self.below else { return };
        if self.close_private(below) {
            self.give_back(below);
            let aborted = u64::from(!self.is_read_only());
            count(&self.store.counters.transaction_aborts, aborted);
        }
    }

    /// Returns a closed tree's references to files of other trees, and the numbers of its
    /// new files.
    pub(crate) fn give_back(&self, below: &Below<L>) {
        for vnode in self.table.drain() {
            if let Ground::Vnode(ground) = &vnode.ground {
                below.target.let_go(ground, 1);
            }
            let mut state = vnode.write();
            let is_new = !state.logged.ever && state.private.is_none();
            if is_new && state.life == Life::Live {
                below.put_aside.lock().push(vnode.ino);
            }
            state.life = Life::Freed;
        }
        drop(below.holds.lock().take());
        if let Kind::Locking(locking) = &below.kind
            && !planted::is(Planted::LocksKept)
        {
            locking.table.end(locking.owner);
        }
        *self.queues() = Queues::default();
        for ino in std::mem::take(&mut *below.put_aside.lock()) {
            below.target.number_is_free(ino);
        }
        self.budget.gave_back(below.charged.swap(0, SeqCst));
        if let Some(outer) = &below.target.below {
            outer.has_inner.store(false, SeqCst);
        }
    }

    /// Ends all transactions that were begun on this tree, and lets none begin.
    pub(crate) fn end_open(&self) {
        let trees = {
            let mut open = self.open.lock();
            open.closed = true;
            std::mem::take(&mut open.trees)
        };
        for tree in trees.iter().filter_map(Weak::upgrade) {
            tree.end_private();
        }
    }
}
