//! Settings of the mount's own cleaner, which can change while it runs, and the signals
//! between it and the writers: states, without the work (`cleaner/`).
//!
//! | file | contents |
//! |---|---|
//! | `ahead.rs` | whether holes of an image file are written ahead of the log |
//! | `claims.rs`, `contents.rs` | which cleaner has reserved which segment, and the segment's contents |
//! | `pace.rs`, `way.rs` | how hard it works, and requests with priority |
//! | `plugging.rs`, `spread.rs` | statistics: of holes, of reading in parts |
//! | `tap.rs` | segments that were read and an archive wants |
//! | `state.rs` | the state of the mount's own cleaner between passes |

pub mod ahead;
pub mod claims;
pub mod contents;
pub mod pace;
pub mod plugging;
pub mod spread;
pub mod state;
pub mod tap;
pub mod way;

use crate::error::{Error, Result};
use crate::locks::{Rank, Ranked, RankedMutex};
use crate::policy::PolicyKind;
use claims::{Claims, CleanerInfo};
use contents::SegmentContents;
use pace::{Gauge, Pacer};
use plugging::Plugging;
use spread::Spread;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use varve_device::BufferPool;
use varve_device::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use varve_device::sync::thread::{self, ThreadId};
use varve_device::sync::{Condvar, Mutex, MutexGuard};
use way::Way;

/// When the mount's own cleaner works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// It cleans ahead of need. If false, that is left to other processes; a caller that
    /// would find no space still cleans. Default: yes.
    pub running: bool,
    /// Percentage of clean segments below which it begins. Never less than it needs to
    /// stay ahead of writers, which is the default.
    pub low_percent: Option<u8>,
    /// Percentage of clean segments at which it stops. Default: as many again above the
    /// low mark.
    pub high_percent: Option<u8>,
    /// Clean up to the high mark whenever there was no request for this many nanoseconds.
    /// Default: never for that reason alone.
    pub idle_ns: Option<u64>,
    /// A thread of its own cleans: it rests between segments, and writers wait for it a
    /// little instead of cleaning themselves. Default: no.
    pub threaded: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            running: true,
            low_percent: None,
            high_percent: None,
            idle_ns: None,
            threaded: false,
        }
    }
}

/// Policy and pace of the mount's own cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanerSettings {
    /// The policy that selects segments and the order of survivors.
    pub policy: PolicyKind,
    /// When it works.
    pub pace: Pace,
}

impl CleanerSettings {
    /// Checks that a mount supports the settings.
    ///
    /// # Errors
    /// `Unfit` states the problem and the possible values.
    pub fn check(&self) -> Result<()> {
        let Pace {
            low_percent,
            high_percent,
            ..
        } = self.pace;
        let marks = [low_percent, high_percent];
        if let Some(bad) = marks.into_iter().flatten().find(|p| !(1..=90).contains(p)) {
            return Err(Error::Unfit(format!(
                "a mark of {bad} % clean segments is out of range: 1 to 90"
            )));
        }
        if let (Some(low), Some(high)) = (low_percent, high_percent)
            && low >= high
        {
            return Err(Error::Unfit(format!(
                "cleaning cannot begin below {low} % and end at {high} %: the high mark must be \
                 the higher"
            )));
        }
        Ok(())
    }
}

/// State of cleaning.
#[derive(Clone, Debug)]
pub struct CleanerStatus {
    /// Settings of the mount's own cleaner.
    pub settings: CleanerSettings,
    /// Clean segments and their marks.
    pub gauge: Gauge,
    /// Cleaners of other processes.
    pub others: Vec<CleanerInfo>,
}

/// State that all cleaners of a volume share, in addition to the segments.
pub(crate) struct Shared {
    pub claims: Claims<Arc<SegmentContents>>,
    pub settings: CleanerSettings,
    pub pacer: Pacer,
    /// Start of the present measurement for the pacer, and the gain by then.
    pub(crate) learnt: (u64, i64),
    /// Number of requests at the last check, and when it last changed.
    activity: (u64, u64),
    /// The last pass of the mount's own thread gained nothing.
    pub fruitless: bool,
    /// Time at which checkpoints were last taken only to make cleaned segments clean.
    pub settled_ns: u64,
}

impl Shared {
    /// True if the mount's own thread cleans ahead of need, and gains by it.
    pub(crate) fn own_thread_gains(&self) -> bool {
        let pace = self.settings.pace;
        pace.threaded && pace.running && !self.fruitless
    }
}

/// Settings and signals of the cleaners of one volume.
pub(crate) struct Control {
    shared: RankedMutex<Shared>,
    /// Number of requests that have reached the layout.
    requests: AtomicU64,
    /// Number of callers that wait for space, and of those that are about to clean.
    needy: AtomicU32,
    next: AtomicU32,
    pub(crate) closing: AtomicBool,
    pub(crate) bell: (Mutex<()>, Condvar),
    /// Signals that segments have become clean, or a pass is over; used with the bell's
    /// mutex.
    pub(crate) gained: Condvar,
    /// Requests that have priority over the cleaner's portions.
    pub way: Way,
    /// The thread that cleans, if the mount has one.
    cleaner: OnceLock<ThreadId>,
    /// Wakes that thread.
    pub(crate) summon: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Nanoseconds that writers owe, and the bytes of the log for which they were charged
    /// so far.
    pub(crate) owed_ns: AtomicU64,
    pub(crate) taxed_bytes: AtomicU64,
    /// Percentage of the open segment left after the log's last group.
    pub(crate) open_percent: AtomicU8,
    /// Number of running calls of other processes.
    pub remote_calls: AtomicU32,
    /// The last pass made segments clean ahead of checkpoints.
    pub reuses_early: AtomicBool,
    /// Whether large groups find holes.
    pub plugs: Plugging,
    /// Fragmentation of live data within segments.
    pub spread: Spread,
    /// Buffers for reading segments, because fresh memory costs more than reading.
    pub buffers: Arc<BufferPool>,
    /// Segments that an archive wants.
    pub tap: tap::Tap,
}

