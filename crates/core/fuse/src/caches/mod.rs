//! What the kernel caches of a mount, as far as the server must invalidate it.
//!
//! | state | what the kernel caches | when the server invalidates it |
//! |---|---|---|
//! | [`Watched`], [`BlockCounts`] | attributes that no answer refreshes | before the answer; at most a second later for block counts |
//! | [`DirectWrites`] | pages of a range that a direct write replaces | before the answer |
//! | [`Merging`] | names, attributes and pages that a commit changes | before the commit is merged |
//!
//! Each state has its own lock, takes what it needs as parameters, and calls no other state.

mod attributes;
mod direct_writes;
mod merging;

pub(crate) use attributes::{BlockCounts, Refreshed, Watched};
pub(crate) use direct_writes::{DirectWrites, StalePages};
pub(crate) use merging::{Merge, Merging};
