//! The steps of a commit, and its locks (`docs/design/transactions.md`, "Commit").

use super::Below;
use super::changes::{Changes, Mine};
use super::merge::FilePlan;
use super::room::Merge;
use crate::epochs::capture::Take;
use crate::error::{Contended, Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::isolation::{FileReads, Kind};
use crate::layout::{Cause, Layout, Position};
use crate::locks::{Lock, Ranked};
use crate::memory::vnode::{Ground, Life, State, Vnode, WriteState};
use crate::planted::{self, Planted};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, SpillNo};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// A file of a private tree and the target's file that it will change, both locked.
pub(super) struct Pair<'a> {
    pub mine: Mine<'a>,
    pub vnode: &'a Arc<Vnode>,
    pub state: WriteState<'a>,
    pub plan: FilePlan,
    /// The file's reads by a serializable transaction.
    pub reads: Option<FileReads>,
}

/// The changes of a commit, for a caller that caches files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Files and directories with changed content or attributes.
    pub files: Vec<InodeNo>,
    /// Files among them with changed content that still exist.
    pub content: Vec<InodeNo>,
    /// Names that refer to other files, and their directories.
    pub names: Vec<(InodeNo, Vec<u8>)>,
}

/// A commit that has been merged, and the event that makes it durable.
#[must_use = "the changes are durable once it has been waited for"]
pub struct Ticket<L: Layout> {
    target: Arc<FileSystem<L>>,
    waits_for: WaitsFor,
    changed: Changed,
}

#[derive(Clone, Copy, Debug)]
enum WaitsFor {
    /// The commit of the parent transaction.
    Parent,
    /// Durability of all groups that it has read.
    Position(Position),
    /// A capture later than this one.
    CaptureAfter(u64),
}

impl<L: Layout> std::fmt::Debug for Ticket<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ticket").field(&self.waits_for).finish()
    }
}

impl<L: Layout> Ticket<L> {
    /// Its changes of files that existed before, removed files included.
    pub fn changed(&self) -> &Changed {
        &self.changed
    }

    /// Waits until the changes are durable.
    ///
    /// # Errors
    /// `NotDurable`, or the error of a failed write or flush.
    pub fn wait(self) -> Result<()> {
        match self.waits_for {
            WaitsFor::Parent => Ok(()),
            WaitsFor::Position(position) => self.target.commit(position),
            WaitsFor::CaptureAfter(before) => self.target.make_merged_durable(before),
        }
    }
}

impl<L: Layout> FileSystem<L> {
    /// Ends this private tree by merging its changes into its target.
    pub(super) fn commit_into_target(&self) -> Result<Ticket<L>> {
        let below = self
            .below
            .as_ref()
            .expect("only private trees are committed");
        if !self.close_private(below) {
            return Err(Error::Aborted); // counted when it ended
        }
        if below.is_doomed() {
            self.give_back(below);
            count(&self.store.counters.transaction_aborts, 1);
            return Err(Error::Aborted);
        }
        if let (Some(_), Kind::Locking(locking)) = (&below.target.below, &below.kind) {
            // Before any lock is asked for in the parent, which would wait for its child.
            match planted::is(Planted::ChildLocksReleased) {
                true => locking.table.release_all(locking.owner),
                false => locking.table.hand_to_parent(locking.owner),
            }
        }
        if let (true, Kind::Locking(locking)) =
            (planted::is(Planted::LocksBeforeMerge), &below.kind)
        {
            locking.table.release_all(locking.owner);
            std::thread::yield_now();
        }
        let changes = self.changed_files();
        let merged = self.merge_all(below, &changes);
        let changed = changes.told();
        self.give_back(below);
        let counters = &self.store.counters;
        let outcome = match &merged {
            Ok(_) => &counters.transaction_commits,
            Err(Error::Conflict(_)) => &counters.transaction_conflicts,
            Err(_) => &counters.transaction_refusals,
        };
        count(outcome, 1);
        Ok(Ticket {
            target: Arc::clone(&below.target),
            waits_for: merged?,
            changed,
        })
    }

