//! The seam: [`varve_fs::Layout`] for the log.

use crate::apply::Record;
use crate::format::index::Index;
use crate::format::inode::InodeImage;
use crate::format::{Pointer, SECTOR};
use crate::lfs::Lfs;
use crate::log::{GroupKind, LogItem};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Block;
use varve_format::range::must_begin_within;
use varve_fs::planted::{self, Planted};
use varve_fs::{
    Answer, FileKind, Group, Inode, InodeNo, Item, Layout, LayoutGeometry, Mapping, Position,
    Request, Result, SnapshotNo, SpillNo, StatFs, Usage, Version, View, VolumeSnapshot,
};

impl Layout for Lfs {
    type Pointer = Pointer;

    fn geometry(&self) -> LayoutGeometry {
        LayoutGeometry {
            block_bytes: self.geometry.block_bytes,
            inline_bytes: self.geometry.inline_bytes(),
            xattr_bytes: self.geometry.xattr_bytes(),
            max_file_bytes: 1 << 60,
            group_bytes: self.geometry.group_bytes(),
            bounds_groups: false,
            hash_seed: self.superblock.hash_seed.get(),
            case_fold: self.superblock.case_fold(),
            snapshots: true,
            read_only: self.stopped(),
        }
    }

    fn usage(&self) -> Usage {
        self.layers.read().usage
    }

    fn allocate_inode(&self, _near: InodeNo, _kind: FileKind) -> Result<(InodeNo, Version)> {
        let mut allocator = self.allocator.lock();
        let base = self.layers.base();
        let (ino, version) = allocator.allocate(&base, &self.reader, &self.geometry)?;
        self.space.set_loose_numbers(allocator.loose());
        if ino.0 < base.next_ino {
            self.layers.remember(ino, base.serial, None);
        }
        Ok((ino, version))
    }

    fn forget_inode(&self, ino: InodeNo) {
        self.allocator.lock().give_back(ino);
    }

    fn read_inode(&self, view: View, ino: InodeNo) -> Result<Inode> {
        self.control.asked();
        if view == View::Live && ino == InodeNo::IFILE {
            return Ok(self.layers.read().base.ifile.inode.clone());
        }
        let image = match self.layers.opened_snapshot(view) {
            Some(number) => Arc::new(self.layers.past_inode(number, ino)?),
            None => self.layers.look_in(view, |lookup| lookup.inode(ino))?.0,
        };
        Ok(self.sane_inode(&image))
    }

    fn read_xattrs(&self, view: View, ino: InodeNo) -> Result<Vec<u8>> {
        let bytes = self.read_inode(view, ino)?.xattr_bytes;
        let place = || match self.layers.opened_snapshot(view) {
            Some(number) => self.layers.past_xattrs(number, ino),
            None => self.layers.look_in(view, |lookup| lookup.xattrs(ino)),
        };
        loop {
            let pointer = place()?;
            if pointer.is_none() {
                return Ok(Vec::new());
            }
            match self.reader.block(&pointer, ino, 0) {
                Ok(mut blob) => {
                    blob.truncate(bytes as usize);
                    return Ok(blob.into_vec());
                }
                // The cleaner may have moved them meanwhile.
                Err(error) if place()? == pointer => return Err(error.into()),
                Err(_) => {}
            }
        }
    }

    fn unfinished(&self) -> Result<Vec<InodeNo>> {
        Ok(self.unfinished.iter().map(|&ino| InodeNo(ino)).collect())
    }

