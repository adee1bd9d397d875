//! The server: its listeners, its connections, and its end.
//!
//! Invariants:
//! - A client costs a thread, its further threads and its buffers, all bounded. A
//!   client beyond the limit is disconnected at once.
//! - Stopping closes the listeners first, then lets every connection answer the
//!   requests that it has received. [`Server::run`] returns when the last connection
//!   has ended.
//!
//! Locks: the table of connections, which is locked for look-ups only.

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

/// Minimum time between two warnings about the behaviour of clients.
const WARN_BETWEEN: Duration = Duration::from_secs(1);
/// Pause after an accept that failed, for example because there are no free
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const STACK_BYTES: usize = 512 << 10;

/// A socket on which clients connect.
#[derive(Debug)]
pub enum Listener {
    /// A socket of the network.
    Tcp(TcpListener),
    /// A socket on this host, whose file is removed at the end.
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
    /// Listens at `address`; port 0 selects any free port.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    /// Listens at a socket named `path`, for the present user only. The socket of a
    /// dead server is replaced. The caller must have no other threads yet, because the
    /// call changes the process's mask of new files for a moment.
    ///
    /// # Errors
    /// If another kind of file has that name, another server listens there, or the
    /// system refuses.
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

/// Shows the address in the form that clients use.
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

/// A server of one export for all clients that connect.
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

/// A handle that ends a server, from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Stops listening, and ends every connection when it has answered the requests
    /// that it has received. Connections that take longer than `grace` are closed.
    pub fn stop(&self, grace: Duration) {
        let shared = &self.0;
        shared.ending.begin();
        // If the pipe is full, the server wakes as well.
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
    /// Creates a server of `export` with these listeners.
    ///
    /// # Errors
    /// If the system has no free descriptors.
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

    /// Returns the listeners.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Returns a handle that ends the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Serves until the server is stopped. Then all its threads have ended and no
    /// request is pending.
    ///
    /// # Errors
    /// If the server cannot wait for its listeners.
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

    /// Begins to serve a client, unless there are enough.
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
                // The client came too late for the notification of the stop.
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
            // The client's place was dropped with the closure.
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

/// The place of a connection in the table, released when its thread ends, also by a
/// panic.
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

/// Limits warnings that clients can cause at will to one a second, with the number of
/// those left out.
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
