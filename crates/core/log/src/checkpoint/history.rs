//! What a fold lists for snapshots, and the history file of the new image
//! (`docs/design/snapshots.md`, "Sources of entries").
//!
//! Where the fold displaces a block or an inode image that the newest snapshot has, an
//! entry is made instead of the block being given up. Entries are written as runs; when
//! all files are folded, the directory is written, and the index of the history file is
//! folded like that of any file.
//!
//! Invariant: a listed block stays counted in the usage table until the table of
//! snapshots has none that keeps it.

use super::fold::{Fold, NewImage};
use super::levels::Changes;
use super::live_bytes;
use crate::error::Result;
use crate::format::Pointer;
use crate::format::history::{DisplacedBlock, HISTORY, Identity, ImageHeader, RUNS_FROM};
use crate::format::ifile::ImapState;
use crate::format::inode::InodeImage;
use crate::history::{
    Directory, Entries, HistoryChanges, HistoryImage, MergedBlocks, MergedImages, Run, Snapshot,
};
use crate::log::{LogItem, Placed};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{FileKind, Inode, InodeNo, Timestamp};

/// Entries that a fold has in memory, in bytes.
const ENTRY_BYTES_AT_ONCE: usize = 8 << 20;
/// Runs of similar size that are merged.
const MERGED_AT_ONCE: usize = 4;

/// What a fold lists.
pub(super) struct Listing {
    /// Number and position of the newest snapshot below the delta; zeros without one.
    pub newest: u32,
    position: u64,
    entries: Entries,
    /// Moved blocks of the delta that have been listed at their new place.
    used: HashSet<(Identity, u64)>,
    /// Runs that have been written, youngest first, and the blocks of the history file
    /// that change.
    runs: Vec<Run>,
    changes: Changes,
    /// Ranges of that file that they take: first block and length.
    taken: Vec<(u64, u64)>,
    /// Change of [`Directory::kept_bytes`], and how many blocks and images were listed.
    kept_bytes: i64,
    blocks: u64,
    images: u64,
}

impl Listing {
    /// For a fold above an image with this directory. Rows that the image has marked as
    /// deleted are removed by this fold, and keep nothing any more.
    pub fn new(directory: &Directory) -> Self {
        let newest = directory.readable().last();
        Listing {
            newest: newest.map_or(0, |newest| newest.number),
            position: newest.map_or(0, |newest| newest.position),
            entries: Entries::default(),
            used: HashSet::new(),
            runs: Vec::new(),
            changes: Changes::new(),
            taken: Vec::new(),
            kept_bytes: 0,
            blocks: 0,
            images: 0,
        }
    }
}

