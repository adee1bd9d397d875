//! Extended attributes: reading and changing them, and the permission that each name
//! needs.
use super::blob::{Attribute, LIST_MAX, attribute_bytes, attributes, damaged, value, with};
use crate::account::Coming;
use crate::attr::Caller;
use crate::attributes::acl::{self, AclEntry};
use crate::attributes::file_flags::may_rewrite;
use crate::attributes::permission::{READ, WRITE, permit_owner};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Part};
use crate::layout::{Layout, Purpose, Usage};
use crate::memory::vnode::{State, Vnode, sectors_of};
use crate::types::{FileKind, InodeNo};
use std::sync::{Arc, OnceLock};

/// Most bytes of a value, as in Linux.
const VALUE_MAX: usize = 1 << 16;
const NAME_MAX: usize = 255;

/// A change of one attribute.
#[derive(Clone, Copy)]
struct Change<'a> {
    name: &'a [u8],
    /// The new value; `None` removes the attribute.
    new: Option<&'a [u8]>,
    /// Fails if the attribute exists.
    create: bool,
    /// Fails if the attribute does not exist.
    replace: bool,
}

impl Change<'_> {
    /// Checks the two conditions.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute`.
    fn check(&self, exists: bool) -> Result<()> {
        match exists {
            true if self.create => Err(Error::Exists),
            false if self.replace => Err(Error::NoAttribute),
            _ => Ok(()),
        }
    }
}

/// The prefix of a name, which decides the permission that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    Acl,
}

