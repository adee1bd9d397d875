//! A tree in the order in which its data is stored.
//!
//! A scan walks the tree, depth first, and collects a *window* of files and of the parts
//! in which they are stored. The parts of a window are sorted by place, so a reader of
//! them passes over the device once a window, however the files were written. Memory is
//! bounded by the window and the depth of the tree, except for one path for each file
//! with several names.
//!
//! The tree may change meanwhile. What a scan lists is pinned until its window is dropped;
//! names that are removed before they are listed are missing. A consistent scan is one of
//! a snapshot.

use crate::attr::{Attr, Caller};
use crate::content::stretches::Placed;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Layout;
use crate::types::{FileKind, InodeNo};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Most files of a window.
const FILES: usize = 1 << 14;
/// Parts after which a window is complete. The last file can add as many again.
const PARTS: usize = 1 << 16;
/// Names of a directory that are listed at once.
const NAMES: usize = 256;
/// Most bytes of a piece.
const PIECE_BYTES: u64 = 1 << 20;

/// A failure of a scan, and the path at which it occurred.
#[derive(Debug)]
pub struct ScanError {
    /// The path from the start of the scan.
    pub path: Vec<u8>,
    /// The cause.
    pub error: Error,
}

impl std::fmt::Display for ScanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", String::from_utf8_lossy(&self.path), self.error)
    }
}

type ScanResult<T> = std::result::Result<T, ScanError>;

/// A file or directory, pinned.
struct Pinned<L: Layout> {
    fs: Arc<FileSystem<L>>,
    path: Arc<[u8]>,
    attr: Attr,
}

impl<L: Layout> Drop for Pinned<L> {
    fn drop(&mut self) {
        self.fs.release(self.attr.ino, 1);
    }
}

impl<L: Layout> Pinned<L> {
    fn failed(&self, error: Error) -> ScanError {
        let path = self.path.to_vec();
        ScanError { path, error }
    }
}

/// A directory that is being listed.
struct Step<L: Layout> {
    directory: Pinned<L>,
    after: u64,
    names: VecDeque<Vec<u8>>,
}

/// A file of a window.
pub struct ScannedFile<L: Layout> {
    pinned: Arc<Pinned<L>>,
    /// The path by which the scan met this file before, if it has several names. Such a
    /// name has no parts.
    pub link: Option<Arc<[u8]>>,
    /// The file begins in this window.
    pub is_first: bool,
    /// The file ends in this window.
    pub is_last: bool,
}

impl<L: Layout> ScannedFile<L> {
    /// The path from the start of the scan, without a leading slash; empty if the scan
    /// started at this file.
    pub fn path(&self) -> &Arc<[u8]> {
        &self.pinned.path
    }

    /// Its attributes when it was met.
    pub fn attr(&self) -> &Attr {
        &self.pinned.attr
    }
}

/// A part of a file that is stored in one piece.
#[derive(Clone, Debug)]
pub struct ScannedPart {
    /// The place on the device; none of a part in memory, which is sorted first.
    pub place: Option<u64>,
    /// Which file of the window.
    pub file: usize,
    /// The bytes of the file.
    pub bytes: Range<u64>,
}

/// A part of a tree that was scanned.
pub struct ScanWindow<L: Layout> {
    /// Everything except directories, in the order of the walk.
    pub files: Vec<ScannedFile<L>>,
    /// The data of these files by place.
    pub parts: Vec<ScannedPart>,
    /// Directories of which everything is in this window or an earlier one, a directory
    /// behind the directories in it.
    pub directories: Vec<(Arc<[u8]>, Attr)>,
}

/// Data of a file, as an iteration of [`Scan`] yields it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPiece {
    /// The path from the start of the scan.
    pub path: Arc<[u8]>,
    /// The offset in the file.
    pub offset: u64,
    /// The bytes, at most 1 MiB.
    pub bytes: Vec<u8>,
}

