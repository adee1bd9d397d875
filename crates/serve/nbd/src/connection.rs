//! A connection in transmission: a group of threads, one of which receives.
//!
//! The thread that has the *role* receives the next request. It serves fast requests
//! itself, and sends the replies when no received request is pending. Before any other
//! request it hands the role over, so that as many requests are at the device as there
//! are threads. A thread is started when no thread would take over the role.
//!
//! Invariants:
//! - The receiving thread has sent its replies before it waits for the client.
//! - A message that was received in part is the last: the thread with the role ends the
//!   connection before another thread gets the role.
//! - The memory of a client is bounded, whatever lengths it names: for each thread, a
//!   piece to receive bytes and a reply.
//! - Locks: the role, then (never in the opposite order) sending. No thread has either
//!   of them while it waits for another thread.

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

/// Number of bytes that are received from a client, or read from the device, at once:
/// as many as stay in a processor's cache in between.
const PIECE_BYTES: usize = 256 << 10;
/// Number of bytes of replies that are sent without waiting for more.
const SEND_BYTES: usize = 128 << 10;
const STACK_BYTES: usize = 512 << 10;

/// A connection in transmission.
pub(crate) struct Connection<'a> {
    pub transport: &'a dyn Transport,
    pub export: &'a Export,
    pub measures: Measures,
    /// Maximum number of threads, and so of requests at the device at once.
    pub threads_max: usize,
    /// The phase of the server's end.
    pub ending: &'a Ending,
    role: Mutex<Receiver>,
    sending: Sender,
    ended: Mutex<Option<Ended>>,
    over: AtomicBool,
    /// True once the connection is over and the client receives nothing any more.
    broken: AtomicBool,
    /// Number of threads that wait for the role.
    waiting: AtomicUsize,
    threads: AtomicUsize,
    pace: Pace,
}

/// The buffers of one thread.
struct Worker {
    /// Bytes to be written to the device.
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

    /// Serves the client until it disconnects or breaks the rules. All earlier requests
    /// have then been answered, if the client receives the answers.
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
        // The guard is dropped before the role is.
        let _guard = EndOnPanic(self);
        if let Err(ended) = self.serve_all(scope, &mut role, &mut worker) {
            self.end(ended);
        }
        drop(role);
        // Earlier requests are answered, if the client receives the answers.
        let _ = self.send(&mut worker.out);
    }

    /// Serves until the connection is over. If this thread returns an error as the
    /// receiver, it still has the role.
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

    /// Returns true if another thread receives while this one serves a request. Starts
    /// a thread if none waits.
    fn is_followed<'s>(&'s self, scope: &'s Scope<'s, '_>) -> bool {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return true;
        }
        // Only the thread with the role runs this, so no other one starts threads.
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
        // A stopping server itself cuts messages short, and earlier requests are
        // nevertheless answered.
        let broken = matches!(ended, Ended::Broken(_)) && !self.ending.has_begun();
        self.ended.lock().get_or_insert(ended);
        self.over.store(true, Ordering::Release);
        if broken {
            // No thread waits for this client any longer.
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

    /// Receives the bytes of a write. A long write is written piece by piece while it
    /// is received, and answered here.
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

    /// Receives bytes and drops them.
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

    /// Serves a request whose bytes were received. The reply is put into the outbox, or
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

    /// Returns false when the client will not receive the result of a long request.
    fn is_wanted(&self) -> bool {
        !self.broken.load(Ordering::Relaxed) && !self.ending.is_hurried()
    }

    /// Flushes if the request asks for it.
    fn finish(&self, request: &Request) -> Result<(), Failure> {
        match request.fua {
            true => self.export.make_durable(),
            false => Ok(()),
        }
    }

    fn reply(&self, request: &Request, done: Result<(), Failure>, worker: &mut Worker) {
        match done {
            // A simple reply is shorter than a chunk, and allowed for all requests but
            // reads.
            Ok(()) => worker.out.simple(request.cookie, 0),
            Err(failure) => self.fail(request.cookie, false, &failure, worker),
        }
    }

    fn fail(&self, cookie: u64, read: bool, failure: &Failure, worker: &mut Worker) {
        self.export.counters().failed();
        // A simple reply with an error number is enough for a program. A text needs a
        // structured reply, which a read must have.
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

    /// Sends the bytes in the outbox.
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

/// Ends the connection if its thread panics; other connections are not affected.
struct EndOnPanic<'a, 'b>(&'a Connection<'b>);

impl Drop for EndOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .end(Ended::Broken("met a panic of the server".into()));
        }
    }
}
