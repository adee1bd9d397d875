//! Power cuts in the middle of commits.
//!
//! Up to four transactions are open at a time. They are of every kind, and some have
//! nested transactions. A commit either waits or returns a ticket. The story waits for
//! tickets later and in any order, so that several commits are in one group; syncs,
//! maintenance and cleaning happen in between. Some transactions pass to another thread,
//! which continues and ends them, or drops them, even while the first thread has a nested
//! transaction open. One thread acts at a time, so that a story can be repeated.
//! Afterwards the power is cut at every write, with every image that the medium allows. A
//! mount must find the tree after a prefix of the commits, in the order in which they
//! were merged:
//!
//! - each commit is whole or absent;
//! - the prefix contains every commit that was acknowledged;
//! - the prefix contains everything that was read by a read-only transaction whose commit
//!   was acknowledged.

mod judged;

use super::mix::{Change, Home, OWNERS, Tree, within};
use super::{Fs, Txn, as_planted};
use crate::explorer::{Counts, mix};
use crate::failure::{Failure, Promise};
use crate::mounted::Subject;
use crate::random::Random;
use crate::runner::new_clock;
use crate::subjects::{Log, clean};
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Limits, MemoryDevice, RecordingDevice};
use varve_fs::planted::Planted;
use varve_fs::{Error, Isolation, Ticket, TransactionOptions};
use varve_lfs::Lfs;

/// One in this number of images is also checked offline, mounted from the older
/// checkpoint and used further.
const CLOSELY_ONE_IN: u64 = 24;
/// Length of the longest content, in bytes.
const LENGTH_MAX: u64 = 20_000;

/// Amount of work of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of steps of a story.
    pub steps: u64,
    /// Limits on the images at each stop.
    pub limits: Limits,
    /// Sizes of the medium's atomic unit, in bytes.
    pub units: Vec<u32>,
    /// Seed of all random choices.
    pub seed: u64,
    /// The bug that is planted in every thread of the story.
    pub bug: Option<Planted>,
}

impl Plan {
    /// Returns the plan for continuous integration.
    pub fn quick(seed: u64) -> Plan {
        let crate::explorer::Plan { limits, units, .. } = crate::explorer::Plan::quick(seed);
        Plan {
            steps: 140,
            limits,
            units,
            seed,
            bug: None,
        }
    }
}

/// Counts of the work done in stories.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Counts of images and stops.
    pub counts: Counts,
    /// Number of transactions that were committed.
    pub commits: u64,
    /// Number of transactions that were aborted or refused.
    pub aborts: u64,
    /// Number of transactions that another thread continued.
    pub handed: u64,
    /// Number of transactions that another thread dropped while a nested one was open.
    pub dropped: u64,
    /// Largest number of commits that shared a flush.
    pub together: u64,
}

/// An open transaction.
struct Open {
    txn: Txn,
    isolation: Isolation,
    /// The tree as the transaction sees its own names.
    view: Tree,
    changes: Vec<Change>,
    /// Index of the commit after which the transaction last saw the tree.
    saw: usize,
    /// True if the transaction read a block that another owner writes.
    looked: bool,
}

impl Open {
    /// Begins a nested transaction.
    fn within(&self, at: usize) -> Result<Txn, String> {
        let within = self.txn.tree();
        let begun = within.begin_transaction(&TransactionOptions::default());
        begun.map_err(|error| format!("{at}, begin within: {error}"))
    }
}

/// The state of a story while it runs.
struct Story {
    fs: Arc<Fs>,
    home: Home,
    recorder: Arc<RecordingDevice<MemoryDevice>>,
    random: Random,
    /// The tree after each commit.
    states: Vec<Tree>,
    open: Vec<Option<Open>>,
    /// Tickets, each with the index of the commit that is durable once the ticket is
    /// done.
    tickets: Vec<(Ticket<Lfs>, usize)>,
    /// Index of the last acknowledged commit.
    acknowledged: usize,
    /// For each mark, the first and the last commit that a mount may find after it.
    marks: Vec<(usize, usize)>,
    told: Vec<String>,
    salt: u64,
    bug: Option<Planted>,
    aborts: u64,
    handed: u64,
    dropped: u64,
    together: u64,
}

