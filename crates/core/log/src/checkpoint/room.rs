//! Whether a checkpoint finds room, and giving back for that what a replayed log has left
//! empty (rule E5 of `docs/design/reuse.md`).

use crate::checkpoint::Checkpoints;
use crate::error::Result;
use crate::format::ifile::ImapState;
use std::sync::Arc;
use varve_fs::InodeNo;

/// Segments looked at again between two looks at whether that suffices.
const LOOKS: u32 = 16;

impl Checkpoints {
    /// True if a checkpoint taken now is sure to find room.
    pub fn checkpoint_fits(&self) -> bool {
        self.checkpoints_fit(1)
    }

    /// True if as many as `checkpoints`, taken now, are sure to find room.
    pub(crate) fn checkpoints_fit(&self, checkpoints: u32) -> bool {
        self.space.checkpoints_fit_now(checkpoints) || {
            self.look_for_room();
            self.space.checkpoints_fit_now(checkpoints)
        }
    }

    /// Gives back what a replayed log has left empty (rule E5): to the table
    /// such segments are as the record had them. First those that moves were
    /// made from; if a checkpoint still does not fit, any.
    pub(crate) fn look_for_room(&self) {
        let looked = self.find_neighbours().and_then(|()| self.look_among(false));
        let looked = looked.and_then(|()| {
            match self.space.checkpoints_fit_now(1) || !self.segments.lock().stale {
                true => Ok(()),
                false => self.look_among(true),
            }
        });
        if let Err(error) = looked {
            tracing::warn!(%error, "segments that the replayed log has left empty were not found");
        }
    }

    /// Finds which numbers of a replayed log leave the list of free ones, and puts
    /// down the blocks of their neighbours there: until that is known, a fold is
    /// counted with two of them each.
    fn find_neighbours(&self) -> Result<()> {
        let (base, numbers) = {
            let committed = self.layers.read();
            if !committed.live.neighbours_unknown {
                return Ok(());
            }
            let numbers: Vec<u64> = committed.live.inodes.keys().copied().collect();
            (Arc::clone(&committed.base), numbers)
        };
        let mut blocks = Vec::new();
        for ino in numbers {
            if let ImapState::Free { previous, next, .. } =
                base.imap(&self.reader, &self.geometry, InodeNo(ino))?
            {
                let beside = [previous, next].into_iter().filter(|&beside| beside != 0);
                blocks.extend(beside.map(|beside| self.geometry.imap_block(beside)));
            }
        }
        let mut committed = self.layers.change();
        if committed.base.serial == base.serial {
            committed.live.imap_blocks.extend(blocks);
            committed.live.neighbours_unknown = false;
        }
        Ok(())
    }

    /// Gives back those segments that are empty: among those that moves were made from,
    /// or among all.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn look_among(&self, all: bool) -> Result<()> {
        let which = {
            let mut segments = self.segments.lock();
            segments.let_go_of_withheld();
            segments.to_look_at(all)
        };
        for (nth, segment) in (1..).zip(which) {
            if let Some((edition, found)) = self.mechanism.judge(segment, &|| true)? {
                let data = found.is_all_data();
                if found.is_empty()
                    && data
                    && let Some(checkpoint) = self.mechanism.markv(found)?
                {
                    self.mechanism.segclean(segment, edition, checkpoint, data);
                }
            }
            self.segments.lock().moved_from.remove(&segment);
            if nth % LOOKS == 0 {
                self.settle_vacated()?;
                if self.space.checkpoints_fit_now(1) {
                    return Ok(()); // what is left is looked at when it is needed
                }
            }
        }
        if all {
            self.segments.lock().stale = false;
        }
        self.settle_vacated()
    }
}
