//! Sending a snapshot: as a tree, or as the differences from an older one.
//!
//! All items are planned before the first is sent, without reading content, so their
//! numbers are the same each time and a stream can begin at any of them. Names that the
//! newer snapshot does not have are detached first, names that it has are attached when
//! all files exist: in between nothing is below anything else, so that no order of
//! renames matters.

use super::comparison::{Comparison, Places};
use super::diff::all_of;
use super::stream::{Attributes, Result, SendHeader, SendItem, item_kind, push_xattr, refused};
use super::{SnapshotTree, of_a_snapshot};
use crate::attr::{Caller, Whence};
use crate::error::Error;
use crate::file_system::FileSystem;
use crate::inode::Inode;
use crate::layout::Layout;
use crate::types::{FileKind, InodeNo};
use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Bytes of content in an item.
const PIECE_BYTES: u64 = 1 << 20;
/// Extended attributes of the root that belong to a volume and are not sent.
pub(super) const OWN_XATTRS: &[u8] = b"trusted.varve.";

/// Counts of a stream that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of items.
    pub items: u64,
    /// Bytes of content.
    pub bytes: u64,
}

impl<L: Layout> FileSystem<L> {
    /// Writes a snapshot, or with `since` the differences from that one, as a stream for
    /// [`Self::receive`]. `origin` identifies this volume, `first` is the item to begin
    /// with. Calls `progress` with the bytes of content that are left.
    ///
    /// # Errors
    /// `Refused` if `since` is not older; as [`Self::at`]; errors of the writer.
    pub fn send(
        self: &Arc<Self>,
        origin: u64,
        snapshot: &str,
        since: Option<&str>,
        first: u64,
        into: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Sent> {
        let sent = self.snapshot_named(snapshot)?;
        let base = since.map(|base| self.snapshot_named(base)).transpose()?;
        if base.as_ref().is_some_and(|base| base.number >= sent.number) {
            return refused("the snapshot of --since is not older than the one to send");
        }
        let number = base.as_ref().map(|base| base.number);
        let mut sending = Sending {
            old: number.map(|number| self.at(number)).transpose()?,
            new: self.at(sent.number)?,
            plan: Vec::new(),
        };
        sending.plan()?;
        let plan = &sending.plan;
        if first >= plan.len() as u64 {
            return refused(format!("the stream has only {} items", plan.len()));
        }
        let left = |items: &[Planned]| items.iter().map(Planned::bytes).sum::<u64>();
        let rest = &plan[first as usize..];
        let mut header = SendHeader::new(origin, &sent, base.as_ref());
        header.first = first.into();
        header.items = (plan.len() as u64).into();
        header.bytes = left(plan).into();
        header.bytes_left = left(rest).into();
        let mut bytes_left = left(rest);
        let mut sum = header.write(&sent.name, into)?;
        let mut payload = Vec::new();
        for (planned, number) in rest.iter().zip(first..) {
            sending.payload(planned, &mut payload)?;
            let mut item = planned.item;
            item.number = number.into();
            sum = item.write(&payload, sum, into)?;
            bytes_left -= planned.bytes();
            progress(bytes_left);
        }
        Ok(Sent {
            items: rest.len() as u64,
            bytes: left(rest),
        })
    }
}

/// An item whose payload is read when it is sent.
struct Planned {
    item: SendItem,
    /// A path or name; a target.
    text: Vec<u8>,
    /// Length of content.
    length: u64,
}

impl Planned {
    fn bytes(&self) -> u64 {
        self.length
    }
}

struct Sending<L: Layout> {
    old: Option<SnapshotTree<L>>,
    new: SnapshotTree<L>,
    plan: Vec<Planned>,
}

type File = (u64, u32);

impl<L: Layout> Sending<L> {
    fn plan(&mut self) -> Result<()> {
        let (changed, removed, added) = self.names()?;
        let mut touched = BTreeSet::from([InodeNo::ROOT]);
        for &ino in changed.iter().chain(added.keys()) {
            if self.known(ino)?.is_some() {
                touched.insert(ino);
            }
        }
        for (directory, _) in added.values().flatten() {
            if self.known(*directory)?.is_some() {
                touched.insert(*directory);
            }
        }
        // Names in a directory that ends are detached only for files that remain.
        let mut detached = Vec::new();
        for (&ino, places) in &removed {
            let goes_on = self.known(ino)?.is_some();
            for (directory, name) in places {
                if goes_on || self.known(*directory)?.is_some() {
                    touched.insert(*directory);
                    detached.push((*directory, name, goes_on.then_some(ino)));
                }
            }
        }
        self.plan_paths(&touched)?;
        for (directory, name, ino) in detached {
            let file = self.old_file(directory)?;
            let other = ino.map(|ino| self.old_file(ino)).transpose()?;
            self.plan_name(item_kind::DETACH, file, other.unwrap_or_default(), name);
        }
        let mut files = Vec::new();
        for &ino in added.keys() {
            if self.known(ino)?.is_none() {
                files.push(self.plan_new(ino)?);
            }
        }
        for &ino in &touched {
            if let Some((old, new)) = self.known(ino)? {
                self.plan_changes(&old, &new)?;
                files.push(new);
            }
        }
        for (&ino, places) in &added {
            let other = self.new_file(ino)?;
            for (directory, name) in places {
                let file = self.new_file(*directory)?;
                self.plan_name(item_kind::ATTACH, file, other, name);
            }
        }
        for inode in files.iter().filter(|inode| inode.ino != InodeNo::ROOT) {
            self.push(SendItem::new(item_kind::ATTRIBUTES, of(inode)), &[], 0);
        }
        let root = self.new_file(InodeNo::ROOT)?;
        self.push(SendItem::new(item_kind::END, root), &[], 0);
        Ok(())
    }

