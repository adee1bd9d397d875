//! Validation: whether the files that a private tree changed are unchanged in the target.
//!
//! The comparison is by value: the write that made a block, the file to which a name
//! refers, the attributes. Where values cannot be compared, as for a block that waits in
//! memory, the bytes are.

use super::Below;
use super::changes::Mine;
use super::commit::Pair;
use super::times;
use crate::error::{Contended, Error, Result};
use crate::file_system::FileSystem;
use crate::inode::{Inode, flags};
use crate::isolation::FileReads;
use crate::layout::{BlockPointer, Layout};
use crate::memory::overlay::Cover;
use crate::memory::private::Private;
use crate::memory::store::{Content, Loaded};
use crate::memory::vnode::{Life, State};
use crate::planted::{self, Planted};
use crate::types::{FileKind, InodeNo};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks compared at a time.
const CHUNK_BLOCKS: u64 = 1024;

impl State {
    /// The file's state below the private tree.
    pub(super) fn origin(&self) -> &Private {
        self.private.as_ref().expect("a file of the ground")
    }

    /// Runs of adjacent dirty blocks.
    pub(super) fn dirty_runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut blocks = self.dirty.keys().copied().peekable();
        std::iter::from_fn(move || {
            let first = blocks.next()?;
            let mut end = first + 1;
            while blocks.next_if_eq(&end).is_some() {
                end += 1;
            }
            Some(first..end)
        })
    }

    /// True if content or the size was changed.
    pub(super) fn has_new_content(&self) -> bool {
        self.has_data() || !self.pending.is_empty() || self.inode.size != self.origin().origin.size
    }
}

impl<L: Layout> FileSystem<L> {
    /// Checks a changed file for conflicts.
    ///
    /// # Errors
    /// `Conflict`; errors of reading the layout.
    pub(super) fn validate(&self, below: &Below<L>, pair: &Pair<'_>) -> Result<()> {
        let (mine, theirs) = (&*pair.mine.state, &*pair.state);
        let conflict = |of| Err(Error::conflict(pair.vnode.ino, of));
        let is_directory = pair.vnode.kind == FileKind::Directory;
        let origin = &mine.origin().origin;
        let gone = theirs.life != Life::Live || (theirs.inode.nlink == 0) != (origin.nlink == 0);
        let links = links_after(origin, &mine.inode, &theirs.inode);
        // Changes of a removed file were dropped, but the file got another name in the
        // target.
        let revived = mine.life != Life::Live && links > 0 && !is_directory;
        if gone || links < 0 || revived {
            return conflict(Contended::File);
        }
        let same_rights = || -> Result<bool> {
            Ok(same_rights(origin, &theirs.inode) && self.same_xattrs(below, pair)?)
        };
        if let Some(reads) = &pair.reads {
            if reads.attributes && !same_rights()? {
                return conflict(Contended::Attributes);
            }
            self.validate_reads(below, pair, reads)?;
            if !pair.is_changed() {
                return Ok(());
            }
        }
        if !same_rights()? {
            return conflict(Contended::Attributes);
        }
        if mine.life == Life::Live && times::are_contended(origin, &mine.inode, &theirs.inode) {
            return conflict(Contended::Times);
        }
        if is_directory {
            return self.validate_directory(below, pair);
        }
        if links == 0 && origin.nlink > 0 && below.snapshot.is_some() {
            return self.validate_removal(pair);
        }
        if mine.life == Life::Freed || !mine.has_new_content() {
            return Ok(());
        }
        if mine.inode.size != origin.size && theirs.inode.size != origin.size {
            return conflict(Contended::Size);
        }
        let stored_otherwise = (origin.flags ^ theirs.inode.flags) & flags::INLINE != 0;
        if below.snapshot.is_none() {
            // The private tree is above this very file. A caller without locks may have
            // changed it all the same, but the changes made here must have a place in it.
            return match theirs.inode.size < origin.size {
                true => conflict(Contended::Size),
                false if stored_otherwise => conflict(Contended::Content(0)),
                false => Ok(()),
            };
        }
        if stored_otherwise || origin.inline != theirs.inode.inline {
            return conflict(Contended::Content(0));
        }
        match self.first_difference(pair)? {
            Some(block) => conflict(Contended::Content(block << self.store.block_shift)),
            None => Ok(()),
        }
    }

    /// Checks that a file which loses its last name is unchanged: its removal is a change
    /// of all of it. If this is omitted, data that another process wrote meanwhile, and
    /// may have synced, is lost without a conflict.
    fn validate_removal(&self, pair: &Pair<'_>) -> Result<()> {
        let (origin, theirs) = (&pair.mine.state.origin().origin, &*pair.state);
        let conflict = |of| Err(Error::conflict(pair.vnode.ino, of));
        if pair.vnode.kind != FileKind::Regular {
            return Ok(());
        }
        if origin.size != theirs.inode.size {
            return conflict(Contended::Size);
        }
        if origin.inline != theirs.inode.inline {
            return conflict(Contended::Content(0));
        }
        match self.difference_within(pair, 0, u64::MAX)? {
            Some(block) => conflict(Contended::Content(block << self.store.block_shift)),
            None => Ok(()),
        }
    }

