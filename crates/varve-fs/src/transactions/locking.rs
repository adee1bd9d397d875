//! Locking transactions: strict two-phase locks on parts of files.
//!
//! | object | read | written by |
//! |---|---|---|
//! | `Content`, then `Page` with a span | IR, then R | IW, then W; many pages: R or W of all |
//! | `Size` | reads that reach the end, `stat` | what changes it |
//! | `Attributes` | `stat` | what changes owner, rights, flags, attributes |
//! | `Names`, then `Name` | IR, then R; a listing: R of all | IW, then W |
//! | `Place` | | a directory's move |
//!
//! A cut takes W of `Content`, so who uses a page inside the size need not lock that.
//! Of a file whose content lies in the inode the whole page is locked, always.
//!
//! Locks are kept to the end. When one is granted, what the private tree had copied of
//! that part may be out of date, as others may have committed in between; it is taken
//! from the ground again, but for what was changed here ([`refresh`]).

use super::isolation::{Access, Kind, Part};
use super::merge::lay_spans;
use super::validate::STORED;
use crate::directory;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::inode::flags;
use crate::layout::Layout;
use crate::memory::store::Store;
use crate::memory::vnode::{Ground, State, Vnode};
use crate::types::InodeNo;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use varve_device::sync::atomic::{AtomicBool, Ordering::SeqCst};
use varve_locks::{LockError, LockTable, Mode, OwnerId};

/// What locks are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    Content(InodeNo),
    Page(InodeNo, u64),
    Size(InodeNo),
    Attributes(InodeNo),
    Names(InodeNo),
    /// By the first cookie that the name may have.
    Name(InodeNo, u64),
    /// Where directories are.
    Place,
}

/// A file's content is locked as a whole rather than in more pages than this.
const PAGES_MAX: u64 = 64;

/// A private tree's part in the table.
pub(crate) struct Locking {
    pub table: Arc<LockTable<Object>>,
    pub owner: OwnerId,
    /// How long it waits for each.
    pub timeout: Option<Duration>,
    /// Pages are locked by the bytes that are used.
    pub subpage: bool,
    /// It has not got a lock, and is over.
    pub doomed: AtomicBool,
}

impl Locking {
    fn lock(&self, object: Object, mode: Mode) -> Result<()> {
        let locked = self.table.lock(self.owner, &object, mode, self.timeout);
        locked.map_err(refused)
    }

    /// The locks of a part.
    pub(super) fn take<L: Layout>(
        &self,
        fs: &FileSystem<L>,
        vnode: &Vnode,
        part: &Part<'_>,
        access: Access,
    ) -> Result<()> {
        let ino = vnode.ino;
        let (intention, mode) = match access {
            Access::Read => (Mode::IntentionRead, Mode::Read),
            Access::Write => (Mode::IntentionWrite, Mode::Write),
        };
        match part {
            Part::Content(bytes) => self.take_pages(fs, ino, bytes, (intention, mode)),
            Part::Size => self.lock(Object::Size(ino), mode),
            Part::Attributes => self.lock(Object::Attributes(ino), mode),
            Part::Name(name) => {
                let cookies = directory::cookies(&fs.store.key(vnode), name);
                self.lock(Object::Names(ino), intention)?;
                self.lock(Object::Name(ino, *cookies.start()), mode)
            }
            Part::Names => self.lock(Object::Names(ino), mode),
            Part::Place => self.lock(Object::Place, mode),
            Part::All => {
                self.lock(Object::Content(ino), mode)?;
                self.lock(Object::Names(ino), mode)?;
                self.lock(Object::Size(ino), mode)?;
                self.lock(Object::Attributes(ino), mode)
            }
        }
    }

    fn take_pages<L: Layout>(
        &self,
        fs: &FileSystem<L>,
        ino: InodeNo,
        bytes: &Range<u64>,
        (intention, mode): (Mode, Mode),
    ) -> Result<()> {
        let first = bytes.start >> fs.store.block_shift;
        let last = bytes.end.saturating_sub(1).max(bytes.start) >> fs.store.block_shift;
        if last - first >= PAGES_MAX {
            return self.lock(Object::Content(ino), mode);
        }
        self.lock(Object::Content(ino), intention)?;
        for block in first..=last {
            let page = Object::Page(ino, block);
            let locked = match self.subpage {
                false => self.table.lock(self.owner, &page, mode, self.timeout),
                true => {
                    let span = fs.store.within(block, bytes);
                    let span = span.start as u32..span.end as u32;
                    self.table
                        .lock_span(self.owner, &page, span, mode, self.timeout)
                }
            };
            locked.map_err(refused)?;
        }
        Ok(())
    }
}

