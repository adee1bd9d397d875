//! The crash explorer: a workload is recorded, and at every point of the record the power
//! fails, with any subset of the unsynced writes. The store must open without damage, in
//! a state between the last acknowledged and the last requested one. Then it is used, and
//! the power fails again.

use super::{Model, Random, TABLE, small};
use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;
use varve_tp::storage::{Choice, CrashImages, MemoryStorage, Survival};
use varve_tp::{
    Durability, Environment, Error, IndexDefinition, Options, Placement, TableDefinition,
    TornPages, WriteTransaction,
};
use xxhash_rust::xxh3::Xxh3;

const OTHER: TableDefinition<&[u8], &[u8]> = TableDefinition::new("other");
/// The index of the other table, by the beginning of the value.
const INDEX: IndexDefinition<&[u8], &[u8], &[u8]> = IndexDefinition::new(OTHER, "by value");

/// Options; `placement` is used for a new environment.
fn options(placement: Placement) -> Options {
    let mut options = small();
    options.placement(placement);
    options.index(INDEX, |_, value, keys| {
        if let Some(beginning) = value.get(..value.len().min(3)) {
            keys.add(beginning);
        }
    });
    options
}

/// Name of the table before it was created again.
const FORMER: TableDefinition<&[u8], &[u8]> = TableDefinition::new("former");

type Files = BTreeMap<String, Vec<u8>>;
/// Content of the three tables.
type State = (Model, Model, Model);

/// Committed states in their order, and the range of them that each mark allows.
#[derive(Default)]
struct History {
    states: Vec<State>,
    bounds: Vec<(usize, usize)>,
}

impl History {
    fn mark(&mut self, storage: &MemoryStorage, floor: usize) {
        self.bounds.push((floor, self.states.len() - 1));
        storage.mark(self.bounds.len() as u64 - 1);
    }
}

/// Extent of an exploration.
#[derive(Clone, Copy)]
pub struct Effort {
    pub placement: Placement,
    pub transactions: u64,
    /// One in this number of crash images crashes again.
    pub nested: u64,
    /// Number of images drawn at each point.
    pub draws: u64,
}

fn model_of(
    environment: &Environment,
    table: TableDefinition<&[u8], &[u8]>,
) -> Result<Model, Error> {
    let transaction = environment.begin_read();
    let table = match transaction.open_table(table) {
        Ok(table) => table,
        Err(Error::NoTable(_)) => return Ok(Model::new()),
        Err(error) => return Err(error),
    };
    table.iter()?.collect()
}

fn state_of(environment: &Environment) -> Result<State, String> {
    let read = |table| model_of(environment, table).map_err(|error| format!("reading: {error}"));
    Ok((read(TABLE)?, read(OTHER)?, read(FORMER)?))
}

struct Work<'a> {
    environment: &'a Environment,
    storage: &'a MemoryStorage,
    history: History,
    now: State,
    floor: usize,
}

