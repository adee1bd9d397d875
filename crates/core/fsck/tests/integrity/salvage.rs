//! `varve salvage`: a volume without superblocks and checkpoints, from its summaries
//! alone.

use crate::tree::{Tree, populate};
use crate::volume::{Image, Volume, checked, formatted, mount_options, step, with_heads};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_fs::{FileSystem, InodeNo};
use varve_fsck::salvage::{Copied, SalvageOptions, Salvaged, open};
use varve_lfs::{FormatOptions, Lfs, superblock_offsets};

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(5_000_000_000_000, 1000))
}

/// Returns an empty volume as the target.
fn target(bytes: u64) -> Arc<MemoryDevice> {
    let (device, clock) = (Arc::new(MemoryDevice::new(bytes)), clock());
    Lfs::format(&*device, &*clock, &FormatOptions::default()).unwrap();
    let lfs = Lfs::mount(device.clone(), clock.clone(), mount_options(1)).unwrap();
    FileSystem::format(&lfs, &*clock, (0, 0)).unwrap();
    lfs.unmount().unwrap();
    device
}

/// Salvages a volume, and verifies that the source was not written and the target is
/// sound.
pub fn salvage(source: &Arc<MemoryDevice>) -> (Salvaged, Copied, Tree) {
    let options = SalvageOptions::default();
    let before = source.counters().snapshot().bytes_written;
    let salvaged = open(source.clone(), clock(), &options).unwrap();
    let out = target(2 * source.geometry().size);
    let copied = salvaged.copy_to(out.clone(), &clock(), &options).unwrap();
    assert_eq!(source.counters().snapshot().bytes_written, before);
    let check = checked(&Image::from(out.snapshot()), true);
    assert!(check.is_spotless(), "{check}");
    (salvaged, copied, Tree::of(&out))
}

/// Returns a copy without any superblock, any record, or both.
pub fn wipe(device: &MemoryDevice, superblocks: bool, ring: bool) -> Arc<MemoryDevice> {
    let superblock = Lfs::find_superblock(device).unwrap();
    let damaged = Arc::new(MemoryDevice::from_image(&device.snapshot()));
    if superblocks {
        for offset in superblock_offsets(&superblock) {
            damaged.apply_write(offset, &[0; 4096]).unwrap();
        }
    }
    if ring {
        let bytes = superblock.record_bytes.get() * superblock.record_count.get();
        let zeros = vec![0; bytes as usize];
        damaged
            .apply_write(superblock.ring_offset.get(), &zeros)
            .unwrap();
    }
    damaged
}

/// Two trees must be equal except for inode numbers.
#[track_caller]
pub fn assert_same(before: &Tree, after: &Tree, what: &str) {
    let anonymous = |tree: &Tree| {
        let mut tree = tree.clone();
        tree.0.values_mut().for_each(|file| file.ino = 0);
        tree
    };
    let differences = anonymous(before).differences(&anonymous(after));
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}

fn geometries() -> Vec<(u64, FormatOptions)> {
    let with = |segment_bytes, block_bytes, inode_bytes| FormatOptions {
        segment_bytes,
        block_bytes,
        inode_bytes,
        ..FormatOptions::default()
    };
    vec![
        (16 << 20, FormatOptions::default()),
        (12 << 20, with(64 << 10, 4096, 256)),
        (24 << 20, with(256 << 10, 8192, 512)),
        (60 << 20, with(1 << 20, 65536, 4096)),
    ]
}

#[test]
fn everything_from_summaries_alone() {
    for (bytes, options) in geometries() {
        let what = format!("{options:?}");
        let volume = Volume::with(bytes, options);
        populate(&volume);
        volume.unmount();
        let before = Tree::of(&volume.device);
        for (superblocks, ring) in [(true, true), (false, true), (true, false), (false, false)] {
            let damaged = wipe(&volume.device, superblocks, ring);
            let (salvaged, copied, after) = salvage(&damaged);
            assert_eq!(salvaged.superblock_inferred, superblocks);
            assert_eq!(salvaged.record_inferred, ring);
            assert!(salvaged.repair.is_whole(), "{what}: {}", salvaged.repair);
            assert_eq!(copied.left_out, Vec::<String>::new());
            let geometry = volume.lfs.geometry_of_volume();
            let superblock = salvaged.superblock;
            assert_eq!(superblock.segment_bytes.get(), geometry.segment_bytes);
            assert_eq!(superblock.block_bytes.get(), geometry.block_bytes);
            assert_eq!(superblock.inode_bytes.get(), geometry.inode_bytes);
            assert_eq!(superblock.first_segment.get(), geometry.first_segment);
            assert_same(&before, &after, &what);
        }
    }
}

/// A log with several heads, without records and not unmounted; it is also repaired.
#[test]
fn several_heads() {
    for seed in 0..3 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (device, clock) = formatted(12 << 20, FormatOptions::default());
        let options = with_heads(4, mount_options(2));
        let volume = Volume::mount_as(device, clock, options);
        for _ in 0..600 {
            step(&volume, &mut rng);
        }
        volume.system.sync().unwrap();
        let device = Arc::new(MemoryDevice::from_image(&volume.device.snapshot()));
        assert!(checked(&Image::from(device.snapshot()), true).is_spotless());
        let before = Tree::of(&device);
        for (superblocks, ring) in [(true, true), (false, true), (true, false)] {
            let (salvaged, _, after) = salvage(&wipe(&device, superblocks, ring));
            assert!(salvaged.repair.is_whole(), "{}", salvaged.repair);
            let what = format!("seed {seed}\n{}", salvaged.repair);
            assert_same(&before, &after, &what);
        }
    }
}

