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
use super::runs::HISTORY_VERSION;
use crate::error::Result;
use crate::format::Pointer;
use crate::format::history::{DisplacedBlock, HISTORY, Identity, ImageHeader};
use crate::format::ifile::ImapState;
use crate::format::inode::InodeImage;
use crate::history::{
    Directory, HistoryChanges, HistoryImage, MergedBlocks, Run, RunEntries, Snapshot,
};
use crate::kept::is_old;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{FileKind, Inode, Timestamp};

/// What a fold lists.
pub(super) struct Listing {
    /// Number and position of the newest snapshot below the delta; zeros without one.
    pub newest: u32,
    position: u64,
    pub entries: RunEntries,
    /// Moved blocks of the delta that have been listed at their new place.
    used: HashSet<(Identity, u64)>,
    /// Runs that have been written, youngest first, and the blocks of the history file
    /// that change.
    pub runs: Vec<Run>,
    pub changes: Changes,
    /// Ranges of that file that they take: first block and length.
    pub taken: Vec<(u64, u64)>,
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
            entries: RunEntries::default(),
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
        let kept = is_old(identity, former, self.listing.position);
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
        let stored = self.checkpoints.encode_inode(&below.image);
        self.listing.entries.image(header, &stored);
        self.listing.images += 1;
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
        if changes.create.is_some() {
            directory.blocks_left = self.usage_now.blocks + self.usage_now.inodes;
            directory.images_left = self.usage_now.inodes;
        } else if directory.snapshots.is_empty() {
            (directory.blocks_left, directory.images_left) = (0, 0);
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
                taken_ns: self.checkpoints.clock.now_ns(),
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
            let checkpoints = self.checkpoints;
            let found = checkpoints
                .layers
                .with_history(base, |history| history.entry_of(identity, birth));
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

    /// Blocks that only removed snapshots had die.
    fn give_up(&mut self, before: &Directory, after: &Directory) {
        let stays = |number: u32| {
            let of = |s: &Snapshot| s.number;
            after.snapshots.binary_search_by_key(&number, of).is_ok()
        };
        let numbers = before.snapshots.iter().map(|s| s.number);
        let gone: Vec<u32> = numbers.filter(|number| !stays(*number)).collect();
        let (Some(first), Some(last)) = (gone.first(), gone.last()) else {
            return;
        };
        // An entry that is displaced when a later snapshot of the table is the newest is
        // part of that one, if of any that is gone.
        let behind = after.snapshots.partition_point(|s| s.number <= *last);
        let end = after.snapshots.get(behind).map_or(u32::MAX, |s| s.number);
        let concerned = |run: &&Run| run.span.1 >= *first && run.span.0 < end;
        let runs: Vec<Run> = before.runs.iter().filter(concerned).copied().collect();
        let (checkpoints, base) = (self.checkpoints, self.base);
        let read = checkpoints.layers.with_history(base, |history| {
            let mut blocks = MergedBlocks::new(history, &runs)?;
            while let Some(entry) = blocks.next()? {
                let (birth, last) = (entry.pointer.birth(), entry.last.get());
                let dies = before.keeps(birth, last) && !after.keeps(birth, last);
                if dies && !planted::is(Planted::KeptUncounted) {
                    self.kill(&entry.pointer);
                    self.listing.kept_bytes -= live_bytes(&entry.pointer);
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::error!(%error, "a run is damaged: space of deleted snapshots is lost");
        }
    }

    /// Writes the blocks of the directory that changed.
    fn write_directory(&mut self, before: &Directory, after: &Directory) -> Result<()> {
        let page_bytes = self.checkpoints.geometry.block_bytes as usize;
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
        let inode_bytes = self.checkpoints.geometry.inode_bytes as usize;
        let page_bytes = self.checkpoints.geometry.block_bytes as usize;
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
        let slots = self.checkpoints.geometry.root_slots();
        let highest = fold.changes.keys().next_back().copied().unwrap_or(0);
        let height = crate::format::index::height_for(slots, highest);
        fold.height = fold.height.max(height);
        self.tallest = self.tallest.max(fold.height);
        let mut folds = [fold];
        self.levels(&mut folds)?;
        let [fold] = folds;
        let block_bytes = u64::from(self.checkpoints.geometry.block_bytes);
        let mode = FileKind::Regular.mode_bits() | 0o600;
        let now = Timestamp::from_ns(self.checkpoints.clock.now_ns());
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
