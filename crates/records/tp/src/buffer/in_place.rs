//! Pages in place: which of them have an image in the log.
//!
//! Rules of `docs/spec/records.md`:
//! - I1: a page is written only when the log is durable up to its LSN and its image.
//! - I3: a page is written only if the log has an image of it at or behind `from`.
//! - I4: `from` is the beginning of a checkpoint before that reads its `redo`.
//!
//! Source: PostgreSQL's `full_page_writes`; InnoDB's double write.

use crate::log::Lsn;
use crate::planted::{self, Planted};
use foldhash::HashMap;

#[derive(Debug)]
pub(super) struct InPlace {
    /// Writes may be torn.
    images: bool,
    /// Images before this do not count; 0: nothing has to have one.
    from: u64,
    /// The last image of each page, from `from` on.
    imaged: HashMap<u32, u64>,
}

impl InPlace {
    /// Behind a checkpoint whose `redo` is `from`, and with what the log has behind that.
    pub(super) fn new(images: bool, from: u64) -> Self {
        InPlace {
            images,
            from,
            imaged: HashMap::default(),
        }
    }

    /// Up to where the log has to be durable before this page is written, for its image:
    /// nowhere, if it needs none. `None` if one has to be appended first.
    pub(super) fn image(&self, page: u32) -> Option<Lsn> {
        let last = self.imaged.get(&page).copied().unwrap_or(0);
        let wanting = self.images && last < self.from && !planted::is(Planted::ImageLeftOut);
        (!wanting).then_some(Lsn(last))
    }

    pub(super) fn imaged(&mut self, page: u32, lsn: Lsn) {
        self.imaged.insert(page, lsn.0);
    }

    /// A checkpoint begins here. Its `redo` is read when no write is under way that has
    /// asked before.
    pub(super) fn begin_checkpoint(&mut self, begin: Lsn) {
        if !planted::is(Planted::ImageTooOld) {
            self.from = begin.0;
            self.imaged.retain(|_, image| *image >= begin.0);
        }
    }
}
