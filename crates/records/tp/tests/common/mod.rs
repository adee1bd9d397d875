//! Helpers shared by the tests of the store.

pub mod copying;
pub mod explore;
pub mod on_device;
pub mod pieces;
pub mod prefixed;
pub mod snapshots;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::cell::Cell;
use std::collections::BTreeMap;
use varve_tp::{
    Durability, Environment, Options, Placement, TableDefinition, TornPages, WriteTransaction,
};

pub const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("table");

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub struct Random(Xoshiro256PlusPlus);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Draws a key of few letters, so that keys collide; some are long.
    pub fn key(&mut self) -> Vec<u8> {
        let length = match self.below(14) {
            0 => self.below(2),
            1 => 100 + self.below(300),
            2 => return self.long_key(),
            _ => 2 + self.below(5),
        };
        (0..length).map(|_| b'a' + self.below(3) as u8).collect()
    }

    /// Draws a key around the limit of a tree, an eighth of a page; most begin alike.
    pub fn long_key(&mut self) -> Vec<u8> {
        let mut key = vec![b'a'; 510 + self.below(4) as usize];
        let more = match self.one_in(4) {
            true => self.below(6000),
            false => self.below(4),
        };
        key.extend((0..more).map(|at| b'a' + ((at / 40 + self.below(2)) % 3) as u8));
        key
    }

    /// Draws a value of any length; a few need their own pages.
    pub fn value(&mut self) -> Vec<u8> {
        let length = match self.below(16) {
            0 => 1_000 + self.below(20_000),
            1 => 300 + self.below(900),
            2 => 0,
            _ => self.below(120),
        };
        let byte = self.below(256) as u8;
        (0..length).map(|at| byte.wrapping_add(at as u8)).collect()
    }
}

pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("VARVE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(1);
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-tp {test}");
    seed
}

/// All placements of pages.
pub const PLACEMENTS: [Placement; 3] = [
    Placement::Shadow,
    Placement::InPlace(TornPages::LogImages),
    Placement::InPlace(TornPages::Never),
];

thread_local! {
    static PLACEMENT: Cell<Placement> = const { Cell::new(Placement::Shadow) };
}

/// Runs a test with new environments in each placement.
pub fn wherever_pages_lie(test: impl Fn()) {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            PLACEMENT.set(Placement::Shadow);
        }
    }
    let _back = Back;
    for placement in PLACEMENTS {
        eprintln!("{placement:?}");
        PLACEMENT.set(placement);
        test();
    }
}

/// Returns small limits, so that little work reaches every case.
pub fn small() -> Options {
    let mut options = Options::new();
    options
        .placement(PLACEMENT.get())
        .memory(24 * 4096)
        .segment(64 << 10)
        .log(16 << 20)
        .checkpoint_after(96 << 10)
        .background(false)
        .durability(Durability::Durable);
    options
}

/// Makes one random change in the store and in the model.
pub fn change(random: &mut Random, transaction: &WriteTransaction<'_>, model: &mut Model) {
    let table = transaction.open_table(TABLE).unwrap();
    let key = match random.one_in(2) {
        true if !model.is_empty() => {
            let at = random.below(model.len() as u64) as usize;
            model.keys().nth(at).unwrap().clone()
        }
        _ => random.key(),
    };
    match random.below(10) {
        0..=2 => {
            assert_eq!(table.remove(&key).unwrap(), model.remove(&key).is_some());
        }
        3 => assert_eq!(table.get(&key).unwrap().as_ref(), model.get(&key)),
        4 if model
            .get(&key)
            .is_some_and(|old| !old.is_empty() && old.len() < 500) =>
        {
            let mut value = model[&key].clone();
            let at = random.below(value.len() as u64) as usize;
            value[at] ^= 0x55;
            assert!(table.insert(&key, &value).unwrap());
            model.insert(key, value);
        }
        _ => {
            let value = random.value();
            let existed = table.insert(&key, &value).unwrap();
            assert_eq!(existed, model.insert(key, value).is_some());
        }
    }
}

pub fn content(environment: &Environment) -> Model {
    let transaction = environment.begin_read();
    let table = match transaction.open_table(TABLE) {
        Ok(table) => table,
        Err(varve_tp::Error::NoTable(_)) => return Model::new(),
        Err(error) => panic!("{error}"),
    };
    table.iter().unwrap().map(Result::unwrap).collect()
}
