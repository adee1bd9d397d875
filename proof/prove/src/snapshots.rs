//! Snapshots, as a small abstract model that came before the code.
//!
//! A volume of six slots and one inode number takes and deletes snapshots while its
//! file changes, ends and begins again, a cleaner moves what it finds, checkpoints run,
//! fail or are cut off, and recovery uses either record. After each step, after a crash
//! from there, and from the older record, each snapshot must show what its moment had,
//! and no slot that it needs may have been written over. Each rule of
//! `docs/design/snapshots.md` can be left out to see what it is for.
//!
//! Not modelled: groups of several partials (`crate::abstract_log`), the arrays that
//! the history is stored in, and free space.

pub mod explore;
pub mod machine;
pub mod model;
pub mod rules;

pub use explore::{Walks, every, walk};
pub use rules::Missing;
