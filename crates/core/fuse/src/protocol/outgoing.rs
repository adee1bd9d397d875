//! What goes back: the reply header, the fixed bodies, the notifications.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! outgoing {
    ($($(#[$doc:meta])* $name:ident, $size:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
            #[repr(C)]
            pub(crate) struct $name {
                $(pub(crate) $field: $type,)*
            }
            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}

outgoing! {
    /// Begins every reply. `error` is 0 or a negative error number; in a
    /// notification `unique` is 0 and `error` its code.
    OutHeader, 16 { len: u32, error: i32, unique: u64, }
    /// `INIT`.
    InitOut, 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32,
        max_background: u16, congestion_threshold: u16, max_write: u32,
        time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32,
        max_stack_depth: u32, request_timeout: u16, unused16: u16, unused: [u32; 5],
    }
    /// Attributes.
    AttrBody, 88 {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32,
        mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    /// A name's inode, and how long to trust both. `nodeid` 0 says that there
    /// is no such name.
    EntryOut, 128 {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64,
        entry_valid_nsec: u32, attr_valid_nsec: u32, attr: AttrBody,
    }
    /// `GETATTR` and `SETATTR`.
    AttrOut, 104 { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: AttrBody, }
    /// `OPEN`, `OPENDIR`; follows the entry in `CREATE` and `TMPFILE`.
    OpenOut, 16 { fh: u64, open_flags: u32, padding: u32, }
    /// `GETLK`.
    LockOut, 24 { start: u64, end: u64, kind: u32, pid: u32, }
    /// `WRITE`, `COPY_FILE_RANGE`.
    WriteOut, 8 { size: u32, padding: u32, }
    /// `COPY_FILE_RANGE_64`.
    CopyFileRangeOut, 8 { bytes_copied: u64, }
    /// `STATFS`.
    StatfsOut, 80 {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64,
        bsize: u32, namelen: u32, frsize: u32, padding: u32, spare: [u32; 6],
    }
    /// `GETXATTR` and `LISTXATTR` asked for the size only.
    GetxattrOut, 8 { size: u32, padding: u32, }
    /// `IOCTL`, then the data.
    IoctlOut, 16 { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, }
    /// `LSEEK`.
    LseekOut, 8 { offset: u64, }
    /// One name of `READDIR`, then the name, padded to 8 bytes.
    Dirent, 24 { ino: u64, off: u64, namelen: u32, kind: u32, }
    /// A time of `STATX`.
    StatxTime, 16 { seconds: i64, nanos: u32, reserved: i32, }
    /// `STATX`.
    StatxOut, 288 {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2],
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32,
        mode: u16, spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64,
        atime: StatxTime, btime: StatxTime, ctime: StatxTime, mtime: StatxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    /// Notification: forget attributes and the pages of `off..off + len`;
    /// dirty pages are written first. `len` 0 means to the end, a negative
    /// `off` attributes only.
    NotifyInvalInode, 24 { ino: u64, off: i64, len: i64, }
    /// Notification: forget a name, which follows with its NUL.
    NotifyInvalEntry, 16 { parent: u64, namelen: u32, flags: u32, }
    /// Notification: drop inodes that nothing uses; their numbers follow.
    NotifyPrune, 16 { count: u32, padding: u32, spare: u64, }
    /// Notification: send cached bytes of a file back, in a NOTIFY_REPLY of
    /// this number.
    NotifyRetrieve, 32 { notify_unique: u64, nodeid: u64, offset: u64, size: u32, padding: u32, }
}

/// Code of [`NotifyInvalInode`].
pub(crate) const NOTIFY_INVAL_INODE: i32 = 2;
/// Code of [`NotifyInvalEntry`].
pub(crate) const NOTIFY_INVAL_ENTRY: i32 = 3;
/// Of [`NotifyInvalEntry`]: look it up again when it is wanted, and drop nothing.
pub(crate) const EXPIRE_ONLY: u32 = 1;
/// Code of [`NotifyPrune`].
pub(crate) const NOTIFY_PRUNE: i32 = 9;

impl NotifyPrune {
    /// Inodes in one notification.
    pub(crate) const NODES_MAX: usize = 512;
}

/// Code of [`NotifyRetrieve`].
pub(crate) const NOTIFY_RETRIEVE: i32 = 5;
