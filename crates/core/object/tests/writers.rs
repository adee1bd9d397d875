//! Writers and a reader of one volume, interleaved at every request of a store that
//! fails, and the mistakes that this must notice.
//!
//! Each actor is a thread. A request waits until the schedule, which follows from a seed,
//! admits it, so one actor runs at a time. Every state that an actor writes is entered
//! with the state it was made from; then
//! - an acknowledged state descends from those that were acknowledged before,
//! - a writer or reader that opens the volume finds a state that was written and that
//!   descends from what was acknowledged before it began.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use varve_device::{Clock, Device, VirtualClock};
use varve_object::planted::Planted;
use varve_object::simulated::{Faults, SimulatedStore};
use varve_object::{Holder, Listed, ObjectDevice, Opening, Settings, Store, StoreResult, Takeover};

const BLOCKS: u64 = 48;
const BLOCK: u64 = 4096;
const EXTENT: u64 = 64 << 10;
const GRACE: Duration = Duration::from_secs(60);

/// Admits one request at a time.
#[derive(Debug, Default)]
struct Schedule {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Actors that have not ended, and whether each waits.
    waits: HashMap<usize, bool>,
    admitted: Option<usize>,
}

impl Schedule {
    fn wait(&self, actor: usize) {
        let mut state = self.state.lock().unwrap();
        state.waits.insert(actor, true);
        self.changed.notify_all();
        while state.admitted != Some(actor) {
            state = self.changed.wait(state).unwrap();
        }
        state.admitted = None;
        state.waits.insert(actor, false);
    }

    fn end(&self, actor: usize) {
        self.state.lock().unwrap().waits.remove(&actor);
        self.changed.notify_all();
    }

    /// Admits the requests of all actors, until none is left.
    fn run(&self, random: &mut Xoshiro256PlusPlus) {
        let mut state = self.state.lock().unwrap();
        // One actor continues for a while, so that others find that much has happened
        // between two of their requests.
        let mut favourite = 0;
        let change = [4, 12, 150][(random.next_u64() % 3) as usize];
        loop {
            while state.admitted.is_some() || state.waits.values().any(|waits| !waits) {
                state = self.changed.wait(state).unwrap();
            }
            let mut waiting: Vec<usize> = state.waits.keys().copied().collect();
            if waiting.is_empty() {
                return;
            }
            waiting.sort_unstable();
            if random.next_u64().is_multiple_of(change) || !waiting.contains(&favourite) {
                favourite = waiting[(random.next_u64() % waiting.len() as u64) as usize];
            }
            state.admitted = Some(favourite);
            self.changed.notify_all();
        }
    }
}

/// The store as an actor sees it.
#[derive(Debug)]
struct Gate {
    store: Arc<SimulatedStore>,
    schedule: Arc<Schedule>,
    actor: usize,
}

impl Store for Gate {
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        self.schedule.wait(self.actor);
        self.store.create(name, parts)
    }
    fn get(&self, name: &str) -> StoreResult<Vec<u8>> {
        self.schedule.wait(self.actor);
        self.store.get(name)
    }
    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        self.schedule.wait(self.actor);
        self.store.get_range(name, offset, buffer)
    }
    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>> {
        self.schedule.wait(self.actor);
        self.store.list(prefix, after)
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        self.schedule.wait(self.actor);
        self.store.delete(name)
    }
    fn name(&self) -> String {
        "the store".to_owned()
    }
}

/// The stamps of all blocks.
type Image = Vec<u64>;

/// All states that were written: number of the state each was made from.
#[derive(Debug, Default)]
struct History {
    numbers: HashMap<Image, usize>,
    parents: Vec<usize>,
    acknowledged: usize,
    stamp: u64,
}

impl History {
    fn enter(&mut self, image: &Image, parent: usize) -> usize {
        let number = self.parents.len();
        self.parents.push(parent);
        assert!(self.numbers.insert(image.clone(), number).is_none());
        number
    }

    fn descends(&self, mut state: usize, from: usize) -> bool {
        while state > from {
            state = self.parents[state];
        }
        state == from
    }

    fn acknowledge(&mut self, state: usize) -> Result<(), String> {
        let before = self.acknowledged;
        // Another writer found this state before its own writer heard of it.
        if self.descends(before, state) {
            return Ok(());
        }
        if !self.descends(state, before) {
            return Err(format!("{state} was acknowledged, and lacks {before}"));
        }
        self.acknowledged = state;
        Ok(())
    }

