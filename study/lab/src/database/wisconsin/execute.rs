//! Doing queries: each in a transaction of its own.

use super::super::Work;
use super::plan::{Aggregate, Plan, Query, Selection};
use super::relation::{Access, Found, INDEXED, Relation, Relations, Tuples, Wisconsin};
use super::tuple::Attribute::{self, Hundred, Unique1, Unique2};
use super::tuple::{INTEGERS_BYTES, STRING_BYTES, TUPLE_BYTES, Tuple};
use std::collections::BTreeMap;
use varve_tp::{Error, Result, TableDefinition};

/// What a query found, by `unique2`.
pub(super) const RESULT: Tuples = TableDefinition::new("result");
/// What a projection left.
pub(super) const DISTINCT: TableDefinition<'static, &[u8], ()> = TableDefinition::new("distinct");
/// A value for each group.
pub(super) const GROUPS: TableDefinition<'static, u32, u64> = TableDefinition::new("groups");

/// Tuples of a page of 8 KB.
const PAGE_TUPLES: usize = 8192 / (TUPLE_BYTES + 8);

/// What a query did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// What it asked of the store.
    pub work: Work,
    /// Tuples that it found, or changed.
    pub rows: u64,
    /// Those that it showed.
    pub shown: Vec<Tuple>,
}

impl Wisconsin {
    /// Does a query. What it leaves in a relation is there until [`Wisconsin::clear`].
    ///
    /// # Errors
    /// As [`Wisconsin::load`]; [`Error::NoTable`] without an index that it needs.
    pub fn run(&self, query: &Query) -> Result<Ran> {
        let transaction = self.environment.begin_write();
        let relations = Relations::new(&transaction);
        let mut execution = Execution {
            relations: &relations,
            tuples: self.tuples,
            indices: if query.indexed {
                INDEXED.len() as u64
            } else {
                0
            },
            ran: Ran::default(),
        };
        execution.run(query.plan)?;
        let ran = Ran {
            work: relations.work.get(),
            ..execution.ran
        };
        transaction.commit()?;
        Ok(ran)
    }