    /// Pins the spills that are to be placed in the mounted tree.
    ///
    /// # Errors
    /// `Aborted` if one was given up.
    fn keep_spilled(&self, files: &[Arc<Vnode>]) -> Result<()> {
        let mut numbers: BTreeSet<SpillNo> = BTreeSet::new();
        for vnode in files {
            let state = vnode.read();
            let spilled = state
                .dirty
                .values()
                .filter_map(|dirty| dirty.data.spilled());
            numbers.extend(spilled.map(|spilled| spilled.lot.number));
        }
        let numbers: Vec<SpillNo> = numbers.into_iter().collect();
        match numbers.is_empty() {
            true => Ok(()),
            false => self.store.layout.keep_spills(&numbers),
        }
    }

    fn merge_all(&self, below: &Below<L>, changes: &Changes) -> Result<WaitsFor> {
        let target = &*below.target;
        self.want_what_was_read(below);
        if changes.is_empty() {
            if planted::is(Planted::ReadsUndurable) {
                return Ok(WaitsFor::Parent);
            }
            return Ok(match (&target.below, below.snapshot) {
                (Some(_), _) => WaitsFor::Parent,
                (None, Some((_, position))) => WaitsFor::Position(position),
                (None, None) => WaitsFor::CaptureAfter(target.captures_started.load(Acquire)),
            });
        }
        if target.below.is_none() {
            self.keep_spilled(&changes.known)?;
            self.keep_spilled(&changes.new)?;
        }
        let reads = match &below.kind {
            Kind::Serializable(reads) if below.snapshot.is_some() => reads.take(),
            _ => BTreeMap::new(),
        };
        let changed = |ino: &InodeNo| changes.known.iter().any(|mine| mine.ino == *ino);
        let only_read = reads.iter().filter(|(ino, _)| !changed(ino));
        let only_read: Vec<_> = only_read.map(|(_, read)| Arc::clone(&read.vnode)).collect();
        let files = changes.known.iter().chain(&only_read);
        let theirs = files.clone().map(|mine| same_file(target, mine));
        let theirs = theirs.collect::<Result<Vec<_>>>()?;
        let files: Vec<_> = files.cloned().collect();
        loop {
            for vnode in &theirs {
                let truncating = is_truncating(&vnode.read());
                if truncating {
                    target.finish_truncate(vnode)?;
                }
            }
            let price = self.price_of(&lock(&changes.known), &lock(&changes.new));
            let merge = target.promise_merge(&price)?;
            let all = (&files[..], &changes.new[..]);
            let highest = price.highest_block;
            if let Some(before) = self.merge(below, (merge, highest), all, &theirs, &reads)? {
                target.dirtied();
                return Ok(match &target.below {
                    Some(_) => WaitsFor::Parent,
                    None => WaitsFor::CaptureAfter(before),
                });
            }
        }
    }