    /// The state that an actor found, which began when `since` was acknowledged.
    fn found(&self, image: &Image, since: usize) -> Result<usize, String> {
        let Some(number) = self.numbers.get(image) else {
            return Err(format!("this was never written: {image:?}"));
        };
        match self.descends(*number, since) {
            true => Ok(*number),
            false => Err(format!("{number} was found, and lacks {since}")),
        }
    }
}

fn read(device: &ObjectDevice) -> Result<Image, String> {
    let mut image = Image::new();
    for block in 0..BLOCKS {
        let mut bytes = [0; BLOCK as usize];
        let read = device.read(block * BLOCK, &mut bytes);
        read.map_err(|error| format!("a block could not be read: {error}"))?;
        let stamps = bytes.as_chunks::<8>().0;
        if stamps.iter().any(|stamp| stamp != &stamps[0]) {
            return Err("a block is torn".to_owned());
        }
        image.push(u64::from_le_bytes(stamps[0]));
    }
    Ok(image)
}

struct Actor {
    store: Arc<dyn Store>,
    clock: Arc<VirtualClock>,
    history: Arc<Mutex<History>>,
    random: Xoshiro256PlusPlus,
    planted: Option<Planted>,
    number: usize,
}

impl Actor {
    fn opening(&mut self) -> Opening {
        let clock = Arc::clone(&self.clock);
        Opening {
            takeover: Takeover::Now,
            settings: Settings {
                holder: Holder {
                    host: format!("host {}", self.number),
                    ..Holder::default()
                },
                memory_bytes: 256 << 10,
                cache_bytes: 1,
                log_objects: 3,
                log_bytes: 512 << 10,
                grace: GRACE,
                stall: Duration::from_secs(3600),
                parallel: 1,
                planted: self.planted,
            },
            clock: Arc::clone(&self.clock) as _,
            pause: Arc::new(move |time| clock.advance(time)),
            identity: u128::from(self.random.next_u64()),
            ..Opening::default()
        }
    }

    /// Opens the volume, writes, and stops without an end or with one; again and again.
    fn write(mut self) -> Result<(), String> {
        for _ in 0..3 {
            let since = self.history.lock().unwrap().acknowledged;
            let opening = self.opening();
            let device = match ObjectDevice::open(&self.store, &opening) {
                Ok(device) => device,
                // The other writers were always faster.
                Err(varve_object::Error::Stopped(_)) => continue,
                Err(error) => return Err(format!("it does not open: {error}")),
            };
            let result = self.session(&device, since);
            let closes = self.random.next_u64().is_multiple_of(2);
            match result {
                Ok(()) if closes => drop(device.close()),
                // As if the process were killed.
                _ => std::mem::forget(device),
            }
            result?;
            self.clock
                .advance(Duration::from_secs(self.random.next_u64() % 100));
        }
        Ok(())
    }