    /// Takes away what queries left.
    ///
    /// # Errors
    /// As [`Wisconsin::load`].
    pub fn clear(&self) -> Result<()> {
        let transaction = self.environment.begin_write();
        for name in [RESULT.name(), DISTINCT.name(), GROUPS.name()] {
            match transaction.drop_table(name) {
                Ok(()) | Err(Error::NoTable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        transaction.commit()
    }
}

struct Execution<'a, 't, 'e> {
    relations: &'a Relations<'t, 'e>,
    /// Tuples of a large relation.
    tuples: u32,
    /// Indices that a change goes to, beside the relation.
    indices: u64,
    ran: Ran,
}

impl<'a> Execution<'a, '_, '_> {
    fn run(&mut self, plan: Plan) -> Result<()> {
        match plan {
            Plan::Select(selection) => {
                let found = self.selected(selection)?;
                self.keep(found)
            }
            Plan::Show(selection) => {
                self.ran.shown = self.selected(selection)?.collect::<Result<_>>()?;
                self.ran.rows = self.ran.shown.len() as u64;
                Ok(())
            }
            Plan::Join(outer, inner, access) => self.join(outer, inner, access),
            Plan::Distinct(relation, last, string) => self.distinct(relation, last, string),
            Plan::Least(relation, access) => self.least(relation, access),
            Plan::Group(relation, access, aggregate) => self.group(relation, access, aggregate),
            Plan::Insert(relation, beyond) => {
                let key = self.tuples + beyond;
                self.insert(relation, Tuple::new(key, key))
            }
            Plan::Delete(relation, access, attribute, beyond) => {
                let value = self.tuples + beyond;
                let tuple = self.only(relation, access, attribute, value)?;
                self.delete(relation, &tuple)
            }
            Plan::Change(relation, access, part, attribute, beyond) => {
                let key = super::plan::scaled(part, self.tuples);
                let tuple = self.only(relation, access, Unique2, key)?;
                self.change(relation, tuple, attribute, self.tuples + beyond)
            }
        }
    }

    fn selected(&self, selection: Selection) -> Result<Found<'a>> {
        let range = selection.range(self.tuples);
        let Selection {
            relation,
            access,
            attribute,
            ..
        } = selection;
        self.relations.tuples(relation, access, attribute, range)
    }

    fn inserted(&mut self, records: u64) {
        self.relations.count(Work {
            inserted: records,
            ..Work::default()
        });
    }

    /// Into the relation of results.
    fn keep(&mut self, found: impl IntoIterator<Item = Result<Tuple>>) -> Result<()> {
        let result = self.relations.transaction.open_table(RESULT)?;
        for tuple in found {
            let tuple = tuple?;
            result.insert(tuple.get(Unique2), &tuple.0)?;
            self.inserted(1);
            self.ran.rows += 1;
        }
        Ok(())
    }

    /// By nested loops: for each page of outer tuples the inner relation is scanned, or
    /// for each outer tuple its index asked. Of the result, the integers are those of
    /// the first inner relation, which the query names first; the strings are those of
    /// the last inner one, or of the outer one if there are only two.
    fn join(&mut self, outer: Selection, inner: &[Relation], access: Access) -> Result<()> {
        let at_once = match access {
            Access::Scan => PAGE_TUPLES,
            Access::Clustered | Access::Index => 1,
        };
        let mut tuples = self.selected(outer)?;
        loop {
            let page = tuples.by_ref().take(at_once);
            let page = page.map(|tuple| Ok(vec![tuple?]));
            let mut rows = page.collect::<Result<Vec<Vec<Tuple>>>>()?;
            if rows.is_empty() {
                return Ok(());
            }
            for &relation in inner {
                rows = self.matched(&rows, (relation, access, outer.attribute))?;
            }
            let joined = rows.iter().map(|row| match row[..] {
                [outer, first] => Ok(Tuple::joined(&first, &outer)),
                [_, first, .., last] => Ok(Tuple::joined(&first, &last)),
                _ => unreachable!("a join has two relations or more"),
            });
            self.keep(joined)?;
        }
    }

    /// The rows, each with every tuple of another relation that has the same value.
    fn matched(
        &self,
        rows: &[Vec<Tuple>],
        (relation, access, attribute): (Relation, Access, Attribute),
    ) -> Result<Vec<Vec<Tuple>>> {
        let mut longer = Vec::new();
        let value = |row: &[Tuple]| row[0].get(attribute);
        let with = |row: &[Tuple], tuple| [row, &[tuple]].concat();
        match access {
            Access::Scan if rows.is_empty() => {}
            Access::Scan => {
                let all = 0..u32::MAX;
                for tuple in self.relations.tuples(relation, access, attribute, all)? {
                    let tuple = tuple?;
                    let same = |row: &&Vec<Tuple>| value(row) == tuple.get(attribute);
                    longer.extend(rows.iter().filter(same).map(|row| with(row, tuple)));
                    self.relations.count(Work {
                        compared: rows.len() as u64,
                        ..Work::default()
                    });
                }
            }
            Access::Clustered | Access::Index => {
                for row in rows {
                    let matches = self
                        .relations
                        .matches(relation, access, attribute, value(row));
                    for tuple in matches? {
                        longer.push(with(row, tuple?));
                    }
                }
            }
        }
        Ok(longer)
    }

    /// Duplicates are found by the tree that the result goes to.
    fn distinct(&mut self, relation: Relation, last: Attribute, string: usize) -> Result<()> {
        let distinct = self.relations.transaction.open_table(DISTINCT)?;
        let all = 0..u32::MAX;
        for tuple in self
            .relations
            .tuples(relation, Access::Scan, Unique2, all)?
        {
            let is_new = !distinct.insert(&projected(&tuple?, last, string), ())?;
            self.inserted(1);
            self.ran.rows += u64::from(is_new);
        }
        Ok(())
    }

    fn least(&mut self, relation: Relation, access: Access) -> Result<()> {
        let mut tuples = self
            .relations
            .tuples(relation, access, Unique2, 0..u32::MAX)?;
        let least = match access {
            // The first has the least key.
            Access::Clustered => tuples.next().transpose()?.map(|tuple| tuple.get(Unique2)),
            _ => tuples
                .map(|tuple| Ok(tuple?.get(Unique2)))
                .reduce(|a: Result<u32>, b| Ok(a?.min(b?)))
                .transpose()?,
        };
        self.keep_groups(least.map(|least| (0, least.into())))
    }

    /// Groups are kept in memory; with the index they come one after the other.
    fn group(&mut self, relation: Relation, access: Access, aggregate: Aggregate) -> Result<()> {
        let mut groups = BTreeMap::new();
        for tuple in self
            .relations
            .tuples(relation, access, Hundred, 0..u32::MAX)?
        {
            let tuple = tuple?;
            let value = u64::from(tuple.get(Unique1));
            let add = |so_far: &mut u64| match aggregate {
                Aggregate::Min => *so_far = value.min(*so_far),
                Aggregate::Sum => *so_far += value,
            };
            let group = groups.entry(tuple.get(Hundred));
            group.and_modify(add).or_insert(value);
        }
        self.keep_groups(groups)
    }

    fn keep_groups(&mut self, groups: impl IntoIterator<Item = (u32, u64)>) -> Result<()> {
        let table = self.relations.transaction.open_table(GROUPS)?;
        for (group, value) in groups {
            table.insert(group, value)?;
            self.inserted(1);
            self.ran.rows += 1;
        }
        Ok(())
    }

    /// The tuple that has this value.
    fn only(
        &self,
        relation: Relation,
        access: Access,
        attribute: Attribute,
        value: u32,
    ) -> Result<Tuple> {
        let mut matches = self.relations.matches(relation, access, attribute, value)?;
        matches.next().unwrap_or(Err(Error::NoRecord(value.into())))
    }

    fn insert(&mut self, relation: Relation, tuple: Tuple) -> Result<()> {
        let table = self.relations.table(relation)?;
        table.insert(tuple.get(Unique2), &tuple.0)?;
        self.inserted(1 + self.indices);
        self.ran.rows += 1;
        Ok(())
    }

    fn delete(&mut self, relation: Relation, tuple: &Tuple) -> Result<()> {
        let was_there = self.relations.table(relation)?.remove(tuple.get(Unique2))?;
        self.inserted(1 + self.indices);
        self.ran.rows += u64::from(was_there);
        Ok(())
    }

    /// A tuple with another key is deleted and inserted.
    fn change(
        &mut self,
        relation: Relation,
        tuple: Tuple,
        attribute: Attribute,
        value: u32,
    ) -> Result<()> {
        let mut changed = tuple;
        changed.set(attribute, value);
        if attribute == Unique2 {
            self.delete(relation, &tuple)?;
            self.ran.rows = 0;
            return self.insert(relation, changed);
        }
        let table = self.relations.table(relation)?;
        table.insert(tuple.get(Unique2), &changed.0)?;
        self.relations.count(Work {
            updated: 1,
            // Out of one place of an index and into another.
            inserted: if self.indices > 0 { 2 } else { 0 },
            ..Work::default()
        });
        self.ran.rows = 1;
        Ok(())
    }
}

/// A tuple's integers from `two` to one, and its strings from one on.
fn projected(tuple: &Tuple, last: Attribute, string: usize) -> Vec<u8> {
    let (integers, strings) = tuple.0.split_at(INTEGERS_BYTES);
    let integers = &integers[4 * Attribute::Two as usize..4 * (last as usize + 1)];
    [integers, &strings[string * STRING_BYTES..]].concat()
}