impl Work<'_> {
    fn commit(&mut self, random: &mut Random, transaction: WriteTransaction<'_>) {
        self.history.states.push(self.now.clone());
        self.history.mark(self.storage, self.floor);
        let durability = match random.one_in(4) {
            true => Durability::Buffered,
            false => Durability::Durable,
        };
        transaction.commit_with(durability).unwrap();
        // A transaction without changes makes nothing durable.
        let last = self.history.states.len() - 1;
        let wrote = self.history.states[last] != self.history.states[last - 1];
        if durability == Durability::Durable && wrote {
            self.floor = last;
        }
        self.history.mark(self.storage, self.floor);
    }

    fn run(&mut self, random: &mut Random, transactions: u64) {
        let mut long: Option<(WriteTransaction<'_>, Model)> = None;
        let mut snapshot = None;
        for _ in 0..transactions {
            // Pages freed by a commit are kept while a snapshot needs them.
            if random.one_in(4) {
                snapshot = random.one_in(2).then(|| self.environment.begin_read());
            }
            let mut transaction = self.environment.begin_write();
            let (mut changed, mut former) = (self.now.0.clone(), self.now.2.clone());
            for _ in 0..1 + random.below(10) {
                super::change(random, &transaction, &mut changed);
            }
            match random.below(16) {
                0 => {
                    transaction.drop_table(TABLE.name()).unwrap();
                    changed = Model::new();
                }
                1 => {
                    transaction.open_table(FORMER).unwrap();
                    transaction.drop_table(FORMER.name()).unwrap();
                    transaction.open_table(TABLE).unwrap();
                    let (from, to) = (TABLE.name(), FORMER.name());
                    transaction.rename_table(from, to).unwrap();
                    former = std::mem::take(&mut changed);
                    super::change(random, &transaction, &mut changed);
                }
                _ => {}
            }
            if random.one_in(4) {
                let savepoint = transaction.savepoint();
                let mut lost = changed.clone();
                (0..4).for_each(|_| super::change(random, &transaction, &mut lost));
                if random.one_in(8) {
                    transaction.open_table(TABLE).unwrap();
                    transaction.drop_table(TABLE.name()).unwrap();
                }
                transaction.rollback_to(savepoint).unwrap();
            }
            if random.one_in(4) {
                let child = transaction.begin_nested();
                let mut more = changed.clone();
                (0..3).for_each(|_| super::change(random, &child, &mut more));
                match random.one_in(2) {
                    true => child.abort().unwrap(),
                    false => {
                        child.commit().unwrap();
                        changed = more;
                    }
                }
            }
            match random.one_in(5) {
                true => transaction.abort().unwrap(),
                false => {
                    (self.now.0, self.now.2) = (changed, former);
                    self.commit(random, transaction);
                }
            }
            let (transaction, mut other) = long
                .take()
                .unwrap_or_else(|| (self.environment.begin_write(), self.now.1.clone()));
            let table = transaction.open_table(OTHER).unwrap();
            for _ in 0..random.below(4) {
                let (key, value) = (random.key(), random.value());
                match random.one_in(3) {
                    true => _ = other.remove(&key).map(|_| table.remove(&key).unwrap()),
                    false => {
                        table.insert(&key, &value).unwrap();
                        other.insert(key, value);
                    }
                }
            }
            match random.below(12) {
                0 => transaction.abort().unwrap(),
                1 => {
                    self.now.1 = other;
                    self.commit(random, transaction);
                }
                _ => long = Some((transaction, other)),
            }
            self.environment.maintain().unwrap();
        }
        drop(snapshot);
        std::mem::forget(long);
    }
}

/// Runs a workload from a state, and returns the record.
fn work(
    random: &mut Random,
    files: Files,
    effort: Effort,
    from: Option<(State, State)>,
) -> Result<(CrashImages, History), String> {
    let transactions = effort.transactions;
    let storage = MemoryStorage::with_files(files.clone());
    storage.record();
    let open = options(effort.placement).open_storage(Arc::new(storage.clone()));
    let environment = open.map_err(|error| format!("opening: {error}"))?;
    let mut history = History::default();
    let now = state_of(&environment)?;
    if let Some((low, high)) = from
        && now != low
        && now != high
    {
        return Err("a state that was never committed".into());
    }
    history.states.push(now.clone());
    history.bounds.push((0, 0));
    storage.mark(0);
    let mut work = Work {
        environment: &environment,
        storage: &storage,
        history,
        now,
        floor: 0,
    };
    if transactions > 0 {
        let transaction = environment.begin_write();
        transaction.open_table(TABLE).unwrap();
        transaction.open_table(OTHER).unwrap();
        work.commit(random, transaction);
    }
    work.run(random, transactions);
    let history = work.history;
    Ok((storage.crashes(files), history))
}

