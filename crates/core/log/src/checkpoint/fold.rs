//! Folding the frozen delta's files into the image below.
//!
//! For each file the delta's holes, reservations and blocks become *changes*
//! of level 0: block number to pointer or nothing. Index nodes are made of
//! these ([`super::levels`]), then the inodes of all files written anew.

use super::history::Listing;
use super::levels::{Changes, FileFold};
use super::live_bytes;
use crate::base::Base;
use crate::checkpoint::Checkpoints;
use crate::delta::{Delta, InodeDelta, RangeState};
use crate::error::Result;
use crate::format::Pointer;
use crate::format::history::HISTORY;
use crate::format::ifile::{ImapState, InodePlace};
use crate::format::index::{Index, MAX_BLOCK, height_for};
use crate::format::inode::InodeImage;
use crate::format::node::NodeId;
use crate::kept::{attributes, data_block};
use crate::log::{GroupKind, LogItem, Placed};
use crate::reader::{Obsolete, Tree};
use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_fs::planted::{self, Planted};
use varve_fs::{InodeNo, Usage};

/// Most nodes and inodes written in one group, so that no fsync waits for more
/// than a partial segment of the checkpoint; and fewest blocks or write units,
/// so that summaries and padding stay within what room is kept for.
pub(super) const CHUNK: usize = 64;
const LEAST_CHUNK: usize = 16;

/// An inode as the image below a delta has it.
pub(super) struct ImageBelow {
    pub image: Arc<InodeImage>,
    pub place: InodePlace,
    /// Number of the newest snapshot when the inode last changed.
    pub epoch: u32,
}

/// An inode as the new image is to have it.
pub(super) struct NewImage {
    pub image: InodeImage,
    /// As [`ImageBelow::epoch`].
    pub epoch: u32,
    /// Its place in the log behind the image below, if a group has one.
    pub logged: Option<InodePlace>,
    /// Its place in the image below.
    pub below: Option<InodePlace>,
}

/// The state of one fold.
pub struct Fold<'a> {
    pub(super) checkpoints: &'a Checkpoints,
    pub(super) base: &'a Base,
    pub(super) frozen: &'a Delta,
    /// Net change of live bytes, by segment, against the last checkpoint.
    pub(super) usage: HashMap<u32, i64>,
    /// Live bytes of index nodes and ifile.
    pub(super) metadata_bytes: i64,
    /// What the new image says of each inode of the delta.
    pub(super) final_images: Vec<(u64, Option<Arc<InodeImage>>)>,
    /// Metadata that the new image no longer leads to.
    pub(super) obsolete: Obsolete,
    /// Blocks of the ifile written so far.
    pub(super) ifile_changes: Changes,
    /// Height of the tallest index that was folded.
    pub(super) tallest: u8,
    /// What snapshots keep of what is displaced.
    pub(super) listing: Listing,
    /// What lives on the volume, by the last group of the delta.
    pub(super) usage_now: Usage,
    /// Bytes of runs that may be merged.
    pub(super) merge_bytes: u64,
}

impl<'a> Fold<'a> {
    pub(super) fn new(
        checkpoints: &'a Checkpoints,
        base: &'a Base,
        frozen: &'a Delta,
        (usage_now, merge_bytes): (Usage, u64),
    ) -> Self {
        let usage = frozen.usage.clone();
        let metadata_bytes = base.metadata_bytes as i64;
        Fold {
            checkpoints,
            base,
            frozen,
            usage,
            metadata_bytes,
            final_images: Vec::new(),
            obsolete: Obsolete::default(),
            ifile_changes: Changes::new(),
            tallest: 0,
            listing: Listing::new(&base.history.directory),
            usage_now,
            merge_bytes,
        }
    }

    /// Bytes of nodes to write in one group now.
    pub(super) fn chunk_bytes(&self) -> usize {
        let least = LEAST_CHUNK * self.checkpoints.geometry.block_bytes as usize;
        let portion = self.checkpoints.counters.speed.portion_bytes() as usize;
        least.max(self.least_bytes()).max(portion)
    }

    /// Fewest bytes of nodes and inodes.
    pub(super) fn least_bytes(&self) -> usize {
        let unit = self.checkpoints.geometry.write_unit as usize;
        let partial = self.checkpoints.geometry.max_partial() as usize;
        (LEAST_CHUNK * unit).min(partial.saturating_sub(2 * unit))
    }

    /// Blocks to write in one group now, of at most so many.
    pub(super) fn chunk(&self, most: usize) -> usize {
        let block_bytes = self.checkpoints.geometry.block_bytes as usize;
        let most = most.max(self.least_bytes() / block_bytes);
        (self.chunk_bytes() / block_bytes).min(most)
    }

    pub(super) fn count(&mut self, sector: u64, bytes: i64) {
        if let Some(segment) = self.checkpoints.geometry.segment_of(sector) {
            *self.usage.entry(segment).or_default() += bytes;
        }
    }

