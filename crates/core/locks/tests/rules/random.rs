//! Random steps, on the table and on the model of its rules.
//!
//! Every owner has one thread, which makes one request at a time. After each step the
//! table and the model agree on the waiting requests, and on all locks at every place.

use super::draws::{Draws, seed};
use super::model::{Held, Model, OBJECTS, UNITS, Wish, joined};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use varve_device::HostClock;
use varve_locks::{Detection, LockError, LockTable, LockTableOptions, Mode, OwnerId};

type Answer = Result<(), LockError>;

struct Worker {
    owner: OwnerId,
    wishes: Sender<Wish>,
    answers: Receiver<Answer>,
    /// An answer that was read early.
    early: Cell<Option<Answer>>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn answer(&self) -> Option<Answer> {
        let patience = Duration::from_secs(20);
        let early = self.early.take();
        early.or_else(|| self.answers.recv_timeout(patience).ok())
    }

    /// Waits for the answer, and keeps it to be read again.
    fn is_refused(&self) -> bool {
        self.early.set(self.answer());
        self.early.get() == Some(Err(LockError::Deadlock))
    }
}

/// The table and its model.
struct Pair {
    detection: Detection,
    table: Arc<LockTable<u64>>,
    model: Model,
    workers: Vec<Worker>,
}

impl Pair {
    fn new(detection: Detection) -> Self {
        let options = LockTableOptions {
            detection,
            shards: 2,
        };
        let clock = Arc::new(HostClock::default());
        Pair {
            detection,
            table: Arc::new(LockTable::with_options(clock, options)),
            model: Model::default(),
            workers: Vec::new(),
        }
    }

    fn begin(&mut self, parent: Option<OwnerId>) {
        let owner = self.table.begin(parent);
        if let Some(parent) = parent {
            self.model.parents.insert(owner, parent);
        }
        let (wishes, asked) = channel::<Wish>();
        let (tell, answers) = channel();
        let table = Arc::clone(&self.table);
        let thread = std::thread::spawn(move || {
            for wish in asked {
                let Wish {
                    owner,
                    object,
                    span,
                    mode,
                } = wish;
                _ = tell.send(table.lock_span(owner, &object, span, mode, None));
            }
        });
        self.workers.push(Worker {
            owner,
            wishes,
            answers,
            early: Cell::new(None),
            thread,
        });
    }

    fn waits(&self, owner: OwnerId) -> bool {
        self.model.queue.iter().any(|wish| wish.owner == owner)
    }

    fn answer(&self, owner: OwnerId) -> Answer {
        let worker = self.workers.iter().find(|worker| worker.owner == owner);
        let answer = worker.unwrap().answer();
        answer.unwrap_or_else(|| panic!("no answer for {owner}: {:#?}", self.model))
    }

    fn is_parent(&self, owner: OwnerId) -> bool {
        self.model.parents.values().any(|parent| *parent == owner)
    }

    /// Makes a request, and lets it wait if it must and `may_wait`.
    fn ask(&mut self, wish: &Wish, may_wait: bool) {
        let before = self.waiting_in_model();
        let granted = self.model.try_lock(wish);
        if !granted && !may_wait {
            let (object, span) = (wish.object, wish.span.clone());
            let tried = self
                .table
                .try_lock_span(wish.owner, &object, span, wish.mode);
            assert!(!tried, "{wish:?}");
            return;
        }
        if !granted {
            self.model.queue.push(wish.clone());
        }
        // The count that grows last before the thread waits: it counts searches if the
        // thread searches for a deadlock first.
        let count = |table: &LockTable<u64>| match self.detection {
            Detection::AtWait => table.statistics().searches,
            Detection::OnCall => table.statistics().waits,
        };
        let before_it = count(&self.table);
        let worker = self
            .workers
            .iter()
            .find(|worker| worker.owner == wish.owner);
        worker.unwrap().wishes.send(wish.clone()).unwrap();
        if granted {
            assert_eq!(self.answer(wish.owner), Ok(()), "{wish:?}");
            self.model.settle();
            assert_eq!(before, self.waiting_in_model());
        } else {
            while count(&self.table) == before_it {
                std::thread::yield_now();
            }
        }
    }

    fn waiting_in_model(&self) -> BTreeSet<OwnerId> {
        self.model.queue.iter().map(|wish| wish.owner).collect()
    }

    /// Applies a change to the model, and waits for the requests that the model grants.
    fn then(&mut self, change: impl FnOnce(&mut Model)) {
        let before = self.waiting_in_model();
        change(&mut self.model);
        for owner in before {
            if !self.waits(owner) && self.workers.iter().any(|worker| worker.owner == owner) {
                assert_eq!(self.answer(owner), Ok(()), "{owner}");
            }
        }
    }

    fn end(&mut self, owner: OwnerId) {
        let waited = self.waits(owner);
        self.table.end(owner);
        if waited {
            assert_eq!(self.answer(owner), Err(LockError::Cancelled));
        }
        let at = self.workers.iter().position(|worker| worker.owner == owner);
        let worker = self.workers.swap_remove(at.unwrap());
        drop(worker.wishes);
        worker.thread.join().unwrap();
        self.then(|model| model.end(owner));
        self.model.parents.remove(&owner);
    }

