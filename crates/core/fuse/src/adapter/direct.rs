//! Direct writes beside the kernel's page cache.
//!
//! The kernel drops the pages of a direct write's range before it sends WRITE.
//! Whoever reads the range through the cache, or a map, while the WRITE is under
//! way, makes it send a READ, which may be served first: then a page holds what
//! was there before. After a write that a program waits for, the kernel drops
//! the pages again; after an asynchronous one (libaio, io_uring) it does not,
//! and such a page stays. The two WRITEs look alike. So what READs put into the
//! cache of files with direct writes is noted here, and a direct write that
//! meets any of it has the pages dropped before it is answered (xfstests
//! generic/451).
//!
//! Invariants:
//! - A READ is noted before it takes its data, and a write asks after it has
//!   stored its own. So a READ that a write does not find noted came later.
//! - A noted READ's pages are in the kernel's cache, locked, since before it was
//!   sent; dropping waits for the lock. So what was noted when a drop was
//!   decided on is gone when that has ended. What is noted in between
//!   ([`File::fresh`]) may not be.
//! - Attributes are the same story: before an asynchronous write the kernel takes
//!   them for outdated, not afterwards, and may ask in between. So questions are
//!   noted, too, before they are answered ([`DirectWrites::note_asked`]).
//! - A file without an entry counts as cached whole. Its first direct write has
//!   it dropped whole, once; the table can therefore be small.
//! - A direct WRITE takes one of the kernel's places for background requests
//!   until it is answered, and so do the WRITEs and READs that a drop waits for.
//!   At most [`WAITING_MAX`] of them wait; beyond, pages are dropped right after
//!   the answer.

use super::{Adapter, Later};
use crate::negotiate::MAX_BACKGROUND;
use crate::reply::Reply;
use crate::transport::{Transport, invalidate_pages};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use varve_fs::{InodeNo, Layout};

/// Files that are followed.
const FILES_MAX: usize = 256;
/// Ranges that are told apart in a file.
const RANGES_MAX: usize = 64;
/// Direct writes that may wait for pages at once. The rest of what the kernel
/// has under way in the background does not wait, so that what these wait for
/// gets through, one after the other if need be.
const WAITING_MAX: usize = MAX_BACKGROUND as usize - 8;
const WHOLE: Range<u64> = 0..u64::MAX;

/// What the kernel may have in its cache of files with direct writes.
#[derive(Default)]
pub(super) struct DirectWrites {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<InodeNo, File>,
    /// Direct writes that are answered when their pages are gone.
    waiting: usize,
    /// Drops that were decided on so far.
    drops: u64,
}

/// One file.
struct File {
    /// READs noted before the drop under way was decided on, if there is one.
    noted: Ranges,
    /// READs noted since.
    fresh: Ranges,
    /// The number of the drop that will take its range out of `noted`.
    dropping: Option<u64>,
    /// Somebody asked for its attributes since a direct write last saw to it
    /// that the kernel asks again.
    asked: bool,
}

/// Pages that a direct write has outdated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outdated {
    pub(super) range: Range<u64>,
    /// The write may be answered before they are gone.
    pub(super) answer_first: bool,
    /// Which drop this is: one that ends late must not pass for a later one.
    drop: u64,
}

impl DirectWrites {
    /// A READ for the cache is about to take its data.
    pub(super) fn note_read(&self, ino: InodeNo, range: Range<u64>) {
        if let Some(file) = self.state.lock().files.get_mut(&ino) {
            file.fresh.insert(range);
        }
    }

    /// A direct write is about to store its data.
    pub(super) fn begin(&self, ino: InodeNo) {
        let files = &mut self.state.lock().files;
        if files.contains_key(&ino) {
            return;
        }
        if files.len() >= FILES_MAX
            && let Some(&other) = files.keys().next()
        {
            files.remove(&other);
        }
        let file = File {
            noted: Ranges(vec![WHOLE]),
            fresh: Ranges::default(),
            dropping: None,
            asked: false,
        };
        files.insert(ino, file);
    }

    /// Attributes of `ino` are about to be read for the kernel.
    pub(super) fn note_asked(&self, ino: InodeNo) {
        if let Some(file) = self.state.lock().files.get_mut(&ino) {
            file.asked = true;
        }
    }

    /// A direct write has stored its data. True if the kernel may have asked for
    /// attributes while it did.
    pub(super) fn was_asked(&self, ino: InodeNo) -> bool {
        let files = &mut self.state.lock().files;
        let file = files.get_mut(&ino);
        file.is_none_or(|file| std::mem::take(&mut file.asked))
    }

    /// A direct write to `range` has stored its data. Names what has to be
    /// dropped now; call [`DirectWrites::dropped`] afterwards.
    pub(super) fn outdated(&self, ino: InodeNo, range: Range<u64>) -> Option<Outdated> {
        let state = &mut *self.state.lock();
        let drop = state.drops + 1;
        let range = match state.files.get_mut(&ino) {
            None => WHOLE,
            Some(file) => file.outdated(range, drop)?,
        };
        state.drops = drop;
        let answer_first = state.waiting >= WAITING_MAX;
        state.waiting += usize::from(!answer_first);
        Some(Outdated {
            range,
            answer_first,
            drop,
        })
    }

    /// These pages are gone.
    pub(super) fn dropped(&self, ino: InodeNo, outdated: &Outdated) {
        let state = &mut *self.state.lock();
        state.waiting -= usize::from(!outdated.answer_first);
        if let Some(file) = state.files.get_mut(&ino)
            && file.dropping == Some(outdated.drop)
        {
            file.dropping = None;
            file.noted.remove(&outdated.range);
        }
    }

    /// The kernel holds nothing of `ino` any more.
    pub(super) fn forget(&self, ino: InodeNo) {
        self.state.lock().files.remove(&ino);
    }
}

