//! Several transfers at separate addresses, carried out in parallel ([`super::ring`]).
//!
//! Invariant: a transfer that the ring did not complete is repeated by a plain call,
//! which reports the error.

use super::ring::{Request, Ring, Transfer};
use super::{BOUNCE_BYTES, FileDevice, IoMode};
use crate::device::{Device, Operation, Result};
use crate::request::check_request;
use std::io::IoSlice;
use std::mem;

/// Minimum number of transfers for a ring; fewer are carried out one after the other.
const LEAST: usize = 2;
/// Maximum length, in bytes, of a transfer through a bounce buffer of several
/// transfers. A longer one is carried out alone: it keeps the disk busy enough.
const LONG_BYTES: usize = BOUNCE_BYTES / 4;

impl FileDevice {
    pub(super) fn write_side_by_side(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for &(offset, bytes) in writes {
            let length = bytes.len() as u64;
            check_request(self, Operation::Write, offset, length)?;
            self.refuse_if_read_only(Operation::Write, offset, length)?;
        }
        let write = |(offset, bytes): &(u64, &[u8])| self.write(*offset, &[IoSlice::new(bytes)]);
        let mut rest = writes;
        while let Some((first, others)) = rest.split_first() {
            let Some((ring, count)) = self.ring_for(rest.iter().map(|(_, bytes)| *bytes)) else {
                write(first)?;
                rest = others;
                continue;
            };
            let (batch, behind) = rest.split_at(count);
            let mut bounce = self.pool.take(BOUNCE_BYTES);
            let mut room = &mut bounce[..];
            let mut requests = Vec::with_capacity(count);
            for &(offset, bytes) in batch {
                let bytes = match self.usable(bytes) {
                    true => bytes,
                    false => {
                        let here = self.next_part(&mut room, bytes.len());
                        here.copy_from_slice(bytes);
                        here
                    }
                };
                requests.push(Request::new(offset, Transfer::Write(bytes)));
            }
            self.carry_out(ring, &mut requests);
            for (request, piece) in requests.iter().zip(batch) {
                match request.whole {
                    true => self.counters.count_write(piece.1.len() as u64),
                    false => write(piece)?,
                }
            }
            rest = behind;
        }
        Ok(())
    }

    pub(super) fn read_side_by_side(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        for (offset, into) in &*reads {
            check_request(self, Operation::Read, *offset, into.len() as u64)?;
        }
        let mut rest = reads;
        while !rest.is_empty() {
            let Some((ring, count)) = self.ring_for(rest.iter().map(|(_, into)| &**into)) else {
                let ((offset, into), others) = rest.split_first_mut().expect("not empty");
                self.read(*offset, into)?;
                rest = others;
                continue;
            };
            let (batch, behind) = rest.split_at_mut(count);
            let mut bounce = self.pool.take(BOUNCE_BYTES);
            let mut room = &mut bounce[..];
            let mut requests = Vec::with_capacity(count);
            let mut bounced = Vec::new();
            for (nth, (offset, into)) in batch.iter_mut().enumerate() {
                let into = match self.usable(into) {
                    true => &mut **into,
                    false => {
                        let here = self.next_part(&mut room, into.len());
                        bounced.push((nth, &mut **into));
                        here
                    }
                };
                requests.push(Request::new(*offset, Transfer::Read(into)));
            }
            self.carry_out(ring, &mut requests);
            for (nth, into) in bounced {
                into.copy_from_slice(requests[nth].bytes());
            }
            let whole: Vec<bool> = requests.iter().map(|request| request.whole).collect();
            for (whole, (offset, into)) in whole.into_iter().zip(batch) {
                match whole {
                    true => self.counters.count_read(into.len() as u64),
                    false => self.read(*offset, into)?,
                }
            }
            rest = behind;
        }
        Ok(())
    }

    /// Returns a ring and the number of first transfers, which use the given memory,
    /// that it takes at once. Returns `None` if a ring does not pay or there is none.
    fn ring_for<'m>(&self, memory: impl Iterator<Item = &'m [u8]>) -> Option<(Ring, usize)> {
        if self.io != IoMode::Direct {
            return None;
        }
        let mut bounced = 0;
        let fits = |memory: &&[u8]| {
            if self.usable(memory) {
                return true;
            }
            bounced += memory.len().next_multiple_of(self.memory_align);
            memory.len() <= LONG_BYTES && bounced <= BOUNCE_BYTES
        };
        let count = memory.take_while(fits).count();
        (count >= LEAST).then(|| Some((self.rings.take()?, count)))?
    }

    /// Takes the next part of a bounce buffer, aligned for direct I/O, from `room`.
    fn next_part<'b>(&self, room: &mut &'b mut [u8], length: usize) -> &'b mut [u8] {
        let aligned = length.next_multiple_of(self.memory_align);
        let (here, behind) = mem::take(room).split_at_mut(aligned);
        *room = behind;
        self.counters.count_copy(length as u64);
        &mut here[..length]
    }

    fn carry_out(&self, mut ring: Ring, requests: &mut [Request<'_>]) {
        match ring.carry_out(&self.fd, requests) {
            Ok(()) => self.rings.put_back(ring),
            Err(error) => self.rings.refuse(&error),
        }
        for request in requests.iter().filter(|request| !request.whole) {
            let offset = request.offset();
            tracing::warn!(device = %self.path.display(), offset, "a request is done again");
        }
    }
}
