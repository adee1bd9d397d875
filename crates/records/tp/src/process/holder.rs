//! The process that has the environment open: sessions for its clients.
//!
//! Each connection has a thread that runs its requests in order. One more thread accepts
//! connections and detects those whose client exited: it cancels the lock wait of such a
//! session, so that the transaction is aborted at once, whatever it was doing. The same
//! thread sends signs of life to clients that wait for an answer, or for the restart.

use super::session::Session;
use super::wire::{self, BEAT, HELLO, Request, STILL_HERE};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::storage::{self, HostStorage, Storage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicBool, Ordering::SeqCst};
use varve_device::sync::thread::{self, JoinHandle};
use varve_locks::OwnerId;

/// Name of the socket in the environment's directory.
pub(super) const SOCKET: &str = "socket";
/// Largest number of connections; each has a thread.
const MOST: usize = 1024;
/// Bytes of an answer's buffer that a session keeps.
const KEPT: usize = 1 << 20;
/// Interval after which ended sessions are removed.
const SOON: Duration = Duration::from_millis(20);

/// A holder. Dropping it ends all sessions and aborts open transactions.
#[derive(Debug)]
pub(super) struct Holder {
    environment: Environment,
    wake: UnixStream,
    watcher: Option<JoinHandle<()>>,
}

/// State of a session that the watcher uses.
#[derive(Debug)]
struct Guest {
    stream: UnixStream,
    owner: Mutex<Option<OwnerId>>,
    /// True while a client waits for an answer. Locked while bytes are sent.
    awaited: Mutex<bool>,
    gone: AtomicBool,
    ended: AtomicBool,
}

fn failed(directory: &Path, operation: &'static str, source: io::Error) -> Error {
    let shown = directory.join(SOCKET).display().to_string();
    storage::failed(&shown, operation, 0, source)
}

/// Paths of sockets must be short, so a long one is replaced by one through the
/// directory's descriptor.
pub(super) fn with_short_path<T>(
    directory: &Path,
    name: &str,
    what: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    use std::os::fd::AsRawFd;
    let path = directory.join(name);
    if path.as_os_str().len() < 100 {
        return what(&path);
    }
    let opened = std::fs::File::open(directory)?;
    what(&PathBuf::from(format!(
        "/proc/self/fd/{}/{name}",
        opened.as_raw_fd()
    )))
}

impl Holder {
    /// Becomes the holder of the environment in a directory.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process is the holder, and those of [`Options::open`].
    pub(super) fn open(options: &Options, directory: &Path) -> Result<Self> {
        let storage = HostStorage::new(directory).map_err(|e| failed(directory, "open", e))?;
        crate::environment::lock(&storage)?;
        // Clients may connect now, and wait until the restart is complete.
        let listener = listen(directory).map_err(|e| failed(directory, "listen", e))?;
        let pair = || UnixStream::pair().map_err(|e| failed(directory, "pair", e));
        let (opened, opening) = pair()?;
        let waiting = thread::spawn(move || (keep_waiting(&listener, &opening), listener));
        let environment = options.open_storage(Arc::new(storage) as Arc<dyn Storage>);
        drop(opened);
        let (early, listener) = waiting.join().expect("it does not panic");
        let environment = environment?;
        let (wake, woken) = pair()?;
        let watched = environment.clone();
        let watcher = thread::spawn(move || watch(&watched, &listener, &woken, early));
        Ok(Holder {
            environment,
            wake,
            watcher: Some(watcher),
        })
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.wake.shutdown(Shutdown::Both);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// Creates a socket to which only the user may connect, and replaces that of an earlier
/// holder.
fn listen(directory: &Path) -> io::Result<UnixListener> {
    let making = format!("{SOCKET}.new");
    let _ = std::fs::remove_file(directory.join(&making));
    let listener = with_short_path(directory, &making, |path| UnixListener::bind(path))?;
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(directory.join(&making), mode)?;
    std::fs::rename(directory.join(&making), directory.join(SOCKET))?;
    Ok(listener)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Sends a sign of life to a waiting client. If its buffer is full, none is needed.
fn beat(stream: &UnixStream) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = send(stream, &STILL_HERE, flags);
}

/// Accepts clients while the environment is being opened, until the other end of
/// `opening` is closed.
fn keep_waiting(listener: &UnixListener, opening: &UnixStream) -> Vec<UnixStream> {
    let mut early = Vec::new();
    loop {
        let mut polled = vec![PollFd::new(opening, PollFlags::RDHUP)];
        if early.len() < MOST {
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        let happened = poll(&mut polled, Some(&timespec(BEAT)));
        let opened = !polled[0].revents().is_empty();
        let accepts = polled.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if opened || happened.is_err_and(|error| error != rustix::io::Errno::INTR) {
            return early;
        }
        match accepts.then(|| listener.accept()) {
            Some(Ok((stream, _))) => early.push(stream),
            // If no descriptor is left, accepting would fail again at once.
            Some(Err(_)) => thread::sleep(SOON),
            None => early.iter().for_each(beat),
        }
    }
}

fn watch(
    environment: &Environment,
    listener: &UnixListener,
    woken: &UnixStream,
    early: Vec<UnixStream>,
) {
    let early = early.into_iter();
    let mut guests: Vec<_> = early.map(|stream| welcome(environment, stream)).collect();
    let (mut refused, mut told) = (false, Instant::now());
    loop {
        let accepts = guests.len() < MOST && !refused;
        let mut polled = vec![PollFd::new(woken, PollFlags::IN)];
        if accepts {
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        let others = polled.len();
        let there = |guest: &&(Arc<Guest>, _)| !guest.0.gone.load(SeqCst);
        let watched: Vec<Arc<Guest>> = guests
            .iter()
            .filter(there)
            .map(|(guest, _)| guest.clone())
            .collect();
        polled.extend(
            watched
                .iter()
                .map(|guest| PollFd::new(&guest.stream, PollFlags::RDHUP)),
        );
        // Sessions whose clients exited end soon.
        let timeout = match watched.len() < guests.len() || refused {
            true => Some(timespec(SOON)),
            false => (!guests.is_empty()).then(|| timespec(BEAT)),
        };
        refused = false;
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!("sessions are no longer watched: {error}");
                break;
            }
        }
        let happened: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(polled);
        if happened[0] {
            break;
        }
        for (guest, gone) in watched.iter().zip(&happened[others..]) {
            if *gone {
                guest.leave(environment);
            }
        }
        reap(&mut guests);
        if told.elapsed() >= BEAT {
            guests.iter().for_each(|(guest, _)| guest.beat());
            told = Instant::now();
        }
        if accepts && happened[1] {
            match listener.accept() {
                Ok((stream, _)) if is_permitted(&stream) => {
                    guests.push(welcome(environment, stream));
                }
                // Nothing is read from the connection, and it has no thread.
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    // The connection is still queued; if no descriptor is left, accepting
                    // would fail again at once.
                    refused = true;
                }
            }
        }
    }
    for (guest, _) in &guests {
        let _ = guest.stream.shutdown(Shutdown::Both);
        guest.leave(environment);
    }
    for (_, thread) in guests {
        let _ = thread.join();
    }
}

/// Returns true for root and for the user of this process. The socket's mode has the same
/// effect, but only after it is set, and the directory's owner may change it.
fn is_permitted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// Removes sessions that have ended.
fn reap(guests: &mut Vec<(Arc<Guest>, JoinHandle<()>)>) {
    let (ended, there): (Vec<_>, Vec<_>) = std::mem::take(guests)
        .into_iter()
        .partition(|(guest, _)| guest.ended.load(SeqCst));
    *guests = there;
    for (_, thread) in ended {
        let _ = thread.join();
    }
}

fn welcome(environment: &Environment, stream: UnixStream) -> (Arc<Guest>, JoinHandle<()>) {
    let guest = Arc::new(Guest {
        stream,
        owner: Mutex::new(None),
        awaited: Mutex::new(false),
        gone: AtomicBool::new(false),
        ended: AtomicBool::new(false),
    });
    let (environment, served) = (environment.clone(), Served(guest.clone()));
    let thread = thread::spawn(move || {
        if let Err(error) = served.0.serve(&environment) {
            tracing::debug!("a session ended: {error}");
        }
    });
    (guest, thread)
}

/// A running session. When it ends, also by a panic of an index's function, the watcher
/// and the client notice it.
struct Served(Arc<Guest>);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.stream.shutdown(Shutdown::Both);
        self.0.ended.store(true, SeqCst);
    }
}

