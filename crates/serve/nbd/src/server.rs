//! Listeners, the connections they bring, and the end.
//!
//! Invariants:
//! - A client costs a thread, its crew and its buffers, all bounded; one that
//!   comes when there are enough is closed at once.
//! - Stopping ends listening first, then lets every connection answer what it
//!   has received. [`Server::run`] returns when the last one is gone.
//!
//! Locks: the table of connections, held for a look-up only.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::ending::Ending;
use crate::export::Export;
use crate::session::{Limits, serve};
use crate::transport::{Socket, Transport};

/// A warning about what clients cause is given once in this time.
const WARN_BETWEEN: Duration = Duration::from_secs(1);
/// After an accept that failed, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 512 << 10;

/// A place where clients come in.
#[derive(Debug)]
pub enum Listener {
    /// Over the network.
    Tcp(TcpListener),
    /// On this host; the socket's file is removed in the end.
    Unix(UnixListener, SocketFile),
}

/// The name of a Unix socket, removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Listens at `address`; port 0 stands for any that is free.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    /// Listens at a socket named `path`, for the present user only. A socket
    /// that a dead server left there is replaced. Call it before there are
    /// other threads: it changes the mask of new files for a moment.
    ///
    /// # Errors
    /// When something else has that name, somebody listens there, or the system
    /// refuses.
    pub fn unix(path: &Path) -> io::Result<Self> {
        if let Ok(found) = std::fs::symlink_metadata(path) {
            use std::os::unix::fs::FileTypeExt;
            let live = std::os::unix::net::UnixStream::connect(path);
            let dead = live.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if found.file_type().is_socket() && dead {
                std::fs::remove_file(path)?;
            }
        }
        use rustix::fs::Mode;
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = listener?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener, SocketFile(path.to_owned())))
    }

    fn accept(&self) -> io::Result<Socket> {
        match self {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Socket::Tcp(stream)),
            Listener::Unix(listener, _) => {
                listener.accept().map(|(stream, _)| Socket::Unix(stream))
            }
        }
    }

    fn poll_fd(&self) -> PollFd<'_> {
        let fd = match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        };
        PollFd::from_borrowed_fd(fd, PollFlags::IN)
    }
}

