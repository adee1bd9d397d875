//! What changes of names ask for.

use crate::directory;

/// What a new name may make dirty: blocks, and three images.
pub(crate) const NAME_BYTES: u64 = name_bytes(directory::INSERT_BLOCKS_MAX);

/// What the removal of a name may: blocks that exist, and the images of the
/// directory, of what is removed, and of the directory that was removed.
pub(crate) const REMOVAL_BYTES: u64 = name_bytes(directory::REMOVE_BLOCKS_MAX);

/// What a rename over an existing name may, or an exchange: the removal of the
/// old name, the entry at the new one, and a fourth image.
pub(crate) const REPLACEMENT_BYTES: u64 = name_bytes(directory::REMOVE_BLOCKS_MAX + 2) + 512;

/// So many of a directory's blocks, and three images.
const fn name_bytes(blocks: u64) -> u64 {
    blocks * (directory::NODE_BYTES as u64 + 128) + 3 * 512
}
