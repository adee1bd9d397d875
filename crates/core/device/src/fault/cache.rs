//! Logical blocks by number: the volatile cache, and the store of former bytes.

use std::collections::BTreeMap;

/// Maximum size of one drained run, in bytes.
const RUN_BYTES: usize = 1 << 20;

/// Logical blocks by number.
#[derive(Debug, Default)]
pub(super) struct BlockMap(BTreeMap<u64, Box<[u8]>>);

impl BlockMap {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps the bytes at byte `offset`, in place of those that were kept for it.
    pub(super) fn insert(&mut self, block: u32, offset: u64, bytes: &[u8]) {
        let numbers = offset / u64::from(block)..;
        for (number, bytes) in numbers.zip(bytes.chunks(block as usize)) {
            self.0.insert(number, bytes.into());
        }
    }

    /// Removes the blocks of a range.
    pub(super) fn remove(&mut self, block: u32, offset: u64, length: u64) {
        let block = u64::from(block);
        let numbers = offset / block..(offset + length) / block;
        let doomed: Vec<u64> = self.0.range(numbers).map(|(&number, _)| number).collect();
        for number in doomed {
            self.0.remove(&number);
        }
    }

    /// Returns true if any block of a range is kept.
    pub(super) fn touches(&self, block: u64, offset: u64, length: u64) -> bool {
        let numbers = offset / block..(offset + length) / block;
        self.0.range(numbers).next().is_some()
    }

    /// Copies the kept blocks over a buffer that was read at byte `offset`.
    pub(super) fn overlay(&self, block: u32, offset: u64, buffer: &mut [u8]) {
        let first = offset / u64::from(block);
        let count = (buffer.len() / block as usize) as u64;
        for (number, bytes) in self.0.range(first..first + count) {
            let start = (number - first) as usize * block as usize;
            buffer[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Removes the blocks for which `keep` returns false. It is called in ascending
    /// order.
    pub(super) fn retain(&mut self, mut keep: impl FnMut() -> bool) {
        self.0.retain(|_, _| keep());
    }

    /// Returns the blocks as runs of neighbours: byte offset and bytes, ascending.
    pub(super) fn runs(self, block: u32) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, bytes) in self.0 {
            let offset = number * u64::from(block);
            match runs.last_mut() {
                Some((start, run))
                    if *start + run.len() as u64 == offset && run.len() < RUN_BYTES =>
                {
                    run.extend_from_slice(&bytes);
                }
                _ => runs.push((offset, bytes.into())),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_form_runs() {
        let mut map = BlockMap::default();
        map.insert(512, 1024, &[1; 1024]);
        map.insert(512, 512, &[2; 512]);
        map.insert(512, 8192, &[3; 1024]);
        map.remove(512, 8192, 512);
        assert!(map.touches(512, 0, 1024));
        assert!(!map.touches(512, 8192, 512));
        assert_eq!(map.len(), 4);
        let first = [[2; 512], [1; 512], [1; 512]].concat();
        assert_eq!(map.runs(512), [(512, first), (8704, vec![3; 512])]);
    }
}
