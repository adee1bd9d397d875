//! The write buffer before layouts without a simulator: that of the log, with a
//! clock, and emptied in order of address.

use crate::simulator;
use crate::workload::Op;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Buffer {
    buffer: simulator::Buffer,
    now_ns: i64,
}

impl Buffer {
    pub fn new(capacity: u32, blocks: u32) -> Self {
        Buffer {
            buffer: simulator::Buffer::new(capacity as usize, blocks, None),
            now_ns: 0,
        }
    }

    /// Takes an operation in. True if what waits is to be written.
    pub fn take(&mut self, op: Op) -> bool {
        match op {
            Op::Write { block } => {
                self.buffer.put(block, 0, self.now_ns);
            }
            Op::Trim { block } => {
                self.buffer.remove(block);
            }
            Op::Wait { ns } => {
                let ns = i64::try_from(ns).unwrap_or(i64::MAX);
                self.now_ns = self.now_ns.saturating_add(ns);
            }
            Op::Sync => return !self.buffer.is_empty(),
            Op::Read { .. } => {}
        }
        self.buffer.is_due(self.now_ns)
    }

    /// What waits, in order of number; nothing waits afterwards.
    pub fn flush(&mut self) -> Vec<u32> {
        let mut waiting = Vec::new();
        self.buffer.flush(|_| (0, 0), &mut waiting);
        let mut blocks: Vec<u32> = waiting.into_iter().map(|waits| waits.block).collect();
        blocks.sort_unstable();
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_meets_in_it_is_written_once() {
        let mut buffer = Buffer::new(3, 9);
        let write = |block| Op::Write { block };
        for op in [write(7), write(2), write(7), Op::Trim { block: 2 }] {
            assert!(!buffer.take(op));
        }
        assert!(buffer.take(Op::Sync));
        assert_eq!(buffer.flush(), [7]);
        assert!(!buffer.take(Op::Sync), "nothing waits");
        assert!(!buffer.take(write(1)));
        assert!(buffer.take(Op::Wait { ns: 31_000_000_000 }));
        assert_eq!(buffer.flush(), [1]);
        assert!(!buffer.take(write(1)) && !buffer.take(write(3)) && buffer.take(write(2)));
        assert_eq!(buffer.flush(), [1, 2, 3]);
    }
}
