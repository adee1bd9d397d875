//! State of a mount that is the view of a transaction, whose changes become part of another
//! mount's tree at the commit.
//!
//! | state | content |
//! |---|---|
//! | [`FoundNames`] | names by which the kernel of the view found files |
//! | [`LostWrites`] | writes that were lost after the kernel had accepted them |
//! | [`Locks`] | locks of files |

mod locks;
mod lost;
mod names;

pub(crate) use locks::{Attempt, HeldLock, Locks};
pub(crate) use lost::LostWrites;
pub(crate) use names::FoundNames;
