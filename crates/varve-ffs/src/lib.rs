//! FFS: a layout that updates in place.
//!
//! Cylinder groups with bitmaps, inodes in fixed places, blocks and fragments, and
//! a journal that makes the file system's groups atomic. `docs/ffs.md` has format,
//! rules and limits.

#![forbid(unsafe_code)]
