//! The log's files: preallocated, and written over when nothing in them is needed.
//!
//! A segment of the stream lies in any file; the first batch in it says which segment
//! it is. What a file held before has other LSNs and is never taken for the log.

use super::LogShape;
use super::format::{BATCH_HEADER, BatchHeader};
use crate::error::{Error, Result};
use crate::storage::{Named, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[derive(Debug, Default)]
struct State {
    files: Vec<Named>,
    /// Segments of the stream, and the files that they lie in.
    used: BTreeMap<u64, usize>,
    free: Vec<usize>,
    /// Files written since they were synced.
    unsynced: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Segments {
    storage: Arc<dyn Storage>,
    shape: LogShape,
    state: Mutex<State>,
    /// One grows the log at a time.
    growing: Mutex<()>,
    room_until: AtomicU64,
}

/// The name of a file of the log.
pub(crate) fn name(number: usize) -> String {
    format!("wal-{number}")
}

impl Segments {
    /// The files there are, and what they begin with.
    pub(super) fn open(storage: Arc<dyn Storage>, shape: LogShape) -> Result<Self> {
        let mut state = State::default();
        let mut lives = BTreeMap::<u64, u32>::new();
        while let Some(file) = Named::find(&*storage, &name(state.files.len()))? {
            let number = state.files.len();
            if file.size()? < shape.segment {
                // Its making was interrupted.
                fill(&file, shape)?;
            }
            let mut start = [0; BATCH_HEADER as usize];
            file.read_at(0, &mut start)?;
            state.files.push(file);
            let Some((segment, life)) = first_segment(&start, shape) else {
                state.free.push(number);
                continue;
            };
            // Of two, one is left over from a life whose end was not acknowledged.
            let older = lives.get(&segment).copied().unwrap_or_default();
            if life > older {
                lives.insert(segment, life);
                state.free.extend(state.used.insert(segment, number));
            } else {
                state.free.push(number);
            }
        }
        Ok(Segments {
            storage,
            shape,
            state: Mutex::new(state),
            growing: Mutex::new(()),
            room_until: AtomicU64::new(0),
        })
    }

    /// The log goes on in `segment`; later ones are left over from another life.
    pub(super) fn begin(&self, segment: u64) {
        let mut state = self.state.lock();
        let later = state.used.split_off(&(segment + 1));
        state.free.extend(later.into_values());
        self.measure(&state);
    }

    /// Files beyond the limit, which undoing and images have made, are used again, but
    /// nobody is promised them.
    fn measure(&self, state: &State) {
        let last = state.used.last_key_value().map_or(0, |(last, _)| last + 1);
        let allowed = self.shape.max_segments.saturating_sub(state.used.len());
        let free = state.free.len().min(allowed) as u64;
        let until = (last + free) * self.shape.segment;
        self.room_until.store(until, SeqCst);
    }

    /// Files are there for every position before this.
    pub(super) fn room_until(&self) -> u64 {
        self.room_until.load(SeqCst)
    }

    /// Gives a segment a file, if it has none.
    pub(super) fn provide(&self, segment: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.used.contains_key(&segment) {
            return Ok(());
        }
        let number = match state.free.pop() {
            Some(number) => number,
            None => self.make(&mut state)?,
        };
        state.used.insert(segment, number);
        self.measure(&state);
        Ok(())
    }

    /// One file more, for `bytes` that are needed.
    pub(super) fn add(&self, bytes: u64) -> Result<()> {
        let _growing = self.growing.lock();
        let number = self.state.lock().files.len();
        if number >= self.shape.max_segments {
            return Err(Error::LogFull { needed: bytes });
        }
        let file = Named::open(&*self.storage, &name(number), true)?;
        fill(&file, self.shape)?;
        let mut state = self.state.lock();
        if state.files.len() == number {
            state.files.push(file);
            state.free.push(number);
            self.measure(&state);
        }
        Ok(())
    }

    /// What was promised did not suffice: a file more, whatever the limit is.
    fn make(&self, state: &mut State) -> Result<usize> {
        let number = state.files.len();
        let file = Named::open(&*self.storage, &name(number), true)?;
        fill(&file, self.shape)?;
        state.files.push(file);
        Ok(number)
    }

    /// A free file, where that is allowed.
    pub(super) fn prepare_spare(&self) -> Result<()> {
        let (free, files) = {
            let state = self.state.lock();
            (state.free.len(), state.files.len())
        };
        if free == 0 && files < self.shape.max_segments {
            self.add(0)?;
        }
        Ok(())
    }

    /// Segments before this are no longer needed.
    pub(super) fn recycle(&self, keep: u64) {
        let mut state = self.state.lock();
        let kept = state.used.split_off(&keep);
        let freed = std::mem::replace(&mut state.used, kept);
        state.free.extend(freed.into_values());
        self.measure(&state);
    }

    /// The first segment that has a file.
    pub(super) fn oldest(&self) -> Option<u64> {
        let state = self.state.lock();
        state.used.first_key_value().map(|(first, _)| *first)
    }

    fn file(&self, segment: u64) -> Option<(Named, usize)> {
        let state = self.state.lock();
        let number = *state.used.get(&segment)?;
        Some((state.files[number].clone(), number))
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let found = self.file(self.shape.segment_of(at));
        let (file, number) = found.expect("provided when the batch was opened");
        {
            let mut state = self.state.lock();
            if !state.unsynced.contains(&number) {
                state.unsynced.push(number);
            }
        }
        file.write_at(self.shape.offset(at), bytes)
    }

    /// Everything is durable when this returns, whoever wrote it.
    pub(super) fn harden(&self) -> Result<()> {
        let files: Vec<Named> = {
            let state = self.state.lock();
            let used = state.used.values();
            used.map(|number| state.files[*number].clone()).collect()
        };
        files.iter().try_for_each(Named::sync)
    }

    /// Everything written is durable when this returns.
    pub(super) fn sync(&self) -> Result<()> {
        let files: Vec<Named> = {
            let mut state = self.state.lock();
            let unsynced = std::mem::take(&mut state.unsynced);
            unsynced
                .iter()
                .map(|number| state.files[*number].clone())
                .collect()
        };
        files.iter().try_for_each(Named::sync)
    }

    /// Reads from one segment. False if the log has no such segment.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> Result<bool> {
        let Some((file, _)) = self.file(self.shape.segment_of(at)) else {
            return Ok(false);
        };
        let offset = self.shape.offset(at);
        if offset + buffer.len() as u64 > self.shape.segment {
            return Ok(false);
        }
        file.read_at(offset, buffer)?;
        Ok(true)
    }
}

/// Preallocated blocks that were never written would have to be marked as written by
/// the file system at each first sync; so they are written once. Synced in pieces: who
/// commits meanwhile waits for one of them, not for all.
fn fill(file: &Named, shape: LogShape) -> Result<()> {
    let zeros = vec![0; (1 << 20).min(shape.segment as usize)];
    let mut at = 0;
    while at < shape.segment {
        let now = (shape.segment - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..now as usize])?;
        file.sync()?;
        at += now;
    }
    Ok(())
}

/// The segment that a file begins with, and the life in which that was written.
fn first_segment(start: &[u8], shape: LogShape) -> Option<(u64, u32)> {
    let lsn = u64::from_le_bytes(start[16..24].try_into().expect("8 bytes"));
    let header = BatchHeader::parse(start, lsn)?;
    (lsn % shape.segment == 0).then_some((lsn / shape.segment, header.life.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn a_log_that_went_beyond_its_limit_comes_back_to_it() {
        let shape = LogShape {
            segment: 64 << 10,
            unit: 512,
            max_segments: 4,
            max_record: 9216,
            batch: 16 << 10,
        };
        let segments = Segments::open(Arc::new(MemoryStorage::new()), shape).unwrap();
        segments.begin(1);
        (1..=7).for_each(|segment| segments.provide(segment).unwrap());
        assert_eq!(
            segments.room_until(),
            8 * shape.segment,
            "no promise beyond"
        );
        // Five files are free, and one of the four is in use.
        segments.recycle(7);
        assert_eq!(segments.room_until(), (7 + 4) * shape.segment);
        assert!(matches!(segments.add(1), Err(Error::LogFull { needed: 1 })));
    }
}
