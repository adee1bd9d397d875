//! Spilled blocks in the evidence.
//!
//! A block of a transaction may be in the log long before a group makes it part of its
//! file. Its order is that of the group (`docs/design/transactions.md`, "Spilling"),
//! although it keeps its birth when it is moved.

use std::collections::HashMap;
use varve_fs::InodeNo;

/// Blocks of one file and one birth, and the serial of the partial that placed them.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    end: u64,
    serial: u64,
}

/// The serials at which spilled blocks became part of their files.
#[derive(Debug, Default)]
pub(super) struct PlacedBlocks {
    /// Runs by inode and birth.
    runs: HashMap<(u64, u64), Vec<Run>>,
}

impl PlacedBlocks {
    /// Records that a partial made a block of this birth part of its file.
    pub fn note(&mut self, ino: InodeNo, block: u64, birth: u64, serial: u64) {
        let runs = self.runs.entry((ino.0, birth)).or_default();
        match runs.last_mut() {
            Some(run) if (run.end, run.serial) == (block, serial) => run.end += 1,
            _ => runs.push(Run {
                first: block,
                end: block + 1,
                serial,
            }),
        }
    }

    /// Returns the serial at which a block of this birth became part of its file.
    pub fn since(&self, ino: InodeNo, block: u64, birth: u64) -> u64 {
        let runs = self.runs.get(&(ino.0, birth));
        let within = |run: &&Run| (run.first..run.end).contains(&block);
        let run = runs.and_then(|runs| runs.iter().find(within));
        run.map_or(birth, |run| run.serial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placed_block_is_as_old_as_the_group_that_placed_it() {
        let mut placed = PlacedBlocks::default();
        for block in [5, 6, 9] {
            placed.note(InodeNo(3), block, 40, 70);
        }
        let since = |ino, block, birth| placed.since(InodeNo(ino), block, birth);
        assert_eq!(
            (since(3, 5, 40), since(3, 6, 40), since(3, 9, 40)),
            (70, 70, 70)
        );
        assert_eq!(
            (since(3, 7, 40), since(3, 5, 41), since(4, 5, 40)),
            (40, 41, 40)
        );
    }
}