    /// Merges the changes into the target: all or, with an error, none. Returns the
    /// number of captures that had begun by then; `None` if it has to be repeated.
    fn merge(
        &self,
        below: &Below<L>,
        (merge, highest_block): (Merge<'_>, u64),
        (files, new): (&[Arc<Vnode>], &[Arc<Vnode>]),
        theirs: &[Arc<Vnode>],
        reads: &BTreeMap<InodeNo, FileReads>,
    ) -> Result<Option<u64>> {
        let target = &*below.target;
        let mine = lock(files);
        let new = lock(new);
        let _operation = merge.enter(target);
        let directories = theirs.iter().filter(|v| v.kind == FileKind::Directory);
        let many = directories.count() > 1;
        let _rename =
            many.then(|| Ranked::take(target.level.rank(Lock::Rename), || target.rename.lock()));
        let mut pairs = target.lock_in_order(mine, theirs)?;
        if pairs.iter().any(|pair| is_truncating(&pair.state)) {
            return Ok(None);
        }
        for pair in &mut pairs {
            pair.reads = reads.get(&pair.vnode.ino).cloned();
            self.validate(below, pair)?;
        }
        pairs.retain(Pair::is_changed);
        self.validate_moves(target, &pairs, &new)?;
        for pair in &mut pairs {
            target.prepare_cut(pair)?;
            let waiting = pair.mine.state.appending();
            let end = target.end_with(pair.state.inode.size, waiting)?;
            if !waiting.is_empty() && target.store.blocks_of(end) > highest_block {
                return Ok(None);
            }
            pair.plan = target.plan_file(pair)?;
        }
        target.merge_names(&mut pairs)?;
        // Nothing fails from here on.
        let now = target.now();
        for pair in &mut pairs {
            target.merge_file(pair, now);
        }
        for mine in new {
            self.hand_over(target, mine);
        }
        // Read within the gate: none of these captures has seen any of the changes. And
        // all files are locked, so no operation finds a name without its file, or one
        // file without another.
        Ok(Some(target.captures_started.load(Acquire)))
    }

    /// Locks files of this tree: directories from the root down, then other files by
    /// number. The caller has the rename lock if there are several directories.
    fn lock_in_order<'a>(
        &self,
        mine: Vec<Mine<'a>>,
        theirs: &'a [Arc<Vnode>],
    ) -> Result<Vec<Pair<'a>>> {
        let mut order = Vec::with_capacity(mine.len());
        for (mine, vnode) in mine.into_iter().zip(theirs) {
            let depth = match vnode.kind {
                FileKind::Directory => self.depth(vnode)?,
                _ => usize::MAX,
            };
            order.push(((depth, vnode.ino), mine, vnode));
        }
        order.sort_unstable_by_key(|(place, ..)| *place);
        let pair = |(_, mine, vnode): (_, Mine<'a>, &'a Arc<Vnode>)| Pair {
            mine,
            vnode,
            state: match vnode.kind {
                FileKind::Directory => vnode.write_directory(),
                _ => vnode.write(),
            },
            plan: FilePlan::default(),
            reads: None,
        };
        Ok(order.into_iter().map(pair).collect())
    }

    /// Depth of this directory below the root. It may have been removed; a removed one's
    /// parent may be removed as well, and a damaged tree may contain a circle.
    fn depth(&self, vnode: &Arc<Vnode>) -> Result<usize> {
        let mut seen = Vec::new();
        let mut at = Arc::clone(vnode);
        while at.ino != InodeNo::ROOT && !seen.contains(&at.ino) {
            seen.push(at.ino);
            match self.vnode(InodeNo(at.above.load(Relaxed))) {
                Ok(above) => at = above,
                Err(Error::Stale) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(seen.len())
    }

    /// Adds to the group for which a locking transaction waits the data that it read and
    /// that is not logged yet: durable changes must not depend on data that a crash
    /// loses.
    fn want_what_was_read(&self, below: &Below<L>) {
        if below.target.below.is_some() || below.snapshot.is_some() {
            return;
        }
        for vnode in self.table.all() {
            if let Ground::Vnode(ground) = &vnode.ground
                && ground.read().has_data()
            {
                below.target.queues().wanted.push(Arc::clone(ground));
            }
        }
    }

    /// Makes changes durable that were merged when `before` captures had begun.
    fn make_merged_durable(&self, before: u64) -> Result<()> {
        let position = {
            let mut writer = self.writer();
            match self.captures_finished.load(Acquire) > before {
                true => Position(self.appended.load(Acquire)),
                false => self.capture(&mut writer, Take::Wanted, Cause::Sync)?,
            }
        };
        if planted::is(Planted::CommitUnflushed) {
            return Ok(());
        }
        self.commit(position)
    }
}

/// True while a file is being truncated in steps. A file removed since then keeps the
/// flag, and must not be waited for.
fn is_truncating(state: &State) -> bool {
    state.life == Life::Live && state.inode.flags & flags::TRUNCATING != 0
}

impl Pair<'_> {
    /// True if the file was changed, and not only read.
    pub(super) fn is_changed(&self) -> bool {
        let state = &self.mine.state;
        state.life != Life::Live || state.in_epoch || state.queued != 0
    }
}

fn lock(files: &[Arc<Vnode>]) -> Vec<Mine<'_>> {
    let mine = |vnode| Mine {
        vnode,
        state: Vnode::write(vnode),
    };
    files.iter().map(mine).collect()
}

/// The very same file in the target.
fn same_file<L: Layout>(target: &FileSystem<L>, mine: &Vnode) -> Result<Arc<Vnode>> {
    match target.vnode(mine.ino) {
        Ok(vnode) if vnode.version == mine.version => Ok(vnode),
        Ok(_) | Err(Error::Stale) => Err(Error::conflict(mine.ino, Contended::File)),
        Err(error) => Err(error),
    }
}