/// Returns a hash that identifies files.
fn fingerprint(files: &Files) -> u128 {
    let mut hash = Xxh3::new();
    for (name, bytes) in files {
        for part in [name.as_bytes(), bytes] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.digest128()
}

/// Opens the files after a crash, and returns their state.
fn opened(image: &Files) -> Result<State, String> {
    let storage = Arc::new(MemoryStorage::with_files(image.clone()));
    let environment = options(Placement::Shadow).open_storage(storage);
    let environment = environment.map_err(|error| format!("opening: {error}"))?;
    let verified = environment
        .verify()
        .map_err(|error| format!("verifying: {error}"))?;
    if verified.lost_pages > 0 {
        return Err(format!("pages are lost: {verified:?}"));
    }
    state_of(&environment)
}

/// States of images that were opened. Many drawn images are equal, and equal bytes open
/// to the same state.
#[derive(Default)]
struct Opened(HashMap<u128, State>);

impl Opened {
    /// Returns the number of the state of an image.
    fn check(&mut self, image: &Files, history: &History, mark: usize) -> Result<usize, String> {
        let state = match self.0.entry(fingerprint(image)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(opened(image)?),
        };
        let (floor, ceiling) = history.bounds[mark];
        let found = (floor..=ceiling).find(|at| history.states[*at] == *state);
        found.ok_or_else(
            || match history.states.iter().position(|other| other == state) {
                Some(at) => format!("state {at}, not of {floor} to {ceiling}"),
                None => format!("a state that was never committed (of {floor} to {ceiling})"),
            },
        )
    }
}

/// Draws the files after a crash. Writes are torn unless the placement excludes that.
fn draw(random: &mut Random, crashes: &CrashImages, effort: Effort, number: u64) -> Files {
    match number {
        0 => crashes.image(Survival::None),
        1 => crashes.image(Survival::All),
        _ => {
            let kind = match effort.placement {
                Placement::InPlace(TornPages::Never) => 0,
                _ => random.below(3),
            };
            let mut choose = |choice: Choice| match choice {
                Choice::Write => match kind {
                    0 => random.below(2) as u8,
                    1 => 2,
                    _ => random.below(3) as u8,
                },
                Choice::Sector => u8::from(!random.one_in(3)),
            };
            crashes.image(Survival::Draw(&mut choose))
        }
    }
}

/// Deletes a file of the log except for the last one, whose creation a crash may have
/// prevented. Then nothing may be missing, or the environment must not open.
fn without_one(random: &mut Random, image: &Files, state: &State) -> Result<(), String> {
    let mut logs: Vec<&String> = image
        .keys()
        .filter(|name| name.starts_with("wal-"))
        .collect();
    logs.sort_by_key(|name| (name.len(), *name));
    logs.pop();
    if logs.is_empty() {
        return Ok(());
    }
    let name = logs[random.below(logs.len() as u64) as usize];
    let mut image = image.clone();
    image.remove(name);
    match opened(&image) {
        Ok(found) if found == *state => Ok(()),
        Ok(_) => Err(format!("without {name}: commits are missing")),
        Err(what) if what.contains("varve tp restore") => Ok(()),
        Err(what) => Err(format!("without {name}: {what}")),
    }
}

/// Explores one workload. Returns the number of images examined.
pub fn explore(seed: u64, effort: Effort) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let mut thief = Random::new(!seed);
    let (mut crashes, history) = work(&mut random, Files::new(), effort, None)?;
    let mut opened = Opened::default();
    let mut looked = 0;
    let mut point = 0;
    while crashes.step() {
        point += 1;
        let draws = if crashes.pending() == 0 {
            1
        } else {
            effort.draws
        };
        for number in 0..draws {
            let image = draw(&mut random, &crashes, effort, number);
            let mark = crashes.mark() as usize;
            let place = |what: String| format!("seed {seed}, point {point}, draw {number}: {what}");
            let state = opened.check(&image, &history, mark).map_err(place)?;
            looked += 1;
            if thief.one_in(20) {
                without_one(&mut thief, &image, &history.states[state]).map_err(place)?;
            }
            if random.one_in(effort.nested) {
                let state = history.states[state].clone();
                looked += again(&mut random, image, state, effort).map_err(place)?;
            }
        }
    }
    Ok(looked)
}

/// Continues from a crash image, and crashes within the restart and after it.
fn again(
    random: &mut Random,
    image: Files,
    state: State,
    mut effort: Effort,
) -> Result<u64, String> {
    effort.transactions = random.below(3);
    let from = Some((state.clone(), state));
    let (mut crashes, history) = work(random, image, effort, from)?;
    let mut opened = Opened::default();
    let mut looked = 0;
    while crashes.step() {
        for number in 0..3 {
            if number > 0 && random.one_in(2) {
                continue;
            }
            let image = draw(random, &crashes, effort, number);
            opened
                .check(&image, &history, crashes.mark() as usize)
                .map_err(|what| format!("crashed again: {what}"))?;
            looked += 1;
        }
    }
    Ok(looked)
}
