//! How the mount's own cleaner works, changed while it runs, and what it and the
//! writers tell each other: states, without the work (`cleaner/`).
//!
//! | file | its part |
//! |---|---|
//! | `ahead.rs` | whether holes of an image file are written ahead of the log |
//! | `claims.rs`, `contents.rs` | which cleaner has which segment, and what that holds |
//! | `pace.rs`, `way.rs` | how hard it works, and requests that go first |
//! | `plugging.rs`, `spread.rs` | what is learnt: of holes, of reading in parts |
//! | `state.rs` | what the mount's own cleaner keeps between passes |

pub mod ahead;
pub mod claims;
pub mod contents;
pub mod pace;
pub mod plugging;
pub mod spread;
pub mod state;
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
    /// It cleans ahead of need. If not, that is left to other processes;
    /// whoever is about to find no room still cleans. Default: yes.
    pub running: bool,
    /// Clean segments, in percent of all, below which it begins. Never less
    /// than it needs to stay ahead of writers, which is the default.
    pub low_percent: Option<u8>,
    /// Clean segments, in percent of all, at which it stops. Default: as many
    /// again above the low mark.
    pub high_percent: Option<u8>,
    /// Clean up to the high mark whenever nobody has asked for anything for so
    /// many nanoseconds. Default: never for that reason alone.
    pub idle_ns: Option<u64>,
    /// A thread of its own cleans: it rests between segments, and writers wait
    /// for it a little rather than clean themselves. Default: no.
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
    /// Which segments it takes, and in which order survivors go.
    pub policy: PolicyKind,
    /// When it works.
    pub pace: Pace,
}

impl CleanerSettings {
    /// Refuses what a mount cannot do.
    ///
    /// # Errors
    /// `Unfit` says what, and what it can.
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

/// How cleaning stands.
#[derive(Clone, Debug)]
pub struct CleanerStatus {
    /// The mount's own cleaner.
    pub settings: CleanerSettings,
    /// Clean segments and their marks.
    pub gauge: Gauge,
    /// Cleaners of other processes.
    pub others: Vec<CleanerInfo>,
}

/// What all cleaners of a volume share, beside the segments.
pub(crate) struct Shared {
    pub claims: Claims<Arc<SegmentContents>>,
    pub settings: CleanerSettings,
    pub pacer: Pacer,
    /// Since when there is something to learn for it, and what had been gained
    /// by then.
    pub(crate) learnt: (u64, i64),
    /// Requests seen, and when that last changed.
    activity: (u64, u64),
    /// The last pass of the mount's own thread gained nothing.
    pub fruitless: bool,
    /// When checkpoints were last taken only to make cleaned segments clean.
    pub settled_ns: u64,
}

impl Shared {
    /// The mount's own thread cleans ahead of need, and gains by it.
    pub(crate) fn own_thread_gains(&self) -> bool {
        let pace = self.settings.pace;
        pace.threaded && pace.running && !self.fruitless
    }
}

/// See the module's head.
pub(crate) struct Control {
    shared: RankedMutex<Shared>,
    /// Requests that have reached the layout.
    requests: AtomicU64,
    /// Callers who wait for room, and those of them who are about to clean.
    needy: AtomicU32,
    next: AtomicU32,
    pub(crate) closing: AtomicBool,
    pub(crate) bell: (Mutex<()>, Condvar),
    /// Segments have become clean, or a pass is over; goes with the bell's
    /// mutex.
    pub(crate) gained: Condvar,
    /// Whom the cleaner's portions give way to.
    pub way: Way,
    /// The thread that cleans, if the mount has one.
    cleaner: OnceLock<ThreadId>,
    /// Has that thread come.
    pub(crate) summon: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Nanoseconds that writers owe, and how much of the log that is for.
    pub(crate) owed_ns: AtomicU64,
    pub(crate) taxed_bytes: AtomicU64,
    /// What the log's last group left of the open segment.
    pub(crate) open_percent: AtomicU8,
    /// Calls of other processes at work.
    pub remote_calls: AtomicU32,
    /// The last pass gave segments back ahead of checkpoints.
    pub reuses_early: AtomicBool,
    /// Whether large groups find holes.
    pub plugs: Plugging,
    /// How far apart what lives in a segment stands.
    pub spread: Spread,
    /// For what is read of a segment: fresh memory costs more than reading.
    pub buffers: Arc<BufferPool>,
}

/// Bytes of the buffers that wait for the next segment, which are two at least:
/// as many as what is moved together may have been read into.
const BUFFERED_BYTES: usize = 4 << 20;

fn buffers_for(segment_bytes: usize) -> Arc<BufferPool> {
    // A part of a segment is aligned for each of its runs.
    let bytes = segment_bytes / 4 * 5;
    BufferPool::new(bytes, (BUFFERED_BYTES / bytes).max(2))
}

/// Somebody waits for room for as long as this lives.
pub(crate) struct Needy<'c>(&'c Control);

