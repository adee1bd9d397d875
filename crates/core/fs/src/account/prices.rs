//! Upper bounds, in bytes, of the dirty data that changes of names add.

use crate::directory;

/// Upper bound of the dirty bytes of a new name: directory blocks and three inode images.
pub(crate) const NAME_BYTES: u64 = name_bytes(directory::INSERT_BLOCKS_MAX);

/// Upper bound of the dirty bytes of a removal: existing directory blocks, and three
/// inode images.
pub(crate) const REMOVAL_BYTES: u64 = name_bytes(directory::REMOVE_BLOCKS_MAX);

/// Upper bound of the dirty bytes of a rename over an existing name, or of an exchange:
/// the removal of the old name, the entry under the new one, and a fourth image.
pub(crate) const REPLACEMENT_BYTES: u64 = name_bytes(directory::REMOVE_BLOCKS_MAX + 2) + 512;

/// Dirty bytes of `blocks` directory blocks and three images.
const fn name_bytes(blocks: u64) -> u64 {
    blocks * (directory::NODE_BYTES as u64 + 128) + 3 * 512
}
