//! What the kernel sends: the request header and the fixed part of each body.
#![allow(dead_code, reason = "a protocol is declared whole")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! incoming {
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

incoming! {
    /// Begins every request. `total_extlen` counts 8-byte units of extensions
    /// at the request's end.
    InHeader, 40 {
        len: u32, opcode: u32, unique: u64, nodeid: u64,
        uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16,
    }
    /// `INIT`. Kernels before 5.17 send only the first four fields.
    InitIn, 16 { major: u32, minor: u32, max_readahead: u32, flags: u32, }
    /// `INIT`, second part.
    InitExtIn, 48 { flags2: u32, unused: [u32; 11], }
    /// `FORGET`.
    ForgetIn, 8 { nlookup: u64, }
    /// `BATCH_FORGET`, followed by `count` of [`ForgetOne`].
    BatchForgetIn, 8 { count: u32, dummy: u32, }
    /// One inode the kernel forgot.
    ForgetOne, 16 { nodeid: u64, nlookup: u64, }
    /// `GETATTR`.
    GetattrIn, 16 { getattr_flags: u32, dummy: u32, fh: u64, }
    /// `SETATTR`.
    SetattrIn, 88 {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64,
        atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32,
        mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    /// `MKNOD`, then the name.
    MknodIn, 16 { mode: u32, rdev: u32, umask: u32, padding: u32, }
    /// `MKDIR`, then the name.
    MkdirIn, 8 { mode: u32, umask: u32, }
    /// `RENAME`, then both names.
    RenameIn, 8 { newdir: u64, }
    /// `RENAME2`, then both names.
    Rename2In, 16 { newdir: u64, flags: u32, padding: u32, }
    /// `LINK`, then the new name.
    LinkIn, 8 { oldnodeid: u64, }
    /// `OPEN`.
    OpenIn, 8 { flags: u32, open_flags: u32, }
    /// `CREATE` and `TMPFILE`, then the name.
    CreateIn, 16 { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    /// `READ`, `READDIR` and `READDIRPLUS`.
    ReadIn, 40 {
        fh: u64, offset: u64, size: u32, read_flags: u32,
        lock_owner: u64, flags: u32, padding: u32,
    }
    /// `WRITE`, then the data.
    WriteIn, 40 {
        fh: u64, offset: u64, size: u32, write_flags: u32,
        lock_owner: u64, flags: u32, padding: u32,
    }
    /// `FLUSH`.
    FlushIn, 24 { fh: u64, unused: u32, padding: u32, lock_owner: u64, }
    /// `RELEASE`.
    ReleaseIn, 24 { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    /// `GETLK`, `SETLK` and `SETLKW`.
    LockIn, 48 {
        fh: u64, owner: u64, start: u64, end: u64, kind: u32, pid: u32,
        lock_flags: u32, padding: u32,
    }
    /// `INTERRUPT`: the number of the request.
    InterruptIn, 8 { unique: u64, }
    /// `FSYNC` and `FSYNCDIR`.
    FsyncIn, 16 { fh: u64, fsync_flags: u32, padding: u32, }
    /// `SETXATTR`, then name and value.
    SetxattrIn, 8 { size: u32, flags: u32, }
    /// `SETXATTR`, second part, where `SETXATTR_EXT` is in force.
    SetxattrExtIn, 8 { setxattr_flags: u32, padding: u32, }
    /// `GETXATTR`, then the name; `LISTXATTR`.
    GetxattrIn, 8 { size: u32, padding: u32, }
    /// `IOCTL`, then `in_size` bytes.
    IoctlIn, 32 { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    /// `FALLOCATE`.
    FallocateIn, 32 { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    /// `LSEEK`.
    LseekIn, 24 { fh: u64, offset: u64, whence: u32, padding: u32, }
    /// `COPY_FILE_RANGE` and `COPY_FILE_RANGE_64`.
    CopyFileRangeIn, 56 {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64,
        len: u64, flags: u64,
    }
    /// `STATX`.
    StatxIn, 24 { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32, }
}
