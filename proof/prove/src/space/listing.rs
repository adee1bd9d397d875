//! All names of a volume, from its listings.

use super::Wrong;
use crate::mounted::Tree;
use varve_fs::{FileKind, InodeNo};

/// A name that can be removed.
#[derive(Clone, Debug)]
pub struct Listed {
    pub parent: InodeNo,
    pub name: Vec<u8>,
    pub ino: InodeNo,
    pub kind: FileKind,
    /// Number of directories above it, without the root.
    pub depth: u32,
    /// Number of its creation.
    pub number: u64,
}

impl Listed {
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// Number of names listed at once.
const AT_ONCE: usize = 256;

/// Returns every name below the root, a directory's content before its own name.
pub fn list(tree: &dyn Tree) -> Result<Vec<Listed>, Wrong> {
    let mut all = Vec::new();
    // Directories are visited in the order in which they are found, so parents precede
    // children.
    let mut above = vec![(InodeNo::ROOT, 0)];
    let mut at = 0;
    while let Some(&(parent, depth)) = above.get(at) {
        at += 1;
        let mut after = 0;
        loop {
            let names = tree.readdir(parent, after, AT_ONCE);
            let names = names.map_err(|error| format!("listing {parent:?}: {error}"))?;
            let Some(last) = names.last() else { break };
            after = last.cookie;
            for name in names {
                if matches!(&name.name[..], b"." | b"..") {
                    continue;
                }
                if name.kind == FileKind::Directory {
                    above.push((name.ino, depth + 1));
                }
                all.push(Listed {
                    parent,
                    number: number_of(&name.name),
                    name: name.name,
                    ino: name.ino,
                    kind: name.kind,
                    depth,
                });
            }
        }
    }
    // The deepest are first; names in one directory keep its order.
    all.sort_by_key(|listed| std::cmp::Reverse(listed.depth));
    Ok(all)
}

/// Returns the number at the beginning of a name.
fn number_of(name: &[u8]) -> u64 {
    let digits = name.get(..8).unwrap_or_default();
    let text = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(text, 16).unwrap_or(0)
}

/// Returns a name that begins with its number.
pub fn name_of(number: u64, padding: usize) -> Vec<u8> {
    let mut name = format!("{number:08x}").into_bytes();
    name.resize(8 + padding, b'n');
    name
}
