//! Locking transactions: taking the locks of a part of a file, and then its newest
//! content from the tree below.
//!
//! Locks are kept to the end. When one is granted, the private tree's copy of that part
//! may be outdated, as others may have committed in between. It is then copied again,
//! except for changes made here ([`refresh`]).

use crate::error::Result;
use crate::file_system::FileSystem;
use crate::inode::{Inode, flags};
use crate::isolation::{Access, Kind, Locking, Part};
use crate::layout::Layout;
use crate::memory::body::Body;
use crate::memory::store::Store;
use crate::memory::vnode::{Dirty, Ground, State, Vnode, adjust, sectors_of};
use crate::planted::{self, Planted};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use varve_device::Block;
use varve_device::sync::atomic::Ordering::SeqCst;

impl<L: Layout> FileSystem<L> {
    /// Takes the locks of a part, and its newest content from the tree below.
    pub(super) fn lock_part(
        &self,
        locking: &Locking,
        vnode: &Arc<Vnode>,
        part: &Part<'_>,
        access: Access,
    ) -> Result<()> {
        self.place_before(locking, vnode, part, access)?;
        self.lock_as_it_is(locking, vnode, part, access)
    }

    /// [`Self::lock_part`] where no bytes wait to be appended, or they are about to be
    /// placed.
    fn lock_as_it_is(
        &self,
        locking: &Locking,
        vnode: &Arc<Vnode>,
        part: &Part<'_>,
        access: Access,
    ) -> Result<()> {
        if let Err(error) = locking.take(&self.store, vnode, part, access) {
            // The transaction has lost: those that wait for its locks need not wait for
            // its end.
            locking.doomed.store(true, SeqCst);
            locking.table.release_all(locking.owner);
            return Err(error);
        }
        if matches!(
            part,
            Part::Name(_) | Part::Names | Part::Place | Part::End | Part::Times
        ) || planted::is(Planted::StaleOverlay)
        {
            return Ok(());
        }
        self.take_anew(vnode, part, locking.subpage)
    }

    /// Copies a part from the tree below again, except for changes made here. The
    /// outermost tree is first, because a parent's copy is as old as a nested one's.
    fn take_anew(&self, vnode: &Arc<Vnode>, part: &Part<'_>, subpage: bool) -> Result<()> {
        let (Some(own), Ground::Vnode(below)) = (&self.below, &vnode.ground) else {
            return Ok(());
        };
        own.target.take_anew(below, part, subpage)?;
        let mut state = vnode.write();
        refresh(&mut state, &below.read());
        match part {
            Part::Content(bytes) if subpage => self.rebase_pages(below, &mut state, bytes),
            _ => Ok(()),
        }
    }

    /// Takes the locks for a read, which a write may follow.
    pub(crate) fn uses_for_read(
        &self,
        vnode: &Arc<Vnode>,
        bytes: Range<u64>,
        access: Access,
    ) -> Result<()> {
        let Some(below) = &self.below else {
            return Ok(());
        };
        let end = bytes.end;
        self.uses(vnode, Part::Content(bytes.clone()), access)?;
        if let Kind::Locking(locking) = &below.kind {
            self.whole_if_inline(vnode, locking, access)?;
        }
        if end > vnode.read().inode.size {
            self.uses(vnode, Part::Size, access)?;
        }
        Ok(())
    }

    /// Takes the locks for a write, at the end of the file if `at` is `None`.
    pub(crate) fn uses_for_write(
        &self,
        vnode: &Arc<Vnode>,
        at: Option<u64>,
        bytes: u64,
    ) -> Result<()> {
        let Some(Kind::Locking(locking)) = self.below.as_ref().map(|below| &below.kind) else {
            return Ok(());
        };
        let size = || vnode.read().inode.size;
        let at = match at {
            Some(at) => at,
            None => {
                self.uses(vnode, Part::Size, Access::Write)?;
                size()
            }
        };
        let end = at.saturating_add(bytes);
        self.uses(vnode, Part::Content(at..end), Access::Write)?;
        self.whole_if_inline(vnode, locking, Access::Write)?;
        if end > size() {
            self.uses(vnode, Part::Size, Access::Write)?;
            // The rest of the block in which the file ended becomes part of it.
            let from = at.min(size());
            self.uses(vnode, Part::Content(from..end), Access::Write)?;
        } else if end > size() >> self.store.block_shift << self.store.block_shift
            && (!locking.subpage || vnode.read().is_inline())
        {
            // The block is written as a whole, so no other transaction may append to it
            // meanwhile.
            self.uses(vnode, Part::Size, Access::Read)?;
        }
        Ok(())
    }

    /// Takes the locks for placing `bytes` at the end.
    pub(crate) fn lock_end(&self, locking: &Locking, vnode: &Arc<Vnode>, bytes: u64) -> Result<()> {
        let lock = |part| self.lock_as_it_is(locking, vnode, &part, Access::Write);
        lock(Part::Size)?;
        let (size, inline) = {
            let state = vnode.read();
            (state.inode.size, state.is_inline())
        };
        lock(Part::Content(size..size.saturating_add(bytes)))?;
        match locking.subpage && inline {
            true => lock(Part::Content(0..self.store.block_bytes as u64)),
            false => Ok(()),
        }
    }

    /// Where pages are locked by spans: records that these bytes of each page are this
    /// tree's, with the zeros between the former end and them. Called with the file
    /// locked, before they are written: the offset of an append is not known earlier, as
    /// threads may share the transaction, and with it the lock of the size.
    pub(crate) fn notes_write(&self, state: &mut State, bytes: Range<u64>) {
        let Some(below) = &self.below else {
            return;
        };
        if matches!(&below.kind, Kind::Locking(locking) if locking.subpage) {
            let from = bytes.start.min(state.inode.size);
            let blocks = from >> self.store.block_shift..self.store.blocks_of(bytes.end);
            state.note_spans(&self.store, blocks, from..bytes.end);
        }
    }

