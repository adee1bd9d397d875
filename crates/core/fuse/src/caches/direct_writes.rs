//! Pages in the kernel's cache that direct writes replace.
//!
//! The kernel drops the pages of a direct write's range before it sends WRITE. A client that
//! reads the range through the cache or a map while the WRITE is served causes a READ, which
//! may be served first: then the page has the old content. After a write that a program waits
//! for the kernel drops the pages again; after an asynchronous one (libaio, io_uring) it does
//! not, and the old page stays. The two WRITEs look alike. Therefore this table notes which
//! ranges READs put into the cache of files with direct writes, and before a direct write of
//! such a range is answered, the kernel is made to drop the pages (xfstests generic/451).
//!
//! Invariants:
//! - A READ is noted before it copies data, and a write looks up the notes after it has stored
//!   its data. So a READ that a write does not find copied the new data.
//! - The pages of a noted READ are locked in the kernel's cache from before the READ was sent,
//!   and dropping waits for the lock. So what was noted when a drop was decided is gone when
//!   the drop ends. Writes noted in between (`fresh`) may not be.
//! - Before an asynchronous write, and not afterwards, the kernel marks attributes as outdated,
//!   and may request them in between. So these requests are noted too, before they are
//!   answered ([`DirectWrites::note_asked`]).
//! - A file without an entry counts as cached whole: its first direct write drops all pages,
//!   once. `files ≤ FILES_MAX` is therefore enough.
//! - A direct WRITE occupies one of the kernel's places for background requests until it is
//!   answered, as do the WRITEs and READs for which a drop waits. `waiting ≤ WAITING_MAX`: the
//!   pages of further writes are dropped right after the answer.
//! - The ranges of a file are sorted, disjoint, not empty, and at most `RANGES_MAX`.

use crate::negotiate::MAX_BACKGROUND;
use crate::nodes;
use crate::transport::{Transport, invalidate_pages};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use varve_fs::InodeNo;

/// Number of files that have an entry.
const FILES_MAX: usize = 256;
/// Number of ranges that are distinguished in a file.
const RANGES_MAX: usize = 64;
/// Number of direct writes that may wait for pages at the same time. The kernel's other
/// background requests do not wait, so the requests for which these writes wait are served.
const WAITING_MAX: usize = MAX_BACKGROUND as usize - 8;
const WHOLE: Range<u64> = 0..u64::MAX;

/// The pages and attributes of files with direct writes that the kernel may have cached.
#[derive(Default)]
pub(crate) struct DirectWrites {
    table: Mutex<CachedFiles>,
}

#[derive(Default)]
struct CachedFiles {
    files: HashMap<InodeNo, CachedFile>,
    /// Direct writes that are answered when their pages have been dropped.
    waiting: usize,
    /// Number of drops decided so far.
    drops: u64,
}

struct CachedFile {
    /// Ranges of READs that were noted before the current drop, if there is one, was decided.
    noted: Ranges,
    /// Ranges of READs that were noted afterwards.
    fresh: Ranges,
    /// The number of the drop whose end removes its range from `noted`.
    dropping: Option<u64>,
    /// The kernel has requested attributes since the last call of [`DirectWrites::was_asked`].
    asked: bool,
}

/// Pages that a direct write has replaced and that the kernel must drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StalePages {
    range: Range<u64>,
    answer_first: bool,
    /// The number of the drop. A drop that ends late must not count as a later one.
    drop: u64,
}

impl StalePages {
    /// True if the write is answered before the pages are dropped.
    pub(crate) fn answer_first(&self) -> bool {
        self.answer_first
    }
}

impl DirectWrites {
    /// Notes a READ for the cache. Call it before the READ copies data.
    pub(crate) fn note_read(&self, ino: InodeNo, range: Range<u64>) {
        if let Some(file) = self.table.lock().files.get_mut(&ino) {
            file.fresh.insert(range);
        }
    }

    /// Makes an entry for a file. Call it before a direct write stores data.
    pub(crate) fn begin(&self, ino: InodeNo) {
        let files = &mut self.table.lock().files;
        if files.contains_key(&ino) {
            return;
        }
        if files.len() >= FILES_MAX
            && let Some(&other) = files.keys().next()
        {
            files.remove(&other);
        }
        let file = CachedFile {
            noted: Ranges(vec![WHOLE]),
            fresh: Ranges::default(),
            dropping: None,
            asked: false,
        };
        files.insert(ino, file);
    }

    /// Notes that the kernel requests attributes. Call it before they are read.
    pub(crate) fn note_asked(&self, ino: InodeNo) {
        if let Some(file) = self.table.lock().files.get_mut(&ino) {
            file.asked = true;
        }
    }

