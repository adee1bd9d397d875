//! Threads on virtual time: the product's own, one at a time, in the same order
//! every time.
//!
//! The turn goes round. Whoever waits gets it when what he waits for may have
//! come about, because somebody else has run since he last looked, or when his
//! time is up. If nobody can go on, the clock moves to the earliest such time.
//!
//! As one runs at a time, all are kept on one of the host's processors: to wake a thread
//! on another takes three times as long.

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use varve_device::sync::turns::{TakesPart, Turns, take_part};
use varve_device::{Clock, VirtualClock};

/// A simulation's threads. The first is the one that made it.
#[derive(Debug)]
pub struct Threads {
    clock: Arc<VirtualClock>,
    state: Mutex<State>,
    /// Members that have not ended.
    present: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// Who has the turn.
    turn: usize,
    members: Vec<Member>,
    /// Each is told when he has it.
    passed: Vec<Arc<Condvar>>,
    /// Counts each time that somebody goes on.
    epoch: u64,
}

#[derive(Debug, Clone, Copy)]
enum Member {
    /// Has the turn, or will go on when he gets it.
    Runs,
    /// Until this time; has looked when so many had gone on, or does not look
    /// ([`NEVER`]).
    Waits { until_ns: u64, looked: u64 },
    /// Has ended.
    Gone,
}

const NEVER: u64 = u64::MAX;

thread_local! {
    static HERE: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

/// The calling thread's seat, if it takes part in a simulation.
pub(super) fn here() -> Option<Seat> {
    HERE.with(|here| here.borrow().clone())
}

/// A thread's part in a simulation, which ends when this is dropped.
pub struct Part {
    seat: Seat,
    _here: TakesPart,
    /// Of the first one; others begin where it is.
    _pinned: Option<Pinned>,
}

/// Keeps the calling thread, and those that it starts, on one processor until dropped.
struct Pinned(CpuSet);

impl Pinned {
    /// On the one where it runs. `None` where the host does not let it.
    fn here() -> Option<Self> {
        let before = sched_getaffinity(None).ok()?;
        let here = Some(sched_getcpu()).filter(|here| *here < CpuSet::MAX_CPU)?;
        let mut one = CpuSet::new();
        one.set(here);
        sched_setaffinity(None, &one).ok()?;
        Some(Pinned(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The host took this set from here.
        sched_setaffinity(None, &self.0).ok();
    }
}

/// A thread's number among the threads.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    threads: Arc<Threads>,
    who: usize,
}

impl Threads {
    /// A simulation with the calling thread in it, which has the turn.
    pub fn new(clock: Arc<VirtualClock>) -> (Arc<Threads>, Part) {
        let threads = Arc::new(Threads {
            clock,
            state: Mutex::default(),
            present: AtomicUsize::new(0),
        });
        let who = threads.seat();
        let part = threads.part(who, Pinned::here());
        (threads, part)
    }

    /// Another thread's number: it is given before the thread is started, so
    /// that it does not depend on when it starts.
    pub fn seat(&self) -> usize {
        let mut state = self.state.lock();
        state.members.push(Member::Runs);
        state.passed.push(Arc::default());
        self.present.fetch_add(1, Relaxed);
        state.members.len() - 1
    }

    /// The calling thread begins its part, once it has the turn.
    pub fn begin(self: &Arc<Self>, who: usize) -> Part {
        let mut state = self.state.lock();
        self.await_turn(&mut state, who);
        drop(state);
        self.part(who, None)
    }

    fn await_turn(&self, state: &mut MutexGuard<'_, State>, who: usize) {
        let passed = Arc::clone(&state.passed[who]);
        while state.turn != who {
            passed.wait(state);
        }
    }

    fn part(self: &Arc<Self>, who: usize, pinned: Option<Pinned>) -> Part {
        let seat = Seat {
            threads: Arc::clone(self),
            who,
        };
        HERE.with(|here| *here.borrow_mut() = Some(seat.clone()));
        Part {
            _here: take_part(Arc::new(seat.clone())),
            seat,
            _pinned: pinned,
        }
    }

    /// Somebody can go on: he has the turn. False if all have gone.
    ///
    /// # Panics
    /// If everybody waits for somebody else for ever.
    fn pass(&self, state: &mut State) -> bool {
        let count = state.members.len();
        loop {
            let now_ns = self.clock.monotonic_ns();
            let can = |member: Member| match member {
                Member::Runs => true,
                Member::Waits { until_ns, looked } => until_ns <= now_ns || looked < state.epoch,
                Member::Gone => false,
            };
            let after = (1..=count).map(|step| (state.turn + step) % count);
            if let Some(next) = after.into_iter().find(|&who| can(state.members[who])) {
                state.turn = next;
                state.passed[next].notify_one();
                return true;
            }
            let times = state.members.iter().filter_map(|member| match member {
                Member::Waits { until_ns, .. } => Some(*until_ns),
                _ => None,
            });
            match times.min() {
                None => return false,
                Some(u64::MAX) => panic!("every thread waits for another: {:?}", state.members),
                Some(until_ns) => self.clock.advance(Duration::from_nanos(until_ns - now_ns)),
            }
        }
    }
}

impl Turns for Seat {
    fn wait(&self, timeout: Option<Duration>, ready: &dyn Fn() -> bool) {
        let threads = &*self.threads;
        let now_ns = threads.clock.monotonic_ns();
        let until_ns = timeout.map_or(u64::MAX, |timeout| {
            now_ns.saturating_add(timeout.as_nanos() as u64)
        });
        let mut state = threads.state.lock();
        loop {
            let looked = state.epoch;
            state.members[self.who] = Member::Waits { until_ns, looked };
            threads.pass(&mut state);
            threads.await_turn(&mut state, self.who);
            if threads.clock.monotonic_ns() >= until_ns || ready() {
                break;
            }
        }
        state.members[self.who] = Member::Runs;
        state.epoch += 1;
    }

    fn seat(&self) -> Box<dyn FnOnce() -> Box<dyn Any> + Send> {
        let (threads, who) = (Arc::clone(&self.threads), self.threads.seat());
        Box::new(move || Box::new(threads.begin(who)))
    }
}

impl Seat {
    /// Its number.
    pub fn who(&self) -> usize {
        self.who
    }

    /// Gives up the turn until this time, or until somebody wakes it.
    pub fn hold(&self, until_ns: u64) {
        let threads = &*self.threads;
        let mut state = threads.state.lock();
        let looked = NEVER;
        state.members[self.who] = Member::Waits { until_ns, looked };
        threads.pass(&mut state);
        threads.await_turn(&mut state, self.who);
        state.members[self.who] = Member::Runs;
        state.epoch += 1;
    }

    /// Another one goes on when it gets the turn: what it holds for has come about.
    pub fn wake(&self, other: usize) {
        self.threads.state.lock().members[other] = Member::Runs;
    }
}

impl Part {
    /// Waits until `ready`, or for so long.
    pub fn wait(&self, timeout: Option<Duration>, ready: &dyn Fn() -> bool) {
        self.seat.wait(timeout, ready);
    }

    /// Lets the others run until all of them have ended.
    pub fn see_off(&self) {
        self.wait(None, &|| self.seat.threads.present.load(Relaxed) == 1);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        HERE.with(|here| here.borrow_mut().take());
        let Seat { threads, who } = &self.seat;
        let mut state = threads.state.lock();
        state.members[*who] = Member::Gone;
        threads.present.fetch_sub(1, Relaxed);
        state.epoch += 1;
        threads.pass(&mut state);
    }
}

#[cfg(test)]
mod tests;
