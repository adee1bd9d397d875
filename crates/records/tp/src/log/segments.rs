//! The files of the log: preallocated, and overwritten when their records are not needed
//! any more.
//!
//! A segment of the stream is stored in any file; the first batch shows which segment it
//! is. Former content of a file has other LSNs and is never taken for the log.
//!
//! Files are numbered without a gap and created one at a time, by writing zeros. So after
//! a crash only the last file may be shorter than a segment, and it contains zeros. Any
//! other file that is short or missing was lost (`lost.rs`).

use super::LogShape;
use super::format::BatchHeader;
use super::lost::{Found, Lacking};
use crate::error::{Error, Result};
use crate::storage::{Named, Storage};
use std::collections::BTreeMap;
use std::io::ErrorKind::UnexpectedEof;
use std::sync::Arc;
use varve_device::sync::Mutex;
use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[derive(Debug, Default)]
pub(super) struct State {
    pub files: BTreeMap<usize, Named>,
    /// Segments of the stream, and their files.
    pub used: BTreeMap<u64, usize>,
    free: Vec<usize>,
    /// Files written since they were synced.
    unsynced: Vec<usize>,
    /// Files that are short or missing, until they are extended.
    pub lacking: Vec<Lacking>,
}

#[derive(Debug)]
pub(super) struct Segments {
    storage: Arc<dyn Storage>,
    pub shape: LogShape,
    pub state: Mutex<State>,
    /// Locked while a file is created. It precedes the state's lock.
    growing: Mutex<()>,
    room_until: AtomicU64,
}

/// Returns the name of a log file.
pub(crate) fn name(number: usize) -> String {
    format!("wal-{number}")
}

