//! A connection in transmission: a crew of threads, one of which receives.
//!
//! The thread that holds the *role* receives the next request. What is quick it
//! serves itself, and sends the replies when no request waits any more; before
//! anything else it hands the role on, so that as many requests are at the
//! device as there are threads. Threads are started when the role would
//! otherwise lie idle.
//!
//! Invariants:
//! - Whoever receives has sent its replies before it waits for the client.
//! - A message that was left in the middle is the last: whoever held the role
//!   ends the connection before another one gets it.
//! - A client costs its buffers: a piece to take bytes and a reply for each
//!   thread, whatever lengths it names.
//! - Locks: the role, then (never the other way) sending. Neither is held by a
//!   thread that waits for another one.

mod reading;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, Scope};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use zerocopy::{IntoBytes, transmute};

use crate::ending::Ending;
use crate::export::{Export, Failure};
use crate::outbox::Outbox;
use crate::pace::Pace;
use crate::protocol::{ALLOCATION_ID, RequestHeader, chunk};
use crate::receiver::{Ended, Received, Receiver};
use crate::request::{Action, Judged, Measures, Request, judge};
use crate::sender::{Sender, send_all};
use crate::transport::Transport;

/// Bytes taken from a client or read from the device at once: what stays in a
/// processor's cache between the two.
const PIECE_BYTES: usize = 256 << 10;
/// Replies are sent when they are so long together.
const SEND_BYTES: usize = 128 << 10;
const STACK_BYTES: usize = 512 << 10;

/// A connection in transmission.
pub(crate) struct Connection<'a> {
    pub transport: &'a dyn Transport,
    pub export: &'a Export,
    pub measures: Measures,
    /// Most threads, and so requests at the device at once.
    pub threads_max: usize,
    /// Of the server.
    pub ending: &'a Ending,
    role: Mutex<Receiver>,
    sending: Sender,
    ended: Mutex<Option<Ended>>,
    over: AtomicBool,
    /// It is over, and nobody listens.
    broken: AtomicBool,
    /// Threads that wait for the role.
    waiting: AtomicUsize,
    threads: AtomicUsize,
    pace: Pace,
}

/// What a thread of the crew owns.
struct Worker {
    /// Bytes to be written.
    payload: Vec<u8>,
    out: Outbox,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(
        transport: &'a dyn Transport,
        export: &'a Export,
        (measures, receiver): (Measures, Receiver),
        threads_max: usize,
        ending: &'a Ending,
    ) -> Self {
        Connection {
            transport,
            export,
            measures,
            threads_max,
            ending,
            role: Mutex::new(receiver),
            sending: Sender::new(),
            ended: Mutex::new(None),
            over: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            threads: AtomicUsize::new(1),
            pace: Pace::new(),
        }
    }

    /// Serves the client until it goes or has to go. What it asked for before
    /// has been answered then, if it takes the answers.
    pub(crate) fn run(&self) -> Ended {
        std::thread::scope(|scope| self.work(scope));
        self.ended.lock().take().unwrap_or(Ended::Closed)
    }

