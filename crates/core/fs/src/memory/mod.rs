//! The newest tree, as far as it is in memory, and the changes that wait to be logged:
//! states, without the operations that change them.

pub(crate) mod body;
pub(crate) mod cache;
pub(crate) mod changes;
pub(crate) mod former;
pub(crate) mod listings;
pub(crate) mod name_changes;
pub(crate) mod overlay;
pub(crate) mod parked;
pub(crate) mod passages;
pub(crate) mod private;
pub(crate) mod queues;
pub(crate) mod read_ahead;
pub(crate) mod small_syncs;
pub(crate) mod spilled;
pub(crate) mod store;
pub(crate) mod vnode;
pub(crate) mod vnode_table;
pub(crate) mod waits;
pub(crate) mod writer;
