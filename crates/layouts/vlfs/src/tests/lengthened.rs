//! Volumes whose files are lengthened until the last block is refused: their content
//! can be overwritten without end, and removed.

use super::full::{ends_empty, least_bytes};
use super::parts::age;
use super::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use varve_fs::Error;

/// The method of lengthening files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One file, block by block.
    Large,
    /// As many files as possible, some with content in their inodes, then block by
    /// block.
    Small,
    /// As many files as possible, sector by sector.
    Tails,
    /// As many files as possible, of a unit each.
    Units,
    /// A few files, by blocks at any offset: more index nodes than data.
    Sparse,
    /// As many files as possible, with a tail at a large offset in each.
    FarTails,
}

/// The written part of a block of a file: the block, and where the part ends.
#[derive(Clone, Copy)]
struct Block {
    ino: InodeNo,
    block: u64,
    end: usize,
}

struct Full {
    medium: Arc<dyn Medium>,
    system: System,
    names: Vec<String>,
    blocks: Vec<Block>,
    /// True if each write is synced.
    each: bool,
    unit: usize,
    random: Xoshiro256PlusPlus,
}

impl Full {
    fn new(medium: Arc<dyn Medium>, unit_bytes: u32, aged: bool, each: bool) -> Self {
        let options = VlfsFormatOptions {
            unit_bytes,
            // The limit of inodes is so high that the space ends first.
            inodes: medium.geometry().size / 4096,
            seed: Some(1),
            ..VlfsFormatOptions::default()
        };
        format(&*medium, &*clock(), &options).unwrap();
        if aged {
            age(&medium);
        }
        FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
        let system = again(&medium);
        Full {
            unit: system.layout().measures().unit_bytes as usize,
            system,
            medium,
            names: Vec::new(),
            blocks: Vec::new(),
            each,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        }
    }

