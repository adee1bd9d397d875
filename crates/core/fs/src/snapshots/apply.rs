//! Applying the items of a stream (`receive.rs`).

use super::receive::{Place, Receiver, Row};
use super::send::OWN_XATTRS;
use super::stream::{Attributes, Result, SendItem, TransferError, item_kind, next_xattr, refused};
use crate::attr::{Caller, Rename, SetAttr, SetTime};
use crate::attributes::file_flags::FileFlags;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::types::{FileKind, InodeNo, Timestamp};
use std::collections::HashMap;
use zerocopy::{FromBytes, IntoBytes};

/// `fallocate`: a hole, and the size stays.
const PUNCH_HOLE: i32 = 3;

impl<L: Layout> FileSystem<L> {
    /// Clears the flags of a file, some of which forbid changes.
    pub(super) fn allow_changes(&self, caller: &Caller, ino: InodeNo) -> Result<()> {
        let has_flags = self.flags_and_project(ino)?.0 != FileFlags::default();
        if has_flags && takes_flags(self.getattr(ino)?.kind) {
            self.set_file_flags(caller, ino, FileFlags::default(), None)?;
        }
        Ok(())
    }
}

impl<L: Layout> Receiver<'_, L> {
    fn place(&self, (ino, version): (u64, u32)) -> Result<Place> {
        match self.places.get(&(ino, version)) {
            Some(place) => Ok(*place),
            None => refused(format!("the stream has nothing of its inode {ino}")),
        }
    }

    fn set_place(&mut self, file: (u64, u32), place: Place, rows: &mut Vec<u8>) {
        self.places.insert(file, place);
        let row = Row {
            ino: file.0.into(),
            version: file.1.into(),
            spare: 0.into(),
            here: place.ino.0.into(),
            staged: place.staged.map_or(0, |name| name + 1).into(),
        };
        rows.extend_from_slice(row.as_bytes());
    }

    pub(super) fn apply(
        &mut self,
        tree: &FileSystem<L>,
        item: &SendItem,
        payload: &[u8],
        rows: &mut Vec<u8>,
    ) -> Result<()> {
        let (file, number, at) = (item.file(), item.number.get(), item.at.get());
        let caller = self.caller.clone();
        let staged_name = number.to_string();
        match item.kind {
            item_kind::PATH => {
                let attr = tree.lookup_path(&caller, payload)?;
                let staged = None;
                tree.allow_changes(&caller, attr.ino)?;
                self.set_place(
                    file,
                    Place {
                        ino: attr.ino,
                        staged,
                    },
                    rows,
                );
            }
            item_kind::CREATE => {
                let ino = self.create(tree, item, payload, staged_name.as_bytes())?;
                let staged = Some(number);
                self.set_place(file, Place { ino, staged }, rows);
            }
            item_kind::DETACH => {
                let (parent, staging) = (self.place(file)?.ino, self.staging);
                let found = tree.lookup(&caller, parent, payload)?;
                tree.allow_changes(&caller, found.ino)?;
                let (name, flags) = (staged_name.as_bytes(), Rename::default());
                tree.rename(&caller, parent, payload, staging, name, flags)?;
                if item.other() != (0, 0) {
                    let ino = self.place(item.other())?.ino;
                    let staged = Some(number);
                    self.set_place(item.other(), Place { ino, staged }, rows);
                }
            }
            item_kind::ATTACH => {
                let (parent, place) = (self.place(file)?.ino, self.place(item.other())?);
                let ino = place.ino;
                match place.staged {
                    None => _ = tree.link(&caller, ino, parent, payload)?,
                    Some(from) => {
                        let (from, flags) = (from.to_string(), Rename::default());
                        let flags = Rename {
                            no_replace: true,
                            ..flags
                        };
                        let from = from.as_bytes();
                        tree.rename(&caller, self.staging, from, parent, payload, flags)?;
                        self.set_place(item.other(), Place { ino, staged: None }, rows);
                    }
                }
            }
            item_kind::SIZE => {
                let set = SetAttr {
                    size: Some(at),
                    ..SetAttr::default()
                };
                tree.setattr(&caller, self.place(file)?.ino, &set)?;
            }
            item_kind::DATA => write_all(tree, &caller, self.place(file)?.ino, at, payload)?,
            item_kind::HOLE => {
                let ino = self.place(file)?.ino;
                tree.fallocate(&caller, ino, PUNCH_HOLE, at, item.other.get())?;
            }
            item_kind::ATTRIBUTES => set_attributes(tree, &caller, self.place(file)?.ino, payload)?,
            other => return refused(format!("item {number} has the unknown kind {other}")),
        }
        Ok(())
    }

    fn create(
        &self,
        tree: &FileSystem<L>,
        item: &SendItem,
        target: &[u8],
        name: &[u8],
    ) -> Result<InodeNo> {
        let mode = item.at.get() as u32;
        let (caller, staging) = (&self.caller, self.staging);
        // Private until its attributes are set.
        let made = match FileKind::from_mode(mode) {
            Some(FileKind::Directory) => tree.mkdir(caller, staging, name, 0o700)?,
            Some(FileKind::Symlink) => tree.symlink(caller, staging, name, target)?,
            Some(_) => {
                let mode = mode & 0o170_000 | 0o600;
                tree.mknod(caller, staging, name, mode, item.other.get())?
            }
            None => return refused(format!("item {}: no such kind of file", item.number)),
        };
        tree.allow_changes(caller, made.ino)?;
        Ok(made.ino)
    }
}

