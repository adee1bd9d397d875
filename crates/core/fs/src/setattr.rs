//! Reading and setting attributes.

use crate::account::prices::REMOVAL_BYTES;
use crate::account::{Coming, Operation};
use crate::attr::{Attr, Caller, SetAttr, SetTime};
use crate::attributes::file_flags::may_set;
use crate::attributes::permission::{WRITE, permit_owner, without_set_id};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::{Layout, Purpose, Usage};
use crate::memory::vnode::{State, Vnode};
use crate::statistics::count;
use crate::types::{FileKind, InodeNo, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that a change of attributes leaves free in addition to its own: the new image is
/// written elsewhere, and the old one may be in a block that other images share, so many
/// such changes could consume the space that removals need.
const LEFT_TO_REMOVALS: u64 = 2 * REMOVAL_BYTES;

impl<L: Layout> FileSystem<L> {
    /// The attributes of a file.
    ///
    /// # Errors
    /// `Stale`, `Damaged`, device errors.
    pub fn getattr(&self, ino: InodeNo) -> Result<Attr> {
        let vnode = self.vnode(ino)?;
        self.uses(&vnode, Part::Attributes, Access::Read)?;
        self.uses(&vnode, Part::Times, Access::Read)?;
        self.uses(&vnode, Part::Size, Access::Read)?;
        let _outside = self.as_outsider(&[
            (&vnode, Part::Attributes, Access::Read),
            (&vnode, Part::Size, Access::Read),
        ])?;
        let state = vnode.read();
        state.live()?;
        Ok(vnode.attr(&state, self.store.geometry.block_bytes))
    }

    /// Sets attributes, all or none, and returns the resulting ones.
    ///
    /// # Errors
    /// `NotPermitted` for changes that only the owner or root may make and for those that
    /// file flags forbid, `AccessDenied`, `IsDirectory` or `Invalid` for the size of
    /// anything but a regular file, `TooLarge`, `NoSpace`, `ReadOnly`, `Stale`,
    /// `Damaged`, device errors.
    pub fn setattr(&self, caller: &Caller, ino: InodeNo, set: &SetAttr) -> Result<Attr> {
        let vnode = self.vnode(ino)?;
        if let Some(size) = set.size {
            vnode.regular()?;
            if size > self.store.geometry.max_file_bytes {
                return Err(Error::TooLarge);
            }
            self.uses(&vnode, Part::Size, Access::Write)?;
            self.uses(&vnode, Part::Content(0..u64::MAX), Access::Write)?;
        }
        self.uses(&vnode, Part::Attributes, Access::Write)?;
        let part = match set.size {
            Some(_) => Part::All,
            None => Part::Attributes,
        };
        let _outside = self.as_outsider(&[(&vnode, part, Access::Write)])?;
        loop {
            let grows = set.size.is_some_and(|size| size > vnode.read().inode.size);
            let operation = if grows {
                self.begin_extension(&vnode, set.size.unwrap_or(0))?
            } else {
                // The access list is rewritten with the new permission bits.
                let list = set.mode.map_or(0, |_| vnode.read().inode.xattr_bytes);
                let frees = set.size.is_some();
                let left = if frees { 0 } else { LEFT_TO_REMOVALS };
                let coming = Coming::attributes(list.into()).and(left);
                self.begin(Usage::default(), coming, Purpose::Shrink)?
            };
            let mut state = vnode.write();
            state.live()?;
            self.permit_setattr(caller, &vnode, &state, set)?;
            let now = self.now();
            let modes = self.modes_after(caller, &vnode, &state, set)?;
            if let Some(size) = set.size
                && !self.resize(&vnode, &mut state, size, now)?
            {
                drop(state);
                drop(operation);
                self.finish_truncate(&vnode)?;
                continue;
            }
            // Nothing fails from here on.
            self.apply(&vnode, &mut state, set, modes, now);
            count(&self.store.counters.setattrs, 1);
            let attr = vnode.attr(&state, self.store.geometry.block_bytes);
            drop(state);
            drop(operation);
            self.dirtied();
            self.settle_file(&vnode)?;
            return Ok(attr);
        }
    }

    /// Admits that a file ends at `size`, beyond its present end. As for a write
    /// ([`Self::begin_write`]), if there is no space for the worst case, the actual need
    /// is asked for: the tail is a block already, and the new range is a hole, unless the
    /// content leaves the inode.
    fn begin_extension(&self, vnode: &Vnode, size: u64) -> Result<Operation<'_>> {
        let growth = |blocks: u64| Usage {
            inodes: 0,
            blocks,
            sectors: blocks * self.store.sectors_per_block(),
        };
        let bytes = self.store.block_bytes as u64;
        let worst = growth(2);
        match self.promise_at_once(worst, bytes, self.keeps(worst, Purpose::Grow)) {
            Err(Error::NoSpace) => {}
            other => return other.map(|operation| self.enter(operation)),
        }
        let leaves_inode = {
            let state = vnode.read();
            state.is_inline() && !self.stays_inline(&state, size)
        };
        self.begin(growth(leaves_inode.into()), bytes, Purpose::Grow)
    }

    fn permit_setattr(
        &self,
        caller: &Caller,
        vnode: &Vnode,
        state: &State,
        set: &SetAttr,
    ) -> Result<()> {
        may_set(&state.inode, set)?;
        if caller.checked || caller.is_root() {
            return Ok(());
        }
        let inode = &state.inode;
        if set.mode.is_some() {
            permit_owner(caller, inode)?;
        }
        if set
            .uid
            .is_some_and(|uid| uid != inode.uid || caller.uid != inode.uid)
        {
            return Err(Error::NotPermitted);
        }
        if let Some(gid) = set.gid {
            permit_owner(caller, inode)?;
            if gid != inode.gid && !caller.in_group(gid) {
                return Err(Error::NotPermitted);
            }
        }
        if set.size.is_some() {
            self.permit(caller, vnode, state, WRITE)?;
        }
        let times = [set.atime, set.mtime];
        if times.iter().flatten().any(|time| *time != SetTime::Now) {
            permit_owner(caller, inode)?;
        } else if times.iter().flatten().next().is_some() && caller.uid != inode.uid {
            self.permit(caller, vnode, state, WRITE)?;
        }
        Ok(())
    }

    /// The new mode, and the access list that follows it: every part of the change that
    /// can fail, except that of the size.
    fn modes_after(
        &self,
        caller: &Caller,
        vnode: &Vnode,
        state: &State,
        set: &SetAttr,
    ) -> Result<Modes> {
        let inode = &state.inode;
        let mut mode = inode.mode;
        let owner = (set.uid.is_some() || set.gid.is_some()) && vnode.kind != FileKind::Directory;
        let others = !caller.checked && !caller.is_root();
        let content = set.kill_set_id || (set.size.is_some() && others);
        if owner || (content && vnode.kind == FileKind::Regular) {
            mode = without_set_id(inode, caller);
        }
        let Some(new) = set.mode else {
            return Ok(Modes { mode, blob: None });
        };
        let gid = set.gid.unwrap_or(inode.gid);
        let mut bits = new & 0o7777;
        if !caller.is_root() && !caller.checked && !caller.in_group(gid) {
            bits &= !0o2000;
        }
        mode = inode.mode & !0o7777 | bits;
        let blob = if mode == inode.mode {
            None
        } else {
            self.acl_after_chmod(vnode, state, mode)?
        };
        Ok(Modes { mode, blob })
    }

    fn apply(
        &self,
        vnode: &Arc<Vnode>,
        state: &mut State,
        set: &SetAttr,
        modes: Modes,
        now: Timestamp,
    ) {
        let at = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        if (set.uid, set.gid, set.mode) != (None, None, None) {
            vnode.turn();
        }
        let inode = &mut state.inode;
        let asked = SetAttr {
            kill_set_id: false,
            ..*set
        };
        let changes = asked != SetAttr::default() || modes.mode != inode.mode;
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.mode = modes.mode;
        if let Some(blob) = modes.blob {
            self.set_blob(state, blob);
        }
        if let Some(time) = set.atime {
            vnode.atime_ns.store(0, Relaxed);
            state.inode.atime = at(time);
        }
        if let Some(time) = set.mtime {
            state.inode.mtime = at(time);
        }
        if changes {
            state.inode.ctime = set.ctime.unwrap_or(now);
            self.join(vnode, state);
        }
    }
}

/// A mode to be set, and the attribute blob with the adapted access list, if there is
/// one.
struct Modes {
    mode: u32,
    blob: Option<Vec<u8>>,
}
