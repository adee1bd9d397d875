//! The crash explorer on a device. An environment and some plain files are stored on a
//! recorded device by `DeviceStorage`, and the power fails at every request. Any of the
//! unflushed writes survive, in any order, some of them in part. The table of files must
//! be valid, all files must be in a state after some call, the records in a state after
//! some commit; nothing acknowledged may be missing, and the next life must work.
//!
//! The device was used before, and cleared only by overwriting its beginning: a similar
//! environment is underneath, in the same places.

use super::{Model, Random, TABLE, content, small};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;
use varve_device::{CrashExplorer, Device, Limits, MemoryDevice, MemoryImage, RecordingDevice};
use varve_tp::storage::{DeviceStorage, Storage};
use varve_tp::{Durability, Environment, Options, Placement, TornPages};

const SIZE: u64 = 64 << 20;
/// Capacity of a file.
const EXTENT: u64 = 128 << 10;
/// Bytes of both copies of the table.
const TABLES: usize = 32 << 10;
/// Byte that the former user left on the device.
const FOREIGN: u8 = 0xee;
/// A plain file that is being created, and one that grows.
const MAKING: &str = "note.new";
const JOURNAL: &str = "journal";
/// Key of the record committed after a crash.
const AFTERWARDS: &[u8] = b"zz";

/// Attempts at each stop of the first recording, and of those after a crash.
const LIMITS: Limits = Limits {
    exhaustive_writes: 2,
    random_subsets: 2,
    each_shape: 2,
    torn_writes: 2,
    torn_variants: 2,
    scattered: 2,
};
const AGAIN: Limits = Limits {
    exhaustive_writes: 1,
    random_subsets: 1,
    each_shape: 1,
    torn_writes: 1,
    torn_variants: 2,
    scattered: 1,
};

/// Plain files.
type Files = BTreeMap<String, Vec<u8>>;

/// States in their order; those before `floor` can no longer appear.
#[derive(Clone, Debug)]
struct History<T> {
    states: Vec<T>,
    floor: usize,
}

impl<T: Clone + PartialEq> History<T> {
    fn from(state: T) -> Self {
        History {
            states: vec![state],
            floor: 0,
        }
    }

    fn last(&self) -> T {
        self.states.last().expect("never empty").clone()
    }

    fn all_durable(&mut self) {
        self.floor = self.states.len() - 1;
    }

    fn allowed(&self) -> RangeInclusive<usize> {
        self.floor..=self.states.len() - 1
    }

    fn find(&self, state: &T, allowed: &RangeInclusive<usize>, what: &str) -> Result<(), String> {
        if self.states[allowed.clone()].contains(state) {
            return Ok(());
        }
        Err(match self.states.iter().position(|other| other == state) {
            Some(at) => format!("{what} of state {at}, not of {allowed:?}"),
            None => format!("{what} of no state there was, not of {allowed:?}"),
        })
    }
}

/// States that a crash may show.
#[derive(Clone, Debug)]
struct Allowed {
    records: RangeInclusive<usize>,
    files: RangeInclusive<usize>,
}

/// Lives on a recorded device, with their history.
struct Recorded {
    device: Arc<RecordingDevice<MemoryDevice>>,
    records: History<Model>,
    files: History<Files>,
    allowed: Vec<Allowed>,
}

impl Recorded {
    fn new(base: &MemoryImage, records: Model, files: Files) -> Self {
        let mut recorded = Recorded {
            device: Arc::new(RecordingDevice::new(MemoryDevice::from_image(base))),
            records: History::from(records),
            files: History::from(files),
            allowed: Vec::new(),
        };
        recorded.mark();
        recorded
    }

    fn mark(&mut self) {
        self.allowed.push(Allowed {
            records: self.records.allowed(),
            files: self.files.allowed(),
        });
        self.device.mark(self.allowed.len() as u64 - 1);
    }

    /// Opens the environment, works, and closes it.
    fn live(&mut self, random: &mut Random, options: &Options, steps: u64) -> Result<(), String> {
        let (storage, environment) = open(self.device.clone(), options)?;
        for _ in 0..steps {
            match random.below(12) {
                0..=5 => self.commit(random, &environment),
                6 | 7 => self.put(random, &storage),
                8..=10 => self.journal(random, &storage),
                _ => environment.maintain().unwrap(),
            }
        }
        // The lengths of files are only in the memory of this storage.
        if self.files.last().contains_key(JOURNAL) {
            self.sync(&storage, JOURNAL);
        }
        environment.close().unwrap();
        self.records.all_durable();
        self.mark();
        Ok(())
    }