    fn session(&mut self, device: &ObjectDevice, since: usize) -> Result<(), String> {
        let mut image = match read(device) {
            Ok(image) => image,
            // Another writer may have taken over for longer than the grace.
            Err(_) if device.flush_is_refused() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut state = self.history.lock().unwrap().found(&image, since)?;
        for _ in 0..self.random.next_u64() % 20 {
            for _ in 0..1 + self.random.next_u64() % 4 {
                let first = 1 + self.random.next_u64() % (BLOCKS - 1);
                let most = match self.random.next_u64() % 3 {
                    0 => 20,
                    _ => 2,
                };
                let count = 1 + self.random.next_u64() % most;
                let end = (first + count).min(BLOCKS);
                self.stamp(device, &mut image, first..end)?;
            }
            // No two states are equal.
            self.stamp(device, &mut image, 0..1)?;
            let state_before = state;
            state = self.history.lock().unwrap().enter(&image, state_before);
            if let Err(error) = device.flush() {
                let text = error.to_string();
                // Fenced: nothing is acknowledged any more.
                return match text.contains("took") {
                    true => Ok(()),
                    false => Err(format!("a flush failed: {text}")),
                };
            }
            self.history.lock().unwrap().acknowledge(state)?;
            self.clock
                .advance(Duration::from_secs(self.random.next_u64() % 20));
        }
        Ok(())
    }

    fn stamp(
        &self,
        device: &ObjectDevice,
        image: &mut Image,
        blocks: std::ops::Range<u64>,
    ) -> Result<(), String> {
        let mut bytes = Vec::new();
        let start = blocks.start * BLOCK;
        for block in blocks {
            let stamp = {
                let mut history = self.history.lock().unwrap();
                history.stamp += 1;
                history.stamp
            };
            image[block as usize] = stamp;
            bytes.extend(stamp.to_le_bytes().repeat(BLOCK as usize / 8));
        }
        let written = device.write(start, &[std::io::IoSlice::new(&bytes)]);
        written.map_err(|error| error.to_string())
    }

    /// Opens the volume for reading, again and again.
    fn read(mut self) -> Result<(), String> {
        for _ in 0..6 {
            let since = self.history.lock().unwrap().acknowledged;
            let begun = self.clock.monotonic_ns();
            let opening = Opening {
                read_only: true,
                ..self.opening()
            };
            let device = match ObjectDevice::open(&self.store, &opening) {
                Ok(device) => device,
                // Log and maps were shortened again and again.
                Err(varve_object::Error::Missing { .. }) if self.planted.is_none() => continue,
                Err(error) => return Err(format!("it does not open for reading: {error}")),
            };
            match read(&device) {
                Ok(image) => drop(self.history.lock().unwrap().found(&image, since)?),
                // What a reader has pinned is kept for the grace only.
                Err(error) => {
                    let passed = self.clock.monotonic_ns() - begun;
                    if u128::from(passed) < GRACE.as_nanos() {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

trait Refused {
    fn flush_is_refused(&self) -> bool;
}

impl Refused for ObjectDevice {
    /// True if the device is fenced: it writes a block and flushes.
    fn flush_is_refused(&self) -> bool {
        let zeros = [0; BLOCK as usize];
        let _ = self.write(0, &[std::io::IoSlice::new(&zeros)]);
        self.flush().is_err()
    }
}

/// One history: two writers and a reader.
fn run(seed: u64, faults: Faults, planted: Option<Planted>) -> Result<(), String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let clock = Arc::new(VirtualClock::new(1_000_000_000_000, 1_000_000));
    let store = SimulatedStore::new(seed, Faults::default(), Arc::clone(&clock) as _);
    let store = Arc::new(store);
    let schedule = Arc::new(Schedule::default());
    let history = Arc::new(Mutex::new(History::default()));
    history.lock().unwrap().enter(&vec![0; BLOCKS as usize], 0);
    let mut actors: Vec<Actor> = (0..3)
        .map(|number| Actor {
            store: Arc::new(Gate {
                store: Arc::clone(&store),
                schedule: Arc::clone(&schedule),
                actor: number,
            }),
            clock: Arc::clone(&clock),
            history: Arc::clone(&history),
            random: Xoshiro256PlusPlus::seed_from_u64(random.next_u64()),
            planted,
            number,
        })
        .collect();
    let making: Arc<dyn Store> = Arc::clone(&store) as _;
    ObjectDevice::create(&making, BLOCKS * BLOCK, EXTENT, &actors[0].opening()).unwrap();
    store.set_faults(faults);
    for number in 0..3 {
        let mut state = schedule.state.lock().unwrap();
        state.waits.insert(number, false);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = actors
            .drain(..)
            .map(|actor| {
                let schedule = &schedule;
                scope.spawn(move || {
                    let number = actor.number;
                    let work = || match number {
                        2 => actor.read(),
                        _ => actor.write(),
                    };
                    let result = catch_unwind(AssertUnwindSafe(work));
                    let result = result.map(|r| r.map_err(|e| format!("actor {number}: {e}")));
                    schedule.end(number);
                    result.unwrap_or_else(|panic| resume_unwind(panic))
                })
            })
            .collect();
        schedule.run(&mut random);
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.fold(Ok(()), Result::and)
    })
}

const FAULTS: Faults = Faults {
    lost: 40,
    unavailable: 40,
    exists: 40,
    late: 60,
    lag: 300,
    overwrites: false,
};

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("VARVE_SEED").map_or(0, |seed| seed.parse().unwrap());
    first..first + 200
}

#[test]
fn writers_and_a_reader_see_one_history() {
    println!("seeds {:?} (VARVE_SEED)", seeds());
    for seed in seeds() {
        for faults in [Faults::default(), FAULTS] {
            let result = run(seed, faults, None);
            assert!(result.is_ok(), "VARVE_SEED={seed}, {faults:?}: {result:?}");
        }
    }
}

#[test]
fn planted_mistakes_are_noticed() {
    let all = [
        Planted::DeletesUnacknowledged,
        Planted::UnnamedMap,
        Planted::ListBelieved,
        Planted::FenceCollected,
        Planted::ExistsBelieved,
        Planted::ErrorIsEnd,
        Planted::NoGrace,
        Planted::NamesUsedAgain,
    ];
    for planted in all {
        let noticed = (0..400).find(|seed| run(*seed, FAULTS, Some(planted)).is_err());
        println!("{planted:?} is noticed with seed {noticed:?}");
        assert!(noticed.is_some(), "{planted:?}");
    }
}
