//! An inode as the shared file system sees it: attributes and small contents.
//!
//! Where the blocks of the file are is the layout's business and not here.

use crate::types::{FileKind, InodeNo, Timestamp, Version};

/// Bits of [`Inode::flags`].
pub mod flags {
    /// The content (or the symlink's target) is in [`super::Inode::inline`].
    pub const INLINE: u32 = 1 << 0;
    /// The size has been cut but blocks beyond it are still to be freed;
    /// whoever extends the file finishes that first.
    pub const TRUNCATING: u32 = 1 << 1;
    /// Nothing of it changes.
    pub const IMMUTABLE: u32 = 1 << 2;
    /// Only what is added to it.
    pub const APPEND_ONLY: u32 = 1 << 3;
    /// Reading leaves its access time alone.
    pub const NO_ATIME: u32 = 1 << 4;
    /// For programs that save files.
    pub const NO_DUMP: u32 = 1 << 5;
    /// Changes are durable before they are answered.
    pub const SYNC: u32 = 1 << 6;
    /// The same of the names in a directory.
    pub const DIR_SYNC: u32 = 1 << 7;
    /// What is made in a directory has its project.
    pub const PROJECT_INHERIT: u32 = 1 << 8;
    /// Of the root directory: some regular file may have, or have had, a flag
    /// that matters when it is opened.
    pub const GUARDED: u32 = 1 << 9;
    /// Locking transactions keep others out, too, who are in none.
    pub const PROTECTED: u32 = 1 << 10;
    /// Those that are about how a file is stored.
    pub(crate) const STORED: u32 = INLINE | TRUNCATING | GUARDED;
    /// All of these.
    pub const KNOWN: u32 = (1 << 11) - 1;
}

/// Attributes and inline content of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The inode's number.
    pub ino: InodeNo,
    /// Its generation.
    pub version: Version,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that lead here; for a directory 2 plus its subdirectories.
    pub nlink: u32,
    /// Device number of a special file, as `makedev` encodes it.
    pub rdev: u64,
    /// Length in bytes. For directories: bytes of entries, for people only.
    pub size: u64,
    /// Logical blocks that exist, unwritten ones included; no holes.
    pub blocks: u64,
    /// 512-byte sectors those blocks occupy: `st_blocks`.
    pub sectors: u64,
    /// Last read, kept as relatime.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth.
    pub btime: Timestamp,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Project identifier; 0 is none.
    pub project: u32,
    /// For a directory, the directory that holds its name.
    pub parent: InodeNo,
    /// Content when [`flags::INLINE`] is set: at most
    /// [`crate::LayoutGeometry::inline_bytes`] bytes.
    pub inline: Vec<u8>,
    /// Bytes of the extended-attribute blob; 0 is none.
    pub xattr_bytes: u32,
}

/// Bytes of a symbolic link's target at most, as Linux allows them.
pub(crate) const TARGET_MAX: u64 = 4095;

impl Inode {
    /// One without content, name and attributes, of user and group 0, with the
    /// parent 0; `mode` has its type.
    pub fn new(ino: InodeNo, version: Version, mode: u32, made: Timestamp) -> Self {
        Inode {
            ino,
            version,
            mode,
            uid: 0,
            gid: 0,
            nlink: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            sectors: 0,
            atime: made,
            mtime: made,
            ctime: made,
            btime: made,
            flags: 0,
            project: 0,
            parent: InodeNo(0),
            inline: Vec::new(),
            xattr_bytes: 0,
        }
    }

    /// Without a name, or in the middle of a truncate: the next mount goes on with
    /// it ([`crate::Layout::unfinished`]).
    pub fn is_unfinished(&self) -> bool {
        self.nlink == 0 || self.flags & flags::TRUNCATING != 0
    }

    /// What cannot be so in the inode stored as number `ino`, of a volume whose files
    /// have at most `max_file_bytes`. No call answers for an inode with a flaw, so a check
    /// reports it.
    pub fn flaw(&self, ino: InodeNo, max_file_bytes: u64) -> Option<&'static str> {
        let inline = self.flags & flags::INLINE != 0;
        if self.ino != ino {
            return Some("the inode names another number");
        }
        match FileKind::from_mode(self.mode) {
            None => Some("the mode names no type"),
            Some(FileKind::Directory) if inline => Some("a directory with inline content"),
            Some(FileKind::Directory) => None,
            Some(_) if self.size > max_file_bytes => Some("the size is too large"),
            Some(FileKind::Symlink) if self.size > TARGET_MAX => Some("a target is too long"),
            Some(_) if inline && self.blocks > 0 => Some("inline content beside blocks"),
            Some(_) if inline && self.inline.len() as u64 != self.size => {
                Some("inline content of another length than the size")
            }
            Some(_) => None,
        }
    }

    /// What the type bits say.
    ///
    /// # Panics
    /// If the mode names no type; a layout checks that before it hands an
    /// inode out.
    pub fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode).expect("an inode's mode names its type")
    }
}
