//! The result of a verification.

use crate::check::Finding;

/// Largest number of findings listed; further ones are only counted.
pub const MAX_FINDINGS: usize = 1000;
/// Largest number of ranges of bad data listed; further ones are only counted.
pub const MAX_RANGES: usize = 10_000;

/// The end of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything was verified.
    Complete,
    /// It was stopped.
    #[default]
    Cancelled,
    /// The volume was short of space and broke the pin on every image, so names, links
    /// and accounts were not compared.
    Unsettled,
}

/// Bytes of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BadRange {
    /// First byte within the file.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Sector of the range's first block, in 512-byte sectors of the device.
    pub sector: u64,
    /// Error of that block.
    pub problem: String,
}

/// A file with bad data.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BadFile {
    /// Inode number.
    pub inode: u64,
    /// A path from the root, if one was found.
    pub path: Option<String>,
    /// Bad ranges, in ascending order.
    pub ranges: Vec<BadRange>,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Verification {
    /// States whether the verification was complete.
    pub outcome: Outcome,
    /// Errors of metadata.
    pub errors: Vec<Finding>,
    /// Findings that waste space and are harmless.
    pub warnings: Vec<Finding>,
    /// Files with bad data, by inode number.
    pub files: Vec<BadFile>,
    /// Total number of errors and bad blocks, including those not listed.
    pub found: u64,
    /// Number of ranges in `files`.
    #[serde(skip)]
    kept_ranges: usize,
}

impl Verification {
    /// Returns true if no error was found.
    pub fn is_sound(&self) -> bool {
        self.found == 0
    }

    pub(super) fn keep_error(&mut self, finding: Finding) {
        self.found += 1;
        if self.errors.len() < MAX_FINDINGS {
            self.errors.push(finding);
        }
    }

    pub(super) fn keep_warning(&mut self, finding: Finding) {
        if self.warnings.len() < MAX_FINDINGS {
            self.warnings.push(finding);
        }
    }

    /// Records a bad block of `length` bytes at `offset` of a file; the order of calls is
    /// arbitrary.
    pub(super) fn keep_bad(&mut self, inode: u64, bad: BadRange) {
        self.found += 1;
        let at = self.files.partition_point(|file| file.inode < inode);
        if self.files.get(at).is_none_or(|file| file.inode != inode) {
            if self.kept_ranges >= MAX_RANGES {
                return;
            }
            let (path, ranges) = (None, Vec::new());
            self.files.insert(
                at,
                BadFile {
                    inode,
                    path,
                    ranges,
                },
            );
        }
        let ranges = &mut self.files[at].ranges;
        let at = ranges.partition_point(|range| range.offset < bad.offset);
        if let Some(before) = at.checked_sub(1)
            && ranges[before].offset + ranges[before].length == bad.offset
        {
            ranges[before].length += bad.length;
            if let Some(next) = ranges.get(at)
                && next.offset == bad.offset + bad.length
            {
                ranges[before].length += next.length;
                ranges.remove(at);
                self.kept_ranges -= 1;
            }
        } else if let Some(next) = ranges.get_mut(at)
            && next.offset == bad.offset + bad.length
        {
            next.offset = bad.offset;
            next.length += bad.length;
            next.sector = bad.sector;
        } else if self.kept_ranges < MAX_RANGES {
            ranges.insert(at, bad);
            self.kept_ranges += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_range_in_any_order() {
        let mut report = Verification::default();
        for block in [5u64, 3, 9, 4, 8, 1] {
            let bad = BadRange {
                offset: block * 4096,
                length: 4096,
                sector: block,
                problem: String::new(),
            };
            report.keep_bad(7, bad.clone());
            report.keep_bad(6, bad);
        }
        assert_eq!(report.found, 12);
        let inodes: Vec<u64> = report.files.iter().map(|file| file.inode).collect();
        assert_eq!(inodes, [6, 7]);
        let ranges: Vec<(u64, u64, u64)> = report.files[1]
            .ranges
            .iter()
            .map(|r| (r.offset / 4096, r.length / 4096, r.sector))
            .collect();
        assert_eq!(ranges, [(1, 1, 1), (3, 3, 3), (8, 2, 8)]);
    }
}