    fn commit(&mut self, random: &mut Random, environment: &Environment) {
        let before = self.records.last();
        let mut changed = before.clone();
        let transaction = environment.begin_write();
        for _ in 0..1 + random.below(6) {
            super::change(random, &transaction, &mut changed);
        }
        if random.one_in(6) {
            return transaction.abort().unwrap();
        }
        let durability = match random.one_in(4) {
            true => Durability::Buffered,
            false => Durability::Durable,
        };
        // A transaction without changes makes nothing durable.
        let durable = durability == Durability::Durable && changed != before;
        self.records.states.push(changed);
        self.mark();
        transaction.commit_with(durability).unwrap();
        if durable {
            self.records.all_durable();
        }
        self.mark();
    }

    /// Makes a call of the storage with this change of the plain files. A written table
    /// has the lengths of all files.
    fn call(
        &mut self,
        storage: &DeviceStorage,
        durable: bool,
        change: impl FnOnce(&mut Files),
        call: impl FnOnce(&DeviceStorage) -> std::io::Result<()>,
    ) {
        let mut changed = self.files.last();
        change(&mut changed);
        self.files.states.push(changed);
        self.mark();
        call(storage).unwrap();
        if durable {
            self.files.all_durable();
            self.mark();
        }
    }

    fn open(&mut self, storage: &DeviceStorage, name: &str) {
        // For an existing file nothing is written.
        let new = !self.files.last().contains_key(name);
        let change = |files: &mut Files| _ = files.entry(name.to_owned()).or_default();
        self.call(storage, new, change, |storage| {
            storage.open(name, true).map(drop)
        });
    }

    /// Writes some bytes at the end, or after a gap behind it.
    fn grow(&mut self, random: &mut Random, storage: &DeviceStorage, name: &str) {
        let gap = match random.below(4) {
            0 => random.below(9000),
            1 => 512,
            _ => 0,
        };
        let byte = 1 + random.below(200) as u8;
        let bytes = vec![byte; 1 + random.below(3000) as usize];
        let at = self.files.last()[name].len() + gap as usize;
        if (at + bytes.len()) as u64 > EXTENT {
            return;
        }
        let change = |files: &mut Files| {
            let file = files.get_mut(name).expect("it was opened");
            file.resize(at, 0);
            file.extend_from_slice(&bytes);
        };
        self.call(storage, false, change, |storage| {
            storage.open(name, false)?.write_at(at as u64, &bytes)
        });
    }

    /// Sets the length of a file, and syncs it.
    fn cut(&mut self, storage: &DeviceStorage, name: &str, bytes: usize) {
        let change = |files: &mut Files| files.get_mut(name).expect("opened").resize(bytes, 0);
        self.call(storage, true, change, |storage| {
            let file = storage.open(name, false)?;
            file.truncate(bytes as u64)?;
            file.sync()
        });
    }

    fn sync(&mut self, storage: &DeviceStorage, name: &str) {
        let nothing = |_: &mut Files| {};
        self.call(storage, true, nothing, |storage| {
            storage.open(name, false)?.sync()
        });
    }

    /// Creates a complete file under another name, which often replaces an existing one.
    fn put(&mut self, random: &mut Random, storage: &DeviceStorage) {
        self.open(storage, MAKING);
        self.cut(storage, MAKING, 0);
        self.grow(random, storage, MAKING);
        if random.one_in(2) {
            self.grow(random, storage, MAKING);
        }
        self.sync(storage, MAKING);
        let name = format!("note-{}", random.below(2));
        let change = |files: &mut Files| {
            let file = files.remove(MAKING).expect("it was made");
            files.insert(name.clone(), file);
        };
        self.call(storage, true, change, |storage| {
            storage.rename(MAKING, &name)
        });
    }

    /// Extends a file in place, and sometimes truncates it.
    fn journal(&mut self, random: &mut Random, storage: &DeviceStorage) {
        if !self.files.last().contains_key(JOURNAL) {
            self.open(storage, JOURNAL);
        }
        match random.below(6) {
            0 => {
                let bytes = self.files.last()[JOURNAL].len() as u64;
                self.cut(storage, JOURNAL, random.below(bytes + 2000) as usize);
            }
            1 | 2 => self.sync(storage, JOURNAL),
            _ => self.grow(random, storage, JOURNAL),
        }
    }

    /// Examines crash states, and returns their number.
    fn explore(
        &self,
        base: &MemoryImage,
        seed: u64,
        (unit, limits): (u32, Limits),
        mut look: impl FnMut(&MemoryImage, &Allowed) -> Result<u64, String>,
    ) -> Result<u64, String> {
        let trace = self.device.trace();
        let mut explorer = CrashExplorer::new(base, &trace, unit, limits);
        explorer.keep_units_whole();
        let mut looked = 0;
        for stop in explorer.stops() {
            let Some(mark) = explorer.marks(stop).last() else {
                continue;
            };
            let allowed = &self.allowed[mark as usize];
            let flow = explorer.for_each(stop, seed, |image, how| match look(&image, allowed) {
                Ok(more) => {
                    looked += more;
                    ControlFlow::Continue(())
                }
                Err(what) => ControlFlow::Break(format!("{how}: {what}")),
            });
            if let ControlFlow::Break(what) = flow {
                return Err(what);
            }
        }
        Ok(looked)
    }