    /// Checks that the reads of a file would return the same now.
    fn validate_reads(&self, below: &Below<L>, pair: &Pair<'_>, reads: &FileReads) -> Result<()> {
        let theirs = &*pair.state;
        let origin = &pair.mine.state.origin().origin;
        let conflict = |of| Err(Error::conflict(pair.vnode.ino, of));
        if reads.size && origin.size != theirs.inode.size {
            return conflict(Contended::Size);
        }
        if !reads.blocks.is_empty() && origin.inline != theirs.inode.inline {
            return conflict(Contended::Content(0));
        }
        for (&from, &to) in &reads.blocks {
            if let Some(block) = self.difference_within(pair, from, to)? {
                return conflict(Contended::Content(block << self.store.block_shift));
            }
        }
        for name in reads.names.values().flatten() {
            let before = self.find_stored(pair.mine.vnode, &pair.mine.state, name)?;
            if below.target.find(pair.vnode, theirs, name)? != before {
                return conflict(Contended::Name(name.to_vec()));
            }
        }
        if reads.listed && !self.same_names(below, pair)? {
            return conflict(Contended::Directory);
        }
        if reads.times && times::are_outdated(pair.vnode.kind, origin, &theirs.inode) {
            return conflict(Contended::Times);
        }
        Ok(())
    }

    fn same_names(&self, below: &Below<L>, pair: &Pair<'_>) -> Result<bool> {
        let (mut before, mut now) = (Vec::new(), Vec::new());
        self.list_stored(
            pair.mine.vnode,
            &pair.mine.state,
            0,
            &mut |name, ino, kind, _| {
                before.push((name.to_vec(), ino, kind));
                true
            },
        )?;
        below
            .target
            .list(pair.vnode, &pair.state, 0, &mut |name, ino, kind, _| {
                now.push((name.to_vec(), ino, kind));
                true
            })?;
        Ok(before == now)
    }

    fn same_xattrs(&self, below: &Below<L>, pair: &Pair<'_>) -> Result<bool> {
        let (mine, theirs) = (&*pair.mine.state, &*pair.state);
        let bytes = mine.origin().origin.xattr_bytes;
        if bytes != theirs.inode.xattr_bytes {
            return Ok(false);
        }
        if bytes == 0 {
            return Ok(true);
        }
        if below.snapshot.is_none() {
            // The private tree is above this very file, which is locked.
            let now = || self.store.xattrs(pair.vnode, theirs);
            let before = mine.origin().xattrs.as_ref();
            return before.map_or(Ok(true), |before| Ok(*before == now()?));
        }
        let before = self.store.xattrs_below(pair.mine.vnode);
        Ok(before? == self.store.xattrs(pair.vnode, theirs)?)
    }

    fn validate_directory(&self, below: &Below<L>, pair: &Pair<'_>) -> Result<()> {
        let (mine, theirs) = (&*pair.mine.state, &*pair.state);
        let private = mine.origin();
        let conflict = |of| Err(Error::conflict(pair.vnode.ino, of));
        if mine.inode.parent != private.origin.parent
            && theirs.inode.parent != private.origin.parent
        {
            return conflict(Contended::Directory);
        }
        for (_, change) in private.names.iter() {
            if planted::is(Planted::NamesUnvalidated) {
                break;
            }
            if below.target.find(pair.vnode, theirs, &change.name)? != change.before {
                return conflict(Contended::Name(change.name.to_vec()));
            }
        }
        Ok(())
    }

