//! No checkpoint writes more than its price, whatever was changed: room for
//! that much and no more is kept. Each checkpoint of a build with assertions
//! compares the two, so what follows has only to be dear.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options, SetAttr};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

const RESERVE: i32 = 0;
const PUNCH: i32 = 3;

struct Volume {
    lfs: Arc<Lfs>,
    fs: FileSystem<Lfs>,
    caller: Caller,
    block: u64,
}

impl Volume {
    fn new(bytes: u64, block_bytes: u32) -> Self {
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        let format = FormatOptions {
            block_bytes,
            segment_bytes: 16 * block_bytes.max(16 << 10),
            seed: Some(7),
            ..FormatOptions::default()
        };
        Lfs::format(&*device, &*clock, &format).unwrap();
        let options = MountOptions {
            seed: Some(3),
            ..MountOptions::default()
        };
        let lfs = Arc::new(Lfs::mount(device, Arc::clone(&clock), options).unwrap());
        FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
        let fs = FileSystem::mount(Arc::clone(&lfs), clock, Options::default()).unwrap();
        Volume {
            lfs,
            fs,
            caller: Caller::root(),
            block: u64::from(block_bytes),
        }
    }

    fn create(&self, name: &str) -> InodeNo {
        let root = InodeNo::ROOT;
        let made = self.fs.mknod(&self.caller, root, name.as_bytes(), 0o644, 0);
        made.unwrap().ino
    }

    fn unlink(&self, name: &str) {
        let root = InodeNo::ROOT;
        self.fs.unlink(&self.caller, root, name.as_bytes()).unwrap();
    }

    /// Writes `blocks` blocks from `block` on.
    fn write(&self, file: InodeNo, block: u64, blocks: u64) {
        let data = vec![block as u8 | 1; (blocks * self.block) as usize];
        self.fs
            .write(&self.caller, file, block * self.block, &data)
            .unwrap();
    }

    fn range(&self, file: InodeNo, mode: i32, block: u64, blocks: u64) {
        let (at, length) = (block * self.block, blocks * self.block);
        self.fs
            .fallocate(&self.caller, file, mode, at, length)
            .unwrap();
    }

    fn truncate(&self, file: InodeNo, block: u64) {
        let size = SetAttr {
            size: Some(block * self.block),
            ..SetAttr::default()
        };
        self.fs.setattr(&self.caller, file, &size).unwrap();
    }

    fn checkpoint(&self) {
        self.fs.checkpoint().unwrap();
    }

    /// A few passes of the cleaner, each with its checkpoint.
    fn clean(&self) {
        for _ in 0..4 {
            self.lfs.cleaner().clean_batch().unwrap();
            self.checkpoint();
        }
    }
}

#[test]
fn a_block_of_each_of_many_parts_of_a_tall_file() {
    let v = Volume::new(64 << 20, 4096);
    let file = v.create("thin");
    let parts: Vec<u64> = (0..300).map(|part| part * 126 * 126 + 7).collect();
    parts.iter().for_each(|&block| v.write(file, block, 1));
    v.checkpoint();
    // Leaf, and the node above it, of each.
    parts.iter().for_each(|&block| v.write(file, block + 1, 1));
    v.checkpoint();
    parts
        .iter()
        .for_each(|&block| v.range(file, PUNCH, block, 1));
    v.checkpoint();
    // Its index stays tall.
    v.truncate(file, 3);
    v.checkpoint();
    v.write(file, 1, 1);
    v.checkpoint();
}

#[test]
fn a_block_of_each_leaf_of_a_reserved_file() {
    let v = Volume::new(128 << 20, 4096);
    let file = v.create("reserved");
    let blocks = 126 * 150;
    v.range(file, RESERVE, 0, blocks);
    v.checkpoint();
    // What was alike in each leaf is not any more.
    (0..150).for_each(|leaf| v.write(file, leaf * 126 + leaf % 126, 1));
    v.checkpoint();
    v.range(file, PUNCH, 0, blocks);
    v.checkpoint();
    for leaf in 0..150 {
        v.write(file, leaf * 126 + 5, 1);
        v.range(file, RESERVE, leaf * 126 + 9, 40);
    }
    v.checkpoint();
}

/// The first blocks have their pointers in the inode, the others need a leaf.
#[test]
fn reservations_that_begin_in_the_inode_and_end_in_a_leaf() {
    let v = Volume::new(64 << 20, 4096);
    for nth in 0..400 {
        let file = v.create(&format!("file {nth}"));
        v.range(file, RESERVE, nth % 3, 25);
    }
    v.checkpoint();
}

/// The inode map is written block by block, the list of free numbers is linked
/// across it, and each file has a node.
#[test]
fn one_of_each_part_of_the_inode_map() {
    for block_bytes in [4096, 65536] {
        let v = Volume::new(256 << 20, block_bytes);
        let name = |nth: u64| format!("file {nth}");
        let files: Vec<InodeNo> = (0..9000).map(|nth| v.create(&name(nth))).collect();
        files.iter().step_by(100).for_each(|&f| v.write(f, 0, 6));
        v.checkpoint();
        files.iter().step_by(100).for_each(|&f| v.write(f, 5, 1));
        v.checkpoint();
        (7..9000).step_by(100).for_each(|nth| v.unlink(&name(nth)));
        v.checkpoint();
        (0..60).for_each(|nth| _ = v.create(&format!("new {nth}")));
        v.checkpoint();
        v.clean();
    }
}

