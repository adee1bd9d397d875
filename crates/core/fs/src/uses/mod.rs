//! Declared uses of parts of files. Depending on the isolation, a use is ignored, noted
//! for the commit, or locked.
//!
//! | file | |
//! |---|---|
//! | `locking.rs` | the locks of a part, and its newest content then |
//! | `outsider.rs` | operations on protected files outside of transactions |

mod locking;
mod outsider;

pub(crate) use locking::lay_spans;

use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::isolation::{Access, Kind, Part};
use crate::layout::Layout;
use crate::memory::vnode::Vnode;
use std::sync::Arc;

impl<L: Layout> FileSystem<L> {
    /// Declares that an operation is about to use a part of a file. For the mounted tree
    /// this is done before space is asked for and without locks of that tree.
    ///
    /// # Errors
    /// `Deadlock`, `TimedOut`, `Aborted`, if a lock is not granted; `Suspended`.
    #[inline]
    pub(crate) fn uses(&self, vnode: &Arc<Vnode>, part: Part<'_>, access: Access) -> Result<()> {
        match &self.below {
            None => Ok(()),
            Some(below) => {
                below.goes_on()?;
                match &below.kind {
                    Kind::Snapshot | Kind::ReadOnly => Ok(()),
                    Kind::Serializable(reads) => {
                        reads.note(&self.store, vnode, &part, access);
                        Ok(())
                    }
                    Kind::Locking(_) if below.is_over() => Err(Error::Aborted),
                    Kind::Locking(locking) => self.lock_part(locking, vnode, &part, access),
                }
            }
        }
    }
}