impl File {
    fn outdated(&mut self, range: Range<u64>, drop: u64) -> Option<Range<u64>> {
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

/// Ranges in order, apart from each other; beyond [`RANGES_MAX`] one that
/// covers them all.
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

    /// Too much costs a drop that was not needed; too little is never noted.
    fn bound(&mut self) {
        if self.0.len() > RANGES_MAX {
            let all = self.0[0].start..self.0[self.0.len() - 1].end;
            self.0 = vec![all];
        }
    }
}

impl<L: Layout> Adapter<L> {
    /// Has the kernel drop pages that a direct write outdated. Never call it on
    /// a thread that serves requests.
    pub(super) fn drop_pages(&self, nodeid: u64, outdated: &Outdated, transport: &dyn Transport) {
        let range = &outdated.range;
        let length = if *range == WHOLE {
            0
        } else {
            range.end - range.start
        };
        // ENOENT: the kernel does not hold the file any more. Anything else is
        // a page that could not be written: its writer hears of it from fsync.
        let _ = invalidate_pages(transport, nodeid, range.start, length);
        self.direct.dropped(super::convert::inode(nodeid), outdated);
    }

    /// What a direct write to `range` leaves to be done, if it is anything.
    /// `reply` is its answer.
    pub(super) fn after_direct_write(
        &self,
        unique: u64,
        nodeid: u64,
        range: Range<u64>,
        reply: &Reply,
    ) -> Option<Later> {
        let ino = super::convert::inode(nodeid);
        let outdated = self.direct.outdated(ino, range)?;
        Some(Later::drop_pages(unique, nodeid, outdated, reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: InodeNo = InodeNo(7);

    /// What a write waits for.
    fn waits(found: Option<Outdated>) -> Option<Range<u64>> {
        found.filter(|f| !f.answer_first).map(|f| f.range)
    }

    /// Drops what the first write finds.
    fn known() -> DirectWrites {
        let direct = DirectWrites::default();
        direct.begin(INO);
        let first = direct.outdated(INO, 0..10);
        assert_eq!(waits(first.clone()), Some(WHOLE));
        direct.dropped(INO, &first.unwrap());
        direct
    }

    #[test]
    fn a_write_meets_the_reads_since_their_pages_were_dropped() {
        let direct = known();
        assert_eq!(direct.outdated(INO, 0..1 << 40), None);
        direct.note_read(INO, 100..200);
        direct.note_read(INO, 300..400);
        assert_eq!(direct.outdated(INO, 0..100), None);
        assert_eq!(direct.outdated(INO, 200..300), None);
        let found = direct.outdated(INO, 150..350).unwrap();
        assert_eq!(found.range, 150..350);
        // As long as they are not gone, others meet them, too.
        assert_eq!(direct.outdated(INO, 199..201).unwrap().range, 199..201);
        direct.dropped(INO, &found);
        assert_eq!(direct.outdated(INO, 150..350), None);
        assert_eq!(waits(direct.outdated(INO, 149..150)), Some(149..150));
    }

    #[test]
    fn a_read_during_a_drop_stays_noted() {
        let direct = known();
        direct.note_read(INO, 0..100);
        let found = direct.outdated(INO, 0..100).unwrap();
        direct.note_read(INO, 50..60);
        direct.dropped(INO, &found);
        assert_eq!(direct.outdated(INO, 0..50), None);
        assert_eq!(waits(direct.outdated(INO, 55..56)), Some(55..56));
    }

    /// A drop covers what was read before it was decided on, however late its
    /// end is told.
    #[test]
    fn a_drop_that_ends_late_does_not_pass_for_a_later_one() {
        let direct = known();
        direct.note_read(INO, 0..100);
        let late = direct.outdated(INO, 0..100).unwrap();
        let other = direct.outdated(INO, 0..100).unwrap();
        direct.dropped(INO, &other);
        direct.note_read(INO, 0..100);
        let under_way = direct.outdated(INO, 0..100).unwrap();
        direct.dropped(INO, &late);
        let next = direct.outdated(INO, 0..100).unwrap();
        direct.dropped(INO, &under_way);
        direct.dropped(INO, &next);
        assert_eq!(direct.outdated(INO, 0..100), None);
        // Nor if the kernel had forgotten the file in the meantime.
        direct.forget(INO);
        direct.begin(INO);
        let late = direct.outdated(INO, 0..1).unwrap();
        direct.forget(INO);
        direct.begin(INO);
        let under_way = direct.outdated(INO, 0..1).unwrap();
        assert_eq!((&late.range, &under_way.range), (&WHOLE, &WHOLE));
        direct.dropped(INO, &late);
        assert!(direct.outdated(INO, 0..1).is_some());
    }

    #[test]
    fn files_without_an_entry_count_as_cached_whole() {
        let direct = known();
        for ino in 100..100 + FILES_MAX as u64 {
            direct.begin(InodeNo(ino));
        }
        assert_eq!(direct.state.lock().files.len(), FILES_MAX);
        direct.forget(INO);
        assert_eq!(waits(direct.outdated(INO, 0..1)), Some(WHOLE));
        direct.begin(INO);
        assert_eq!(waits(direct.outdated(INO, 0..1)), Some(WHOLE));
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let direct = known();
        direct.note_read(INO, 0..1000);
        let found: Vec<_> = (0..80)
            .map(|n| direct.outdated(INO, n..n + 1).unwrap())
            .collect();
        let waiting = found.iter().filter(|f| !f.answer_first).count();
        assert_eq!(waiting, WAITING_MAX);
        for outdated in &found {
            direct.dropped(INO, outdated);
        }
        assert!(!direct.outdated(INO, 900..901).unwrap().answer_first);
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