    /// Where pages are locked by spans: takes the lock of the whole page of inline
    /// content.
    fn whole_if_inline(&self, vnode: &Arc<Vnode>, locking: &Locking, access: Access) -> Result<()> {
        if locking.subpage && vnode.read().is_inline() {
            let block = 0..self.store.block_bytes as u64;
            return self.uses(vnode, Part::Content(block), access);
        }
        Ok(())
    }

    /// Replaces the content of a dirty block.
    pub(crate) fn exchange_dirty(&self, inode: &mut Inode, dirty: &mut Dirty, data: Body) {
        let (before, after) = (dirty.data.len(), data.len());
        adjust(&mut inode.sectors, sectors_of(before), sectors_of(after));
        self.waits
            .block_changed(dirty.data.resident(), data.resident());
        dirty.data = data;
        dirty.flying = false;
    }

    /// Lays the spans that were written here over the newest pages of the tree below.
    fn rebase_pages(&self, below: &Vnode, state: &mut State, bytes: &Range<u64>) -> Result<()> {
        let Some(private) = &state.private else {
            return Ok(());
        };
        let first = bytes.start >> self.store.block_shift;
        let spans = private.spans.range(first..self.store.blocks_of(bytes.end));
        let spans: Vec<_> = spans
            .map(|(block, spans)| (*block, spans.clone()))
            .collect();
        for (block, spans) in spans {
            if !state.dirty.contains_key(&block) {
                continue;
            }
            let ground = self.store.load_newest(below, block)?;
            let Some(dirty) = state.dirty.get_mut(&block) else {
                continue;
            };
            let ground = ground.as_ref().map_or(&[][..], |loaded| &loaded.data);
            let mine = self.store.content_of(below.ino, block, dirty)?;
            let page = lay_spans(ground, &mine, &spans);
            self.exchange_dirty(&mut state.inode, dirty, page.into());
        }
        Ok(())
    }
}

impl State {
    /// Records that these bytes are this tree's, and other parts of their blocks are not,
    /// unless they are already.
    fn note_spans<L: Layout>(&mut self, store: &Store<L>, blocks: Range<u64>, bytes: Range<u64>) {
        let inline = self.is_inline();
        let Some(private) = &mut self.private else {
            return;
        };
        for block in blocks {
            let mine = inline || self.dirty.contains_key(&block);
            if mine && !private.spans.contains_key(&block) {
                continue;
            }
            let span = store.within(block, &bytes);
            let spans = private.spans.entry(block).or_default();
            spans.push(span.start as u32..span.end as u32);
        }
    }
}

/// A page `there` with these bytes of `mine` in it.
pub(crate) fn lay_spans(there: &[u8], mine: &[u8], spans: &[Range<u32>]) -> Arc<Block> {
    let mut page = Block::from(there);
    for span in spans {
        let end = (span.end as usize).min(mine.len());
        let start = (span.start as usize).min(end);
        if page.len() < end {
            page.resize(end);
        }
        page[start..end].copy_from_slice(&mine[start..end]);
        // A page that ends before its span has zeros there.
        let rest = page.len().min(span.end as usize);
        page[end.max(span.start as usize).min(rest)..rest].fill(0);
    }
    Arc::new(page)
}

/// Copies all attributes from the tree below that were not changed here.
fn refresh(mine: &mut State, ground: &State) {
    let Some(private) = &mut mine.private else {
        return;
    };
    let (origin, inode) = (&mut private.origin, &mut mine.inode);
    let now = &ground.inode;
    macro_rules! follow {
        ($($field:ident),*) => {$(
            if inode.$field == origin.$field {
                inode.$field = now.$field;
            }
            origin.$field = now.$field;
        )*};
    }
    follow!(size, mode, uid, gid, project, atime, mtime, ctime, parent);
    let own_content = mine.inline_dirty || !mine.dirty.is_empty() || !mine.pending.is_empty();
    let mut followed = !flags::STORED;
    if !own_content {
        inode.inline.clone_from(&now.inline);
        followed |= flags::INLINE;
    }
    if (inode.flags ^ origin.flags) & !flags::STORED != 0 {
        followed &= flags::STORED;
    }
    inode.flags = inode.flags & !followed | now.flags & followed;
    origin.flags = now.flags;
    origin.inline.clone_from(&now.inline);
    let follow = |mine: u64, origin: u64, now: u64| now.wrapping_add(mine).wrapping_sub(origin);
    inode.nlink = follow(inode.nlink.into(), origin.nlink.into(), now.nlink.into()) as u32;
    origin.nlink = now.nlink;
    inode.blocks = follow(inode.blocks, origin.blocks, now.blocks);
    inode.sectors = follow(inode.sectors, origin.sectors, now.sectors);
    mine.logged.blocks = follow(mine.logged.blocks, origin.blocks, now.blocks);
    mine.logged.sectors = follow(mine.logged.sectors, origin.sectors, now.sectors);
    (origin.blocks, origin.sectors) = (now.blocks, now.sectors);
    if !mine.xattrs_dirty && origin.xattr_bytes != now.xattr_bytes {
        mine.xattrs = OnceLock::new();
        inode.xattr_bytes = now.xattr_bytes;
    }
    origin.xattr_bytes = now.xattr_bytes;
    mine.mapped_end = None;
}
