//! Random steps, compared with what the rules say, written down without any thought
//! of speed.
//!
//! Every owner has one thread, which asks for one thing at a time. After each step
//! the table and the model agree on who waits, and on what everybody holds at every
//! place. The model grants until nothing changes, in any order.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use varve_device::HostClock;
use varve_locks::{Detection, LockError, LockTable, LockTableOptions, Mode, OwnerId};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Draws that a seed decides.
pub struct Draws(Xoshiro256PlusPlus);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Draws(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0);
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// The run's seed, printed.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-locks --test rules {test}");
    seed
}

const OBJECTS: u64 = 2;
const UNITS: u32 = 3;

type Place = (u64, u32);
/// The modes that each owner got at each place, one by one.
type Held = BTreeMap<(OwnerId, Place), Vec<Mode>>;

#[derive(Clone, Debug)]
struct Wish {
    owner: OwnerId,
    object: u64,
    span: std::ops::Range<u32>,
    mode: Mode,
}

impl Wish {
    fn places(&self) -> impl Iterator<Item = Place> {
        let object = self.object;
        self.span.clone().map(move |unit| (object, unit))
    }
}

#[derive(Debug, Default)]
struct Model {
    parents: BTreeMap<OwnerId, OwnerId>,
    held: Held,
    /// In the order of arrival.
    queue: Vec<Wish>,
}

impl Model {
    fn line(&self, owner: OwnerId) -> Vec<OwnerId> {
        let up = |owner: &OwnerId| self.parents.get(owner).copied();
        std::iter::successors(Some(owner), up).collect()
    }

    /// The branch of `of` that must end for somebody: the topmost that is not his.
    fn branch(&self, of: OwnerId, waiter: OwnerId) -> OwnerId {
        let mine = self.line(waiter);
        let its = self.line(of).into_iter();
        its.take_while(|one| !mine.contains(one))
            .last()
            .expect("not of his line")
    }

    fn conflicts(&self, wish: &Wish, owner: OwnerId, place: Place, mode: Mode) -> bool {
        wish.places().any(|at| at == place)
            && !wish.mode.compatible(mode)
            && !self.line(wish.owner).contains(&owner)
    }

    /// The branches that a wish waits for, with those before `at` in the queue ahead.
    fn waits_for(&self, wish: &Wish, at: usize) -> BTreeSet<OwnerId> {
        let mut branches = BTreeSet::new();
        for ((owner, place), modes) in &self.held {
            if modes
                .iter()
                .any(|mode| self.conflicts(wish, *owner, *place, *mode))
            {
                branches.insert(self.branch(*owner, wish.owner));
            }
        }
        let line = self.line(wish.owner);
        for (ahead, other) in self.queue[..at].iter().enumerate() {
            let in_the_way = |place| self.conflicts(wish, other.owner, place, other.mode);
            if other.places().any(in_the_way) {
                let its = self.waits_for(other, ahead);
                if !line.iter().any(|member| its.contains(member)) {
                    branches.insert(self.branch(other.owner, wish.owner));
                }
            }
        }
        branches
    }

    fn grant(&mut self, wish: &Wish) {
        for place in wish.places() {
            let modes = self.held.entry((wish.owner, place)).or_default();
            modes.push(wish.mode);
        }
    }

    /// True if it is granted at once; it is not queued.
    fn try_lock(&mut self, wish: &Wish) -> bool {
        let holds_it = wish.places().all(|place| {
            let modes = self.held.get(&(wish.owner, place));
            modes.is_some_and(|modes| joined(modes).covers(wish.mode))
        });
        let free = holds_it || self.waits_for(wish, self.queue.len()).is_empty();
        if free {
            self.grant(wish);
        }
        free
    }

    /// Grants what waits for nothing, again from the first, until all wait.
    fn settle(&mut self) {
        let free = |at: &usize| self.waits_for(&self.queue[*at], *at).is_empty();
        if let Some(at) = (0..self.queue.len()).find(free) {
            let wish = self.queue.remove(at);
            self.grant(&wish);
            self.settle();
        }
    }

    fn end(&mut self, owner: OwnerId) {
        self.queue.retain(|wish| wish.owner != owner);
        self.settle();
        self.held.retain(|(holder, _), _| *holder != owner);
        self.settle();
    }

    fn commit(&mut self, child: OwnerId) {
        let its = |(owner, _): &(OwnerId, Place)| *owner == child;
        let keys: Vec<_> = self.held.keys().copied().filter(its).collect();
        for (owner, place) in keys {
            let modes = self.held.remove(&(owner, place)).unwrap();
            let to = (self.parents[&child], place);
            self.held.entry(to).or_default().extend(modes);
        }
        self.settle();
    }

    fn downgrade(&mut self, owner: OwnerId, object: u64, mode: Mode) {
        for ((holder, place), modes) in &mut self.held {
            let now = joined(modes);
            if *holder == owner && place.0 == object && now.covers(mode) {
                *modes = vec![mode];
            }
        }
        self.settle();
    }

    /// Whom a wish reaches by waiting, himself not unless by a circle.
    fn is_in_circle(&self, of: usize) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![of]);
        while let Some(at) = next.pop() {
            let branches = self.waits_for(&self.queue[at], at);
            for (to, other) in self.queue.iter().enumerate() {
                let reached = self.line(other.owner).iter().any(|o| branches.contains(o));
                if reached && seen.insert(to) {
                    next.push(to);
                }
            }
        }
        seen.contains(&of)
    }

    fn in_circles(&self) -> BTreeSet<OwnerId> {
        let all = (0..self.queue.len()).filter(|at| self.is_in_circle(*at));
        all.map(|at| self.queue[at].owner).collect()
    }
}

fn joined(modes: &[Mode]) -> Mode {
    modes
        .iter()
        .copied()
        .reduce(Mode::join)
        .expect("one at least")
}

type Answer = Result<(), LockError>;

struct Worker {
    owner: OwnerId,
    wishes: Sender<Wish>,
    answers: Receiver<Answer>,
    /// One that was looked at before its time.
    early: Cell<Option<Answer>>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn answer(&self) -> Option<Answer> {
        let patience = Duration::from_secs(20);
        let early = self.early.take();
        early.or_else(|| self.answers.recv_timeout(patience).ok())
    }

    /// Waits for the answer, and leaves it there.
    fn is_refused(&self) -> bool {
        self.early.set(self.answer());
        self.early.get() == Some(Err(LockError::Deadlock))
    }
}

/// The table beside its model.
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

    /// Asks, and has the request wait if it must and `may_wait`.
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
        // Which thread looks for a deadlock before it waits, if it is to.
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

    /// Lets the model do what was done, and those go on whom it grants.
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

    /// Each victim is in a circle when it is its turn, and after them there is none.
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

    /// Waits until one of each circle has given way of itself.
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

    /// Everybody ends, children before their parents.
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
