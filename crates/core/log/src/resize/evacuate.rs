//! Emptying the segments beyond a new end.
//!
//! The cleaner's mechanism moves the live data there, as ordinary groups, and checkpoints
//! make the segments clean. Before that, there must be clean segments before the end: on
//! a volume that was filled and never cleaned all of them are beyond it.

use super::plan::{bytes_for, least_segments};
use crate::cleaner::Urgency;
use crate::counts::Counts;
use crate::error::{Error, Result};
use crate::format::Superblock;
use crate::lfs::Lfs;
use crate::segments::SegmentState;
use std::ops::Range;
use varve_fs::Purpose;

/// Rounds without gain after which the live data is considered immovable.
const IDLE_ROUNDS: u32 = 8;
/// Steps in which the head leaves any two segments.
const STEPS: u32 = 8;

impl Lfs {
    /// Moves the live data beyond the end that `planned` has, and takes one checkpoint
    /// less than there are records: the unmount takes the last.
    ///
    /// # Errors
    /// `DoesNotFit`, `Unfit` if data there is damaged, device errors.
    pub(super) fn empty_behind(
        &self,
        planned: &Superblock,
        progress: &dyn Fn(u64, u64),
    ) -> Result<()> {
        if self.space.heads() != 1 {
            let problem = "the log has several heads, and there is no room to close them";
            return Err(Error::Unfit(problem.into()));
        }
        // Changes logged since the last checkpoint are then counted, not estimated.
        self.checkpoints.take_checkpoint(false)?;
        self.must_fit(planned)?;
        let end = planned.segment_count.get();
        self.segments.lock().set_fence(end);
        self.make_room_before(end)?;
        self.segments.lock().close_fence();
        self.lead_head_before(end)?;
        self.evacuate(end, progress)?;
        for _ in 1..self.superblock.record_count.get() {
            self.checkpoints.take_checkpoint(false)?;
        }
        Ok(())
    }

    fn must_fit(&self, planned: &Superblock) -> Result<()> {
        let count = u64::from(planned.segment_count.get());
        let least = least_segments(&self.superblock, self.space.held_bytes());
        if least.is_some_and(|least| count >= least) {
            return Ok(());
        }
        let least = least.unwrap_or(self.geometry.segment_count.into());
        Err(Error::DoesNotFit {
            wanted: planned.device_bytes.get(),
            least: bytes_for(&self.superblock, least),
        })
    }

    /// Cleans before the end until checkpoint and cleaner have enough space there.
    fn make_room_before(&self, end: u32) -> Result<()> {
        let (mut idle, mut most) = (0, 0);
        while idle < IDLE_ROUNDS {
            let clean = self.segments.lock().clean_before_fence();
            if clean >= self.space.stock().goal(Counts::default(), Purpose::Grow) {
                break;
            }
            idle = if clean > most { 0 } else { idle + 1 };
            most = most.max(clean);
            self.move_out_of(0..end)?;
            self.give_back()?;
        }
        Ok(())
    }

    /// Leads the head out of segments beyond the end; it must not name one, either.
    fn lead_head_before(&self, end: u32) -> Result<()> {
        for _ in 0..STEPS {
            let position = self.log.lock().end.at(0);
            if position.segment.get() < end && position.next_segment.get() < end {
                return Ok(());
            }
            self.writer.go_on()?;
        }
        Err(Error::OutOfSegments)
    }

    /// Moves until every segment beyond the closed fence is clean.
    fn evacuate(&self, end: u32, progress: &dyn Fn(u64, u64)) -> Result<()> {
        let count = self.geometry.segment_count;
        let all = u64::from(count - end);
        let (mut idle, mut least, mut most) = (0, (usize::MAX, u64::MAX), 0);
        loop {
            let left = self.unclean(end..count);
            progress(all - left.len() as u64, all);
            if left.is_empty() {
                return Ok(());
            }
            let bytes = left.iter().map(|(_, bytes)| bytes).sum();
            let (now, clean) = ((left.len(), bytes), self.space.clean_segments_now());
            let gained = now < least || clean > most;
            idle = if gained { 0 } else { idle + 1 };
            (least, most) = (least.min(now), most.max(clean));
            if idle > IDLE_ROUNDS {
                tracing::warn!(room = %self.space.told(Counts::default()), "what lives finds no room");
                return Err(Error::OutOfSegments);
            }
            let moved = self.move_out_of(end..count)?;
            self.give_back()?;
            if !moved {
                let goal = self.space.clean_segments_now() + self.space.batch_segments();
                let cleaning = self.cleaner.lock_cleaning();
                self.cleaner
                    .gain_segments(&cleaning, Urgency::Starved, goal)?;
            }
        }
    }

    /// Segments that are not clean, and their live bytes, emptiest first.
    fn unclean(&self, which: Range<u32>) -> Vec<(u32, u64)> {
        let committed = self.layers.read();
        let segments = self.segments.lock();
        let unclean = which.filter(|&number| segments.get(number).state != SegmentState::Clean);
        let mut unclean: Vec<(u32, u64)> = unclean
            .map(|number| {
                let lived = i64::from(segments.get(number).live_bytes);
                (number, (lived + committed.added(number)).max(0) as u64)
            })
            .collect();
        unclean.sort_unstable_by_key(|&(number, bytes)| (bytes, number));
        unclean
    }

    /// Moves the live data of these segments, the emptiest first, as long as there is
    /// space. Returns false if a lack of space ended it.
    fn move_out_of(&self, which: Range<u32>) -> Result<bool> {
        for (segment, live_bytes) in self.unclean(which) {
            let cleaned = self.segments.lock().get(segment).cleaned.is_some();
            let standing = self.mechanism.settled(segment).is_none();
            if cleaned || standing || live_bytes == 0 || self.cleaner.clean_segment(segment)? {
                continue;
            }
            if self.segments.lock().get(segment).suspect {
                return Err(Error::Unfit(format!(
                    "segment {segment} holds something damaged, which cannot be moved: run varve \
                     fsck --data"
                )));
            }
            return Ok(false);
        }
        Ok(true)
    }

    /// Makes the emptied segments clean.
    fn give_back(&self) -> Result<()> {
        self.checkpoints.settle_vacated()?;
        for _ in 0..self.superblock.record_count.get() {
            if self.checkpoints.checkpoint_fits() {
                self.checkpoints.take_checkpoint(false)?;
            }
        }
        Ok(())
    }
}
