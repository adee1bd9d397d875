//! The committed state: what appended groups say, newest layer first.
//!
//! Look-ups copy what the deltas say about the file in question, release the
//! lock and only then read the image below, which is immutable: nobody waits
//! for the device while holding what a reader or the segment writer needs.

use crate::base::Base;
use crate::delta::{Answer, Delta, InodeDelta, RangeState};
use crate::error::{Error, Result};
use crate::format::history::Identity;
use crate::format::ifile::{ImapState, InodePlace};
use crate::format::index::Index;
use crate::format::inode::InodeImage;
use crate::format::{Mark, Pointer};
use crate::geometry::Geometry;
use crate::reader::{Reader, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_fs::{InodeNo, Usage, Version};

/// The three layers.
#[derive(Debug)]
pub struct Committed {
    /// The image of the last completed checkpoint.
    pub base: Arc<Base>,
    /// What a running checkpoint is folding into the next image.
    pub frozen: Option<Arc<Delta>>,
    /// What groups append to.
    pub live: Delta,
    /// What lives on the volume, by the last group.
    pub usage: Usage,
}

impl Committed {
    /// Where the volume stands as a copy of another, if it is one.
    pub fn replayed(&self) -> Option<Mark> {
        let frozen = self.frozen.as_ref().and_then(|frozen| frozen.replayed);
        let said = self.live.replayed.or(frozen);
        said.unwrap_or_else(|| self.base.replayed())
    }

    /// No index is known to be taller than this.
    pub fn tallest(&self) -> u8 {
        let frozen = self
            .frozen
            .as_ref()
            .map_or(0, |frozen| frozen.counts.height);
        self.base.tallest.max(frozen).max(self.live.counts.height)
    }

    /// Live bytes that a segment has gained, or lost if negative, since the
    /// last checkpoint, as far as the deltas know.
    pub fn added(&self, segment: u32) -> i64 {
        let frozen = self.frozen.as_ref().and_then(|f| f.usage.get(&segment));
        self.live.usage.get(&segment).unwrap_or(&0) + frozen.unwrap_or(&0)
    }
}

impl Committed {
    /// Where a block of this birth was moved to since the checkpoint.
    pub(crate) fn moved(&self, identity: Identity, birth: u64) -> Option<Pointer> {
        let frozen = || self.frozen.as_ref()?.moved(identity, birth);
        self.live.moved(identity, birth).or_else(frozen)
    }

    /// Where a block of a file that no user changes was moved to since the checkpoint.
    pub(crate) fn moved_to(&self, ino: InodeNo, block: u64) -> Option<Pointer> {
        let of = |delta: &Delta| delta.inode(ino.0)?.blocks.get(block);
        of(&self.live).or_else(|| of(self.frozen.as_ref()?))
    }

    /// Inodes that users have changed since the checkpoint.
    pub(crate) fn changed_by_users(&self) -> BTreeSet<InodeNo> {
        let entries = self.layers().flat_map(|layer| &layer.inodes);
        let changed = entries.filter(|(_, entry)| entry.changed);
        changed.map(|(ino, _)| InodeNo(*ino)).collect()
    }

    /// True if a block that its file does not lead to, and that was judged to be kept at
    /// `place`, still is: no delta has it elsewhere.
    pub(crate) fn is_kept_at(&self, identity: Identity, place: &Pointer) -> bool {
        self.live.may_be_kept(identity, place)
            && self
                .moved(identity, place.birth())
                .is_none_or(|at| at.sector() == place.sector())
    }
}

/// What one delta says about some blocks of one file.
struct Overlay {
    ranges: Vec<(u64, u64, RangeState)>,
    blocks: Vec<(u64, Pointer)>,
}

/// What the deltas say about a file, and whether to look below them.
struct Gathered {
    /// Newest first.
    overlays: Vec<Overlay>,
    /// The image below, if it can hold blocks of this file.
    below: Option<Arc<Base>>,
}

impl Committed {
    /// The deltas, newest first.
    fn layers(&self) -> impl Iterator<Item = &Delta> {
        std::iter::once(&self.live).chain(self.frozen.as_deref())
    }

    /// What the layers say of `ino`, newest first, down to the one in which
    /// its present life began. `None` if the newest says it is free.
    fn entries(&self, ino: InodeNo) -> Option<(Vec<&InodeDelta>, bool)> {
        let mut entries = Vec::new();
        for layer in self.layers() {
            let Some(entry) = layer.inode(ino.0) else {
                continue;
            };
            if entry.freed.is_some() {
                // Free now, or the number's present life began above.
                return (!entries.is_empty()).then_some((entries, false));
            }
            let reborn = entry.reborn;
            entries.push(entry);
            if reborn {
                return Some((entries, false));
            }
        }
        Some((entries, true))
    }

    fn gather(&self, ino: InodeNo, from: u64, to: u64) -> Result<Gathered> {
        let (entries, below) = self.entries(ino).ok_or(Error::NoInode(ino))?;
        let overlays = entries
            .iter()
            .filter(|entry| entry.has_pending_blocks())
            .map(|entry| Overlay {
                ranges: entry.ranges.within(from, to).collect(),
                blocks: entry.blocks.range(from, to).collect(),
            })
            .collect();
        Ok(Gathered {
            overlays,
            below: below.then(|| Arc::clone(&self.base)),
        })
    }

    /// What the deltas alone say about one block, for the test of a move
    /// (protocol rule 18): `Pass` means the image's word stands.
    pub fn delta_answer(&self, ino: InodeNo, version: Version, block: u64) -> Answer {
        match self.entries(ino) {
            Some((entries, _)) if entries.first().is_some_and(|e| e.version != version) => {
                Answer::Hole
            }
            Some(layers) => answer(&layers, block, 1),
            None => Answer::Hole,
        }
    }

    /// Where the deltas say the newest image of `ino` is: `None` if it is
    /// free, `Some(None)` if the image below decides.
    pub fn delta_inode_place(&self, ino: InodeNo) -> Option<Option<(Version, InodePlace)>> {
        let (entries, below) = self.entries(ino)?;
        for entry in entries {
            if let Some(placed) = &entry.image {
                return Some(Some((entry.version, placed.place)));
            }
        }
        below.then_some(None)
    }

    /// Where the deltas say the extended attributes of `ino` are.
    pub fn delta_xattrs(&self, ino: InodeNo) -> Option<Option<Pointer>> {
        let (entries, below) = self.entries(ino)?;
        if let Some(pointer) = entries.iter().find_map(|entry| entry.xattrs) {
            return Some(Some(pointer));
        }
        Some((!below).then_some(Pointer::NONE))
    }
}

/// What entries of deltas, newest first, say about a block of so many sectors,
/// if there may be something below them.
fn answer((entries, below): &(Vec<&InodeDelta>, bool), block: u64, sectors: u8) -> Answer {
    let mut answers = entries.iter().map(|entry| entry.block(block, sectors));
    let above = answers.find(|answer| !matches!(answer, Answer::Pass));
    above.unwrap_or(if *below { Answer::Pass } else { Answer::Hole })
}

/// Answers questions about the committed state.
pub struct Lookup<'a> {
    /// The layers.
    pub(crate) committed: &'a crate::locks::RankedRwLock<Committed>,
    /// Reads the image.
    pub reader: &'a Reader,
    /// The volume's measures.
    pub geometry: &'a Geometry,
}

