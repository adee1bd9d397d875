//! The content of a file, and its possible contents after a crash.
//!
//! Each block has a list of *versions*, the newest last. A version is the bytes of the
//! block inside the file, or `None` while the file ended before it. So a version includes
//! its length, and with it the size of the file: a crash may leave a block in any version
//! of the list, and a size is explained only if each block before it is in a version of
//! that length and each block behind it in version `None`. A size whose data never
//! arrived is not explained, because its zeros are in no version.
//!
//! Operations change the lists as follows:
//! - a write adds versions: it may be lost until the file is synced;
//! - a truncate or a punch is a record in the order of directory operations: it changes
//!   *every* version, because every state that survives includes it;
//! - an extension is a write of zeros: its size may have to wait for data written before
//!   or after it;
//! - a sync keeps the newest version only.

mod in_place;

use crate::operation::Range;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A block's bytes inside the file; `None` if the file ends before it.
pub type Version = Option<Arc<[u8]>>;

/// A file's content with its possible earlier contents.
#[derive(Clone, Debug)]
pub struct Content {
    block_bytes: u64,
    size: u64,
    /// Versions of block 0, 1, ...; no list is empty; behind the end of this vector every
    /// block's list is `[None]`.
    blocks: Vec<Vec<Version>>,
    /// Blocks that were written with their present content, since the last sync.
    again: BTreeSet<u64>,
    /// Offset up to which blocks may be reserved, not counting the size.
    reserved_end: u64,
    /// Number of changes.
    changes: u64,
}

