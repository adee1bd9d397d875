//! Undoes a record of the log: by key, because its change may be in another page by now.
//! The undo is logged as compensation and never undone itself.

use super::Tree;
use crate::change::{Chain, Change};
use crate::engine::{Author, Engine};
use crate::error::{Error, Result};
use crate::log::Record;

/// Undoes one record. `root` returns the root of a table's tree.
pub(crate) fn undo(
    engine: &Engine,
    author: &mut Author,
    record: &Record,
    root: impl Fn(u32) -> Result<Option<u32>>,
) -> Result<()> {
    let damaged = |what: &str| Error::damaged("wal", record.lsn.0, what);
    let change = Change::parse(record.kind, &record.body);
    let change = change.ok_or_else(|| damaged("a record that says nothing"))?;
    let tree = |table: u32| match root(table)? {
        Some(root) => Ok(Tree {
            engine,
            table,
            root,
        }),
        None => Err(damaged("a record of a table that does not exist")),
    };
    let done = match change {
        Change::Insert { key, .. } => tree(record.table)?.delete(author, key)?.is_some(),
        Change::Delete { key, old, .. } => !tree(record.table)?.put(author, key, old)?.existed,
        Change::Patch {
            key, offset, old, ..
        } => tree(record.table)?.patch(author, key, offset, old)?,
        Change::Replace { key, old, .. } => tree(record.table)?.put(author, key, old)?.existed,
        Change::Overflow { page, .. } | Change::Tree { root: page, .. } => {
            let any = Tree {
                engine,
                table: record.table,
                root: page,
            };
            let chain = Chain {
                first: page,
                last: page,
            };
            any.free(author, chain)?;
            true
        }
        _ => true,
    };
    match done {
        true => Ok(()),
        false => Err(damaged("what a record changed is not there to be undone")),
    }
}
