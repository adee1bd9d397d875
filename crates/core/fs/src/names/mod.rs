//! Operations on names: looking up, making, removing, moving, listing.

mod alone;
mod create;
pub(crate) mod directory_blocks;
mod inodes_ahead;
pub(crate) mod lookup;
mod overlaid;
mod passages;
mod readdir;
mod refused;
mod rename;
mod rename_rules;
mod unlink;