    fn map(
        &self,
        view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<Pointer>>> {
        let _under_way = self.control.way.begin();
        let to = first.saturating_add(count);
        let blocks = if ino == InodeNo::IFILE {
            self.ifile_blocks(first, to)?
        } else if let Some(number) = self.layers.opened_snapshot(view) {
            self.layers.past_blocks(number, ino, (first, to))?
        } else {
            self.layers
                .look_in(view, |lookup| lookup.blocks(ino, first, to))?
                .0
        };
        Ok(blocks
            .into_iter()
            .map(|(block, pointer)| Mapping { block, pointer })
            .collect())
    }

    fn next_mapped(&self, view: View, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        if ino == InodeNo::IFILE {
            let mut next = None;
            let base = self.layers.base();
            let tree = base.ifile_tree(&self.reader);
            tree.blocks(from, u64::MAX, &mut |block, _| {
                next = Some(block);
                false
            })?;
            return Ok(next);
        }
        match self.layers.opened_snapshot(view) {
            Some(number) => self.layers.past_next(number, ino, from),
            None => self
                .layers
                .look_in(view, |lookup| lookup.next_block(ino, from)),
        }
    }

    fn volume_snapshots(&self) -> Result<Vec<VolumeSnapshot>> {
        self.list_snapshots()
    }

    fn create_volume_snapshot(&self, name: &str) -> Result<VolumeSnapshot> {
        self.create_snapshot(name)
    }

    fn delete_volume_snapshots(&self, numbers: &[u32]) -> Result<()> {
        self.delete_snapshots(numbers)
    }

    fn rename_volume_snapshot(&self, number: u32, name: &str) -> Result<()> {
        self.rename_snapshot(number, name)
    }

    fn open_volume_snapshot(&self, number: u32) -> Result<SnapshotNo> {
        self.open_snapshot(number)
    }

    fn changed_inodes(&self, from: u32, to: Option<u32>) -> Result<Vec<InodeNo>> {
        self.changed_between(from, to)
    }

    fn snapshot_bytes(&self) -> Result<Vec<(u32, u64)>> {
        self.bytes_of_snapshots()
    }

    fn snapshot(&self) -> Result<SnapshotNo> {
        Ok(self.layers.take_snapshot())
    }

    fn release_snapshot(&self, snapshot: SnapshotNo) {
        self.layers.let_go_of_snapshot(snapshot);
        self.control.tell_gain();
    }

    fn read(&self, ino: InodeNo, blocks: &[Mapping<Pointer>]) -> Result<Vec<Arc<Block>>> {
        self.control.asked();
        let _under_way = self.control.way.begin();
        let run: Vec<(u64, Pointer)> = blocks.iter().map(|m| (m.block, m.pointer)).collect();
        Ok(self.reader.run(ino, &run)?)
    }

    fn spill(&self, blocks: Vec<Item>) -> Result<SpillNo> {
        if let Some(reason) = self.stopped() {
            return Err(varve_fs::Error::ReadOnly(reason));
        }
        if !self.geometry.spills {
            return Err(varve_fs::Error::NotSupported);
        }
        let _under_way = self.control.way.begin();
        Ok(self
            .writer
            .spill_blocks(blocks.into_iter().map(log_item).collect())?)
    }

    fn read_spill(
        &self,
        (ino, block): (InodeNo, u64),
        spill: SpillNo,
        blocks: Range<u32>,
    ) -> Result<Vec<Arc<Block>>> {
        self.control.asked();
        let _under_way = self.control.way.begin();
        self.writer.spilled_content((ino, block), spill, blocks)
    }

    fn keep_spills(&self, spills: &[SpillNo]) -> Result<()> {
        match self.segments.lock().keep_spills(spills) {
            true => Ok(()),
            false => Err(varve_fs::Error::Aborted),
        }
    }

    fn release_spill(&self, spill: SpillNo) {
        self.writer.let_go_of_spill(spill);
    }

    fn admit(&self, request: &Request) -> Result<Answer> {
        match self.stopped() {
            Some(reason) => Err(varve_fs::Error::ReadOnly(reason)),
            None => Ok(self.answer(request)),
        }
    }

    fn make_space(&self, request: &Request) -> Result<Answer> {
        match self.make_room_from_snapshots(request.total, request.waiting, request.purpose) {
            Ok(()) => Ok(Answer::Granted),
            Err(varve_fs::Error::NoSpace) => {
                self.report_kept_space();
                Ok(Answer::Refused)
            }
            Err(error) => Err(error),
        }
    }

    fn gains(&self) -> u64 {
        let counters = &self.counters;
        // Growing has more segments.
        counters.checkpoints.load(Relaxed)
            + counters.segments_emptied.load(Relaxed)
            + u64::from(self.geometry.segment_count)
    }

    fn append(&self, group: Group) -> Result<Position> {
        self.control.asked();
        if let Some(reason) = self.stopped() {
            return Err(varve_fs::Error::ReadOnly(reason));
        }
        let _under_way = self.control.way.begin();
        let (used, freed) = group.numbers();
        self.layers.recall(&used);
        let items: Vec<LogItem> = group.items.into_iter().map(log_item).collect();
        // It can do without: what is wrong with the device, the append will meet.
        if let Err(error) = self.cleaner.stock_holes(&items) {
            tracing::debug!(%error, "no holes were found");
        }
        let written = self
            .writer
            .write_group(items, GroupKind::User, Some(group.usage))?
            .expect("only the cleaner's groups are refused");
        let mut allocator = self.allocator.lock();
        used.into_iter().for_each(|ino| allocator.used(ino));
        freed
            .into_iter()
            .for_each(|(ino, version)| allocator.freed(ino, version));
        self.space.set_loose_numbers(allocator.loose());
        Ok(Position(written.serial))
    }

    fn commit(&self, position: Position) -> Result<()> {
        self.control.asked();
        if planted::is(Planted::CommitWithoutFlush) {
            return Ok(());
        }
        let _under_way = self.control.way.begin();
        self.checkpoints.commit_through(position.0)?;
        self.ahead
            .committed(self.counters.user_log_bytes.load(Relaxed));
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        if let Some(reason) = self.stopped() {
            return Err(varve_fs::Error::ReadOnly(reason));
        }
        Ok(self.checkpoints.take_checkpoint(false)?)
    }

    fn maintain(&self) -> Result<()> {
        if self.stopped().is_some() {
            return Ok(());
        }
        self.checkpoints.checkpoint_if_due()?;
        self.cleaner.clean_if_due()?;
        Ok(())
    }

    fn statfs(&self, total: Usage) -> StatFs {
        self.space.stock().statfs(total)
    }

    fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        must_begin_within(range.start, self.superblock.device_bytes.get())?;
        Ok(self.trim_clean(range, bytes_min)?)
    }