impl Drop for Needy<'_> {
    fn drop(&mut self) {
        self.0.needy.fetch_sub(1, Relaxed);
        // Whoever waits for the right to a pass may have it now.
        self.0.tell_gain();
    }
}

/// Somebody is about to clean for himself for as long as this lives.
pub(crate) struct Next<'c>(&'c Control);

impl Drop for Next<'_> {
    fn drop(&mut self) {
        self.0.next.fetch_sub(1, Relaxed);
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
        }
    }

    pub fn shared(&self) -> Ranked<MutexGuard<'_, Shared>> {
        self.shared.lock()
    }

    /// A request of a user has reached the layout.
    #[inline]
    pub fn asked(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Nanoseconds since the last request of a user, as far as anybody has
    /// looked.
    pub fn idle_ns(&self, now_ns: u64) -> u64 {
        let requests = self.requests();
        let activity = &mut self.shared().activity;
        if activity.0 != requests {
            *activity = (requests, now_ns);
        }
        now_ns.saturating_sub(activity.1)
    }

    /// The caller waits for room: nobody rests meanwhile.
    pub fn in_need(&self) -> Needy<'_> {
        self.needy.fetch_add(1, Relaxed);
        self.ring();
        Needy(self)
    }

    pub(crate) fn comes_next(&self) -> Next<'_> {
        self.next.fetch_add(1, Relaxed);
        Next(self)
    }

    /// Somebody waits for the pass that is going on to end, to clean for himself.
    pub fn somebody_comes_next(&self) -> bool {
        self.next.load(Relaxed) > 0
    }

    pub fn somebody_waits(&self) -> bool {
        self.needy.load(Relaxed) > 0
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Tells who waits for room that there may be some.
    pub fn tell_gain(&self) {
        let _bell = self.bell.0.lock();
        self.gained.notify_all();
    }

    /// The calling thread is the one that cleans.
    pub fn cleans_here(&self) {
        self.cleaner.get_or_init(|| thread::current().id());
    }

    /// The calling thread is the one that cleans.
    pub(crate) fn is_cleaner(&self) -> bool {
        let here = thread::current().id();
        self.cleaner.get().is_some_and(|cleaner| *cleaner == here)
    }

    /// Another thread cleans.
    pub(crate) fn cleans_elsewhere(&self) -> bool {
        let here = thread::current().id();
        self.cleaner.get().is_some_and(|cleaner| *cleaner != here)
    }

    /// Has the thread that cleans come, if somebody has said how.
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

    /// Waits, unless somebody is in need or the volume closes.
    pub(crate) fn wait(&self, ns: u64) {
        let mut bell = self.bell.0.lock();
        if !self.somebody_waits() && !self.is_closing() {
            self.bell.1.wait_for(&mut bell, Duration::from_nanos(ns));
        }
    }
}
