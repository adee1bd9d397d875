//! The catalog: a tree whose keys are names of tables.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::page::CATALOG_ROOT;
use crate::transaction::TableId;
use crate::tree::Tree;
use foldhash::HashMap;
use std::ops::Bound;

/// The table of the catalog itself.
pub(crate) const CATALOG: TableId = TableId {
    table: 0,
    root: CATALOG_ROOT,
};

/// The catalog's entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub id: TableId,
    /// Names of the types of its keys and values.
    pub types: String,
}

impl Entry {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.id.table.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.id.root.to_le_bytes());
        bytes.extend_from_slice(self.types.as_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let parse = || {
            let (table, rest) = bytes.split_first_chunk::<4>()?;
            let (root, types) = rest.split_first_chunk::<4>()?;
            Some(Entry {
                id: TableId {
                    table: u32::from_le_bytes(*table),
                    root: u32::from_le_bytes(*root),
                },
                types: String::from_utf8(types.to_vec()).ok()?,
            })
        };
        parse().ok_or_else(|| Error::damaged("pages", 0, "an entry of the catalog"))
    }
}

/// Returns all tables by name, committed or not.
pub(crate) fn entries(engine: &Engine) -> Result<Vec<(String, Entry)>> {
    let tree = Tree {
        engine,
        table: CATALOG.table,
        root: CATALOG.root,
    };
    let mut found = Vec::new();
    let mut from = Vec::new();
    loop {
        let leaf = tree.leaf_from(Bound::Included(&from), Bound::Unbounded, None)?;
        for (name, _, value) in leaf.records {
            let name = String::from_utf8(name);
            let name = name.map_err(|_| Error::damaged("pages", 0, "a table's name"))?;
            found.push((name, Entry::parse(&value)?));
        }
        match leaf.next {
            Some(next) => from = next,
            None => return Ok(found),
        }
    }
}

/// Returns the root page of each table's tree.
pub(crate) fn roots(engine: &Engine) -> Result<HashMap<u32, u32>> {
    let entries = entries(engine)?;
    let mut roots: HashMap<u32, u32> = entries
        .into_iter()
        .map(|(_, entry)| (entry.id.table, entry.id.root))
        .collect();
    roots.insert(CATALOG.table, CATALOG.root);
    Ok(roots)
}