/// Flags and project of other kinds of files are inherited and cannot be set.
fn takes_flags(kind: FileKind) -> bool {
    matches!(kind, FileKind::Regular | FileKind::Directory)
}

pub(super) fn write_all<L: Layout>(
    tree: &FileSystem<L>,
    caller: &Caller,
    ino: InodeNo,
    at: u64,
    data: &[u8],
) -> Result<()> {
    let mut written = 0;
    while written < data.len() {
        let next = at.saturating_add(written as u64);
        written += tree.write(caller, ino, next, &data[written..])?;
    }
    Ok(())
}

/// Sets what differs from the attributes in a payload; flags last.
pub(super) fn set_attributes<L: Layout>(
    tree: &FileSystem<L>,
    caller: &Caller,
    ino: InodeNo,
    payload: &[u8],
) -> Result<()> {
    let malformed = || TransferError::Refused("an item of attributes is malformed".to_owned());
    let (row, mut rest) = Attributes::read_from_prefix(payload).map_err(|_| malformed())?;
    let mut wanted = HashMap::new();
    while !rest.is_empty() {
        let (name, value) = next_xattr(&mut rest).ok_or_else(malformed)?;
        wanted.insert(name, value);
    }
    let (mtime_seconds, nanos) = (row.mtime_seconds.get(), row.mtime_nanos.get());
    let is_own = |name: &[u8]| name.starts_with(OWN_XATTRS);
    if nanos >= 1_000_000_000 || wanted.keys().any(|name| is_own(name)) {
        return Err(malformed());
    }
    for name in tree.listxattr(caller, ino)? {
        if !wanted.contains_key(&name[..]) && !is_own(&name) {
            tree.removexattr(caller, ino, &name)?;
        }
    }
    for (name, value) in wanted {
        if tree.getxattr(caller, ino, name).ok().as_deref() != Some(value) {
            tree.setxattr(caller, ino, name, value, false, false)?;
        }
    }
    let now = tree.getattr(ino)?;
    let mode = row.mode.get() & 0o7777;
    let (uid, gid) = (row.uid.get(), row.gid.get());
    let mtime = Timestamp {
        seconds: mtime_seconds,
        nanos,
    };
    let owner = SetAttr {
        uid: (now.uid != uid).then_some(uid),
        gid: (now.gid != gid).then_some(gid),
        ..SetAttr::default()
    };
    tree.setattr(caller, ino, &owner)?;
    // A new owner takes set-id bits away, so the mode is set after it.
    let set = SetAttr {
        mode: (tree.getattr(ino)?.mode & 0o7777 != mode).then_some(mode),
        mtime: Some(SetTime::At(mtime)),
        ..SetAttr::default()
    };
    tree.setattr(caller, ino, &set)?;
    let flags = (FileFlags::from_bits(row.flags.get()), row.project.get());
    if takes_flags(now.kind) && tree.flags_and_project(ino)? != flags {
        tree.set_file_flags(caller, ino, flags.0, Some(flags.1))?;
    }
    Ok(())
}