impl Segments {
    /// Finds the files and the segments at their beginnings. Nothing is changed.
    pub(super) fn open(storage: Arc<dyn Storage>, shape: LogShape) -> Result<Self> {
        let Found { files, lacking } = Found::look(&*storage, shape)?;
        let mut state = State {
            lacking,
            ..State::default()
        };
        let mut lives = BTreeMap::<u64, u32>::new();
        for (number, file, start) in files {
            state.files.insert(number, file);
            let Some((segment, life)) = first_segment(&start, shape) else {
                state.free.push(number);
                continue;
            };
            // Of two files, one remains from a life whose end was not acknowledged.
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

    /// Continues the log in `segment`; later segments remain from another life and become
    /// free.
    pub(super) fn begin(&self, segment: u64) {
        let mut state = self.state.lock();
        let later = state.used.split_off(&(segment + 1));
        state.free.extend(later.into_values());
        self.measure(&state);
    }

    /// Computes the position up to which files exist. Files beyond the limit, which undo
    /// and images have created, are reused, but not counted.
    fn measure(&self, state: &State) {
        let last = state.used.last_key_value().map_or(0, |(last, _)| last + 1);
        let allowed = self.shape.max_segments.saturating_sub(state.used.len());
        let free = state.free.len().min(allowed) as u64;
        let until = (last + free) * self.shape.segment;
        self.room_until.store(until, SeqCst);
    }

    /// Returns the position before which every position has a file.
    pub(super) fn room_until(&self) -> u64 {
        self.room_until.load(SeqCst)
    }

    /// Gives a segment a file if it has none: a free one or, if the reserved space does
    /// not suffice, a new one beyond the limit.
    pub(super) fn provide(&self, segment: u64) -> Result<()> {
        if self.assign(segment) {
            return Ok(());
        }
        let _growing = self.growing.lock();
        while !self.assign(segment) {
            self.make()?;
        }
        Ok(())
    }

    /// Gives a segment a free file. Returns false if there is none.
    fn assign(&self, segment: u64) -> bool {
        let mut state = self.state.lock();
        if state.used.contains_key(&segment) {
            return true;
        }
        let Some(number) = state.free.pop() else {
            return false;
        };
        state.used.insert(segment, number);
        self.measure(&state);
        true
    }

    /// Creates a further file because `bytes` are needed.
    pub(super) fn add(&self, bytes: u64) -> Result<()> {
        let _growing = self.growing.lock();
        if self.state.lock().files.len() >= self.shape.max_segments {
            return Err(Error::LogFull { needed: bytes });
        }
        self.make()
    }

    /// Creates a free file. The caller must own `growing`.
    fn make(&self) -> Result<()> {
        let last = self
            .state
            .lock()
            .files
            .last_key_value()
            .map(|(last, _)| *last);
        let number = last.map_or(0, |last| last + 1);
        let file = Named::open(&*self.storage, &name(number), true)?;
        fill(&file, 0, self.shape)?;
        let mut state = self.state.lock();
        state.files.insert(number, file);
        state.free.push(number);
        self.measure(&state);
        Ok(())
    }

    /// Extends files that are short or missing. The end of the log has shown that they
    /// contained none of it.
    pub(super) fn make_whole(&self) -> Result<()> {
        let lacking = std::mem::take(&mut self.state.lock().lacking);
        for lacking in lacking {
            let file = Named::open(&*self.storage, &name(lacking.number), true)?;
            fill(&file, lacking.content(), self.shape)?;
            let mut state = self.state.lock();
            if state.files.insert(lacking.number, file).is_none() {
                state.free.push(lacking.number);
            }
        }
        Ok(())
    }

    /// Creates a free file if the limit allows it.
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

    /// Frees the segments before `keep`.
    pub(super) fn recycle(&self, keep: u64) {
        let mut state = self.state.lock();
        let kept = state.used.split_off(&keep);
        let freed = std::mem::replace(&mut state.used, kept);
        state.free.extend(freed.into_values());
        self.measure(&state);
    }

    /// Returns the first segment with a file.
    pub(super) fn oldest(&self) -> Option<u64> {
        let state = self.state.lock();
        state.used.first_key_value().map(|(first, _)| *first)
    }

    fn file(&self, segment: u64) -> Option<(Named, usize)> {
        let state = self.state.lock();
        let number = *state.used.get(&segment)?;
        Some((state.files[&number].clone(), number))
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

    /// Makes the content of all files durable, also that written by an earlier process.
    pub(super) fn harden(&self) -> Result<()> {
        let files: Vec<Named> = {
            let state = self.state.lock();
            let used = state.used.values();
            used.map(|number| state.files[number].clone()).collect()
        };
        files.iter().try_for_each(Named::sync)
    }

    /// Makes all writes durable.
    pub(super) fn sync(&self) -> Result<()> {
        let files: Vec<Named> = {
            let mut state = self.state.lock();
            let unsynced = std::mem::take(&mut state.unsynced);
            unsynced
                .iter()
                .map(|number| state.files[number].clone())
                .collect()
        };
        files.iter().try_for_each(Named::sync)
    }

    /// Reads from one segment. Returns false if the log does not have these bytes.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> Result<bool> {
        let Some((file, _)) = self.file(self.shape.segment_of(at)) else {
            return Ok(false);
        };
        let offset = self.shape.offset(at);
        if offset + buffer.len() as u64 > self.shape.segment {
            return Ok(false);
        }
        match file.read_at(offset, buffer) {
            Ok(()) => Ok(true),
            // The file was truncated.
            Err(Error::Io { source, .. }) if source.kind() == UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Fills a new file with zeros, because the host's file system would otherwise convert
/// preallocated blocks at each first sync. It is synced in pieces, so that a concurrent
/// commit waits for one of them, not for all.
fn fill(file: &Named, mut at: u64, shape: LogShape) -> Result<()> {
    let zeros = vec![0; (1 << 20).min(shape.segment as usize)];
    while at < shape.segment {
        let now = (shape.segment - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..now as usize])?;
        file.sync()?;
        at += now;
    }
    Ok(())
}

/// Returns the segment at the beginning of a file, and the life in which it was written.
pub(super) fn first_segment(start: &[u8], shape: LogShape) -> Option<(u64, u32)> {
    let header = BatchHeader::parse_anywhere(start)?;
    let lsn = header.lsn.get();
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
