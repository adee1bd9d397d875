//! Giving out inode numbers.
//!
//! Free numbers form a list through the inode map; the list on the device
//! changes only when a checkpoint is folded. In memory the allocator hands
//! out, in this order: numbers that came back unused, numbers freed since the
//! mount, the list as the mount found it (walked once, from its head), and
//! fresh numbers. Freed numbers join the list at its head, so the walk never
//! meets a number twice.

mod settled;

use crate::base::Base;
use crate::error::{Error, Result};
use crate::format::Malformed;
use crate::format::ifile::{ImapState, MAX_INO};
use crate::geometry::Geometry;
use crate::reader::Reader;
use settled::Settled;
use std::collections::HashSet;
use varve_fs::{InodeNo, Version};

/// See the module's head.
#[derive(Debug, Default)]
pub struct InodeAllocator {
    returned: Vec<(u64, Version)>,
    /// Those that no checkpoint has put on the list yet.
    freed: Vec<(u64, Version)>,
    /// Those that are as the list on the device has them, from its head to where the
    /// mount found it.
    settled: Settled,
    /// Next number of the list as found at mount; 0 at its end.
    cursor: u64,
    left: u64,
    next_ino: u64,
    /// Version of the first file of a number that was never used, or forgotten.
    first_version: Version,
    /// Versions of numbers given out and not yet appended.
    given: std::collections::HashMap<u64, Version>,
    /// Numbers on the list that roll-forward found in use.
    taken: HashSet<u64>,
}

impl InodeAllocator {
    /// For a volume whose list begins at `base.free_head`; roll-forward found
    /// `taken` in use, freed `freed`, and saw no number at or above
    /// `next_ino`.
    pub fn new(
        base: &Base,
        next_ino: u64,
        taken: HashSet<u64>,
        freed: Vec<(u64, Version)>,
    ) -> Self {
        InodeAllocator {
            freed,
            cursor: base.free_head,
            left: base.free_count,
            next_ino: next_ino.max(base.next_ino),
            first_version: base.first_version,
            taken,
            ..InodeAllocator::default()
        }
    }

    /// A free number and the version its file must carry.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub fn allocate(
        &mut self,
        base: &Base,
        reader: &Reader,
        geometry: &Geometry,
    ) -> Result<(InodeNo, Version)> {
        let (ino, version) = match self.returned.pop().or_else(|| self.next_freed()) {
            Some(number) => number,
            None => match self.next_listed(base, reader, geometry)? {
                Some(number) => number,
                None => {
                    if self.next_ino > MAX_INO {
                        return Err(Error::OutOfSegments);
                    }
                    self.next_ino += 1;
                    (self.next_ino - 1, self.first_version)
                }
            },
        };
        self.given.insert(ino, version);
        Ok((InodeNo(ino), version))
    }

    fn next_freed(&mut self) -> Option<(u64, Version)> {
        self.freed.pop().or_else(|| self.settled.take())
    }

    /// A checkpoint is about to put what has been freed on the list, each at its
    /// head, the lowest first. In the same order they are given out again: whoever
    /// takes numbers from the head of a linked list changes no neighbour but one.
    pub fn settle(&mut self) {
        let mut freed = std::mem::take(&mut self.freed);
        freed.sort_unstable();
        self.settled.put(freed);
    }

    fn next_listed(
        &mut self,
        base: &Base,
        reader: &Reader,
        geometry: &Geometry,
    ) -> Result<Option<(u64, Version)>> {
        if self.cursor == 0 {
            return Ok(None);
        }
        let ino = self.cursor;
        let next_version = self.step(base, reader, geometry)?;
        self.skip_taken(base, reader, geometry)?;
        Ok(Some((ino, next_version)))
    }

    /// Moves the walk past numbers that roll-forward found in use. They leave
    /// the list with the next checkpoint, so this happens at mount and after
    /// every step: the number the walk stands on stays on the list until it is
    /// given out.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub fn skip_taken(&mut self, base: &Base, reader: &Reader, geometry: &Geometry) -> Result<()> {
        while self.cursor != 0 && self.taken.remove(&self.cursor) {
            self.step(base, reader, geometry)?;
        }
        Ok(())
    }

    /// Leaves the number the walk stands on; returns its next file's version.
    fn step(&mut self, base: &Base, reader: &Reader, geometry: &Geometry) -> Result<Version> {
        let ino = self.cursor;
        self.cursor = 0;
        let damaged = |problem: String| {
            Error::damaged(
                None,
                0,
                Malformed::new("inode map", format!("free list: {problem}")),
            )
        };
        if self.left == 0 {
            return Err(damaged(format!(
                "longer than the checkpoint says, at inode {ino}"
            )));
        }
        self.left -= 1;
        match base.imap(reader, geometry, InodeNo(ino))? {
            ImapState::Free {
                next_version, next, ..
            } => {
                self.cursor = next;
                Ok(next_version)
            }
            state => Err(damaged(format!("leads to inode {ino}, which is {state:?}"))),
        }
    }

    /// A number given out was never appended. Its next file gets the next
    /// version all the same: somebody may have a handle to this one.
    pub fn give_back(&mut self, ino: InodeNo) {
        if let Some(version) = self.given.remove(&ino.0) {
            self.returned.push((ino.0, version.wrapping_add(1)));
        }
    }

    /// A number given out has been appended.
    pub fn used(&mut self, ino: InodeNo) {
        self.given.remove(&ino.0);
    }

    /// Numbers that were given out and are in no group.
    pub fn loose(&self) -> u64 {
        (self.given.len() + self.returned.len()) as u64
    }

    /// The inode map begins anew, with numbers from `next_ino` on, whose first files
    /// get this version: no number is in use. False if one was given out.
    pub fn begin_anew(&mut self, next_ino: u64, first_version: Version) -> bool {
        if !self.given.is_empty() {
            return false;
        }
        let returned = self.returned.iter().map(|number| number.1).max();
        *self = InodeAllocator {
            next_ino,
            first_version: first_version.max(returned.unwrap_or(0)),
            ..InodeAllocator::default()
        };
        true
    }

    /// The version of a number that is given out for the first time.
    pub fn first_version(&self) -> Version {
        self.first_version
    }

    /// A group freed a number.
    pub fn freed(&mut self, ino: InodeNo, next_version: Version) {
        self.freed.push((ino.0, next_version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_comes_back_as_the_list_has_it() {
        let mut allocator = InodeAllocator::default();
        let free = |allocator: &mut InodeAllocator, numbers: &[u64]| {
            for &number in numbers {
                allocator.freed(InodeNo(number), 1);
            }
        };
        free(&mut allocator, &[5, 1, 3]);
        allocator.settle();
        free(&mut allocator, &[8, 2]);
        let mut given = || allocator.next_freed().map(|number| number.0);
        // Those that are on no list yet, then the list from its head.
        assert_eq!([given(), given(), given()], [Some(2), Some(8), Some(5)]);
        free(&mut allocator, &[7, 9, 4]);
        allocator.settle();
        let mut given = || allocator.next_freed().map(|number| number.0);
        let all: Vec<u64> = std::iter::from_fn(&mut given).collect();
        assert_eq!(all, [9, 7, 4, 3, 1]);
    }
}
