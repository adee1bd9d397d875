//! The threads that serve a session.
//!
//! Invariants:
//! - A thread that takes the last idle place at the device starts another one,
//!   up to the limit, so a request that waits for the disk does not stop the
//!   rest. Over io_uring, each CPU has its crew from the start.
//! - What makes the kernel wait for requests of its own (see [`Errand`]) runs
//!   on a thread that serves nothing, so it cannot wait for itself. Over
//!   io_uring another thread is not enough (see [`Crew`]).
//! - No thread that serves sleeps, or waits for room: see [`Wait`]. Over io_uring
//!   the thread that has a request must answer it; it makes sure that others
//!   serve before it waits.
//! - Every request is answered, even if serving it panics.

use crate::adapter::{Adapter, BLOCK_COUNT_LAG, Later, Outcome};
use crate::end::End;
use crate::errands::{Due, Errand, Errands, Wait, keep_time};
use crate::errno::Errno;
use crate::protocol::REQUEST_BYTES;
use crate::reply::Reply;
use crate::ring::{Crew, Queue};
use crate::transport::{Received, Transport};
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, Builder, Scope};
use varve_fs::Layout;

/// Where a thread gets its requests from.
#[derive(Clone, Copy)]
enum Source<'p, 'c> {
    Device(&'p dyn Transport),
    Cpu(&'p Queue, &'c Crew),
}

impl Source<'_, '_> {
    fn transport(&self) -> &dyn Transport {
        match self {
            Source::Device(transport) => *transport,
            Source::Cpu(queue, _) => *queue,
        }
    }
}

/// Serving threads that start at once.
const THREADS_MIN: usize = 2;

/// The threads of one session.
pub(crate) struct Pool<'a, L: Layout> {
    device: &'a (dyn Transport + Sync),
    /// The crews of all CPUs; none if all requests come over the device.
    crews: &'a [Crew],
    adapter: &'a Adapter<L>,
    threads_max: usize,
    /// Cuts the connection.
    cut: &'a (dyn Fn() + Sync),
    /// Threads waiting for a request.
    idle: AtomicUsize,
    started: AtomicUsize,
    panicked: AtomicBool,
    /// The first reason to end other than an unmount.
    verdict: Mutex<Option<io::Result<End>>>,
}

impl<'a, L: Layout> Pool<'a, L> {
    pub(crate) fn new(
        device: &'a (dyn Transport + Sync),
        crews: &'a [Crew],
        adapter: &'a Adapter<L>,
        threads_max: usize,
        cut: &'a (dyn Fn() + Sync),
    ) -> Self {
        Pool {
            device,
            crews,
            adapter,
            // What does not come over io_uring waits for nothing.
            threads_max: match crews {
                [] => threads_max.max(THREADS_MIN),
                _ => 1,
            },
            cut,
            idle: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            verdict: Mutex::new(None),
        }
    }

    /// Serves until the transport ends. `queues` are those of each crew.
    pub(crate) fn run(&self, queues: Vec<Vec<Queue>>) -> io::Result<End> {
        thread::scope(|scope| {
            if let Err(error) = self.start_all(scope, queues) {
                self.fail(error);
            }
        });
        self.verdict.lock().take().unwrap_or(Ok(End::Unmounted))
    }