    /// Inodes that may have changed, names that are gone, and new ones. Without an older
    /// snapshot all names are new.
    fn names(&self) -> Result<(Vec<InodeNo>, Places, Places)> {
        if let Some(old) = &self.old {
            let changed = self
                .new
                .layout()
                .changed_inodes(old.number, Some(self.new.number))
                .map_err(of_a_snapshot)?;
            let (removed, added) = Comparison::names(old, &self.new, &changed)?;
            return Ok((changed, removed, added));
        }
        let mut added = Places::new();
        let mut rest = vec![InodeNo::ROOT];
        while let Some(directory) = rest.pop() {
            for (name, ino, kind) in self.new.names_in(directory)? {
                if kind == FileKind::Directory {
                    rest.push(ino);
                }
                added.entry(ino).or_default().push((directory, name));
            }
        }
        Ok((Vec::new(), Places::new(), added))
    }

    /// The inode in both snapshots, if it is the same file and has a name in both. The
    /// root is also known without an older snapshot.
    fn known(&self, ino: InodeNo) -> Result<Option<(Inode, Inode)>> {
        let new = self.new.inode_at(ino)?;
        let old = match &self.old {
            Some(old) => old.inode_at(ino)?,
            None if ino == InodeNo::ROOT => new.clone(),
            None => None,
        };
        Ok(old
            .zip(new)
            .filter(|(old, new)| old.version == new.version && old.nlink > 0 && new.nlink > 0))
    }

    fn old_file(&self, ino: InodeNo) -> Result<File> {
        let old = self.old.as_ref().unwrap_or(&self.new);
        Ok(of(&old.inode_at(ino)?.ok_or(Error::Stale)?))
    }

    fn new_file(&self, ino: InodeNo) -> Result<File> {
        Ok(of(&self.new.inode_at(ino)?.ok_or(Error::Stale)?))
    }

    fn push(&mut self, item: SendItem, text: &[u8], length: u64) {
        self.plan.push(Planned {
            item,
            text: text.to_vec(),
            length,
        });
    }

    fn plan_paths(&mut self, touched: &BTreeSet<InodeNo>) -> Result<()> {
        let old = self.old.as_ref().unwrap_or(&self.new);
        let paths = Comparison::paths(old, touched)?;
        for (ino, path) in paths {
            let file = self.old_file(ino)?;
            self.push(SendItem::new(item_kind::PATH, file), &path, 0);
        }
        Ok(())
    }

    fn plan_name(&mut self, kind: u8, directory: File, (ino, version): File, name: &[u8]) {
        let mut item = SendItem::new(kind, directory);
        item.other = ino.into();
        item.other_version = version.into();
        self.push(item, name, 0);
    }