impl Story {
    fn tell(&mut self, text: impl Into<String>) {
        self.told.push(text.into());
    }

    /// Records that a mount may find commits up to `last` from this write on.
    fn mark(&mut self, last: usize) {
        self.recorder.mark(self.marks.len() as u64);
        self.marks.push((self.acknowledged, last));
    }

    fn newest(&self) -> usize {
        self.states.len() - 1
    }

    fn acknowledge(&mut self, commit: usize) {
        self.acknowledged = self.acknowledged.max(commit);
        self.mark(self.newest());
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.random.below(OWNERS) as usize;
        match self.random.below(20) {
            0 => {
                self.tell("sync");
                self.fs.sync().map_err(|error| format!("sync: {error}"))?;
                self.acknowledge(self.newest());
                Ok(())
            }
            1 => {
                self.tell("maintain");
                self.fs.maintain().map_err(|error| error.to_string())
            }
            2 => {
                self.tell("clean");
                clean(&self.fs).map_err(|error| error.to_string())
            }
            3 => {
                self.fs.drop_caches();
                Ok(())
            }
            4 | 5 => self.wait(),
            _ if self.open[at].is_none() => self.begin(at),
            6 | 7 => self.nest(at),
            8..=14 => self.change(at),
            15 => self.hand_over(at),
            16 => self.drop_elsewhere(at),
            _ => self.end(at),
        }
    }

    fn begin(&mut self, at: usize) -> Result<(), String> {
        let isolation = match at {
            0 | 1 => Isolation::Locking,
            _ => *self
                .random
                .pick(&[Isolation::Snapshot, Isolation::Serializable]),
        };
        self.tell(format!("{at} begins, {isolation:?}"));
        let options = TransactionOptions {
            isolation,
            // The story has one thread, so a wait for a lock never succeeds.
            timeout: Some(Duration::from_micros(20)),
            subpage: self.random.once_in(2),
        };
        let txn = self.fs.begin_transaction(&options);
        self.open[at] = Some(Open {
            txn: txn.map_err(|error| format!("{at}, begin: {error}"))?,
            isolation,
            view: self.states[self.newest()].clone(),
            changes: Vec::new(),
            saw: self.newest(),
            looked: false,
        });
        Ok(())
    }

    /// Draws a change and makes it in `tree`, a tree of transaction `at`.
    fn change_in(&mut self, tree: &Fs, view: &mut Tree, at: usize) -> Result<Change, String> {
        self.salt += 1;
        let length_max = match self.random.once_in(3) {
            true => 60, // stays in its inode
            false => LENGTH_MAX,
        };
        let change = view.draw(&mut self.random, at as u64, length_max, self.salt);
        self.tell(format!("{at}: {change:?}"));
        let made = self.home.change(tree, &change);
        made.map_err(|error| format!("{at}, {change:?}: {error}"))?;
        view.change(&change);
        Ok(change)
    }

    fn change(&mut self, at: usize) -> Result<(), String> {
        let mut open = self.open[at].take().expect("open");
        if self.random.once_in(4) {
            self.look(at, &mut open)?;
        } else {
            let tree = Arc::clone(open.txn.tree());
            let change = self.change_in(&tree, &mut open.view, at)?;
            open.changes.push(change);
        }
        self.open[at] = Some(open);
        Ok(())
    }

