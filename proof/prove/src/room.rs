//! The accounts of room of the segmented log, as a small abstract model.
//!
//! What is to hold: from every state that an adversary can reach, any sequence of
//! removals, in any order, with checkpoints, cleaning and crashes between them, ends with
//! an empty volume. No removal is refused, nothing that was admitted finds the log
//! full, and in the end room is back. The rules are
//!
//! - R1. Admitted is only what leaves room for folding everything: what is logged and
//!   what waits.
//! - R2. What grows or overwrites leaves a floor of room beyond that.
//! - R3. What lives leaves the floor and a slack of dead slots.
//! - R4. A removal leaves a batch for the cleaner, if appending what waits, checkpoints
//!   and cleaning can provide it; otherwise it is admitted under R1 alone. What nobody
//!   needs (a checkpoint by the clock, idle cleaning) leaves a batch or is not done.
//! - R5. Cleaned are the segments that take least, several for each pair of
//!   checkpoints, and only where the batch gains more than it writes. A block of the
//!   map that several moves change is priced once.
//!
//! [`log`] is the log in slots: images of files, one directory, the inode map, the usage
//! table; it knows which segment each lies in, and nothing else. [`rules`] admits and
//! makes room. [`fn@explore`] visits every state of a small volume, breadth first, or hunts
//! through a larger one for the states from which least room can be made; [`fn@walk`] lives
//! at random.
//!
//! What is left out: summaries and padding, several heads, holes, reuse ahead of
//! checkpoints (all of that segment comes back later here), index nodes beside the map
//! (a slot that changes has one block of the map written), operations during a
//! checkpoint. Appends are durable when they return.

pub mod canonical;
pub mod explore;
pub mod geometry;
pub mod log;
pub mod rules;
pub mod walk;

pub use explore::{Broken, Explored, Limits, explore, explore_from};
pub use geometry::Geometry;
pub use rules::{Missing, Rules, batch_for, slack_for};
pub use walk::{Walked, filled, walk};
