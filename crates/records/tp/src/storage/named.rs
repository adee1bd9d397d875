//! A file with its name for errors.

use super::{Storage, StoredFile};
use crate::error::{Error, Result};
use std::io;
use std::sync::Arc;

/// An open file and its name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub name: Arc<str>,
    file: Arc<dyn StoredFile>,
}

impl Named {
    pub(crate) fn open(storage: &dyn Storage, name: &str, create: bool) -> Result<Self> {
        let file = storage.open(name, create);
        Ok(Named {
            file: file.map_err(|source| failed(name, "open", 0, source))?,
            name: name.into(),
        })
    }

    /// Opens a file; `None` if it does not exist.
    pub(crate) fn find(storage: &dyn Storage, name: &str) -> Result<Option<Self>> {
        match Named::open(storage, name, false) {
            Ok(file) => Ok(Some(file)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file.read_at(offset, buffer);
        read.map_err(|source| failed(&self.name, "read", offset, source))
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(offset, bytes);
        written.map_err(|source| failed(&self.name, "write", offset, source))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.sync();
        synced.map_err(|source| failed(&self.name, "sync", 0, source))
    }

    pub(crate) fn truncate(&self, bytes: u64) -> Result<()> {
        let cut = self.file.truncate(bytes);
        cut.map_err(|source| failed(&self.name, "truncate", bytes, source))
    }

    pub(crate) fn size(&self) -> Result<u64> {
        let size = self.file.size();
        size.map_err(|source| failed(&self.name, "size", 0, source))
    }

    /// Reads the whole file, up to `limit` bytes.
    pub(crate) fn read_all(&self, limit: u64) -> Result<Vec<u8>> {
        let bytes = self.size()?.min(limit);
        let mut all = vec![0; bytes as usize];
        self.read_at(0, &mut all)?;
        Ok(all)
    }
}

pub(crate) fn failed(file: &str, operation: &'static str, offset: u64, source: io::Error) -> Error {
    Error::Io {
        file: file.to_owned(),
        operation,
        offset,
        source,
    }
}

/// Creates or replaces a file by the concatenation of these parts, atomically.
pub(crate) fn place(storage: &dyn Storage, name: &str, parts: &[&[u8]]) -> Result<()> {
    let making = format!("{name}.new");
    let file = Named::open(storage, &making, true)?;
    file.truncate(0)?;
    let mut at = 0;
    for part in parts {
        file.write_at(at, part)?;
        at += part.len() as u64;
    }
    file.sync()?;
    let renamed = storage.rename(&making, name);
    renamed.map_err(|source| failed(&making, "rename", 0, source))
}
