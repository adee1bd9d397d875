//! The offline check of names: it follows every name from the root and counts them. It is
//! the same for every layout.

use crate::directory;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::inode::Inode;
use crate::layout::Layout;
use crate::names::directory_blocks::Searched;
use crate::types::{FileKind, InodeNo};
use std::collections::HashMap;

/// Follows every name from the root, compares the files found with `inodes`, the complete
/// list, and reports each inconsistency.
pub fn check_names<L: Layout>(
    system: &FileSystem<L>,
    inodes: &HashMap<u64, &Inode>,
    tell: &mut dyn FnMut(String),
) {
    let mut links: HashMap<u64, u32> = HashMap::from([(InodeNo::ROOT.0, 2)]);
    let mut rest = vec![InodeNo::ROOT];
    if let Some(root) = inodes.get(&InodeNo::ROOT.0)
        && root.parent != InodeNo::ROOT
    {
        tell(format!(
            "the root directory says its parent is {}",
            root.parent
        ));
    }
    while let Some(directory) = rest.pop() {
        let mut below = Vec::new();
        let read = system.readdir(directory, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                below.push((entry.name.to_vec(), entry.ino, entry.kind));
            }
            true
        });
        let structure = structure(system, directory, tell);
        if let Err(error) = structure.and(read) {
            tell(format!("directory {directory}: {error}"));
        }
        for (name, ino, kind) in below {
            let name = name.escape_ascii().to_string();
            let Some(inode) = inodes.get(&ino.0) else {
                tell(format!(
                    "directory {directory}: \"{name}\" leads to inode {ino}, which is free or \
                     unreadable"
                ));
                continue;
            };
            if inode.kind() != kind {
                tell(format!(
                    "directory {directory}: \"{name}\" says {kind:?}, inode {ino} is {:?}",
                    inode.kind()
                ));
            }
            let seen = links.contains_key(&ino.0);
            if kind == FileKind::Directory && inode.kind() == kind {
                *links.entry(directory.0).or_default() += 1;
                if seen || inode.parent != directory {
                    tell(format!(
                        "directory {directory}: \"{name}\" is a directory that has another name, \
                         or says its parent is {}",
                        inode.parent
                    ));
                    continue;
                }
                rest.push(ino);
                *links.entry(ino.0).or_default() += 2;
            } else {
                *links.entry(ino.0).or_default() += 1;
            }
        }
    }
    let mut all: Vec<_> = inodes.iter().collect();
    all.sort_unstable_by_key(|(ino, _)| **ino);
    for (ino, inode) in all {
        let most = system.store.geometry.max_file_bytes;
        if let Some(flaw) = inode.flaw(InodeNo(*ino), most) {
            tell(format!("inode {ino}: {flaw}"));
        }
        let found = links.get(ino).copied().unwrap_or(0);
        if found != inode.nlink {
            tell(format!(
                "inode {ino}: {found} names lead to it, it says {}",
                inode.nlink
            ));
        }
    }
}

/// Reports flaws of a directory's tree: a listing does not notice names that no look-up
/// finds, or that exist twice.
fn structure<L: Layout>(
    system: &FileSystem<L>,
    directory: InodeNo,
    tell: &mut dyn FnMut(String),
) -> Result<()> {
    let vnode = system.vnode(directory)?;
    vnode.directory()?;
    let state = vnode.read_directory();
    let key = system.store.key(&vnode);
    let mut blocks = Searched {
        store: &system.store,
        vnode: &vnode,
        state: &state,
    };
    let mut flaw = |text: String| tell(format!("directory {directory}: {text}"));
    directory::check(&key, &mut blocks, &mut flaw).map(drop)
}
