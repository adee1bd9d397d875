//! The requirements of POSIX and Linux on a file system, tested on a real mount, as root
//! and as other users, with Linux's own file systems as the reference.
//!
//! One module per area; most are tables. A table reports all its rows that failed, not
//! only the first. Every mount is unmounted and checked at the end.
//! `docs/guide/semantics.md` states the limits of a server and their reasons.
//!
//! Each test runs on the layouts log, vlfs and ffs, and where it depends on free space
//! (content, holes, renames, removed files) on every policy of allocation as well:
//! `rename::extent::every_kind_onto_every_kind`. Each feature that a layout lacks is a
//! method of [`mount::Layout`], and the test then expects the layout's refusal.

#[path = "../../../fuse/tests/support/ioctls.rs"]
mod ioctls;
#[path = "../../../fuse/tests/support/map.rs"]
mod map;
#[path = "../support/mod.rs"]
mod support;

/// Makes tests of functions that take a layout, one on each. A function that is not named
/// here causes a warning that it is unused.
macro_rules! on_every_layout {
    ($($test:ident,)+) => { on_layouts! { log vlfs ffs: { $($test,)+ } } };
}
/// As `on_every_layout`, and on every policy of allocation, too.
macro_rules! on_every_policy {
    ($($test:ident,)+) => {
        on_layouts! { log vlfs ffs efs extent buddy restricted fixed: { $($test,)+ } }
    };
}
macro_rules! on_layouts {
    ($($layout:ident)+: $tests:tt) => { $(on_layouts! { @$layout $tests })+ };
    (@$layout:ident { $($test:ident,)+ }) => {
        mod $layout {
            $(
                #[test]
                fn $test() {
                    super::$test($crate::mount::Layout(stringify!($layout)));
                }
            )+
        }
    };
}

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