/// A walk over a tree in the order in which its data is stored.
///
/// As an iterator it yields all data. [`Scan::window`] yields files and directories as
/// well.
pub struct Scan<L: Layout> {
    fs: Arc<FileSystem<L>>,
    caller: Caller,
    stack: Vec<Step<L>>,
    /// A file of which parts are missing, and the block at which they begin.
    rest: Option<(Arc<Pinned<L>>, u64)>,
    linked: HashMap<InodeNo, Arc<[u8]>>,
    /// The window that is iterated, and the next of its pieces.
    iterated: Option<(ScanWindow<L>, usize, u64)>,
}

impl<L: Layout> FileSystem<L> {
    /// Scans the tree at a path, on behalf of `caller`. Symbolic links are not followed.
    ///
    /// # Errors
    /// As [`Self::lookup_path`]; `AccessDenied` if the caller may not read it.
    pub fn scan(self: &Arc<Self>, caller: &Caller, path: &[u8]) -> Result<Scan<L>> {
        self.retain(InodeNo::ROOT)?;
        let pinned = |attr, path| Pinned {
            fs: Arc::clone(self),
            path,
            attr,
        };
        let mut start = pinned(self.getattr(InodeNo::ROOT)?, Arc::from([]));
        for name in crate::snapshots::names_of(path) {
            let attr = self.lookup_held(caller, start.attr.ino, name)?;
            start = pinned(attr, Arc::from([]));
        }
        let mut scan = Scan {
            fs: Arc::clone(self),
            caller: caller.clone(),
            stack: Vec::new(),
            rest: None,
            linked: HashMap::new(),
            iterated: None,
        };
        match start.attr.kind {
            FileKind::Directory => scan.enter(start).map_err(|failed| failed.error)?,
            _ => scan.rest = Some((Arc::new(start), 0)),
        }
        Ok(scan)
    }
}

impl<L: Layout> Scan<L> {
    /// The next window; none at the end. The memory of a window is freed, and its files
    /// are unpinned, when it is dropped.
    ///
    /// # Errors
    /// Of walking and of reading indexes. The scan then has an undefined rest.
    pub fn window(&mut self) -> ScanResult<Option<ScanWindow<L>>> {
        let mut window = ScanWindow {
            files: Vec::new(),
            parts: Vec::new(),
            directories: Vec::new(),
        };
        while window.parts.len() < PARTS && window.files.len() < FILES {
            if let Some((file, block)) = self.rest.take() {
                self.add(file, block, &mut window)?;
                continue;
            }
            let Some(level) = self.stack.last_mut() else {
                break;
            };
            let Some(name) = level.next(&self.fs)? else {
                if let Some(level) = self.stack.pop() {
                    let Pinned { path, attr, .. } = &level.directory;
                    window.directories.push((Arc::clone(path), *attr));
                }
                continue;
            };
            let path = joined(&level.directory.path, &name);
            let found = self
                .fs
                .lookup_held(&self.caller, level.directory.attr.ino, &name);
            let attr = match found {
                Ok(attr) => attr,
                Err(Error::NotFound) => continue,
                Err(error) => return Err(ScanError { path, error }),
            };
            let pinned = Pinned {
                fs: Arc::clone(&self.fs),
                path: path.into(),
                attr,
            };
            match attr.kind {
                FileKind::Directory => self.enter(pinned)?,
                _ => self.rest = Some((Arc::new(pinned), 0)),
            }
        }
        let by_place = |part: &ScannedPart| (part.place, part.file, part.bytes.start);
        window.parts.sort_unstable_by_key(by_place);
        let is_end = window.files.is_empty() && window.directories.is_empty();
        Ok((!is_end).then_some(window))
    }

    fn enter(&mut self, directory: Pinned<L>) -> ScanResult<()> {
        let may = self.fs.access(&self.caller, directory.attr.ino, 4);
        may.map_err(|error| directory.failed(error))?;
        self.stack.push(Step {
            directory,
            after: 0,
            names: VecDeque::new(),
        });
        Ok(())
    }

