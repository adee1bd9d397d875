//! Counters of the file system's work since it was mounted.

use std::sync::atomic::{AtomicU64, Ordering};
use varve_device::Lanes;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since mount, except for `dirty_bytes`, `cached_bytes`, `vnodes` and
        /// `transactions_open`, which are levels.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FsStatistics {
            $($(#[$doc])* pub $name: u64,)*
            /// Bytes of changes that wait in memory.
            pub dirty_bytes: u64,
            /// Bytes of clean blocks in the cache.
            pub cached_bytes: u64,
            /// Vnodes in memory.
            pub vnodes: u64,
            /// Open transactions, nested ones excluded.
            pub transactions_open: u64,
            /// Locks of transactions, and of callers that use protected files outside of
            /// transactions.
            pub locks: varve_locks::Statistics,
        }

        /// Counters of one lane, shared by some of the threads.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub $name: AtomicU64,)*
        }

        /// Sums of all lanes.
        pub(crate) fn sum(counters: &Lanes<Counters>) -> FsStatistics {
            let mut sums = FsStatistics::default();
            for lane in counters.iter() {
                $(sums.$name += lane.$name.load(Ordering::Relaxed);)*
            }
            sums
        }
    };
}

counters! {
    /// Blocks found in memory.
    hits,
    /// Blocks that had to be read.
    misses,
    /// Blocks read before they were asked for.
    read_ahead_blocks,
    /// Read requests to the layout.
    layout_reads,
    /// Groups appended.
    groups,
    /// Data blocks in those groups.
    group_blocks,
    /// Bytes of data in those groups.
    group_bytes,
    /// Inode images in those groups.
    group_inodes,
    /// Groups that were kept small because small files were made durable at the same
    /// time.
    small_groups,
    /// Commits requested from the layout.
    commits,
    /// fsyncs that found their data in a group captured for another caller.
    shared_captures,
    /// Writes that had to write back first because too much was dirty.
    stalls,
    /// Blocks whose stored bytes differ from those that were written.
    damaged_blocks,
    /// Look-ups of names.
    lookups,
    /// Walks answered by the path cache.
    passages,
    /// Read calls.
    reads,
    /// Bytes read.
    read_bytes,
    /// Write calls, appends included.
    writes,
    /// Bytes written.
    written_bytes,
    /// Files, directories and special files made.
    creates,
    /// Names removed.
    unlinks,
    /// Names moved.
    renames,
    /// Changes of attributes.
    setattrs,
    /// Calls of fsync and fdatasync.
    fsyncs,
    /// Inodes freed.
    frees,
    /// Transactions begun, nested ones included.
    transactions,
    /// Transactions that committed, with changes or without.
    transaction_commits,
    /// Transactions that met a conflict at their commit.
    transaction_conflicts,
    /// Transactions whose commit was refused for another reason: no space, no more
    /// changes taken, ended before.
    transaction_refusals,
    /// Blocks of transactions that were written before their commit.
    transaction_spilled_blocks,
    /// Transactions that ended without a commit.
    transaction_aborts,
}

/// Adds `by` to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