    /// Each victim is in a cycle when it is aborted, and afterwards there is no cycle.
    fn detect(&mut self) {
        for victim in self.table.detect() {
            assert!(
                self.model.in_circles().contains(&victim),
                "{victim} is in none"
            );
            assert_eq!(self.answer(victim), Err(LockError::Deadlock));
            self.model.queue.retain(|wish| wish.owner != victim);
            self.then(Model::settle);
        }
        assert!(self.model.in_circles().is_empty());
    }

    /// Waits until one owner of each cycle was aborted by its own search.
    fn deadlocks_end(&mut self) {
        let patience = Instant::now() + Duration::from_secs(20);
        while !self.model.in_circles().is_empty() || self.waiting() != self.waiting_in_model() {
            assert!(
                Instant::now() < patience,
                "a circle stays: {:#?}",
                self.model
            );
            let waiting = self.waiting();
            let done =
                |worker: &&Worker| !waiting.contains(&worker.owner) && self.waits(worker.owner);
            let refused = self
                .workers
                .iter()
                .filter(done)
                .filter(|worker| worker.is_refused());
            let refused: Vec<OwnerId> = refused.map(|worker| worker.owner).collect();
            let in_circles = self.model.in_circles();
            let some = refused.iter().any(|owner| in_circles.contains(owner));
            assert!(some || refused.is_empty(), "{refused:?} are in no circle");
            for owner in &refused {
                _ = self.answer(*owner);
            }
            self.model
                .queue
                .retain(|wish| !refused.contains(&wish.owner));
            self.then(Model::settle);
            std::thread::yield_now();
        }
    }

    fn waiting(&self) -> BTreeSet<OwnerId> {
        let waits = self.table.waiting().into_iter();
        waits.map(|one| one.owner).collect()
    }

    fn compare(&self) {
        let waiting = self.waiting_in_model();
        assert_eq!(self.waiting(), waiting, "{:#?}", self.model);
        let mut held = Held::new();
        for object in 0..OBJECTS {
            for one in self.table.holders(&object) {
                for unit in one.span {
                    let modes = held.entry((one.owner, (object, unit))).or_default();
                    modes.push(one.mode);
                }
            }
        }
        let all = |held: &Held| -> Vec<_> {
            held.iter()
                .map(|(at, modes)| (*at, joined(modes)))
                .collect()
        };
        assert_eq!(all(&held), all(&self.model.held));
    }

    /// Ends all owners, children before their parents.
    fn finish(mut self) {
        while let Some(youngest) = self.workers.iter().map(|worker| worker.owner).max() {
            self.end(youngest);
            if self.detection == Detection::AtWait {
                self.deadlocks_end();
            }
        }
        let now = self.table.statistics();
        assert_eq!((now.objects, now.owners, now.waiting), (0, 0, 0));
    }

    fn step(&mut self, draws: &mut Draws) {
        if self.workers.len() < 2 || draws.below(12) == 0 && self.workers.len() < 7 {
            let parent = match draws.below(2) {
                0 if !self.workers.is_empty() => {
                    Some(self.workers[draws.below(self.workers.len() as u64) as usize].owner)
                }
                _ => None,
            };
            return self.begin(parent);
        }
        let owner = self.workers[draws.below(self.workers.len() as u64) as usize].owner;
        let object = draws.below(OBJECTS);
        let mode = Mode::ALL[draws.below(6) as usize];
        match draws.below(20) {
            0 if !self.is_parent(owner) => self.end(owner),
            1 if !self.waits(owner) && self.model.parents.contains_key(&owner) => {
                self.table.hand_to_parent(owner);
                self.then(|model| model.commit(owner));
            }
            2 => {
                self.table.downgrade(owner, &object, mode);
                self.then(|model| model.downgrade(owner, object, mode));
            }
            3 => {
                self.table.release_all(owner);
                self.then(|model| {
                    model.held.retain(|(holder, _), _| *holder != owner);
                    model.settle();
                });
            }
            4 => self.detect(),
            n if !self.waits(owner) => {
                let start = draws.below(UNITS.into()) as u32;
                let end = start + 1 + draws.below((UNITS - start).into()) as u32;
                let wish = Wish {
                    owner,
                    object,
                    span: start..end,
                    mode,
                };
                self.ask(&wish, n >= 12);
            }
            _ => {}
        }
    }
}

const RUNS: u64 = 30;

fn draws(seed: u64, run: u64) -> Draws {
    eprintln!("run {run}");
    Draws::new(seed.wrapping_mul(1000) + run)
}

#[test]
fn random_steps_do_what_the_rules_say() {
    let seed = seed("random_steps");
    for run in 0..RUNS {
        let mut draws = draws(seed, run);
        let mut pair = Pair::new(Detection::OnCall);
        for _ in 0..200 {
            pair.step(&mut draws);
            pair.compare();
        }
        pair.detect();
        pair.compare();
        pair.finish();
    }
}

#[test]
fn random_steps_leave_no_circle_where_everybody_looks_before_he_waits() {
    let seed = seed("random_steps");
    let mut deadlocks = 0;
    for run in 0..RUNS {
        let mut draws = draws(seed, run);
        let mut pair = Pair::new(Detection::AtWait);
        for _ in 0..200 {
            pair.step(&mut draws);
            pair.deadlocks_end();
            pair.compare();
        }
        assert!(pair.table.detect().is_empty());
        deadlocks += pair.table.statistics().deadlocks;
        pair.finish();
    }
    assert!(deadlocks > 10, "{deadlocks}");
}