    pub(super) fn kill(&mut self, pointer: &Pointer) {
        let left = i64::from(planted::is(Planted::UsageOffByOne)) * 512;
        self.count(
            pointer.sector(),
            left.min(live_bytes(pointer)) - live_bytes(pointer),
        );
    }

    pub(super) fn kill_metadata(&mut self, pointer: &Pointer) {
        self.kill(pointer);
        self.metadata_bytes -= live_bytes(pointer);
        self.obsolete.block(pointer);
    }

    pub(super) fn kill_inode(&mut self, place: &InodePlace) {
        self.count(
            place.sector,
            -i64::from(self.checkpoints.geometry.inode_bytes),
        );
        self.obsolete.inode(place);
    }

    /// Folds every file of the delta and returns what the inode map must say.
    pub(super) fn files(&mut self) -> Result<BTreeMap<u64, ImapState>> {
        let (changed, dirty) = (self.frozen.inodes.keys(), self.frozen.dirty.keys());
        let numbers: BTreeSet<u64> = changed.chain(dirty).copied().collect();
        let mut imap = BTreeMap::new();
        let mut folds = Vec::with_capacity(numbers.len());
        let mut images = Vec::with_capacity(numbers.len());
        let none = InodeDelta::default();
        for number in numbers {
            let ino = InodeNo(number);
            if [InodeNo::IFILE, HISTORY].contains(&ino) {
                continue; // folded after all others
            }
            let delta = self.frozen.inode(number).unwrap_or(&none);
            let below = self.below(ino)?;
            if let Some(below) = &below
                && delta.changed
            {
                self.list_image(below);
            }
            if let Some(below) = &below
                && (delta.freed.is_some() || delta.reborn)
            {
                self.kill_file(&below.image, &below.place)?;
            }
            if let Some(next_version) = delta.freed {
                imap.insert(
                    number,
                    ImapState::Free {
                        next_version,
                        previous: 0,
                        next: 0,
                    },
                );
                continue;
            }
            let below = below.filter(|_| !delta.reborn);
            let touched = self.frozen.touched(ino);
            let Some(newest) = delta
                .image
                .as_ref()
                .map(|placed| placed.image.clone())
                .or_else(|| below.as_ref().map(|below| (*below.image).clone()))
            else {
                // Only a touched node of a file that is gone.
                continue;
            };
            let fold = self.begin(ino, delta, below.as_ref().map(|b| &*b.image), touched)?;
            let xattrs_below = below
                .as_ref()
                .map_or(Pointer::NONE, |below| below.image.xattrs);
            if let Some(xattrs) = delta.xattrs
                && xattrs != xattrs_below
            {
                let identity = attributes(ino, newest.inode.version);
                self.displace(identity, &xattrs_below, Some(&xattrs));
            }
            let xattrs = delta.xattrs.unwrap_or(xattrs_below);
            let image = InodeImage { xattrs, ..newest };
            let epoch = match &below {
                Some(below) if !delta.changed => below.epoch,
                _ => self.listing.newest,
            };
            images.push(NewImage {
                image,
                epoch,
                logged: delta.image.as_ref().map(|p| p.place),
                below: below.map(|below| below.place),
            });
            folds.push(fold);
            self.write_full_runs()?;
        }
        self.levels(&mut folds)?;
        self.images(folds, images, &mut imap)?;
        Ok(imap)
    }

    /// The inode as the image below the delta has it.
    pub(super) fn below(&self, ino: InodeNo) -> Result<Option<ImageBelow>> {
        let (reader, geometry) = (&self.checkpoints.reader, &self.checkpoints.geometry);
        let ImapState::Used { place, epoch, .. } = self.base.imap(reader, geometry, ino)? else {
            return Ok(None);
        };
        let image = self.base.inode(reader, geometry, ino)?;
        Ok(image.map(|image| ImageBelow {
            image,
            place,
            epoch,
        }))
    }

    /// Everything of a file that is gone.
    fn kill_file(&mut self, image: &InodeImage, place: &InodePlace) -> Result<()> {
        let root = image.root.clone().unwrap_or_default();
        let checkpoints = self.checkpoints;
        let (ino, version) = (image.inode.ino, image.inode.version);
        let tree = Tree {
            reader: &checkpoints.reader,
            ino,
            root: &root,
        };
        let mut written = Ok(());
        let walked = tree.places(0, &mut |at, pointer| {
            match at.height {
                0 => self.displace(data_block(ino, version, at.index), &pointer, None),
                _ => self.kill_metadata(&pointer),
            }
            written = self.write_full_runs();
            Ok(written.is_ok())
        });
        written?;
        if let Err(error) = walked {
            // The file goes all the same; what could not be read stays counted
            // as live, which wastes space and loses nothing.
            tracing::error!(%error, %ino, "a freed file's index is damaged: space is lost");
        }
        self.displace(attributes(ino, version), &image.xattrs, None);
        self.kill_inode(place);
        Ok(())
    }

