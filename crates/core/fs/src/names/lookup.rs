//! Looking names up, and the common parts of all changes of names.

use crate::account::prices::{NAME_BYTES, REMOVAL_BYTES};
use crate::attr::{Attr, Caller};
use crate::attributes::file_flags::may_change;
use crate::attributes::permission::{EXECUTE, WRITE};
use crate::directory;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Kind, Part};
use crate::layout::{Layout, Purpose, Usage};
use crate::memory::name_changes::Found;
use crate::memory::vnode::{State, Vnode};
use crate::names::directory_blocks::{Changed, Searched};
use crate::space::Number;
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Most links of a file.
pub(crate) const LINKS_MAX: u32 = u32::MAX / 2;

/// An entry that may be removed next.
pub(crate) enum NamedEntry {
    /// In the directory's blocks.
    Stored(directory::SearchedEntry),
    /// In a directory of a private tree.
    Overlaid(Found),
}

impl NamedEntry {
    pub fn leads_to(&self) -> Found {
        match self {
            NamedEntry::Stored(entry) => entry.leads_to(),
            NamedEntry::Overlaid(found) => *found,
        }
    }
}

impl<L: Layout> FileSystem<L> {
    /// Attributes of the file to which a name refers; `.` and `..` work.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `AccessDenied`, `NameTooLong`, `Stale`, `Damaged`,
    /// device errors.
    pub fn lookup(&self, caller: &Caller, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.look_up(caller, parent, name, 0)
    }

    /// [`Self::lookup`] that takes a reference for the caller, to be dropped by
    /// [`Self::release`]. From then on no other file can get its number. In a
    /// transaction, size and times are not locked and may be read by [`Self::getattr`]: a
    /// transaction that goes on to write must not exclude others that write elsewhere in
    /// the file.
    ///
    /// # Errors
    /// As [`Self::lookup`].
    pub fn lookup_held(&self, caller: &Caller, parent: InodeNo, name: &[u8]) -> Result<Attr> {
        self.look_up(caller, parent, name, 1)
    }

    fn look_up(&self, caller: &Caller, parent: InodeNo, name: &[u8], holds: u64) -> Result<Attr> {
        count(&self.store.counters.lookups, 1);
        let directory = self.vnode(parent)?;
        directory.directory()?;
        let outside = self.as_outsider(&[(&directory, Part::Name(name), Access::Read)])?;
        let vnode = {
            let state = directory.read_directory();
            state.live()?;
            self.permit(caller, &directory, &state, EXECUTE)?;
            let vnode = match name {
                b"." => Arc::clone(&directory),
                b".." => self.above(&directory, &state)?,
                _ => {
                    let found = self.find(&directory, &state, name)?;
                    self.named(parent, found.ok_or(Error::NotFound)?)?
                }
            };
            // While the directory is locked the name remains, and with it the file.
            vnode.refs.fetch_add(holds, Relaxed);
            vnode
        };
        drop(outside);
        if self.below.is_some() {
            self.use_found(&vnode, holds)?;
        }
        let state = vnode.read();
        if state.live().is_err() {
            // Not referenced, and removed since; or damage counted too few names.
            vnode.refs.fetch_sub(holds, Relaxed);
            return Err(Error::NotFound);
        }
        Ok(vnode.attr(&state, self.store.geometry.block_bytes))
    }

    /// Notes that a transaction has seen the attributes of a file that it looked up.
    /// Without a reference it has seen the whole answer, size and times included: a
    /// kernel asks so, and answers later queries itself. The size of a directory is then
    /// left out for a serializable transaction, because each path contains several
    /// directories.
    #[cold]
    fn use_found(&self, vnode: &Arc<Vnode>, holds: u64) -> Result<()> {
        let kind = self.below.as_ref().map(|below| &below.kind);
        let compares = matches!(kind, Some(Kind::Serializable(_)));
        let parts = [Part::Attributes, Part::Times, Part::Size];
        let seen = match holds {
            0 if compares && vnode.kind == FileKind::Directory => 2,
            0 => 3,
            _ => 1,
        };
        let used = parts
            .into_iter()
            .take(seen)
            .try_for_each(|part| self.uses(vnode, part, Access::Read));
        used.inspect_err(|_| {
            vnode.refs.fetch_sub(holds, Relaxed);
        })
    }