    fn start_all<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queues: Vec<Vec<Queue>>,
    ) -> io::Result<()>
    where
        'a: 'scope,
    {
        // Every serving thread owns a sender: the timer ends after the last of
        // them, and the errands after the timer.
        let (errands, ends) = Errands::new();
        Builder::new()
            .name("varve-errands".into())
            .spawn_scoped(scope, move || self.run_errands(&ends.errands))?;
        let of_timer = errands.of_timer();
        Builder::new()
            .name("varve-timer".into())
            .spawn_scoped(scope, move || self.run_timer(&ends.waits, &of_timer))?;
        for _ in 0..THREADS_MIN.min(self.threads_max) {
            self.start(scope, &errands)?;
        }
        for (crew, queues) in self.crews.iter().zip(queues) {
            for queue in queues {
                self.start_on(scope, crew, queue, &errands, |registered| {
                    // Without one CPU's entry the kernel holds every request
                    // back.
                    if let Err(error) = registered {
                        self.fail(error);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// True if serving a request panicked: what the file system holds in
    /// memory is not to be trusted.
    pub(crate) fn panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }

    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        errands: &Errands,
    ) -> io::Result<()> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        if number >= self.threads_max {
            self.started.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        let errands = errands.clone();
        Builder::new()
            .name(format!("varve-fuse-{number}"))
            .spawn_scoped(scope, move || {
                self.serve(scope, Source::Device(self.device), &errands);
            })?;
        Ok(())
    }

    /// Starts a thread that serves a CPU's requests from `queue`, once it has
    /// said whether the kernel took that.
    fn start_on<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        crew: &'a Crew,
        queue: Queue,
        errands: &Errands,
        say: impl FnOnce(io::Result<()>) + Send + 'scope,
    ) -> io::Result<()> {
        let errands = errands.clone();
        Builder::new()
            .name(format!("varve-cpu-{}", crew.cpu()))
            .spawn_scoped(scope, move || {
                // A CPU that is possible but absent sends nothing.
                if let Err(error) = crew.bind() {
                    tracing::debug!(%error, cpu = crew.cpu(), "not bound to its CPU");
                }
                let registered = queue.register();
                let serves = registered.is_ok();
                if serves {
                    crew.join();
                }
                say(registered);
                if serves {
                    self.serve(scope, Source::Cpu(&queue, crew), &errands);
                }
            })?;
        Ok(())
    }

    /// Serves until there is nothing more to come.
    fn serve<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        source: Source<'_, 'a>,
        errands: &Errands,
    ) where
        'a: 'scope,
    {
        become_io_flusher();
        let mut buffer = vec![0; REQUEST_BYTES];
        let mut reply = Reply::new();
        let transport = source.transport();
        loop {
            self.idle.fetch_add(1, Ordering::Relaxed);
            let received = transport.receive(&mut buffer);
            let was_idle = self.idle.fetch_sub(1, Ordering::Relaxed);
            let bytes = match received {
                Ok(Received::Request(bytes)) => bytes,
                Ok(Received::Unmounted) => return,
                Ok(Received::Aborted) => return self.end(Ok(End::Aborted)),
                Err(error) => return self.fail(error),
            };
            if was_idle == 1 && self.started.load(Ordering::Relaxed) < self.threads_max {
                // Without another thread we are slower, not wrong.
                let _ = self.start(scope, errands);
            }
            let request = &buffer[..bytes];
            let answered = catch_unwind(AssertUnwindSafe(|| {
                let later = self.answer(request, transport, errands, &mut reply);
                match (later, source) {
                    (None, _) => {}
                    (Some(later), source) if later.answers_first() => {
                        self.put_off(later, source.transport(), errands, &mut reply);
                    }
                    (Some(later), Source::Cpu(queue, crew)) => {
                        match self.leave(scope, &later, crew, errands) {
                            Ok(()) => self.finish(later, queue, errands, &mut reply),
                            Err(error) => {
                                tracing::warn!(%error, "nobody would be left to serve");
                                self.put_off(later, queue, errands, &mut reply);
                            }
                        }
                        crew.join();
                    }
                    (Some(later), _) => hand_over(later, errands),
                }
            }));
            if answered.is_err() {
                return self.give_up(unique_of(request), transport);
            }
        }
    }

    /// Serves one request, and answers what is left to be done elsewhere.
    fn answer(
        &self,
        request: &[u8],
        transport: &dyn Transport,
        errands: &Errands,
        reply: &mut Reply,
    ) -> Option<Later> {
        let (unique, outcome) = self.adapter.handle(request, reply);
        self.conclude(unique, outcome, transport, errands, reply)
    }

    /// Tells the kernel what it must know before it gets an answer, then answers,
    /// unless there is something left to be done.
    fn conclude(
        &self,
        unique: u64,
        outcome: Outcome,
        transport: &dyn Transport,
        errands: &Errands,
        reply: &Reply,
    ) -> Option<Later> {
        for &nodeid in reply.stale() {
            self.adapter.invalidate_attributes(nodeid, transport);
        }
        if reply.schedules_block_counts() {
            errands.wait(BLOCK_COUNT_LAG, Wait::BlockCounts);
        }
        if let Outcome::Later(later) = outcome {
            return Some(later);
        }
        if let Some(nodeid) = reply.stale_unheld() {
            // Once it is answered the writer may go on, and should know first.
            errands.invalidate(nodeid);
        }
        deliver(transport, self.adapter, unique, &outcome, reply);
        None
    }

    /// Does one more step of a request; answers what is left of it.
    fn step(
        &self,
        later: &Later,
        transport: &dyn Transport,
        errands: &Errands,
        reply: &mut Reply,
    ) -> Option<Later> {
        let outcome = self.adapter.finish(later, transport, reply);
        self.conclude(later.unique, outcome, transport, errands, reply)
    }

    /// Finishes a request, and answers it. The calling thread does not serve.
    fn finish(
        &self,
        later: Later,
        transport: &dyn Transport,
        errands: &Errands,
        reply: &mut Reply,
    ) {
        let mut left = Some(later);
        while let Some(later) = left {
            if let Some(pause) = later.pause() {
                thread::sleep(pause);
            }
            left = self.step(&later, transport, errands, reply);
        }
    }

    /// Answers a request as far as that can be done at once; the calling thread
    /// goes on to serve. What waits for room is refused if there is none; what
    /// else cannot be answered is to be asked again. What is left then is an
    /// errand.
    fn put_off(
        &self,
        mut later: Later,
        transport: &dyn Transport,
        errands: &Errands,
        reply: &mut Reply,
    ) {
        if later.pause().is_some() {
            later.hurry();
            match self.step(&later, transport, errands, reply) {
                None => return,
                Some(left) => later = left,
            }
        }
        let unique = later.unique;
        let answer = later.answer_now();
        let answered = answer.is_ok();
        if let Err(error) = transport.reply(unique, answer) {
            tracing::debug!(unique, %error, "reply not taken");
        }
        if answered {
            errands.run(Errand::Later(later));
        }
    }

    /// Makes a crew ready to do without the calling thread.
    fn leave<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        later: &Later,
        crew: &'a Crew,
        errands: &Errands,
    ) -> io::Result<()>
    where
        'a: 'scope,
    {
        if crew.leave() {
            let replaced = self.replace(scope, crew, errands);
            if crew.is_deserted() {
                replaced?;
            }
        }
        let nudged = later
            .held_node()
            .map_or(Ok(()), |nodeid| crew.nudge(nodeid));
        match later.pause() {
            // It waits for a moment, and not for the kernel: what has queued up
            // would wait so long.
            Some(_) => Ok(()),
            None => nudged,
        }
    }

    /// Adds a thread to a crew, and waits until it serves.
    fn replace<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        crew: &'a Crew,
        errands: &Errands,
    ) -> io::Result<()>
    where
        'a: 'scope,
    {
        let queue = crew.queue()?;
        crew.enlist()?;
        let (say, said) = channel();
        let started = self.start_on(scope, crew, queue, errands, move |registered| {
            let _ = say.send(registered);
        });
        let serves = started.and_then(|()| said.recv().map_err(io::Error::other)?);
        serves.inspect_err(|_| crew.discharge())
    }

    fn run_errands(&self, queue: &Receiver<Errand>) {
        become_io_flusher();
        let mut reply = Reply::new();
        for errand in queue {
            let finished = catch_unwind(AssertUnwindSafe(|| match &errand {
                Errand::Later(later) => {
                    // Nothing of what it may leave has to be told first.
                    let outcome = self.adapter.finish(later, self.device, &mut reply);
                    deliver(self.device, self.adapter, later.unique, &outcome, &reply);
                }
                Errand::Invalidate(nodeid, done) => {
                    self.adapter.invalidate_attributes(*nodeid, self.device);
                    // Nobody waits any more if it took too long.
                    let _ = done.send(());
                }
                Errand::BlockCounts => self.adapter.invalidate_block_counts(self.device),
            }));
            if finished.is_err() {
                let unique = match errand {
                    Errand::Later(later) => Some(later.unique),
                    Errand::Invalidate(..) | Errand::BlockCounts => None,
                };
                self.give_up(unique, self.device);
            }
        }
    }

    fn run_timer(&self, queue: &Receiver<Due>, errands: &Errands) {
        become_io_flusher();
        let mut reply = Reply::new();
        keep_time(queue, |wait| {
            let Wait::Again(later) = wait else {
                return errands.run(Errand::BlockCounts);
            };
            let step = AssertUnwindSafe(|| self.step(&later, self.device, errands, &mut reply));
            match catch_unwind(step) {
                Ok(Some(left)) => hand_over(left, errands),
                Ok(None) => {}
                Err(_) => self.give_up(Some(later.unique), self.device),
            }
        });
    }

    fn end(&self, verdict: io::Result<End>) {
        self.verdict.lock().get_or_insert(verdict);
    }

    /// Ends the mount for this reason: nobody waits for what is not served.
    fn fail(&self, error: io::Error) {
        self.end(Err(error));
        (self.cut)();
    }

    /// After a panic: answer, and let nobody wait for the other requests. From
    /// a ring the answer does not go out any more: cutting ends that request.
    fn give_up(&self, unique: Option<u64>, transport: &dyn Transport) {
        self.panicked.store(true, Ordering::Relaxed);
        if let Some(unique) = unique {
            let _ = transport.reply(unique, Err(Errno(libc::EIO)));
        }
        self.fail(io::Error::other(
            "serving a request panicked; the mount was cut off",
        ));
    }
}