    /// Reads a block that another owner writes, and may have committed a moment ago.
    fn look(&mut self, at: usize, open: &mut Open) -> Result<(), String> {
        let locking = open.isolation == Isolation::Locking;
        // The story has one thread, so no transaction may wait for a lock.
        let others = if locking { 2..OWNERS } else { 0..OWNERS };
        let other = within(&mut self.random, others);
        self.tell(format!("{at} looks at the block of {other}"));
        let read = self.home.look(&open.txn, other);
        read.map_err(|error| format!("{at}, a look: {error}"))?;
        open.looked = true;
        if locking {
            open.saw = self.newest();
        }
        Ok(())
    }

    /// Runs a nested transaction in transaction `at`.
    fn nest(&mut self, at: usize) -> Result<(), String> {
        let mut open = self.open[at].take().expect("open");
        let child = open.within(at)?;
        let (mut view, mut changes) = (open.view.clone(), Vec::new());
        self.tell(format!("{at} begins another within"));
        let tree = Arc::clone(child.tree());
        for _ in 0..within(&mut self.random, 1..4) {
            changes.push(self.change_in(&tree, &mut view, at)?);
        }
        drop(tree);
        if self.random.once_in(3) {
            self.tell(format!("{at} aborts the one within"));
            child.abort();
        } else {
            self.tell(format!("{at} commits the one within"));
            child
                .commit()
                .map_err(|error| format!("{at}, commit within: {error}"))?;
            (open.view, _) = (view, open.changes.append(&mut changes));
        }
        self.open[at] = Some(open);
        Ok(())
    }

    /// Passes the transaction to another thread, which continues and ends it.
    fn hand_over(&mut self, at: usize) -> Result<(), String> {
        self.tell(format!("{at} is handed to another thread"));
        self.handed += 1;
        let open = self.open[at].take();
        elsewhere(self, move |story| {
            story.open[at] = open;
            story.change(at)?;
            story.nest(at)?;
            story.change(at)?;
            story.end(at)
        })
    }

    /// Passes the transaction to another thread, which drops it. Its nested transaction
    /// stays in this thread and ends with it.
    fn drop_elsewhere(&mut self, at: usize) -> Result<(), String> {
        let mut open = self.open[at].take().expect("open");
        let child = open.within(at)?;
        self.change_in(child.tree(), &mut open.view, at)?;
        self.tell(format!("{at} is dropped by another thread"));
        self.dropped += 1;
        elsewhere(self, move |_| drop(open));
        match child.commit() {
            Err(Error::Aborted) => Ok(()),
            other => Err(format!("{at} is gone, and the one within: {other:?}")),
        }
    }

    fn end(&mut self, at: usize) -> Result<(), String> {
        let open = self.open[at].take().expect("open");
        if self.random.once_in(6) {
            self.tell(format!("{at} aborts"));
            self.aborts += 1;
            open.txn.abort();
            return Ok(());
        }
        let changes_any = !open.changes.is_empty();
        let commit = match changes_any {
            true => self.states.len(),
            false => open.saw,
        };
        self.mark(self.newest() + usize::from(changes_any));
        self.tell(format!("{at} commits"));
        let ticket = match open.txn.commit_async() {
            Ok(ticket) => ticket,
            Err(error) if may_refuse(&error, open.isolation, open.looked) => {
                self.tell(format!("{at}: {error}"));
                self.aborts += 1;
                self.mark(self.newest());
                return Ok(());
            }
            Err(error) => return Err(format!("{at}, commit: {error}")),
        };
        if changes_any {
            let mut state = self.states[self.newest()].clone();
            open.changes.iter().for_each(|change| state.change(change));
            self.states.push(state);
        }
        self.tickets.push((ticket, commit));
        match self.random.once_in(2) {
            true => self.wait_for(self.tickets.len() - 1),
            false => Ok(()),
        }
    }

    fn wait(&mut self) -> Result<(), String> {
        if self.tickets.is_empty() {
            return Ok(());
        }
        let which = self.random.below(self.tickets.len() as u64) as usize;
        self.wait_for(which)
    }

