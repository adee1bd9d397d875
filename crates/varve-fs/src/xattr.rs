//! Extended attributes.
//!
//! All attributes of a file are one blob: entries sorted by name, each a byte with
//! the name's length, four with the value's (little endian), the name, the value.
//! The layout says how long it may be and stores it, the epoch carries it.

use crate::acl::{self, AclEntry};
use crate::attr::Caller;
use crate::error::{Error, Result};
use crate::file_flags::may_rewrite;
use crate::file_system::FileSystem;
use crate::layout::{Layout, Purpose, Usage};
use crate::permission::{READ, WRITE, permit_owner};
use crate::space::Coming;
use crate::types::{FileKind, InodeNo, View};
use crate::vnode::{State, Vnode, sectors_of};
use std::sync::{Arc, OnceLock};

/// The largest value, as Linux allows it.
const VALUE_MAX: usize = 1 << 16;
/// All names with a zero byte behind each, as Linux lists them.
const LIST_MAX: usize = 1 << 16;
const NAME_MAX: usize = 255;

/// One attribute of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attribute<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

/// The attributes in a blob; `None` for bytes that are no attribute.
fn attributes(mut blob: &[u8]) -> impl Iterator<Item = Option<Attribute<'_>>> {
    std::iter::from_fn(move || {
        if blob.is_empty() {
            return None;
        }
        let Some(parsed) = split(blob) else {
            blob = &[];
            return Some(None);
        };
        blob = parsed.1;
        Some(Some(parsed.0))
    })
}

fn split(blob: &[u8]) -> Option<(Attribute<'_>, &[u8])> {
    let (&name_bytes, rest) = blob.split_first()?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let value_bytes = usize::try_from(u32::from_le_bytes(*value_bytes)).ok()?;
    let (name, rest) = rest.split_at_checked(name_bytes.into())?;
    let (value, rest) = rest.split_at_checked(value_bytes)?;
    Some((Attribute { name, value }, rest))
}

fn damaged() -> Error {
    Error::Damaged {
        ino: None,
        detail: "extended attributes cannot be parsed".to_owned(),
    }
}

/// The value of an attribute, if the blob has it.
fn value<'a>(blob: &'a [u8], name: &[u8]) -> Result<Option<&'a [u8]>> {
    for attribute in attributes(blob) {
        let attribute = attribute.ok_or_else(damaged)?;
        if attribute.name == name {
            return Ok(Some(attribute.value));
        }
    }
    Ok(None)
}

/// Bytes of one attribute in a blob: two lengths, the name and the value.
fn attribute_bytes(name: &[u8], value: &[u8]) -> usize {
    1 + 4 + name.len() + value.len()
}

/// The blob with one attribute set, or removed if `value` is absent.
///
/// # Errors
/// `NoSpace` if the names could not be listed any more, `Damaged`.
pub(crate) fn with(blob: &[u8], name: &[u8], value: Option<&[u8]>) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for attribute in attributes(blob) {
        let attribute = attribute.ok_or_else(damaged)?;
        if attribute.name != name {
            all.push(attribute);
        }
    }
    if let Some(value) = value {
        let at = all.partition_point(|a| a.name < name);
        all.insert(at, Attribute { name, value });
    }
    let listed: usize = all.iter().map(|attribute| attribute.name.len() + 1).sum();
    if value.is_some() && listed > LIST_MAX {
        return Err(Error::NoSpace);
    }
    let mut out =
        Vec::with_capacity(blob.len() + value.map_or(0, |new| attribute_bytes(name, new)));
    for Attribute { name, value } in all {
        out.push(u8::try_from(name.len()).map_err(|_| Error::Range)?);
        out.extend_from_slice(
            &u32::try_from(value.len())
                .map_err(|_| Error::Range)?
                .to_le_bytes(),
        );
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    Ok(out)
}

/// The part of a name that says who may use it.
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

impl<L: Layout> FileSystem<L> {
    /// An attribute's value.
    ///
    /// # Errors
    /// `NoAttribute`, `NotSupported` for a name outside `user.`, `trusted.`,
    /// `security.` and the access control lists, `AccessDenied`, `Stale`,
    /// `Damaged`, device errors.
    pub fn getxattr(
        &self,
        view: View,
        caller: &Caller,
        ino: InodeNo,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        let View::Live = view;
        let vnode = self.vnode(ino)?;
        let space = space(name)?;
        let state = vnode.read();
        state.live()?;
        match space {
            Space::User => self.permit(caller, &vnode, &state, READ)?,
            Space::Trusted if !caller.is_root() => return Err(Error::NoAttribute),
            Space::Trusted | Space::Security | Space::Acl => {}
        }
        let blob = self.blob(&vnode, &state)?;
        value(&blob, name)?
            .map(<[u8]>::to_vec)
            .ok_or(Error::NoAttribute)
    }

