//! An index as an environment knows it: a function over bytes.

use crate::error::Result;
use crate::types::Types;
use std::fmt;
use std::sync::Arc;

pub(crate) type Extract = dyn Fn(&[u8], &[u8]) -> Result<Vec<Vec<u8>>> + Send + Sync;

/// An index, its function over bytes.
#[derive(Clone)]
pub(crate) struct Registered {
    pub name: String,
    pub table: String,
    /// As the catalog has it.
    pub types: Types,
    pub extract: Arc<Extract>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.name, self.types.text())
    }
}

impl Registered {
    /// The index keys of a record, each once.
    pub(crate) fn keys(&self, key: &[u8], value: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut keys = (self.extract)(key, value)?;
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

/// Before the table that an index is of, in the types that the catalog has for it.
pub(crate) const INDEX_OF: &str = "index of ";

/// The table that an index is of, by its types as [`Environment::table_types`] tells
/// them; `None` if they are not an index's.
///
/// [`Environment::table_types`]: crate::Environment::table_types
pub fn indexed_table(types: &str) -> Option<&str> {
    let (table, _) = types.strip_prefix(INDEX_OF)?.rsplit_once(": ")?;
    Some(table)
}
