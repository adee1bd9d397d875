//! How many heads the log has: decided when it is mounted.
//!
//! Rule H4 of `docs/design/heads.md`: a head is used once every retained record names
//! it, and what a closed one had named is reusable once none does. So the
//! number changes by as many checkpoints as the ring has slots, before
//! anything else is appended; and again by as many if a power cut came between
//! them. Checkpoints append to the first head only.

use crate::error::{Error, Result};
use crate::heads::MAX_HEADS;
use crate::lfs::Lfs;
use crate::log::lives::Lives;
use crate::log::placement::Placement;
use crate::policy::PolicyKind;
use varve_fs::planted::{self, Planted};

impl Lfs {
    /// Gives the log the heads that the mount asks for, as far as there is
    /// room, and has blocks placed. `confirmed` if all records name those that
    /// there are.
    ///
    /// # Errors
    /// If a checkpoint fails.
    pub(super) fn arrange_heads(&mut self, confirmed: bool) -> Result<()> {
        let kind = self.options.policy;
        let heads = self.heads_to_have(kind);
        if heads != self.space.heads() || !confirmed {
            // Half way through, what closed heads had named would be nobody's,
            // and the reserve that of fewer heads.
            if !self.checkpoints.checkpoints_fit(self.records_to_change()) {
                let now = self.space.heads();
                tracing::warn!(now, heads, "no room to change the heads of the log");
                return Ok(());
            }
            match self.change_heads(heads) {
                Ok(()) => {}
                // Nothing is placed there before records say so: the first head
                // takes everything.
                Err(Error::OutOfSegments) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let measures = self.space.measures();
        let blocks = self.geometry.volume_bytes() / u64::from(self.geometry.block_bytes);
        let lives = match heads {
            1 => Lives::new(0, 0),
            _ => Lives::new(blocks, self.options.cache_bytes / 16),
        };
        // A partial of its own costs a write unit.
        let units = 4 * u64::from(self.geometry.write_unit);
        let head_bytes = self.options.head_bytes.max(units);
        self.log.lock().placement = Placement::between(heads, head_bytes, kind, &measures, lives);
        Ok(())
    }

    /// As many as are asked for and the reserve allows; more than there are only
    /// if there is room for what they keep open.
    fn heads_to_have(&self, kind: PolicyKind) -> usize {
        let most = Placement::most(kind, &self.space.measures());
        let asked = match self.options.heads {
            0 => Placement::wanted(kind, &self.space.measures()),
            asked => {
                if asked as usize > most {
                    tracing::warn!(asked, most, "the policy has no use for so many heads");
                }
                (asked as usize).min(most)
            }
        };
        let allowed = crate::mkfs::most_heads(&self.geometry).min(MAX_HEADS);
        let mut heads = asked.min(allowed);
        if heads > self.space.heads() {
            let spare = self.space.segments_to_spare() / 2;
            heads = heads.min(self.space.heads() + spare as usize);
        }
        if heads < asked {
            tracing::warn!(
                asked,
                heads,
                "the volume has room for fewer heads of the log"
            );
        }
        heads
    }

    /// Records that a change of the heads writes: all that are retained.
    fn records_to_change(&self) -> u32 {
        match planted::is(Planted::HeadsUnconfirmed) {
            true => 1,
            false => self.superblock.record_count.get(),
        }
    }

    fn change_heads(&mut self, heads: usize) -> Result<()> {
        let mut named = Vec::new();
        {
            let mut log = self.log.lock();
            let mut segments = self.segments.lock();
            while log.end.heads() < heads {
                let next = segments.take(0)?;
                log.end.open(next, &self.geometry);
            }
            while log.end.heads() > heads
                && let Some(closed) = log.end.close()
            {
                let (segment, next) = (closed.segment.get(), closed.next_segment.get());
                if segment != next {
                    segments.leave(segment);
                    // A record's position may still be in it.
                    segments.takes_metadata(segment);
                }
                named.push(next);
            }
        }
        self.space.set_heads(heads);
        for _ in 0..self.records_to_change() {
            self.checkpoints.take_checkpoint(false)?;
        }
        let mut segments = self.segments.lock();
        named.into_iter().for_each(|next| segments.put_back(next));
        tracing::info!(heads, "the log has another number of heads");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