/// Each with its inode, and some with a block of the inode map.
#[test]
fn the_cleaner_moves_a_node_of_each_of_many_files() {
    let v = Volume::new(128 << 20, 4096);
    let name = |nth: u64| format!("file {nth}");
    let files: Vec<InodeNo> = (0..2500).map(|nth| v.create(&name(nth))).collect();
    files.iter().for_each(|&file| v.write(file, 0, 6));
    v.checkpoint();
    let written = |v: &Volume| v.lfs.statistics().node_bytes;
    (0..2500).step_by(2).for_each(|nth| v.unlink(&name(nth)));
    v.checkpoint();
    let before = written(&v);
    v.clean();
    assert!(written(&v) - before > 1000 * 512, "nodes were moved");
}

/// The inode of each names them, and follows.
#[test]
fn the_cleaner_moves_the_attributes_of_many_files() {
    let v = Volume::new(128 << 20, 4096);
    let name = |nth: u64| format!("file {nth}");
    for nth in 0..2500 {
        let file = v.create(&name(nth));
        v.fs.setxattr(&v.caller, file, b"user.x", &[7; 700], false, false)
            .unwrap();
    }
    v.checkpoint();
    (0..2500).step_by(2).for_each(|nth| v.unlink(&name(nth)));
    v.checkpoint();
    let before = v.lfs.statistics().cleaner_bytes;
    v.clean();
    let moved = v.lfs.statistics().cleaner_bytes - before;
    assert!(moved > 1000 * 1024, "{moved} bytes of attributes");
}

/// Who gives numbers back that he has not used takes others from the middle of
/// the list.
#[test]
fn numbers_are_given_back_unused() {
    let v = Volume::new(64 << 20, 4096);
    let name = |nth: u64| format!("file {nth}");
    (0..16_000).for_each(|nth| _ = v.create(&name(nth)));
    v.checkpoint();
    (0..16_000)
        .step_by(128)
        .for_each(|nth| v.unlink(&name(nth)));
    v.checkpoint();
    let news = |nth: u64| format!("new {nth}");
    (0..124).for_each(|nth| _ = v.create(&news(nth)));
    (0..124).step_by(2).for_each(|nth| v.unlink(&news(nth)));
    v.checkpoint();
}

/// Those freed last are given out first, and stand at the head of the list: else
/// each would change the entries of two neighbours, in other blocks of the map.
#[test]
fn numbers_from_all_over_the_map_come_back_as_the_list_has_them() {
    let v = Volume::new(64 << 20, 4096);
    let name = |nth: u64| format!("file {nth}");
    (0..12_000).for_each(|nth| _ = v.create(&name(nth)));
    v.checkpoint();
    // So few that no checkpoint is taken in between.
    let freed: Vec<u64> = (0..21).map(|nth| nth * 560).collect();
    for third in [0, 2, 1] {
        for &nth in freed.iter().skip(third).step_by(3) {
            v.unlink(&name(nth));
        }
    }
    v.checkpoint();
    let before = v.lfs.statistics().inode_map_bytes;
    (0..7).for_each(|nth| _ = v.create(&format!("new {nth}")));
    v.checkpoint();
    let blocks = (v.lfs.statistics().inode_map_bytes - before) / 4096;
    assert!(blocks <= 7 + 2, "{blocks} blocks for 7 files");
}

#[test]
fn a_block_at_the_end_of_the_tallest_file() {
    let v = Volume::new(64 << 20, 4096);
    for height in 2..7 {
        let file = v.create(&format!("{height}"));
        v.write(file, u64::pow(126, height) * 9, 1);
        v.checkpoint();
    }
}

#[test]
fn thousands_without_a_name() {
    let v = Volume::new(64 << 20, 4096);
    let name = |nth: u64| format!("file {nth}");
    for nth in 0..5000 {
        let file = v.create(&name(nth));
        // Somebody has it open.
        v.fs.lookup_held(&v.caller, InodeNo::ROOT, name(nth).as_bytes())
            .unwrap();
        if nth % 10 == 0 {
            v.write(file, 0, 1);
        }
    }
    v.checkpoint();
    (0..5000).for_each(|nth| v.unlink(&name(nth)));
    v.checkpoint();
    v.create("one more");
    v.checkpoint();
}

#[test]
fn anything() {
    for seed in 1..=3 {
        eprintln!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let block_bytes = [4096, 4096, 65536][rng.random_range(0..3)];
        let v = Volume::new(192 << 20, block_bytes);
        let mut files: Vec<InodeNo> = (0..8).map(|nth| v.create(&format!("{nth}"))).collect();
        let (mut oldest, mut newest) = (0, 8);
        let most = (24 << 20) / u64::from(block_bytes);
        for _ in 0..4000 {
            let file = files[rng.random_range(0..files.len())];
            let tall = u64::pow(126, rng.random_range(1..4));
            let block = rng.random_range(0..9) * tall + rng.random_range(0..most);
            let few = rng.random_range(1..9);
            match rng.random_range(0..100) {
                0..50 => v.write(file, block, few.min(1 + most / 500)),
                50..58 => v.range(file, PUNCH, block, few * tall),
                58..64 => v.range(file, RESERVE, block, few),
                64..68 => v.truncate(file, block),
                68..80 => {
                    files.push(v.create(&format!("{newest}")));
                    newest += 1;
                }
                80..88 if files.len() > 4 => {
                    files.remove(0);
                    v.unlink(&format!("{oldest}"));
                    oldest += 1;
                }
                88..90 => v.fs.sync().unwrap(),
                90..93 => _ = v.lfs.cleaner().clean_batch().unwrap(),
                93..96 => v.checkpoint(),
                _ => {}
            }
            if v.fs.usage().blocks * v.block > 40 << 20 {
                files.drain(..).for_each(|file| v.truncate(file, 1));
                files = (newest..newest + 8)
                    .map(|nth| v.create(&format!("{nth}")))
                    .collect();
                (oldest, newest) = (newest, newest + 8);
            }
        }
        v.checkpoint();
    }
}
