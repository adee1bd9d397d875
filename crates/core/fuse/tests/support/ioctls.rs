//! ioctls of local file systems, for tests.
#![allow(unsafe_code)]
#![allow(dead_code, reason = "every test file uses its own part")]

use rustix::io::Errno;
use rustix::ioctl::{Getter, IntegerSetter, Setter, Updater, ioctl};
use std::fs::File;
use std::path::Path;

/// Flags as `FS_IOC_GETFLAGS` has them.
pub mod fl {
    pub const SYNC: u32 = 0x8;
    pub const IMMUTABLE: u32 = 0x10;
    pub const APPEND: u32 = 0x20;
    pub const NODUMP: u32 = 0x40;
    pub const NOATIME: u32 = 0x80;
    pub const DIRSYNC: u32 = 0x1_0000;
    pub const PROJINHERIT: u32 = 0x2000_0000;
}

/// `struct fsxattr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Fsxattr {
    pub xflags: u32,
    pub extsize: u32,
    pub nextents: u32,
    pub projid: u32,
    pub cowextsize: u32,
    pub padding: [u8; 8],
}

/// `struct fstrim_range`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Trim {
    pub start: u64,
    pub len: u64,
    pub minlen: u64,
}

fn open(path: &Path) -> File {
    File::open(path).unwrap()
}

pub fn get_flags(path: &Path) -> Result<u32, Errno> {
    Ok(rustix::fs::ioctl_getflags(open(path))?.bits())
}

pub fn set_flags(path: &Path, flags: u32) -> Result<(), Errno> {
    set_flags_of(&open(path), flags)
}

pub fn set_flags_of(file: &File, flags: u32) -> Result<(), Errno> {
    rustix::fs::ioctl_setflags(file, rustix::fs::IFlags::from_bits_retain(flags))
}

pub fn get_extended(path: &Path) -> Result<Fsxattr, Errno> {
    // SAFETY: the kernel fills a `struct fsxattr`.
    unsafe { ioctl(open(path), Getter::<0x801c_581f, Fsxattr>::new()) }
}

pub fn set_extended(path: &Path, to: Fsxattr) -> Result<(), Errno> {
    // SAFETY: the kernel reads a `struct fsxattr`.
    unsafe { ioctl(open(path), Setter::<0x401c_5820, Fsxattr>::new(to)) }
}

/// FITRIM; answers the bytes.
pub fn trim(path: &Path, mut range: Trim) -> Result<u64, Errno> {
    // SAFETY: the kernel reads and writes a `struct fstrim_range`.
    unsafe { ioctl(open(path), Updater::<0xc018_5879, Trim>::new(&mut range)) }?;
    Ok(range.len)
}

/// FS_IOC_SHUTDOWN.
pub fn shut_down(path: &Path, flags: u32) -> Result<(), Errno> {
    // SAFETY: the number says that the kernel writes a `u32`, which there is.
    unsafe { ioctl(open(path), Setter::<0x8004_587d, u32>::new(flags)) }
}

/// FIFREEZE.
pub fn freeze(path: &Path) -> Result<(), Errno> {
    // SAFETY: the argument is not used.
    unsafe { ioctl(open(path), IntegerSetter::<0xc004_5877>::new_usize(0)) }
}
