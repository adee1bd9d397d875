//! The log-structured layout through its seam: groups in, blocks out, across
//! remounts, crashes, checkpoints and cleaning.

use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::{Block, Clock, MemoryDevice, VirtualClock};
use varve_fs::{
    Answer, Cause, FileKind, Group, Inode, InodeNo, Item, Layout, Mapping, Purpose, Request,
    Timestamp, Usage, View, Waiting,
};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

struct Volume {
    device: Arc<MemoryDevice>,
    clock: Arc<dyn Clock>,
    lfs: Lfs,
    usage: Usage,
}

/// What an operation that nothing waits beside asks for.
fn asked(bytes: u64) -> Waiting {
    Waiting {
        asked: bytes,
        alone: true,
        ..Waiting::default()
    }
}

fn options() -> MountOptions {
    MountOptions {
        seed: Some(3),
        ..MountOptions::default()
    }
}

impl Volume {
    fn new(bytes: u64) -> Volume {
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        let format = FormatOptions {
            seed: Some(7),
            ..FormatOptions::default()
        };
        Lfs::format(&*device, &*clock, &format).unwrap();
        let lfs = Lfs::mount(device.clone(), clock.clone(), options()).unwrap();
        Volume {
            device,
            clock,
            lfs,
            usage: Usage::default(),
        }
    }

    /// The server dies; the device keeps what it was given.
    fn remount(mut self) -> Volume {
        self.lfs = Lfs::mount(self.device.clone(), self.clock.clone(), options()).unwrap();
        assert_eq!(self.lfs.recovery_report().damage, Vec::<String>::new());
        assert_eq!(self.lfs.usage(), self.usage);
        self
    }

    fn append(&self, items: Vec<Item>) -> varve_fs::Position {
        self.lfs
            .append(Group {
                items,
                usage: self.usage,
                cause: Cause::Sync,
            })
            .unwrap()
    }
}

fn inode(ino: InodeNo, version: u32, blocks: u64) -> Inode {
    let now = Timestamp {
        seconds: 5,
        nanos: 6,
    };
    let mode = FileKind::Regular.mode_bits() | 0o644;
    Inode {
        uid: 1,
        gid: 2,
        nlink: 1,
        size: blocks * 4096,
        blocks,
        sectors: blocks * 8,
        ..Inode::new(ino, version, mode, now)
    }
}

