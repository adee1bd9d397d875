//! Requests that are repeated until the store answers.
//!
//! An answer that a store could not give is never taken for another one: `Unavailable`
//! is repeated, and only a GET that the store answered says that an object is missing.

use crate::store::{Cause, Store, StoreError, StoreResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use varve_device::Clock;

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

#[derive(Debug, Default)]
struct Counts {
    creations: AtomicU64,
    created_bytes: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    lists: AtomicU64,
    deletions: AtomicU64,
    repeated: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
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
    counts: Counts,
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
            counts: Counts::default(),
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
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        Requests {
            creations: read(&counts.creations),
            created_bytes: read(&counts.created_bytes),
            reads: read(&counts.reads),
            read_bytes: read(&counts.read_bytes),
            lists: read(&counts.lists),
            deletions: read(&counts.deletions),
            repeated: read(&counts.repeated),
        }
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
            count(&self.counts.repeated, 1);
            self.pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Creates an object. Every answer but success leaves open whether the object was
    /// created, so it is read.
    pub fn create(&self, name: &str, bytes: &[u8]) -> StoreResult<Created> {
        self.repeat(|| {
            count(&self.counts.creations, 1);
            count(&self.counts.created_bytes, bytes.len() as u64);
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
        count(&self.counts.reads, 1);
        match self.store.get(name) {
            Ok(bytes) => {
                count(&self.counts.read_bytes, bytes.len() as u64);
                Ok(Some(bytes))
            }
            Err(error) if error.cause == Cause::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An object's content; none if the store says that it is missing.
    pub fn get(&self, name: &str) -> StoreResult<Option<Vec<u8>>> {
        self.repeat(|| self.get_once(name))
    }

    /// A range of an object.
    pub fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        self.repeat(|| {
            count(&self.counts.reads, 1);
            count(&self.counts.read_bytes, buffer.len() as u64);
            self.store.get_range(name, offset, buffer)
        })
    }

    /// Names that begin with `prefix`, in ascending order; a hint.
    pub fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<crate::Listed>> {
        self.repeat(|| {
            count(&self.counts.lists, 1);
            self.store.list(prefix, after)
        })
    }

    /// Deletes an object.
    pub fn delete(&self, name: &str) -> StoreResult<()> {
        self.repeat(|| {
            count(&self.counts.deletions, 1);
            self.store.delete(name)
        })
    }
}
