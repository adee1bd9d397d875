//! One inode: its map entry, its image, its index, its runs.

use super::collector::Collector;
use super::runs::{Run, joined, reserved};
use super::{Inspector, said};
use crate::check::{plain, walk};
use serde::Serialize;
use std::fmt;
use varve_fs::{FileKind, Inode, InodeNo, Timestamp};
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::{ImapState, InodePlace};
use varve_lfs::format::inode::Root;
use varve_lfs::internal::{ChainItem, Index, InodeDelta};

/// Largest number of blocks examined per file.
const MAX_BLOCKS: usize = 1 << 22;

/// The place of a stored inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Sector address.
    pub sector: u64,
    /// Number of the inode within the sector.
    pub slot: u8,
    /// Serial of the partial that first wrote this version.
    pub birth: u64,
    /// CRC of the inode.
    pub crc: u32,
    /// Incarnation of its segment.
    pub incarnation: u32,
}

impl From<InodePlace> for Place {
    fn from(place: InodePlace) -> Self {
        Place {
            sector: place.sector,
            slot: place.slot,
            birth: place.birth,
            crc: place.crc,
            incarnation: place.incarnation,
        }
    }
}

/// One inode of the newest state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InodeView {
    /// Inode number.
    pub ino: u64,
    /// "used", "free" or "unused", including the replayed log.
    pub state: &'static str,
    /// Version of the file; for a free number, that of its next file.
    pub version: u32,
    /// Place of the newest image.
    pub place: Option<Place>,
    /// True if the newest image was logged after the checkpoint.
    pub logged: bool,
    /// "regular", "directory" and so on.
    pub kind: Option<&'static str>,
    /// Permission bits.
    pub mode: u32,
    /// User that owns the file.
    pub uid: u32,
    /// Group of the file.
    pub gid: u32,
    /// Number of names.
    pub nlink: u32,
    /// Device number.
    pub rdev: u64,
    /// Logged size in bytes.
    pub size: u64,
    /// Number of blocks that exist.
    pub blocks: u64,
    /// Sectors of these blocks.
    pub sectors: u64,
    /// Times of last read, change of content, change of inode and creation, in ns since
    /// 1970.
    pub times_ns: [i64; 4],
    /// Flag bits.
    pub flags: u32,
    /// Project identifier.
    pub project: u32,
    /// Parent of a directory.
    pub parent: u64,
    /// Bytes of content stored in the inode.
    pub inline_bytes: usize,
    /// Bytes of extended attributes, and their sector.
    pub xattrs: Option<(u32, u64)>,
    /// Height of the index at the checkpoint.
    pub height: u8,
    /// Number of index nodes at the checkpoint.
    pub nodes: u64,
    /// Runs of blocks.
    pub runs: Vec<Run>,
    /// Structures that could not be read, as text.
    pub problems: Vec<String>,
}

impl Inspector {
    /// Returns one inode: map entry, image and runs.
    pub fn inode(&self, ino: InodeNo) -> InodeView {
        let mut view = empty(ino.0);
        let loaded = match said(self.loaded()) {
            Ok(loaded) => loaded,
            Err(problem) => {
                view.problems.push(problem);
                return view;
            }
        };
        let base = &loaded.state.base;
        if ino == InodeNo::IFILE {
            view.state = "used";
            fill(&mut view, &base.ifile.inode);
            self.runs(&mut view, ino, 0, Some(base.ifile_root()), None);
            return view;
        }
        let delta = loaded.state.live.inode(ino.0);
        match base.imap(&self.reader, &self.geometry, ino) {
            Ok(ImapState::Unused) => {}
            Ok(ImapState::Free { next_version, .. }) => {
                view.state = "free";
                view.version = next_version;
            }
            Ok(ImapState::Used { version, place, .. }) => {
                view.state = "used";
                view.version = version;
                view.place = Some(place.into());
            }
            Err(error) => view.problems.push(plain(&error)),
        }
        if let Some(next_version) = delta.and_then(|delta| delta.freed) {
            view.state = "free";
            view.version = next_version;
            view.place = None;
            return view;
        }
        let found = match said(self.view(ino)) {
            Ok(found) => found,
            Err(problem) => {
                view.problems.push(problem);
                return view;
            }
        };
        let image = found.image();
        let root = image.map(|(_, root)| root.clone());
        let mut xattrs = image.map_or(Pointer::NONE, |(image, _)| image.xattrs);
        if let Some(delta) = delta {
            view.state = "used";
            view.version = delta.version;
            xattrs = delta.xattrs.unwrap_or(xattrs);
        }
        match delta.and_then(|delta| delta.image.as_ref()) {
            Some(placed) => {
                view.logged = true;
                view.place = Some(placed.place.into());
                fill(&mut view, &placed.image.inode);
            }
            None => {
                if let Some((image, _)) = image {
                    fill(&mut view, &image.inode);
                }
            }
        }
        let bytes = view.xattrs.map_or(0, |(bytes, _)| bytes);
        view.xattrs = (!xattrs.is_none()).then_some((bytes, xattrs.sector()));
        let version = image.map_or(view.version, |(image, _)| image.inode.version);
        self.runs(&mut view, ino, version, root.as_ref(), delta);
        view
    }

