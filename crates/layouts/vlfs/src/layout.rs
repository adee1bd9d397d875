//! [`varve_fs::Layout`] for a volume on the virtual log.

use crate::Vlfs;
use crate::error::Result as Inner;
use crate::format::{Fork, Place};
use crate::prices::FILE_BYTES_MAX;
use crate::walk::{Tree, attributes};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use varve_device::Block;
use varve_format::index::Index;
use varve_format::range::must_begin_within;
use varve_fs::planted::{self, Planted};
use varve_fs::{
    Answer, Error, FileKind, Group, Inode, InodeNo, Layout, LayoutGeometry, Mapping, Position,
    Request, Result, StatFs, Usage, Version, View,
};

/// Maximum number of units that one request reads.
const RUN_UNITS: u64 = 1024;

impl Layout for Vlfs {
    type Pointer = Place;

    fn geometry(&self) -> LayoutGeometry {
        let measures = self.measures();
        let root = measures.root_slots() * 12;
        LayoutGeometry {
            block_bytes: measures.block_bytes,
            inline_bytes: root,
            xattr_bytes: measures.xattr_bytes(),
            max_file_bytes: FILE_BYTES_MAX,
            group_bytes: measures.group_bytes(),
            bounds_groups: false,
            hash_seed: self.superblock.hash_seed.get(),
            case_fold: self.superblock.options & 1 != 0,
            snapshots: false,
            read_only: self.stopped(),
        }
    }

    fn usage(&self) -> Usage {
        self.writer.lock().usage
    }

    fn allocate_inode(&self, _near: InodeNo, _kind: FileKind) -> Result<(InodeNo, Version)> {
        self.numbers.lock().allocate().ok_or(Error::NoSpace)
    }

    fn forget_inode(&self, ino: InodeNo) {
        self.numbers.lock().give_back(ino);
    }

    fn read_inode(&self, _view: View, ino: InodeNo) -> Result<Inode> {
        let image = self.tables.read().image(&self.store, ino.0)?;
        Ok(image.inode.clone())
    }

    fn read_xattrs(&self, _view: View, ino: InodeNo) -> Result<Vec<u8>> {
        // The tables stay locked, so that no transaction gives the space to another
        // file.
        let tables = self.tables.read();
        let image = tables.image(&self.store, ino.0)?;
        let fetch = |id, place: &Place| tables.node(&self.store, id, place);
        let blocks: Vec<Mapping<Place>> = attributes(self.measures(), &image, &fetch)?
            .into_iter()
            .map(|(block, pointer)| Mapping { block, pointer })
            .collect();
        let mut blob = Vec::with_capacity(image.inode.xattr_bytes as usize);
        for block in self.read_blocks(ino, &blocks)? {
            blob.extend_from_slice(&block);
        }
        blob.truncate(image.inode.xattr_bytes as usize);
        Ok(blob)
    }

    fn unfinished(&self) -> Result<Vec<InodeNo>> {
        if planted::is(Planted::OrphansNotFreed) {
            return Ok(Vec::new());
        }
        Ok(self.unfinished.iter().map(|&ino| InodeNo(ino)).collect())
    }

