//! Pages that a thread has read recently: reading one of them again writes to no memory
//! that threads share.
//!
//! Most threads have a table of their own. An entry refers to the bytes of a page, and
//! names the frame and the frame's edition. The edition changes when the frame's write
//! latch is taken, and when its page leaves. While it is the same, the frame has this
//! page, and the bytes are those that its latch would show.
//!
//! A page that is changed or evicted while tables refer to its bytes gets new ones, and
//! the old ones live as long as an entry refers to them. They are counted, and all tables
//! are emptied when they reach a 32nd of the frames, which bounds the memory.
//!
//! Lock order: a table's mutex after every other lock of the pool. A thread that owns one
//! waits for nothing.

use super::Pool;
use super::frame::ReadPage;
use crate::home::home;
use crate::page::Page;
use std::sync::Arc;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicUsize, Ordering::*};

/// Number of tables; further threads share them.
const PLACES: usize = 64;

#[derive(Debug)]
struct Entry {
    page: u32,
    frame: u32,
    edition: u64,
    bytes: Arc<[u8]>,
}

/// A table: a page's position is its number modulo the length. The alignment is 128
/// because CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place(Mutex<Vec<Option<Entry>>>);

#[derive(Debug)]
pub(super) struct Near {
    places: Box<[Place]>,
    /// Entries per table.
    entries: usize,
    /// Number of pages' bytes that only tables may refer to, since the tables were
    /// emptied.
    strays: AtomicUsize,
    strays_max: usize,
}

impl Near {
    /// Returns empty tables over `frames` frames.
    pub(super) fn new(frames: usize) -> Self {
        Near {
            places: (0..PLACES).map(|_| Place::default()).collect(),
            entries: (frames / 16).max(1),
            strays: AtomicUsize::new(0),
            strays_max: (frames / 32).max(1),
        }
    }

    /// Counts bytes that a frame gives up while a table refers to them.
    pub(super) fn strayed(&self) {
        if self.strays.fetch_add(1, Relaxed) + 1 < self.strays_max {
            return;
        }
        self.strays.store(0, Relaxed);
        for place in &self.places {
            drop(std::mem::take(&mut *place.0.lock()));
        }
    }

    fn place(&self) -> &Mutex<Vec<Option<Entry>>> {
        &self.places[home(self.places.len())].0
    }
}

impl Pool {
    /// Runs `look` on a page in this thread's table; `None` if the page is not there, or
    /// was changed.
    pub(crate) fn near<T>(&self, page: u32, look: impl FnOnce(Page<'_>) -> T) -> Option<T> {
        let mut table = self.near.place().try_lock()?;
        let at = page as usize % self.near.entries;
        let place = table.get_mut(at)?;
        let entry = place.as_ref().filter(|entry| entry.page == page)?;
        let frame = &self.frames[entry.frame as usize];
        if frame.edition.load(SeqCst) != entry.edition {
            *place = None;
            return None;
        }
        frame.used();
        Some(look(Page(&entry.bytes)))
    }

    /// Adds a page that is read often to this thread's table.
    pub(crate) fn bring_near(&self, page: &ReadPage<'_>) {
        let frame = page.pin.0;
        if !frame.is_hot() {
            return;
        }
        let Some(mut table) = self.near.place().try_lock() else {
            return;
        };
        if table.is_empty() {
            table.resize_with(self.near.entries, || None);
        }
        let entry = Entry {
            page: frame.page.load(SeqCst),
            frame: frame.number,
            // The edition cannot change, because the page is pinned and latched for
            // reading.
            edition: frame.edition.load(SeqCst),
            bytes: Arc::clone(&page.content.bytes),
        };
        let at = entry.page as usize % self.near.entries;
        table[at] = Some(entry);
    }
}

#[cfg(test)]
mod tests {
    use crate::storage::MemoryStorage;
    use crate::{Environment, Options, TableDefinition};
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use varve_device::sync::atomic::Ordering::Relaxed;

    const TABLE: TableDefinition<u32, u32> = TableDefinition::new("table");
    const RECORDS: u32 = 5_000;

    fn filled() -> Environment {
        let mut options = Options::new();
        options.memory(1024 * 4096).background(false);
        let environment = options.open_storage(Arc::new(MemoryStorage::new()));
        let environment = environment.unwrap();
        put(&environment, |key| key);
        environment
    }

    fn put(environment: &Environment, value: impl Fn(u32) -> u32) {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        (0..RECORDS).for_each(|key| _ = table.insert(key, value(key)).unwrap());
        transaction.commit().unwrap();
    }

    /// Reads all records, each in a transaction of its own.
    fn check(environment: &Environment, value: impl Fn(u32) -> u32) {
        for key in 0..RECORDS {
            let transaction = environment.begin_read();
            let table = transaction.open_table(TABLE).unwrap();
            assert_eq!(table.get(key).unwrap(), Some(value(key)));
        }
    }

    /// The shared structures are locked, and another thread reads pages again that it has
    /// read before.
    #[test]
    fn hot_pages_are_read_without_a_lock_that_threads_share() {
        let environment = filled();
        let (warm, (locked, read)) = (channel(), (channel(), channel()));
        std::thread::scope(|scope| {
            let environment = &environment;
            scope.spawn(move || {
                (0..4).for_each(|_| check(environment, |key| key));
                warm.0.send(()).unwrap();
                locked.1.recv().unwrap();
                check(environment, |key| key);
                read.0.send(()).unwrap();
            });
            warm.1.recv().unwrap();
            let pool = &environment.shared().engine.pool;
            let shards: Vec<_> = pool.table.iter().map(|shard| shard.0.lock()).collect();
            let frames = pool.frames.iter().map(|frame| frame.latch.write());
            let frames: Vec<_> = frames.collect();
            let (queues, layout) = (pool.queues.lock(), pool.layout.lock());
            let pins = pool.frames.iter().map(|frame| frame.pins.load(Relaxed));
            assert_eq!(pins.sum::<u32>(), 0);
            locked.0.send(()).unwrap();
            let answered = read.1.recv_timeout(Duration::from_secs(60));
            drop((shards, frames, queues, layout));
            answered.expect("the reader waits for a lock that threads share");
        });
    }

    /// Threads that have read everything see each change.
    #[test]
    fn what_is_changed_is_near_no_more() {
        let environment = filled();
        for round in 1..4 {
            (0..4).for_each(|_| check(&environment, |key| key + round - 1));
            put(&environment, |key| key + round);
            check(&environment, |key| key + round);
        }
    }

    /// Bytes to which only the tables refer are bounded for any number of threads.
    #[test]
    fn what_the_tables_keep_alive_is_bounded() {
        let environment = filled();
        let pool = &environment.shared().engine.pool;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..4).for_each(|_| check(&environment, |key| key)));
            }
        });
        let entered = |place: &super::Place| place.0.lock().iter().flatten().count();
        let entries: usize = pool.near.places.iter().map(entered).sum();
        assert!(entries > pool.near.strays_max, "{entries}");
        put(&environment, |key| key + 1);
        let mut alone = 0;
        for place in &pool.near.places {
            for entry in place.0.lock().iter().flatten() {
                let frame = &pool.frames[entry.frame as usize];
                let held = Arc::ptr_eq(&frame.latch.read().bytes, &entry.bytes);
                alone += usize::from(!held);
            }
        }
        // Each of four threads may refer to the same pages.
        assert!(alone <= 4 * pool.near.strays_max, "{alone}");
    }
}
