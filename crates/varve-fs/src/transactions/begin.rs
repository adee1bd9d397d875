//! Making a private tree, and ending it.

use super::{Below, Isolation, Transaction, TransactionOptions};
use crate::account::SpaceAccount;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Kind, Locking, Snapshot};
use crate::layout::Layout;
use crate::memory::passages::Passages;
use crate::memory::queues::{NOT_WOKEN, Queues};
use crate::memory::vnode::{Ground, Life};
use crate::memory::vnode_table::{SHARDS_PRIVATE, VnodeTable};
use crate::memory::waits::Waits;
use crate::memory::writer::Writer;
use crate::options::Atime;
use crate::statistics::count;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use varve_device::sync::atomic::{AtomicBool, AtomicU64};
use varve_device::sync::{Mutex, RwLock};
use varve_locks::LockTable;

impl<L: Layout> FileSystem<L> {
    /// Begins a transaction; one within it, in a transaction's tree.
    ///
    /// # Errors
    /// `NotSupported` if the layout has no snapshots, `ReadOnly`, `Aborted` if the
    /// volume is being unmounted, what a group fails to be written with.
    pub fn begin_transaction(
        self: &Arc<Self>,
        options: &TransactionOptions,
    ) -> Result<Transaction<L>> {
        self.check_writable()?;
        if self.below.is_some() {
            return self.begin_upon_this();
        }
        let (snapshot, kind) = match options.isolation {
            Isolation::Snapshot => (Some(self.take_snapshot()?), Kind::Snapshot),
            Isolation::Serializable => {
                let reads = Kind::Serializable(Arc::default());
                (Some(self.take_snapshot()?), reads)
            }
            Isolation::Locking => (None, Kind::Locking(self.locking(options))),
        };
        self.begin_private(snapshot, kind)
    }

    fn locking(&self, options: &TransactionOptions) -> Locking {
        let table = self
            .locks
            .get_or_init(|| Arc::new(LockTable::new(Arc::clone(&self.clock))));
        Locking {
            table: Arc::clone(table),
            owner: table.begin(None),
            timeout: options.timeout,
            subpage: options.subpage,
            doomed: AtomicBool::new(false),
        }
    }

    /// Begins a transaction upon this tree, a transaction's, as it is.
    ///
    /// # Errors
    /// `Aborted` after its end, `Invalid` if too many lie within each other.
    pub fn begin_upon_this(self: &Arc<Self>) -> Result<Transaction<L>> {
        self.check_writable()?;
        let below = self.below.as_ref();
        let kind = match below.map(|below| &below.kind) {
            None | Some(Kind::Snapshot) => Kind::Snapshot,
            Some(Kind::Serializable(reads)) => Kind::Serializable(Arc::clone(reads)),
            Some(Kind::Locking(parent)) => Kind::Locking(Locking {
                table: Arc::clone(&parent.table),
                owner: parent.table.begin(Some(parent.owner)),
                timeout: parent.timeout,
                subpage: parent.subpage,
                doomed: AtomicBool::new(false),
            }),
        };
        self.begin_private(None, kind)
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
        let tree = Arc::new(self.private(snapshot, kind)?);
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
            Some(_) => self.read_times_max,
            None => usize::MAX,
        };
        let usage = self.space.present();
        Ok(FileSystem {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            level,
            table: VnodeTable::new(vnodes, SHARDS_PRIVATE, level),
            passages: Passages::new(vnodes.min(self.read_times_max), 1),
            space: SpaceAccount::new(usage),
            read_ahead: Arc::clone(&self.read_ahead),
            below: Some(Below {
                target: Arc::clone(self),
                snapshot: snapshot.as_ref().map(|held| (held.number, held.position)),
                holds: Mutex::new(snapshot),
                usage,
                charged: AtomicU64::new(0),
                kind,
                ended: AtomicBool::new(false),
                put_aside: Mutex::default(),
            }),
            open: Mutex::default(),
            snapshots: Mutex::new(Weak::new()),
            locks: OnceLock::new(),
            budget: Arc::clone(&self.budget),
            writer: Mutex::new(Writer::default()),
            gate: RwLock::new(()),
            rename: Mutex::new(()),
            queues: Mutex::new(Queues::default()),
            waker: RwLock::new(None),
            write_back_until: AtomicU64::new(NOT_WOKEN),
            seal_due: AtomicBool::new(false),
            captures_started: AtomicU64::new(0),
            captures_finished: AtomicU64::new(0),
            appended: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            waits: Waits::default(),
            failed: Mutex::new(None),
            keep_written: self.keep_written,
            has_failed: AtomicBool::new(false),
            reaping: AtomicU64::new(0),
            start_write_bytes: u64::MAX,
            stop_access_bytes: u64::MAX,
            strict_order: false,
            atime: Atime::Never,
            step_blocks: u64::MAX,
            read_times_max: self.read_times_max,
        })
    }

    /// From now on a private tree takes no change, and none is under way. False if
    /// that was so already.
    pub(crate) fn close_private(&self, below: &Below<L>) -> bool {
        if below.ended.swap(true, SeqCst) {
            return false;
        }
        if let Kind::Locking(locking) = &below.kind {
            // Who waits for a lock does not hold up the end.
            locking.table.cancel(locking.owner);
        }
        drop(self.space.crowd.turn());
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
        self.end_open();
        for vnode in self.table.drain() {
            if let Ground::Vnode(ground) = &vnode.ground {
                below.target.let_go(ground, 1);
            }
            let mut state = vnode.write();
            let is_new = !state.logged.ever && state.private.is_none();
            if is_new && state.life == Life::Live {
                self.store.layout.forget_inode(vnode.ino);
            }
            state.life = Life::Freed;
        }
        drop(below.holds.lock().take());
        if let Kind::Locking(locking) = &below.kind {
            locking.table.end(locking.owner);
        }
        *self.queues() = Queues::default();
        for ino in std::mem::take(&mut *below.put_aside.lock()) {
            self.store.layout.forget_inode(ino);
        }
        self.budget.gave_back(below.charged.swap(0, SeqCst));
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