fn space(name: &[u8]) -> Result<Space> {
    if name.len() > NAME_MAX {
        return Err(Error::Range);
    }
    if name == acl::ACCESS || name == acl::DEFAULT {
        return Ok(Space::Acl);
    }
    let spaces: [(&[u8], Space); 3] = [
        (b"user.", Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ];
    for (prefix, space) in spaces {
        if let Some(rest) = name.strip_prefix(prefix) {
            let empty = rest.is_empty() || rest.contains(&0);
            return if empty {
                Err(Error::Invalid("an attribute's name"))
            } else {
                Ok(space)
            };
        }
    }
    Err(Error::NotSupported)
}

/// The first flaw of a file's stored attributes, if there is one. They are sound if every
/// call on them succeeds: each name is a valid one, they ascend, they can be listed
/// together, and access control lists parse.
pub fn attributes_flaw(blob: &[u8]) -> Option<String> {
    let mut last: &[u8] = &[];
    let mut listed = 0;
    for attribute in attributes(blob) {
        let Some(Attribute { name, value }) = attribute else {
            return Some("an attribute is cut short".into());
        };
        let shown = name.escape_ascii();
        let Ok(space) = space(name) else {
            return Some(format!("\"{shown}\" is no name of an attribute"));
        };
        if name <= last {
            return Some(format!(
                "attribute \"{shown}\" is out of order or there twice"
            ));
        }
        if value.len() > VALUE_MAX {
            return Some(format!("attribute \"{shown}\" is longer than it may be"));
        }
        if space == Space::Acl && acl::parse(value).is_err() {
            return Some(format!("\"{shown}\" is not an access control list"));
        }
        listed += name.len() + 1;
        last = name;
    }
    (listed > LIST_MAX).then(|| "the attributes have more names than can be listed".into())
}

impl<L: Layout> FileSystem<L> {
    /// The value of an attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `NotSupported` for a name outside `user.`, `trusted.`, `security.`
    /// and the access control lists, `AccessDenied`, `Stale`, `Damaged`, device errors.
    pub fn getxattr(&self, caller: &Caller, ino: InodeNo, name: &[u8]) -> Result<Vec<u8>> {
        let vnode = self.vnode(ino)?;
        let space = space(name)?;
        self.uses(&vnode, Part::Attributes, Access::Read)?;
        let state = vnode.read();
        state.live()?;
        match space {
            Space::User => self.permit(caller, &vnode, &state, READ)?,
            Space::Trusted if !caller.is_root() => return Err(Error::NoAttribute),
            Space::Trusted | Space::Security | Space::Acl => {}
        }
        let blob = self.store.xattrs(&vnode, &state)?;
        value(&blob, name)?
            .map(<[u8]>::to_vec)
            .ok_or(Error::NoAttribute)
    }

    /// The names of all attributes that the caller may see.
    ///
    /// # Errors
    /// `Stale`, `Damaged`, device errors.
    pub fn listxattr(&self, caller: &Caller, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        let vnode = self.vnode(ino)?;
        self.uses(&vnode, Part::Attributes, Access::Read)?;
        let state = vnode.read();
        state.live()?;
        let blob = self.store.xattrs(&vnode, &state)?;
        let mut names = Vec::new();
        for attribute in attributes(&blob) {
            let name = attribute.ok_or_else(damaged)?.name;
            if caller.is_root() || !name.starts_with(b"trusted.") {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Sets an attribute: only if it is new with `create`, only if it exists with
    /// `replace`.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute`, `Range` for a value of more than 64 KiB or a name of more
    /// than 255 bytes, `NoSpace` if all together exceed the layout's limit or their names
    /// 64 KiB, `NotPermitted`, and as [`Self::getxattr`].
    pub fn setxattr(
        &self,
        caller: &Caller,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        create: bool,
        replace: bool,
    ) -> Result<()> {
        if value.len() > VALUE_MAX {
            return Err(Error::Range);
        }
        let change = Change {
            name,
            new: Some(value),
            create,
            replace,
        };
        self.change_xattr(caller, ino, change)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As [`Self::setxattr`].
    pub fn removexattr(&self, caller: &Caller, ino: InodeNo, name: &[u8]) -> Result<()> {
        let change = Change {
            name,
            new: None,
            create: false,
            replace: true,
        };
        self.change_xattr(caller, ino, change)
    }

    fn change_xattr(&self, caller: &Caller, ino: InodeNo, change: Change<'_>) -> Result<()> {
        let Change { name, new, .. } = change;
        let vnode = self.vnode(ino)?;
        self.uses(&vnode, Part::Attributes, Access::Write)?;
        let _outside = self.as_outsider(&[(&vnode, Part::Attributes, Access::Write)])?;
        let space = space(name)?;
        let sectors = sectors_of(new.map_or(0, <[u8]>::len) + name.len() + 5) + 1;
        let growth = Usage {
            inodes: 0,
            blocks: 0,
            sectors,
        };
        let purpose = if new.is_some() {
            Purpose::Grow
        } else {
            Purpose::Shrink
        };
        // All attributes of the file are written again.
        let others = u64::from(vnode.read().inode.xattr_bytes);
        let bytes = others + new.map_or(0, |new| attribute_bytes(name, new) as u64);
        let operation = match self.begin(growth, Coming::attributes(bytes), purpose) {
            Err(Error::NoSpace) if new.is_some() => {
                // The call may be refused for another reason, or replace a value and need
                // less.
                let (growth, bytes) = self.growth_of_xattr(caller, &vnode, change)?;
                self.begin(growth, Coming::attributes(bytes), purpose)?
            }
            other => other?,
        };
        let mut state = vnode.write();
        state.live()?;
        may_rewrite(&state.inode)?;
        self.permit_xattr(caller, &vnode, &state, space)?;
        let blob = self.store.xattrs(&vnode, &state)?;
        let exists = value(&blob, name)?.is_some();
        if space == Space::Acl && new.is_none() && !exists {
            // Without a list only the permission bits apply, and Linux lets a caller who
            // may change the list remove it again.
            return Ok(());
        }
        change.check(exists)?;
        let mut new = new;
        let mut mode = state.inode.mode;
        if space == Space::Acl
            && let Some(list) = new
        {
            let (follows, keep) = judge_acl(caller, &vnode, &state, name, list)?;
            mode = follows;
            new = keep.then_some(list);
        }
        let blob = with(&blob, name, new)?;
        if blob.len() > self.store.geometry.xattr_bytes {
            return Err(Error::NoSpace);
        }
        // Nothing fails from here on.
        if space == Space::Acl {
            vnode.turn();
        }
        let before = state.usage();
        state.inode.mode = mode;
        self.set_blob(&mut state, blob);
        self.space.settle(before, state.usage());
        state.inode.ctime = self.now();
        self.join(&vnode, &mut state);
        drop((state, operation));
        self.settle_file(&vnode)
    }

    /// The growth of the tree if an attribute is set, and the bytes that wait to be
    /// written then.
    ///
    /// # Errors
    /// All reasons to refuse the change, except missing space.
    fn growth_of_xattr(
        &self,
        caller: &Caller,
        vnode: &Vnode,
        change: Change<'_>,
    ) -> Result<(Usage, u64)> {
        let state = vnode.read();
        state.live()?;
        may_rewrite(&state.inode)?;
        self.permit_xattr(caller, vnode, &state, space(change.name)?)?;
        let blob = self.store.xattrs(vnode, &state)?;
        change.check(value(&blob, change.name)?.is_some())?;
        let bytes = with(&blob, change.name, change.new)?.len();
        let before = sectors_of(state.inode.xattr_bytes as usize);
        let growth = Usage {
            inodes: 0,
            blocks: 0,
            sectors: sectors_of(bytes).saturating_sub(before),
        };
        Ok((growth, bytes as u64))
    }

    fn permit_xattr(
        &self,
        caller: &Caller,
        vnode: &Vnode,
        state: &State,
        space: Space,
    ) -> Result<()> {
        match space {
            Space::User => {
                let plain = matches!(vnode.kind, FileKind::Regular | FileKind::Directory);
                if !plain {
                    return Err(Error::NotPermitted);
                }
                if vnode.kind == FileKind::Directory && state.inode.mode & 0o1000 != 0 {
                    permit_owner(caller, &state.inode)?;
                }
                self.permit(caller, vnode, state, WRITE)
            }
            Space::Trusted | Space::Security if caller.is_root() || caller.checked => Ok(()),
            Space::Trusted | Space::Security => Err(Error::NotPermitted),
            Space::Acl if vnode.kind == FileKind::Symlink => Err(Error::NotSupported),
            Space::Acl => permit_owner(caller, &state.inode),
        }
    }

    /// Replaces the blob. The caller settles the usage and joins the epoch.
    pub(crate) fn set_blob(&self, state: &mut State, blob: Vec<u8>) {
        let before = state.waiting_xattrs();
        if let (Some(private), None) = (&mut state.private, before) {
            private.xattrs = Some(state.xattrs.get().cloned().unwrap_or_default());
        }
        state.inode.xattr_bytes = u32::try_from(blob.len()).expect("bounded by the layout");
        state.xattrs = OnceLock::from(Arc::new(blob.into()));
        state.xattrs_dirty = true;
        let block_bytes = self.store.block_bytes;
        (self.waits).attributes_came(state.inode.xattr_bytes as usize, block_bytes);
        if let Some(bytes) = before {
            self.waits.attributes_went(bytes, block_bytes);
        }
    }

    /// The list that refines a file's permission bits, if it has one.
    pub(crate) fn access_acl(&self, vnode: &Vnode, state: &State) -> Result<Option<Vec<AclEntry>>> {
        self.acl(vnode, state, acl::ACCESS)
    }

    /// The lists that a new file of `kind` inherits, if there are any.
    pub(crate) fn default_acl(
        &self,
        vnode: &Vnode,
        state: &State,
        kind: FileKind,
    ) -> Result<Option<acl::Inherited>> {
        if kind == FileKind::Symlink {
            return Ok(None);
        }
        let entries = self.acl(vnode, state, acl::DEFAULT)?;
        let directory = kind == FileKind::Directory;
        Ok(entries.map(|entries| acl::Inherited { entries, directory }))
    }

    fn acl(&self, vnode: &Vnode, state: &State, name: &[u8]) -> Result<Option<Vec<AclEntry>>> {
        if state.inode.xattr_bytes == 0 {
            return Ok(None);
        }
        let blob = self.store.xattrs(vnode, state)?;
        value(&blob, name)?.map(acl::parse).transpose()
    }

    /// The blob with the list adapted to new permission bits, if the file has a list.
    pub(crate) fn acl_after_chmod(
        &self,
        vnode: &Vnode,
        state: &State,
        mode: u32,
    ) -> Result<Option<Vec<u8>>> {
        let Some(mut entries) = self.access_acl(vnode, state)? else {
            return Ok(None);
        };
        acl::set_mode(&mut entries, mode);
        let blob = self.store.xattrs(vnode, state)?;
        with(&blob, acl::ACCESS, Some(&acl::encode(&entries))).map(Some)
    }
}

/// The mode that results from a new list, and whether the list must be stored because the
/// mode does not express it.
fn judge_acl(
    caller: &Caller,
    vnode: &Vnode,
    state: &State,
    name: &[u8],
    list: &[u8],
) -> Result<(u32, bool)> {
    let inode = &state.inode;
    if name == acl::DEFAULT {
        if vnode.kind != FileKind::Directory {
            return Err(Error::AccessDenied);
        }
        let keep = list.len() > 4 && acl::parse(list).map(|_| true)?;
        return Ok((inode.mode, keep));
    }
    if list.len() <= 4 {
        return Ok((inode.mode, false));
    }
    let entries = acl::parse(list)?;
    let mut mode = inode.mode & !0o777 | acl::mode_bits(&entries);
    if !caller.checked && !caller.is_root() && !caller.in_group(inode.gid) {
        mode &= !0o2000;
    }
    Ok((mode, !acl::is_minimal(&entries)))
}

#[cfg(test)]
mod tests {
    use super::{LIST_MAX, acl, attributes_flaw};

    fn blob(attributes: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in attributes {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        bytes
    }

    #[test]
    fn stored_attributes_are_sound_if_every_call_answers() {
        assert_eq!(attributes_flaw(&[]), None);
        let good = blob(&[(b"security.a", b""), (b"user.b", b"vv")]);
        assert_eq!(attributes_flaw(&good), None);
        let told = |blob: &[u8]| attributes_flaw(blob).expect("a flaw");
        assert!(told(&good[..good.len() - 1]).contains("cut short"));
        for name in [&b""[..], b"user.", b"user.a\0b", b"mine.a"] {
            assert!(told(&blob(&[(name, b"v")])).contains("no name"), "{name:?}");
        }
        let out_of_order = blob(&[(b"user.b", b""), (b"user.a", b"")]);
        assert!(told(&out_of_order).contains("out of order"));
        let twice = blob(&[(b"user.a", b""), (b"user.a", b"")]);
        assert!(told(&twice).contains("twice"));
        assert!(told(&blob(&[(acl::ACCESS, b"no list")])).contains("access control"));
        let names: Vec<Vec<u8>> = (0..LIST_MAX / 250)
            .map(|nth| format!("user.{nth:0250}").into_bytes())
            .collect();
        let many: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &b""[..])).collect();
        assert!(told(&blob(&many)).contains("listed"));
    }
}