impl Guest {
    /// Ends all lock waits of the session, because its client exited.
    fn leave(&self, environment: &Environment) {
        self.gone.store(true, SeqCst);
        if let Some(owner) = *self.owner.lock() {
            environment.shared().engine.locks.cancel(owner);
        }
    }

    /// Sends a sign of life to a client that waits for an answer. While an answer is
    /// being sent, none is needed.
    fn beat(&self) {
        if self.awaited.try_lock().is_some_and(|awaited| *awaited) {
            beat(&self.stream);
        }
    }

    /// Runs requests until the client exits.
    fn serve(&self, environment: &Environment) -> io::Result<()> {
        let mut from = BufReader::with_capacity(64 << 10, &self.stream);
        let mut hello = [0; HELLO.len()];
        from.read_exact(&mut hello)?;
        if hello != *HELLO {
            return Err(io::ErrorKind::InvalidData.into());
        }
        (&self.stream).write_all(HELLO)?;
        let mut session = Session::new(environment);
        let (mut frame, mut answer) = (Vec::new(), Vec::new());
        while wire::receive(&mut from, &mut frame)? {
            *self.awaited.lock() = true;
            let mut rest = &frame[..];
            let mut result = Err(Error::Holder("a frame without requests".into()));
            while !rest.is_empty() {
                let Some(request) = Request::parse(&mut rest) else {
                    return Err(io::ErrorKind::InvalidData.into());
                };
                result = session.run(&request);
                if matches!(request, Request::Begin { .. }) {
                    *self.owner.lock() = session.owner();
                }
                if self.gone.load(SeqCst) {
                    // Dropping the session aborts the transaction.
                    return Ok(());
                }
                if result.is_err() {
                    break;
                }
            }
            answer.clear();
            answer.extend_from_slice(&[0; 4]);
            wire::encode(&result, &mut answer);
            if answer.len() as u64 > u64::from(wire::LONGEST_FRAME) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            {
                let mut awaited = self.awaited.lock();
                wire::send(&self.stream, &mut answer)?;
                *awaited = false;
            }
            for bytes in [&mut frame, &mut answer] {
                bytes.clear();
                bytes.shrink_to(KEPT);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::client::{Connection, PATIENCE};

    #[test]
    fn a_long_restart_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let listener = listen(path).unwrap();
        let (opened, opening) = UnixStream::pair().unwrap();
        let waiting = thread::spawn(move || (keep_waiting(&listener, &opening), listener));
        std::thread::scope(|scope| {
            let client = scope.spawn(|| Connection::open(path).map(|_| ()));
            std::thread::sleep(PATIENCE + 2 * BEAT);
            assert!(!client.is_finished(), "it waits");
            drop(opened);
            let (early, _) = waiting.join().unwrap();
            for mut stream in early {
                stream.write_all(HELLO).unwrap();
            }
            client.join().unwrap().unwrap();
        });
    }
}