    /// Adds a file to a window, with its parts from `block` on.
    fn add(
        &mut self,
        pinned: Arc<Pinned<L>>,
        block: u64,
        window: &mut ScanWindow<L>,
    ) -> ScanResult<()> {
        let attr = &pinned.attr;
        let mut file = ScannedFile {
            pinned: Arc::clone(&pinned),
            link: None,
            is_first: block == 0,
            is_last: true,
        };
        if attr.nlink > 1 && block == 0 {
            file.link = self.linked.get(&attr.ino).map(Arc::clone);
            let path = || Arc::clone(&pinned.path);
            self.linked.entry(attr.ino).or_insert_with(path);
        }
        if attr.kind == FileKind::Regular && file.link.is_none() {
            let mut placed = Vec::new();
            let mut examine = || {
                if block == 0 {
                    self.fs.access(&self.caller, attr.ino, 4)?;
                }
                let vnode = self.fs.vnode(attr.ino)?;
                self.fs.placed(&vnode, block, u64::MAX, &mut placed)
            };
            let (size, next) = examine().map_err(|error| pinned.failed(error))?;
            let block_bytes = u64::from(attr.block_bytes);
            window
                .parts
                .extend(placed.into_iter().map(|Placed { place, blocks }| {
                    let end = (blocks.end * block_bytes).min(size);
                    ScannedPart {
                        place,
                        file: window.files.len(),
                        bytes: blocks.start * block_bytes..end,
                    }
                }));
            file.is_last = next.is_none_or(|next| next * block_bytes >= size);
            self.rest = next
                .filter(|_| !file.is_last)
                .map(|next| (Arc::clone(&pinned), next));
        }
        window.files.push(file);
        Ok(())
    }
}

impl<L: Layout> ScanWindow<L> {
    /// Reads the data of a part from `offset` in the file on, at most 1 MiB. It is empty
    /// if the file was truncated.
    ///
    /// # Errors
    /// As [`FileSystem::read`].
    pub fn read(&self, part: &ScannedPart, offset: u64) -> ScanResult<Vec<u8>> {
        let file = &self.files[part.file].pinned;
        let length = part.bytes.end.saturating_sub(offset).min(PIECE_BYTES);
        let mut bytes = vec![0; length as usize];
        let read = file.fs.read(file.attr.ino, offset, &mut bytes);
        bytes.truncate(read.map_err(|error| file.failed(error))?);
        Ok(bytes)
    }
}

impl<L: Layout> Step<L> {
    /// The next name.
    fn next(&mut self, fs: &FileSystem<L>) -> ScanResult<Option<Vec<u8>>> {
        if self.names.is_empty() {
            let Step { after, names, .. } = self;
            let ino = self.directory.attr.ino;
            let listed = fs.readdir(ino, *after, &mut |entry| {
                *after = entry.cookie;
                if entry.name != b"." && entry.name != b".." {
                    names.push_back(entry.name.to_vec());
                }
                names.len() < NAMES
            });
            listed.map_err(|error| self.directory.failed(error))?;
        }
        Ok(self.names.pop_front())
    }
}

impl<L: Layout> Iterator for Scan<L> {
    type Item = ScanResult<ScanPiece>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((window, nth, done)) = &mut self.iterated else {
                let window = self.window().transpose()?;
                match window {
                    Ok(window) => self.iterated = Some((window, 0, 0)),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            let Some(part) = window.parts.get(*nth) else {
                self.iterated = None;
                continue;
            };
            let offset = part.bytes.start + *done;
            let read = window.read(part, offset);
            let length = read.as_ref().map_or(0, |bytes| bytes.len() as u64);
            *done += length;
            let path = Arc::clone(window.files[part.file].path());
            if length == 0 || offset + length >= part.bytes.end {
                (*nth, *done) = (*nth + 1, 0);
            }
            match read {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => {
                    return Some(Ok(ScanPiece {
                        path,
                        offset,
                        bytes,
                    }));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory.is_empty() {
        true => name.to_vec(),
        false => [directory, b"/", name].concat(),
    }
}