    fn work<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let _ = rustix::process::configure_io_flusher_behavior(true);
        let mut worker = Worker {
            payload: Vec::new(),
            out: Outbox::new(),
        };
        let mut role = None;
        // Dropped before the role is.
        let _guard = EndOnPanic(self);
        if let Err(ended) = self.serve_all(scope, &mut role, &mut worker) {
            self.end(ended);
        }
        drop(role);
        // What was asked before the end is answered, if the client listens.
        let _ = self.send(&mut worker.out);
    }

    /// Serves until the connection is over. An error comes with the role, if
    /// the role met it.
    fn serve_all<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        role: &mut Option<MutexGuard<'s, Receiver>>,
        worker: &mut Worker,
    ) -> Received<()> {
        loop {
            let receiver = role.get_or_insert_with(|| self.take_role());
            if self.over.load(Ordering::Acquire) {
                return Ok(());
            }
            if let Some(request) = self.next(receiver, worker)? {
                if self.pace.is_quick(&request) || !self.is_followed(scope) {
                    self.serve(&request, worker)?;
                } else {
                    self.send(&mut worker.out)?;
                    *role = None;
                    self.serve(&request, worker)?;
                    self.send(&mut worker.out)?;
                    continue;
                }
            }
            let more = receiver.waiting().len() >= size_of::<RequestHeader>();
            if !more || worker.out.bytes().len() >= SEND_BYTES {
                self.send(&mut worker.out)?;
            }
        }
    }

    fn take_role(&self) -> MutexGuard<'_, Receiver> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let role = self.role.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        role
    }

    /// True if somebody else receives while this thread is at work; starts a
    /// thread if none waits.
    fn is_followed<'s>(&'s self, scope: &'s Scope<'s, '_>) -> bool {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return true;
        }
        // Only who has the role gets here: nobody else starts threads.
        if self.threads.load(Ordering::Relaxed) >= self.threads_max {
            return self.threads_max > 1;
        }
        let started = Builder::new()
            .name("varve-nbd".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || self.work(scope));
        match started {
            Ok(_) => {
                self.threads.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot start another thread");
                self.threads.load(Ordering::Relaxed) > 1
            }
        }
    }

    fn end(&self, ended: Ended) {
        // A server that stops cuts messages short itself, and the others are
        // answered all the same.
        let broken = matches!(ended, Ended::Broken(_)) && !self.ending.has_begun();
        self.ended.lock().get_or_insert(ended);
        self.over.store(true, Ordering::Release);
        if broken {
            // Nobody waits for this client any longer.
            self.broken.store(true, Ordering::Release);
            self.transport.cut();
        }
    }

    /// Receives a request with its bytes; `None` if it has been answered.
    fn next(&self, role: &mut Receiver, worker: &mut Worker) -> Received<Option<Request>> {
        if self.ending.has_begun() && role.waiting().len() < size_of::<RequestHeader>() {
            return Err(Ended::Closed);
        }
        let bytes: [u8; size_of::<RequestHeader>()] =
            role.message(self.transport, || !self.ending.has_begun(), None)?;
        let header: RequestHeader = transmute!(bytes);
        let judged = judge(&header, &self.measures);
        if !matches!(judged, Judged::Fatal(_) | Judged::Disconnect) {
            self.export.counters().request(header.kind.get());
        }
        match judged {
            Judged::Serve(request) if request.action == Action::Write => {
                self.take_bytes(role, request, worker)
            }
            Judged::Serve(request) => Ok(Some(request)),
            Judged::Refuse {
                cookie,
                errno,
                why,
                payload,
                read,
            } => {
                tracing::debug!(client = %self.transport.peer(), ?header, why, "refused");
                self.drop_bytes(role, payload as usize, worker)?;
                let failure = Failure::new(errno, why);
                self.fail(cookie, read, &failure, worker);
                Ok(None)
            }
            Judged::Disconnect => Err(Ended::Closed),
            Judged::Fatal(why) => Err(Ended::Broken(format!("sent {why}"))),
        }
    }

    /// Takes the bytes of a write. A long one is written piece by piece as it
    /// comes, and answered here.
    fn take_bytes(
        &self,
        role: &mut Receiver,
        request: Request,
        worker: &mut Worker,
    ) -> Received<Option<Request>> {
        let length = request.length as usize;
        if worker.payload.len() < length.min(PIECE_BYTES) {
            let enough = length.next_power_of_two().clamp(4096, PIECE_BYTES);
            worker.payload.resize(enough, 0);
        }
        let mut failed = None;
        let mut done = 0;
        while done < length {
            let step = (length - done).min(PIECE_BYTES);
            if role.waiting().len() < step {
                self.send(&mut worker.out)?;
            }
            role.fill(self.transport, &mut worker.payload[..step], None)?;
            if length > PIECE_BYTES && failed.is_none() {
                let at = request.offset + done as u64;
                failed = self.export.write(at, &worker.payload[..step]).err();
            }
            done += step;
        }
        if length <= PIECE_BYTES {
            return Ok(Some(request));
        }
        let written = failed.map_or_else(|| self.finish(&request), Err);
        self.reply(&request, written, worker);
        Ok(None)
    }

    /// Receives bytes that nobody wants.
    fn drop_bytes(
        &self,
        role: &mut Receiver,
        mut length: usize,
        worker: &mut Worker,
    ) -> Received<()> {
        let mut away = [0; 4096];
        while length > 0 {
            let step = length.min(away.len());
            if role.waiting().len() < step {
                self.send(&mut worker.out)?;
            }
            role.fill(self.transport, &mut away[..step], None)?;
            length -= step;
        }
        Ok(())
    }

    /// Serves a request whose bytes are there; the reply is in the outbox, or
    /// sent.
    fn serve(&self, request: &Request, worker: &mut Worker) -> Received<()> {
        let begun = Instant::now();
        let (offset, length) = (request.offset, request.length);
        match request.action {
            Action::Read { whole } => self.read(request, whole, worker)?,
            Action::Write => {
                let bytes = &worker.payload[..length as usize];
                let written = self.export.write(offset, bytes);
                let written = written.and_then(|()| self.finish(request));
                self.reply(request, written, worker);
            }
            Action::Flush => self.reply(request, self.export.make_durable(), worker),
            Action::Trim => {
                let trimmed = self.export.trim(offset, length, || self.is_wanted());
                let trimmed = trimmed.and_then(|()| self.finish(request));
                self.reply(request, trimmed, worker);
            }
            Action::Zero { may_punch, fast } => {
                let how = (may_punch, fast);
                let zeroed = self.export.zero(offset, length, how, || self.is_wanted());
                let zeroed = zeroed.and_then(|()| self.finish(request));
                self.reply(request, zeroed, worker);
            }
            Action::Status { one } => self.status(request, one, worker),
        }
        self.pace.took(request, begun.elapsed());
        Ok(())
    }

    /// False when nobody will hear of a long request's end.
    fn is_wanted(&self) -> bool {
        !self.broken.load(Ordering::Relaxed) && !self.ending.is_hurried()
    }

    /// Makes durable what was asked to be.
    fn finish(&self, request: &Request) -> Result<(), Failure> {
        match request.fua {
            true => self.export.make_durable(),
            false => Ok(()),
        }
    }

    fn reply(&self, request: &Request, done: Result<(), Failure>, worker: &mut Worker) {
        match done {
            // Shorter than a chunk, and allowed for all but reads.
            Ok(()) => worker.out.simple(request.cookie, 0),
            Err(failure) => self.fail(request.cookie, false, &failure, worker),
        }
    }

    fn fail(&self, cookie: u64, read: bool, failure: &Failure, worker: &mut Worker) {
        self.export.counters().failed();
        // A plain error says as much to a program; a text is for structured
        // replies, which a read must have.
        let structured = self.measures.structured && (read || !failure.why.is_empty());
        worker.out.failure(cookie, structured, failure);
    }

    fn status(&self, request: &Request, one: bool, worker: &mut Worker) {
        match self.export.status(request.offset, request.length, one) {
            Ok(extents) => {
                let bytes = extents.as_bytes();
                let (cookie, kind) = (request.cookie, chunk::BLOCK_STATUS);
                worker.out.chunk(cookie, kind, true, 4 + bytes.len());
                worker.out.push(&ALLOCATION_ID.to_be_bytes());
                worker.out.push(bytes);
            }
            Err(failure) => self.fail(request.cookie, false, &failure, worker),
        }
    }

    /// Sends what is in the outbox.
    fn send(&self, out: &mut Outbox) -> Received<()> {
        if !out.bytes().is_empty() {
            let transport = self.transport;
            let sent = self.sending.whole(|| send_all(transport, out.bytes()));
            out.clear();
            sent?;
        }
        Ok(())
    }
}

/// A thread that panics takes its connection along, and nothing else.
struct EndOnPanic<'a, 'b>(&'a Connection<'b>);

impl Drop for EndOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .end(Ended::Broken("met a panic of the server".into()));
        }
    }
}
