//! Other mounts below a mount, shown in the views of its transactions.
//!
//! A view covers the mount with everything mounted below it. If this is omitted, a
//! command writes into the directories beneath these mounts, and the commit makes the
//! files unreachable. So each mount is shown in the view as it is outside: it is not part
//! of the transaction, and changes in it remain. A mount of a part of the volume itself
//! shows that part of the view.

use crate::cli::mount_table::{self, Entry};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A mount that the view shows.
enum Shown {
    /// Another file system, with everything mounted below it; a clone that is mounted
    /// nowhere.
    Other(OwnedFd),
    /// This part of the volume.
    Part(PathBuf),
}

/// Clones of the mounts below a mount, each with its path, for the views of a
/// transaction.
pub struct Below(Vec<(PathBuf, Shown)>);

impl Below {
    /// The mounts that this process sees below `base`.
    ///
    /// # Errors
    /// Names the mount that cannot be shown elsewhere.
    pub fn of(base: &Entry) -> Result<Self, String> {
        let mut all: Vec<(PathBuf, Shown)> = Vec::new();
        for entry in mount_table::below(&base.directory) {
            let place = entry.directory;
            if all.iter().any(|(above, _)| place.starts_with(above)) {
                continue;
            }
            let shown = match (entry.major, entry.minor) == (base.major, base.minor) {
                true => Shown::Part(entry.part),
                false => Shown::Other(copy(&place).map_err(|error| cannot(&place, error))?),
            };
            all.push((place, shown));
        }
        Ok(Below(all))
    }

    /// Shows all of them in the view that is mounted at `root`.
    ///
    /// # Errors
    /// Names the mount that cannot be shown.
    pub fn show(&self, root: &Path) -> Result<(), String> {
        for (place, shown) in &self.0 {
            let placed = match shown {
                Shown::Other(tree) => match again(tree) {
                    Ok(copy) => put(&copy, place),
                    // Before Linux 6.15 the clone can be used only for one attempt.
                    Err(_) => put(tree, place),
                },
                Shown::Part(part) => {
                    let part = part.strip_prefix("/").unwrap_or(part);
                    copy(&root.join(part)).and_then(|copy| put(&copy, place))
                }
            };
            placed.map_err(|error| cannot(place, error))?;
        }
        Ok(())
    }
}

fn cannot(place: &Path, error: rustix::io::Errno) -> String {
    let place = place.display();
    format!(
        "what is mounted on {place} cannot be shown in a transaction: {error}; unmount it, or \
         have the command run elsewhere"
    )
}

/// A clone of the mount at a place, and of those below.
fn copy(place: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, place, flags)
}

/// A clone of a clone.
fn again(tree: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(tree, c"", flags)
}

fn put(tree: &OwnedFd, place: &Path) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, c"", CWD, place, flags)
}
