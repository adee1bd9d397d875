//! The accounts of free space of the segmented log, as a small abstract model.
//!
//! The property: from every state that an adversary can reach, any sequence of removals,
//! in any order, with checkpoints, cleaning and crashes in between, ends with an empty
//! volume. No removal is refused, no admitted operation finds the log full, and finally
//! all space is free. The rules are
//!
//! - R1. An operation is admitted only if space is left for folding everything that is
//!   logged or dirty.
//! - R2. An operation that grows or overwrites must leave a minimum of free space beyond
//!   that.
//! - R3. Live blocks must leave this minimum and a reserve of dead slots.
//! - R4. A removal must leave a batch for the cleaner, if appending the dirty data,
//!   checkpoints and cleaning can provide it; otherwise it is admitted under R1 alone. An
//!   optional action (a checkpoint by the clock, idle cleaning) leaves a batch or is not
//!   run.
//! - R5. The segments with the least live data are cleaned, several for each pair of
//!   checkpoints, and only if the batch frees more than it writes. A block of the map
//!   that several moves change is priced once.
//!
//! [`log`] is the log in slots: images of files, one directory, the inode map, the usage
//! table; it knows the segment of each, and nothing else. [`rules`] admits operations and
//! frees space. [`fn@explore`] visits every state of a small volume, breadth first, or
//! searches a larger one for the states from which the least space can be freed;
//! [`fn@walk`] runs at random.
//!
//! Left out are summaries and padding, several heads, holes, reuse ahead of checkpoints
//! (all of that frees space earlier), index nodes in addition to the map (a slot that
//! changes writes one block of the map), and operations during a checkpoint. Appends are
//! durable when they return.

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
