//! Snapshots, as a small abstract model that was written before the code.
//!
//! A volume of six slots and one inode number takes and deletes snapshots while its file
//! changes, is removed and created again, a cleaner moves blocks, checkpoints run, fail
//! or are interrupted, and recovery uses either record. After each step, after a crash
//! there, and from the older record, each snapshot must show the state of its moment, and
//! no slot that it needs may have been overwritten. Each rule of
//! `docs/design/snapshots.md` can be left out to show its purpose.
//!
//! Not modelled: groups of several partials (`crate::abstract_log`), the arrays that
//! store the history, and free space.

pub mod explore;
pub mod machine;
pub mod model;
pub mod rules;

pub use explore::{Walks, every, walk};
pub use rules::Missing;