    /// True if the kernel may have requested attributes during a direct write. Call it after
    /// the write has stored its data.
    pub(crate) fn was_asked(&self, ino: InodeNo) -> bool {
        let files = &mut self.table.lock().files;
        let file = files.get_mut(&ino);
        file.is_none_or(|file| std::mem::take(&mut file.asked))
    }

    /// The pages that a direct write to `range` has made stale. Call it after the write has
    /// stored its data, and [`DirectWrites::drop_pages`] with the result.
    pub(crate) fn finish(&self, ino: InodeNo, range: Range<u64>) -> Option<StalePages> {
        let table = &mut *self.table.lock();
        let drop = table.drops + 1;
        let range = match table.files.get_mut(&ino) {
            None => WHOLE,
            Some(file) => file.stale(range, drop)?,
        };
        table.drops = drop;
        let answer_first = table.waiting >= WAITING_MAX;
        table.waiting += usize::from(!answer_first);
        assert!(table.waiting <= WAITING_MAX && table.files.len() <= FILES_MAX);
        Some(StalePages {
            range,
            answer_first,
            drop,
        })
    }

    /// Has the kernel drop the pages of a file. Never call it on a thread that serves requests.
    pub(crate) fn drop_pages(&self, nodeid: u64, stale: &StalePages, transport: &dyn Transport) {
        let range = &stale.range;
        let length = match *range == WHOLE {
            true => 0,
            false => range.end - range.start,
        };
        // ENOENT: the kernel does not hold the file any more. Other errors are of pages that
        // could not be written, which fsync reports.
        let _ = invalidate_pages(transport, nodeid, range.start, length);
        self.dropped(nodes::inode(nodeid), stale);
    }

    fn dropped(&self, ino: InodeNo, stale: &StalePages) {
        let table = &mut *self.table.lock();
        table.waiting -= usize::from(!stale.answer_first);
        if let Some(file) = table.files.get_mut(&ino)
            && file.dropping == Some(stale.drop)
        {
            file.dropping = None;
            file.noted.remove(&stale.range);
        }
    }

    /// Removes a file that the kernel has forgotten.
    pub(crate) fn forget(&self, ino: InodeNo) {
        self.table.lock().files.remove(&ino);
    }
}

impl CachedFile {
    /// The part of the file's pages that drop number `drop` covers.
    fn stale(&mut self, range: Range<u64>, drop: u64) -> Option<Range<u64>> {
        if !self.noted.meets(&range) && !self.fresh.meets(&range) {
            return None;
        }
        if self.dropping.is_some() {
            return Some(range);
        }
        let range = if self.noted.0 == [WHOLE] {
            WHOLE
        } else {
            range
        };
        for fresh in std::mem::take(&mut self.fresh.0) {
            self.noted.insert(fresh);
        }
        self.dropping = Some(drop);
        Some(range)
    }
}

/// Sorted, disjoint ranges. If there are more than [`RANGES_MAX`], one range covers them all.
#[derive(Default)]
struct Ranges(Vec<Range<u64>>);

impl Ranges {
    fn meets(&self, range: &Range<u64>) -> bool {
        let from = self.0.partition_point(|r| r.end <= range.start);
        self.0.get(from).is_some_and(|r| r.start < range.end)
    }

    fn insert(&mut self, mut range: Range<u64>) {
        let from = self.0.partition_point(|r| r.end < range.start);
        let to = self.0.partition_point(|r| r.start <= range.end);
        if from < to {
            range.start = range.start.min(self.0[from].start);
            range.end = range.end.max(self.0[to - 1].end);
        }
        self.0.splice(from..to, [range]);
        self.bound();
    }

    fn remove(&mut self, range: &Range<u64>) {
        let keep = |r: &Range<u64>| {
            let before = r.start..r.end.min(range.start);
            let after = r.start.max(range.end)..r.end;
            [before, after].into_iter().filter(|r| !r.is_empty())
        };
        self.0 = self.0.iter().flat_map(keep).collect();
        self.bound();
    }

