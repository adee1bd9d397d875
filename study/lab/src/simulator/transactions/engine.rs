//! Transactions from event to event.
//!
//! An operation goes from visit to visit: instructions of its locks, the locks,
//! the page, instructions of the work there. When a server has ended a job, what
//! follows is done at that instant, until every transaction waits for a server,
//! a lock, a page or a force again. A checkpoint forces dirty pages, and no
//! transaction begins until those that are active have ended. Measured is from
//! one checkpoint to another, so every run has as much of them as it should.
//!
//! Invariants: an active transaction waits for exactly one thing; a transaction
//! that has ended holds no locks.

use super::force::{Group, Sequence};
use super::found::{Counts, Found, rates};
use super::locks::{Locks, Txn};
use super::operations::{Left, Operations, Plan};
use super::pool::{Fetch, Pool};
use super::servers::{Job, Servers};
use super::warm::warm;
use super::{Model, Parameters};
use crate::report::deviation_of_batches;

/// Checkpoint intervals of a run at most: a model that does nothing ends, too.
const INTERVALS_MAX: usize = 400;
/// Checkpoint intervals that a run is certain of itself after, at least.
const CERTAIN_INTERVALS: usize = 3;

/// What follows when a transaction's instructions are done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The locks of a visit.
    #[default]
    Lock,
    /// The end of a visit.
    Leave,
    /// The end of the transaction.
    Commit,
}

#[derive(Debug, Default)]
struct Transaction {
    left: Left,
    plan: Plan,
    /// The visit, and the lock, that it is at.
    visit: usize,
    lock: usize,
    next: Next,
    log_bytes: u64,
    waits_since_ns: u64,
    /// It waits for a checkpoint to be over before it begins.
    parked: bool,
}

struct Engine<'a> {
    model: Model,
    parameters: &'a Parameters,
    now_ns: u64,
    operations: Operations,
    locks: Locks,
    pool: Pool,
    servers: Servers,
    transactions: Vec<Transaction>,
    /// Transactions whose lock was granted.
    granted: Vec<Txn>,
    /// Who waits for which page.
    awaiting: Vec<(u32, Txn)>,
    group: Group,
    /// The transactions' log, and with a log-structured file system all else.
    sequence: Sequence,
    quiescing: bool,
    counts: Counts,
    dirty: Vec<u32>,
    random_ns: u64,
}

/// Simulates a model, so long that a run has its length or is certain.
///
/// # Panics
/// If there are no users, more than [`Parameters::USERS_MAX`], or no disks.
pub fn simulate(model: Model, parameters: &Parameters, seed: u64) -> Found {
    assert!(parameters.disks > 0, "no disks");
    let assumed = &parameters.assumed;
    let mut operations = Operations::new(model, parameters, seed);
    let database = operations.database();
    let mut pool = Pool::new(database.pages, database.frames(parameters));
    if !assumed.cold {
        warm(&mut operations, &mut pool, parameters);
    }
    let mut transactions = Vec::new();
    transactions.resize_with(parameters.users, Transaction::default);
    let engine = Engine {
        model,
        parameters,
        now_ns: 0,
        operations,
        locks: Locks::new(parameters.users),
        pool,
        servers: Servers::new(parameters.disks, assumed.reads_first),
        transactions,
        granted: Vec::new(),
        awaiting: Vec::new(),
        group: Group::default(),
        sequence: Sequence::new(
            parameters.disks,
            parameters.service,
            assumed.positioned_batches,
        ),
        quiescing: false,
        counts: Counts::default(),
        dirty: Vec::new(),
        random_ns: parameters.service.random(parameters.page_bytes as f64) as u64,
    };
    engine.run()
}

fn seconds_ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