    fn map(
        &self,
        _view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<Place>>> {
        let mut found = Vec::new();
        let to = first.saturating_add(count);
        self.blocks(ino, first, to, &mut |block, pointer| {
            found.push(Mapping { block, pointer });
            true
        })?;
        Ok(found)
    }

    fn next_mapped(&self, _view: View, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        let mut next = None;
        self.blocks(ino, from, u64::MAX, &mut |block, _| {
            next = Some(block);
            false
        })?;
        Ok(next)
    }

    fn read(&self, ino: InodeNo, blocks: &[Mapping<Place>]) -> Result<Vec<Arc<Block>>> {
        Ok(self.read_blocks(ino, blocks)?)
    }

    fn admit(&self, request: &Request) -> Result<Answer> {
        Ok(self.answer(request)?)
    }

    fn make_space(&self, request: &Request) -> Result<Answer> {
        // Each node and inode that was appended counts as a block of its own until it
        // is written.
        {
            let _one = self.committing.lock();
            self.commit_all(&mut self.writer.lock())?;
        }
        Ok(match self.answer(request)? {
            Answer::Granted => Answer::Granted,
            _ => Answer::Refused,
        })
    }

    fn gains(&self) -> u64 {
        // The moves of the compactor are transactions, too.
        self.counts.transactions.load(Relaxed)
    }

    fn append(&self, group: Group) -> Result<Position> {
        let (used, freed) = group.numbers();
        let position = self.append_group(group)?;
        let mut numbers = self.numbers.lock();
        used.into_iter().for_each(|ino| numbers.used(ino));
        freed
            .into_iter()
            .for_each(|(ino, version)| numbers.freed(ino, version));
        Ok(position)
    }

    fn commit(&self, position: Position) -> Result<()> {
        if planted::is(Planted::CommitWithoutFlush) {
            return Ok(());
        }
        Ok(self.commit_through(position.0)?)
    }

    fn checkpoint(&self) -> Result<()> {
        let _one = self.committing.lock();
        Ok(self.write_checkpoint(&mut self.writer.lock())?)
    }

    fn maintain(&self) -> Result<()> {
        if self.stopped().is_some() {
            return Ok(());
        }
        let due = {
            let writer = self.writer.lock();
            let age_ns = self
                .clock
                .monotonic_ns()
                .saturating_sub(writer.checkpoint_ns);
            let changed = writer.since_checkpoint > 0
                || writer.durable < writer.appended
                || writer.unfolded.used() > 0;
            writer.since_checkpoint >= self.options.checkpoint_bytes
                || (changed && age_ns / 1_000_000_000 >= self.options.checkpoint_seconds)
        };
        match due {
            true => self.checkpoint(),
            false => Ok(()),
        }
    }

    fn statfs(&self, total: Usage) -> StatFs {
        self.answer_statfs(total)
    }

    fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        let measures = self.measures();
        must_begin_within(
            range.start,
            measures.blocks * u64::from(measures.block_bytes),
        )?;
        Ok(self.trim_free(range, bytes_min)?)
    }

    fn stop(&self, reason: &str) {
        Vlfs::stop(self, reason.to_owned());
    }
}

impl Vlfs {
    /// Drops the caches of data that can be read again, for measurements.
    pub fn drop_caches(&self) {
        self.store.drop_caches();
    }

    /// Returns the blocks of a file in `from..to`. The tables stay locked meanwhile, so
    /// that the inode and its index are of one moment.
    fn blocks(
        &self,
        ino: InodeNo,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(u64, Place) -> bool,
    ) -> Inner<()> {
        let tables = self.tables.read();
        let image = tables.image(&self.store, ino.0)?;
        let tree = Tree {
            measures: self.measures(),
            image: &image,
            fork: Fork::Content,
            fetch: &|id, place| tables.node(&self.store, id, place),
        };
        tree.blocks(from, to, visit)
    }

    /// Reads blocks; adjacent ones are read by one request. A block that fails is read
    /// again by itself.
    fn read_blocks(&self, ino: InodeNo, blocks: &[Mapping<Place>]) -> Inner<Vec<Arc<Block>>> {
        let measures = self.measures();
        let extent = |mapping: &Mapping<Place>| measures.extent_of(&mapping.pointer);
        let follows = |one: &Mapping<Place>, next: &Mapping<Place>| {
            one.pointer.is_stored()
                && next.pointer.is_stored()
                && extent(one).end() == extent(next).unit
        };
        let mut found = Vec::with_capacity(blocks.len());
        for run in blocks.chunk_by(follows) {
            for run in run.chunks(RUN_UNITS as usize / measures.units_per_block() as usize) {
                let first = run[0];
                if run.len() == 1 || !first.pointer.is_stored() {
                    for mapping in run {
                        let bytes = self.store.block(&mapping.pointer, ino, mapping.block)?;
                        found.push(Arc::new(bytes.into()));
                    }
                    continue;
                }
                let start = extent(&first).unit;
                let units = extent(run.last().expect("a run")).end() - start;
                let mut bytes = vec![0; units as usize * measures.unit_bytes as usize];
                let whole = self.store.read_for_host(start, &mut bytes);
                for mapping in run {
                    let at = (extent(mapping).unit - start) as usize * measures.unit_bytes as usize;
                    let part = &bytes[at..];
                    let checked = match &whole {
                        Ok(()) => self
                            .store
                            .checked(&mapping.pointer, ino, mapping.block, part)
                            .ok(),
                        Err(_) => None,
                    };
                    let bytes = match checked {
                        Some(bytes) => bytes,
                        None => self.store.block(&mapping.pointer, ino, mapping.block)?,
                    };
                    found.push(Arc::new(bytes.into()));
                }
            }
        }
        Ok(found)
    }
}
