//! An inode on the device.
//!
//! It contains the attributes, the pointer to the extended attributes, and a tail. The
//! tail holds either the file's content (tiny files, short symbolic links) or the root
//! of its index: `slots()` pointers, which lead to data blocks at height 0, and to
//! index nodes at a greater height.
//!
//! An image written by an ordinary group need not have a root, because index nodes are
//! written by checkpoints. [`inode_flags::ROOT`] says that the image has a root and
//! that the root alone finds every block. Without it the root is the one of the last
//! checkpoint, amended by the block entries since.

use crate::{Malformed, Pointer, SECTOR};
use varve_fs::{Inode, InodeNo, Timestamp};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of every inode.
pub const MAGIC: u32 = u32::from_le_bytes(*b"VINO");

/// Bits of [`DiskInode::flags`] above those of `varve_fs::flags`.
pub mod inode_flags {
    /// The tail holds a root that finds every block.
    pub const ROOT: u32 = 1 << 31;
    /// Flags that belong to the shared file system.
    pub const SHARED_MASK: u32 = 0x0000_ffff;
}

/// Greatest height of an index: 126^9 blocks exceed 2^62.
pub const MAX_HEIGHT: u8 = 9;

/// The fixed part of an inode, 160 bytes; the tail follows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DiskInode {
    /// Always [`MAGIC`].
    pub magic: U32,
    /// Generation of the inode number.
    pub version: U32,
    /// The inode's number.
    pub ino: U64,
    /// Type and permissions.
    pub mode: U32,
    /// User that owns the file.
    pub uid: U32,
    /// Group that owns the file.
    pub gid: U32,
    /// Number of names.
    pub nlink: U32,
    /// Size in bytes, as far as it is logged.
    pub size: U64,
    /// Number of logical blocks that exist.
    pub blocks: U64,
    /// Number of sectors in these blocks and in the extended attributes.
    pub sectors: U64,
    /// Device number of a special file; parent of a directory.
    pub special: U64,
    /// Seconds of the times of the last read, change of content, change of inode, and
    /// birth.
    pub seconds: [I64; 4],
    /// Nanoseconds of the same times.
    pub nanos: [U32; 4],
    /// Low half: `varve_fs::flags`; high half: [`inode_flags`].
    pub flags: U32,
    /// Project identifier.
    pub project: U32,
    /// Height of the index.
    pub height: u8,
    /// Unused, zero.
    pub spare: u8,
    /// Number of bytes of inline content in the tail.
    pub inline_bytes: U16,
    /// Size of the extended attributes, in bytes.
    pub xattr_bytes: U32,
    /// Pointer to the extended attributes.
    pub xattrs: Pointer,
}
const _: () = assert!(size_of::<DiskInode>() == 160);
const _: () = assert!(std::mem::offset_of!(DiskInode, xattrs) == 128);

/// Maximum size of the extended attributes, in bytes: the sectors that a pointer can
/// count.
pub const MAX_XATTR_BYTES: usize = u8::MAX as usize * SECTOR as usize;

/// Size of a [`DiskInode`] before its tail, in bytes.
pub const HEADER_BYTES: usize = size_of::<DiskInode>();

/// Returns the number of pointers in the tail of an inode of `inode_bytes` bytes.
pub const fn slots(inode_bytes: usize) -> usize {
    (inode_bytes - HEADER_BYTES) / size_of::<Pointer>()
}

/// The root of a file's index.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Root {
    /// Height of the index; 0 if the slots point to data.
    pub height: u8,
    /// The pointers, as many as [`slots`] returns; empty ones at the end may be
    /// missing.
    pub slots: Vec<Pointer>,
}

/// An inode with all parts that are stored in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeImage {
    /// The attributes that the shared file system uses.
    pub inode: Inode,
    /// The root of the index, if this image has one.
    pub root: Option<Root>,
    /// Pointer to the extended attributes.
    pub xattrs: Pointer,
}