/// Bytes of the pooled buffers, of which there are two at least: enough for all data that
/// is moved together.
const BUFFERED_BYTES: usize = 4 << 20;

fn buffers_for(segment_bytes: usize) -> Arc<BufferPool> {
    // A part of a segment is aligned for each of its runs.
    let bytes = segment_bytes / 4 * 5;
    BufferPool::new(bytes, (BUFFERED_BYTES / bytes).max(2))
}

/// A caller waits for space while this exists.
pub(crate) struct Needy<'c>(&'c Control);

impl Drop for Needy<'_> {
    fn drop(&mut self) {
        let needy = self.0.needy.fetch_sub(1, Relaxed);
        assert!(needy > 0, "a caller stops waiting twice");
        // Threads that wait to start a pass may start one now.
        self.0.tell_gain();
    }
}

/// A caller is about to clean for itself while this exists.
pub(crate) struct Next<'c>(&'c Control);

impl Drop for Next<'_> {
    fn drop(&mut self) {
        let next = self.0.next.fetch_sub(1, Relaxed);
        assert!(next > 0, "a caller comes next twice");
    }
}

impl Control {
    pub fn new(settings: CleanerSettings, first_cleaner: u64, segment_bytes: u64) -> Self {
        Control {
            shared: RankedMutex::new(
                Rank::Claims,
                Shared {
                    claims: Claims::new(first_cleaner),
                    settings,
                    pacer: Pacer::new(segment_bytes),
                    learnt: (0, 0),
                    fruitless: false,
                    activity: (0, 0),
                    settled_ns: 0,
                },
            ),
            requests: AtomicU64::new(0),
            needy: AtomicU32::new(0),
            next: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            bell: (Mutex::new(()), Condvar::default()),
            gained: Condvar::default(),
            way: Way::default(),
            cleaner: OnceLock::new(),
            summon: OnceLock::new(),
            owed_ns: AtomicU64::new(0),
            taxed_bytes: AtomicU64::new(0),
            open_percent: AtomicU8::new(0),
            remote_calls: AtomicU32::new(0),
            reuses_early: AtomicBool::new(false),
            plugs: Plugging::default(),
            spread: Spread::default(),
            buffers: buffers_for(segment_bytes as usize),
            tap: tap::Tap::default(),
        }
    }

    pub fn shared(&self) -> Ranked<MutexGuard<'_, Shared>> {
        self.shared.lock()
    }

    /// Counts a user's request that has reached the layout.
    #[inline]
    pub fn asked(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Nanoseconds since the last user request, as far as the count has been checked.
    pub fn idle_ns(&self, now_ns: u64) -> u64 {
        let requests = self.requests();
        let activity = &mut self.shared().activity;
        if activity.0 != requests {
            *activity = (requests, now_ns);
        }
        now_ns.saturating_sub(activity.1)
    }

    /// Registers that the caller waits for space: no cleaner rests meanwhile.
    pub fn in_need(&self) -> Needy<'_> {
        self.needy.fetch_add(1, Relaxed);
        self.ring();
        Needy(self)
    }

    pub(crate) fn comes_next(&self) -> Next<'_> {
        self.next.fetch_add(1, Relaxed);
        Next(self)
    }

    /// True if a thread waits for the running pass to end, to clean for itself.
    pub fn somebody_comes_next(&self) -> bool {
        self.next.load(Relaxed) > 0
    }

    pub fn somebody_waits(&self) -> bool {
        self.needy.load(Relaxed) > 0
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Notifies waiting callers that there may be space.
    pub fn tell_gain(&self) {
        let _bell = self.bell.0.lock();
        self.gained.notify_all();
    }

    /// Registers the calling thread as the one that cleans.
    pub fn cleans_here(&self) {
        self.cleaner.get_or_init(|| thread::current().id());
    }

    /// True if the calling thread is the one that cleans.
    pub(crate) fn is_cleaner(&self) -> bool {
        let here = thread::current().id();
        self.cleaner.get().is_some_and(|cleaner| *cleaner == here)
    }

    /// True if another thread cleans.
    pub(crate) fn cleans_elsewhere(&self) -> bool {
        let here = thread::current().id();
        self.cleaner.get().is_some_and(|cleaner| *cleaner != here)
    }

    /// Wakes the thread that cleans, if a waker is registered.
    pub(crate) fn summon(&self) {
        if let Some(summon) = self.summon.get() {
            summon();
        }
    }

    pub(crate) fn ring(&self) {
        let _bell = self.bell.0.lock();
        self.bell.1.notify_all();
        self.gained.notify_all();
    }

    /// Waits, unless a caller is in need or the volume closes.
    pub(crate) fn wait(&self, ns: u64) {
        let mut bell = self.bell.0.lock();
        if !self.somebody_waits() && !self.is_closing() {
            self.bell.1.wait_for(&mut bell, Duration::from_nanos(ns));
        }
    }
}
