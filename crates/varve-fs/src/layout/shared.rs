//! A shared layout is a layout: hand a clone to the file system and keep one.

use super::{
    Admission, Group, Item, Layout, LayoutGeometry, Mapping, Position, Promise, Purpose, StatFs,
    Unwritten, Usage, Waiting,
};
use crate::error::Result;
use crate::inode::Inode;
use crate::types::{FileKind, InodeNo, SnapshotNo, SpillNo, Version, View};
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;

impl<L: Layout> Layout for Arc<L> {
    type Pointer = L::Pointer;

    fn geometry(&self) -> LayoutGeometry {
        (**self).geometry()
    }
    fn promise(&self) -> Promise {
        (**self).promise()
    }
    fn usage(&self) -> Usage {
        (**self).usage()
    }
    fn allocate_inode(&self, near: InodeNo, kind: FileKind) -> Result<(InodeNo, Version)> {
        (**self).allocate_inode(near, kind)
    }
    fn forget_inode(&self, ino: InodeNo) {
        (**self).forget_inode(ino);
    }
    fn read_inode(&self, view: View, ino: InodeNo) -> Result<Inode> {
        (**self).read_inode(view, ino)
    }
    fn read_xattrs(&self, view: View, ino: InodeNo) -> Result<Vec<u8>> {
        (**self).read_xattrs(view, ino)
    }
    fn unfinished(&self) -> Result<Vec<InodeNo>> {
        (**self).unfinished()
    }
    fn map(
        &self,
        view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<Self::Pointer>>> {
        (**self).map(view, ino, first, count)
    }
    fn next_mapped(&self, view: View, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        (**self).next_mapped(view, ino, from)
    }
    fn read(&self, ino: InodeNo, blocks: &[Mapping<Self::Pointer>]) -> Result<Vec<Arc<Block>>> {
        (**self).read(ino, blocks)
    }
    fn snapshot(&self) -> Result<SnapshotNo> {
        (**self).snapshot()
    }
    fn release_snapshot(&self, snapshot: SnapshotNo) {
        (**self).release_snapshot(snapshot);
    }
    fn spill(&self, blocks: Vec<Item>) -> Result<SpillNo> {
        (**self).spill(blocks)
    }
    fn read_spill(
        &self,
        first: (InodeNo, u64),
        spill: SpillNo,
        blocks: Range<u32>,
    ) -> Result<Vec<Arc<Block>>> {
        (**self).read_spill(first, spill, blocks)
    }
    fn keep_spills(&self, spills: &[SpillNo]) -> Result<()> {
        (**self).keep_spills(spills)
    }
    fn release_spill(&self, spill: SpillNo) {
        (**self).release_spill(spill);
    }
    fn admit(&self, total: Usage, waiting: Waiting, purpose: Purpose) -> Result<Admission> {
        (**self).admit(total, waiting, purpose)
    }
    fn wants_write_back(&self, waiting: Unwritten) -> bool {
        (**self).wants_write_back(waiting)
    }
    fn append(&self, group: Group) -> Result<Position> {
        (**self).append(group)
    }
    fn commit(&self, position: Position) -> Result<()> {
        (**self).commit(position)
    }
    fn commit_data(&self, position: Position) -> Result<bool> {
        (**self).commit_data(position)
    }
    fn checkpoint(&self) -> Result<()> {
        (**self).checkpoint()
    }
    fn maintain(&self) -> Result<()> {
        (**self).maintain()
    }
    fn statfs(&self, total: Usage) -> StatFs {
        (**self).statfs(total)
    }
    fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        (**self).trim(range, bytes_min)
    }
    fn stop(&self, reason: &str) {
        (**self).stop(reason);
    }
}