impl InodeImage {
    /// Writes the stored form to `into`, whose length is the volume's inode size.
    ///
    /// # Panics
    /// If the content or the root does not fit: the caller limits both before.
    pub fn encode(&self, into: &mut [u8]) {
        let inode = &self.inode;
        let times = [inode.atime, inode.mtime, inode.ctime, inode.btime];
        let directory = inode.kind() == varve_fs::FileKind::Directory;
        let root_flag = if self.root.is_some() {
            inode_flags::ROOT
        } else {
            0
        };
        let header = DiskInode {
            magic: U32::new(MAGIC),
            version: U32::new(inode.version),
            ino: U64::new(inode.ino.0),
            mode: U32::new(inode.mode),
            uid: U32::new(inode.uid),
            gid: U32::new(inode.gid),
            nlink: U32::new(inode.nlink),
            size: U64::new(inode.size),
            blocks: U64::new(inode.blocks),
            sectors: U64::new(inode.sectors),
            special: U64::new(if directory {
                inode.parent.0
            } else {
                inode.rdev
            }),
            seconds: times.map(|t| I64::new(t.seconds)),
            nanos: times.map(|t| U32::new(t.nanos)),
            flags: U32::new(inode.flags & inode_flags::SHARED_MASK | root_flag),
            project: U32::new(inode.project),
            height: self.root.as_ref().map_or(0, |root| root.height),
            spare: 0,
            inline_bytes: U16::new(inode.inline.len() as u16),
            xattr_bytes: U32::new(inode.xattr_bytes),
            xattrs: self.xattrs,
        };
        into[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        let tail = &mut into[HEADER_BYTES..];
        tail.fill(0);
        if !inode.inline.is_empty() {
            tail[..inode.inline.len()].copy_from_slice(&inode.inline);
        } else if let Some(root) = &self.root {
            for (slot, pointer) in tail.chunks_exact_mut(size_of::<Pointer>()).zip(&root.slots) {
                slot.copy_from_slice(pointer.as_bytes());
            }
        }
    }

    /// Parses the stored form of inode `ino`.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub fn decode(bytes: &[u8], ino: InodeNo) -> Result<Self, Malformed> {
        let bad = |problem: String| Malformed::new("inode", format!("{ino}: {problem}"));
        let (header, tail) =
            DiskInode::ref_from_prefix(bytes).map_err(|_| bad("too short".into()))?;
        if header.magic.get() != MAGIC {
            return Err(bad("no inode here".into()));
        }
        if header.ino.get() != ino.0 {
            return Err(bad(format!("inode {} stands in its place", header.ino)));
        }
        let Some(kind) = varve_fs::FileKind::from_mode(header.mode.get()) else {
            return Err(bad(format!("mode {:#o} names no type", header.mode)));
        };
        let flags = header.flags.get();
        let inline_bytes = usize::from(header.inline_bytes.get());
        let inline = flags & varve_fs::flags::INLINE != 0;
        if inline_bytes > tail.len() || (inline_bytes > 0) && !inline {
            return Err(bad(format!("{inline_bytes} bytes of inline content")));
        }
        if inline && header.size.get() != inline_bytes as u64 {
            return Err(bad("inline content differs from the size".into()));
        }
        if header.size.get() > 1 << 60 || header.nanos.iter().any(|n| n.get() >= 1_000_000_000) {
            return Err(bad("size or times out of range".into()));
        }
        if header.height > MAX_HEIGHT || !header.xattrs.is_sane() {
            return Err(bad("impossible index height or attribute pointer".into()));
        }
        // Without a root, the pointer to the attributes is the one of the checkpoint as
        // well.
        let xattr_bytes = u64::from(header.xattr_bytes.get());
        let known = flags & inode_flags::ROOT != 0;
        if xattr_bytes > MAX_XATTR_BYTES as u64
            || (known && xattr_bytes > header.xattrs.stored_bytes())
        {
            return Err(bad("extended attributes exceed their block".into()));
        }
        let root = (flags & inode_flags::ROOT != 0)
            .then(|| decode_root(header.height, tail, inline))
            .transpose()
            .map_err(bad)?;
        let time = |i: usize| Timestamp {
            seconds: header.seconds[i].get(),
            nanos: header.nanos[i].get(),
        };
        let directory = kind == varve_fs::FileKind::Directory;
        let special = header.special.get();
        Ok(InodeImage {
            inode: Inode {
                ino,
                version: header.version.get(),
                mode: header.mode.get(),
                uid: header.uid.get(),
                gid: header.gid.get(),
                nlink: header.nlink.get(),
                rdev: if directory { 0 } else { special },
                size: header.size.get(),
                blocks: header.blocks.get(),
                sectors: header.sectors.get(),
                atime: time(0),
                mtime: time(1),
                ctime: time(2),
                btime: time(3),
                flags: flags & inode_flags::SHARED_MASK,
                project: header.project.get(),
                parent: InodeNo(if directory { special } else { 0 }),
                inline: tail[..inline_bytes].to_vec(),
                xattr_bytes: header.xattr_bytes.get(),
            },
            root,
            xattrs: header.xattrs,
        })
    }
}

fn decode_root(height: u8, tail: &[u8], inline: bool) -> Result<Root, String> {
    if inline {
        return Ok(Root::default());
    }
    let slots = super::entries::<Pointer>(tail);
    if slots
        .iter()
        .any(|p| !p.is_sane() || (height > 0 && p.is_unwritten()))
    {
        return Err("malformed pointer".into());
    }
    let last = slots.iter().rposition(|pointer| !pointer.is_none());
    let slots = slots[..last.map_or(0, |last| last + 1)].to_vec();
    Ok(Root { height, slots })
}
