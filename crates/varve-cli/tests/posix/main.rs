//! What POSIX and Linux ask of a file system, asked of a real mount, as root
//! and as other users, with Linux's own file systems as the measure.
//!
//! One module per area; most are tables. A table names all its rows that
//! failed, not the first. Every mount is unmounted and checked at the end.
//! `docs/semantics.md` says what no server can give and why.

#[path = "../../../varve-fuse/tests/support/ioctls.rs"]
mod ioctls;
#[path = "../../../varve-fuse/tests/support/map.rs"]
mod map;
#[path = "../support/mod.rs"]
mod support;

mod access_lists;
mod attributes;
mod directories;
mod file_flags;
mod locks;
mod memory;
mod mount;
mod names;
mod open;
mod permissions;
mod rename;
mod set_id;
mod sparse;
mod special;
mod times;
mod unlinked;