    fn stop(&self, reason: &str) {
        self.durability.stop_quietly(reason.to_owned());
    }
}

impl Lfs {
    /// A damaged inode may count more than there is: sums must not overflow.
    fn sane_inode(&self, image: &InodeImage) -> Inode {
        let mut inode = image.inode.clone();
        let most = self.geometry.volume_bytes() / SECTOR;
        inode.blocks = inode.blocks.min(most);
        inode.sectors = inode.sectors.min(most);
        inode
    }

    fn ifile_blocks(&self, from: u64, to: u64) -> Result<Vec<(u64, Pointer)>> {
        let base = self.layers.base();
        let tree = base.ifile_tree(&self.reader);
        let mut blocks = Vec::new();
        tree.blocks(from, to, &mut |block, pointer| {
            blocks.push((block, pointer));
            true
        })?;
        Ok(blocks)
    }
}

/// An item of the seam, as the log has it.
pub(crate) fn log_item(item: Item) -> LogItem {
    let record = |ino, version, record| LogItem::Record {
        ino,
        version,
        record,
    };
    match item {
        Item::Freed { ino, next_version } => record(
            ino,
            next_version.wrapping_sub(1),
            Record::Freed(next_version),
        ),
        Item::Truncated {
            ino,
            version,
            from_block,
        } => record(ino, version, Record::Truncated(from_block)),
        Item::Punched {
            ino,
            version,
            from_block,
            to_block,
        } => record(ino, version, Record::Punched(from_block, to_block)),
        Item::Reserved {
            ino,
            version,
            from_block,
            to_block,
        } => record(ino, version, Record::Reserved(from_block, to_block, 0)),
        Item::Block {
            ino,
            version,
            block,
            data,
            written,
        } => LogItem::Block {
            ino,
            version,
            block,
            data: data.into(),
            written,
            source: None,
        },
        Item::Placed {
            ino,
            version,
            block,
            count,
            spill,
            index,
            written,
        } => LogItem::Spilled {
            ino,
            version,
            block,
            count,
            spill: (spill, index),
            written,
        },
        Item::Xattrs { ino, version, data } => LogItem::Xattrs {
            ino,
            version,
            data: data.into(),
            source: None,
        },
        Item::Inode(inode) => LogItem::Image { inode },
    }
}
