//! Secondary indices: tables of index keys, maintained by the transactions that change
//! the indexed table.
//!
//! Invariants:
//! - An index has an entry for each key that its function returns for each record of its
//!   table, and no other. Both are changed in one transaction, the record first.
//! - A table whose catalog entry names an index is opened for writing only if the index's
//!   function was given.
//!
//! The key of an entry is the escaped index key, of which none is the beginning of
//! another, and the record's key behind it; its value is empty. So an index stores any
//! number of records per key, in the order of their own keys.
//!
//! Source: Seltzer 1992, §5.1.2 (indices as further trees over records).

mod maintain;

pub(crate) use maintain::{Indexed, compare, fill};
