//! Relations, and the three ways to their tuples.

use super::super::Work;
use super::tuple::{Attribute, TUPLE_BYTES, Tuple, generate};
use std::cell::Cell;
use std::ops::Range;
use varve_prove::random::Random;
use varve_tp::{
    Durability, Environment, IndexDefinition, Options, Result, Table, TableDefinition,
    WriteTransaction,
};

pub(super) type Bytes = [u8; TUPLE_BYTES];
pub(super) type Tuples = TableDefinition<'static, u32, Bytes>;
type ByAttribute = IndexDefinition<'static, u32, u32, Bytes>;

/// Tuples that are loaded in one transaction.
const TOGETHER: usize = 1000;

/// A relation of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A tenth as large as the next two.
    OneK,
    /// The first large one.
    TenK1,
    /// The second, with permutations of its own.
    TenK2,
    /// A tenth of the second: its tuples with the lowest `unique2`.
    BPrime,
}

impl Relation {
    /// All of them.
    pub const ALL: [Relation; 4] = [
        Relation::OneK,
        Relation::TenK1,
        Relation::TenK2,
        Relation::BPrime,
    ];

    pub(super) const fn definition(self) -> Tuples {
        TableDefinition::new(match self {
            Relation::OneK => "onektup",
            Relation::TenK1 => "tenktup1",
            Relation::TenK2 => "tenktup2",
            Relation::BPrime => "bprime",
        })
    }

    /// Its index by `unique1`, or by `hundred`.
    const fn index(self, attribute: Attribute) -> ByAttribute {
        let name = match (self, matches!(attribute, Attribute::Unique1)) {
            (Relation::OneK, true) => "onektup by unique1",
            (Relation::OneK, false) => "onektup by hundred",
            (Relation::TenK1, true) => "tenktup1 by unique1",
            (Relation::TenK1, false) => "tenktup1 by hundred",
            (Relation::TenK2, true) => "tenktup2 by unique1",
            (Relation::TenK2, false) => "tenktup2 by hundred",
            (Relation::BPrime, true) => "bprime by unique1",
            (Relation::BPrime, false) => "bprime by hundred",
        };
        IndexDefinition::new(self.definition(), name)
    }
}

/// What indices there are by.
pub(super) const INDEXED: [Attribute; 2] = [Attribute::Unique1, Attribute::Hundred];

/// A way to tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// All tuples are looked at.
    Scan,
    /// The tree itself, by `unique2`.
    Clustered,
    /// An index, and from each of its entries to the tuple.
    Index,
}

/// The database in an environment.
#[derive(Debug)]
pub struct Wisconsin {
    pub(super) environment: Environment,
    /// Tuples of a large relation.
    pub(super) tuples: u32,
}

/// The tuples of all relations, as they are loaded.
pub(super) fn relations(tuples: u32, seed: u64) -> [Vec<Tuple>; 4] {
    let mut random = Random::new(seed);
    let one = generate(tuples / 10, &mut random);
    let first = generate(tuples, &mut random);
    let second = generate(tuples, &mut random);
    let prime = second.iter().copied();
    let prime = prime.filter(|tuple| tuple.get(Attribute::Unique2) < tuples / 10);
    let prime = prime.collect();
    [one, first, second, prime]
}

impl Wisconsin {
    /// Fewest tuples of a large relation for which the queries mean something.
    pub const TUPLES_MIN: u32 = 200;

    /// Has `options` keep the indices of all relations, which are made when an
    /// environment that has the relations is opened with them ([`Wisconsin::index`]).
    pub fn with_indices(options: &mut Options) -> &mut Options {
        for relation in Relation::ALL {
            for attribute in INDEXED {
                let key = move |_: &u32, bytes: &Bytes, keys: &mut varve_tp::IndexKeys<u32>| {
                    keys.add(Tuple(*bytes).get(attribute));
                };
                options.index(relation.index(attribute), key);
            }
        }
        options
    }

