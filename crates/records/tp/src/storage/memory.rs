//! Files in memory that can be crashed: of the writes that were not synced, any subset of
//! sectors survives.

mod crash;

pub use crash::{Choice, CrashImages, Survival};

use super::{Storage, StoredFile};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use varve_device::sync::Mutex;

/// A request that fails.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Number of the failing request among those that write, sync, truncate or create a
    /// file, from 0; reads are counted as well if `reads` is set.
    pub at: u64,
    /// True if all later requests fail as well.
    pub sticky: bool,
    /// True if reads may fail.
    pub reads: bool,
    /// True if the error is a lack of space instead of a medium error. Syncs then
    /// succeed.
    pub no_room: bool,
}

/// Requests to a storage, in order.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Create(String),
    Rename(String, String),
    Write(usize, u64, Arc<[u8]>),
    Truncate(usize, u64),
    Sync(usize),
    Mark(u64),
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
    trace: Option<Vec<Event>>,
    fault: Option<Fault>,
    asked: u64,
    written: u64,
}

/// A flat directory in memory. Clones are the same storage.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage(Arc<Mutex<State>>);

impl MemoryStorage {
    /// Returns a storage without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a storage with these files.
    pub fn with_files(files: BTreeMap<String, Vec<u8>>) -> Self {
        let mut state = State::default();
        for (name, bytes) in files {
            state.names.insert(name, state.files.len());
            state.files.push(bytes);
        }
        MemoryStorage(Arc::new(Mutex::new(state)))
    }

    /// Returns the present content of all files.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.0.lock();
        let content = |(name, file): (&String, &usize)| (name.clone(), state.files[*file].clone());
        state.names.iter().map(content).collect()
    }

    /// Starts to record every change, for [`crashes`](Self::crashes).
    pub fn record(&self) {
        self.0.lock().trace = Some(Vec::new());
    }

    /// Adds a mark to the record, for example of an acknowledged commit.
    pub fn mark(&self, mark: u64) {
        self.note(|| Event::Mark(mark));
    }

    fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(trace) = &mut self.0.lock().trace {
            trace.push(event());
        }
    }

    /// Returns the states that a crash may leave, from `before` (the result of
    /// [`files`](Self::files) when the record began) and the record.
    pub fn crashes(&self, before: BTreeMap<String, Vec<u8>>) -> CrashImages {
        let trace = self.0.lock().trace.clone().unwrap_or_default();
        CrashImages::new(before, trace)
    }

    /// Sets the request that fails, or none, and restarts the count.
    pub fn set_fault(&self, fault: Option<Fault>) {
        let mut state = self.0.lock();
        (state.fault, state.asked) = (fault, 0);
    }

    /// Returns the number of requests since the last [`set_fault`](Self::set_fault) that
    /// could have failed.
    pub fn asked(&self) -> u64 {
        self.0.lock().asked
    }

    /// Returns the bytes written so far.
    pub fn written(&self) -> u64 {
        self.0.lock().written
    }
}

/// Fails if this request is the one to fail.
fn fault(state: &mut State, read: bool, sync: bool) -> io::Result<()> {
    let Some(fault) = state.fault else {
        state.asked += u64::from(!read);
        return Ok(());
    };
    if (read && !fault.reads) || (fault.no_room && (sync || read)) {
        return Ok(());
    }
    let at = state.asked;
    state.asked += 1;
    if at == fault.at || (fault.sticky && at > fault.at) {
        return Err(match fault.no_room {
            true => io::ErrorKind::StorageFull.into(),
            false => io::Error::other("a planted fault"),
        });
    }
    Ok(())
}

impl Storage for MemoryStorage {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let mut state = self.0.lock();
        let file = match state.names.get(name) {
            Some(file) => *file,
            None if create => {
                fault(&mut state, false, false)?;
                let file = state.files.len();
                state.files.push(Vec::new());
                state.names.insert(name.to_owned(), file);
                if let Some(trace) = &mut state.trace {
                    trace.push(Event::Create(name.to_owned()));
                }
                file
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        let storage = self.clone();
        Ok(Arc::new(MemoryFile { storage, file }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        fault(&mut state, false, false)?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        if let Some(trace) = &mut state.trace {
            trace.push(Event::Rename(from.to_owned(), to.to_owned()));
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    storage: MemoryStorage,
    file: usize,
}

/// Writes into a file, which is extended as necessary.
fn put(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset as usize..end].copy_from_slice(bytes);
}

impl StoredFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.storage.0.lock();
        fault(&mut state, true, false)?;
        let range = usize::try_from(offset).ok().and_then(|from| {
            let to = from.checked_add(buffer.len())?;
            state.files[self.file].get(from..to)
        });
        buffer.copy_from_slice(range.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.storage.0.lock();
        fault(&mut state, false, false)?;
        put(&mut state.files[self.file], offset, bytes);
        state.written += bytes.len() as u64;
        if let Some(trace) = &mut state.trace {
            trace.push(Event::Write(self.file, offset, bytes.into()));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.storage.0.lock();
        fault(&mut state, false, true)?;
        if let Some(trace) = &mut state.trace {
            trace.push(Event::Sync(self.file));
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.storage.0.lock();
        fault(&mut state, false, false)?;
        state.files[self.file].resize(bytes as usize, 0);
        if let Some(trace) = &mut state.trace {
            trace.push(Event::Truncate(self.file, bytes));
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.storage.0.lock().files[self.file].len() as u64)
    }
}
