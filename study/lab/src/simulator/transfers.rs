//! What a simulation moves to and from a device, in order, for those who ask
//! how long it takes, or what the device makes of it.

/// What is done with a run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    /// Read by the cleaner.
    Read,
    /// Written, by this head of the log.
    Write {
        /// Which.
        head: u8,
    },
    /// Their segment has become clean: nothing of it is wanted any more.
    Clean,
    /// A block that was written again, or removed: this copy is not wanted.
    Death,
}

/// Blocks moved by one request. A block's place is its slot: segment times
/// blocks of a segment, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// What is done.
    pub motion: Motion,
    /// The first.
    pub slot: u32,
    /// How many.
    pub blocks: u32,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Transfers {
    segment_blocks: u32,
    /// Whether single deaths are noted.
    note_deaths: bool,
    done: Vec<Transfer>,
    /// Runs that grow: one for each segment that is being written.
    runs: Vec<Transfer>,
    /// Copies that have died since: told when what displaces them is written.
    deaths: Vec<Transfer>,
}

impl Transfers {
    pub fn new(segment_blocks: u32, note_deaths: bool) -> Self {
        Transfers {
            segment_blocks,
            note_deaths,
            done: Vec::new(),
            runs: Vec::new(),
            deaths: Vec::new(),
        }
    }

    /// A block was given this slot.
    pub fn append(&mut self, slot: u32, head: u8) {
        let begins = slot.is_multiple_of(self.segment_blocks);
        let run = self.runs.iter_mut();
        let run = run
            .rev()
            .find(|run| !begins && run.slot + run.blocks == slot);
        match run {
            Some(run) => run.blocks += 1,
            None => self.runs.push(Transfer {
                motion: Motion::Write { head },
                slot,
                blocks: 1,
            }),
        }
    }

    /// What was appended is written, run by run.
    pub fn write(&mut self) {
        self.done.append(&mut self.runs);
        self.done.append(&mut self.deaths);
    }

    /// A whole segment is read, after what was appended before.
    pub fn read(&mut self, segment: u32) {
        self.whole(Motion::Read, segment);
    }

    /// A segment has become clean.
    pub fn clean(&mut self, segment: u32) {
        self.whole(Motion::Clean, segment);
    }

    /// The copy at this slot has died.
    pub fn death(&mut self, slot: u32) {
        if self.note_deaths {
            self.deaths.push(Transfer {
                motion: Motion::Death,
                slot,
                blocks: 1,
            });
        }
    }

    fn whole(&mut self, motion: Motion, segment: u32) {
        self.write();
        self.done.push(Transfer {
            motion,
            slot: segment * self.segment_blocks,
            blocks: self.segment_blocks,
        });
    }

    pub fn take(&mut self, into: &mut Vec<Transfer>) {
        self.write();
        into.append(&mut self.done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(motion: Motion, slot: u32, blocks: u32) -> Transfer {
        Transfer {
            motion,
            slot,
            blocks,
        }
    }

    #[test]
    fn runs_end_with_their_segment() {
        let mut transfers = Transfers::new(4, false);
        // Two heads in turn, one of which goes on to the next segment.
        for (slot, head) in [(2, 0), (9, 1), (3, 0), (10, 1), (4, 0)] {
            transfers.append(slot, head);
        }
        transfers.read(5);
        transfers.death(2);
        let mut found = Vec::new();
        transfers.take(&mut found);
        let expected = [
            of(Motion::Write { head: 0 }, 2, 2),
            of(Motion::Write { head: 1 }, 9, 2),
            of(Motion::Write { head: 0 }, 4, 1),
            of(Motion::Read, 20, 4),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn deaths_and_clean_segments_follow_what_was_written_before() {
        let mut transfers = Transfers::new(4, true);
        transfers.append(8, 0);
        transfers.death(2);
        transfers.append(9, 0);
        transfers.clean(0);
        let mut found = Vec::new();
        transfers.take(&mut found);
        let expected = [
            of(Motion::Write { head: 0 }, 8, 2),
            of(Motion::Death, 2, 1),
            of(Motion::Clean, 0, 4),
        ];
        assert_eq!(found, expected);
    }
}
