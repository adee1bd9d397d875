//! A store in memory that does what real ones do: it loses answers, is not available,
//! says of an object that it exists to the request that created it, executes a request
//! twice, and its lists lack new objects and have deleted ones.
//!
//! Everything follows from a seed and from the order of the requests.

use crate::store::{Cause, Listed, Request, Store, StoreError, StoreResult};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use varve_device::Clock;
use varve_device::sync::Mutex;

/// How often a store fails, in thousandths of all requests of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The request is executed, and its answer is lost.
    pub lost: u64,
    /// The request is not executed.
    pub unavailable: u64,
    /// A creation is executed, and the answer says that the object exists.
    pub exists: u64,
    /// A creation is executed again, up to 100 requests later.
    pub late: u64,
    /// A list lacks an object, or has a deleted one, for up to 30 requests.
    pub lag: u64,
    /// A creation replaces an object that exists: no volume can be in such a store.
    pub overwrites: bool,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Arc<Vec<u8>>,
    modified: SystemTime,
}

#[derive(Debug)]
struct World {
    objects: BTreeMap<String, Object>,
    /// What lists show, where that is different: until which request.
    shown: BTreeMap<String, (Option<Object>, u64)>,
    /// Creations that are executed again, and when.
    late: Vec<(u64, String, Object)>,
    requests: u64,
    random: Xoshiro256PlusPlus,
    faults: Faults,
}

/// A store in memory.
#[derive(Debug)]
pub struct SimulatedStore {
    clock: Arc<dyn Clock>,
    world: Mutex<World>,
}

impl SimulatedStore {
    /// An empty store, whose objects have the times of `clock`.
    pub fn new(seed: u64, faults: Faults, clock: Arc<dyn Clock>) -> Self {
        SimulatedStore {
            clock,
            world: Mutex::new(World {
                objects: BTreeMap::new(),
                shown: BTreeMap::new(),
                late: Vec::new(),
                requests: 0,
                random: Xoshiro256PlusPlus::seed_from_u64(seed),
                faults,
            }),
        }
    }

    /// Changes how often it fails from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.lock().faults = faults;
    }

    /// Names and sizes of all objects.
    pub fn objects(&self) -> Vec<(String, u64)> {
        let world = self.world.lock();
        let sizes = world.objects.iter();
        sizes
            .map(|(name, object)| (name.clone(), object.bytes.len() as u64))
            .collect()
    }

    /// Changes the bytes of an object, as damage does. False if it does not exist.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut world = self.world.lock();
        let Some(object) = world.objects.get_mut(name) else {
            return false;
        };
        change(Arc::make_mut(&mut object.bytes));
        true
    }

    fn error(&self, operation: Request, name: &str, cause: Cause) -> StoreError {
        StoreError {
            store: self.name(),
            operation,
            object: name.to_owned(),
            cause,
            message: format!("{cause:?}"),
        }
    }

    fn request<T>(
        &self,
        operation: Request,
        name: &str,
        execute: impl FnOnce(&mut World) -> Result<T, Cause>,
    ) -> StoreResult<T> {
        let error = |cause| self.error(operation, name, cause);
        let mut world = self.world.lock();
        world.advance();
        let faults = world.faults;
        if world.draws(faults.unavailable) {
            return Err(error(Cause::Unavailable));
        }
        let is_lost = world.draws(faults.lost);
        let answer = execute(&mut world).map_err(error);
        match is_lost {
            true => Err(error(Cause::Unavailable)),
            false => answer,
        }
    }
}

impl World {
    /// Counts a request, and executes those that are late.
    fn advance(&mut self) {
        self.requests += 1;
        let now = self.requests;
        self.shown.retain(|_, (_, until)| *until > now);
        let (due, later) = std::mem::take(&mut self.late)
            .into_iter()
            .partition(|(at, _, _)| *at <= now);
        self.late = later;
        let due: Vec<(u64, String, Object)> = due;
        for (_, name, object) in due {
            self.objects.entry(name).or_insert(object);
        }
    }

    fn draws(&mut self, thousandths: u64) -> bool {
        self.random.next_u64() % 1000 < thousandths
    }

    fn lag(&mut self, name: &str, shown: Option<Object>) {
        if self.draws(self.faults.lag) {
            let until = self.requests + self.random.next_u64() % 30;
            self.shown.insert(name.to_owned(), (shown, until));
        }
    }
}

impl Store for SimulatedStore {
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        let modified = UNIX_EPOCH
            + Duration::from_nanos(u64::try_from(self.clock.now_ns()).unwrap_or_default());
        let object = Object {
            bytes: Arc::new(parts.concat()),
            modified,
        };
        self.request(Request::Create, name, |world| {
            if world.draws(world.faults.late) {
                let at = world.requests + world.random.next_u64() % 100;
                world.late.push((at, name.to_owned(), object.clone()));
            }
            if world.objects.contains_key(name) && !world.faults.overwrites {
                return Err(Cause::Exists);
            }
            world.objects.insert(name.to_owned(), object);
            world.lag(name, None);
            match world.draws(world.faults.exists) {
                true => Err(Cause::Exists),
                false => Ok(()),
            }
        })
    }

    fn get(&self, name: &str) -> StoreResult<Vec<u8>> {
        self.request(Request::Get, name, |world| {
            let object = world.objects.get(name).ok_or(Cause::Missing)?;
            Ok(object.bytes.to_vec())
        })
    }

    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        self.request(Request::Get, name, |world| {
            let object = world.objects.get(name).ok_or(Cause::Missing)?;
            let from = usize::try_from(offset).map_err(|_| Cause::Malformed)?;
            let end = from.checked_add(buffer.len()).ok_or(Cause::Malformed)?;
            let bytes = object.bytes.get(from..end).ok_or(Cause::Malformed)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>> {
        self.request(Request::List, prefix, |world| {
            let mut seen = world.objects.clone();
            for (name, (shown, _)) in &world.shown {
                match shown {
                    Some(object) => seen.insert(name.clone(), object.clone()),
                    None => seen.remove(name),
                };
            }
            let wanted = seen
                .into_iter()
                .filter(|(name, _)| name.starts_with(prefix) && name.as_str() > after);
            let listed = wanted.map(|(name, object)| Listed {
                name,
                bytes: object.bytes.len() as u64,
                modified: object.modified,
            });
            Ok(listed.collect())
        })
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        self.request(Request::Delete, name, |world| {
            if let Some(object) = world.objects.remove(name) {
                world.lag(name, Some(object));
            }
            Ok(())
        })
    }

    fn name(&self) -> String {
        "a simulated store".to_owned()
    }
}
