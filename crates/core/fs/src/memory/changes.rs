//! Record of recent content changes of a file.
//!
//! A thread that fetches blocks releases the file's lock meanwhile, and must know
//! afterwards whether its data is still the newest. A count of changes answers that for
//! all blocks at once. But with a writer that never pauses, as in a database, every fetch
//! would be invalid and made again. So once a fetch has been overtaken, the last changes
//! are recorded with the blocks that they touched.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Most changes that are recorded.
const RECENT: usize = 16;
/// The range of all blocks.
pub(crate) const ALL: Range<u64> = 0..u64::MAX;

#[derive(Debug)]
struct Change {
    blocks: Range<u64>,
    /// Number of the last change that this entry covers.
    last: u64,
}

/// The changes of one file. Small, as every file in memory has one.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    count: u64,
    /// A fetch has been overtaken, so changes are recorded.
    asked: AtomicBool,
    /// The changes recorded since then.
    recent: Option<Box<Recent>>,
}

#[derive(Debug)]
struct Recent {
    /// Oldest first.
    changes: Vec<Change>,
    /// Number of the last change that is no longer recorded.
    forgotten: u64,
}

impl Changes {
    /// Number of changes so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Records a content change of these blocks. A fetch of any of them that began
    /// earlier is invalid.
    pub fn note(&mut self, blocks: Range<u64>) {
        self.count += 1;
        if !*self.asked.get_mut() {
            return;
        }
        let forgotten = self.count - 1;
        let recent = self.recent.get_or_insert_with(|| {
            let changes = Vec::new();
            Box::new(Recent { changes, forgotten })
        });
        if let Some(newest) = recent.changes.last_mut()
            && blocks.start <= newest.blocks.end
            && newest.blocks.start <= blocks.end
        {
            newest.blocks.start = newest.blocks.start.min(blocks.start);
            newest.blocks.end = newest.blocks.end.max(blocks.end);
            newest.last = self.count;
            return;
        }
        if recent.changes.len() == RECENT {
            recent.forgotten = recent.changes.remove(0).last;
        }
        recent.changes.push(Change {
            blocks,
            last: self.count,
        });
    }

    /// True if any of these blocks may have changed since there were `count` changes.
    pub fn touched(&self, count: u64, blocks: &Range<u64>) -> bool {
        if count == self.count {
            return false;
        }
        self.asked.store(true, Relaxed);
        let Some(recent) = &self.recent else {
            return true;
        };
        let since = recent.changes.iter().filter(|change| change.last > count);
        let overlap = |other: &Range<u64>| other.start < blocks.end && blocks.start < other.end;
        count < recent.forgotten || since.map(|change| &change.blocks).any(overlap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes that are being recorded, because a fetch was overtaken.
    fn asked() -> Changes {
        let mut changes = Changes::default();
        changes.note(ALL);
        assert!(changes.touched(0, &(0..1)), "nothing is known of the first");
        changes
    }

    #[test]
    fn what_is_not_remembered_has_touched_everything() {
        let mut changes = Changes::default();
        assert!(!changes.touched(0, &ALL));
        changes.note(7..8);
        assert!(changes.touched(0, &(1..2)), "nobody had asked");
        changes.note(7..8);
        assert!(!changes.touched(1, &(1..2)) && changes.touched(1, &(7..8)));
        assert!(changes.touched(0, &(1..2)));
    }

    #[test]
    fn a_change_voids_fetches_of_its_blocks_that_began_before() {
        let mut changes = asked();
        let begun = changes.count();
        changes.note(10..12);
        changes.note(20..21);
        for (blocks, touched) in [
            (9..10, false),
            (11..12, true),
            (12..20, false),
            (0..21, true),
        ] {
            assert_eq!(changes.touched(begun, &blocks), touched, "{blocks:?}");
        }
        assert!(
            !changes.touched(begun + 1, &(10..12)),
            "the first was before"
        );
        changes.note(ALL);
        assert!(changes.touched(begun + 2, &(12..20)));
    }

    #[test]
    fn neighbours_are_one_and_the_oldest_are_forgotten() {
        let mut changes = asked();
        let begun = changes.count();
        for block in 0..1000 {
            changes.note(block..block + 1);
        }
        assert!(!changes.touched(begun, &(1000..2000)), "one change in all");
        assert!(
            changes.touched(begun + 999, &(0..1)),
            "as new as its newest"
        );
        for step in 0..RECENT as u64 - 1 {
            changes.note(2000 + 2 * step..2001 + 2 * step);
        }
        assert!(!changes.touched(begun, &(1000..2000)));
        changes.note(9000..9001);
        assert!(changes.touched(begun, &(1000..2000)));
        assert!(!changes.touched(begun + 1000, &(1000..2000)));
    }
}
