//! Making a private tree, and ending it.

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
    /// Begins a transaction. In a transaction's tree, one within it, isolated as that
    /// one is: what it commits becomes part of that one, in which nothing else is done
    /// meanwhile, and nothing else begun (`Suspended`).
    ///
    /// # Errors
    /// `NotSupported` if the layout has no snapshots, `ReadOnly`, `Aborted` if the
    /// volume is being unmounted or the outer one has ended, `Suspended` if another
    /// within it is open, `Invalid` if too many lie within each other, what a group fails to be written with.
    pub fn begin_transaction(
        self: &Arc<Self>,
        options: &TransactionOptions,
    ) -> Result<Transaction<L>> {
        self.check_writable()?;
        if let Some(below) = &self.below {
            let kind = match &below.kind {
                Kind::Snapshot => Kind::Snapshot,
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

    /// Looks at everybody who waits for a lock, and aborts one of each deadlock. Answers
    /// how many. There is none where they are looked for [at each
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
            // Others that begin one here wait for the mutex of the open.
            outer.has_inner.store(true, SeqCst);
            outer.is_suspended.store(true, SeqCst);
            if self.has_appending(outer) {
                // By another thread, since it was all placed.
                tree.end_private();
                return Err(Error::Suspended);
            }
        }
        open.trees.retain(|tree| tree.strong_count() > 0);
        open.trees.push(Arc::downgrade(&tree));
        count(&self.store.counters.transactions, 1);
        Ok(Transaction { tree })
    }

    /// Transactions on this tree that have not ended.
    pub(crate) fn open_transactions(&self) -> u64 {
        let open = self.open.lock();
        let trees = open.trees.iter().filter_map(Weak::upgrade);
        trees.filter(|tree| !tree.has_ended()).count() as u64
    }

    /// A transaction's tree that takes no more changes.
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
        // What stands on a tree keeps what it holds of it.
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
            // It is never written back, and nothing in it is done in steps.
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

    /// From now on a private tree takes no change, none is under way, and nothing stands
    /// on it. False if that was so already.
    pub(crate) fn close_private(&self, below: &Below<L>) -> bool {
        if below.ended.swap(true, SeqCst) {
            return false;
        }
        if let Kind::Locking(locking) = &below.kind {
            // Who waits for a lock does not hold up the end.
            locking.table.cancel(locking.owner);
        }
        drop(self.space.crowd.turn());
        self.end_open();
        if let Some(outer) = &below.target.below {
            outer.is_suspended.store(false, SeqCst);
        }
        true
    }

    /// Ends a private tree that has not been committed: nothing of it remains.
    pub(crate) fn end_private(&self) {
        let Some(below) = &self.below else { return };
        if self.close_private(below) {
            self.give_back(below);
            count(&self.store.counters.transaction_aborts, 1);
        }
    }

    /// Gives back what a closed tree holds of others, and the numbers of its new
    /// files.
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

    /// Ends all transactions that were begun on this tree; none begins any more.
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
