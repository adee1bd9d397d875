//! Appends records, and reserves log space for them.

use super::format::{BATCH_MAGIC, BatchHeader, RECORD_HEADER, RecordHeader};
use super::{Batch, HEADER, Log, Lsn, State};
use crate::error::{Error, Result};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use varve_device::sync::MutexGuard;
use varve_device::sync::atomic::Ordering::{Relaxed, SeqCst};
use zerocopy::IntoBytes;

/// Largest number of batches that wait to be written before appending waits.
const MOST_SEALED: usize = 16;

/// A record under construction: space for its header, then its body.
#[derive(Debug)]
pub(crate) struct Draft(Vec<u8>);

impl Draft {
    pub(crate) fn new() -> Self {
        Draft(Vec::new())
    }

    /// Clears the draft and returns its bytes.
    pub(crate) fn clear(&mut self) -> &mut Vec<u8> {
        self.0.resize(RECORD_HEADER, 0);
        &mut self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Fills in the header, including the checksum.
    pub(crate) fn seal(&mut self, mut header: RecordHeader) {
        header.length = (self.0.len() as u32).into();
        self.0[..RECORD_HEADER].copy_from_slice(header.as_bytes());
        let crc = crate::checksum(0, &self.0[4..]);
        self.0[..4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A reservation of log space; the unused part is released when it is dropped.
#[derive(Debug)]
pub(crate) struct Room<'l> {
    log: &'l Log,
    left: u64,
}

impl Room<'_> {
    /// Records that `bytes` were appended.
    pub(crate) fn spend(&mut self, bytes: u64) {
        let spent = bytes.min(self.left);
        self.left -= spent;
        self.log.release(spent);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.spend(self.left);
    }
}

/// Returns the host's time in seconds since 1970, for restores to a point in time.
pub(crate) fn now_s() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(0))
}

impl Log {
    /// Appends a record. It is durable after [`flush`](Log::flush).
    pub(crate) fn append(&self, draft: &Draft) -> Result<Lsn> {
        let bytes = draft.len() as u64;
        assert!(bytes <= self.shape.max_record, "a record of {bytes} bytes");
        let mut state = self.state.lock();
        while state.busy && state.sealed.len() > MOST_SEALED {
            self.changed.wait(&mut state);
        }
        if let Some(why) = &state.poison {
            return Err(Error::Poisoned(why.clone()));
        }
        let length = (state.open.len().max(HEADER)) as u64 + bytes;
        let fits = self.shape.batch_fits(state.open_at, length);
        if !state.open.is_empty() && (!fits || length as usize > self.shape.batch) {
            self.seal(&mut state);
        }
        if state.open.is_empty() {
            self.open_batch(&mut state, HEADER as u64 + bytes)?;
        }
        let lsn = state.open_at + state.open.len() as u64;
        state.open.extend_from_slice(&draft.0);
        state.end = state.open_at + state.open.len() as u64;
        self.end.store(state.end, SeqCst);
        if state.sealed.len() > 4 && !state.busy {
            // No commit waits for these batches, so the appender that exceeds the limit
            // writes them. A full segment is synced as well, so that batches in the next
            // one record it.
            let begins = |batch: &Arc<Batch>| self.shape.offset(batch.at) == 0;
            let sync = state.sealed.iter().any(begins);
            self.write_out(&mut state, sync)?;
        }
        Ok(Lsn(lsn))
    }

    fn open_batch(&self, state: &mut State, bytes: u64) -> Result<()> {
        let mut at = state.previous_end;
        if !self.shape.batch_fits(at, bytes) {
            at = self.shape.next_segment(at);
        }
        if let Err(error) = self.segments.provide(self.shape.segment_of(at)) {
            state.poison = Some(error.to_string());
            let _ = self.poisoned.set(error.to_string());
            return Err(error);
        }
        state.open_at = at;
        state.open = state.spare.pop().unwrap_or_default();
        state.open.resize(HEADER, 0);
        Ok(())
    }

    /// Closes the open batch.
    pub(super) fn seal(&self, state: &mut MutexGuard<'_, State>) {
        if state.open.is_empty() {
            return;
        }
        let mut bytes = std::mem::take(&mut state.open);
        let header = BatchHeader {
            magic: BATCH_MAGIC,
            header_crc: 0.into(),
            records_crc: crate::checksum(0, &bytes[HEADER..]).into(),
            length: (bytes.len() as u32).into(),
            lsn: state.open_at.into(),
            previous_end: state.previous_end.into(),
            durable: state.durable.into(),
            life: state.life.into(),
            time_s: now_s().into(),
        };
        bytes[..HEADER].copy_from_slice(header.sealed().as_bytes());
        bytes.resize(self.shape.padded(bytes.len() as u64) as usize, 0);
        let at = state.open_at;
        state.previous_end = at + bytes.len() as u64;
        state.end = state.previous_end;
        self.end.store(state.end, SeqCst);
        state.sealed.push_back(Arc::new(Batch { at, bytes }));
    }

    /// Checks that the log has space for `bytes` of records in addition to the undo of
    /// all active transactions. Creates missing segments up to the limit.
    pub(crate) fn admit(&self, bytes: u64) -> Result<()> {
        self.check()?;
        let waste = self.shape.max_record + self.shape.unit;
        let needed = || {
            let wanted = bytes + self.promised.load(Relaxed) + 2 * waste;
            let segments = wanted / (self.shape.segment - waste) + 1;
            self.end().0 + wanted + segments * waste
        };
        while needed() > self.segments.room_until() {
            self.segments
                .add(needed().saturating_sub(self.segments.room_until()))?;
        }
        Ok(())
    }

    /// Does the same as [`admit`](Log::admit) for a change of many records, and reserves
    /// the space until they are appended.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Room<'_>> {
        self.promise(bytes);
        let room = Room {
            log: self,
            left: bytes,
        };
        self.admit(0)?;
        Ok(room)
    }

    /// Reserves further bytes for an undo.
    pub(crate) fn promise(&self, bytes: u64) {
        self.promised.fetch_add(bytes, Relaxed);
    }

    /// Releases bytes that were reserved for an undo.
    pub(crate) fn release(&self, bytes: u64) {
        self.promised.fetch_sub(bytes, Relaxed);
    }
}
