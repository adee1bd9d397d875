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

    /// The table of which the catalog says that this is an index.
    pub(crate) fn table_of(types: &str) -> Option<&str> {
        let (table, _) = types.strip_prefix("index of ")?.rsplit_once(": ")?;
        Some(table)
    }
}
