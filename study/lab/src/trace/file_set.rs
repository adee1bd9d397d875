//! Files of a trace: bytes of a file become blocks with dense numbers, which
//! are used again when a file is gone.

use super::records::Parsed;
use super::sample::Sample;
use crate::workload::Op;
use std::collections::{BTreeMap, HashMap};

const BLOCK: u64 = 4096;
/// No file of any trace is larger.
const LARGEST: u64 = 1 << 40;

/// See the module's head. Files have names; a name says which directory it is
/// in, if the trace has directories.
#[derive(Debug, Default)]
pub struct FileSet {
    ops: Vec<Op>,
    files: HashMap<String, BTreeMap<u64, u32>>,
    free: Vec<u32>,
    /// The file that each block belonged to first, for locality.
    file_of: Vec<u32>,
    numbers: HashMap<String, u32>,
    /// Which files are followed.
    sample: Sample,
}

impl FileSet {
    /// Follows the files of a sample alone; a file belongs to it by its first
    /// name.
    pub fn of(sample: Sample) -> Self {
        FileSet {
            sample,
            ..FileSet::default()
        }
    }

    /// Blocks and files that have been there.
    pub fn seen(&self) -> (usize, usize) {
        (self.file_of.len(), self.numbers.len())
    }

    /// Bytes of a file as far as it was written; 0 if it is not there.
    pub fn length(&self, name: &str) -> u64 {
        let last = self.files.get(name).and_then(|file| file.last_key_value());
        last.map_or(0, |(block, _)| (block + 1) * BLOCK)
    }

    /// The file of each block from this one on.
    pub fn files_from(&self, block: usize) -> &[u32] {
        &self.file_of[block..]
    }

    /// Drops the operations since the last time.
    pub fn forget_operations(&mut self) {
        self.ops.clear();
    }

    /// Moves the operations since the last time to the end of `into`.
    pub fn take(&mut self, into: &mut Vec<Op>) {
        into.append(&mut self.ops);
    }

    fn blocks(offset: u64, bytes: u64) -> std::ops::Range<u64> {
        let end = offset.saturating_add(bytes).min(LARGEST);
        offset.min(LARGEST) / BLOCK..end.div_ceil(BLOCK)
    }

    /// Bytes of a file are written.
    pub fn write(&mut self, name: &str, offset: u64, bytes: u64) {
        if !self.files.contains_key(name) && !self.sample.takes_name(name) {
            return;
        }
        let next_file = self.numbers.len() as u32;
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => *self.numbers.entry(name.to_owned()).or_insert(next_file),
        };
        let file = self.files.entry(name.to_owned()).or_default();
        for at in Self::blocks(offset, bytes) {
            let block = *file.entry(at).or_insert_with(|| {
                self.free.pop().unwrap_or_else(|| {
                    self.file_of.push(number);
                    self.file_of.len() as u32 - 1
                })
            });
            self.ops.push(Op::Write { block });
        }
    }

    /// Bytes of a file are read, as far as they were written.
    pub fn read(&mut self, name: &str, offset: u64, bytes: u64) {
        if let Some(file) = self.files.get(name) {
            let found = file.range(Self::blocks(offset, bytes));
            self.ops
                .extend(found.map(|(_, block)| Op::Read { block: *block }));
        }
    }

    /// A file is removed, or cut to nothing.
    pub fn remove(&mut self, name: &str) {
        for block in self
            .files
            .remove(name)
            .into_iter()
            .flat_map(BTreeMap::into_values)
        {
            self.ops.push(Op::Trim { block });
            self.free.push(block);
        }
    }

    /// Every file is removed whose name the pattern accepts.
    pub fn remove_all(&mut self, accepts: impl Fn(&str) -> bool) {
        let mut names: Vec<String> = self.files.keys().filter(|n| accepts(n)).cloned().collect();
        names.sort_unstable();
        for name in names {
            self.remove(&name);
        }
    }

    /// A file takes another name, and the place of what had it.
    pub fn rename(&mut self, old: &str, new: &str) {
        if old == new {
            return;
        }
        if let Some(file) = self.files.remove(old) {
            self.remove(new);
            self.files.insert(new.to_owned(), file);
        }
    }

    /// A user asks for durability.
    pub fn sync(&mut self) {
        self.ops.push(Op::Sync);
    }

    /// Time passes.
    pub fn wait(&mut self, ns: u64) {
        self.ops.push(Op::Wait { ns });
    }

    /// The end of the trace. What is left stays for the next pass.
    pub fn finish(self) -> Parsed {
        Parsed {
            ops: self.ops,
            file_of: self.file_of,
            directory_files: 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_removed_files_are_used_again() {
        let mut files = FileSet::default();
        files.write("a", 4000, 200);
        files.write("b", 0, 1);
        files.rename("a", "b");
        files.read("b", 0, 9000);
        files.write("c", 0, 1);
        files.remove("b");
        let (write, read) = (|block| Op::Write { block }, |block| Op::Read { block });
        let trim = |block| Op::Trim { block };
        let ops = files.finish().ops;
        let want = [
            write(0),
            write(1),
            write(2),
            trim(2),
            read(0),
            read(1),
            write(2),
            trim(0),
            trim(1),
        ];
        assert_eq!(ops, want);
    }
}