    /// The parent of a locked directory. It cannot be removed meanwhile, unless the child
    /// was removed already.
    fn above(&self, directory: &Arc<Vnode>, state: &State) -> Result<Arc<Vnode>> {
        if directory.ino == InodeNo::ROOT {
            return Ok(Arc::clone(directory));
        }
        if state.inode.nlink == 0 {
            return Err(Error::NotFound);
        }
        match self.vnode(state.inode.parent) {
            Ok(above) if above.kind == FileKind::Directory => Ok(above),
            Ok(_) | Err(Error::Stale) => Err(Error::Damaged {
                ino: Some(directory.ino),
                detail: format!("it lies in {:?}, which is no directory", state.inode.parent),
            }),
            Err(error) => Err(error),
        }
    }

    /// The directory that has a directory's name; the root is its own parent.
    ///
    /// # Errors
    /// `NotDirectory`, `Stale`, `Damaged`, device errors.
    pub fn parent(&self, ino: InodeNo) -> Result<InodeNo> {
        let vnode = self.vnode(ino)?;
        vnode.directory()?;
        let state = vnode.read();
        state.live()?;
        Ok(state.inode.parent)
    }

    /// Begins an operation that may add a name to `parent`.
    pub(crate) fn begin_in(
        &self,
        parent: InodeNo,
        growth: Usage,
    ) -> Result<(Arc<Vnode>, crate::account::Operation<'_>)> {
        let directory = self.vnode(parent)?;
        directory.directory()?;
        let operation = self.begin(self.with_name(growth), NAME_BYTES, Purpose::Grow)?;
        Ok((directory, operation))
    }

    /// [`Self::begin_in`] for a new inode. Its number is allocated first, while numbers
    /// of removed files can still be freed.
    pub(crate) fn begin_making(
        &self,
        parent: InodeNo,
        growth: Usage,
        kind: FileKind,
    ) -> Result<(Arc<Vnode>, Number<'_, L>, crate::account::Operation<'_>)> {
        let number = self.take_number(parent, kind)?;
        let (directory, operation) = self.begin_in(parent, growth)?;
        Ok((directory, number, operation))
    }

    /// Begins an operation that only removes a name from `parent`.
    pub(crate) fn begin_removal(
        &self,
        parent: InodeNo,
    ) -> Result<(Arc<Vnode>, crate::account::Operation<'_>)> {
        let directory = self.vnode(parent)?;
        directory.directory()?;
        let operation = self.begin(Usage::default(), REMOVAL_BYTES, Purpose::Shrink)?;
        Ok((directory, operation))
    }

    /// Adds the growth of a new name to `growth`.
    pub(crate) fn with_name(&self, growth: Usage) -> Usage {
        let blocks = directory::INSERT_BLOCKS_MAX;
        Usage {
            inodes: growth.inodes,
            blocks: growth.blocks + blocks,
            sectors: growth.sectors + blocks * self.store.sectors_per_block(),
        }
    }

    /// Checks that the caller may add a name.
    ///
    /// # Errors
    /// `NotFound` for a directory that was removed, `AccessDenied`, `NotPermitted` if it
    /// is immutable.
    pub(crate) fn may_enter(
        &self,
        caller: &Caller,
        directory: &Vnode,
        state: &State,
    ) -> Result<()> {
        state.live()?;
        may_change(&state.inode)?;
        self.permit(caller, directory, state, WRITE | EXECUTE)?;
        if state.inode.nlink == 0 {
            Err(Error::NotFound)
        } else {
            Ok(())
        }
    }

    /// Searches a directory.
    #[inline]
    pub(crate) fn find(
        &self,
        vnode: &Arc<Vnode>,
        state: &State,
        name: &[u8],
    ) -> Result<Option<Found>> {
        if let Some(private) = &state.private {
            return self.find_overlaid(vnode, state, private, name);
        }
        self.find_stored(vnode, state, name)
    }

    /// Searches the blocks of a directory.
    pub(crate) fn find_stored(
        &self,
        vnode: &Vnode,
        state: &State,
        name: &[u8],
    ) -> Result<Option<Found>> {
        if state.inode.blocks == 0 {
            return if name.len() > directory::MAX_NAME_BYTES {
                Err(Error::NameTooLong)
            } else {
                Ok(None)
            };
        }
        let mut blocks = Searched {
            store: &self.store,
            vnode,
            state,
        };
        directory::lookup(&self.store.key(vnode), &mut blocks, name)
    }

