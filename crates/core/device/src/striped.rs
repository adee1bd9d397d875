//! A striped array: several devices as one.
//!
//! Bytes are distributed over the members in stripe units, round robin (Seltzer 1992,
//! §3.1.1; no parity). A contiguous request is contiguous on every member it touches.
//! Each member therefore gets one request, vectored where the array's request skips the
//! units of other members, and all members get theirs at the same time.
//!
//! Invariants:
//! - A member's own block is never divided: the stripe unit is a multiple of every
//!   member's physical block, so the array writes whole or not at all what a member
//!   does.
//! - A request that fails on one member is still carried out on the others. The error
//!   returned is the one of the lowest member, and names it.
//! - The host's scheduler decides which member's request arrives first. Arrays of
//!   simulated disks, whose virtual time must be exact, have a device of their own in
//!   `varve-disk`.

mod split;

use std::io::IoSlice;

use parking_lot::Mutex;

use crate::aligned::AlignedBuffer;
use crate::device::{Device, DeviceError, Geometry, Operation, Result};
use crate::request::{check_request, total_length};

pub use split::{Piece, Stripes};

/// The reason why devices cannot be striped together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StripeError {
    /// The array has no member.
    #[error("a striped array needs at least one member")]
    NoMembers,
    /// The stripe unit would divide a member's block.
    #[error(
        "member {member}, {device}: a stripe unit of {unit_bytes} bytes is not a multiple of its \
         block of {block_bytes} bytes; choose a multiple"
    )]
    Unit {
        /// Index of the member, from 0.
        member: usize,
        /// Name of the member.
        device: String,
        /// The requested stripe unit, in bytes.
        unit_bytes: u64,
        /// The member's physical block, in bytes.
        block_bytes: u32,
    },
    /// A member has zones, which must be written in order.
    #[error("member {member}, {device}: zoned devices cannot be striped")]
    Zoned {
        /// Index of the member, from 0.
        member: usize,
        /// Name of the member.
        device: String,
    },
    /// A member is smaller than one stripe unit.
    #[error("member {member}, {device}: {size_bytes} bytes do not hold one stripe unit")]
    TooSmall {
        /// Index of the member, from 0.
        member: usize,
        /// Name of the member.
        device: String,
        /// Size of the member, in bytes.
        size_bytes: u64,
    },
}

/// For each member touched: its index, the address on it, and its part of the buffers.
type Parts<T> = Vec<(usize, (u64, Vec<T>))>;

/// Several devices as one, striped. Of each member as many bytes are used as the
/// smallest one has.
#[derive(Debug)]
pub struct StripedDevice<D: Device> {
    members: Vec<D>,
    stripes: Stripes,
    geometry: Geometry,
}

impl<D: Device> StripedDevice<D> {
    /// Stripes `members` in units of `unit_bytes`.
    ///
    /// # Errors
    /// If there is no member, if the unit is zero or not a multiple of a member's
    /// physical block, or if a member is zoned or too small.
    pub fn new(members: Vec<D>, unit_bytes: u64) -> std::result::Result<Self, StripeError> {
        let mut geometry = Geometry {
            size: u64::MAX,
            logical_block: 1,
            physical_block: 1,
        };
        for (member, device) in members.iter().enumerate() {
            let own = device.geometry();
            let block_bytes = own.physical_block.max(own.logical_block);
            let name = || device.name();
            if unit_bytes == 0 || !unit_bytes.is_multiple_of(u64::from(block_bytes)) {
                return Err(StripeError::Unit {
                    member,
                    device: name(),
                    unit_bytes,
                    block_bytes,
                });
            }
            if device.zones().is_some() {
                let device = name();
                return Err(StripeError::Zoned { member, device });
            }
            if own.size < unit_bytes {
                return Err(StripeError::TooSmall {
                    member,
                    device: name(),
                    size_bytes: own.size,
                });
            }
            geometry.size = geometry.size.min(own.size / unit_bytes * unit_bytes);
            geometry.logical_block = geometry.logical_block.max(own.logical_block);
            geometry.physical_block = geometry.physical_block.max(block_bytes);
        }
        let stripes = Stripes::new(members.len(), unit_bytes).ok_or(StripeError::NoMembers)?;
        geometry.size = geometry.size.saturating_mul(members.len() as u64);
        Ok(StripedDevice {
            members,
            stripes,
            geometry,
        })
    }

    /// Returns the member devices, in order.
    pub fn members(&self) -> &[D] {
        &self.members
    }

    /// Returns the mapping of bytes to members.
    pub fn stripes(&self) -> Stripes {
        self.stripes
    }

