//! The threads that serve a session.
//!
//! Invariants:
//! - A thread that takes the last idle place starts another one, up to the
//!   limit, so a request that waits for the device does not stop the rest.
//! - What makes the kernel wait for requests of its own (see [`Errand`]) runs
//!   on a thread that serves nothing, so it cannot wait for itself.
//! - Every request is answered, even if serving it panics.

use crate::adapter::{Adapter, Outcome, Seek};
use crate::errno::Errno;
use crate::protocol::REQUEST_BYTES;
use crate::reply::Reply;
use crate::session::End;
use crate::transport::{Received, Transport};
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Builder, Scope};
use varve_fs::Layout;

/// What must not be done by a thread that serves requests.
enum Errand {
    /// Answer this; it makes the kernel write pages back.
    Seek(Seek),
    /// Have the kernel forget this node's attributes.
    Outdate(u64),
}

/// Serving threads that start at once.
const THREADS_MIN: usize = 2;

/// The threads of one session.
pub(crate) struct Pool<'a, L: Layout> {
    transport: &'a dyn Transport,
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
        transport: &'a dyn Transport,
        adapter: &'a Adapter<L>,
        threads_max: usize,
        cut: &'a (dyn Fn() + Sync),
    ) -> Self {
        Pool {
            transport,
            adapter,
            threads_max: threads_max.max(THREADS_MIN),
            cut,
            idle: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            verdict: Mutex::new(None),
        }
    }

    /// Serves until the transport ends.
    pub(crate) fn run(&self) -> io::Result<End> {
        thread::scope(|scope| {
            // Every serving thread owns a sender: the errands end after the
            // last of them.
            let (errands, queue) = channel();
            Builder::new()
                .name("varve-errands".into())
                .spawn_scoped(scope, move || self.run_errands(&queue))?;
            for _ in 0..THREADS_MIN {
                self.start(scope, &errands)?;
            }
            Ok::<(), io::Error>(())
        })?;
        self.verdict.lock().take().unwrap_or(Ok(End::Unmounted))
    }

    /// True if serving a request panicked: what the file system holds in
    /// memory is not to be trusted.
    pub(crate) fn panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }

    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        errands: &Sender<Errand>,
    ) -> io::Result<()> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        if number >= self.threads_max {
            self.started.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        let errands = errands.clone();
        Builder::new()
            .name(format!("varve-fuse-{number}"))
            .spawn_scoped(scope, move || self.serve(scope, &errands))?;
        Ok(())
    }

    fn serve<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, errands: &Sender<Errand>) {
        become_io_flusher();
        let mut buffer = vec![0; REQUEST_BYTES];
        let mut reply = Reply::new();
        loop {
            self.idle.fetch_add(1, Ordering::Relaxed);
            let received = self.transport.receive(&mut buffer);
            let was_idle = self.idle.fetch_sub(1, Ordering::Relaxed);
            let bytes = match received {
                Ok(Received::Request(bytes)) => bytes,
                Ok(Received::Unmounted) => return,
                Ok(Received::Aborted) => return self.end(Ok(End::Aborted)),
                Err(error) => return self.end(Err(error)),
            };
            if was_idle == 1 && self.started.load(Ordering::Relaxed) < self.threads_max {
                // Without another thread we are slower, not wrong.
                let _ = self.start(scope, errands);
            }
            let request = &buffer[..bytes];
            let answered = catch_unwind(AssertUnwindSafe(|| self.answer(request, &mut reply)));
            match answered {
                Ok(None) => {}
                Ok(Some(errand)) => {
                    let queued = errands.send(errand);
                    queued.expect("the errands outlive the serving threads");
                }
                Err(_) => return self.give_up(unique_of(request)),
            }
        }
    }

    /// Serves one request, and says what is left to be done elsewhere.
    fn answer(&self, request: &[u8], reply: &mut Reply) -> Option<Errand> {
        let (unique, outcome) = self.adapter.handle(request, reply);
        if let Outcome::Seek(seek) = outcome {
            return Some(Errand::Seek(seek));
        }
        deliver(self.transport, self.adapter, unique, &outcome, reply);
        reply.outdated().map(Errand::Outdate)
    }

    fn run_errands(&self, queue: &Receiver<Errand>) {
        become_io_flusher();
        let mut reply = Reply::new();
        for errand in queue {
            let (transport, adapter) = (self.transport, self.adapter);
            let finished = catch_unwind(AssertUnwindSafe(|| match &errand {
                Errand::Seek(seek) => {
                    let outcome = adapter.finish_seek(seek, transport, &mut reply);
                    deliver(transport, adapter, seek.unique, &outcome, &reply);
                }
                Errand::Outdate(nodeid) => adapter.outdate(*nodeid, transport),
            }));
            if finished.is_err() {
                self.give_up(match errand {
                    Errand::Seek(seek) => Some(seek.unique),
                    Errand::Outdate(_) => None,
                });
            }
        }
    }

    fn end(&self, verdict: io::Result<End>) {
        self.verdict.lock().get_or_insert(verdict);
    }

    /// After a panic: answer, and let nobody wait for the other requests.
    fn give_up(&self, unique: Option<u64>) {
        self.panicked.store(true, Ordering::Relaxed);
        self.end(Err(io::Error::other(
            "serving a request panicked; the mount was cut off",
        )));
        if let Some(unique) = unique {
            let _ = self.transport.reply(unique, Err(Errno(libc::EIO)));
        }
        (self.cut)();
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
        Outcome::Silent | Outcome::Seek(_) => return,
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