/// The address as clients write it.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "nbd://{address}"),
                Err(_) => f.write_str("nbd://"),
            },
            Listener::Unix(_, file) => {
                f.write_str("nbd+unix:///?socket=")?;
                for &byte in file.0.as_os_str().as_bytes() {
                    match byte {
                        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => f.write_char(byte.into())?,
                        b'/' | b'-' | b'.' | b'_' | b'~' => f.write_char(byte.into())?,
                        _ => write!(f, "%{byte:02X}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

/// Serves one export to everybody who comes.
#[derive(Debug)]
pub struct Server {
    listeners: Vec<Listener>,
    woken: OwnedFd,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    export: Arc<Export>,
    limits: Limits,
    ending: Ending,
    wake: OwnedFd,
    open: Mutex<Table>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    sockets: HashMap<u64, Arc<Socket>>,
}

/// Ends a server, from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Listens no more and has every connection end when it has answered what
    /// it has received; those that take longer than `grace` are cut.
    pub fn stop(&self, grace: Duration) {
        let shared = &self.0;
        shared.ending.begin();
        // A full pipe wakes just as well.
        let _ = rustix::io::write(&shared.wake, &[0]);
        let deadline = Instant::now() + grace;
        let mut open = shared.open.lock();
        for socket in open.sockets.values() {
            socket.stop_receiving();
        }
        while !open.sockets.is_empty() {
            if shared.left.wait_until(&mut open, deadline).timed_out() {
                tracing::warn!(
                    connections = open.sockets.len(),
                    "some clients take no answers, and are cut off"
                );
                shared.ending.hurry();
                open.sockets.values().for_each(|socket| socket.cut());
                return;
            }
        }
    }
}

impl Server {
    /// A server for `export` behind these listeners.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new(export: Arc<Export>, listeners: Vec<Listener>, limits: Limits) -> io::Result<Self> {
        let (woken, wake) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            export,
            limits,
            ending: Ending::default(),
            wake,
            open: Mutex::default(),
            left: Condvar::new(),
        });
        Ok(Server {
            listeners,
            woken,
            shared,
        })
    }

    /// Where clients can come.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Serves until it is stopped; then no thread of it is left and no request
    /// is under way.
    ///
    /// # Errors
    /// When the listeners cannot be waited for.
    pub fn run(self) -> io::Result<()> {
        let accepted = self.accept_all();
        drop(self.listeners);
        let stopper = Stopper(Arc::clone(&self.shared));
        if accepted.is_err() {
            stopper.stop(Duration::ZERO);
        }
        let mut open = self.shared.open.lock();
        while !open.sockets.is_empty() {
            self.shared.left.wait(&mut open);
        }
        accepted
    }

    fn accept_all(&self) -> io::Result<()> {
        let mut warned = Warnings::default();
        loop {
            let mut waiting: Vec<PollFd<'_>> = vec![PollFd::new(&self.woken, PollFlags::IN)];
            waiting.extend(self.listeners.iter().map(Listener::poll_fd));
            match poll(&mut waiting, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if self.shared.ending.has_begun() {
                return Ok(());
            }
            for listener in &self.listeners {
                match listener.accept() {
                    Ok(socket) => self.admit(socket, &mut warned),
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionAborted => {}
                        _ => {
                            warned.warn(&format!("cannot take a client in: {error}"));
                            std::thread::sleep(ACCEPT_PAUSE);
                        }
                    },
                }
            }
        }
    }

    /// Starts serving a client, unless there are enough.
    fn admit(&self, socket: Socket, warned: &mut Warnings) {
        let shared = &self.shared;
        let refuse = |why: String, warned: &mut Warnings| {
            shared.export.counters().refused();
            warned.warn(&format!("{} is refused: {why}", socket.peer()));
        };
        let most = shared.limits.connections;
        if shared.open.lock().sockets.len() >= most {
            return refuse(format!("{most} connections are open already"), warned);
        }
        if let Err(error) = socket.prepare().and_then(|()| blocking(&socket)) {
            return refuse(error.to_string(), warned);
        }
        let socket = Arc::new(socket);
        let place = {
            let mut open = shared.open.lock();
            let number = open.next;
            open.next += 1;
            open.sockets.insert(number, Arc::clone(&socket));
            if shared.ending.has_begun() {
                // It came too late to be told.
                socket.stop_receiving();
            }
            Place {
                shared: Arc::clone(shared),
                number,
            }
        };
        let client = Arc::clone(&socket);
        let started = std::thread::Builder::new()
            .name("varve-nbd".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let shared = &place.shared;
                serve(&*client, &shared.export, &shared.limits, &shared.ending);
                drop(client);
            });
        if let Err(error) = started {
            // The place went with the closure.
            let why = format!("no thread for it: {error}");
            shared.export.counters().refused();
            warned.warn(&format!("{} is refused: {why}", socket.peer()));
        }
    }
}

fn blocking(socket: &Socket) -> io::Result<()> {
    match socket {
        Socket::Tcp(stream) => stream.set_nonblocking(false),
        Socket::Unix(stream) => stream.set_nonblocking(false),
    }
}

/// A connection's place in the table, given back when its thread ends, however
/// it does.
struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.open.lock().sockets.remove(&self.number);
        self.shared.left.notify_all();
    }
}

/// Warnings that clients can cause at will: one a second, and how many more
/// there were.
#[derive(Default)]
struct Warnings {
    last: Option<Instant>,
    left_out: u64,
}

impl Warnings {
    fn warn(&mut self, text: &str) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < WARN_BETWEEN) {
            self.left_out += 1;
            return;
        }
        match std::mem::take(&mut self.left_out) {
            0 => tracing::warn!("{text}"),
            more => tracing::warn!("{text} (and {more} times before that)"),
        }
        self.last = Some(now);
    }
}