    /// Makes the four relations, without indices but the clustered one. `tuples` is
    /// the size of the large ones.
    ///
    /// # Errors
    /// What the store says; so for all of them.
    ///
    /// # Panics
    /// If there are fewer than [`Wisconsin::TUPLES_MIN`].
    pub fn load(environment: &Environment, tuples: u32, seed: u64) -> Result<Self> {
        assert!(tuples >= Self::TUPLES_MIN, "{tuples} tuples are too few");
        let all = relations(tuples, seed);
        for (relation, tuples) in Relation::ALL.into_iter().zip(all) {
            for some in tuples.chunks(TOGETHER) {
                let transaction = environment.begin_write();
                let table = transaction.open_table(relation.definition())?;
                for tuple in some {
                    table.insert(tuple.get(Attribute::Unique2), &tuple.0)?;
                }
                transaction.commit_with(Durability::Buffered)?;
            }
        }
        environment.checkpoint()?;
        Ok(Self::open(environment, tuples))
    }

    /// The database that was loaded there.
    pub fn open(environment: &Environment, tuples: u32) -> Self {
        Wisconsin {
            environment: environment.clone(),
            tuples,
        }
    }

    /// Makes the indices, in an environment that was told of them.
    ///
    /// # Errors
    /// As [`Wisconsin::load`].
    pub fn index(&self) -> Result<()> {
        for relation in Relation::ALL {
            let transaction = self.environment.begin_write();
            // Whoever opens it for writing makes its indices.
            transaction.open_table(relation.definition())?;
            transaction.commit_with(Durability::Buffered)?;
        }
        self.environment.checkpoint()
    }
}

/// The relations in a transaction, and what it has done with them.
pub(super) struct Relations<'t, 'e> {
    pub transaction: &'t WriteTransaction<'e>,
    pub work: Cell<Work>,
}

/// Tuples on their way.
pub(super) type Found<'a> = Box<dyn Iterator<Item = Result<Tuple>> + 'a>;

impl<'t, 'e> Relations<'t, 'e> {
    pub fn new(transaction: &'t WriteTransaction<'e>) -> Self {
        Relations {
            transaction,
            work: Cell::default(),
        }
    }

    pub fn count(&self, work: Work) {
        let mut sum = self.work.get();
        sum += work;
        self.work.set(sum);
    }

    fn count_retrieved(&self, retrieved: u64) {
        self.count(Work {
            retrieved,
            ..Work::default()
        });
    }

    pub fn table(&self, relation: Relation) -> Result<Table<'t, 'e, u32, Bytes>> {
        self.transaction.open_table(relation.definition())
    }

    /// The tuples of a relation whose attribute lies in a range.
    ///
    /// # Panics
    /// If there is no such way to that attribute.
    pub fn tuples<'a>(
        &'a self,
        relation: Relation,
        access: Access,
        attribute: Attribute,
        range: Range<u32>,
    ) -> Result<Found<'a>> {
        self.count_retrieved(1);
        Ok(match access {
            Access::Scan => {
                let rows = self.table(relation)?.iter()?.map(|row| {
                    self.count_retrieved(1);
                    Ok(Tuple(row?.1))
                });
                Box::new(rows.filter(move |tuple| match tuple {
                    Ok(tuple) => range.contains(&tuple.get(attribute)),
                    Err(_) => true,
                }))
            }
            Access::Clustered => {
                assert!(attribute == Attribute::Unique2, "{attribute:?}");
                Box::new(self.table(relation)?.range(range)?.map(|row| {
                    self.count_retrieved(1);
                    Ok(Tuple(row?.1))
                }))
            }
            Access::Index => {
                assert!(INDEXED.contains(&attribute), "{attribute:?}");
                let index = self.transaction.open_index(relation.index(attribute))?;
                Box::new(index.range(range)?.map(|row| {
                    // The entry, and what it leads to.
                    self.count_retrieved(2);
                    Ok(Tuple(row?.1.1))
                }))
            }
        })
    }

    /// The tuples whose attribute has a value.
    pub fn matches<'a>(
        &'a self,
        relation: Relation,
        access: Access,
        attribute: Attribute,
        value: u32,
    ) -> Result<Found<'a>> {
        self.tuples(relation, access, attribute, value..value + 1)
    }
}