    fn runs(
        &self,
        view: &mut InodeView,
        ino: InodeNo,
        version: u32,
        root: Option<&Root>,
        delta: Option<&InodeDelta>,
    ) {
        let block_sectors = (self.geometry.block_bytes / 512) as u8;
        let mut collector = Collector {
            newer: delta.map(|delta| (delta, block_sectors)),
            most: Some(MAX_BLOCKS),
            ..Collector::default()
        };
        if let Some(root) = root {
            view.height = root.height;
            walk(&self.reader, ino, version, root, &mut collector);
        }
        let mut blocks = collector.blocks;
        if let Some(delta) = delta {
            blocks.extend(delta.blocks.range(0, u64::MAX));
        }
        blocks.sort_unstable_by_key(|(block, _)| *block);
        view.nodes = collector.nodes;
        view.problems.append(&mut collector.problems);
        if blocks.len() >= MAX_BLOCKS {
            let text = format!("only the first {MAX_BLOCKS} blocks are listed");
            view.problems.push(text);
        }
        view.runs = joined(&blocks);
        if let Some(delta) = delta {
            for run in reserved(delta, u64::from(block_sectors)) {
                let at = view.runs.partition_point(|other| other.block < run.block);
                view.runs.insert(at, run);
            }
        }
    }

    /// Returns true if the newest state points to the block that a summary entry
    /// describes.
    pub(super) fn item_lives(&self, item: &ChainItem) -> bool {
        let Some(loaded) = &self.loaded else {
            return false;
        };
        let reader = &self.reader;
        match *item {
            ChainItem::Record { .. } | ChainItem::Map { .. } => false,
            ChainItem::Placed {
                ino,
                block,
                pointer,
                ..
            } => {
                let current = self.read_pointer(ino, block);
                current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth()))
            }
            ChainItem::Block {
                ino,
                block,
                pointer,
                xattrs: false,
                ..
            } => {
                let current = self.read_pointer(ino, block);
                current.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth()))
            }
            ChainItem::Block { ino, pointer, .. } => {
                let view = self.inode_xattrs(ino);
                view.is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth()))
            }
            ChainItem::Node { id, pointer, .. } => {
                let base = &loaded.state.base;
                let image = base.inode(reader, &self.geometry, id.ino).ok().flatten();
                let root = if id.ino == InodeNo::IFILE {
                    Some(base.ifile_root())
                } else {
                    image.as_ref().and_then(|image| image.root.as_ref())
                };
                let ino = id.ino;
                root.and_then(|root| {
                    varve_lfs::internal::Tree { reader, ino, root }
                        .find(id.spot())
                        .ok()?
                })
                .is_some_and(|p| p.same_copy(pointer.sector(), pointer.birth()))
            }
            ChainItem::Inode { ino, place, .. } => {
                let delta = loaded.state.live.inode(ino.0);
                match delta.and_then(|delta| delta.image.as_ref()) {
                    Some(placed) => placed.place == place,
                    None if delta.is_some_and(|d| d.freed.is_some() || d.reborn) => false,
                    None => {
                        let state = loaded.state.base.imap(reader, &self.geometry, ino);
                        matches!(state, Ok(ImapState::Used { place: at, .. }) if at == place)
                    }
                }
            }
        }
    }

    fn read_pointer(&self, ino: InodeNo, block: u64) -> Option<Pointer> {
        if ino == InodeNo::IFILE {
            let root = self.loaded.as_ref()?.state.base.ifile_root();
            let reader = &self.reader;
            return varve_lfs::internal::Tree { reader, ino, root }
                .get(block)
                .ok()?;
        }
        let loaded = self.loaded.as_ref()?;
        if loaded
            .state
            .live
            .inodes
            .get(&ino.0)
            .is_some_and(|d| d.freed.is_some())
        {
            return None;
        }
        self.view(ino).ok()?.get(block).ok()?
    }

    fn inode_xattrs(&self, ino: InodeNo) -> Option<Pointer> {
        let view = self.view(ino).ok()?;
        view.delta()
            .and_then(|delta| delta.xattrs)
            .or_else(|| Some(view.image()?.0.xattrs))
    }
}