/// Heads that were closed long ago have no position in the log's end, and other heads may
/// use the segments that they named.
#[test]
fn heads_that_were_closed() {
    for seed in 0..3 {
        eprintln!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut device, mut clock) = formatted(12 << 20, FormatOptions::default());
        for heads in [7, 1, 4, 1] {
            let options = with_heads(heads, mount_options(2));
            let volume = Volume::mount_as(device, clock, options);
            for _ in 0..if heads == 1 { 1500 } else { 300 } {
                step(&volume, &mut rng);
            }
            volume.system.sync().unwrap();
            device = Arc::new(MemoryDevice::from_image(&volume.device.snapshot()));
            clock = volume.clock.clone();
            let tree = Tree::of(&device);
            let (salvaged, _, after) = salvage(&wipe(&device, false, true));
            let what = format!("seed {seed}, {heads} heads\n{}", salvaged.repair);
            assert!(salvaged.repair.is_whole(), "{what}");
            assert_same(&tree, &after, &what);
        }
    }
}

/// Everything that was synced behind the last checkpoint is recovered; deleted files stay
/// deleted, even if their blocks are still in the log.
#[test]
fn the_tree_of_the_last_durable_group() {
    for seed in 0..6 {
        eprintln!("seed {seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut volume = Volume::new(12 << 20);
        for n in 0..1200 {
            step(&volume, &mut rng);
            if n % 400 == 399 {
                volume = volume.crash(seed + n);
            }
        }
        volume.system.sync().unwrap();
        let device = Arc::new(MemoryDevice::from_image(&volume.device.snapshot()));
        let before = Tree::of(&device);
        let damaged = wipe(&device, true, true);
        let (salvaged, _, after) = salvage(&damaged);
        assert!(salvaged.repair.is_whole(), "{}", salvaged.repair);
        assert_same(
            &before,
            &after,
            &format!("seed {seed}\n{}", salvaged.repair),
        );
    }
}

/// A volume was made over an older one: the newer is salvaged by default, the older on
/// request.
#[test]
fn of_two_volumes_the_newer() {
    let old = Volume::new(12 << 20);
    let file = old.file(InodeNo::ROOT, "old");
    old.write(file, 0, &[1; 300_000]);
    old.unmount();
    let device = old.device.clone();
    let old_tag = Lfs::find_superblock(&*device).unwrap().volume_tag();
    let late = Arc::new(VirtualClock::new(9_000_000_000_000, 1000));
    let options = FormatOptions {
        seed: Some(8),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*late, &options).unwrap();
    let lfs = Lfs::mount(device.clone(), late.clone(), mount_options(1)).unwrap();
    FileSystem::format(&lfs, &*late, (0, 0)).unwrap();
    lfs.unmount().unwrap();
    drop(lfs);
    let new = Volume::mount(device, late, 3);
    let file = new.file(InodeNo::ROOT, "new");
    new.write(file, 0, &[2; 5000]);
    new.unmount();
    let damaged = wipe(&new.device, true, true);
    let (_, _, tree) = salvage(&damaged);
    assert_eq!(tree.0.keys().collect::<Vec<_>>(), ["/", "/new"]);
    let options = SalvageOptions {
        volume_tag: old_tag,
        ..SalvageOptions::default()
    };
    let salvaged = open(damaged, clock(), &options).unwrap();
    assert_eq!(salvaged.superblock.volume_tag(), old_tag);
}

/// With any further damage, salvage returns no bytes that were never written.
#[test]
fn further_damage_gives_no_wrong_bytes() {
    let first: u64 = std::env::var("VARVE_SEED").map_or(0, |seed| seed.parse().unwrap());
    let volume = Volume::new(16 << 20);
    populate(&volume);
    volume.unmount();
    let before = Tree::of(&volume.device);
    let wiped = wipe(&volume.device, true, true);
    let (mut saved, mut earlier) = (0, 0);
    for seed in first..first + 25 {
        eprintln!("reproduce: VARVE_SEED={seed}");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let damaged = Arc::new(MemoryDevice::from_image(&wiped.snapshot()));
        for _ in 0..rng.random_range(1..40) {
            let offset = rng.random_range(0..5 << 20) / 512 * 512;
            let garbage: Vec<u8> = (0..512).map(|_| rng.random()).collect();
            damaged.apply_write(offset, &garbage).unwrap();
        }
        let Ok(salvaged) = open(damaged.clone(), clock(), &SalvageOptions::default()) else {
            continue;
        };
        let out = target(32 << 20);
        if salvaged
            .copy_to(out.clone(), &clock(), &SalvageOptions::default())
            .is_err()
        {
            continue;
        }
        saved += 1;
        let after = Tree::of(&out);
        // If the log was truncated, the tree is that of an earlier moment, and the report
        // says so.
        let cut = (salvaged.repair.actions.iter()).any(|a| a.text.contains("behind the damage"));
        earlier += u64::from(cut);
        for (path, file) in &after.0 {
            let Some(was) = before.0.get(path) else {
                let known = cut || path.contains("lost+found");
                assert!(known, "seed {seed}: {path} is new\n{}", salvaged.repair);
                continue;
            };
            for (offset, bytes) in &file.content {
                let known = was.content.iter().any(|(o, b)| o == offset && b == bytes);
                // Blocks overwritten since the checkpoint may be older.
                let older = cut && (path == "/holes" || path == "/home/again");
                assert!(known || older, "seed {seed}: wrong bytes in {path}");
            }
        }
    }
    eprintln!("{saved} of 25 salvaged, {earlier} of an earlier moment");
    assert!(saved > 15 && earlier < 10);
}