    fn make(&mut self) -> Option<InodeNo> {
        let (name, root) = (format!("file{}", self.names.len()), Caller::root());
        let bytes = name.as_bytes();
        let made = (self.system).mknod(&root, InodeNo::ROOT, bytes, 0o100644, 0);
        match made {
            Ok(made) => {
                self.names.push(name);
                Some(made.ino)
            }
            Err(Error::NoSpace) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes a block from `from` to its end; returns true if it fitted.
    fn put(&self, at: Block, from: usize, fill: u8) -> bool {
        let offset = at.block * 4096 + from as u64;
        match write(&self.system, at.ino, offset, &vec![fill; at.end - from]) {
            Ok(written) => assert_eq!(written, at.end - from),
            Err(Error::NoSpace) => return false,
            Err(error) => panic!("{error}"),
        }
        if self.each {
            self.system.fsync(at.ino, false).unwrap();
        }
        true
    }

    fn fill(&mut self, shape: Shape) {
        let several = match shape {
            Shape::Large => 1,
            Shape::Sparse => 8,
            Shape::Small | Shape::Tails | Shape::Units | Shape::FarTails => usize::MAX,
        };
        let mut files: Vec<Block> = Vec::new();
        while files.len() < several {
            let Some(ino) = self.make() else { break };
            let end = match shape {
                Shape::Large | Shape::Sparse => 4096,
                Shape::Small => self.random.random_range(1..4096),
                Shape::Units => self.unit,
                Shape::Tails | Shape::FarTails => 512 * self.random.random_range(1..9),
            };
            let block = match shape {
                Shape::FarTails => self.random.random_range(1..1 << 40),
                _ => 0,
            };
            let first = Block { ino, block, end };
            if !self.put(first, 0, 1) {
                break;
            }
            files.push(first);
        }
        let mut open: Vec<usize> = (0..files.len()).collect();
        while !open.is_empty() {
            let pick = self.random.random_range(0..open.len());
            let file = &mut files[open[pick]];
            let (block, from) = match shape {
                Shape::Sparse => (self.random.random_range(1..1 << 40), 0),
                _ if file.end == 4096 => (file.block + 1, 0),
                _ => (file.block, file.end),
            };
            let end = match shape {
                Shape::Tails | Shape::FarTails => from + 512,
                Shape::Large | Shape::Small | Shape::Units | Shape::Sparse => 4096,
            };
            let longer = Block {
                block,
                end: end.min(4096),
                ..*file
            };
            let before = std::mem::replace(file, longer);
            if !self.put(longer, from, 1) {
                files[open[pick]] = before;
                open.swap_remove(pick);
            } else if before.block != block {
                self.blocks.push(before);
            }
        }
        self.blocks.extend(files);
    }

    /// Overwrites everything, blocks in random order, each third one in part.
    fn write_over(&mut self, round: u8) {
        self.blocks.shuffle(&mut self.random);
        for nth in 0..self.blocks.len() {
            let at = self.blocks[nth];
            let from = match nth % 3 {
                0 => self.random.random_range(0..at.end),
                _ => 0,
            };
            let live = || self.system.layout().statistics().blocks_live;
            assert!(
                self.put(at, from, round),
                "round {round}, {nth} of {}: refused with {} blocks live",
                self.blocks.len(),
                live()
            );
        }
        self.system.sync().unwrap();
    }

    fn mount_again(&mut self) {
        self.system.unmount().unwrap();
        self.system.layout().unmount().unwrap();
        self.system = again(&self.medium);
    }

    fn empty(mut self) {
        self.names.shuffle(&mut self.random);
        ends_empty(self.system, &self.medium, &self.names);
    }
}

/// Fills a volume and overwrites it again and again. Formerly everything that a fold
/// rewrote was written to whole blocks and left holes. Now holes are filled first when
/// few blocks are free, and growth leaves the margin that this needs.
fn lengthened(medium: Arc<dyn Medium>, unit: u32, aged: bool, shapes: &[Shape]) {
    let bytes = medium.geometry().size;
    for &shape in shapes {
        for each in [false, true] {
            eprintln!("{bytes} bytes, units of {unit}, aged {aged}, {shape:?}, each {each}");
            let copy: Arc<dyn Medium> = match medium.head() {
                None => memory(bytes, medium.geometry().physical_block),
                Some(_) => drive_of(3),
            };
            let mut full = Full::new(copy, unit, aged, each);
            let empty = full.system.statfs().free;
            full.fill(shape);
            let left = full.system.statfs().free;
            assert!(left < 24.max(empty / 50), "{left} of {empty} blocks left");
            for round in 2..5 {
                full.write_over(round);
                match round % 4 {
                    0 => full.system.layout().checkpoint().unwrap(),
                    2 => full.mount_again(),
                    _ => {}
                }
            }
            full.empty();
        }
    }
}

const ALL: [Shape; 6] = [
    Shape::Large,
    Shape::Small,
    Shape::Tails,
    Shape::Units,
    Shape::Sparse,
    Shape::FarTails,
];

#[test]
fn a_volume_lengthened_to_the_last_block_is_written_over_for_ever() {
    for bytes in [least_bytes(512), 5 << 20] {
        for aged in [false, true] {
            lengthened(memory(bytes, 512), 512, aged, &ALL);
        }
    }
}

#[test]
fn a_volume_of_larger_units_is_written_over_for_ever() {
    for unit in [1024, 2048, 4096] {
        for bytes in [least_bytes(unit), 5 << 20] {
            lengthened(memory(bytes, unit), unit, false, &ALL);
        }
    }
}

#[test]
fn a_drive_lengthened_to_the_last_block_is_written_over_for_ever() {
    for aged in [false, true] {
        lengthened(drive_of(3), 0, aged, &ALL);
    }
}

#[test]
fn a_larger_volume_is_written_over_for_ever() {
    lengthened(
        memory(20 << 20, 512),
        512,
        false,
        &[Shape::Large, Shape::FarTails],
    );
}
