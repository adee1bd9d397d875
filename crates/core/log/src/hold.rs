//! The image of a checkpoint, kept readable.
//!
//! Nothing of an image is overwritten until a segment it uses is opened anew:
//! after two later checkpoints that found the segment empty (protocol rule 20),
//! or, if it holds data alone, once that has been moved (`docs/design/reuse.md`). An
//! image of which that may have happened is not held. While one is, segments that it uses are not opened at
//! all: whatever is read of it is what it was when it was completed. No lock
//! is held, and nobody waits.
//!
//! A hold never takes room from anybody: when clean segments run short, it is
//! broken ([`crate::cleaner`]), and what was read since proves nothing. So the
//! one who verifies asks [`Hold::stands`] *after* he has read what he is about
//! to complain of.

use crate::base::Base;
use crate::lfs::Lfs;
use crate::segments::SegmentState;
use std::sync::Arc;

/// What the usage table said of a segment.
#[derive(Clone, Copy, Debug)]
pub struct HeldSegment {
    /// Live bytes at the image's checkpoint.
    pub live_bytes: u32,
    /// How many segments had been opened when this one was.
    pub incarnation: u32,
    /// It may be opened.
    pub clean: bool,
    /// Blocks were written into its holes.
    pub plugged: bool,
}

/// See the module's head.
pub struct Hold<'a> {
    lfs: &'a Lfs,
    /// The image.
    pub base: Arc<Base>,
    /// Every segment, by number.
    pub segments: Vec<HeldSegment>,
}

impl<'a> Hold<'a> {
    /// Has segments that are about to be opened wait for the next hold.
    pub fn prepare(lfs: &Lfs) {
        lfs.segments.lock().prepare_hold();
    }

    /// Holds the newest image. The caller is the only one who verifies.
    pub fn take(lfs: &'a Lfs) -> Self {
        let committed = lfs.layers.read();
        let base = Arc::clone(&committed.base);
        let mut table = lfs.segments.lock();
        table.hold(base.serial);
        let segments = table
            .iter()
            .map(|(_, segment)| HeldSegment {
                live_bytes: segment.live_bytes,
                incarnation: segment.incarnation,
                clean: segment.state == SegmentState::Clean,
                plugged: segment.plugged,
            })
            .collect();
        Hold {
            lfs,
            base,
            segments,
        }
    }

    /// True if everything read of the image until now was still there.
    pub fn stands(&self) -> bool {
        self.lfs.segments.lock().holds(self.base.serial)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.lfs.segments.lock().let_go(self.base.serial);
    }
}