    fn plan_new(&mut self, ino: InodeNo) -> Result<Inode> {
        let inode = self.new.inode_at(ino)?.ok_or(Error::Stale)?;
        let attr = self.new.getattr(ino)?;
        let mut item = SendItem::new(item_kind::CREATE, of(&inode));
        item.at = u64::from(attr.mode).into();
        item.other = attr.rdev.into();
        let target = match attr.kind {
            FileKind::Symlink => self.new.readlink(ino)?,
            _ => Vec::new(),
        };
        self.push(item, &target, 0);
        if attr.kind == FileKind::Regular && attr.size > 0 {
            self.plan_content(&inode, all_of(attr.size), false)?;
        }
        Ok(inode)
    }

    fn plan_changes(&mut self, old: &Inode, new: &Inode) -> Result<()> {
        let Some(tree) = &self.old else {
            return Ok(());
        };
        let ranges = tree.ranges_unlike(old, &self.new, new)?;
        match ranges.is_empty() {
            true => Ok(()),
            false => self.plan_content(new, ranges, true),
        }
    }

    /// Plans the size of a file and parts of it; their holes, too, if the receiver may
    /// have something there.
    fn plan_content(&mut self, inode: &Inode, ranges: Vec<Range<u64>>, holes: bool) -> Result<()> {
        let (ino, size) = (inode.ino, inode.size);
        let mut item = SendItem::new(item_kind::SIZE, of(inode));
        item.at = size.into();
        self.push(item, &[], 0);
        for range in ranges {
            let (mut at, end) = (range.start, range.end.min(size));
            while at < end {
                let data = match self.new.seek(ino, at, Whence::Data) {
                    Ok(data) => data.min(end),
                    Err(Error::NoData) => end,
                    Err(error) => return Err(error.into()),
                };
                if holes && data > at {
                    let mut item = SendItem::new(item_kind::HOLE, of(inode));
                    item.at = at.into();
                    item.other = (data - at).into();
                    self.push(item, &[], 0);
                }
                if data == end {
                    break;
                }
                let hole = self.new.seek(ino, data, Whence::Hole)?.min(end);
                at = data;
                while at < hole {
                    let length = (hole - at).min(PIECE_BYTES);
                    let mut item = SendItem::new(item_kind::DATA, of(inode));
                    item.at = at.into();
                    self.push(item, &[], length);
                    at += length;
                }
            }
        }
        Ok(())
    }

    fn payload(&self, planned: &Planned, into: &mut Vec<u8>) -> Result<()> {
        let item = &planned.item;
        let ino = InodeNo(item.ino.get());
        into.clear();
        match item.kind {
            item_kind::DATA => {
                into.resize(planned.length as usize, 0);
                let mut filled = 0;
                while filled < into.len() {
                    let at = item.at.get() + filled as u64;
                    match self.new.read(ino, at, &mut into[filled..])? {
                        0 => return Err(Error::Stale.into()),
                        read => filled += read,
                    }
                }
            }
            item_kind::ATTRIBUTES | item_kind::END => self.attributes(ino, into)?,
            _ => into.extend_from_slice(&planned.text),
        }
        Ok(())
    }

    fn attributes(&self, ino: InodeNo, into: &mut Vec<u8>) -> Result<()> {
        let (tree, caller) = (&self.new, Caller::root());
        let attr = tree.getattr(ino)?;
        let (flags, project) = tree.flags_and_project(ino)?;
        let row = Attributes {
            mtime_seconds: attr.mtime.seconds.into(),
            mtime_nanos: attr.mtime.nanos.into(),
            mode: attr.mode.into(),
            uid: attr.uid.into(),
            gid: attr.gid.into(),
            project: project.into(),
            flags: flags.bits().into(),
        };
        into.extend_from_slice(row.as_bytes());
        for name in tree.listxattr(&caller, ino)? {
            if !name.starts_with(OWN_XATTRS) {
                push_xattr(into, &name, &tree.getxattr(&caller, ino, &name)?);
            }
        }
        Ok(())
    }
}

fn of(inode: &Inode) -> File {
    (inode.ino.0, inode.version)
}
