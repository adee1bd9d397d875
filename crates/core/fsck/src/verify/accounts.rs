//! Live bytes of segments, and totals.

use super::{Ended, Image, Stage};
use crate::check::{FindingKind, Subject};

impl Image<'_> {
    /// Compares the counts with the usage table and the record.
    ///
    /// A segment with more live bytes than the table counts may be reused while it
    /// contains live blocks. One with fewer only wastes space; that happens when a file
    /// with a damaged index is freed.
    pub(super) fn accounts(&mut self) -> Result<(), Ended> {
        self.control.enter(Stage::Accounts, 1);
        self.go_on()?;
        if self.blind {
            return Ok(());
        }
        for segment in 0..self.live.len() {
            let counted = self.hold.segments[segment].live_bytes;
            let lives = self.live[segment];
            let subject = Subject::Segment(segment as u32);
            let text = format!("the usage table counts {counted} live bytes, there are {lives}");
            if lives > counted {
                self.error(FindingKind::UsageCount, subject, text);
            } else if lives < counted {
                self.warning(FindingKind::UsageCount, subject, text);
            }
        }
        let base = std::sync::Arc::clone(&self.hold.base);
        if self.usage != base.usage {
            let (counted, there) = (base.usage, self.usage);
            let text = format!(
                "checkpoint {} counts {} inodes, {} blocks and {} sectors, there are {}, {} and {}",
                base.serial,
                counted.inodes,
                counted.blocks,
                counted.sectors,
                there.inodes,
                there.blocks,
                there.sectors
            );
            self.error(FindingKind::Totals, Subject::Volume, text);
        }
        if self.free_numbers != base.free_count {
            let text = format!(
                "{} inode numbers are free, checkpoint {} says {}",
                self.free_numbers, base.serial, base.free_count
            );
            self.error(FindingKind::FreeList, Subject::Volume, text);
        }
        let listed = base.unfinished.len() as u64;
        if self.unfinished < listed {
            let text = format!(
                "{listed} inodes are listed as unfinished, only {} are",
                self.unfinished
            );
            self.error(FindingKind::Unfinished, Subject::Volume, text);
        }
        self.go_on()
    }
}