impl Fold<'_> {
    /// A pointer of the image lost its place to `newer`, if to any: its block dies, or it
    /// is listed for the newest snapshot.
    pub(super) fn displace(
        &mut self,
        identity: Identity,
        former: &Pointer,
        newer: Option<&Pointer>,
    ) {
        let is_move = newer.is_some_and(|newer| newer.birth() == former.birth());
        let stored = live_bytes(former) > 0;
        let of_user = ![HISTORY.0, InodeNo::IFILE.0].contains(&identity.ino);
        let kept = stored && of_user && former.birth() <= self.listing.position;
        if is_move || !kept || planted::is(Planted::KeptUnlisted) {
            return self.kill(former);
        }
        let key = (identity, former.birth());
        let place = match self.frozen.kept.get(&key) {
            Some(moved) => {
                self.listing.used.insert(key);
                self.kill(former);
                *moved
            }
            None => *former,
        };
        self.list_block(&DisplacedBlock::new(identity, self.listing.newest, place));
        self.listing.blocks += 1;
        self.listing.kept_bytes += live_bytes(&place);
    }

    fn list_block(&mut self, entry: &DisplacedBlock) {
        if entry.xattrs != 0 && planted::is(Planted::KeptWithoutKind) {
            let entry = DisplacedBlock {
                xattrs: 0,
                ..*entry
            };
            return self.listing.entries.block(&entry);
        }
        self.listing.entries.block(entry);
    }

    /// The inode's image is about to be displaced by a user's change.
    pub(super) fn list_image(&mut self, below: &super::fold::ImageBelow) {
        let newest = self.listing.newest;
        if below.epoch >= newest || planted::is(Planted::KeptImageLost) {
            return; // no snapshot has it
        }
        let inode = &below.image.inode;
        let header = ImageHeader {
            ino: inode.ino.0.into(),
            version: inode.version.into(),
            after: below.epoch.into(),
            last: newest.into(),
            spare: [0; 12],
        };
        let stored = self.lfs.encode_inode(&below.image);
        self.listing.entries.image(header, &stored);
        self.listing.images += 1;
    }

    /// Writes a run if so many entries are in memory that they should not wait.
    pub(super) fn write_full_runs(&mut self) -> Result<()> {
        match self.listing.entries.bytes() >= ENTRY_BYTES_AT_ONCE {
            true => self.write_entries(),
            false => Ok(()),
        }
    }

    fn write_entries(&mut self) -> Result<()> {
        let entries = std::mem::take(&mut self.listing.entries);
        if entries.is_empty() {
            return Ok(());
        }
        let run = self.write_run(entries, self.base.serial + 1)?;
        self.listing.runs.insert(0, run);
        Ok(())
    }

    /// Writes entries as a run; checkpoint `written` wrote the youngest of them.
    fn write_run(&mut self, entries: Entries, written: u64) -> Result<Run> {
        let page_bytes = self.lfs.geometry.block_bytes as usize;
        let pages = (entries.bytes().div_ceil(page_bytes) + 2) as u64;
        let first = self.free_range(pages);
        let encoded = entries.encode(first, written, page_bytes);
        let pages: Vec<(u64, Vec<u8>)> = (first..)
            .zip(encoded.bytes.chunks(page_bytes).map(<[u8]>::to_vec))
            .collect();
        self.listing.taken.push((first, pages.len() as u64));
        self.write_pages(pages)?;
        Ok(encoded.run)
    }

    /// The first of so many blocks of the history file that neither the image nor this
    /// fold uses.
    fn free_range(&self, pages: u64) -> u64 {
        let inode_bytes = self.lfs.geometry.inode_bytes as usize;
        let page_bytes = self.lfs.geometry.block_bytes as usize;
        let runs = self.base.history.directory.runs.iter();
        let mut taken: Vec<(u64, u64)> = runs
            .map(|run| (run.first_block, run.pages(inode_bytes, page_bytes)))
            .chain(self.listing.taken.iter().copied())
            .collect();
        taken.sort_unstable();
        let mut first = RUNS_FROM;
        for (start, length) in taken {
            if start >= first + pages {
                break;
            }
            first = first.max(start + length);
        }
        first
    }

    /// Writes blocks of the history file; their pointers wait for its index.
    fn write_pages(&mut self, pages: Vec<(u64, Vec<u8>)>) -> Result<()> {
        let written = Timestamp::from_ns(self.lfs.clock.now_ns());
        for chunk in pages.chunks(self.chunk(super::fold::CHUNK)) {
            let items = chunk.iter().map(|(block, bytes)| LogItem::Block {
                ino: HISTORY,
                version: HISTORY_VERSION,
                block: *block,
                data: bytes.clone().into(),
                written,
                source: None,
            });
            for ((block, _), placed) in chunk.iter().zip(self.write(items.collect())?) {
                let Placed::Block(pointer) = placed else {
                    unreachable!("a block was written")
                };
                self.count(pointer.sector(), live_bytes(&pointer));
                self.listing.changes.insert(*block, Some(pointer));
            }
        }
        Ok(())
    }

    /// The history of the new image. All files have been folded. `changes` are what the
    /// checkpoint changes in the table of snapshots; `imap` gets the history file.
    pub(super) fn history(
        &mut self,
        serial: u64,
        changes: &HistoryChanges,
        imap: &mut BTreeMap<u64, ImapState>,
    ) -> Result<HistoryImage> {
        let before = Arc::clone(&self.base.history);
        let moved = self.frozen.inode(HISTORY.0).is_some();
        let touched = !self.frozen.touched(HISTORY).is_empty();
        if before.inode.is_none() && changes.create.is_none() {
            return Ok(HistoryImage::default());
        }
        let mut directory = self.changed_directory(serial, changes);
        self.settle_moves(&directory);
        self.give_up(&before.directory, &directory);
        self.write_entries()?;
        directory.runs = std::mem::take(&mut self.listing.runs);
        directory.runs.extend(&before.directory.runs);
        self.drop_runs(&mut directory);
        self.merge_runs(&mut directory)?;
        let kept = directory
            .kept_bytes
            .saturating_add_signed(self.listing.kept_bytes);
        directory.kept_bytes = kept;
        let left = directory.blocks_left.saturating_sub(self.listing.blocks);
        directory.blocks_left = left;
        directory.images_left = directory.images_left.saturating_sub(self.listing.images);
        if let (Some(_), Some(newest)) = (&changes.create, directory.snapshots.last()) {
            debug_assert_eq!(newest.checkpoint, serial, "the newest was just taken");
            directory.blocks_left = self.usage_now.blocks + self.usage_now.inodes;
            directory.images_left = self.usage_now.inodes;
        }
        if directory == before.directory && !moved && !touched {
            return Ok(HistoryImage {
                directory,
                inode: before.inode.clone(),
                problem: None,
            });
        }
        self.write_directory(&before.directory, &directory)?;
        let pages = self.pages_of(&directory);
        let inode = self.fold_history(before.inode.as_deref(), pages, imap)?;
        Ok(HistoryImage {
            directory,
            inode: Some(inode),
            problem: None,
        })
    }

    /// The table of snapshots of the new image, without runs.
    fn changed_directory(&self, serial: u64, changes: &HistoryChanges) -> Directory {
        let before = &self.base.history.directory;
        let mut directory = Directory {
            runs: Vec::new(),
            ..before.clone()
        };
        let at_once = planted::is(Planted::KeptRowAtOnce);
        let goes = |s: &Snapshot| s.deleted || at_once && changes.delete.contains(&s.number);
        directory.snapshots.retain(|snapshot| !goes(snapshot));
        for snapshot in &mut directory.snapshots {
            snapshot.deleted = changes.delete.contains(&snapshot.number);
            if let Some((number, name)) = &changes.rename
                && *number == snapshot.number
            {
                snapshot.name.clone_from(name);
            }
        }
        if let Some(name) = &changes.create {
            directory.newest += 1;
            directory.snapshots.push(Snapshot {
                number: directory.newest,
                deleted: false,
                position: self.frozen.boundary,
                taken_ns: self.lfs.clock.now_ns(),
                checkpoint: serial,
                name: name.clone(),
            });
        }
        directory
    }

    /// Moved blocks of the delta that were displaced before: their entries get the new
    /// place. One that no snapshot needs any more dies.
    fn settle_moves(&mut self, directory: &Directory) {
        let base = self.base;
        let frozen = self.frozen;
        for (&(identity, birth), place) in &frozen.kept {
            if self.listing.used.contains(&(identity, birth)) {
                continue;
            }
            let lfs = self.lfs;
            let found = lfs.with_history(base, |history| history.entry_of(identity, birth));
            match found {
                Ok(Some(entry)) if directory.keeps(birth, entry.last.get()) => {
                    self.kill(&entry.pointer);
                    let last = entry.last.get();
                    self.list_block(&DisplacedBlock::new(identity, last, *place));
                }
                Ok(_) => self.kill(place),
                Err(error) => {
                    let ino = identity.ino;
                    tracing::error!(%error, ino, "a run is damaged: space is lost");
                }
            }
        }
    }

    /// Blocks that only snapshots had which are in the table no longer die.
    fn give_up(&mut self, before: &Directory, after: &Directory) {
        let gone = |s: &&Snapshot| {
            after
                .snapshots
                .binary_search_by_key(&s.number, |a| a.number)
        };
        let gone: Vec<u32> = before
            .snapshots
            .iter()
            .filter(|s| gone(s).is_err())
            .map(|s| s.number)
            .collect();
        let (Some(first), Some(last)) = (gone.first(), gone.last()) else {
            return;
        };
        // An entry that is displaced when a later snapshot of the table is the newest is
        // part of that one, if of any that is gone.
        let behind = after.snapshots.partition_point(|s| s.number <= *last);
        let end = after.snapshots.get(behind).map_or(u32::MAX, |s| s.number);
        let concerned = |run: &&Run| run.span.1 >= *first && run.span.0 < end;
        let runs: Vec<Run> = before.runs.iter().filter(concerned).copied().collect();
        let (mut dead, lfs) = (Vec::new(), self.lfs);
        let read = lfs.with_history(self.base, |history| {
            let mut blocks = MergedBlocks::new(history, &runs)?;
            while let Some(entry) = blocks.next()? {
                let (birth, last) = (entry.pointer.birth(), entry.last.get());
                if before.keeps(birth, last) && !after.keeps(birth, last) {
                    dead.push(entry.pointer);
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(%error, "a run is damaged: space of deleted snapshots is lost");
        }
        for pointer in dead.iter().filter(|_| !planted::is(Planted::KeptUncounted)) {
            self.kill(pointer);
            self.listing.kept_bytes -= live_bytes(pointer);
        }
    }

    /// Removes runs of which no snapshot keeps an entry.
    fn drop_runs(&mut self, directory: &mut Directory) {
        let Some(oldest) = directory.snapshots.first().map(|s| s.number) else {
            for run in std::mem::take(&mut directory.runs) {
                self.punch(&run);
            }
            return;
        };
        let (kept, dropped) = directory.runs.iter().partition(|run| run.span.1 >= oldest);
        directory.runs = kept;
        let dropped: Vec<Run> = dropped;
        dropped.iter().for_each(|run| self.punch(run));
    }

    /// The blocks of a run end.
    fn punch(&mut self, run: &Run) {
        let inode_bytes = self.lfs.geometry.inode_bytes as usize;
        let pages = run.pages(inode_bytes, self.lfs.geometry.block_bytes as usize);
        for block in run.first_block..run.first_block + pages {
            if let Some(Some(written)) = self.listing.changes.insert(block, None) {
                self.kill(&written);
            }
        }
    }

    /// Merges runs of similar size, if there are enough of them: of those that are
    /// neighbours in age, so that younger places keep replacing older ones.
    fn merge_runs(&mut self, directory: &mut Directory) -> Result<()> {
        while let Some(at) = self.mergeable(&directory.runs) {
            let runs: Vec<Run> = directory.runs[at..at + MERGED_AT_ONCE].to_vec();
            // Runs of this fold are not in the image yet: they are read by the next.
            let Some(merged) = self.merge(directory, &runs)? else {
                return Ok(());
            };
            runs.iter().for_each(|run| self.punch(run));
            directory.runs.splice(at..at + MERGED_AT_ONCE, merged);
        }
        Ok(())
    }

    /// Where as many runs begin as are merged at once, all of the image and of one size
    /// class.
    fn mergeable(&self, runs: &[Run]) -> Option<usize> {
        let inode_bytes = self.lfs.geometry.inode_bytes as usize;
        let page_bytes = self.lfs.geometry.block_bytes as usize;
        let pages = |run: &Run| run.pages(inode_bytes, page_bytes);
        let class = |run: &Run| pages(run).max(1).ilog2() / 2;
        let most = self.merge_bytes / page_bytes as u64;
        let taken = &self.listing.taken;
        let new = |run: &Run| taken.iter().any(|(first, _)| *first == run.first_block);
        runs.windows(MERGED_AT_ONCE).position(|these| {
            !these.iter().any(new)
                && these.iter().all(|run| class(run) == class(&these[0]))
                && these.iter().map(pages).sum::<u64>() <= most
        })
    }

    /// Writes one run of several; none if no snapshot keeps any of their entries, and
    /// nothing at all if they cannot be read.
    fn merge(&mut self, directory: &Directory, runs: &[Run]) -> Result<Option<Option<Run>>> {
        let lfs = self.lfs;
        let mut entries = Entries::default();
        let read = lfs.with_history(self.base, |history| {
            let mut blocks = MergedBlocks::new(history, runs)?;
            while let Some(entry) = blocks.next()? {
                if directory.keeps(entry.pointer.birth(), entry.last.get()) {
                    entries.block(&entry);
                }
            }
            let mut images = MergedImages::new(history, runs)?;
            while let Some((header, inode)) = images.next()? {
                if directory.keeps_image(header.after.get(), header.last.get()) {
                    entries.image(header, &inode);
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(%error, "runs are damaged, and are not merged");
            return Ok(None);
        }
        if entries.is_empty() {
            return Ok(Some(None));
        }
        let written = runs.iter().map(|run| run.written).max().unwrap_or(0);
        self.merge_bytes = self.merge_bytes.saturating_sub(entries.bytes() as u64);
        Ok(Some(Some(self.write_run(entries, written)?)))
    }

    /// Writes the blocks of the directory that changed.
    fn write_directory(&mut self, before: &Directory, after: &Directory) -> Result<()> {
        let page_bytes = self.lfs.geometry.block_bytes as usize;
        let pages = |directory: &Directory| {
            let mut bytes = directory.encode();
            bytes.resize(bytes.len().next_multiple_of(page_bytes), 0);
            bytes
        };
        let (old, new) = (pages(before), pages(after));
        let mut old = old.chunks(page_bytes);
        let exists = self.base.history.inode.is_some();
        let changed = (0..).zip(new.chunks(page_bytes)).filter(|(_, page)| {
            let same = old.next() == Some(*page);
            !same || !exists
        });
        let changed: Vec<(u64, Vec<u8>)> = changed.map(|(at, page)| (at, page.to_vec())).collect();
        let count = (new.len() / page_bytes) as u64;
        for block in count..count + old.len() as u64 {
            self.listing.changes.insert(block, None); // the directory became shorter
        }
        self.write_pages(changed)
    }

    /// Blocks of the history file with this directory, and where the last one ends.
    fn pages_of(&self, directory: &Directory) -> (u64, u64) {
        let inode_bytes = self.lfs.geometry.inode_bytes as usize;
        let page_bytes = self.lfs.geometry.block_bytes as usize;
        let first = directory.encode().len().div_ceil(page_bytes) as u64;
        directory
            .runs
            .iter()
            .fold((first, first), |(pages, end), run| {
                let length = run.pages(inode_bytes, page_bytes);
                (pages + length, end.max(run.first_block + length))
            })
    }

    /// Folds the index of the history file and writes its inode.
    fn fold_history(
        &mut self,
        old: Option<&InodeImage>,
        (pages, end): (u64, u64),
        imap: &mut BTreeMap<u64, ImapState>,
    ) -> Result<Arc<InodeImage>> {
        let none = crate::delta::InodeDelta::default();
        let frozen = self.frozen;
        let delta = frozen.inode(HISTORY.0).unwrap_or(&none);
        let touched = frozen.touched(HISTORY);
        let below = self.below(HISTORY)?;
        let mut fold = self.begin(HISTORY, delta, old, touched)?;
        fold.version = HISTORY_VERSION;
        for (block, pointer) in std::mem::take(&mut self.listing.changes) {
            // A moved block that this fold replaces dies at its new place.
            if let Some(Some(moved)) = fold.changes.insert(block, pointer) {
                self.kill(&moved);
            }
        }
        let slots = self.lfs.geometry.root_slots();
        let highest = fold.changes.keys().next_back().copied().unwrap_or(0);
        let height = crate::format::index::height_for(slots, highest);
        fold.height = fold.height.max(height);
        self.tallest = self.tallest.max(fold.height);
        let mut folds = [fold];
        self.levels(&mut folds)?;
        let [fold] = folds;
        let block_bytes = u64::from(self.lfs.geometry.block_bytes);
        let mode = FileKind::Regular.mode_bits() | 0o600;
        let now = Timestamp::from_ns(self.lfs.clock.now_ns());
        let inode = Inode {
            nlink: 1,
            size: end * block_bytes,
            blocks: pages,
            sectors: pages * block_bytes / 512,
            ..Inode::new(HISTORY, HISTORY_VERSION, mode, now)
        };
        let image = InodeImage {
            inode,
            root: None,
            xattrs: Pointer::NONE,
        };
        let new = NewImage {
            image,
            epoch: 0,
            logged: delta.image.as_ref().map(|placed| placed.place),
            below: below.map(|below| below.place),
        };
        self.images(vec![fold], vec![new], imap)?;
        let last = self
            .final_images
            .last()
            .and_then(|(_, image)| image.clone());
        Ok(last.expect("it has been written"))
    }
}

/// The version of the history file: there is one in the life of a volume.
const HISTORY_VERSION: u32 = 1;
