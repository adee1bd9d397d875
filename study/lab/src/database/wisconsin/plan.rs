//! The 32 queries (table 7-7; texts by DeWitt 1991).
//!
//! Numbers in texts are those of relations of 10,000 tuples; others are scaled. A key that
//! is changed here is one that no other query asks for.

use super::relation::{Access, Relation};
use super::tuple::Attribute::{self, *};
use Access::{Clustered, Index, Scan};
use Relation::{BPrime, OneK, TenK1, TenK2};
use std::ops::Range;

/// Parts of 10,000 of a relation.
type Part = Range<u32>;

const ONE_PER_CENT: Part = 0..100;
const TEN_PER_CENT: Part = 792..1792;
const FIRST_TENTH: Part = 0..1000;
const ALL: Part = 0..10_000;

/// Tuples of a relation: by which way, whose attribute lies in which part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    pub relation: Relation,
    pub access: Access,
    pub attribute: Attribute,
    pub part: (u32, u32),
}

/// What an aggregate makes of `unique1` in each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Min,
    Sum,
}

/// How a query is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plan {
    /// Tuples are selected into a relation.
    Select(Selection),
    /// The same, but they are shown.
    Show(Selection),
    /// For each tuple of the outer selection: those of the inner relations with the
    /// same value, by this way.
    Join(Selection, &'static [Relation], Access),
    /// Without duplicates: integers from `two` to one, and strings from one on.
    Distinct(Relation, Attribute, usize),
    /// The least `unique2` of all.
    Least(Relation, Access),
    /// One value for each value of `hundred`.
    Group(Relation, Access, Aggregate),
    /// A tuple whose keys are both this many more than there are.
    Insert(Relation, u32),
    /// The tuple with this many more in that attribute, by this way.
    Delete(Relation, Access, Attribute, u32),
    /// The tuple of this part of `unique2` gets so many more than there are in that
    /// attribute.
    Change(Relation, Access, u32, Attribute, u32),
}

/// A query.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Its number in the thesis.
    pub number: u32,
    /// What it does.
    pub about: &'static str,
    /// It is run when there are indices beside the clustered one.
    pub indexed: bool,
    pub(super) plan: Plan,
}

const fn selection(
    relation: Relation,
    access: Access,
    attribute: Attribute,
    part: &Part,
) -> Selection {
    Selection {
        relation,
        access,
        attribute,
        part: (part.start, part.end),
    }
}

const fn query(number: u32, about: &'static str, plan: Plan) -> Query {
    Query {
        number,
        about,
        indexed: matches!(number, 3..=8 | 12..=17 | 23..=25 | 29..),
        plan,
    }
}

const fn select(
    number: u32,
    about: &'static str,
    access: Access,
    attribute: Attribute,
    part: &Part,
) -> Query {
    query(
        number,
        about,
        Plan::Select(selection(TenK1, access, attribute, part)),
    )
}

