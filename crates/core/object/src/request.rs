//! Requests that are repeated until the store answers.
//!
//! An answer that a store could not give is never taken for another one: `Unavailable`
//! is repeated, and only a GET that the store answered says that an object is missing.

use crate::store::{Cause, Store, StoreError, StoreResult};
use std::sync::Arc;
use std::time::Duration;
use varve_device::Clock;
use varve_device::sync::Mutex;

/// The first pause before a request is repeated; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Requests of a volume since it was opened, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Creations of objects.
    pub creations: u64,
    /// Bytes of these.
    pub created_bytes: u64,
    /// Reads of objects and of ranges.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Lists.
    pub lists: u64,
    /// Deletions.
    pub deletions: u64,
    /// Requests among them that were repeated.
    pub repeated: u64,
}

/// The result of a creation.
#[derive(Debug)]
pub(crate) enum Created {
    /// The object has the caller's bytes.
    Own,
    /// It has these.
    Other(Vec<u8>),
}

/// A function that waits.
pub(crate) type Pause = Arc<dyn Fn(Duration) + Send + Sync>;

/// A store, with repetitions.
pub(crate) struct Requester {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    pause: Pause,
    /// How long a request is repeated before it fails.
    stall: Duration,
    /// The mistake of believing that an object which exists is the caller's.
    believes: bool,
    counts: Mutex<Requests>,
}

impl std::fmt::Debug for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.store.fmt(f)
    }
}

impl Requester {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        pause: Pause,
        stall: Duration,
        believes: bool,
    ) -> Self {
        Requester {
            store,
            clock,
            pause,
            stall,
            believes,
            counts: Mutex::default(),
        }
    }

    pub fn name(&self) -> String {
        self.store.name()
    }

    pub fn now(&self) -> i64 {
        self.clock.now_ns()
    }

    pub fn pause(&self, time: Duration) {
        (self.pause)(time);
    }

    pub fn counted(&self) -> Requests {
        *self.counts.lock()
    }

    /// Repeats a request until it succeeds, fails for a reason that does not pass, or has
    /// been repeated for long enough.
    fn repeat<T>(&self, mut request: impl FnMut() -> StoreResult<T>) -> StoreResult<T> {
        let begun = self.clock.monotonic_ns();
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match request() {
                Err(error) if error.cause == Cause::Unavailable => error,
                answer => return answer,
            };
            let waited = self.clock.monotonic_ns().saturating_sub(begun);
            if u128::from(waited) >= self.stall.as_nanos() {
                return Err(error);
            }
            self.counts.lock().repeated += 1;
            self.pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Creates an object. Every answer but success leaves open whether the object was
    /// created, so it is read.
    pub fn create(&self, name: &str, bytes: &[u8]) -> StoreResult<Created> {
        self.repeat(|| {
            let mut counts = self.counts.lock();
            counts.creations += 1;
            counts.created_bytes += bytes.len() as u64;
            drop(counts);
            let error = match self.store.create(name, &[bytes]) {
                Ok(()) => return Ok(Created::Own),
                Err(error) if error.cause == Cause::Rejected => return Err(error),
                Err(error) if error.cause == Cause::Exists && self.believes => {
                    return Ok(Created::Own);
                }
                Err(error) => error,
            };
            match self.get_once(name)? {
                Some(found) if found == bytes => Ok(Created::Own),
                Some(found) => Ok(Created::Other(found)),
                // It was not created, whatever the store answered before.
                None => Err(StoreError {
                    cause: Cause::Unavailable,
                    ..error
                }),
            }
        })
    }

    /// Creates an object whose name belongs to this writer.
    pub fn create_own(&self, name: &str, bytes: &[u8]) -> StoreResult<()> {
        match self.create(name, bytes)? {
            Created::Own => Ok(()),
            Created::Other(_) => Err(StoreError {
                store: self.name(),
                operation: crate::Request::Create,
                object: name.to_owned(),
                cause: Cause::Malformed,
                message: "it has other bytes, and its name belongs to this writer".to_owned(),
            }),
        }
    }

    /// An object's content, asked for once.
    pub fn get_once(&self, name: &str) -> StoreResult<Option<Vec<u8>>> {
        let found = match self.store.get(name) {
            Err(error) if error.cause == Cause::Missing => Ok(None),
            answer => answer.map(Some),
        };
        let bytes = found.as_ref().ok().and_then(Option::as_ref);
        self.count_read(bytes.map_or(0, Vec::len));
        found
    }

    fn count_read(&self, bytes: usize) {
        let mut counts = self.counts.lock();
        counts.reads += 1;
        counts.read_bytes += bytes as u64;
    }

    /// An object's content; none if the store says that it is missing.
    pub fn get(&self, name: &str) -> StoreResult<Option<Vec<u8>>> {
        self.repeat(|| self.get_once(name))
    }

    /// A range of an object.
    pub fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        self.repeat(|| {
            self.count_read(buffer.len());
            self.store.get_range(name, offset, buffer)
        })
    }

    /// Names that begin with `prefix`, in ascending order; a hint.
    pub fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<crate::Listed>> {
        self.repeat(|| {
            self.counts.lock().lists += 1;
            self.store.list(prefix, after)
        })
    }

    /// Deletes an object.
    pub fn delete(&self, name: &str) -> StoreResult<()> {
        self.repeat(|| {
            self.counts.lock().deletions += 1;
            self.store.delete(name)
        })
    }
}