    /// Opens a crash state of the device, and works with it. Returns the state that was
    /// found.
    fn check(
        &self,
        image: &MemoryImage,
        allowed: &Allowed,
        options: &Options,
    ) -> Result<(Model, Files), String> {
        let device = Arc::new(MemoryDevice::from_image(image));
        let (storage, environment) = open(device.clone(), options)?;
        let files = files_of(&storage)?;
        self.files.find(&files, &allowed.files, "files")?;
        let records = look_at(&environment)?;
        self.records.find(&records, &allowed.records, "records")?;
        let failed = |error| format!("working on: {error}");
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).map_err(failed)?;
        table.insert(AFTERWARDS, &[1; 100]).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        drop((storage, environment));
        let (storage, environment) = open(device, options)?;
        let mut expected = records.clone();
        expected.insert(AFTERWARDS.to_vec(), vec![1; 100]);
        if content(&environment) != expected || files_of(&storage)? != files {
            return Err("what was found is not kept".into());
        }
        Ok((records, files))
    }
}

fn open(
    device: Arc<dyn Device>,
    options: &Options,
) -> Result<(DeviceStorage, Environment), String> {
    let storage = DeviceStorage::new(device, EXTENT);
    let storage = storage.map_err(|error| format!("the table: {error}"))?;
    let environment = options.open_storage(Arc::new(storage.clone()));
    let environment = environment.map_err(|error| format!("opening: {error}"))?;
    Ok((storage, environment))
}

/// Returns the plain files; no file may exist except for these and the environment's.
fn files_of(storage: &DeviceStorage) -> Result<Files, String> {
    let mut files = Files::new();
    for name in storage.list().map_err(|error| error.to_string())? {
        let plain = name.starts_with("note") || name == JOURNAL;
        match &name[..] {
            "pages" | "check-0" | "check-1" | "check-0.new" => continue,
            wal if wal.starts_with("wal-") => continue,
            _ if !plain => return Err(format!("nobody has made {name:?}")),
            _ => {}
        }
        let read = || {
            let file = storage.open(&name, false)?;
            let mut bytes = vec![0; file.size()? as usize];
            file.read_at(0, &mut bytes).map(|()| bytes)
        };
        let bytes = read().map_err(|error| format!("{name}: {error}"))?;
        files.insert(name, bytes);
    }
    Ok(files)
}

fn look_at(environment: &Environment) -> Result<Model, String> {
    let verified = environment.verify();
    let verified = verified.map_err(|error| format!("verifying: {error}"))?;
    match verified.lost_pages {
        0 => Ok(content(environment)),
        _ => Err(format!("pages are lost: {verified:?}")),
    }
}

/// Extent of an exploration.
#[derive(Clone, Copy)]
pub struct Effort {
    pub placement: Placement,
    /// Steps of each of two lives.
    pub steps: u64,
    /// One in this number of states is used further, and crashes again.
    pub nested: u64,
}

/// Returns a device that another environment has used, without its table.
fn used(random: &mut Random, options: &Options, steps: u64) -> Result<MemoryImage, String> {
    let device = MemoryDevice::new(SIZE);
    let bytes = vec![FOREIGN; SIZE as usize];
    device.write(0, &[IoSlice::new(&bytes)]).unwrap();
    let mut former = Recorded::new(&device.snapshot(), Model::new(), Files::new());
    former.live(random, options, steps)?;
    let device = former.device.inner();
    let emptied = [IoSlice::new(&bytes[..TABLES])];
    device.write(0, &emptied).unwrap();
    Ok(device.snapshot())
}

/// Explores two lives on a device. Returns the number of states examined.
pub fn sweep(seed: u64, effort: Effort) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let mut options = small();
    options.placement(effort.placement);
    // If nothing protects against torn pages, the medium must not tear them.
    let unit = match effort.placement {
        Placement::InPlace(TornPages::Never) => 4096,
        _ => 512,
    };
    let base = used(&mut random, &options, effort.steps)?;
    let mut lives = Recorded::new(&base, Model::new(), Files::new());
    for _ in 0..2 {
        lives.live(&mut random, &options, effort.steps)?;
    }
    let looked = lives.explore(&base, seed, (unit, LIMITS), |image, allowed| {
        let (records, files) = lives.check(image, allowed, &options)?;
        if !random.one_in(effort.nested) {
            return Ok(1);
        }
        let mut next = Recorded::new(image, records, files);
        let steps = random.below(4);
        next.live(&mut random, &options, steps)?;
        let again = next.explore(image, seed, (unit, AGAIN), |image, allowed| {
            next.check(image, allowed, &options).map(|_| 1)
        });
        again.map_err(|what| format!("crashed again, {what}"))
    });
    looked.map_err(|what| format!("seed {seed}, {what}"))
}