    /// The names of all attributes the caller may know of.
    ///
    /// # Errors
    /// `Stale`, `Damaged`, device errors.
    pub fn listxattr(&self, view: View, caller: &Caller, ino: InodeNo) -> Result<Vec<Vec<u8>>> {
        let View::Live = view;
        let vnode = self.vnode(ino)?;
        let state = vnode.read();
        state.live()?;
        let blob = self.blob(&vnode, &state)?;
        let mut names = Vec::new();
        for attribute in attributes(&blob) {
            let name = attribute.ok_or_else(damaged)?.name;
            if caller.is_root() || !name.starts_with(b"trusted.") {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Sets an attribute: only if it is new with `create`, only if it exists
    /// with `replace`.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute`, `Range` for a value of more than 64 KiB or a
    /// name of more than 255 bytes, `NoSpace` if all together exceed what the
    /// layout stores or their names 64 KiB, `NotPermitted`, and as [`Self::getxattr`].
    #[expect(clippy::too_many_arguments, reason = "the system call's arguments")]
    pub fn setxattr(
        &self,
        view: View,
        caller: &Caller,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        create: bool,
        replace: bool,
    ) -> Result<()> {
        let View::Live = view;
        if value.len() > VALUE_MAX {
            return Err(Error::Range);
        }
        self.change_xattr(caller, ino, name, Some(value), create, replace)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As [`Self::setxattr`].
    pub fn removexattr(
        &self,
        view: View,
        caller: &Caller,
        ino: InodeNo,
        name: &[u8],
    ) -> Result<()> {
        let View::Live = view;
        self.change_xattr(caller, ino, name, None, false, true)
    }

    fn change_xattr(
        &self,
        caller: &Caller,
        ino: InodeNo,
        name: &[u8],
        new: Option<&[u8]>,
        create: bool,
        replace: bool,
    ) -> Result<()> {
        let vnode = self.vnode(ino)?;
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
        // All of the file's attributes are written anew.
        let others = u64::from(vnode.read().inode.xattr_bytes);
        let bytes = others + new.map_or(0, |new| attribute_bytes(name, new) as u64);
        let operation = match self.begin(growth, Coming::attributes(bytes), purpose) {
            Err(Error::NoSpace) if new.is_some() => {
                // What it really takes may be there: a value is replaced.
                let (growth, bytes) = self.growth_of_xattr(&vnode, name, new)?;
                self.begin(growth, Coming::attributes(bytes), purpose)?
            }
            other => other?,
        };
        let mut state = vnode.write();
        state.live()?;
        may_rewrite(&state.inode)?;
        self.permit_xattr(caller, &vnode, &state, space)?;
        let blob = self.blob(&vnode, &state)?;
        let exists = value(&blob, name)?.is_some();
        if create && exists {
            return Err(Error::Exists);
        }
        if replace && !exists {
            // Without a list the permission bits are all there is: Linux lets
            // anybody who may change the list say so again.
            let no_list = space == Space::Acl && new.is_none();
            return if no_list {
                Ok(())
            } else {
                Err(Error::NoAttribute)
            };
        }
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

    /// By how much the tree grows if an attribute is set, and the bytes that wait
    /// then.
    fn growth_of_xattr(
        &self,
        vnode: &Vnode,
        name: &[u8],
        new: Option<&[u8]>,
    ) -> Result<(Usage, u64)> {
        let state = vnode.read();
        state.live()?;
        let bytes = with(&self.blob(vnode, &state)?, name, new)?.len();
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

    /// The attribute blob, loaded once.
    pub(crate) fn blob(&self, vnode: &Vnode, state: &State) -> Result<Arc<Vec<u8>>> {
        if let Some(blob) = state.xattrs.get() {
            return Ok(Arc::clone(blob));
        }
        let blob = if state.inode.xattr_bytes == 0 {
            Vec::new()
        } else {
            self.store.layout.read_xattrs(View::Live, vnode.ino)?
        };
        Ok(Arc::clone(state.xattrs.get_or_init(|| Arc::new(blob))))
    }

    /// Replaces the blob. The caller settles the usage and joins the epoch.
    pub(crate) fn set_blob(&self, state: &mut State, blob: Vec<u8>) {
        let before = state.waiting_xattrs();
        state.inode.xattr_bytes = u32::try_from(blob.len()).expect("bounded by the layout");
        state.xattrs = OnceLock::from(Arc::new(blob));
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

    /// What a new file of `kind` inherits.
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
        let blob = self.blob(vnode, state)?;
        value(&blob, name)?.map(acl::parse).transpose()
    }

    /// The blob with the list that follows new permission bits, if there is
    /// one.
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
        let blob = self.blob(vnode, state)?;
        with(&blob, acl::ACCESS, Some(&acl::encode(&entries))).map(Some)
    }
}

/// The mode that follows a new list, and whether the list says more than it
/// does and has to be kept.
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
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_sorted_replaced_and_removed() {
        let blob = with(b"", b"user.b", Some(b"2")).unwrap();
        let blob = with(&blob, b"user.a", Some(b"1")).unwrap();
        let blob = with(&blob, b"user.b", Some(b"three")).unwrap();
        let names: Vec<_> = attributes(&blob).map(|a| a.unwrap().name).collect();
        assert_eq!(names, [b"user.a", b"user.b"]);
        assert_eq!(value(&blob, b"user.b").unwrap(), Some(&b"three"[..]));
        let blob = with(&blob, b"user.a", None).unwrap();
        assert_eq!(with(&blob, b"user.b", None).unwrap(), b"");
    }

    #[test]
    fn names_that_could_not_be_listed_are_refused() {
        let name = |i: usize| format!("user.{i:0250}").into_bytes();
        let most = LIST_MAX / (name(0).len() + 1);
        let blob = (0..most).fold(Vec::new(), |blob, i| {
            with(&blob, &name(i), Some(b"")).unwrap()
        });
        let refused = with(&blob, &name(most), Some(b""));
        assert!(matches!(refused, Err(Error::NoSpace)));
        assert!(with(&blob, &name(0), None).unwrap().len() < blob.len());
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = value(&bytes, b"user.x");
            let _ = with(&bytes, b"user.x", Some(b"y"));
        }
    }
}