/// Gives what is left of a request to the thread that can wait for it.
fn hand_over(later: Later, errands: &Errands) {
    match later.pause() {
        Some(pause) => errands.wait(pause, Wait::Again(later)),
        None => errands.run(Errand::Later(later)),
    }
}

/// The request's number, which stands behind its length and opcode.
fn unique_of(request: &[u8]) -> Option<u64> {
    let bytes = request.get(8..16)?;
    Some(u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

/// Sends an outcome. References that a lost reply would have handed over are
/// taken back.
pub(crate) fn deliver<L: Layout>(
    transport: &dyn Transport,
    adapter: &Adapter<L>,
    unique: u64,
    outcome: &Outcome,
    reply: &Reply,
) {
    let answer = match outcome {
        Outcome::Reply => Ok(reply.body()),
        Outcome::Error(errno) => Err(*errno),
        Outcome::Silent | Outcome::Later(_) => return,
    };
    if let Err(error) = transport.reply(unique, answer) {
        // Usual for INTERRUPT, whose request may be answered already.
        tracing::debug!(unique, %error, "reply not taken");
        adapter.take_back(reply);
    }
}

/// Memory reclaim started by this thread must not wait for pages that only
/// this process can write. Needs CAP_SYS_RESOURCE; without it we go on.
fn become_io_flusher() {
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "not an I/O flusher");
    }
}
