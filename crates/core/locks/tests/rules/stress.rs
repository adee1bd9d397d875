//! Many threads, random requests: no conflicting locks are held, and all requests end.

use super::draws::{Draws, seed};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use varve_device::HostClock;
use varve_locks::{LockError, LockTable, Mode, OwnerId};

const OBJECTS: usize = 4;
const UNITS: u32 = 4;
const THREADS: u64 = 6;
const TRANSACTIONS: u64 = 600;

/// A unit that the locks protect: its readers and its writer, as recorded by
/// themselves.
#[derive(Default)]
struct Unit {
    readers: AtomicI64,
    /// The writing transaction's number, or 0 for none.
    writer: AtomicI64,
}

#[derive(Default)]
struct World([[Unit; UNITS as usize]; OBJECTS]);

/// The units that a transaction reads and writes at the moment.
#[derive(Default)]
struct Uses {
    reads: Vec<(usize, u32)>,
    writes: Vec<(usize, u32)>,
}

impl World {
    fn unit(&self, at: (usize, u32)) -> &Unit {
        &self.0[at.0][at.1 as usize]
    }

    fn begin(&self, uses: &mut Uses, me: OwnerId, at: (usize, u32), write: bool) {
        let (unit, me) = (self.unit(at), me.0 as i64);
        if !uses.reads.contains(&at) {
            unit.readers.fetch_add(1, SeqCst);
            uses.reads.push(at);
        }
        let writer = unit.writer.load(SeqCst);
        assert!(
            writer == 0 || writer == me,
            "{me} reads what {writer} writes"
        );
        if write && !uses.writes.contains(&at) {
            assert_eq!(unit.writer.swap(me, SeqCst), 0, "two writers of {at:?}");
            assert_eq!(unit.readers.load(SeqCst), 1, "{me} writes what others read");
            uses.writes.push(at);
        }
    }

    fn end(&self, uses: Uses) {
        for at in uses.writes {
            self.unit(at).writer.store(0, SeqCst);
        }
        for at in uses.reads {
            self.unit(at).readers.fetch_sub(1, SeqCst);
        }
    }
}

/// Runs one transaction: a few requests, the accesses that they allow, an end.
fn transaction(table: &LockTable<usize>, world: &World, draws: &mut Draws) {
    let me = table.begin(None);
    let mut uses = Uses::default();
    for _ in 0..draws.below(5) + 1 {
        let object = draws.below(OBJECTS as u64) as usize;
        let start = draws.below(UNITS.into()) as u32;
        let span = start..start + 1 + draws.below((UNITS - start).into()) as u32;
        let mode = [Mode::Read, Mode::Update, Mode::Write][draws.below(3) as usize];
        let timeout = match draws.below(8) {
            0 => Some(Duration::ZERO),
            1 => Some(Duration::from_micros(50)),
            _ => None,
        };
        let result = table.lock_span(me, &object, span.clone(), mode, timeout);
        match result {
            Ok(()) => {
                for unit in span {
                    world.begin(&mut uses, me, (object, unit), mode == Mode::Write);
                }
            }
            Err(LockError::Deadlock) => break,
            Err(LockError::Timeout) => assert!(timeout.is_some()),
            Err(LockError::Cancelled) => panic!("nobody cancels"),
        }
        if draws.below(4) == 0 {
            std::thread::yield_now();
        }
    }
    world.end(uses);
    table.end(me);
}

#[test]
fn threads_never_hold_what_conflicts() {
    let seed = seed("threads_never");
    let table = Arc::new(LockTable::new(Arc::new(HostClock::default())));
    let world = World::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (table, world) = (&table, &world);
            scope.spawn(move || {
                let mut draws = Draws::new(seed * THREADS + thread);
                for _ in 0..TRANSACTIONS {
                    transaction(table, world, &mut draws);
                }
            });
        }
    });
    let now = table.statistics();
    assert_eq!((now.objects, now.owners, now.waiting), (0, 0, 0), "{now:?}");
    assert!(now.waits > 0 && now.deadlocks > 0, "{now:?}");
}
