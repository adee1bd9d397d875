//! Phase V: the usage table, the free list, and all totals.
//!
//! The table and the corrections in the record describe the checkpoint's image and are
//! compared with a recount of that image. The totals of the last group are compared with
//! a recount that includes the replayed log.

use super::Checker;
use super::fixes::Fix;
use super::report::{FindingKind, Subject};
use super::table::known;
use std::collections::HashMap;
use varve_fs::{InodeNo, Usage};
use varve_lfs::SegmentState;
use varve_lfs::format::ifile::{ImapState, NOT_EMPTY, usage_flags};

impl Checker<'_> {
    pub(super) fn check_accounts(&mut self) {
        let corrections = self.corrections();
        let blind = self.blind();
        if blind {
            let text = "what damaged inodes hold is not known: live bytes and totals were not \
                        compared";
            self.found
                .warning(FindingKind::UsageCount, Subject::Volume, text);
        }
        for segment in 0..self.geometry.segment_count {
            if self.found.full() {
                return;
            }
            let correction = corrections.get(&segment).copied().unwrap_or(0);
            if !blind {
                self.live_bytes(segment, correction);
            }
            self.segment_state(segment, correction);
        }
        self.log_head();
        self.free_list();
        if !blind {
            self.totals();
        }
    }

    /// Returns true if some structure could not be walked.
    fn blind(&self) -> bool {
        self.found.errors.iter().any(|finding| {
            use FindingKind::{IndexNode, Inode, InodeMap, Recovery};
            matches!(finding.kind, IndexNode | Inode | InodeMap | Recovery)
        })
    }

    fn corrections(&mut self) -> HashMap<u32, i64> {
        let mut corrections: HashMap<u32, i64> = HashMap::new();
        for delta in &self.record.deltas {
            let segment = delta.segment.get();
            if segment >= self.geometry.segment_count {
                let text = "the checkpoint record corrects a segment that does not exist";
                let subject = Subject::Segment(segment);
                self.found.error(FindingKind::UsageCount, subject, text);
                self.found.fix(Fix::Accounts);
            }
            let sum = corrections.entry(segment).or_default();
            *sum = sum.saturating_add(delta.bytes.get());
        }
        corrections
    }

    fn live_bytes(&mut self, segment: u32, correction: i64) {
        let written = i64::from(self.table[segment as usize].live_bytes.get());
        let counted = written.saturating_add(correction);
        let lives = self.claims.get(segment).base_live;
        if i128::from(counted) != i128::from(lives) {
            let text = format!(
                "the usage table counts {counted} live bytes ({written} and a correction of \
                 {correction}), there are {lives}"
            );
            let subject = Subject::Segment(segment);
            self.found.error(FindingKind::UsageCount, subject, text);
            self.found.fix(Fix::Accounts);
        }
    }

    fn segment_state(&mut self, segment: u32, correction: i64) {
        let entry = self.table[segment as usize];
        let subject = Subject::Segment(segment);
        let used = self.claims.get(segment);
        let state = self.state.segments.get(segment).clone();
        self.counts.segments += 1;
        self.counts.segments_used += u32::from(used.used());
        self.counts.segments_clean += u32::from(state.state == SegmentState::Clean);
        // The segment was empty when the table was written and was then filled by the
        // checkpoint itself; the record's correction shows that.
        let filled_since = entry.live_bytes.get() == 0 && correction > 0;
        let marked_empty = entry.empty_since.get() != NOT_EMPTY && !filled_since;
        if used.base_live > 0 && marked_empty {
            let text = format!(
                "holds {} live bytes, but is marked empty since checkpoint {}",
                used.base_live, entry.empty_since
            );
            self.found.error(FindingKind::SegmentState, subject, text);
            self.found.fix(Fix::Accounts);
        } else if used.used() && state.state == SegmentState::Clean {
            let text = "holds live blocks, but is marked clean";
            self.found.error(FindingKind::SegmentState, subject, text);
            self.found.fix(Fix::Accounts);
        }
        // For the same reason the checkpoint may have written its own table to the
        // segment.
        let data_only = entry.flags.get() & usage_flags::DATA_ONLY != 0 && correction <= 0;
        if data_only && used.metadata {
            let text = "is said to hold data alone, but has metadata of the checkpoint";
            self.found.error(FindingKind::SegmentState, subject, text);
            self.found.fix(Fix::Accounts);
        }
        if state.incarnation > self.state.segments.opened() {
            let text = format!(
                "was opened as number {}, but only {} were",
                state.incarnation,
                self.state.segments.opened()
            );
            self.found.error(FindingKind::SegmentState, subject, text);
            self.found.fix(Fix::Accounts);
        }
        let used = self.claims.get(segment);
        if let Some(named) = used.incarnation
            && named != state.incarnation
        {
            let text = format!(
                "pointers name its incarnation {named}, the usage table {}",
                state.incarnation
            );
            self.found
                .error(FindingKind::PointerIncarnation, subject, text);
            self.found.fix(Fix::Evacuate { segment });
        }
        if let Some(stray) = used.stray {
            let text = format!(
                "a pointer of inode {} names incarnation {}, others {}",
                stray.ino,
                stray.incarnation,
                used.incarnation.unwrap_or(0)
            );
            self.found
                .error(FindingKind::PointerIncarnation, subject, text);
            self.found.fix(Fix::Evacuate { segment });
        }
        if state.suspect {
            let text = "the cleaner met a damaged block in it";
            self.found.warning(FindingKind::Suspect, subject, text);
        }
    }

    /// Checks that no live block is stored where the log continues.
    fn log_head(&mut self) {
        let end = self.state.end;
        let places = end.positions().flat_map(|position| {
            [
                (position.segment.get(), position.offset.get()),
                (position.next_segment.get(), 0),
            ]
        });
        for (segment, offset) in places {
            if segment >= self.geometry.segment_count {
                continue; // recovery has reported it
            }
            if let Some(sector) = self.claims.first_at(segment, offset) {
                let text = format!("the log goes on over the live block at sector {sector}");
                let subject = Subject::Segment(segment);
                self.found.error(FindingKind::SegmentState, subject, text);
                self.found.fix(Fix::Accounts);
            }
        }
    }

    /// Checks that every free number is on the list exactly once, and that its links
    /// agree in both directions.
    fn free_list(&mut self) {
        let base = std::sync::Arc::clone(&self.state.base);
        let mut previous = 0;
        let mut ino = base.free_head;
        let mut count = 0;
        while ino != 0 {
            let subject = Subject::Inode(ino);
            let number = self.inodes.get(ino);
            if number.has(known::DAMAGED) {
                return; // the entry was reported, and the list ends here
            }
            if !number.has(known::FREE) || number.has(known::LISTED) {
                let text = if number.has(known::LISTED) {
                    format!("the free list returns to it behind {previous}")
                } else {
                    format!("on the free list behind {previous}, but not free")
                };
                self.found.error(FindingKind::FreeList, subject, text);
                self.found.fix(Fix::FreeList);
                break;
            }
            self.inodes.at(ino).flags |= known::LISTED;
            count += 1;
            let state = base.imap(self.reader, &self.geometry, InodeNo(ino));
            let Ok(ImapState::Free {
                previous: back,
                next,
                ..
            }) = state
            else {
                break; // the block was reported
            };
            if back != previous {
                let text = format!("on the free list behind {previous}, but its link says {back}");
                self.found.error(FindingKind::FreeList, subject, text);
                self.found.fix(Fix::FreeList);
            }
            previous = ino;
            ino = next;
        }
        self.counts.free_numbers = count;
        if count != base.free_count {
            let text = format!(
                "the free list has {count} numbers, the checkpoint record says {}",
                base.free_count
            );
            self.found
                .error(FindingKind::FreeList, Subject::Volume, text);
            self.found.fix(Fix::FreeList);
        }
        if count != self.imap_free {
            self.unlisted();
        }
    }

    fn unlisted(&mut self) {
        let numbers: Vec<u64> = self.inodes.numbers().collect();
        for ino in numbers {
            let number = self.inodes.get(ino);
            if number.has(known::FREE) && !number.has(known::LISTED) {
                let text = "free, but not on the free list: the number is lost";
                self.found
                    .error(FindingKind::FreeList, Subject::Inode(ino), text);
                self.found.fix(Fix::FreeList);
            }
        }
    }

    fn totals(&mut self) {
        self.counts.blocks = self.usage.blocks;
        self.counts.bytes = self.usage.sectors.saturating_mul(512);
        let base = self.state.base.usage;
        self.total("the checkpoint record", base, self.base_usage);
        if self.state.report.groups > 0 {
            self.total("the log's last group", self.state.usage, self.usage);
        }
        let (counted, there) = (self.state.base.metadata_bytes, self.counts.metadata_bytes);
        if counted != there {
            let text = format!(
                "the checkpoint record counts {counted} bytes of index nodes and ifile, there are \
                 {there}"
            );
            self.found
                .warning(FindingKind::MetadataBytes, Subject::Volume, text);
            self.found.fix(Fix::Accounts);
        }
    }

    fn total(&mut self, whose: &str, counted: Usage, there: Usage) {
        if counted != there {
            let text = format!(
                "{whose} counts {} inodes, {} blocks and {} sectors, there are {}, {} and {}",
                counted.inodes,
                counted.blocks,
                counted.sectors,
                there.inodes,
                there.blocks,
                there.sectors
            );
            self.found.error(FindingKind::Totals, Subject::Volume, text);
            self.found.fix(Fix::Accounts);
        }
    }
}