    /// Carries out one part on each of the given members in parallel: the last part on
    /// the caller's thread, and each other part on a thread of its own.
    fn side_by_side<T: Send>(
        &self,
        parts: Vec<(usize, T)>,
        run: impl Fn(&D, T) -> Result<()> + Sync,
    ) -> Result<()> {
        let run = |slot: &Mutex<Option<T>>, member: usize| {
            let part = slot.lock().take();
            part.map_or(Ok(()), |part| {
                run(&self.members[member], part).map_err(|error| self.name_member(member, error))
            })
        };
        let slots: Vec<(usize, Mutex<Option<T>>)> = parts
            .into_iter()
            .map(|(member, part)| (member, Mutex::new(Some(part))))
            .collect();
        let Some(((last, mine), others)) = slots.split_last() else {
            return Ok(());
        };
        if others.is_empty() {
            return run(mine, *last);
        }
        std::thread::scope(|scope| {
            let begun: Vec<_> = others
                .iter()
                .map(|(member, slot)| {
                    let builder = std::thread::Builder::new().name(format!("stripe {member}"));
                    builder.spawn_scoped(scope, || run(slot, *member))
                })
                .collect();
            let mine = run(mine, *last);
            let mut first = Ok(());
            for (thread, (member, slot)) in begun.into_iter().zip(others) {
                let result = match thread {
                    Ok(thread) => thread.join().expect("a member's request panicked"),
                    // The host refused a thread: the part is still in its slot.
                    Err(_) => run(slot, *member),
                };
                first = first.and(result);
            }
            first.and(mine)
        })
    }

    fn name_member(&self, member: usize, error: DeviceError) -> DeviceError {
        DeviceError {
            device: format!("{}, member {member}, {}", self.name(), error.device),
            ..error
        }
    }
}

impl<D: Device> Device for StripedDevice<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_request(self, Operation::Read, offset, buffer.len() as u64)?;
        let mut parts: Parts<&mut [u8]> = Vec::new();
        let mut rest = buffer;
        for piece in self.stripes.pieces(offset, rest.len() as u64) {
            let (part, tail) = rest.split_at_mut(piece.length as usize);
            rest = tail;
            match parts.iter_mut().find(|(member, _)| *member == piece.member) {
                Some((_, (_, slices))) => slices.push(part),
                None => parts.push((piece.member, (piece.offset, vec![part]))),
            }
        }
        parts.sort_by_key(|(member, _)| *member);
        self.side_by_side(
            parts,
            |member, (offset, mut slices)| match &mut slices[..] {
                [whole] => member.read(offset, whole),
                pieces => {
                    let mut run =
                        AlignedBuffer::zeroed(pieces.iter().map(|piece| piece.len()).sum());
                    member.read(offset, &mut run)?;
                    let mut from = &run[..];
                    for piece in pieces {
                        let (head, tail) = from.split_at(piece.len());
                        piece.copy_from_slice(head);
                        from = tail;
                    }
                    Ok(())
                }
            },
        )
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length = total_length(buffers);
        check_request(self, Operation::Write, offset, length)?;
        let mut parts: Parts<IoSlice<'_>> = Vec::new();
        let mut source = buffers.iter();
        let mut current: &[u8] = &[];
        for piece in self.stripes.pieces(offset, length) {
            let at = parts.iter().position(|(member, _)| *member == piece.member);
            let at = at.unwrap_or_else(|| {
                parts.push((piece.member, (piece.offset, Vec::new())));
                parts.len() - 1
            });
            let slices = &mut parts[at].1.1;
            let mut wanted = piece.length as usize;
            while wanted > 0 {
                if current.is_empty() {
                    current = source.next().expect("the buffers hold the length");
                    continue;
                }
                let (head, tail) = current.split_at(wanted.min(current.len()));
                slices.push(IoSlice::new(head));
                (current, wanted) = (tail, wanted - head.len());
            }
        }
        parts.sort_by_key(|(member, _)| *member);
        self.side_by_side(parts, |member, (offset, slices)| {
            member.write(offset, &slices)
        })
    }

    fn flush(&self) -> Result<()> {
        let parts = (0..self.members.len()).map(|member| (member, ())).collect();
        self.side_by_side(parts, |member, ()| member.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_request(self, Operation::Discard, offset, length)?;
        let runs = self.stripes.runs(offset, length);
        let parts = runs.map(|run| (run.member, run)).collect();
        self.side_by_side(parts, |member, run: Piece| {
            member.discard(run.offset, run.length)
        })
    }

    fn name(&self) -> String {
        format!("array of {}", self.members.len())
    }
}

#[cfg(test)]
mod tests;
