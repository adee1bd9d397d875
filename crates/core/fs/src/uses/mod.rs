//! What operations tell of the parts of files that they use, and what becomes of that:
//! nothing, a note for the commit, or locks.
//!
//! | file | |
//! |---|---|
//! | `locking.rs` | the locks of a part, and what the ground has of it then |
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
    /// An operation is about to use a part of a file. In the mounted tree it says so
    /// before it asks for room and with no lock of that tree held.
    ///
    /// # Errors
    /// `Deadlock`, `TimedOut`, `Aborted`, where a lock is not to be had; `Suspended`.
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
