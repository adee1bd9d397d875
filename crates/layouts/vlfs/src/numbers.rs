//! Allocation of inode numbers. Free numbers are known from the inode map, which is in
//! memory. The log, which has only pages of its map in memory, keeps them on a list in
//! the map (`varve-lfs/src/inodes.rs`).

use crate::format::Entry;
use crate::lookup::Tables;
use std::collections::HashMap;
use varve_format::Malformed;
use varve_fs::{InodeNo, Version};

/// The free inode numbers of a volume.
#[derive(Debug, Default)]
pub struct Numbers {
    free: Vec<(u64, Version)>,
    /// The lowest number that was never allocated.
    next: u64,
    /// Limit of the numbers.
    end: u64,
    /// Numbers that were allocated and whose file is not yet appended.
    given: HashMap<u64, Version>,
}

/// Maximum number of gaps in the map: numbers whose files were in memory only when the
/// power failed.
const GAPS_MAX: u64 = 1 << 20;

/// Returns how many numbers were ever used.
pub fn in_use(map: &[Entry]) -> u64 {
    let used = map.iter().filter(|entry| **entry != Entry::default());
    used.count() as u64
}

/// Refuses a map that ends at `end` with only `used` numbers ever used. Numbers are
/// allocated in order, so no program wrote a map with more gaps. The check prevents a
/// small image from taking much memory.
///
/// # Errors
/// If the gaps outnumber the used numbers by more than `GAPS_MAX`.
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
    /// Creates the free numbers of a volume with these inodes.
    pub fn new(tables: &Tables, end: u64) -> Self {
        // The last one is allocated first.
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

    /// Allocates a free number. Returns it with the version that its file must have;
    /// `None` if all are in use.
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

    /// Returns a number that was allocated and never appended. Its next file gets the
    /// next version, because a handle to it may exist.
    pub fn give_back(&mut self, ino: InodeNo) {
        if let Some(version) = self.given.remove(&ino.0) {
            self.free.push((ino.0, version.wrapping_add(1).max(1)));
        }
    }

    /// Records that an allocated number has been appended.
    pub fn used(&mut self, ino: InodeNo) {
        self.given.remove(&ino.0);
    }

    /// Records that a group freed a number.
    pub fn freed(&mut self, ino: InodeNo, next_version: Version) {
        self.free.push((ino.0, next_version.max(1)));
    }
}