fn refused(error: LockError) -> Error {
    match error {
        LockError::Deadlock => Error::Deadlock,
        LockError::Timeout => Error::TimedOut,
        LockError::Cancelled => Error::Aborted,
    }
}

impl<L: Layout> FileSystem<L> {
    /// Takes the locks of a part, and what the ground has of it now.
    pub(super) fn lock_part(
        &self,
        locking: &Locking,
        vnode: &Arc<Vnode>,
        part: &Part<'_>,
        access: Access,
    ) -> Result<()> {
        if let Err(error) = locking.take(self, vnode, part, access) {
            // It has lost: who waits for it need not wait for its end.
            locking.doomed.store(true, SeqCst);
            locking.table.release_all(locking.owner);
            return Err(error);
        }
        if let Ground::Vnode(below) = &vnode.ground
            && !matches!(part, Part::Name(_) | Part::Names | Part::Place)
        {
            let mut state = vnode.write();
            refresh(&mut state, &below.read());
            if let Part::Content(bytes) = part
                && locking.subpage
            {
                self.rebase_pages(below, &mut state, bytes)?;
            }
        }
        Ok(())
    }

    /// Takes the locks for a read.
    pub(crate) fn uses_for_read(&self, vnode: &Arc<Vnode>, bytes: Range<u64>) -> Result<()> {
        let Some(below) = &self.below else {
            return Ok(());
        };
        let end = bytes.end;
        self.uses(vnode, Part::Content(bytes.clone()), Access::Read)?;
        self.whole_if_inline(vnode, &below.kind, Access::Read)?;
        if end > vnode.read().inode.size {
            self.uses(vnode, Part::Size, Access::Read)?;
        }
        Ok(())
    }

    /// Takes the locks for a write, at the end of the file if `at` is none, and notes
    /// which bytes of each page will be this tree's.
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
        self.whole_if_inline(
            vnode,
            &self.below.as_ref().expect("it locks").kind,
            Access::Write,
        )?;
        let mut from = at;
        if end > size() {
            self.uses(vnode, Part::Size, Access::Write)?;
            // The rest of the block in which the file ended becomes part of it.
            from = at.min(size());
            self.uses(vnode, Part::Content(from..end), Access::Write)?;
        }
        if locking.subpage {
            let blocks = from >> self.store.block_shift..self.store.blocks_of(end);
            vnode.write().note_spans(&self.store, blocks, at..end);
        }
        Ok(())
    }

    /// Where pages are locked by spans: all of the one that lies in the inode.
    fn whole_if_inline(&self, vnode: &Arc<Vnode>, kind: &Kind, access: Access) -> Result<()> {
        if let Kind::Locking(locking) = kind
            && locking.subpage
            && vnode.read().is_inline()
        {
            let block = 0..self.store.block_bytes as u64;
            return self.uses(vnode, Part::Content(block), access);
        }
        Ok(())
    }

    /// Pages of which only spans were written here are laid over the ground's anew.
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
            let page = lay_spans(ground, &dirty.data, &spans);
            let length = page.len();
            self.waits.block_changed(dirty.data.len(), length);
            let sectors = crate::memory::vnode::sectors_of;
            let (before, after) = (sectors(dirty.data.len()), sectors(length));
            crate::memory::vnode::adjust(&mut state.inode.sectors, before, after);
            dirty.data = page;
        }
        Ok(())
    }
}

impl State {
    /// These bytes are this tree's, and other parts of their blocks are not, unless
    /// they are already.
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

/// Takes from the ground what was not changed here.
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
    let mut followed = !STORED;
    if !own_content {
        inode.inline.clone_from(&now.inline);
        followed |= flags::INLINE;
    }
    if (inode.flags ^ origin.flags) & !STORED != 0 {
        followed &= STORED;
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
