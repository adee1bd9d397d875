//! The names in one node of a directory whose tree is damaged.

use super::node::{self, Bounds, Node};
use super::{Key, MAX_NAME_BYTES};
use crate::error::Result;
use crate::types::{FileKind, InodeNo};

/// Passes the entries of the node found at `block` to `emit`, up to the first flaw,
/// wherever in the tree it belongs; an inner node has none.
///
/// Repair makes a new tree of them.
///
/// # Errors
/// `Damaged` if the bytes are not a node of this directory and block.
pub fn names_in(
    key: &Key,
    block: u64,
    data: &[u8],
    emit: &mut dyn FnMut(&[u8], InodeNo, FileKind),
) -> Result<()> {
    let Node::Leaf(leaf) = node::parse(key, block, Bounds::ROOT, data)? else {
        return Ok(());
    };
    for entry in leaf.entries() {
        let (at, entry) = entry.map_err(|flaw| flaw.at_block(key, block))?;
        let kind = entry.check(at).map_err(|flaw| flaw.at_block(key, block))?;
        if entry.name.len() <= MAX_NAME_BYTES {
            emit(entry.name, InodeNo(entry.ino), kind);
        }
    }
    Ok(())
}