fn empty(ino: u64) -> InodeView {
    InodeView {
        ino,
        state: "unused",
        version: 0,
        place: None,
        logged: false,
        kind: None,
        mode: 0,
        uid: 0,
        gid: 0,
        nlink: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        sectors: 0,
        times_ns: [0; 4],
        flags: 0,
        project: 0,
        parent: 0,
        inline_bytes: 0,
        xattrs: None,
        height: 0,
        nodes: 0,
        runs: Vec::new(),
        problems: Vec::new(),
    }
}

fn fill(view: &mut InodeView, inode: &Inode) {
    view.kind = Some(kind_name(inode.kind()));
    view.mode = inode.mode & 0o7777;
    view.uid = inode.uid;
    view.gid = inode.gid;
    view.nlink = inode.nlink;
    view.rdev = inode.rdev;
    view.size = inode.size;
    view.blocks = inode.blocks;
    view.sectors = inode.sectors;
    view.times_ns = [inode.atime, inode.mtime, inode.ctime, inode.btime].map(Timestamp::as_ns);
    view.flags = inode.flags;
    view.project = inode.project;
    view.parent = inode.parent.0;
    view.inline_bytes = inode.inline.len();
    view.xattrs = Some((inode.xattr_bytes, 0));
}

/// Returns the usual name of a file type.
pub(super) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Fifo => "fifo",
        FileKind::CharDevice => "character device",
        FileKind::Directory => "directory",
        FileKind::BlockDevice => "block device",
        FileKind::Regular => "regular",
        FileKind::Symlink => "symlink",
        FileKind::Socket => "socket",
    }
}

impl fmt::Display for InodeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "inode {}: {}, version {}",
            self.ino, self.state, self.version
        )?;
        if let Some(place) = &self.place {
            write!(
                f,
                ", at sector {} slot {}, checksum {:#010x}, born in {}{}",
                place.sector,
                place.slot,
                place.crc,
                place.birth,
                if self.logged { ", in the log" } else { "" }
            )?;
        }
        if let Some(kind) = self.kind {
            write!(
                f,
                "\n  {kind}, mode {:04o}, owner {}:{}, {} names, {} bytes, {} blocks of {} sectors",
                self.mode, self.uid, self.gid, self.nlink, self.size, self.blocks, self.sectors
            )?;
            let [atime, mtime, ctime, btime] = self.times_ns.map(super::utc);
            write!(
                f,
                "\n  read {atime}, written {mtime}, changed {ctime}, born {btime}"
            )?;
            write!(
                f,
                "\n  flags {:#x}, project {}, parent {}, device {:#x}, {} bytes inline, index of \
                 height {} with {} nodes",
                self.flags,
                self.project,
                self.parent,
                self.rdev,
                self.inline_bytes,
                self.height,
                self.nodes
            )?;
        }
        if let Some((bytes, sector)) = self.xattrs {
            write!(f, "\n  {bytes} bytes of attributes at sector {sector}")?;
        }
        for run in &self.runs {
            write!(f, "\n  {run}")?;
        }
        for problem in &self.problems {
            write!(f, "\n  problem: {problem}")?;
        }
        Ok(())
    }
}
