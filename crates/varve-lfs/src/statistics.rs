//! Counters of the layout: what was written and read, and why.

use crate::failures::FailureLog;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters, bumped without locks.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Requests that wait for the device at this moment.
            pub users: AtomicU64,
            /// The last failures of the device.
            pub failures: FailureLog,
        }

        /// A reading of the counters.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Statistics { $($(#[$doc])* pub $name: u64),* }

        impl Counters {
            /// Does something while counted among those who use the device.
            pub fn using<T>(&self, request: impl FnOnce() -> T) -> T {
                self.users.fetch_add(1, Relaxed);
                let outcome = request();
                self.users.fetch_sub(1, Relaxed);
                outcome
            }

            /// Reads every counter.
            pub fn read(&self) -> Statistics {
                Statistics { $($name: self.$name.load(Relaxed)),* }
            }
        }

        impl Statistics {
            /// Every counter with its name, in declaration order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    /// Requests that read the device.
    device_reads,
    /// Bytes they read.
    bytes_read,
    /// Reads tried again after a device error.
    read_retries,
    /// Reads that trying again cured.
    reads_cured,
    /// Reads that failed for good.
    reads_failed,
    /// Reads tried again after a wrong checksum.
    checksum_retries,
    /// Wrong checksums that reading again cured.
    checksums_cured,
    /// Blocks whose checksum stayed wrong.
    checksum_failures,
    /// Misses served from a window read for a neighbour.
    window_hits,
    /// Windows read.
    windows_read,
    /// Windows of these that threads fetched before anybody asked.
    windows_ahead,
    /// Requests that wrote the device.
    device_writes,
    /// Writes tried again after a device error.
    write_retries,
    /// Writes that trying again cured.
    writes_cured,
    /// Writes that failed for good at their place.
    writes_failed,
    /// Partial segments whose write failed for good and whose content was
    /// stored elsewhere.
    relocated_partials,
    /// Flushes issued.
    flushes,
    /// Flushes that failed: the first one stops the volume.
    flushes_failed,
    /// Groups appended.
    groups,
    /// Partial segments written.
    partials,
    /// Bytes of user data and directories appended by groups.
    data_bytes,
    /// Bytes of inodes.
    inode_bytes,
    /// Bytes of summaries.
    summary_bytes,
    /// Bytes of padding to the write unit and to segment ends.
    padding_bytes,
    /// Bytes of index nodes.
    node_bytes,
    /// Bytes of ifile blocks.
    ifile_bytes,
    /// Bytes the cleaner moved.
    cleaner_bytes,
    /// Bytes the cleaner read.
    cleaner_read_bytes,
    /// Checkpoints completed.
    checkpoints,
    /// Segments cleaned that held live blocks.
    segments_cleaned,
    /// Segments found empty.
    segments_emptied,
    /// Segments opened for writing.
    segments_opened,
    /// Moves dropped because the block had changed.
    stale_moves,
    /// Nanoseconds that the cleaner's thread rested between segments.
    cleaner_rest_ns,
    /// Nanoseconds that writers waited for the cleaner to keep pace.
    toll_ns,
}
