//! The write buffer before layouts without a simulator: as that of the log.

use crate::simulator::FLUSH_AFTER_NS;
use crate::workload::Op;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Buffer {
    capacity: usize,
    waiting: Vec<u32>,
    waits: Vec<bool>,
    oldest_ns: i64,
    now_ns: i64,
}

impl Buffer {
    pub fn new(capacity: u32, blocks: u32) -> Self {
        Buffer {
            capacity: capacity as usize,
            waiting: Vec::new(),
            waits: vec![false; blocks as usize],
            oldest_ns: 0,
            now_ns: 0,
        }
    }

    /// Takes an operation in. True if what waits is to be written.
    pub fn take(&mut self, op: Op) -> bool {
        match op {
            Op::Write { block } => {
                if !std::mem::replace(&mut self.waits[block as usize], true) {
                    if self.waiting.is_empty() {
                        self.oldest_ns = self.now_ns;
                    }
                    self.waiting.push(block);
                }
            }
            // Its place in the list is passed over.
            Op::Trim { block } => self.waits[block as usize] = false,
            Op::Wait { ns } => {
                self.now_ns = self
                    .now_ns
                    .saturating_add(i64::try_from(ns).unwrap_or(i64::MAX));
            }
            Op::Sync => return !self.waiting.is_empty(),
            Op::Read { .. } => {}
        }
        self.waiting.len() >= self.capacity
            || (!self.waiting.is_empty() && self.now_ns - self.oldest_ns > FLUSH_AFTER_NS)
    }

    /// What waits, in order of number; nothing waits afterwards.
    pub fn flush(&mut self) -> Vec<u32> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|block| std::mem::take(&mut self.waits[*block as usize]));
        waiting.sort_unstable();
        waiting
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
