//! The log manager: records in a stream of bytes, durable in their order.
//!
//! Invariants:
//! - A record's LSN is its position in the stream; records are appended under one mutex,
//!   so LSNs ascend in the order of the changes.
//! - A batch is written once, into units of its own, and never across a segment's end.
//! - A segment is synced before much is written to the next, whether or not a commit
//!   waits for it, so that batches there record it as durable, and its loss is detected.
//! - `durable` advances only when the sync of everything before it has returned.
//! - After a failed write or sync nothing is appended.
//!
//! Source: Seltzer 1992, §5.1.4.1 (records, group commit and its thresholds); DeWitt and
//! others 1984 (group commit).

mod append;
mod flush;
pub mod format;
mod keep;
mod lost;
mod read;
mod scan;
mod segments;

pub(crate) use append::{Draft, now_s};
pub use flush::GroupCommit;
pub(crate) use keep::LogHold;
pub(crate) use read::Record;
pub(crate) use scan::{Scan, ScanEnd};
pub(crate) use segments::name as segment_file;

use crate::error::{Error, Result};
use crate::storage::Storage;
use format::BATCH_HEADER;
use segments::Segments;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;
use varve_device::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use varve_device::sync::{Condvar, Mutex, MutexGuard};

/// A position in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position of no record.
    pub const NONE: Lsn = Lsn(0);
}

/// Geometry and limits of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogShape {
    /// Bytes per segment; a multiple of `unit`.
    pub segment: u64,
    /// Bytes that the medium writes atomically: 512 or 4,096.
    pub unit: u64,
    /// Largest number of segments.
    pub max_segments: usize,
    /// Bytes of the longest record.
    pub max_record: u64,
    /// Bytes of records after which a batch is closed.
    pub batch: usize,
}

impl LogShape {
    pub(crate) fn segment_of(&self, at: u64) -> u64 {
        at / self.segment
    }

    pub(crate) fn offset(&self, at: u64) -> u64 {
        at % self.segment
    }

    /// Returns the beginning of the segment behind the one that contains `at`; `at`
    /// itself if it begins one.
    pub(crate) fn next_segment(&self, at: u64) -> u64 {
        at.div_ceil(self.segment) * self.segment
    }

    pub(crate) fn padded(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.unit) * self.unit
    }

    /// Returns true if a batch of `bytes` bytes without padding may begin at `at`. The
    /// writer asks before it opens a batch, and the reader before it looks for one.
    pub(crate) fn batch_fits(&self, at: u64, bytes: u64) -> bool {
        self.offset(at) + self.padded(bytes) <= self.segment
    }

    /// Returns true if the batch behind one that ends at `at` may be in the next segment,
    /// because it may not fit into this one.
    fn may_go_on_in_next(&self, at: u64) -> bool {
        let longest = (BATCH_HEADER + self.max_record).max(self.batch as u64);
        self.offset(at) == 0 || !self.batch_fits(at, longest)
    }
}

/// A closed batch that is not written yet.
#[derive(Debug)]
struct Batch {
    at: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct State {
    /// The open batch, with space for its header; empty if there is none.
    open: Vec<u8>,
    open_at: u64,
    sealed: VecDeque<Arc<Batch>>,
    /// End of the last batch, or beginning of the open one.
    end: u64,
    /// End of the last closed batch.
    previous_end: u64,
    durable: u64,
    /// True while a thread writes.
    busy: bool,
    /// Number of transactions that wait for their commit.
    waiting: usize,
    /// The reason why nothing is appended any more.
    poison: Option<String>,
    spare: Vec<Vec<u8>>,
    life: u32,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    pub shape: LogShape,
    segments: Segments,
    holds: keep::Holds,
    state: Mutex<State>,
    changed: Condvar,
    durable: AtomicU64,
    end: AtomicU64,
    /// Bytes reserved for undoing all active transactions, and for records to be
    /// appended.
    promised: AtomicU64,
    /// Number of transactions that have written.
    pub active: AtomicUsize,
    group: GroupCommit,
    bytes: AtomicU64,
    syncs: AtomicU64,
    poisoned: OnceLock<String>,
}

impl Log {
    /// Opens the files of a log; appending starts with [`begin`](Log::begin).
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        shape: LogShape,
        group: GroupCommit,
    ) -> Result<Self> {
        Ok(Log {
            segments: Segments::open(storage, shape)?,
            holds: keep::Holds::default(),
            shape,
            state: Mutex::new(State {
                open: Vec::new(),
                open_at: 0,
                sealed: VecDeque::new(),
                end: 0,
                previous_end: 0,
                durable: 0,
                busy: false,
                waiting: 0,
                poison: None,
                spare: Vec::new(),
                life: 0,
            }),
            changed: Condvar::default(),
            durable: AtomicU64::new(0),
            end: AtomicU64::new(0),
            promised: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            group,
            bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            poisoned: OnceLock::new(),
        })
    }

    /// Starts appending at `at`, where the last valid batch ended.
    pub(crate) fn begin(&self, at: Lsn, life: u32) {
        let mut state = self.state.lock();
        assert!(state.open.is_empty() && state.sealed.is_empty());
        (state.end, state.previous_end, state.durable) = (at.0, at.0, at.0);
        state.life = life;
        self.durable.store(at.0, SeqCst);
        self.end.store(at.0, SeqCst);
        self.segments.begin(self.shape.segment_of(at.0));
    }

    /// Makes all records that were found durable, and extends short files. If a process
    /// crashed and not the machine, some records may be in the host's memory only. Called
    /// when the end of the log is known, before anything is written.
    pub(crate) fn harden(&self) -> Result<()> {
        self.segments.make_whole()?;
        self.segments.harden()
    }

    /// Returns the position behind the last record.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.end.load(SeqCst))
    }

    /// Returns the position before which everything is durable.
    #[inline]
    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(SeqCst))
    }

    /// Returns the bytes written and the syncs since the log was opened.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.bytes.load(Relaxed), self.syncs.load(Relaxed))
    }

    /// Creates a spare segment, so that no appender must wait for one.
    pub(crate) fn prepare_spare(&self) -> Result<()> {
        self.segments.prepare_spare()
    }

    /// Poisons the environment: nothing is acknowledged any more.
    pub(crate) fn poison(&self, why: &Error) {
        self.poison_state(&mut self.state.lock(), why);
    }

    fn poison_state(&self, state: &mut MutexGuard<'_, State>, why: &Error) {
        if state.poison.is_none() {
            tracing::error!("the environment is poisoned: {why}");
            state.poison = Some(why.to_string());
            let _ = self.poisoned.set(why.to_string());
        }
        self.changed.notify_all();
    }

    /// Fails if the environment is poisoned.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned(why.clone())),
        }
    }
}

const HEADER: usize = BATCH_HEADER as usize;