    /// Checks that no directory would be below itself: each moved one is followed up to
    /// the root, by the places that directories will have.
    pub(super) fn validate_moves(
        &self,
        target: &FileSystem<L>,
        pairs: &[Pair<'_>],
        new: &[Mine<'_>],
    ) -> Result<()> {
        let directories = pairs.iter().map(|pair| &pair.mine);
        let directories = directories
            .chain(new)
            .filter(|mine| mine.vnode.kind == FileKind::Directory && mine.state.life == Life::Live);
        let places: HashMap<InodeNo, InodeNo> = directories
            .filter(|mine| mine.has_moved())
            .map(|mine| (mine.vnode.ino, mine.state.inode.parent))
            .collect();
        for &moved in places.keys() {
            let mut seen = BTreeSet::new();
            let mut at = moved;
            while at != InodeNo::ROOT {
                if !seen.insert(at) {
                    return Err(Error::conflict(moved, Contended::Directory));
                }
                at = match places.get(&at) {
                    Some(above) => *above,
                    None => InodeNo(target.vnode(at)?.above.load(Relaxed)),
                };
            }
        }
        Ok(())
    }

    /// The first block that this file changed and that has changed in the target.
    fn first_difference(&self, pair: &Pair<'_>) -> Result<Option<u64>> {
        let mine = &*pair.mine.state;
        if mine.is_inline() {
            return self.difference_within(pair, 0, u64::MAX);
        }
        let ranges = mine.pending.within(0, u64::MAX);
        let ranges = ranges.map(|(from, to, _)| from..to);
        for Range { start, end } in mine.dirty_runs().chain(ranges) {
            if let Some(block) = self.difference_within(pair, start, end)? {
                return Ok(Some(block));
            }
        }
        // A cut within a block leaves no other trace.
        match mine.inode.size < mine.origin().origin.size {
            true => {
                let last = mine.inode.size >> self.store.block_shift;
                self.difference_within(pair, last, last + 1)
            }
            false => Ok(None),
        }
    }

    fn difference_within(&self, pair: &Pair<'_>, from: u64, to: u64) -> Result<Option<u64>> {
        let (origin, theirs) = (&pair.mine.state.origin().origin, &*pair.state);
        let end = self.store.blocks_of(origin.size.max(theirs.inode.size));
        let mut at = from;
        let to = to.min(end);
        while at < to {
            if origin.size == theirs.inode.size {
                // Holes on both sides are equal, and may be too long to be walked.
                let before = self.store.next_below(pair.mine.vnode, at)?;
                let now = self.store.next_existing(pair.vnode, theirs, at)?;
                match before.into_iter().chain(now).min() {
                    Some(next) if next < to => at = next.max(at),
                    _ => break,
                }
            }
            let chunk = CHUNK_BLOCKS.min(to - at);
            let before = self.store.mapped_below(pair.mine.vnode, at, chunk)?;
            let now = self.store.mapped_below(pair.vnode, at, chunk)?;
            let before: HashMap<u64, _> = before.iter().map(|m| (m.block, m.content)).collect();
            let now: HashMap<u64, _> = now.iter().map(|m| (m.block, m.content)).collect();
            for block in at..at + chunk {
                let same_place = match (before.get(&block), now.get(&block)) {
                    (None, None) => true,
                    (Some(Content::At(a)), Some(Content::At(b))) => a.same_write(b),
                    _ => false,
                };
                let overlaid = theirs.dirty.contains_key(&block)
                    || theirs.pending.at(block).is_some()
                    || theirs.flying.at(block).is_some();
                let same = self.visible(origin, block) == self.visible(&theirs.inode, block)
                    && (same_place && !overlaid || self.same_bytes(pair, block)?);
                if !same {
                    return Ok(Some(block));
                }
            }
            at += chunk;
        }
        Ok(None)
    }

    /// Bytes of a block that belong to a file.
    fn visible(&self, inode: &Inode, block: u64) -> usize {
        let left = inode.size.saturating_sub(block << self.store.block_shift);
        left.min(self.store.block_bytes as u64) as usize
    }

    fn same_bytes(&self, pair: &Pair<'_>, block: u64) -> Result<bool> {
        let visible = self.visible(&pair.state.inode, block);
        let before = self.store.load_below(pair.mine.vnode, block)?;
        let now = match pair.state.dirty.get(&block) {
            Some(dirty) => Some(Loaded {
                data: self.store.content_of(pair.vnode.ino, block, dirty)?,
                sectors: 0,
            }),
            None => self.store.load(pair.vnode, &pair.state, block)?,
        };
        let (before, now) = (bytes(&before), bytes(&now));
        let common = visible.min(before.len()).min(now.len());
        let zeros = |rest: &[u8]| {
            let rest = rest.get(common..visible.min(rest.len()).max(common));
            rest.is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
        };
        Ok(before[..common] == now[..common] && zeros(before) && zeros(now))
    }
}

impl Mine<'_> {
    fn has_moved(&self) -> bool {
        let origin = self
            .state
            .private
            .as_ref()
            .map(|private| private.origin.parent);
        origin != Some(self.state.inode.parent)
    }
}

fn bytes(loaded: &Option<Loaded>) -> &[u8] {
    loaded.as_ref().map_or(&[], |loaded| &loaded.data)
}

/// Number of names of a file after the merge.
pub(super) fn links_after(origin: &Inode, mine: &Inode, theirs: &Inode) -> i64 {
    i64::from(theirs.nlink) + i64::from(mine.nlink) - i64::from(origin.nlink)
}

/// True if the rights on a file are unchanged.
fn same_rights(origin: &Inode, theirs: &Inode) -> bool {
    let rights = |inode: &Inode| {
        let flags = inode.flags & !flags::STORED;
        (inode.mode, inode.uid, inode.gid, flags, inode.project)
    };
    rights(origin) == rights(theirs)
}

/// True for ranges of a cover that are made holes first.
pub(super) fn clears(cover: Cover) -> bool {
    cover != Cover::Reserved { cleared: false }
}
