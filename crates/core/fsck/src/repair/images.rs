//! Repairs unreadable inodes: found again in the log, or given up.

use super::mender::{Mender, Names};
use super::report::Actions;
use super::trace::{Content, Trace};
use std::collections::HashMap;
use std::sync::Arc;
use varve_fs::directory::{Key, names_in};
use varve_fs::{FileKind, Inode, InodeNo, Timestamp, Version, flags};
use varve_lfs::Result;
use varve_lfs::format::ifile::{ImapState, InodePlace};
use varve_lfs::format::inode::{InodeImage, Root};
use varve_lfs::format::{Pointer, crc32c};

impl Mender<'_> {
    /// Replaces inodes to which the inode map points and that cannot be read.
    pub(super) fn mend_images(
        &mut self,
        lost: &[u64],
        names: Names<'_>,
        actions: &mut Actions,
    ) -> Result<bool> {
        if lost.is_empty() {
            return Ok(false);
        }
        let (base, _) = self.base()?;
        let mut wanted = HashMap::new();
        let mut places = HashMap::new();
        for &ino in lost {
            if let Ok(ImapState::Used { version, place, .. }) =
                base.imap(self.reader, &self.geometry, InodeNo(ino))
            {
                wanted.insert(ino, version);
                places.insert(ino, place);
            }
        }
        let traces = self.witness().traces(&wanted.keys().copied().collect());
        let contents = self.witness().contents(&wanted);
        let none = (Trace::default(), Content::default());
        let mut changed = false;
        for &ino in lost {
            let (Some(&version), Some(place)) = (wanted.get(&ino), places.get(&ino)) else {
                continue;
            };
            let trace = traces.get(&ino).unwrap_or(&none.0);
            let content = contents.get(&ino).unwrap_or(&none.1);
            // An inode that is still refused after a patch is given up.
            if self.tried_images.insert(ino) {
                let found = self.find_image(ino, version, place, trace, content);
                if let Some((image, proven)) = found {
                    match proven {
                        true => actions.mended(format!("{}: its inode was made anew", names(ino))),
                        false => actions.lost(format!(
                            "{}: the directory's inode; owner, mode, times and attributes are \
                             those of an older image, if there is one",
                            names(ino)
                        )),
                    }
                    self.reader.patch_inode(place, Arc::new(image));
                    self.touched.inodes.insert(ino);
                    changed = true;
                    continue;
                }
            }
            if ino == InodeNo::ROOT.0 {
                actions.lost("the root directory's names: what they led to is in lost+found");
            } else {
                actions.lost(format!("{}: the file, with its inode", names(ino)));
            }
            let next_version = version.wrapping_add(1);
            let free = ImapState::Free {
                next_version,
                previous: 0,
                next: 0,
            };
            changed |= self.set_entry(ino, free)?;
        }
        Ok(changed)
    }

    /// Returns the lost image, and true if it is proved to be the right one.
    fn find_image(
        &self,
        ino: u64,
        version: Version,
        place: &InodePlace,
        trace: &Trace,
        content: &Content,
    ) -> Option<(InodeImage, bool)> {
        let ino = InodeNo(ino);
        let read = |place: &InodePlace| {
            let sound = u32::from(place.slot) < self.geometry.inodes_per_sector();
            let image = sound
                .then(|| self.reader.inode(place, ino).ok())
                .flatten()?;
            (image.inode.version == version).then_some(image)
        };
        // Another copy of the same image, left by a move of the cleaner.
        let copy = trace.images.iter().rev().find_map(|(of, other, _)| {
            let same = *of == version && other.birth == place.birth && other.crc == place.crc;
            read(other).filter(|image| same && image.root.is_some())
        });
        if let Some(image) = copy {
            return Some(((*image).clone(), true));
        }
        let older = trace
            .images
            .iter()
            .rev()
            .filter(|(of, other, _)| *of == version && other.birth <= place.birth)
            .find_map(|(_, other, _)| read(other));
        let root = self.root_of(content)?;
        let xattrs = content.xattrs.map_or(Pointer::NONE, |(_, pointer)| pointer);
        if let Some(older) = &older {
            // The image that a checkpoint wrote has the same attributes, and a root.
            let xattrs = match older.inode.xattr_bytes {
                0 => Pointer::NONE,
                _ => xattrs,
            };
            let image = InodeImage {
                inode: older.inode.clone(),
                root: Some(root.clone()),
                xattrs,
            };
            let mut bytes = vec![0; self.geometry.inode_bytes as usize];
            image.encode(&mut bytes);
            if crc32c(&bytes) == place.crc {
                return Some((image, true));
            }
        }
        // The blocks of a directory name it, so its kind is certain.
        let older = older.filter(|older| older.inode.kind() == FileKind::Directory);
        if older.is_none() && !self.is_directory(ino, version, content) {
            return None;
        }
        let mut inode = older
            .map(|older| older.inode.clone())
            .unwrap_or_else(|| new_directory(ino, version));
        inode.xattr_bytes = 0;
        inode.flags &= flags::KNOWN & !(flags::INLINE | flags::TRUNCATING);
        let image = InodeImage {
            inode,
            root: Some(root),
            xattrs: Pointer::NONE,
        };
        Some((image, false))
    }

    /// Returns an index root over the blocks of a file that the log describes.
    fn root_of(&self, content: &Content) -> Option<Root> {
        let slots = self.geometry.root_slots();
        let mut root = Root::default();
        if let Some((&(height, _), _)) = content.nodes.last_key_value() {
            root.height = height;
            root.slots = vec![Pointer::NONE; slots];
            for (&(of, index), (_, pointer)) in content.nodes.range((height, 0)..) {
                if of == height {
                    *root.slots.get_mut(usize::try_from(index).ok()?)? = *pointer;
                }
            }
        } else {
            if content.too_many {
                return None;
            }
            for (&block, (_, pointer)) in &content.blocks {
                let Some(pointer) = pointer else { continue };
                let block = usize::try_from(block).ok().filter(|block| *block < slots)?;
                if root.slots.len() <= block {
                    root.slots.resize(block + 1, Pointer::NONE);
                }
                root.slots[block] = *pointer;
            }
        }
        while root.slots.last().is_some_and(Pointer::is_none) {
            root.slots.pop();
        }
        Some(root)
    }

    /// Returns true if block 0 is a node of this directory.
    fn is_directory(&self, ino: InodeNo, version: Version, content: &Content) -> bool {
        let key = Key {
            hash_seed: self.superblock.hash_seed.get(),
            case_fold: self.superblock.case_fold(),
            ino,
            version,
        };
        content
            .blocks
            .iter()
            .take(64)
            .any(|(&block, (_, pointer))| {
                pointer
                    .and_then(|pointer| self.reader.block(&pointer, ino, block).ok())
                    .is_some_and(|bytes| names_in(&key, block, &bytes, &mut |_, _, _| {}).is_ok())
            })
    }
}

/// Returns a directory with default attributes, for one of which only the names are
/// known.
pub(crate) fn new_directory(ino: InodeNo, version: Version) -> Inode {
    let bits = match ino {
        InodeNo::ROOT => 0o755,
        _ => 0o700,
    };
    let epoch = Timestamp::from_ns(0);
    Inode {
        nlink: 2,
        parent: InodeNo::ROOT,
        ..Inode::new(ino, version, FileKind::Directory.mode_bits() | bits, epoch)
    }
}