    /// The level-0 changes of one file, and the height its index will have.
    pub(super) fn begin(
        &mut self,
        ino: InodeNo,
        delta: &InodeDelta,
        below: Option<&InodeImage>,
        touched: Vec<NodeId>,
    ) -> Result<FileFold> {
        let old = below
            .and_then(|image| image.root.clone())
            .unwrap_or_default();
        let tree = Tree {
            reader: &self.checkpoints.reader,
            ino,
            root: &old,
        };
        let block_sectors = (self.checkpoints.geometry.block_bytes / 512) as u8;
        let mut changes = Changes::new();
        for (from, to, state) in delta.ranges.within(0, MAX_BLOCK) {
            tree.blocks(from, to, &mut |block, _| {
                changes.insert(block, None);
                true
            })?;
            if let RangeState::Unwritten(birth) = state {
                let pointer = Pointer::unwritten_block(block_sectors, birth);
                changes.extend((from..to).map(|block| (block, Some(pointer))));
            }
        }
        for (block, pointer) in delta.blocks.range(0, u64::MAX) {
            changes.insert(block, Some(pointer));
        }
        let slots = self.checkpoints.geometry.root_slots();
        let highest = changes
            .iter()
            .rev()
            .find(|(_, p)| p.is_some())
            .map_or(0, |(&b, _)| b);
        let height = old.height.max(height_for(slots, highest));
        self.tallest = self.tallest.max(height);
        let version = below.map_or(delta.version, |image| image.inode.version);
        let root = old.clone();
        Ok(FileFold {
            ino,
            version,
            old,
            height,
            changes,
            touched,
            root,
        })
    }

    pub(super) fn write(&self, items: Vec<LogItem>) -> Result<Vec<Placed>> {
        self.checkpoints.mechanism.give_way();
        let (count, writer) = (items.len(), &self.checkpoints.writer);
        let written = writer.write_group(items, GroupKind::Checkpoint, None)?;
        let placed = written
            .expect("only the cleaner's groups are refused")
            .placed;
        assert_eq!(placed.len(), count, "places of a checkpoint's items");
        Ok(placed)
    }

    /// Writes the inodes whose stored image does not say what it must.
    pub(super) fn images(
        &mut self,
        folds: Vec<FileFold>,
        images: Vec<NewImage>,
        imap: &mut BTreeMap<u64, ImapState>,
    ) -> Result<()> {
        let inode_bytes = i64::from(self.checkpoints.geometry.inode_bytes);
        let mut pending: Vec<(InodeImage, u32)> = Vec::new();
        assert_eq!(folds.len(), images.len(), "an image for each index");
        for (fold, new) in folds.into_iter().zip(images) {
            let NewImage {
                mut image,
                epoch,
                logged,
                below,
            } = new;
            let ino = image.inode.ino;
            let version = image.inode.version;
            let stored = logged.or(below);
            let complete = image.root.as_ref() == Some(&fold.root)
                && self.stored_xattrs(ino, logged.is_some()) == Some(image.xattrs);
            if let (true, Some(place)) = (complete, stored) {
                if logged.is_some() {
                    if let Some(below) = below {
                        self.kill_inode(&below);
                    }
                    if let Some(segment) = self.checkpoints.geometry.segment_of(place.sector) {
                        self.checkpoints.segments.lock().takes_metadata(segment);
                    }
                    let state = ImapState::Used {
                        version,
                        place,
                        epoch,
                    };
                    imap.insert(ino.0, state);
                    self.final_images.push((ino.0, Some(Arc::new(image))));
                }
                continue;
            }
            for place in [logged, below].into_iter().flatten() {
                self.kill_inode(&place);
            }
            image.root = Some(fold.root);
            pending.push((image, epoch));
        }
        let least = self.least_bytes() / self.checkpoints.geometry.inode_bytes as usize;
        for chunk in pending.chunks(least.max(self.chunk(CHUNK) * 4)) {
            let images: Vec<(Arc<InodeImage>, u32)> = chunk
                .iter()
                .map(|(image, epoch)| (Arc::new(image.clone()), *epoch))
                .collect();
            let items = images
                .iter()
                .map(|(image, _)| LogItem::MovedInode {
                    image: Arc::clone(image),
                    source: None,
                })
                .collect();
            for ((image, epoch), placed) in images.iter().zip(self.write(items)?) {
                let Placed::Inode(place) = placed else {
                    unreachable!("an inode was written")
                };
                self.count(place.sector, inode_bytes);
                self.checkpoints
                    .reader
                    .keep_inode(&place, Arc::clone(image));
                self.final_images
                    .push((image.inode.ino.0, Some(Arc::clone(image))));
                let version = image.inode.version;
                let state = ImapState::Used {
                    version,
                    place,
                    epoch: *epoch,
                };
                imap.insert(image.inode.ino.0, state);
            }
        }
        Ok(())
    }

    /// The attribute pointer in the stored image of `ino`.
    fn stored_xattrs(&self, ino: InodeNo, logged: bool) -> Option<Pointer> {
        if logged {
            let entry = self.frozen.inode(ino.0)?;
            return entry.image.as_ref().map(|placed| placed.image.xattrs);
        }
        Some(self.below(ino).ok()??.image.xattrs)
    }
}