/// The queries on two relations and on three: with outer tuples by `outer`, inner ones
/// by `inner`.
const fn joins(
    first: u32,
    abouts: [&'static str; 3],
    (outer, inner): (Access, Access),
    attribute: Attribute,
) -> [Query; 3] {
    let tenth = selection(TenK2, outer, attribute, &FIRST_TENTH);
    let prime = selection(BPrime, Scan, attribute, &ALL);
    let three = selection(TenK1, outer, attribute, &FIRST_TENTH);
    [
        query(first, abouts[0], Plan::Join(tenth, &[TenK1], inner)),
        query(first + 1, abouts[1], Plan::Join(prime, &[TenK1], inner)),
        query(
            first + 2,
            abouts[2],
            Plan::Join(three, &[OneK, TenK2], inner),
        ),
    ]
}

const NO_INDEX: [Query; 3] = joins(
    9,
    [
        "join of two, 10 %, no index",
        "join of two, .01 %, no index",
        "join of three, 10 %, no index",
    ],
    (Scan, Scan),
    Unique2,
);
const CLUSTERED: [Query; 3] = joins(
    12,
    [
        "join of two, 10 %, clustered index",
        "join of two, .01 %, clustered index",
        "join of three, 10 %, clustered index",
    ],
    (Clustered, Clustered),
    Unique2,
);
const INDEX: [Query; 3] = joins(
    15,
    [
        "join of two, 10 %, index",
        "join of two, .01 %, index",
        "join of three, 10 %, index",
    ],
    (Index, Index),
    Unique1,
);

/// All of them, by number. Those without indices are to be run first.
pub const QUERIES: [Query; 32] = [
    select(1, "selection, 1 %, no index", Scan, Unique2, &ONE_PER_CENT),
    select(2, "selection, 10 %, no index", Scan, Unique2, &TEN_PER_CENT),
    select(
        3,
        "selection, 1 %, clustered index",
        Clustered,
        Unique2,
        &ONE_PER_CENT,
    ),
    select(
        4,
        "selection, 10 %, clustered index",
        Clustered,
        Unique2,
        &TEN_PER_CENT,
    ),
    select(5, "selection, 1 %, index", Index, Unique1, &ONE_PER_CENT),
    select(6, "selection, 10 %, index", Index, Unique1, &TEN_PER_CENT),
    query(
        7,
        "one tuple shown, clustered index",
        Plan::Show(selection(TenK1, Clustered, Unique2, &(2001..2002))),
    ),
    query(
        8,
        "1 % shown, clustered index",
        Plan::Show(selection(TenK1, Clustered, Unique2, &ONE_PER_CENT)),
    ),
    NO_INDEX[0],
    NO_INDEX[1],
    NO_INDEX[2],
    CLUSTERED[0],
    CLUSTERED[1],
    CLUSTERED[2],
    INDEX[0],
    INDEX[1],
    INDEX[2],
    query(18, "projection, 1 %", Plan::Distinct(TenK1, Hundred, 2)),
    query(19, "projection, 100 %", Plan::Distinct(OneK, Even100, 0)),
    query(20, "least of all, no index", Plan::Least(TenK1, Scan)),
    query(
        21,
        "least of 100 groups, no index",
        Plan::Group(TenK1, Scan, Aggregate::Min),
    ),
    query(
        22,
        "sum of 100 groups, no index",
        Plan::Group(TenK1, Scan, Aggregate::Sum),
    ),
    query(
        23,
        "least of all, clustered index",
        Plan::Least(TenK1, Clustered),
    ),
    query(
        24,
        "least of 100 groups, index",
        Plan::Group(TenK1, Index, Aggregate::Min),
    ),
    query(
        25,
        "sum of 100 groups, index",
        Plan::Group(TenK1, Index, Aggregate::Sum),
    ),
    query(26, "insert, no index", Plan::Insert(TenK1, 0)),
    query(
        27,
        "delete, no index",
        Plan::Delete(TenK1, Scan, Unique1, 0),
    ),
    query(
        28,
        "key changed, no index",
        Plan::Change(TenK1, Scan, 1900, Unique2, 1),
    ),
    query(29, "insert, indices", Plan::Insert(TenK1, 2)),
    query(
        30,
        "delete by key, indices",
        Plan::Delete(TenK1, Clustered, Unique2, 2),
    ),
    query(
        31,
        "key changed, indices",
        Plan::Change(TenK1, Clustered, 2100, Unique2, 3),
    ),
    query(
        32,
        "unique1 changed, indices",
        Plan::Change(TenK1, Clustered, 2300, Unique1, 4),
    ),
];

impl Query {
    /// Tuples that it finds or changes, where large relations have `tuples`.
    pub fn rows(&self, tuples: u32) -> u64 {
        let of = |part: (u32, u32)| scaled(part.1, tuples) - scaled(part.0, tuples);
        let rows = match self.plan {
            Plan::Show(Selection { part, .. }) if part.1 - part.0 == 1 => 1,
            Plan::Select(selection) | Plan::Show(selection) => of(selection.part),
            Plan::Join(..) => tuples / 10,
            Plan::Distinct(_, _, 0) => tuples / 10,
            Plan::Distinct(..) | Plan::Group(..) => tuples.min(100),
            Plan::Least(..) | Plan::Insert(..) | Plan::Delete(..) | Plan::Change(..) => 1,
        };
        rows.into()
    }
}

/// So many of 10,000.
pub(super) fn scaled(part: u32, tuples: u32) -> u32 {
    (u64::from(part) * u64::from(tuples) / 10_000) as u32
}

impl Selection {
    /// Values of its attribute: one at least.
    pub fn range(&self, tuples: u32) -> Range<u32> {
        let from = scaled(self.part.0, tuples);
        from..scaled(self.part.1, tuples).max(from + 1)
    }
}
