//! Secondary indices: tables of index keys, kept by whoever changes the indexed table, in
//! the same transaction.
//!
//! Invariants:
//! - An index has an entry for each key that its function answers for each record of its
//!   table, and no other. Both are changed in one transaction; the record first.
//! - Who writes a table whose catalog names an index has its function: else the table is
//!   not opened for writing.
//!
//! An entry's key is the index key, escaped so that none is the beginning of another, and
//! the record's key behind it; its value is empty. So an index holds any number of
//! records for a key, in the order of theirs.
//!
//! Source: Seltzer 1992, §5.1.2 (indices as further trees over records).

mod maintain;

pub(crate) use maintain::{Indexed, compare, fill};