fn content(ino: InodeNo, block: u64, generation: u64) -> Arc<Block> {
    let mut bytes = vec![0; 4096];
    for (i, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = ino.0 << 48 | block << 24 | generation << 12 | i as u64;
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    Arc::new(bytes.into())
}

fn block(ino: InodeNo, version: u32, block: u64, generation: u64) -> Item {
    let data = content(ino, block, generation);
    Item::Block {
        ino,
        version,
        block,
        data,
        written: Timestamp::default(),
    }
}

/// A file and the generation of each of its blocks.
#[derive(Clone)]
struct File {
    ino: InodeNo,
    version: u32,
    blocks: BTreeMap<u64, u64>,
}

impl File {
    fn image(&self) -> Item {
        Item::Inode(Box::new(inode(
            self.ino,
            self.version,
            self.blocks.len() as u64,
        )))
    }
}

fn check(lfs: &Lfs, files: &[File]) {
    for file in files {
        let found = lfs.read_inode(View::Live, file.ino).unwrap();
        assert_eq!(
            found,
            inode(file.ino, file.version, file.blocks.len() as u64)
        );
        let mapped: Vec<Mapping<_>> = lfs.map(View::Live, file.ino, 0, u64::MAX).unwrap();
        let blocks: Vec<u64> = mapped.iter().map(|m| m.block).collect();
        assert_eq!(
            blocks,
            file.blocks.keys().copied().collect::<Vec<_>>(),
            "{}",
            file.ino
        );
        for (mapping, bytes) in mapped.iter().zip(lfs.read(file.ino, &mapped).unwrap()) {
            let generation = file.blocks[&mapping.block];
            assert!(
                bytes == content(file.ino, mapping.block, generation),
                "{} {mapping:?}",
                file.ino
            );
        }
    }
}

fn write(volume: &mut Volume, file: &mut File, blocks: &[u64], generation: u64) {
    let mut items = Vec::new();
    for &number in blocks {
        items.push(block(file.ino, file.version, number, generation));
        if file.blocks.insert(number, generation).is_none() {
            volume.usage.blocks += 1;
            volume.usage.sectors += 8;
        }
    }
    items.push(file.image());
    let position = volume.append(items);
    volume.lfs.commit(position).unwrap();
}

fn create(volume: &mut Volume) -> File {
    let (ino, version) = volume
        .lfs
        .allocate_inode(InodeNo::ROOT, FileKind::Regular)
        .unwrap();
    volume.usage.inodes += 1;
    let file = File {
        ino,
        version,
        blocks: BTreeMap::new(),
    };
    let position = volume.append(vec![file.image()]);
    volume.lfs.commit(position).unwrap();
    file
}

#[test]
fn groups_survive_remount_with_and_without_checkpoint() {
    let mut volume = Volume::new(16 << 20);
    let mut small = create(&mut volume);
    let mut large = create(&mut volume);
    let mut sparse = create(&mut volume);
    write(&mut volume, &mut small, &[0, 2], 1);
    write(&mut volume, &mut large, &(0..300).collect::<Vec<_>>(), 1);
    write(&mut volume, &mut sparse, &[0, 1 << 20, 1 << 40], 1);
    let files = [small.clone(), large.clone(), sparse.clone()];
    check(&volume.lfs, &files);
    let volume = volume.remount();
    check(&volume.lfs, &files);
    volume.lfs.checkpoint().unwrap();
    check(&volume.lfs, &files);
    let mut volume = volume.remount();
    assert_eq!(volume.lfs.recovery_report().groups, 0);
    check(&volume.lfs, &files);
    write(&mut volume, &mut large, &[5, 299, 300, 5000], 2);
    write(&mut volume, &mut small, &[1, 2], 2);
    let files = [small, large, sparse];
    check(&volume.lfs, &files);
    volume.lfs.checkpoint().unwrap();
    check(&volume.lfs, &files);
    check(&volume.remount().lfs, &files);
}

#[test]
fn freed_numbers_come_back_with_the_next_version() {
    let mut volume = Volume::new(16 << 20);
    let mut file = create(&mut volume);
    write(&mut volume, &mut file, &(0..200).collect::<Vec<_>>(), 1);
    volume.lfs.checkpoint().unwrap();
    volume.usage = Usage::default();
    let position = volume.append(vec![Item::Freed {
        ino: file.ino,
        next_version: file.version + 1,
    }]);
    volume.lfs.commit(position).unwrap();
    assert!(volume.lfs.read_inode(View::Live, file.ino).is_err());
    let mut volume = volume.remount();
    let again = create(&mut volume);
    assert_eq!((again.ino, again.version), (file.ino, file.version + 1));
    check(&volume.lfs, std::slice::from_ref(&again));
    volume.lfs.checkpoint().unwrap();
    let volume = volume.remount();
    check(&volume.lfs, &[again]);
}

#[test]
fn overwriting_forever_needs_the_cleaner_and_loses_nothing() {
    let seed = 11;
    eprintln!("seed {seed}");
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut volume = Volume::new(8 << 20);
    let mut files: Vec<File> = (0..4).map(|_| create(&mut volume)).collect();
    let mut opened = 0;
    for generation in 0..2000 {
        let request = Request::new(volume.usage, asked(64 << 10), Purpose::Grow);
        let answer = volume.lfs.admit_or_clean(&request);
        assert!(
            matches!(answer, Ok(Answer::Granted)),
            "{generation}: {answer:?}"
        );
        let which = rng.random_range(0..4);
        let mut file = files[which].clone();
        let mut blocks: Vec<u64> = (0..rng.random_range(1..8))
            .map(|_| rng.random_range(0..200))
            .collect();
        blocks.sort_unstable();
        blocks.dedup();
        write(&mut volume, &mut file, &blocks, generation);
        files[which] = file;
        if generation % 97 == 0 {
            check(&volume.lfs, &files);
        }
        if generation % 331 == 0 {
            opened += volume.lfs.statistics().segments_opened;
            volume = volume.remount();
        }
    }
    assert!(opened > 4 * 64, "the log went round only {opened} segments");
    check(&volume.lfs, &files);
    check(&volume.remount().lfs, &files);
}
