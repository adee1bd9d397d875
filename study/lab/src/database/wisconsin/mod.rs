//! The Wisconsin benchmark: four relations and 32 queries, by a small executor.
//!
//! | module | what is in it |
//! |---|---|
//! | `tuple` | tuples, their attributes, how they are made |
//! | `relation` | relations, indices, the three ways to tuples |
//! | `plan` | the 32 queries |
//! | `execute` | selections, joins, aggregates, projections, updates |
//!
//! A relation is a tree by `unique2`, which is the clustered index; two more indices, by
//! `unique1` and by `hundred`, are made when the queries without them have been run. The
//! tuples come in the order of another permutation, so pages that are neighbours in the
//! tree are none in the file, which is how the thesis describes its scans. Results go
//! to a relation by `unique2`, as there. Joins are of nested loops: the inner relation is
//! scanned for each page of the outer one, or its index asked for each tuple.
//!
//! Sources: Bitton, DeWitt & Turbyfill 1983; DeWitt 1991; Seltzer 1992, §7.7, tables
//! 7-6 and 7-7.

mod execute;
mod plan;
mod relation;
mod tuple;

pub use execute::Ran;
pub use plan::{QUERIES, Query};
pub use relation::{Relation, Wisconsin};
pub use tuple::{Attribute, Tuple};

/// Tuples of each of the two large relations of the thesis.
pub const TUPLES: u32 = 10_000;

#[cfg(test)]
mod tests;
