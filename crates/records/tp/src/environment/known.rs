//! The names of committed tables. A repeated look-up writes to no memory that threads
//! share: most threads have their own copies of the entries that they use, which belong
//! to a generation. A change starts a new generation, and all copies are then renewed.

use crate::catalog::Entry;
use crate::home::home;
use crate::log::Lsn;
use foldhash::HashMap;
use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};
use varve_device::sync::{Mutex, RwLock, RwLockReadGuard};

/// Number of sets of copies; further threads share them.
const PLACES: usize = 64;
/// Largest number of copies in a set.
const COPIES_MAX: usize = 256;

/// Tables, each with the commit since which it exists.
pub(super) type Tables = HashMap<String, (Entry, Lsn)>;

/// The alignment is 128 because CPUs fetch lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place(Mutex<Copies>);

#[derive(Debug, Default)]
struct Copies {
    generation: u64,
    tables: Tables,
}

/// The committed tables by name, with copies for threads.
#[derive(Debug)]
pub(super) struct Known {
    tables: RwLock<Tables>,
    /// Changes under the lock of `tables`, after them.
    generation: AtomicU64,
    places: Box<[Place]>,
}

impl Known {
    pub(super) fn new(tables: Tables) -> Self {
        Known {
            tables: RwLock::new(tables),
            generation: AtomicU64::new(0),
            places: (0..PLACES).map(|_| Place::default()).collect(),
        }
    }

    /// Returns all tables.
    pub(super) fn all(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Tables)) {
        let mut tables = self.tables.write();
        change(&mut tables);
        self.generation.fetch_add(1, SeqCst);
    }

    /// Runs `look` on a table, if it exists.
    pub(super) fn look<T>(&self, name: &str, look: impl FnOnce(&Entry, Lsn) -> T) -> Option<T> {
        let place = &self.places[home(self.places.len())].0;
        let Some(mut copies) = place.try_lock() else {
            let tables = self.tables.read();
            return tables.get(name).map(|(entry, since)| look(entry, *since));
        };
        let generation = self.generation.load(SeqCst);
        if copies.generation != generation || copies.tables.len() > COPIES_MAX {
            copies.tables.clear();
            copies.generation = generation;
        }
        if let Some((entry, since)) = copies.tables.get(name) {
            return Some(look(entry, *since));
        }
        // The copy may be newer than the generation, and is then renewed.
        let (entry, since) = self.tables.read().get(name).cloned()?;
        let looked = look(&entry, since);
        copies.tables.insert(name.to_owned(), (entry, since));
        Some(looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::TableId;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn entry(table: u32) -> (Entry, Lsn) {
        let entry = Entry {
            id: TableId { table, root: table },
            types: String::new(),
        };
        (entry, Lsn(u64::from(table)))
    }

    fn number(known: &Known, name: &str) -> Option<u32> {
        known.look(name, |entry, _| entry.id.table)
    }

    #[test]
    fn a_name_is_looked_at_again_without_a_lock_that_threads_share() {
        let known = Known::new(HashMap::from_iter([("a".to_owned(), entry(1))]));
        let (warm, locked, read) = (channel(), channel(), channel());
        std::thread::scope(|scope| {
            let known = &known;
            scope.spawn(move || {
                assert_eq!(number(known, "a"), Some(1));
                warm.0.send(()).unwrap();
                locked.1.recv().unwrap();
                read.0.send(number(known, "a")).unwrap();
            });
            warm.1.recv().unwrap();
            let tables = known.tables.write();
            locked.0.send(()).unwrap();
            let answered = read.1.recv_timeout(Duration::from_secs(60));
            drop(tables);
            assert_eq!(answered, Ok(Some(1)));
        });
    }

    #[test]
    fn a_change_is_seen_at_once() {
        let known = Known::new(HashMap::default());
        for round in 1..4 {
            assert_eq!(number(&known, "b"), None);
            known.change(|tables| _ = tables.insert("b".to_owned(), entry(round)));
            assert_eq!(number(&known, "b"), Some(round));
            assert_eq!(number(&known, "b"), Some(round));
            known.change(|tables| _ = tables.remove("b"));
        }
    }
}
