//! Leading the log's head out of its segment, without anything to write.

use crate::error::Result;
use crate::log::item::{GroupKind, Stamp};
use crate::log::plan::{PartialPlan, PartialSize};
use crate::writer::Writer;
use std::sync::atomic::Ordering::Relaxed;

impl Writer {
    /// Leads the first head one step further: to the end of its segment, or one write
    /// unit into the segment it has named. An empty partial records that, a group of its
    /// own that roll-forward skips like one of a checkpoint. It never takes a whole
    /// segment, which would hide the following partials if it were damaged.
    ///
    /// # Errors
    /// `OutOfSegments` if a segment is opened and none can be named.
    pub(crate) fn go_on(&self) -> Result<()> {
        self.durability.check()?;
        let mut log = self.log.lock();
        let position = log.end.at(0);
        let (segment, offset, enters) = self.geometry.successor(&position);
        let (next_segment, bytes) = match enters {
            true => {
                let next = self.segments.lock().take(segment.wrapping_add(1))?;
                (next, self.geometry.write_unit)
            }
            false => {
                let rest = self.geometry.segment_bytes - offset;
                (position.next_segment.get(), rest)
            }
        };
        let plans = [PartialPlan {
            items: 0..0,
            head: 0,
            segment,
            offset,
            enters,
            next_segment,
            size: PartialSize::default(),
            plugs: Vec::new(),
            bytes,
        }];
        let kind = GroupKind::Checkpoint;
        let filled = self.fill(&mut log, &plans, &[]);
        self.account(&plans[0], &[], kind);
        let written = self.apply_group(
            &mut log,
            &plans,
            filled,
            Vec::new(),
            (kind, Stamp::default()),
        );
        drop(log);
        self.counters.groups.fetch_add(1, Relaxed);
        self.counters.partials.fetch_add(1, Relaxed);
        let partial = self.durability.partial(written.serial);
        self.output.write(partial.into_iter().collect());
        Ok(())
    }
}