    /// Merges too many ranges into one. A range that is too large costs an unnecessary drop; a
    /// range that is too small would leave a stale page.
    fn bound(&mut self) {
        if self.0.len() > RANGES_MAX {
            let all = self.0[0].start..self.0[self.0.len() - 1].end;
            self.0 = vec![all];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: InodeNo = InodeNo(7);

    /// The range for which a write waits.
    fn waits(found: Option<StalePages>) -> Option<Range<u64>> {
        found.filter(|f| !f.answer_first).map(|f| f.range)
    }

    /// A table in which the first write's pages have been dropped.
    fn known() -> DirectWrites {
        let direct = DirectWrites::default();
        direct.begin(INO);
        let first = direct.finish(INO, 0..10);
        assert_eq!(waits(first.clone()), Some(WHOLE));
        direct.dropped(INO, &first.unwrap());
        direct
    }

    #[test]
    fn a_write_meets_the_reads_since_their_pages_were_dropped() {
        let direct = known();
        assert_eq!(direct.finish(INO, 0..1 << 40), None);
        direct.note_read(INO, 100..200);
        direct.note_read(INO, 300..400);
        assert_eq!(direct.finish(INO, 0..100), None);
        assert_eq!(direct.finish(INO, 200..300), None);
        let found = direct.finish(INO, 150..350).unwrap();
        assert_eq!(found.range, 150..350);
        // Until they are dropped, other writes find them too.
        assert_eq!(direct.finish(INO, 199..201).unwrap().range, 199..201);
        direct.dropped(INO, &found);
        assert_eq!(direct.finish(INO, 150..350), None);
        assert_eq!(waits(direct.finish(INO, 149..150)), Some(149..150));
    }

    #[test]
    fn a_read_during_a_drop_stays_noted() {
        let direct = known();
        direct.note_read(INO, 0..100);
        let found = direct.finish(INO, 0..100).unwrap();
        direct.note_read(INO, 50..60);
        direct.dropped(INO, &found);
        assert_eq!(direct.finish(INO, 0..50), None);
        assert_eq!(waits(direct.finish(INO, 55..56)), Some(55..56));
    }

    /// A drop covers what was read before it was decided, however late it ends.
    #[test]
    fn a_drop_that_ends_late_does_not_pass_for_a_later_one() {
        let direct = known();
        direct.note_read(INO, 0..100);
        let late = direct.finish(INO, 0..100).unwrap();
        let other = direct.finish(INO, 0..100).unwrap();
        direct.dropped(INO, &other);
        direct.note_read(INO, 0..100);
        let under_way = direct.finish(INO, 0..100).unwrap();
        direct.dropped(INO, &late);
        let next = direct.finish(INO, 0..100).unwrap();
        direct.dropped(INO, &under_way);
        direct.dropped(INO, &next);
        assert_eq!(direct.finish(INO, 0..100), None);
        // The same if the kernel has forgotten the file in the meantime.
        direct.forget(INO);
        direct.begin(INO);
        let late = direct.finish(INO, 0..1).unwrap();
        direct.forget(INO);
        direct.begin(INO);
        let under_way = direct.finish(INO, 0..1).unwrap();
        assert_eq!((&late.range, &under_way.range), (&WHOLE, &WHOLE));
        direct.dropped(INO, &late);
        assert!(direct.finish(INO, 0..1).is_some());
    }

    #[test]
    fn files_without_an_entry_count_as_cached_whole() {
        let direct = known();
        for ino in 100..100 + FILES_MAX as u64 {
            direct.begin(InodeNo(ino));
        }
        assert_eq!(direct.table.lock().files.len(), FILES_MAX);
        direct.forget(INO);
        assert_eq!(waits(direct.finish(INO, 0..1)), Some(WHOLE));
        direct.begin(INO);
        assert_eq!(waits(direct.finish(INO, 0..1)), Some(WHOLE));
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let direct = known();
        direct.note_read(INO, 0..1000);
        let found: Vec<_> = (0..80)
            .map(|n| direct.finish(INO, n..n + 1).unwrap())
            .collect();
        let waiting = found.iter().filter(|f| !f.answer_first).count();
        assert_eq!(waiting, WAITING_MAX);
        for stale in &found {
            direct.dropped(INO, stale);
        }
        assert!(!direct.finish(INO, 900..901).unwrap().answer_first);
    }

    #[test]
    fn ranges_are_a_set_of_bytes() {
        let mut ranges = Ranges::default();
        let mut bytes = [false; 64];
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let start = state >> 33 & 63;
            let end = (start + (state >> 43 & 15) + 1).min(64);
            let adds = state >> 60 & 1 == 0;
            if adds {
                ranges.insert(start..end);
            } else {
                ranges.remove(&(start..end));
            }
            bytes[start as usize..end as usize].fill(adds);
            for at in 0..64 {
                assert_eq!(ranges.meets(&(at..at + 1)), bytes[at as usize]);
            }
            let apart = ranges.0.windows(2).all(|w| w[0].end <= w[1].start);
            assert!(apart && ranges.0.iter().all(|r| !r.is_empty()));
        }
        let mut many = Ranges::default();
        (0..=RANGES_MAX as u64).for_each(|n| many.insert(2 * n..2 * n + 1));
        assert_eq!(many.0.len(), 1);
    }

    /// A file that was read from end to end and is then written here and there.
    #[test]
    fn ranges_that_fall_apart_stay_few() {
        let mut ranges = Ranges::default();
        ranges.insert(0..1 << 40);
        for n in 1..1000 {
            ranges.remove(&(2 * n..2 * n + 1));
            assert!(ranges.0.len() <= RANGES_MAX);
            assert!(ranges.meets(&(0..1)) && ranges.meets(&(5000..1 << 40)));
        }
    }
}