    /// Searches a directory for a name that is to be removed.
    pub(crate) fn find_entry(
        &self,
        vnode: &Arc<Vnode>,
        state: &State,
        name: &[u8],
    ) -> Result<NamedEntry> {
        if state.private.is_some() {
            let found = self.find(vnode, state, name)?;
            return found.map(NamedEntry::Overlaid).ok_or(Error::NotFound);
        }
        if state.inode.blocks == 0 {
            return Err(match name.len() > directory::MAX_NAME_BYTES {
                true => Error::NameTooLong,
                false => Error::NotFound,
            });
        }
        let mut blocks = Searched {
            store: &self.store,
            vnode,
            state,
        };
        let entry = directory::search(&self.store.key(vnode), &mut blocks, name)?;
        entry.map(NamedEntry::Stored).ok_or(Error::NotFound)
    }

    /// Removes the entry that [`Self::find_entry`] found; the directory has been locked
    /// since.
    pub(crate) fn remove_entry(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        (name, entry): (&[u8], NamedEntry),
        now: Timestamp,
    ) -> Result<()> {
        let key = self.store.key(vnode);
        match entry {
            NamedEntry::Overlaid(_) => self.overlay_name(vnode, state, name, None, now)?,
            NamedEntry::Stored(entry) => self.change_names(vnode, state, now, |blocks| {
                directory::remove_entry(&key, blocks, entry)
            })?,
        }
        state.inode.size = state.inode.size.saturating_sub(entry_bytes(name));
        Ok(())
    }

    /// Adds a name, and updates the directory's times, size and counts.
    pub(crate) fn add_name(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        name: &[u8],
        ino: InodeNo,
        kind: FileKind,
        now: Timestamp,
    ) -> Result<()> {
        let key = self.store.key(vnode);
        if state.private.is_some() {
            directory::allowed(name)?;
            if self.find(vnode, state, name)?.is_some() {
                return Err(Error::Exists);
            }
            self.overlay_name(vnode, state, name, Some((ino, kind)), now)?;
        } else {
            self.change_names(vnode, state, now, |blocks| {
                directory::insert(&key, blocks, name, ino, kind)
            })?;
        }
        state.inode.size += entry_bytes(name);
        Ok(())
    }

    /// Makes a name refer to another inode.
    pub(crate) fn replace_name(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        name: &[u8],
        (ino, kind): Found,
        now: Timestamp,
    ) -> Result<()> {
        if state.private.is_some() {
            self.find(vnode, state, name)?.ok_or(Error::NotFound)?;
            return self.overlay_name(vnode, state, name, Some((ino, kind)), now);
        }
        let key = self.store.key(vnode);
        self.change_names(vnode, state, now, |blocks| {
            directory::replace(&key, blocks, name, ino, kind).map(|_| ())
        })
    }

    /// Removes a name.
    pub(crate) fn remove_name(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        if state.private.is_some() {
            self.find(vnode, state, name)?.ok_or(Error::NotFound)?;
            self.overlay_name(vnode, state, name, None, now)?;
        } else {
            let key = self.store.key(vnode);
            self.change_names(vnode, state, now, |blocks| {
                directory::remove(&key, blocks, name).map(|_| ())
            })?;
        }
        state.inode.size = state.inode.size.saturating_sub(entry_bytes(name));
        Ok(())
    }

    /// Runs a change of a directory, and puts it into the epoch.
    pub(crate) fn change_names(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        now: Timestamp,
        change: impl FnOnce(&mut Changed<'_, L>) -> Result<()>,
    ) -> Result<()> {
        let before = state.usage();
        let changed = change(&mut Changed {
            fs: self,
            vnode,
            state,
            now,
            prepared: Vec::new(),
        });
        self.space.settle(before, state.usage());
        if changed.is_ok() {
            state.inode.mtime = now;
            state.inode.ctime = now;
        }
        if changed.is_ok() || state.has_data() {
            self.join(vnode, state);
        }
        changed
    }
}

/// Bytes that an entry adds to a directory's size, for information only.
fn entry_bytes(name: &[u8]) -> u64 {
    name.len() as u64 + 16
}

/// Checks that a name can be made.
///
/// # Errors
/// `Exists` for `.` and `..`, which every directory has; `NotFound` for an empty one.
pub(crate) fn new_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Error::NotFound),
        b"." | b".." => Err(Error::Exists),
        _ => Ok(()),
    }
}