impl Engine<'_> {
    fn run(mut self) -> Found {
        let interval_s = self.parameters.checkpoint_s;
        let (checkpoint_ns, deadlock_ns) = (
            seconds_ns(interval_s),
            seconds_ns(self.parameters.deadlock_s),
        );
        let (mut next_checkpoint_ns, mut next_look_ns) = (checkpoint_ns, deadlock_ns);
        let mut marks: Vec<Counts> = Vec::new();
        for txn in 0..self.transactions.len() {
            self.begin(txn);
        }
        loop {
            let (server, end_ns) = self.servers.next();
            let timer_ns = next_checkpoint_ns.min(next_look_ns);
            self.now_ns = end_ns.min(timer_ns);
            if end_ns <= timer_ns {
                self.counts.events += 1;
                self.ended(server);
            } else if timer_ns == next_look_ns {
                next_look_ns += deadlock_ns;
                self.look_for_deadlocks();
            } else {
                next_checkpoint_ns += checkpoint_ns;
                marks.push(self.counts);
                if self.has_enough(&marks) {
                    return Found::of(&marks, interval_s, self.parameters.disks);
                }
                self.checkpoint();
            }
            self.proceed();
        }
    }

    /// Whether a run ends here, at the last of these checkpoints.
    fn has_enough(&self, marks: &[Counts]) -> bool {
        let ended = |c: &Counts| c.committed + c.aborted;
        let length = ended(&self.counts) - ended(&marks[0]);
        let rates = rates(marks, self.parameters.checkpoint_s);
        let certain = rates.len() >= CERTAIN_INTERVALS
            && deviation_of_batches(&rates) <= self.parameters.certain;
        marks.len() > 1 && (certain || length >= self.parameters.run_length)
            || marks.len() > INTERVALS_MAX
    }

    /// A server has ended a job.
    fn ended(&mut self, server: usize) {
        let (job, took_ns) = self.servers.end(server);
        match job {
            Job::Burst(txn) => {
                self.counts.processor_ns += took_ns;
                self.worked(txn);
            }
            Job::Read(page) => {
                self.counts.read_ns += took_ns;
                self.counts.reads += 1;
                self.pool.arrived(page);
                self.resume_readers(page);
            }
            Job::Evict { then } => {
                self.counts.write_ns += took_ns;
                if let Some(page) = then {
                    self.read(page);
                }
            }
            Job::Write => self.counts.write_ns += took_ns,
            Job::Force { log_ns } => {
                self.counts.log_ns += log_ns;
                self.counts.write_ns += took_ns - log_ns;
                self.group.parts -= 1;
                if self.group.parts == 0 {
                    self.forced();
                }
            }
        }
    }

    /// Lets go on who was granted a lock.
    fn proceed(&mut self) {
        while let Some(txn) = self.granted.pop() {
            self.transactions[txn].lock += 1;
            self.acquire(txn);
        }
    }

    fn begin(&mut self, txn: Txn) {
        let transaction = &mut self.transactions[txn];
        transaction.parked = false;
        transaction.log_bytes = 0;
        transaction.left = self.operations.begin();
        self.next_operation(txn);
    }

    fn next_operation(&mut self, txn: Txn) {
        let transaction = &mut self.transactions[txn];
        if self
            .operations
            .plan(&mut transaction.left, &mut transaction.plan)
        {
            transaction.visit = 0;
            transaction.log_bytes += transaction.plan.log_bytes;
            transaction.next = Next::Lock;
            let calls = transaction.plan.visits[0].calls;
            let instructions = f64::from(calls) * self.lock_instructions();
            self.burst(txn, instructions);
        } else if self.model.is_embedded() {
            transaction.next = Next::Commit;
            // All locks are given back by one call.
            self.burst(txn, self.parameters.syscall);
        } else {
            self.commit(txn);
        }
    }

    fn lock_instructions(&self) -> f64 {
        match self.model.is_embedded() {
            true => self.parameters.lock + self.parameters.syscall,
            false => self.parameters.lock,
        }
    }

    fn burst(&mut self, txn: Txn, instructions: f64) {
        let work_ns = self.parameters.instructions_ns(instructions);
        self.servers.push(self.now_ns, 0, Job::Burst(txn), work_ns);
    }

    fn worked(&mut self, txn: Txn) {
        match self.transactions[txn].next {
            Next::Lock => self.enter(txn),
            Next::Leave => self.leave(txn),
            Next::Commit => self.commit(txn),
        }
    }

    fn enter(&mut self, txn: Txn) {
        let transaction = &mut self.transactions[txn];
        transaction.lock = transaction.plan.visits[transaction.visit].locks.0;
        self.acquire(txn);
    }

    /// Takes the locks of a visit, as far as they are to be had.
    fn acquire(&mut self, txn: Txn) {
        let transaction = &mut self.transactions[txn];
        let visit = transaction.plan.visits[transaction.visit];
        while transaction.lock < visit.locks.1 {
            let (key, exclusive) = transaction.plan.locks[transaction.lock];
            self.counts.asked += 1;
            if !self.locks.ask(txn, key, exclusive) {
                self.counts.waits += 1;
                transaction.waits_since_ns = self.now_ns;
                return;
            }
            transaction.lock += 1;
        }
        self.counts.fetches += 1;
        let page = visit.page;
        match self.pool.fetch(page) {
            Fetch::Hit => self.work(txn),
            Fetch::Coming => self.awaiting.push((page, txn)),
            Fetch::Miss { dirty } => {
                self.awaiting.push((page, txn));
                let waits = self.parameters.assumed.eviction_waits;
                if let Some(dirty) = dirty {
                    self.counts.writes += 1;
                    let then = waits.then_some(page);
                    self.write(dirty, Job::Evict { then });
                }
                if dirty.is_none() || !waits {
                    self.read(page);
                }
            }
        }
    }

    fn disk(&self, page: u32) -> usize {
        1 + page as usize % self.parameters.disks
    }

    fn read(&mut self, page: u32) {
        let disk = self.disk(page);
        let job = Job::Read(page);
        self.servers.push(self.now_ns, disk, job, self.random_ns);
    }

    /// Writes a page by itself.
    fn write(&mut self, page: u32, job: Job) {
        let work_ns = match self.model.is_log_structured() {
            true => {
                let bytes = self.parameters.page_bytes as f64;
                self.parameters.service.sequential(bytes) as u64
            }
            false => self.random_ns,
        };
        let disk = self.disk(page);
        self.servers.push(self.now_ns, disk, job, work_ns);
    }

    fn resume_readers(&mut self, page: u32) {
        let mut at = 0;
        while at < self.awaiting.len() {
            if self.awaiting[at].0 == page {
                let (_, txn) = self.awaiting.remove(at);
                self.work(txn);
            } else {
                at += 1;
            }
        }
    }

    /// The page is there: the work on it, and the locks of the next.
    fn work(&mut self, txn: Txn) {
        let transaction = &mut self.transactions[txn];
        transaction.next = Next::Leave;
        let plan = &transaction.plan;
        let next = plan.visits.get(transaction.visit + 1);
        let (calls, share) = (next.map_or(0, |visit| visit.calls), plan.share);
        let instructions = share + f64::from(calls) * self.lock_instructions();
        self.burst(txn, instructions);
    }

    fn leave(&mut self, txn: Txn) {
        let transaction = &mut self.transactions[txn];
        let plan = &transaction.plan;
        let visit = plan.visits[transaction.visit];
        if visit.changes {
            self.pool.change(visit.page);
        }
        for (key, _) in &plan.locks[visit.brief_from..visit.locks.1] {
            self.locks.release(txn, *key, &mut self.granted);
        }
        transaction.visit += 1;
        if transaction.visit < plan.visits.len() {
            return self.enter(txn);
        }
        // A data manager holds locks on data only until the end.
        if self.parameters.assumed.leaves_held {
            for visit in plan.changed_leaves() {
                let (key, _) = plan.locks[visit.locks.0];
                self.locks.release(txn, key, &mut self.granted);
            }
        }
        self.next_operation(txn);
    }

    fn commit(&mut self, txn: Txn) {
        if self.transactions[txn].log_bytes == 0 {
            // It has changed nothing.
            return self.end(txn, true);
        }
        self.group.gathering.push(txn);
        self.group.gathered_bytes += self.transactions[txn].log_bytes;
        self.force();
    }

    /// Forces the log for all who have gathered, unless it is being forced.
    fn force(&mut self) {
        if self.group.is_busy() || self.group.gathering.is_empty() {
            return;
        }
        std::mem::swap(&mut self.group.gathering, &mut self.group.written);
        let bytes = std::mem::take(&mut self.group.gathered_bytes);
        self.sequence.append(bytes, true);
        // Where the file system is the log, what undoes an uncommitted page
        // goes before it.
        self.group.pages_next = self.model == Model::LfsNolog;
        if self.model == Model::UserLfs || self.model == Model::OsLfs {
            self.append_dirty();
        }
        self.write_sequence();
    }

    fn append_dirty(&mut self) {
        self.dirty.clear();
        self.pool.take_dirty(&mut self.dirty);
        self.counts.writes += self.dirty.len() as u64;
        for _ in &self.dirty {
            self.sequence.append(self.parameters.page_bytes, false);
        }
    }

    fn write_sequence(&mut self) {
        for (disk, work_ns, log_ns) in self.sequence.take() {
            self.group.parts += 1;
            let job = Job::Force { log_ns };
            self.servers.push(self.now_ns, 1 + disk, job, work_ns);
        }
    }

    /// All parts of a force are written.
    fn forced(&mut self) {
        if std::mem::take(&mut self.group.pages_next) {
            self.append_dirty();
            self.write_sequence();
            if self.group.parts > 0 {
                return;
            }
        }
        let mut written = std::mem::take(&mut self.group.written);
        for txn in written.drain(..) {
            self.end(txn, true);
        }
        // Who begins has instructions before it: nobody has forced meanwhile.
        self.group.written = written;
        self.force();
    }

    /// A transaction has ended, and another begins in its place.
    fn end(&mut self, txn: Txn, committed: bool) {
        match committed {
            true => self.counts.committed += 1,
            false => self.counts.aborted += 1,
        }
        self.locks.end(txn, &mut self.granted);
        if !self.quiescing {
            return self.begin(txn);
        }
        self.transactions[txn].parked = true;
        if self.transactions.iter().all(|t| t.parked) {
            assert!(self.locks.is_empty(), "locks of nobody");
            self.quiescing = false;
            for txn in 0..self.transactions.len() {
                self.begin(txn);
            }
        }
    }

    fn look_for_deadlocks(&mut self) {
        if self.parameters.assumed.by_circles {
            while let Some(txn) = self.locks.in_circle() {
                self.end(txn, false);
            }
            return;
        }
        let timeout_ns = seconds_ns(self.parameters.assumed.timeout_s);
        for txn in 0..self.transactions.len() {
            let waits = self.locks.awaited(txn).is_some();
            if waits && self.now_ns - self.transactions[txn].waits_since_ns > timeout_ns {
                self.end(txn, false);
            }
        }
    }

    fn checkpoint(&mut self) {
        if self.quiescing || !self.parameters.assumed.checkpoints {
            return;
        }
        self.quiescing = true;
        if self.model.is_log_structured() {
            self.append_dirty();
            for (disk, work_ns, _) in self.sequence.take() {
                self.servers
                    .push(self.now_ns, 1 + disk, Job::Write, work_ns);
            }
            return;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.clear();
        self.pool.take_dirty(&mut dirty);
        self.counts.writes += dirty.len() as u64;
        for page in &dirty {
            self.write(*page, Job::Write);
        }
        self.dirty = dirty;
    }
}
