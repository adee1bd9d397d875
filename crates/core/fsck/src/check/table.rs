//! The check's record of every inode, in sixteen bytes.

use std::collections::HashMap;
use varve_fs::FileKind;

/// Number of inodes in one chunk.
const CHUNK: u64 = 128;

/// Bits of [`Known::flags`].
pub mod known {
    /// The number is free in the checkpoint's inode map.
    pub const FREE: u8 = 1 << 0;
    /// The number was found on the free list.
    pub const LISTED: u8 = 1 << 1;
    /// The inode exists, but its image is damaged and its kind unknown.
    pub const DAMAGED: u8 = 1 << 2;
    /// The index is damaged, and the content not known.
    pub const INDEX: u8 = 1 << 3;
    /// The image is marked as unfinished.
    pub const UNFINISHED: u8 = 1 << 4;
    /// The directory is reachable from the root.
    pub const REACHED: u8 = 1 << 5;
}

/// One inode of the newest state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Directory in which its first name was found.
    pub named_by: u64,
    /// Link count minus the names found so far, modulo 2^32.
    pub remaining: u32,
    /// Bits of [`known`].
    pub flags: u8,
    kind: u8,
}

impl Known {
    /// Returns the kind of the inode if it exists.
    pub fn kind(&self) -> Option<FileKind> {
        FileKind::from_raw(self.kind)
    }

    pub fn set_kind(&mut self, kind: FileKind) {
        self.kind = kind as u8;
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if the inode exists, damaged or not.
    pub fn exists(&self) -> bool {
        self.kind != 0 || self.has(known::DAMAGED)
    }
}

/// All inodes, by number.
#[derive(Debug, Default)]
pub struct InodeTable {
    chunks: HashMap<u64, Box<[Known; CHUNK as usize]>>,
}

impl InodeTable {
    pub fn get(&self, ino: u64) -> Known {
        self.chunks
            .get(&(ino / CHUNK))
            .map_or_else(Known::default, |chunk| chunk[(ino % CHUNK) as usize])
    }

    pub fn at(&mut self, ino: u64) -> &mut Known {
        let chunk = self
            .chunks
            .entry(ino / CHUNK)
            .or_insert_with(|| Box::new([Known::default(); CHUNK as usize]));
        &mut chunk[(ino % CHUNK) as usize]
    }

    /// Returns the numbers of all chunks in use, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let mut chunks: Vec<u64> = self.chunks.keys().copied().collect();
        chunks.sort_unstable();
        chunks
            .into_iter()
            .flat_map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK)
    }
}
