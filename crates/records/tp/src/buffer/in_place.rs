//! Pages in place, and the images of them in the log.
//!
//! Rules of `docs/spec/records.md`:
//! - I1: a page is written only when the log is durable up to its LSN and its image.
//! - I3: a page is written only if the log has an image of it at or behind `from`.
//! - I4: `from` is set to the beginning of a checkpoint before that reads its `redo`.
//!
//! Source: PostgreSQL's `full_page_writes`; InnoDB's double write.

use crate::log::Lsn;
use crate::planted::{self, Planted};
use foldhash::HashMap;

#[derive(Debug)]
pub(super) struct InPlace {
    /// True if writes may be torn, so that images are needed.
    images: bool,
    /// Least LSN of a valid image; 0 if no page needs one.
    from: u64,
    /// The last image of each page, from `from` on.
    imaged: HashMap<u32, u64>,
}

impl InPlace {
    /// Returns the state after a checkpoint whose `redo` is `from`; later images are
    /// added from the log.
    pub(super) fn new(images: bool, from: u64) -> Self {
        InPlace {
            images,
            from,
            imaged: HashMap::default(),
        }
    }

    /// Returns the LSN up to which the log must be durable before this page is written,
    /// because of its image; zero if the page needs none. `None` if an image must be
    /// appended first.
    pub(super) fn image(&self, page: u32) -> Option<Lsn> {
        let last = self.imaged.get(&page).copied().unwrap_or(0);
        let wanting = self.images && last < self.from && !planted::is(Planted::ImageLeftOut);
        (!wanting).then_some(Lsn(last))
    }

    pub(super) fn imaged(&mut self, page: u32, lsn: Lsn) {
        self.imaged.insert(page, lsn.0);
    }

    /// Begins a checkpoint. Its `redo` must be read after all writes that called
    /// [`image`](Self::image) earlier.
    pub(super) fn begin_checkpoint(&mut self, begin: Lsn) {
        if !planted::is(Planted::ImageTooOld) {
            self.from = begin.0;
            self.imaged.retain(|_, image| *image >= begin.0);
        }
    }
}
