//! Counters of what the file system did since it was mounted.

use std::sync::atomic::{AtomicU64, Ordering};
use varve_device::Lanes;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since mount, but for `dirty_bytes`, `cached_bytes`, `vnodes` and
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
            /// Transactions under way, nested ones not included.
            pub transactions_open: u64,
            /// Locks of transactions, and of whoever uses protected files outside.
            pub locks: varve_locks::Statistics,
        }

        /// What some of the threads counted.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub $name: AtomicU64,)*
        }

        /// What all threads counted.
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
    /// Blocks read before anyone asked for them.
    read_ahead_blocks,
    /// Read requests handed to the layout.
    layout_reads,
    /// Groups appended.
    groups,
    /// Data blocks in those groups.
    group_blocks,
    /// Bytes of data in those groups.
    group_bytes,
    /// Inode images in those groups.
    group_inodes,
    /// Groups of these that were kept small because small files were made durable at the
    /// same time.
    small_groups,
    /// Commits asked of the layout.
    commits,
    /// fsyncs that found their data captured by somebody else's group.
    shared_captures,
    /// Writers that had to write back because too much was dirty.
    stalls,
    /// Blocks whose stored bytes were not what was written.
    damaged_blocks,
    /// Look-ups.
    lookups,
    /// Paths to directories that were remembered.
    passages,
    /// Reads.
    reads,
    /// Bytes read.
    read_bytes,
    /// Writes, appends included.
    writes,
    /// Bytes written.
    written_bytes,
    /// Files, directories and others made.
    creates,
    /// Names removed.
    unlinks,
    /// Renames.
    renames,
    /// Attribute changes.
    setattrs,
    /// fsync and fdatasync.
    fsyncs,
    /// Inodes freed.
    frees,
    /// Transactions begun, nested ones included.
    transactions,
    /// Transactions whose changes became part of another tree, or that had none.
    transaction_commits,
    /// Transactions that met a conflict at their commit.
    transaction_conflicts,
    /// Transactions whose commit was refused for another reason: no room, no more
    /// changes taken, ended before.
    transaction_refusals,
    /// Blocks of transactions that were written before their commit.
    transaction_spilled_blocks,
    /// Transactions that ended without a commit.
    transaction_aborts,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