impl Content {
    /// Returns an empty file.
    pub fn new(block_bytes: u64) -> Self {
        Content {
            block_bytes,
            size: 0,
            blocks: Vec::new(),
            again: BTreeSet::new(),
            reserved_end: 0,
            changes: 0,
        }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a number that grows with every change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the offset up to which blocks may exist.
    pub fn reserved_end(&self) -> u64 {
        self.reserved_end.max(self.size)
    }

    /// Returns the bytes of block `block` inside a file of `size` bytes.
    fn length_in(&self, size: u64, block: u64) -> usize {
        size.saturating_sub(block * self.block_bytes)
            .min(self.block_bytes) as usize
    }

    fn newest(&self, block: u64) -> &[u8] {
        let versions = self.blocks.get(block as usize).and_then(|list| list.last());
        versions.and_then(Option::as_deref).unwrap_or(&[])
    }

    /// Reads `range`, up to the end of the file.
    pub fn read(&self, range: Range) -> Vec<u8> {
        let end = range.end().min(self.size);
        let mut bytes = Vec::new();
        let mut at = range.offset;
        while at < end {
            let (block, within) = (at / self.block_bytes, (at % self.block_bytes) as usize);
            let step = (self.block_bytes - within as u64).min(end - at) as usize;
            bytes.extend_from_slice(&self.newest(block)[within..within + step]);
            at += step as u64;
        }
        bytes
    }

    /// Returns the blocks that overlap bytes `from..to`.
    fn blocks_in(&self, from: u64, to: u64) -> std::ops::Range<u64> {
        from / self.block_bytes..to.div_ceil(self.block_bytes)
    }

    fn push(&mut self, block: u64, version: Version) {
        let index = block as usize;
        if self.blocks.len() <= index {
            self.blocks.resize(index + 1, vec![None]);
        }
        let versions = &mut self.blocks[index];
        if versions.last() != Some(&version) {
            versions.retain(|old| *old != version);
            versions.push(version);
        } else {
            self.again.insert(block);
        }
    }

    /// Writes `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        self.changes += 1;
        let size = self.size.max(end);
        let first = offset.min(self.size);
        for block in self.blocks_in(first, end) {
            let start = block * self.block_bytes;
            let mut bytes = self.newest(block).to_vec();
            bytes.resize(self.length_in(size, block), 0);
            let (from, to) = (offset.max(start), end.min(start + self.block_bytes));
            if from < to {
                bytes[(from - start) as usize..(to - start) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            }
            self.push(block, Some(bytes.into()));
        }
        self.size = size;
    }

    /// Returns true if a crash can leave only the newest versions.
    pub fn settled(&self) -> bool {
        self.blocks.iter().all(|versions| versions.len() == 1)
    }

    /// Extends the file with zeros.
    pub fn extend(&mut self, size: u64) {
        if size <= self.size {
            return;
        }
        self.changes += 1;
        for block in self.blocks_in(self.size, size) {
            let mut bytes = self.newest(block).to_vec();
            bytes.resize(self.length_in(size, block), 0);
            self.push(block, Some(bytes.into()));
        }
        self.size = size;
    }

    /// Applies `change` to every version of every block.
    fn change_all(&mut self, change: impl Fn(u64, &Version) -> Version) {
        self.changes += 1;
        for (block, versions) in self.blocks.iter_mut().enumerate() {
            let mut changed: Vec<Version> = Vec::new();
            for version in versions.iter().map(|version| change(block as u64, version)) {
                changed.retain(|old| *old != version);
                changed.push(version);
            }
            *versions = changed;
        }
    }

    /// Truncates the file, or extends it.
    pub fn truncate(&mut self, size: u64) {
        if size > self.size {
            return self.extend(size);
        }
        if size < self.size {
            self.reserved_end = self.reserved_end.min(size);
        }
        let block_bytes = self.block_bytes;
        self.change_all(|block, version| {
            let limit = size.saturating_sub(block * block_bytes).min(block_bytes) as usize;
            match version {
                Some(bytes) if limit > 0 && bytes.len() > limit => Some(bytes[..limit].into()),
                Some(_) if limit == 0 => None,
                other => other.clone(),
            }
        });
        self.size = size;
    }

    /// Makes `range` read as zeros. Whole blocks are punched in every version; the edges
    /// are writes, and so is all of it in a file so small that the inode may contain it.
    pub fn punch(&mut self, range: Range) {
        let mut whole = range.offset.div_ceil(self.block_bytes)..range.end() / self.block_bytes;
        if self.size <= self.block_bytes {
            whole = 0..0;
        }
        self.change_all(|block, version| match version {
            Some(bytes) if whole.contains(&block) => Some(vec![0; bytes.len()].into()),
            other => other.clone(),
        });
        self.zero_newest(range);
    }

    /// Writes zeros to the part of `range` that is inside the file.
    pub fn zero_newest(&mut self, range: Range) {
        let end = range.end().min(self.size);
        if range.offset < end {
            self.write(range.offset, &vec![0; (end - range.offset) as usize]);
        }
    }

    /// Records that blocks up to byte `end` may exist.
    pub fn reserve(&mut self, end: u64) {
        self.reserved_end = self.reserved_end.max(end);
    }

    /// Makes the newest state the only possible one.
    pub fn settle(&mut self) {
        self.again.clear();
        for versions in &mut self.blocks {
            let newest = versions.len() - 1;
            versions.drain(..newest);
        }
    }

    /// Checks that a crash may leave `bytes` as the whole file.
    ///
    /// # Errors
    /// The block that is in no possible version.
    pub fn explains(&self, bytes: &[u8]) -> Result<(), String> {
        let size = bytes.len() as u64;
        let blocks = (self.blocks.len() as u64).max(size.div_ceil(self.block_bytes));
        let beyond: [Version; 1] = [None];
        for block in 0..blocks {
            let start = (block * self.block_bytes).min(size) as usize;
            let found = &bytes[start..start + self.length_in(size, block)];
            let versions = self
                .blocks
                .get(block as usize)
                .map_or(&beyond[..], Vec::as_slice);
            let fits = |version: &Version| version.as_deref().unwrap_or(&[]) == found;
            if !versions.iter().any(fits) {
                return Err(format!(
                    "size {size}, block {block}: found {}, possible: {}",
                    describe(found),
                    versions
                        .iter()
                        .map(describe_version)
                        .collect::<Vec<_>>()
                        .join(" | ")
                ));
            }
        }
        Ok(())
    }

    /// Makes `bytes`, which must be explained, the newest state; the others stay
    /// possible. Any blocks may be reserved beyond it, because reservations are not
    /// visible.
    pub fn observe(&mut self, bytes: &[u8]) {
        self.reserved_end = u64::MAX >> 1;
        self.size = bytes.len() as u64;
        let blocks = (self.blocks.len() as u64).max(self.size.div_ceil(self.block_bytes));
        for block in 0..blocks {
            let start = (block * self.block_bytes).min(self.size) as usize;
            let found = &bytes[start..start + self.length_in(self.size, block)];
            self.push(block, (!found.is_empty()).then(|| found.into()));
        }
    }
}

/// Describes bytes in a few words: their length, and the offsets at which they begin to
/// repeat or change.
pub fn describe(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    if bytes.iter().all(|&byte| byte == 0) {
        return format!("{} zeros", bytes.len());
    }
    let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
    let head: String = bytes
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let sum = xxhash_rust::xxh3::xxh3_64(bytes) as u16;
    format!(
        "{} bytes {head}.. ({zeros} zeros, sum {sum:04x})",
        bytes.len()
    )
}

fn describe_version(version: &Version) -> String {
    describe(version.as_deref().unwrap_or(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: u64 = 4096;

    fn written(blocks: &[u8]) -> Content {
        let mut content = Content::new(B);
        for (block, &byte) in blocks.iter().enumerate() {
            content.write(block as u64 * B, &[byte; B as usize]);
        }
        content
    }

    fn bytes(blocks: &[u8]) -> Vec<u8> {
        blocks.iter().flat_map(|&byte| [byte; B as usize]).collect()
    }

    #[test]
    fn a_size_needs_its_data() {
        let content = written(&[1, 2]);
        for possible in [&[][..], &[1], &[1, 2]] {
            assert_eq!(content.explains(&bytes(possible)), Ok(()), "{possible:?}");
        }
        for impossible in [&[0][..], &[1, 0], &[0, 2], &[1, 2, 0], &[2]] {
            assert!(
                content.explains(&bytes(impossible)).is_err(),
                "{impossible:?}"
            );
        }
        assert!(content.explains(&bytes(&[1, 2])[..5000]).is_err());
    }

    #[test]
    fn a_hole_before_the_data_may_read_as_zeros() {
        let mut content = Content::new(B);
        content.write(B, &[2; B as usize]);
        assert_eq!(content.explains(&bytes(&[0, 2])), Ok(()));
        content.write(0, &[1; B as usize]);
        assert_eq!(content.explains(&bytes(&[0, 2])), Ok(()));
        assert_eq!(content.explains(&bytes(&[1, 2])), Ok(()));
        assert!(content.explains(&bytes(&[0, 0])).is_err());
    }

    #[test]
    fn syncs_leave_the_newest_alone() {
        let mut content = written(&[1]);
        content.settle();
        assert!(content.explains(&[]).is_err());
        content.write(0, &[9; B as usize]);
        assert_eq!(content.explains(&bytes(&[1])), Ok(()));
        content.settle();
        assert!(content.explains(&bytes(&[1])).is_err());
        assert_eq!(content.explains(&bytes(&[9])), Ok(()));
    }

    #[test]
    fn truncates_change_every_version() {
        let mut content = written(&[1, 1]);
        content.settle();
        content.write(0, &[2; 2 * B as usize]);
        content.truncate(100);
        assert_eq!(content.explains(&[1; 100]), Ok(()));
        assert_eq!(content.explains(&[2; 100]), Ok(()));
        assert!(content.explains(&bytes(&[1, 1])).is_err());
        content.truncate(0);
        content.write(B, &[3; B as usize]);
        assert_eq!(content.explains(&bytes(&[0, 3])), Ok(()));
        assert!(
            content.explains(&bytes(&[1, 3])).is_err(),
            "old data came back"
        );
        assert_eq!(content.explains(&[]), Ok(()));
    }

    #[test]
    fn extensions_may_wait_but_need_the_data_below() {
        let mut content = written(&[1]);
        content.settle();
        content.extend(2 * B);
        assert_eq!(content.explains(&bytes(&[1])), Ok(()));
        assert_eq!(content.explains(&bytes(&[1, 0])), Ok(()));
        content.write(2 * B, &[2; 10]);
        content.extend(3 * B);
        assert_eq!(content.explains(&bytes(&[1, 0])), Ok(()));
        assert!(content.explains(&bytes(&[1, 0, 0])).is_err());
    }

    #[test]
    fn punches_reach_unlogged_versions_and_spare_the_end() {
        let mut content = written(&[1, 1, 1]);
        content.settle();
        content.write(B, &[2; B as usize]);
        content.punch(Range {
            offset: B,
            length: B,
        });
        assert_eq!(content.explains(&bytes(&[1, 0, 1])), Ok(()));
        assert!(content.explains(&bytes(&[1, 2, 1])).is_err());
        assert!(content.explains(&bytes(&[1, 1, 1])).is_err());
        let mut content = written(&[1, 1]);
        content.punch(Range {
            offset: 0,
            length: B,
        });
        assert_eq!(content.explains(&[]), Ok(()), "never logged");
    }

    #[test]
    fn reads_cross_blocks() {
        let mut content = written(&[1, 2]);
        content.write(B - 2, &[7; 4]);
        assert_eq!(
            content.read(Range {
                offset: B - 3,
                length: 6
            }),
            [1, 7, 7, 7, 7, 2]
        );
        assert_eq!(
            content.read(Range {
                offset: 2 * B - 1,
                length: 9
            }),
            [2]
        );
        assert_eq!(
            content.read(Range {
                offset: 9 * B,
                length: 9
            }),
            [0; 0]
        );
    }
}
