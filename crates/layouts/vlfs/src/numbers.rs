//! Giving out inode numbers. Free ones are known from the inode map, which is
//! in memory; the log, of whose map only pages are, keeps them on a list there
//! (`varve-lfs/src/inodes.rs`).

use crate::format::Entry;
use crate::lookup::Tables;
use std::collections::HashMap;
use varve_format::Malformed;
use varve_fs::{InodeNo, Version};

/// See the module's head.
#[derive(Debug, Default)]
pub struct Numbers {
    free: Vec<(u64, Version)>,
    /// The least number never given out.
    next: u64,
    /// Numbers there can be.
    end: u64,
    /// Given out and not yet appended.
    given: HashMap<u64, Version>,
}

/// Numbers below the last one that may never have been written: their files
/// waited in memory when the power failed.
const GAPS_MAX: u64 = 1 << 20;

/// Numbers that were ever used.
pub fn in_use(map: &[Entry]) -> u64 {
    let used = map.iter().filter(|entry| **entry != Entry::default());
    used.count() as u64
}

/// Refuses a map that ends at `end` with only `used` numbers ever used. They are
/// given out in order, so that a volume that has as much was not written by
/// anybody, and a small image takes no memory for what it does not hold.
///
/// # Errors
/// If more than half of it is gaps, and very many.
pub fn not_sparse(used: u64, end: u64) -> Result<(), Malformed> {
    match end > used.saturating_mul(2).saturating_add(GAPS_MAX) {
        true => {
            let problem = format!(
                "inode number {} is in use, and only {used} ever were",
                end - 1
            );
            Err(Malformed::new("inode map", problem))
        }
        false => Ok(()),
    }
}

impl Numbers {
    /// Of a volume with these inodes.
    pub fn new(tables: &Tables, end: u64) -> Self {
        // The last is given out first.
        let free = (InodeNo::FIRST.0..tables.end())
            .rev()
            .filter(|&ino| !tables.has(ino))
            .map(|ino| (ino, tables.entry(ino).next_version()))
            .collect();
        Numbers {
            free,
            next: tables.end().max(InodeNo::FIRST.0),
            end,
            given: HashMap::new(),
        }
    }

    /// A free number and the version its file must carry; `None` if all are
    /// in use.
    pub fn allocate(&mut self) -> Option<(InodeNo, Version)> {
        let (ino, version) = match self.free.pop() {
            Some(number) => number,
            None if self.next < self.end => {
                self.next += 1;
                (self.next - 1, 1)
            }
            None => return None,
        };
        self.given.insert(ino, version);
        Some((InodeNo(ino), version))
    }

    /// A number given out was never appended. Its next file gets the next
    /// version all the same: somebody may have a handle to this one.
    pub fn give_back(&mut self, ino: InodeNo) {
        if let Some(version) = self.given.remove(&ino.0) {
            self.free.push((ino.0, version.wrapping_add(1).max(1)));
        }
    }

    /// A number given out has been appended.
    pub fn used(&mut self, ino: InodeNo) {
        self.given.remove(&ino.0);
    }

    /// A group freed a number.
    pub fn freed(&mut self, ino: InodeNo, next_version: Version) {
        self.free.push((ino.0, next_version.max(1)));
    }
}
