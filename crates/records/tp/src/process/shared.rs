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

/// Connections that are kept for later.
const IDLE: usize = 64;

/// An environment in a directory of the host that several processes have open.
///
/// One of them holds it, the others reach it through that one. Nobody says who: whoever
/// comes first; and when the holder is gone, whoever calls next. Transactions that were
/// open then fail with [`Error::HolderDied`]; they are undone, and can be tried again.
/// Whoever dies has its transactions aborted.
///
/// Options count for whoever holds: all should open with the same.
#[derive(Debug)]
pub struct SharedEnvironment {
    directory: PathBuf,
    options: Options,
    /// Once it holds, it does so until it is dropped.
    holder: OnceLock<Holder>,
    /// One tries to become it at a time.
    becoming: Mutex<()>,
    idle: Mutex<Vec<Connection>>,
}

/// True if a process that shares the environment in a directory holds it now, and answers.
pub fn is_shared(directory: impl AsRef<Path>) -> bool {
    Connection::open(directory.as_ref()).is_ok()
}

/// Who does what is asked for.
#[derive(Debug)]
pub(super) enum Route<'s> {
    Here(Box<Session<'s>>),
    There(Connection),
}

impl Options {
    /// Opens an environment in a directory of the host together with other processes
    /// that do the same.
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
    /// As [`open`](Self::open); [`Error::InUse`] if it is open and not shared, or if the
    /// process that holds it is stopped.
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
    /// As [`Options::share`]: the environment may have to be opened again.
    pub fn begin_write(&self) -> Result<SharedTransaction<'_>> {
        Ok(SharedTransaction::begin(self, self.route()?, true))
    }

    /// Begins a transaction that only reads.
    ///
    /// # Errors
    /// As [`begin_write`](Self::begin_write).
    pub fn begin_read(&self) -> Result<SharedTransaction<'_>> {
        Ok(SharedTransaction::begin(self, self.route()?, false))
    }

    /// The environment itself, if this process holds it.
    pub fn held(&self) -> Option<&Environment> {
        self.holder.get().map(Holder::environment)
    }

    /// Has the holder copy the environment into an empty directory of the host, while
    /// it is at work ([`Environment::backup`]). Answers the LSN up to which it goes.
    ///
    /// # Errors
    /// As [`Environment::backup`].
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

    /// The way to the environment now.
    fn route(&self) -> Result<Route<'_>> {
        // From taking the lock to binding the socket it is a moment. One who does not share
        // never answers, and one who is stopped does not.
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
                // Nobody holds it, or whoever did died just now.
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

    /// The holder of these is gone, or stopped.
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
    /// Asks, and waits for the answer.
    pub(super) fn call(&mut self, request: &Request<'_>) -> Result<Answer> {
        match self {
            Route::Here(session) => session.run(request),
            Route::There(connection) => connection.call(request),
        }
    }

    /// Asks; that it is done, or why not, is heard with the next answer.
    pub(super) fn later(&mut self, request: &Request<'_>) -> Result<()> {
        match self {
            Route::Here(session) => session.run(request).map(|_| ()),
            Route::There(connection) => connection.later(request),
        }
    }
}
