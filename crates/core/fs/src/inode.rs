//! An inode as the shared file system sees it: attributes and small contents.
//!
//! The layout alone knows where the blocks of the file are.

use crate::types::{FileKind, InodeNo, Timestamp, Version};

/// Bits of [`Inode::flags`].
pub mod flags {
    /// The content (or the symlink's target) is in [`super::Inode::inline`].
    pub const INLINE: u32 = 1 << 0;
    /// The size has been cut, and blocks beyond it are still to be freed. An operation
    /// that extends the file finishes that first.
    pub const TRUNCATING: u32 = 1 << 1;
    /// Nothing of the file can change.
    pub const IMMUTABLE: u32 = 1 << 2;
    /// Content and names can only be added.
    pub const APPEND_ONLY: u32 = 1 << 3;
    /// Reads do not change the access time.
    pub const NO_ATIME: u32 = 1 << 4;
    /// A mark for programs that save files.
    pub const NO_DUMP: u32 = 1 << 5;
    /// Changes are durable before they are answered.
    pub const SYNC: u32 = 1 << 6;
    /// Changes of the names in a directory are durable before they are answered.
    pub const DIR_SYNC: u32 = 1 << 7;
    /// New files in the directory get its project.
    pub const PROJECT_INHERIT: u32 = 1 << 8;
    /// Of the root directory: some regular file may have, or have had, a flag that is
    /// checked when it is opened.
    pub const GUARDED: u32 = 1 << 9;
    /// Locks of transactions also exclude callers outside of transactions.
    pub const PROTECTED: u32 = 1 << 10;
    /// Flags about the storage of a file.
    pub(crate) const STORED: u32 = INLINE | TRUNCATING | GUARDED;
    /// All flags.
    pub const KNOWN: u32 = (1 << 11) - 1;
}

/// Attributes and inline content of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// The inode's number.
    pub ino: InodeNo,
    /// Generation of the number.
    pub version: Version,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// User identifier of the owner.
    pub uid: u32,
    /// Group identifier.
    pub gid: u32,
    /// Number of names; for a directory 2 plus its subdirectories.
    pub nlink: u32,
    /// Device number of a special file, as `makedev` encodes it.
    pub rdev: u64,
    /// Length in bytes. For directories: bytes of entries, for information only.
    pub size: u64,
    /// Logical blocks that exist, unwritten ones included, holes not.
    pub blocks: u64,
    /// 512-byte sectors of those blocks: `st_blocks`.
    pub sectors: u64,
    /// Time of the last read, by the rules of relatime.
    pub atime: Timestamp,
    /// Time of the last change of content.
    pub mtime: Timestamp,
    /// Time of the last change of the inode.
    pub ctime: Timestamp,
    /// Time of creation.
    pub btime: Timestamp,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Project identifier; 0 if there is none.
    pub project: u32,
    /// For a directory, the directory that has its name.
    pub parent: InodeNo,
    /// Content when [`flags::INLINE`] is set: at most
    /// [`crate::LayoutGeometry::inline_bytes`] bytes.
    pub inline: Vec<u8>,
    /// Bytes of the extended-attribute blob; 0 if there is none.
    pub xattr_bytes: u32,
}

/// Most bytes of a symbolic link's target, as in Linux.
pub(crate) const TARGET_MAX: u64 = 4095;

impl Inode {
    /// An inode without content, names and attributes, of user and group 0, with the
    /// parent 0. The type is that of `mode`.
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

    /// True if the file has no name, or is in the middle of a truncate. The next mount
    /// continues with it ([`crate::Layout::unfinished`]).
    pub fn is_unfinished(&self) -> bool {
        self.nlink == 0 || self.flags & flags::TRUNCATING != 0
    }

    /// The first impossible value in the inode stored as number `ino`, on a volume whose
    /// files have at most `max_file_bytes`. Every call on such an inode fails, so a check
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

    /// The kind in the type bits.
    ///
    /// # Panics
    /// If the mode names no type; a layout checks that before it returns an inode.
    pub fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode).expect("an inode's mode names its type")
    }
}
