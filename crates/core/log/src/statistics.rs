//! Counters of the layout: what was written and read, and why.

use crate::failures::FailureLog;
use crate::policy::TransferModel;
use crate::speed::Speed;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Steps of a histogram of utilisation: a tenth each.
pub const STEPS: usize = 10;

/// The step of a histogram for so many live bytes in a segment of so many.
pub fn step_of(live_bytes: u64, room_bytes: u64) -> usize {
    let steps = STEPS as u64;
    let step = live_bytes.saturating_mul(steps) / room_bytes.max(1);
    step.min(steps - 1) as usize
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters, bumped without locks.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Segments cleaned, by their utilisation then, in equal steps;
            /// empty ones are `segments_emptied`.
            pub cleaned_by_utilisation: [AtomicU64; STEPS],
            /// Requests that wait for the device at this moment.
            pub users: AtomicU64,
            /// The last failures of the device.
            pub failures: FailureLog,
            /// How fast the device is.
            pub speed: Speed,
        }

        /// A reading of the counters.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
            /// Segments cleaned, by their utilisation then, in equal steps;
            /// empty ones are `segments_emptied`.
            pub cleaned_by_utilisation: [u64; STEPS],
        }

        impl Counters {
            /// Does something while counted among those who use the device.
            pub fn using<T>(&self, request: impl FnOnce() -> T) -> T {
                self.users.fetch_add(1, Relaxed);
                let outcome = request();
                self.users.fetch_sub(1, Relaxed);
                outcome
            }

            /// The same, with a request that moves so many bytes. What it took
            /// tells of the device, unless others were there before it.
            pub fn moving<T, E>(
                &self,
                bytes: u64,
                request: impl FnOnce() -> Result<T, E>,
            ) -> Result<T, E> {
                let alone = self.users.fetch_add(1, Relaxed) == 0;
                let outcome = match alone {
                    true => self.speed.timed(bytes, request),
                    false => request(),
                };
                self.users.fetch_sub(1, Relaxed);
                outcome
            }

            /// Reads every counter.
            pub fn read(&self) -> Statistics {
                Statistics {
                    $($name: self.$name.load(Relaxed),)*
                    cleaned_by_utilisation: self
                        .cleaned_by_utilisation
                        .each_ref()
                        .map(|count| count.load(Relaxed)),
                }
            }
        }

        impl Statistics {
            /// Every single counter with its name, in declaration order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    /// Segments given back ahead of checkpoints, among `segments_emptied`.
    segments_vacated,
    /// Bytes of zeros written to holes of the device ahead of the log.
    ahead_bytes,
    /// Bytes that users' partial segments took in the log, whole.
    user_log_bytes,
    /// Requests that read the device.
    device_reads,
    /// Bytes they read, but for those of verifications.
    bytes_read,
    /// Bytes read for blocks of files and directories.
    data_read_bytes,
    /// Bytes read for index nodes, inodes, attributes and the ifile.
    metadata_read_bytes,
    /// Bytes the cleaner read.
    cleaner_read_bytes,
    /// Bytes that coalescing read.
    coalesced_read_bytes,
    /// Bytes read of the log as a log: by recovery.
    recovery_read_bytes,
    /// Bytes that verifications read.
    verified_read_bytes,
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
    /// Bytes they wrote.
    bytes_written,
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
    /// Bytes of users' blocks appended by groups: data, directories,
    /// attributes.
    data_bytes,
    /// Bytes of inodes, but for those the cleaner moved.
    inode_bytes,
    /// Bytes of summaries.
    summary_bytes,
    /// Bytes of maps of segments whose holes were written into.
    map_bytes,
    /// Bytes of users' blocks, among `data_bytes`, that were written into holes.
    plugged_bytes,
    /// Segments whose holes were written into.
    segments_plugged,
    /// Bytes of padding to the write unit.
    padding_bytes,
    /// Bytes of index nodes, the ifile's included.
    node_bytes,
    /// Bytes of the inode map and the list of unfinished inodes.
    inode_map_bytes,
    /// Bytes of the segment usage table.
    usage_table_bytes,
    /// Bytes of checkpoint records, owner records and cleared leftovers.
    record_bytes,
    /// Bytes of blocks and inodes the cleaner moved.
    cleaner_bytes,
    /// Bytes of blocks that coalescing moved.
    coalesced_bytes,
    /// All bytes of the cleaner's partial segments, those of coalescing
    /// included.
    cleaner_log_bytes,
    /// All bytes of checkpoints' partial segments.
    checkpoint_log_bytes,
    /// Bytes at the ends of segments that were passed over, not written.
    skipped_bytes,
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
    /// Nanoseconds it has waited for users between two portions.
    cleaner_way_ns,
    /// Nanoseconds that writers waited for the cleaner to keep pace.
    toll_ns,
}

impl Statistics {
    /// Bytes written to the device by cause. Once nothing is on its way they
    /// add up to `bytes_written`.
    pub fn written_by_cause(&self) -> [(&'static str, u64); 12] {
        [
            ("data", self.data_bytes),
            ("inodes", self.inode_bytes),
            ("index_nodes", self.node_bytes),
            ("inode_map", self.inode_map_bytes),
            ("usage_table", self.usage_table_bytes),
            ("records", self.record_bytes),
            ("summaries", self.summary_bytes),
            ("maps", self.map_bytes),
            ("padding", self.padding_bytes),
            ("cleaner", self.cleaner_bytes),
            ("coalescing", self.coalesced_bytes),
            ("ahead", self.ahead_bytes),
        ]
    }

    /// Bytes read from the device by cause. But for verifications they add up
    /// to `bytes_read`.
    pub fn read_by_cause(&self) -> [(&'static str, u64); 6] {
        [
            ("data", self.data_read_bytes),
            ("metadata", self.metadata_read_bytes),
            ("cleaner", self.cleaner_read_bytes),
            ("coalescing", self.coalesced_read_bytes),
            ("recovery", self.recovery_read_bytes),
            ("verification", self.verified_read_bytes),
        ]
    }

    /// Bytes written per byte of users' blocks; 1 at best, 0 if there were
    /// none.
    pub fn write_amplification(&self) -> f64 {
        match self.data_bytes {
            0 => 0.0,
            data => self.bytes_written as f64 / data as f64,
        }
    }

    /// Write cost: bytes that new data and the cleaner move to and from the
    /// device, per byte of new data; 1 at best, 0 if nothing was written. What
    /// the cleaner writes counts with its summaries and padding. Coalescing
    /// counts as cleaning.
    ///
    /// Source: Rosenblum & Ousterhout 1992, §3.4; Wang & Hu 2002, §4.1.
    pub fn write_cost(&self) -> f64 {
        let cleaning = self.cleaner_log_bytes + self.cleaner_read_bytes + self.coalesced_read_bytes;
        match self.data_bytes {
            0 => 0.0,
            data => (data + cleaning) as f64 / data as f64,
        }
    }

    /// Overall write cost: the write cost times what seeks and rotation cost
    /// a disk like `model` on top of each transfer. The paper takes the size
    /// of a segment for that of a transfer; here it is the mean size of the
    /// requests that wrote, as small groups are written when somebody waits.
    ///
    /// Source: Wang & Hu 2002, §4.1.
    pub fn overall_write_cost(&self, model: &TransferModel) -> f64 {
        if self.bytes_written == 0 {
            return 0.0;
        }
        let request = self.bytes_written as f64 / self.device_writes.max(1) as f64;
        self.write_cost() * (model.access_s * model.bandwidth / request + 1.0)
    }
}
