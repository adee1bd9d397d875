//! Runs and questions about them, next to a list that is searched from end to end.

use super::array::Pages;
use super::merge::{MergedBlocks, MergedImages, RunEntries};
use super::search::History;
use super::{Directory, Snapshot};
use crate::error::Result;
use crate::format::Pointer;
use crate::format::history::{DisplacedBlock, Identity, ImageHeader, RUNS_FROM};
use crate::format::inode::InodeImage;
use std::sync::Arc;
use varve_device::Block;
use varve_fs::{FileKind, Inode, InodeNo};

const PAGE_BYTES: usize = 4096;
const INODE_BYTES: usize = 256;

struct File(Vec<u8>);

impl Pages for File {
    fn page(&self, block: u64) -> Result<Arc<Block>> {
        let start = (block - RUNS_FROM) as usize * PAGE_BYTES;
        Ok(Arc::new(self.0[start..start + PAGE_BYTES].to_vec().into()))
    }

    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }
}

/// A stream of draws.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// A history, and every entry that was ever added, oldest first.
struct Both {
    directory: Directory,
    file: File,
    blocks: Vec<DisplacedBlock>,
    images: Vec<(ImageHeader, u64)>,
}

impl Both {
    fn new() -> Self {
        Both {
            directory: Directory::default(),
            file: File(Vec::new()),
            blocks: Vec::new(),
            images: Vec::new(),
        }
    }

    fn history(&self) -> History<'_> {
        History {
            directory: &self.directory,
            pages: &self.file,
            inode_bytes: INODE_BYTES,
        }
    }

    fn take(&mut self, position: u64) -> u32 {
        self.directory.newest += 1;
        let number = self.directory.newest;
        self.directory.snapshots.push(Snapshot {
            number,
            deleted: false,
            position,
            taken_ns: 0,
            checkpoint: 0,
            name: format!("of {position}"),
        });
        number
    }

    fn add(&mut self, entries: RunEntries) {
        let written = self.directory.runs.first().map_or(0, |run| run.written) + 1;
        let run = self.store(entries, written);
        self.directory.runs.insert(0, run);
    }

    /// Writes a run behind the end of the file.
    fn store(&mut self, entries: RunEntries, written: u64) -> super::Run {
        let first = RUNS_FROM + (self.file.0.len() / PAGE_BYTES) as u64;
        let encoded = entries.encode(first, written, PAGE_BYTES);
        self.file.0.extend_from_slice(&encoded.bytes);
        encoded.run
    }

    /// Compares answers to all questions that there are with those of the lists.
    fn compare(&self) {
        let history = self.history();
        let numbers: Vec<u32> = self.directory.snapshots.iter().map(|s| s.number).collect();
        for ino in 0..4 {
            for number in numbers.iter().copied() {
                let of_file = self.images.iter().filter(|(h, _)| h.ino.get() == ino);
                let wanted = of_file
                    .filter(|(header, _)| header.last.get() >= number)
                    .min_by_key(|(header, _)| header.last.get())
                    .map(|(header, size)| (header.after.get(), *size));
                let found = history.image_at(ino, number).unwrap();
                let found = found.map(|image| (image.after, image.image.inode.size));
                assert_eq!(found, wanted, "inode {ino}, snapshot {number}");
            }
            for block in 0..6 {
                for (version, xattrs) in [(1, false), (2, false), (1, true)] {
                    let identity = Identity {
                        ino,
                        version,
                        xattrs,
                        block,
                    };
                    self.compare_block(&history, identity, &numbers);
                }
            }
        }
    }

    fn compare_block(&self, history: &History<'_>, identity: Identity, numbers: &[u32]) {
        let of_block = || self.blocks.iter().filter(|e| e.identity() == identity);
        for &number in numbers {
            let last = of_block()
                .map(|e| e.last.get())
                .filter(|&last| last >= number);
            // The newest of those that are alike knows the place.
            let wanted = last
                .min()
                .and_then(|last| of_block().rfind(|e| e.last.get() == last));
            let found = history
                .blocks_at(identity, identity.block + 1, number)
                .unwrap();
            assert_eq!(
                found.get(&identity.block),
                wanted,
                "{identity:?}, snapshot {number}"
            );
        }
        for birth in 0..40 {
            let wanted = of_block().rfind(|e| e.pointer.birth() == birth);
            let found = history.entry_of(identity, birth).unwrap();
            assert_eq!(found.as_ref(), wanted, "{identity:?}, birth {birth}");
        }
    }
}