impl Lookup<'_> {
    /// Repeats a look-up whose image was replaced, and its segments reused,
    /// while it was being read.
    pub(crate) fn steady<T>(&self, look: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 0..8 {
            let before = self.committed.read().base.serial;
            match look() {
                Err(error)
                    if error.is_of_the_medium() && self.committed.read().base.serial != before => {}
                outcome => return outcome,
            }
        }
        look()
    }

    /// The newest image of `ino`, with the checkpoint's number if it is the
    /// checkpoint's. Its `root` is not to be relied on otherwise.
    ///
    /// # Errors
    /// `NoInode` for a free number; read errors.
    pub fn inode(&self, ino: InodeNo) -> Result<(Arc<InodeImage>, Option<u64>)> {
        self.steady(|| self.inode_once(ino))
    }

    fn inode_once(&self, ino: InodeNo) -> Result<(Arc<InodeImage>, Option<u64>)> {
        let base = {
            let committed = self.committed.read();
            let (entries, below) = committed.entries(ino).ok_or(Error::NoInode(ino))?;
            if let Some(placed) = entries.iter().find_map(|entry| entry.image.as_ref()) {
                return Ok((Arc::new(placed.image.clone()), None));
            }
            if !below {
                return Err(Error::NoInode(ino));
            }
            Arc::clone(&committed.base)
        };
        let image = base
            .inode(self.reader, self.geometry, ino)?
            .ok_or(Error::NoInode(ino))?;
        Ok((image, Some(base.serial)))
    }

    /// The version and place of the newest image of `ino`, and the serial of
    /// the checkpoint that was consulted.
    ///
    /// # Errors
    /// Read errors.
    pub fn inode_place(&self, ino: InodeNo) -> Result<(Option<(Version, InodePlace)>, u64)> {
        self.steady(|| self.inode_place_once(ino))
    }

    fn inode_place_once(&self, ino: InodeNo) -> Result<(Option<(Version, InodePlace)>, u64)> {
        let base = {
            let committed = self.committed.read();
            let serial = committed.base.serial;
            match committed.delta_inode_place(ino) {
                None => return Ok((None, serial)),
                Some(Some(place)) => return Ok((Some(place), serial)),
                Some(None) => Arc::clone(&committed.base),
            }
        };
        match base.imap(self.reader, self.geometry, ino)? {
            ImapState::Used { version, place, .. } => Ok((Some((version, place)), base.serial)),
            _ => Ok((None, base.serial)),
        }
    }

    /// Where the extended attributes of `ino` are; none if it has none.
    ///
    /// # Errors
    /// `NoInode`; read errors.
    pub fn xattrs(&self, ino: InodeNo) -> Result<Pointer> {
        self.steady(|| self.xattrs_once(ino))
    }

    fn xattrs_once(&self, ino: InodeNo) -> Result<Pointer> {
        let base = {
            let committed = self.committed.read();
            match committed.delta_xattrs(ino).ok_or(Error::NoInode(ino))? {
                Some(pointer) => return Ok(pointer),
                None => Arc::clone(&committed.base),
            }
        };
        let image = base
            .inode(self.reader, self.geometry, ino)?
            .ok_or(Error::NoInode(ino))?;
        Ok(image.xattrs)
    }

    /// The blocks of `ino` in `from..to` that exist, ascending, and the serial
    /// of the checkpoint that was consulted.
    ///
    /// # Errors
    /// `NoInode`; read errors.
    pub fn blocks(&self, ino: InodeNo, from: u64, to: u64) -> Result<(Vec<(u64, Pointer)>, u64)> {
        self.steady(|| self.blocks_once(ino, from, to))
    }

    fn blocks_once(&self, ino: InodeNo, from: u64, to: u64) -> Result<(Vec<(u64, Pointer)>, u64)> {
        let (gathered, serial) = {
            let committed = self.committed.read();
            (committed.gather(ino, from, to)?, committed.base.serial)
        };
        let block_sectors = (self.geometry.block_bytes / 512) as u8;
        let mut found: Vec<(u64, Pointer)> = Vec::new();
        if let Some(base) = &gathered.below
            && let Some(image) = base.inode(self.reader, self.geometry, ino)?
            && let Some(root) = &image.root
        {
            let tree = Tree {
                reader: self.reader,
                ino,
                root,
            };
            tree.blocks(from, to, &mut |block, pointer| {
                found.push((block, pointer));
                true
            })?;
        }
        if gathered.overlays.is_empty() {
            return Ok((found, serial));
        }
        let mut merged: BTreeMap<u64, Pointer> = found.into_iter().collect();
        for overlay in gathered.overlays.iter().rev() {
            for &(start, end, state) in &overlay.ranges {
                let mut high = merged.split_off(&start);
                merged.append(&mut high.split_off(&end));
                if let RangeState::Unwritten(birth) = state {
                    merged.extend(
                        (start..end).map(|b| (b, Pointer::unwritten_block(block_sectors, birth))),
                    );
                }
            }
            merged.extend(overlay.blocks.iter().copied());
        }
        Ok((merged.into_iter().collect(), serial))
    }

    /// Where each of these blocks of `ino` is, ascending, or none; and the serial
    /// of the checkpoint that was consulted. `go_on` is asked before each; behind
    /// its first no come none.
    ///
    /// # Errors
    /// As [`Lookup::blocks`].
    pub fn pointers(
        &self,
        ino: InodeNo,
        blocks: &[u64],
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Vec<Option<Pointer>>, u64)> {
        self.steady(|| self.pointers_once(ino, blocks, go_on))
    }

    fn pointers_once(
        &self,
        ino: InodeNo,
        blocks: &[u64],
        go_on: &dyn Fn() -> bool,
    ) -> Result<(Vec<Option<Pointer>>, u64)> {
        let sectors = (self.geometry.block_bytes / 512) as u8;
        let (answers, base) = {
            let committed = self.committed.read();
            let layers = committed.entries(ino).ok_or(Error::NoInode(ino))?;
            let answers: Vec<Answer> = (blocks.iter())
                .map(|block| answer(&layers, *block, sectors))
                .collect();
            (answers, Arc::clone(&committed.base))
        };
        let asks_below = answers.iter().any(|answer| matches!(answer, Answer::Pass));
        let image = match asks_below {
            true => base.inode(self.reader, self.geometry, ino)?,
            false => None,
        };
        let tree = image
            .as_ref()
            .and_then(|image| image.root.as_ref())
            .map(|root| Tree {
                reader: self.reader,
                ino,
                root,
            });
        let mut cursor = tree.as_ref().map(Tree::cursor);
        let mut below = |block| cursor.as_mut().map_or(Ok(None), |cursor| cursor.get(block));
        let found = answers
            .into_iter()
            .zip(blocks)
            .take_while(|_| go_on())
            .map(|(answer, block)| match answer {
                Answer::At(pointer) => Ok(Some(pointer)),
                Answer::Hole => Ok(None),
                Answer::Pass => below(*block),
            })
            .collect::<Result<_>>()?;
        Ok((found, base.serial))
    }

    /// The first block at or after `from` that exists.
    ///
    /// # Errors
    /// As [`Lookup::blocks`].
    pub fn next_block(&self, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        self.steady(|| self.next_block_once(ino, from))
    }

    fn next_block_once(&self, ino: InodeNo, mut from: u64) -> Result<Option<u64>> {
        loop {
            // Of one moment: a checkpoint that is installed between two looks
            // takes blocks from a delta that is not asked any more into an
            // image that was asked before.
            let (newer, below) = self.next_in_deltas(ino, from)?;
            // What the image has next bounds the span worth merging.
            let candidate = self.next_in_image(below.as_deref(), ino, from)?;
            let Some(next) = [candidate, newer].into_iter().flatten().min() else {
                return Ok(None);
            };
            if !self.blocks(ino, next, next + 1)?.0.is_empty() {
                return Ok(Some(next));
            }
            let newer = self.next_in_deltas(ino, next + 1)?.0.unwrap_or(u64::MAX);
            from = self.end_of_hole(ino, next)?.max(next + 1).min(newer);
        }
    }

    fn next_in_image(&self, base: Option<&Base>, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        let Some(base) = base else { return Ok(None) };
        let mut next = None;
        if let Some(image) = base.inode(self.reader, self.geometry, ino)?
            && let Some(root) = &image.root
        {
            Tree {
                reader: self.reader,
                ino,
                root,
            }
            .blocks(from, u64::MAX, &mut |block, _| {
                next = Some(block);
                false
            })?;
        }
        Ok(next)
    }

    /// The first block that a delta names, and the image below, if it can hold
    /// any.
    fn next_in_deltas(&self, ino: InodeNo, from: u64) -> Result<(Option<u64>, Option<Arc<Base>>)> {
        let committed = self.committed.read();
        let (entries, below) = committed.entries(ino).ok_or(Error::NoInode(ino))?;
        let next = entries
            .iter()
            .flat_map(|entry| {
                let block = entry.blocks.range(from, u64::MAX).next().map(|(b, _)| b);
                let range = entry
                    .ranges
                    .within(from, u64::MAX)
                    .find(|(_, _, state)| *state != RangeState::Hole)
                    .map(|(start, _, _)| start);
                [block, range]
            })
            .flatten()
            .min();
        Ok((next, below.then(|| Arc::clone(&committed.base))))
    }

    /// Behind the newest hole range that covers `block`.
    fn end_of_hole(&self, ino: InodeNo, block: u64) -> Result<u64> {
        let committed = self.committed.read();
        let (entries, _) = committed.entries(ino).ok_or(Error::NoInode(ino))?;
        Ok(entries
            .iter()
            .find_map(|entry| {
                let (_, end, state) = entry.ranges.within(block, block + 1).next()?;
                if state != RangeState::Hole {
                    return None;
                }
                // Blocks written into the hole end it early.
                let (_, whole_end, _) = entry.ranges.within(block, u64::MAX).next()?;
                let written = entry.blocks.range(block, whole_end).next().map(|(b, _)| b);
                Some(written.unwrap_or(whole_end).max(end))
            })
            .unwrap_or(block + 1))
    }
}
