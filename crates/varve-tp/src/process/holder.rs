//! The process that holds the environment: sessions for those who connect.
//!
//! A thread for each connection does its requests, one after another. One thread more
//! accepts connections and watches for those whose other end is gone: what such a
//! session waits for it waits for no longer, so that it can be aborted at once, whatever
//! it was doing.

use super::session::Session;
use super::wire::{self, HELLO, Request};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::storage::{self, HostStorage, Storage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicBool, Ordering::SeqCst};
use varve_device::sync::thread::{self, JoinHandle};
use varve_locks::OwnerId;

/// The socket's name in the environment's directory.
pub(super) const SOCKET: &str = "socket";
/// Most connections at a time: each has a thread.
const MOST: usize = 1024;
/// Bytes of an answer's memory that a session keeps.
const KEPT: usize = 1 << 20;

/// A holder. Dropping it ends all sessions; open transactions are aborted.
#[derive(Debug)]
pub(super) struct Holder {
    environment: Environment,
    wake: UnixStream,
    watcher: Option<JoinHandle<()>>,
}

/// What the watcher knows of a session.
#[derive(Debug)]
struct Guest {
    stream: UnixStream,
    owner: Mutex<Option<OwnerId>>,
    gone: AtomicBool,
    ended: AtomicBool,
}

fn failed(directory: &Path, operation: &'static str, source: io::Error) -> Error {
    let shown = directory.join(SOCKET).display().to_string();
    storage::failed(&shown, operation, 0, source)
}

/// Paths of sockets are short; a directory's descriptor gives a short name to any.
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
    /// [`Error::InUse`] if another is; and as [`Options::open`].
    pub(super) fn open(options: &Options, directory: &Path) -> Result<Self> {
        let storage = HostStorage::new(directory).map_err(|e| failed(directory, "open", e))?;
        crate::environment::lock(&storage)?;
        // They may connect now, and wait until the restart is done.
        let listener = listen(directory).map_err(|e| failed(directory, "listen", e))?;
        let environment = options.open_storage(Arc::new(storage) as Arc<dyn Storage>)?;
        let (wake, woken) = UnixStream::pair().map_err(|e| failed(directory, "pair", e))?;
        let watched = environment.clone();
        let watcher = thread::spawn(move || watch(&watched, &listener, &woken));
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

/// A socket that only the user may connect to, in the place of what a dead holder left.
fn listen(directory: &Path) -> io::Result<UnixListener> {
    let making = format!("{SOCKET}.new");
    let _ = std::fs::remove_file(directory.join(&making));
    let listener = with_short_path(directory, &making, |path| UnixListener::bind(path))?;
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(directory.join(&making), mode)?;
    std::fs::rename(directory.join(&making), directory.join(SOCKET))?;
    Ok(listener)
}

fn watch(environment: &Environment, listener: &UnixListener, woken: &UnixStream) {
    let mut guests: Vec<(Arc<Guest>, JoinHandle<()>)> = Vec::new();
    let mut refused = false;
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
        // Who is gone is done with soon.
        let soon = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        let timeout = (watched.len() < guests.len() || refused).then_some(&soon);
        refused = false;
        match poll(&mut polled, timeout) {
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
        if accepts && happened[1] {
            match listener.accept() {
                Ok((stream, _)) if is_permitted(&stream) => {
                    guests.push(welcome(environment, stream));
                }
                // Nothing is read from it, and it has no thread.
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    // It is still there: with no descriptor left, this would go on at once.
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

/// True for root and for the user of this process. The socket's mode says the same, but
/// not before it has one, and the directory's owner may change it.
fn is_permitted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

/// Forgets sessions that have ended.
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

/// A session that is at work. However it ends, by a panic of an index's function, too, the
/// watcher sees it, and so does whoever is at the other end.
struct Served(Arc<Guest>);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.stream.shutdown(Shutdown::Both);
        self.0.ended.store(true, SeqCst);
    }
}

impl Guest {
    /// The other end is gone: nothing is waited for any more.
    fn leave(&self, environment: &Environment) {
        self.gone.store(true, SeqCst);
        if let Some(owner) = *self.owner.lock() {
            environment.shared().engine.locks.cancel(owner);
        }
    }

    /// Requests, until the other end is gone.
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
                    // Dropping the session aborts.
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
            wire::send(&self.stream, &mut answer)?;
            for bytes in [&mut frame, &mut answer] {
                bytes.clear();
                bytes.shrink_to(KEPT);
            }
        }
        Ok(())
    }
}
