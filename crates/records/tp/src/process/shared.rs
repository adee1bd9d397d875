//! An environment that several processes have open.

use super::access::SharedTransaction;
use super::client::{Connection, PATIENCE};
use super::holder::Holder;
use super::session::Session;
use super::wire::{Answer, Request};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::storage::failed;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use varve_device::sync::{Mutex, thread};

/// Largest number of idle connections that are kept.
const IDLE: usize = 64;

/// An environment in a directory of the host that several processes have open.
///
/// One process is the holder, and the others reach the environment through it. The first
/// process becomes the holder; after it exits, the next caller does. Transactions that
/// were open then fail with [`Error::HolderDied`]; they are undone and can be repeated.
/// When a client exits, its transactions are aborted.
///
/// The options of the holder are effective, so all processes should use the same.
#[derive(Debug)]
pub struct SharedEnvironment {
    directory: PathBuf,
    options: Options,
    /// Set when this process becomes the holder, until the environment is dropped.
    holder: OnceLock<Holder>,
    /// Locked by the thread that tries to become the holder.
    becoming: Mutex<()>,
    idle: Mutex<Vec<Connection>>,
}

/// Returns true if a process that shares the environment in a directory has it open now,
/// and answers.
pub fn is_shared(directory: impl AsRef<Path>) -> bool {
    Connection::open(directory.as_ref()).is_ok()
}

/// The executor of requests.
#[derive(Debug)]
pub(super) enum Route<'s> {
    Here(Box<Session<'s>>),
    There(Connection),
}

impl Options {
    /// Opens an environment in a directory of the host together with other processes that
    /// do the same.
    ///
    /// ```
    /// use varve_tp::{Options, TableDefinition};
    ///
    /// const FRUIT: TableDefinition<&str, u64> = TableDefinition::new("fruit");
    ///
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path();
    /// let environment = Options::new().share(path)?;
    /// let transaction = environment.begin_write()?;
    /// transaction.open_table(FRUIT)?.insert("apples", 3)?;
    /// transaction.commit()?;
    /// // In another process:
    /// let other = Options::new().share(path)?;
    /// let transaction = other.begin_read()?;
    /// assert_eq!(transaction.open_table(FRUIT)?.get("apples")?, Some(3));
    /// # Ok::<(), varve_tp::Error>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`open`](Self::open); [`Error::InUse`] if it is open and not shared,
    /// or if the holder is stopped.
    pub fn share(&self, directory: impl AsRef<Path>) -> Result<SharedEnvironment> {
        self.check()?;
        let environment = SharedEnvironment {
            directory: directory.as_ref().to_owned(),
            options: self.clone(),
            holder: OnceLock::new(),
            becoming: Mutex::new(()),
            idle: Mutex::default(),
        };
        let route = environment.route()?;
        environment.give_back(route);
        Ok(environment)
    }
}

impl SharedEnvironment {
    /// Begins a transaction that may write.
    ///
    /// # Errors
    /// The same as [`Options::share`], because the environment may have to be opened
    /// again.
    pub fn begin_write(&self) -> Result<SharedTransaction<'_>> {
        Ok(SharedTransaction::begin(self, self.route()?, true))
    }

    /// Begins a read-only transaction.
    ///
    /// # Errors
    /// The same as [`begin_write`](Self::begin_write).
    pub fn begin_read(&self) -> Result<SharedTransaction<'_>> {
        Ok(SharedTransaction::begin(self, self.route()?, false))
    }

    /// Returns the environment itself if this process is the holder.
    pub fn held(&self) -> Option<&Environment> {
        self.holder.get().map(Holder::environment)
    }

    /// Makes the holder copy the environment into an empty directory of the host, while
    /// it is in use ([`Environment::backup`]). Returns the LSN of the copy's end.
    ///
    /// # Errors
    /// The same as [`Environment::backup`].
    pub fn backup(&self, directory: impl AsRef<Path>) -> Result<u64> {
        let absolute = std::path::absolute(directory);
        let absolute = absolute.map_err(|source| failed("backup", "name", 0, source))?;
        let Some(directory) = absolute.to_str() else {
            let what = "the directory of a backup must be UTF-8".into();
            return Err(Error::Option {
                option: "directory",
                what,
            });
        };
        let mut route = self.route()?;
        let answer = route.call(&Request::Backup { directory })?;
        self.give_back(route);
        match answer {
            Answer::Number(until) => Ok(until),
            _ => Err(unexpected()),
        }
    }

    /// Returns a connection, or a session if this process is the holder.
    fn route(&self) -> Result<Route<'_>> {
        // A new holder binds the socket shortly after it takes the lock. A process that
        // does not share never answers, and neither does a stopped one.
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(holder) = self.holder.get() {
                let session = Session::new(holder.environment());
                return Ok(Route::Here(Box::new(session)));
            }
            while let Some(idle) = { self.idle.lock().pop() } {
                if idle.is_alive() {
                    return Ok(Route::There(idle));
                }
            }
            match Connection::open(&self.directory) {
                Ok(connection) => return Ok(Route::There(connection)),
                // There is no holder, or it exited just now.
                Err(error) if is_nobody(&error) => {}
                Err(source) => {
                    let shown = self.directory.display().to_string();
                    return Err(failed(&shown, "connect", 0, source));
                }
            }
            let becoming = self.becoming.lock();
            if self.holder.get().is_none() {
                match Holder::open(&self.options, &self.directory) {
                    Ok(holder) => _ = self.holder.set(holder),
                    Err(Error::InUse) if Instant::now() < until => {
                        drop(becoming);
                        thread::sleep(Duration::from_millis(1));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Discards connections to a holder that exited or is stopped.
    pub(super) fn forget_idle(&self) {
        self.idle.lock().clear();
    }

    pub(super) fn give_back(&self, route: Route<'_>) {
        if let Route::There(mut connection) = route {
            connection.forget();
            let mut idle = self.idle.lock();
            if idle.len() < IDLE {
                idle.push(connection);
            }
        }
    }
}

fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        NotFound | ConnectionRefused | ConnectionReset | BrokenPipe | UnexpectedEof | WouldBlock
    )
}

pub(super) fn unexpected() -> Error {
    Error::Holder("it answers something else than was asked".into())
}

impl Route<'_> {
    /// Sends a request and waits for the answer.
    pub(super) fn call(&mut self, request: &Request<'_>) -> Result<Answer> {
        match self {
            Route::Here(session) => session.run(request),
            Route::There(connection) => connection.call(request),
        }
    }

    /// Sends a request whose error is returned with the next answer.
    pub(super) fn later(&mut self, request: &Request<'_>) -> Result<()> {
        match self {
            Route::Here(session) => session.run(request).map(|_| ()),
            Route::There(connection) => connection.later(request),
        }
    }
}
