//! The reads of a serializable transaction, which must return the same at the commit.

use super::{Access, Part};
use crate::directory;
use crate::layout::Layout;
use crate::memory::store::Store;
use crate::memory::vnode::{Ground, Vnode};
use crate::types::InodeNo;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use varve_device::sync::Mutex;

/// The reads of one file of the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct FileReads {
    pub vnode: Arc<Vnode>,
    /// Ranges of blocks: end by start; disjoint.
    pub blocks: BTreeMap<u64, u64>,
    pub size: bool,
    pub attributes: bool,
    pub times: bool,
    /// Names that were looked up, by their cookies.
    pub names: BTreeMap<u64, Vec<Box<[u8]>>>,
    /// All names were listed.
    pub listed: bool,
}

/// The reads of a transaction and the ones nested in it.
#[derive(Default)]
pub(crate) struct Reads {
    files: Mutex<BTreeMap<InodeNo, FileReads>>,
}

/// The file of the snapshot below a private tree's file; `None` for a new file.
fn bottom(vnode: &Arc<Vnode>) -> Option<&Arc<Vnode>> {
    let mut at = vnode;
    while let Ground::Vnode(below) = &at.ground {
        at = below;
    }
    match &at.ground {
        Ground::Layout(crate::types::View::Snapshot(_)) => Some(at),
        _ => None,
    }
}

impl Reads {
    pub fn note<L: Layout>(
        &self,
        store: &Store<L>,
        vnode: &Arc<Vnode>,
        part: &Part<'_>,
        access: Access,
    ) {
        // Writes are compared anyway. But a write of a name also reads its absence, or
        // the file it refers to.
        let Some(vnode) = bottom(vnode) else { return };
        let written = access == Access::Write;
        if written && !matches!(part, Part::Name(_)) {
            return;
        }
        let mut files = self.files.lock();
        let file = files.entry(vnode.ino).or_insert_with(|| FileReads {
            vnode: Arc::clone(vnode),
            blocks: BTreeMap::new(),
            size: false,
            attributes: false,
            times: false,
            names: BTreeMap::new(),
            listed: false,
        });
        match part {
            Part::Content(bytes) => {
                let first = bytes.start >> store.block_shift;
                insert(&mut file.blocks, first..store.blocks_of(bytes.end));
            }
            Part::Size => file.size = true,
            Part::Attributes => file.attributes = true,
            Part::Times => file.times = true,
            Part::Name(name) => {
                let key = store.key(vnode);
                let names = file.names.entry(*directory::cookies(&key, name).start());
                let names = names.or_default();
                if names.iter().all(|known| **known != **name) {
                    names.push((*name).into());
                }
            }
            Part::Names => file.listed = true,
            Part::End | Part::Place | Part::All => {}
        }
    }

    /// Takes the recorded reads.
    pub fn take(&self) -> BTreeMap<InodeNo, FileReads> {
        std::mem::take(&mut self.files.lock())
    }
}

/// Adds a range to disjoint ones.
fn insert(ranges: &mut BTreeMap<u64, u64>, mut new: Range<u64>) {
    if new.is_empty() {
        return;
    }
    if let Some((&start, &end)) = ranges.range(..=new.start).next_back()
        && end >= new.start
    {
        new = start..end.max(new.end);
    }
    while let Some((&start, &end)) = ranges.range(new.start..=new.end).next() {
        ranges.remove(&start);
        new.end = new.end.max(end);
    }
    ranges.insert(new.start, new.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let mut ranges = BTreeMap::new();
        for range in [4..6, 10..12, 6..8, 0..1, 7..10, 0..0] {
            insert(&mut ranges, range);
        }
        assert_eq!(ranges, BTreeMap::from([(0, 1), (4, 12)]));
    }
}
