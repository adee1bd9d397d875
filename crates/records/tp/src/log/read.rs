//! Reads records by their LSNs, for rolling back.

use super::format::{COMPENSATION, RECORD_HEADER, RecordHeader, record};
use super::{Log, Lsn};
use crate::error::{Error, Result};
use zerocopy::FromBytes;

/// A record that was read from the log.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub lsn: Lsn,
    pub transaction: u64,
    pub previous: Lsn,
    pub table: u32,
    pub kind: u8,
    /// For a compensation record, the LSN of the record that is undone next.
    pub undo_next: Option<Lsn>,
    pub body: Vec<u8>,
}

impl Record {
    /// Parses the bytes of a record. `None` if they are invalid.
    pub(crate) fn parse(lsn: Lsn, bytes: &[u8]) -> Option<(Self, usize)> {
        let (header, mut body) = record(bytes)?;
        let mut undo_next = None;
        if header.flags & COMPENSATION != 0 {
            let (next, rest) = body.split_first_chunk::<8>()?;
            undo_next = Some(Lsn(u64::from_le_bytes(*next)));
            body = rest;
        }
        let record = Record {
            lsn,
            transaction: header.transaction.get(),
            previous: Lsn(header.previous.get()),
            table: header.table.get(),
            kind: header.kind,
            undo_next,
            body: body.to_vec(),
        };
        // Its predecessors in its chain must precede it in the log.
        let earlier = record.previous < lsn && undo_next.is_none_or(|next| next < lsn);
        earlier.then_some((record, header.length.get() as usize))
    }
}

impl Log {
    /// Reads the record at `lsn` from memory or a file.
    pub(crate) fn read(&self, lsn: Lsn) -> Result<Record> {
        let bytes = match self.read_memory(lsn) {
            Some(bytes) => bytes,
            None => self.read_file(lsn)?,
        };
        let parsed = Record::parse(lsn, &bytes).map(|(record, _)| record);
        parsed.ok_or_else(|| no_record(lsn))
    }

    fn read_memory(&self, lsn: Lsn) -> Option<Vec<u8>> {
        let state = self.state.lock();
        if !state.open.is_empty() && lsn.0 >= state.open_at {
            let bytes = state.open.get((lsn.0 - state.open_at) as usize..)?;
            return Some(one(bytes)?.to_vec());
        }
        let holds = |at: u64, length: usize| (at..at + length as u64).contains(&lsn.0);
        let mut sealed = state.sealed.iter();
        let batch = sealed.find(|batch| holds(batch.at, batch.bytes.len()))?;
        let bytes = batch.bytes.get((lsn.0 - batch.at) as usize..)?;
        Some(one(bytes)?.to_vec())
    }

    fn read_file(&self, lsn: Lsn) -> Result<Vec<u8>> {
        let mut header = [0; RECORD_HEADER];
        if !self.segments.read(lsn.0, &mut header)? {
            return Err(no_record(lsn));
        }
        let length = RecordHeader::read_from_bytes(&header).map(|header| header.length.get());
        let length = u64::from(length.unwrap_or(0));
        if length < RECORD_HEADER as u64 || length > self.shape.max_record {
            return Err(no_record(lsn));
        }
        let mut bytes = vec![0; length as usize];
        match self.segments.read(lsn.0, &mut bytes)? {
            true => Ok(bytes),
            false => Err(no_record(lsn)),
        }
    }
}

/// Returns the record at the beginning of the bytes.
fn one(bytes: &[u8]) -> Option<&[u8]> {
    let (header, _) = RecordHeader::read_from_prefix(bytes).ok()?;
    bytes.get(..header.length.get() as usize)
}

fn no_record(lsn: Lsn) -> Error {
    Error::damaged("wal", lsn.0, "there is no valid record")
}
