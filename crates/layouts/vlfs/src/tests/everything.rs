//! Volumes full of everything: blocks, tails, blocks at large offsets, content in
//! inodes, and extended attributes, overwritten in any order, across crashes.

use super::full::{ends_empty, least_bytes};
use super::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use varve_fs::Error;

/// An item that is overwritten without a change of its length.
#[derive(Clone, Copy, Debug)]
enum Item {
    Bytes { at: u64, bytes: usize },
    Attribute { bytes: usize },
}

struct Full {
    medium: Arc<dyn Medium>,
    system: System,
    names: Vec<String>,
    items: Vec<(InodeNo, Item)>,
    random: Xoshiro256PlusPlus,
}

impl Full {
    fn new(medium: Arc<dyn Medium>, unit_bytes: u32, seed: u64) -> Self {
        let options = VlfsFormatOptions {
            unit_bytes,
            inodes: medium.geometry().size / 4096,
            seed: Some(seed),
            ..VlfsFormatOptions::default()
        };
        format(&*medium, &*clock(), &options).unwrap();
        FileSystem::format(&*mounted(&medium), &*clock(), (0, 0)).unwrap();
        Full {
            system: again(&medium),
            medium,
            names: Vec::new(),
            items: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Writes an item; returns true if it fitted.
    fn put(&self, ino: InodeNo, item: Item, fill: u8) -> bool {
        let root = Caller::root();
        let put = match item {
            Item::Bytes { at, bytes } => write(&self.system, ino, at, &vec![fill; bytes]).map(drop),
            Item::Attribute { bytes } => {
                let value = vec![fill; bytes];
                (self.system).setxattr(&root, ino, b"user.a", &value, false, false)
            }
        };
        match put {
            Ok(()) => true,
            Err(Error::NoSpace) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a file with a few random items; returns false if they did not fit.
    fn make(&mut self) -> bool {
        let (name, root) = (format!("file{}", self.names.len()), Caller::root());
        let (above, bytes) = (InodeNo::ROOT, name.as_bytes());
        let made = match (self.system).mknod(&root, above, bytes, 0o100644, 0) {
            Ok(made) => made.ino,
            Err(Error::NoSpace) => return false,
            Err(error) => panic!("{error}"),
        };
        self.names.push(name);
        for _ in 0..self.random.random_range(1..4) {
            let item = match self.random.random_range(0..6) {
                0 => Item::Attribute {
                    bytes: match self.random.random_range(0..8) {
                        0 => self.random.random_range(1..=65_536),
                        _ => self.random.random_range(1..3500),
                    },
                },
                1 => Item::Bytes {
                    at: self.random.random_range(1..1 << 40) * 4096,
                    bytes: self.random.random_range(1..=4096),
                },
                2 => Item::Bytes {
                    at: 0,
                    bytes: self.random.random_range(1..300),
                },
                3 => Item::Bytes {
                    at: 0,
                    bytes: 4096 * self.random.random_range(1..20),
                },
                _ => Item::Bytes {
                    at: 0,
                    bytes: self.random.random_range(1..=4096),
                },
            };
            let others = |&(ino, other): &(InodeNo, Item)| {
                let both = matches!(
                    (item, other),
                    (Item::Attribute { .. }, Item::Attribute { .. })
                );
                !(ino == made && both)
            };
            if !self.put(made, item, 1) {
                return false;
            }
            self.items.retain(others);
            self.items.push((made, item));
        }
        true
    }

    /// Fills the volume until no block fits, nor a sector at the end of any file.
    fn fill(&mut self) {
        while self.make() {
            if self.random.random_range(0..20) == 0 {
                self.system.sync().unwrap();
            }
        }
        let files: Vec<InodeNo> = self.items.iter().map(|&(ino, _)| ino).collect();
        for bytes in [4096, 512] {
            for &ino in &files {
                loop {
                    let at = self.system.getattr(ino).unwrap().size;
                    let item = Item::Bytes { at, bytes };
                    if !self.put(ino, item, 1) {
                        break;
                    }
                    self.items.push((ino, item));
                }
            }
        }
    }

    fn write_over(&mut self, round: u8, one_in: usize) {
        for nth in 0..self.items.len() {
            let pick = self.random.random_range(0..self.items.len());
            let (ino, item) = self.items[pick];
            let live = || self.system.layout().statistics().blocks_live;
            assert!(
                self.put(ino, item, round),
                "round {round}, {nth} of {}: {item:?} refused with {} blocks live",
                self.items.len(),
                live()
            );
            if nth % one_in == 0 {
                self.system.fsync(ino, true).unwrap();
            }
        }
    }

    /// Loses everything that was not synced; pending changes are not written.
    fn crash(self) -> Self {
        let Full {
            medium,
            system,
            names,
            items,
            random,
        } = self;
        drop(system);
        sound(&medium);
        Full {
            system: again(&medium),
            medium,
            names,
            items,
            random,
        }
    }

    fn empty(mut self) {
        self.names.shuffle(&mut self.random);
        ends_empty(self.system, &self.medium, &self.names);
    }
}

fn written_over(medium: Arc<dyn Medium>, unit_bytes: u32, seed: u64) {
    let mut full = Full::new(medium, unit_bytes, seed);
    full.fill();
    full.system.sync().unwrap();
    for round in 2..10u8 {
        full.write_over(round, [1, 7, usize::MAX][usize::from(round) % 3]);
        match round % 4 {
            0 => full.system.layout().checkpoint().unwrap(),
            1 => full.system.sync().unwrap(),
            2 => {
                full.system.layout().compact(u64::MAX, &|_| true).unwrap();
            }
            _ => full = full.crash(),
        }
    }
    full.empty();
}

#[test]
fn a_volume_full_of_everything_is_written_over_across_crashes() {
    for unit in [512, 1024, 2048, 4096] {
        for seed in 1..3 {
            written_over(memory(least_bytes(unit), unit), unit, seed);
            written_over(memory(6 << 20, unit), unit, seed);
        }
    }
}

#[test]
fn a_drive_full_of_everything_is_written_over_across_crashes() {
    for seed in 1..3 {
        written_over(drive_of(3), 0, seed);
    }
}
