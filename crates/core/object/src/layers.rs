//! What a volume's bytes are: layers of newer ones over older ones.
//!
//! | layer | bytes that |
//! |---|---|
//! | `fresh` | were written, and are in no log object |
//! | `flying` | are in the log object that is being created |
//! | `logged` | are in log objects behind the newest map |
//! | `stored` | are in objects of their own |
//!
//! A range that is in no layer reads as zeros. `logged` and `stored` share no byte.

use crate::format::{Content, LogObject};
use crate::ranges::{Part, Ranges};
use crate::stored::{Moment, Stored};
use std::collections::HashSet;
use std::sync::Arc;

/// The value of a range in a layer.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Bytes, from one of the buffer on.
    Bytes(Arc<Vec<u8>>, usize),
    /// No value any more.
    Gone,
}

impl Part for Piece {
    fn without_first(&self, bytes: u64) -> Self {
        match self {
            Piece::Bytes(data, from) => Piece::Bytes(Arc::clone(data), from + bytes as usize),
            Piece::Gone => Piece::Gone,
        }
    }
}

/// The layers, and counts of writes.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub size: u64,
    pub fresh: Ranges<Piece>,
    /// Bytes in `fresh`.
    pub fresh_bytes: u64,
    pub flying: Ranges<Piece>,
    pub logged: Ranges<Piece>,
    /// Bytes in `logged`.
    pub logged_bytes: u64,
    pub stored: Stored,
    /// Number of changes that a flush must make durable, since the volume was opened.
    pub changes: u64,
    /// Number of these that are durable.
    pub durable: u64,
}

pub(crate) fn bytes_of(ranges: &[(u64, u64, Piece)]) -> u64 {
    let bytes = ranges.iter().map(|(_, length, piece)| match piece {
        Piece::Bytes(..) => *length,
        Piece::Gone => 0,
    });
    bytes.sum()
}

impl Layers {
    /// Writes bytes.
    pub fn write(&mut self, start: u64, data: Vec<u8>) {
        let length = data.len() as u64;
        if length == 0 {
            return;
        }
        let replaced = self
            .fresh
            .insert(start, length, Piece::Bytes(Arc::new(data), 0));
        self.fresh_bytes += length;
        self.fresh_bytes -= bytes_of(&replaced);
        self.changes += 1;
    }

    /// Gives up the value of a range. That alone needs no flush.
    pub fn discard(&mut self, start: u64, length: u64) {
        let replaced = self.fresh.insert(start, length, Piece::Gone);
        self.fresh_bytes -= bytes_of(&replaced);
    }

    /// Fills a buffer from the layers that are in memory, and returns what the objects
    /// have of it: offset in the buffer, length, and place.
    pub fn read(&self, start: u64, buffer: &mut [u8]) -> Vec<(usize, usize, crate::stored::Place)> {
        buffer.fill(0);
        let length = buffer.len() as u64;
        // What no newer layer has.
        let mut missing = vec![(start, length)];
        for layer in [&self.fresh, &self.flying, &self.logged] {
            let mut left = Vec::new();
            for (from, bytes) in missing {
                let mut next = from;
                for (at, length, piece) in layer.within(from, bytes) {
                    if at > next {
                        left.push((next, at - next));
                    }
                    next = at + length;
                    if let Piece::Bytes(data, from) = piece {
                        let to = (at - start) as usize;
                        let length = length as usize;
                        buffer[to..to + length].copy_from_slice(&data[from..from + length]);
                    }
                }
                if next < from + bytes {
                    left.push((next, from + bytes - next));
                }
            }
            missing = left;
        }
        let mut places = Vec::new();
        for (from, bytes) in missing {
            for (at, length, place) in self.stored.places.within(from, bytes) {
                places.push(((at - start) as usize, length as usize, place));
            }
        }
        places
    }

    /// The end of the state at the beginning of a range: true if nothing is stored there,
    /// and its length.
    pub fn extent(&self, start: u64, length: u64) -> (bool, u64) {
        let end = start + length;
        let in_memory = [&self.fresh, &self.flying, &self.logged];
        let mut next = end;
        for layer in in_memory {
            for (at, bytes, piece) in layer.within(start, length) {
                match piece {
                    Piece::Bytes(..) if at == start => return (false, bytes),
                    Piece::Bytes(..) => next = next.min(at),
                    Piece::Gone => continue,
                }
                break;
            }
        }
        match self.stored.places.within(start, length).next() {
            Some((at, bytes, _)) if at == start => (false, bytes),
            Some((at, _, _)) => (true, next.min(at) - start),
            None => (true, next - start),
        }
    }

    /// Takes the fresh layer, for a log object.
    pub fn freeze(&mut self) -> u64 {
        assert!(self.flying.is_empty(), "one log object at a time");
        self.flying = std::mem::take(&mut self.fresh);
        self.fresh_bytes = 0;
        self.changes
    }

    /// True if a log object stores ranges only in objects that were not known before.
    pub fn admits(&self, object: &LogObject) -> bool {
        let Content::Flush { stored, .. } = &object.content else {
            return true;
        };
        let mut new = HashSet::new();
        stored
            .iter()
            .all(|one| !self.stored.knows(one.id) && new.insert(one.id))
    }

    /// Applies a log object, which is known to be stored since `time`. Its own time is
    /// older: its creation may have been repeated for long. Its ranges share no byte.
    pub fn apply(&mut self, object: &LogObject, time: i64) {
        let now = Moment {
            number: object.number,
            time,
        };
        self.resize(object.size, now);
        let Content::Flush {
            written,
            stored,
            discarded,
        } = &object.content
        else {
            return;
        };
        for &(start, length) in discarded {
            self.unlog(start, length);
            self.stored.remove(start, length, now);
        }
        for one in stored {
            self.unlog(one.start, one.bytes);
            let sums = one.sums.clone().into();
            self.stored
                .add(one.id, &[(one.start, one.bytes)], sums, now);
        }
        for (start, data) in written {
            let length = data.len() as u64;
            self.unlog(*start, length);
            self.stored.remove(*start, length, now);
            let piece = Piece::Bytes(Arc::clone(data), 0);
            self.logged.insert(*start, length, piece);
            self.logged_bytes += length;
        }
    }

    fn unlog(&mut self, start: u64, length: u64) {
        let replaced = self.logged.remove(start, length);
        self.logged_bytes -= bytes_of(&replaced);
    }

    /// Sets the size as of a log object, and drops the bytes beyond it.
    fn resize(&mut self, size: u64, now: Moment) {
        if size < self.size {
            self.unlog(size, self.size - size);
            self.stored.remove(size, self.size - size, now);
        }
        self.size = size;
    }
}