fn inode_of(ino: u64, size: u64) -> Vec<u8> {
    let mode = FileKind::Regular.mode_bits() | 0o644;
    let mut inode = Inode::new(InodeNo(ino), 1, mode, Default::default());
    inode.size = size;
    let image = InodeImage {
        inode,
        root: None,
        xattrs: Pointer::NONE,
    };
    let mut bytes = vec![0; INODE_BYTES];
    image.encode(&mut bytes);
    bytes
}

/// Everything that several runs have.
fn all_of(history: &History<'_>, runs: &[super::Run]) -> RunEntries {
    let mut entries = RunEntries::default();
    let mut blocks = MergedBlocks::new(history, runs).unwrap();
    while let Some(entry) = blocks.next().unwrap() {
        entries.block(&entry);
    }
    let mut images = MergedImages::new(history, runs).unwrap();
    while let Some((header, inode)) = images.next().unwrap() {
        entries.image(header, &inode);
    }
    entries
}

#[test]
fn answers_are_those_of_a_list() {
    for seed in 0..20 {
        let mut draws = Draws(seed);
        let mut both = Both::new();
        let mut position = 0;
        for _ in 0..6 {
            position += 1 + draws.below(5);
            let last = both.take(position);
            let mut entries = RunEntries::default();
            // Of each block one at most is displaced that a snapshot may have.
            for ino in 0..4 {
                for block in 0..6 {
                    if draws.below(3) > 0 {
                        continue;
                    }
                    let identity = Identity {
                        ino,
                        version: 1 + draws.below(2) as u32,
                        xattrs: draws.below(8) == 0,
                        block,
                    };
                    let birth = position - draws.below(position.min(3));
                    let used =
                        |e: &DisplacedBlock| (e.identity(), e.pointer.birth()) == (identity, birth);
                    if both.blocks.iter().any(used) {
                        continue;
                    }
                    let pointer = Pointer::new(1000 + draws.below(1000), 8, 7, birth, 1);
                    let entry = DisplacedBlock::new(identity, last, pointer);
                    entries.block(&entry);
                    both.blocks.push(entry);
                }
                if draws.below(2) == 0 {
                    let size = draws.below(10_000);
                    let header = ImageHeader {
                        ino: ino.into(),
                        version: 1.into(),
                        after: (last - 1).into(),
                        last: last.into(),
                        spare: [0; 12],
                    };
                    entries.image(header, &inode_of(ino, size));
                    both.images.push((header, size));
                }
            }
            // Some that are there already have been moved.
            for nth in 0..both.blocks.len() {
                let mut entry = both.blocks[nth];
                if entry.last.get() < last && draws.below(6) == 0 {
                    let birth = entry.pointer.birth();
                    entry.pointer = Pointer::new(5000 + draws.below(1000), 8, 7, birth, 1);
                    entries.block(&entry);
                    both.blocks.push(entry);
                }
            }
            both.add(entries);
            both.compare();
        }
        let mut merged = Both {
            directory: both.directory.clone(),
            file: File(both.file.0.clone()),
            blocks: both.blocks.clone(),
            images: both.images.clone(),
        };
        let runs = merged.directory.runs.split_off(draws.below(4) as usize);
        let entries = all_of(&both.history(), &runs);
        let run = merged.store(entries, runs[0].written);
        merged.directory.runs.push(run);
        merged.compare();
    }
}

#[test]
fn of_a_block_that_was_moved_the_last_place_is_given_once() {
    let mut both = Both::new();
    let (monday, tuesday) = (both.take(10), both.take(20));
    let block = |block: u64, last: u32, birth: u64, sector: u64| {
        let identity = Identity {
            ino: 3,
            version: 1,
            xattrs: false,
            block,
        };
        DisplacedBlock::new(identity, last, Pointer::new(sector, 8, 0, birth, 1))
    };
    let mut first = RunEntries::default();
    first.block(&block(0, monday, 5, 100));
    first.block(&block(1, monday, 5, 108));
    both.add(first);
    let mut second = RunEntries::default();
    second.block(&block(1, monday, 5, 208)); // moved
    second.block(&block(2, tuesday, 15, 216));
    both.add(second);
    let history = both.history();
    let mut merged = MergedBlocks::new(&history, &both.directory.runs).unwrap();
    let mut places = Vec::new();
    while let Some(entry) = merged.next().unwrap() {
        places.push(entry.pointer.sector());
    }
    assert_eq!(places, [100, 208, 216], "each at its last place");
}
