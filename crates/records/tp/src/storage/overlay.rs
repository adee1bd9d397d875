//! A storage that is only read, with writes kept in memory, so that an environment in it
//! can be recovered and read without changing its files.

use super::{Storage, StoredFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use varve_device::sync::{Mutex, RwLock};

/// Bytes per unit of the overlay.
const CHUNK: u64 = 4096;

/// A storage that is never changed, and the writes over it.
#[derive(Debug)]
pub struct OverlayStorage {
    below: Arc<dyn Storage>,
    names: Mutex<Names>,
    /// A pin that keeps the files below unchanged while they are read.
    _held: Option<Arc<dyn Debug + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<String, Arc<OverlayFile>>,
    /// Names that were removed or renamed.
    gone: BTreeSet<String>,
}

impl OverlayStorage {
    /// Returns an overlay over `below`, which is never written.
    pub fn new(below: Arc<dyn Storage>) -> Self {
        OverlayStorage {
            below,
            names: Mutex::default(),
            _held: None,
        }
    }

    /// Returns an overlay over files that change meanwhile: the named small files are
    /// read now; `held` pins everything that is read of the others.
    pub(crate) fn frozen(
        below: Arc<dyn Storage>,
        names: &[&str],
        held: Arc<dyn Debug + Send + Sync>,
    ) -> io::Result<Self> {
        let overlay = OverlayStorage {
            _held: Some(held),
            ..OverlayStorage::new(below)
        };
        for name in names {
            let file = overlay.find(&mut overlay.names.lock(), name, false)?;
            let mut bytes = vec![0; file.size()? as usize];
            file.read_at(0, &mut bytes)?;
            file.write_at(0, &bytes)?;
        }
        Ok(overlay)
    }

    fn find(&self, names: &mut Names, name: &str, create: bool) -> io::Result<Arc<OverlayFile>> {
        if let Some(file) = names.files.get(name) {
            return Ok(file.clone());
        }
        let below = match names.gone.contains(name) {
            true => Err(io::ErrorKind::NotFound.into()),
            false => self.below.open(name, false),
        };
        let file = match below {
            Ok(below) => OverlayFile::over(below)?,
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                OverlayFile::default()
            }
            Err(error) => return Err(error),
        };
        let file = Arc::new(file);
        names.files.insert(name.to_owned(), file.clone());
        Ok(file)
    }
}

impl Storage for OverlayStorage {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let file = self.find(&mut self.names.lock(), name, create)?;
        Ok(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.names.lock();
        let mut all: BTreeSet<String> = self.below.list()?.into_iter().collect();
        all.retain(|name| !names.gone.contains(name));
        all.extend(names.files.keys().cloned());
        Ok(all.into_iter().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.names.lock();
        let file = self.find(&mut names, from, false)?;
        names.files.remove(from);
        names.gone.insert(from.to_owned());
        names.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        self.below.lock()
    }
}

#[derive(Debug, Default)]
struct OverlayFile {
    below: Option<Arc<dyn StoredFile>>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    size: u64,
    /// Bytes of the file below that are visible where there is no chunk.
    below: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
}

impl OverlayFile {
    fn over(below: Arc<dyn StoredFile>) -> io::Result<Self> {
        let size = below.size()?;
        Ok(OverlayFile {
            below: Some(below),
            state: RwLock::new(State {
                size,
                below: size,
                chunks: BTreeMap::new(),
            }),
        })
    }

    /// Reads a part of one chunk.
    fn part(&self, state: &State, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        if let Some(chunk) = state.chunks.get(&(at / CHUNK)) {
            let from = (at % CHUNK) as usize;
            buffer.copy_from_slice(&chunk[from..from + buffer.len()]);
            return Ok(());
        }
        let there = state.below.saturating_sub(at).min(buffer.len() as u64) as usize;
        let (now, zero) = buffer.split_at_mut(there);
        zero.fill(0);
        match &self.below {
            Some(below) if there > 0 => below.read_at(at, now),
            _ => Ok(()),
        }
    }
}

/// Returns the pieces of `[offset, offset + bytes)`, each within one chunk, as offset and
/// length.
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    let end = offset + bytes as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let here = (CHUNK - at % CHUNK).min(end - at);
        let piece = (here > 0).then_some((at, here as usize));
        at += here;
        piece
    })
}

impl StoredFile for OverlayFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.state.read();
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > state.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if state.chunks.is_empty() && state.below == state.size {
            drop(state);
            return match &self.below {
                Some(below) => below.read_at(offset, buffer),
                None => Ok(()),
            };
        }
        for (at, bytes) in pieces(offset, buffer.len()) {
            let from = (at - offset) as usize;
            self.part(&state, at, &mut buffer[from..from + bytes])?;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.write();
        for (at, length) in pieces(offset, bytes.len()) {
            let from = (at - offset) as usize;
            let new = &bytes[from..from + length];
            let number = at / CHUNK;
            let there = state.chunks.contains_key(&number);
            if !there && number * CHUNK >= state.below && new.iter().all(|byte| *byte == 0) {
                continue;
            }
            if !there {
                let mut chunk = vec![0; CHUNK as usize].into_boxed_slice();
                self.part(&state, number * CHUNK, &mut chunk)?;
                state.chunks.insert(number, chunk);
            }
            let chunk = state.chunks.get_mut(&number).expect("just made");
            let within = (at % CHUNK) as usize;
            chunk[within..within + length].copy_from_slice(new);
        }
        state.size = state.size.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state.write();
        state.size = bytes;
        state.below = state.below.min(bytes);
        drop(state.chunks.split_off(&bytes.div_ceil(CHUNK)));
        if let Some(chunk) = state.chunks.get_mut(&(bytes / CHUNK)) {
            chunk[(bytes % CHUNK) as usize..].fill(0);
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.state.read().size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn it_is_as_if_the_files_were_changed_and_they_are_not() {
        let below = MemoryStorage::new();
        let file = below.open("a", true).unwrap();
        file.write_at(0, &[7; 9_000]).unwrap();
        let before = below.files();
        let model = MemoryStorage::with_files(before.clone());
        let over = OverlayStorage::new(Arc::new(below.clone()));
        for storage in [&model as &dyn Storage, &over] {
            let file = storage.open("a", false).unwrap();
            file.write_at(4_000, &[1; 200]).unwrap();
            file.write_at(12_000, &[0; 100]).unwrap();
            file.truncate(11_000).unwrap();
            file.truncate(5_000).unwrap();
            file.write_at(20_000, &[2; 10]).unwrap();
            storage.rename("a", "b").unwrap();
            let again = storage.open("a", true).unwrap();
            again.write_at(3, &[9]).unwrap();
        }
        assert_eq!(below.files(), before);
        let mut names = over.list().unwrap();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        for (name, want) in model.files() {
            let file = over.open(&name, false).unwrap();
            let mut found = vec![0; file.size().unwrap() as usize];
            file.read_at(0, &mut found).unwrap();
            assert!(found == want, "{name}");
            assert!(file.read_at(1, &mut found).is_err());
        }
        assert!(over.open("c", false).is_err());
    }
}
