//! What a simulation moves to and from a disk, in order, for those who ask how
//! long it takes.

/// Blocks moved by one request. A block's place is its slot: segment times
/// blocks of a segment, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// To the disk, or from it.
    pub write: bool,
    /// The first.
    pub slot: u32,
    /// How many.
    pub blocks: u32,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Transfers {
    segment_blocks: u32,
    done: Vec<Transfer>,
    /// Runs that grow: one for each segment that is being written.
    runs: Vec<Transfer>,
}

impl Transfers {
    pub fn new(segment_blocks: u32) -> Self {
        Transfers {
            segment_blocks,
            done: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// A block was given this slot.
    pub fn append(&mut self, slot: u32) {
        let begins = slot.is_multiple_of(self.segment_blocks);
        let run = self.runs.iter_mut();
        let run = run
            .rev()
            .find(|run| !begins && run.slot + run.blocks == slot);
        match run {
            Some(run) => run.blocks += 1,
            None => self.runs.push(Transfer {
                write: true,
                slot,
                blocks: 1,
            }),
        }
    }

    /// What was appended is written, run by run.
    pub fn write(&mut self) {
        self.done.append(&mut self.runs);
    }

    /// A whole segment is read, after what was appended before.
    pub fn read(&mut self, segment: u32) {
        self.write();
        self.done.push(Transfer {
            write: false,
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

    #[test]
    fn runs_end_with_their_segment() {
        let mut transfers = Transfers::new(4);
        // Two heads in turn, one of which goes on to the next segment.
        for slot in [2, 9, 3, 10, 4] {
            transfers.append(slot);
        }
        transfers.read(5);
        let mut found = Vec::new();
        transfers.take(&mut found);
        let of = |write, slot, blocks| Transfer {
            write,
            slot,
            blocks,
        };
        let expected = [
            of(true, 2, 2),
            of(true, 9, 2),
            of(true, 4, 1),
            of(false, 20, 4),
        ];
        assert_eq!(found, expected);
    }
}