    fn wait_for(&mut self, which: usize) -> Result<(), String> {
        let (ticket, commit) = self.tickets.swap_remove(which);
        self.tell(format!("waits for commit {commit}"));
        let waiting = self.newest().saturating_sub(self.acknowledged);
        self.together = self.together.max(waiting as u64);
        ticket
            .wait()
            .map_err(|error| format!("commit {commit}: {error}"))?;
        self.acknowledge(commit);
        Ok(())
    }
}

/// Calls `work` in another thread and waits for it.
fn elsewhere<T: Send>(story: &mut Story, work: impl FnOnce(&mut Story) -> T + Send) -> T {
    let bug = story.bug;
    std::thread::scope(|scope| {
        let other = scope.spawn(move || as_planted(bug, || work(story)));
        other.join().expect("the other thread panicked")
    })
}

/// Returns true if the story allows this error. A snapshot that pins needed space may be
/// aborted, and a serializable transaction may have read the writes of others. No two
/// transactions of a story write the same data.
fn may_refuse(error: &Error, isolation: Isolation, looked: bool) -> bool {
    match error {
        Error::Aborted => isolation != Isolation::Locking,
        Error::Conflict(_) => isolation == Isolation::Serializable && looked,
        _ => false,
    }
}

/// Returns the volume that the stories use.
fn log() -> Log {
    Log::default()
}

fn system(log: &Log, device: Arc<MemoryDevice>, seed: u64) -> Result<Arc<Fs>, String> {
    let mounted = log.system(device, new_clock(), seed);
    mounted
        .map(Arc::new)
        .map_err(|error| format!("mount: {error}"))
}

/// Runs story `index` and cuts the power at every write of it.
///
/// # Errors
///
/// The wrong finding, the stop at which it was found, and the story.
pub fn explore(plan: &Plan, index: u64, done: &mut Done) -> Result<(), Failure> {
    let log = log();
    let seed = mix(plan.seed, index);
    let fail = |text| Failure::new(Promise::Mount, text);
    let device = Arc::new(MemoryDevice::new(log.device_bytes));
    let formatted = log.format(device.clone(), new_clock());
    formatted.map_err(|error| fail(error.to_string()))?;
    let fs = system(&log, device.clone(), seed).map_err(fail)?;
    let (home, tree) = Home::make(&fs).map_err(|error| fail(error.to_string()))?;
    fs.unmount().map_err(|error| fail(error.to_string()))?;
    fs.layout()
        .unmount()
        .map_err(|error| fail(error.to_string()))?;
    drop(fs);
    let base = device.snapshot();
    let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&base)));
    let mounted = log.system(recorder.clone(), new_clock(), seed);
    let mut story = Story {
        fs: Arc::new(mounted.map_err(|error| fail(error.to_string()))?),
        home,
        recorder,
        random: Random::new(seed),
        states: vec![tree],
        open: (0..OWNERS).map(|_| None).collect(),
        tickets: Vec::new(),
        acknowledged: 0,
        marks: Vec::new(),
        told: Vec::new(),
        salt: seed | 1,
        bug: plan.bug,
        aborts: 0,
        handed: 0,
        dropped: 0,
        together: 0,
    };
    story.mark(0);
    let mut told = Ok(());
    for _ in 0..plan.steps {
        told = told.and_then(|()| story.step());
    }
    let trace = story.recorder.take_trace();
    done.counts.workloads += 1;
    done.commits += story.newest() as u64;
    done.aborts += story.aborts;
    done.handed += story.handed;
    done.dropped += story.dropped;
    done.together = done.together.max(story.together);
    let outcome = told
        .map_err(|text| Failure::new(Promise::Reference, text))
        .and_then(|()| story.cut_everywhere(&log, plan, &base, &trace, done));
    outcome.map_err(|failure| {
        failure.context(format!("story {index}:\n  {}", story.told.join("\n  ")))
    })
}
