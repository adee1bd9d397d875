//! Content: reads return the bytes written, and zeros elsewhere.

use super::harness::*;
use crate::{Caller, Error, FileSystem, InodeNo, Layout, MemoryOptions, Options, SetAttr, Whence};
use std::sync::Arc;

const KEEP_SIZE: i32 = 1;
const PUNCH: i32 = 3;
const ZERO: i32 = 16;

fn root() -> Caller {
    Caller::root()
}

/// Checks a file's content in each state: dirty, logged, cold, and after a crash.
fn everywhere(fs: &Fs, ino: InodeNo, expected: &[u8]) {
    assert!(fs.t_read(ino) == expected, "in memory");
    fs.sync().unwrap();
    assert!(fs.t_read(ino) == expected, "logged");
    fs.drop_caches();
    assert!(fs.t_read(ino) == expected, "cold");
    let after = crash(fs, None);
    assert!(after.t_read(ino) == expected, "after a crash");
    assert_eq!(
        after.getattr(ino).unwrap().sectors,
        fs.getattr(ino).unwrap().sectors
    );
    assert_eq!(fs.layout().usage(), fs.usage());
}

#[test]
fn small_files_stay_in_the_inode_until_they_grow() {
    let fs = fresh();
    let a = fs.t_file("a", b"tiny");
    everywhere(&fs, a, b"tiny");
    assert_eq!(fs.getattr(a).unwrap().sectors, 0);
    fs.t_write(a, 2, &[b'x'; 126]);
    let mut expected = b"ti".to_vec();
    expected.extend([b'x'; 126]);
    everywhere(&fs, a, &expected);
    fs.t_write(a, 128, b"!");
    expected.push(b'!');
    everywhere(&fs, a, &expected);
    assert_eq!(fs.getattr(a).unwrap().sectors, 1);
    fs.t_truncate(a, 0);
    fs.t_write(a, 0, b"again");
    everywhere(&fs, a, b"again");
    assert_eq!(fs.getattr(a).unwrap().sectors, 0);
}

#[test]
fn writes_of_any_alignment_are_read_back() {
    for (offset, length) in [
        (0, 1),
        (4095, 2),
        (4096, 4096),
        (1, 12_288),
        (8191, 8194),
        (5000, 1),
    ] {
        let fs = fresh();
        let mut expected = pattern(20_000, 1);
        let a = fs.t_file("a", &expected);
        everywhere(&fs, a, &expected);
        let piece = pattern(length, 9);
        fs.t_write(a, offset as u64, &piece);
        expected[offset..offset + length].copy_from_slice(&piece);
        everywhere(&fs, a, &expected);
    }
}

#[test]
fn holes_read_as_zeros_and_cost_nothing() {
    let fs = fresh();
    let a = fs.t_create(ROOT, "a").ino;
    fs.t_write(a, 1 << 40, b"far");
    let attr = fs.getattr(a).unwrap();
    assert_eq!((attr.size, attr.sectors), ((1 << 40) + 3, 1));
    let mut buffer = [1; 100];
    assert_eq!(fs.read(a, 12_345, &mut buffer).unwrap(), 100);
    assert_eq!(buffer, [0; 100]);
    assert_eq!(fs.read(a, (1 << 40) - 1, &mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"\0far");
    fs.t_truncate(a, 100);
    everywhere(&fs, a, &[0; 100]);
    let beyond = fs.write(&root(), a, 1 << 60, b"x");
    assert!(matches!(beyond, Err(Error::TooLarge)));
    assert!(matches!(
        fs.write(&root(), a, u64::MAX, b"x"),
        Err(Error::TooLarge)
    ));
}

#[test]
fn what_a_truncate_cut_never_comes_back() {
    for logged in [false, true] {
        for cut in [0, 1, 100, 4096, 5000, 8191] {
            for grow in [cut, 8192, 20_000] {
                let fs = fresh();
                let a = fs.t_file("a", &pattern(10_000, 1));
                if logged {
                    fs.sync().unwrap();
                }
                fs.t_truncate(a, cut);
                fs.t_truncate(a, grow);
                let mut expected = pattern(10_000, 1);
                expected.truncate(cut as usize);
                expected.resize(grow as usize, 0);
                everywhere(&fs, a, &expected);
                fs.t_truncate(a, cut);
                fs.sync().unwrap();
                fs.drop_caches();
                fs.t_write(a, 9_000.max(cut), b"beyond");
                expected.truncate(cut as usize);
                expected.resize(9_000.max(cut) as usize, 0);
                expected.extend(b"beyond");
                everywhere(&fs, a, &expected);
            }
        }
    }
}

#[test]
fn append_goes_to_the_end() {
    let fs = fresh();
    let a = fs.t_create(ROOT, "a").ino;
    let mut expected = Vec::new();
    for i in 0..300 {
        let piece = pattern(i, i as u8);
        assert_eq!(
            fs.append(&root(), a, &piece).unwrap(),
            expected.len() as u64
        );
        expected.extend(piece);
        if i % 50 == 0 {
            fs.t_fsync(a);
        }
    }
    everywhere(&fs, a, &expected);
}

#[test]
fn punching_and_zeroing() {
    for logged in [false, true] {
        for (offset, length) in [
            (0, 4096),
            (100, 200),
            (100, 8092),
            (4000, 200),
            (4096, 40_000),
            (0, 1 << 30),
        ] {
            for mode in [PUNCH, ZERO | KEEP_SIZE] {
                if mode != PUNCH && length > 1 << 20 {
                    continue; // would reserve all of it
                }
                let fs = fresh();
                let mut expected = pattern(20_000, 1);
                let a = fs.t_file("a", &expected);
                if logged {
                    fs.sync().unwrap();
                }
                fs.fallocate(&root(), a, mode, offset, length).unwrap();
                let end = ((offset + length) as usize).min(20_000);
                expected[offset as usize..end].fill(0);
                everywhere(&fs, a, &expected);
            }
        }
    }
}

#[test]
fn a_reservation_holds_space_and_reads_as_zeros() {
    let fs = fresh();
    let a = fs.t_file("a", b"head");
    fs.fallocate(&root(), a, KEEP_SIZE, 0, 40_960).unwrap();
    let attr = fs.getattr(a).unwrap();
    assert_eq!(attr.size, 4);
    assert_eq!(attr.sectors, 1 + 9 * 8);
    fs.fallocate(&root(), a, 0, 0, 40_960).unwrap();
    let mut expected = b"head".to_vec();
    expected.resize(40_960, 0);
    everywhere(&fs, a, &expected);
    *fs.layout().limit.lock() = Some(fs.usage());
    fs.t_write(a, 8192, &[7; 4096]);
    expected[8192..12_288].fill(7);
    *fs.layout().limit.lock() = None;
    everywhere(&fs, a, &expected);
    fs.t_truncate(a, 5000);
    expected.truncate(5000);
    everywhere(&fs, a, &expected);
    let bad = fs.fallocate(&root(), a, 8, 0, 4096);
    assert!(matches!(bad, Err(Error::NotSupported)));
    assert!(matches!(
        fs.fallocate(&root(), a, 2, 0, 1),
        Err(Error::NotSupported)
    ));
    assert!(matches!(
        fs.fallocate(&root(), a, 0, 0, 0),
        Err(Error::Invalid(_))
    ));
}

#[test]
fn a_truncate_to_the_same_size_gives_a_reservation_back() {
    let fs = fresh();
    let a = fs.t_file("a", &pattern(10_000, 1));
    let before = fs.getattr(a).unwrap().sectors;
    fs.fallocate(&root(), a, KEEP_SIZE, 0, 1 << 20).unwrap();
    for synced in [false, true] {
        assert!(fs.getattr(a).unwrap().sectors > before);
        fs.t_truncate(a, 10_000);
        assert_eq!(fs.getattr(a).unwrap().sectors, before, "{synced}");
        everywhere(&fs, a, &pattern(10_000, 1));
        fs.fallocate(&root(), a, KEEP_SIZE, 0, 1 << 20).unwrap();
        fs.sync().unwrap();
    }
}

#[test]
fn a_reservation_beyond_the_volume_takes_nothing() {
    let memory = MemoryOptions {
        capacity_bytes: 1 << 20,
        ..Default::default()
    };
    let fs = fresh_with(memory, Options::default());
    let a = fs.t_create(ROOT, "a").ino;
    let before = fs.usage();
    let refused = fs.fallocate(&root(), a, 0, 0, 1 << 50);
    assert!(matches!(refused, Err(Error::NoSpace)));
    assert_eq!(fs.usage(), before);
}

#[test]
fn seeking_finds_data_and_holes() {
    let fs = fresh();
    let a = fs.t_create(ROOT, "a").ino;
    fs.t_write(a, 8192, &[1; 4096]);
    fs.t_write(a, 40_960, &[1; 100]);
    fs.fallocate(&root(), a, KEEP_SIZE, 20_480, 4096).unwrap();
    for round in 0..3 {
        let data = |at| fs.seek(a, at, Whence::Data).ok();
        let hole = |at| fs.seek(a, at, Whence::Hole).ok();
        assert_eq!(data(0), Some(8192), "round {round}");
        assert_eq!(data(9_000), Some(9_000));
        assert_eq!(data(12_288), Some(40_960), "a reserved block is a hole");
        assert_eq!(hole(0), Some(0));
        assert_eq!(hole(8192), Some(12_288));
        assert_eq!(hole(40_960), Some(41_060));
        assert_eq!((data(41_060), hole(41_060)), (None, None));
        fs.sync().unwrap();
        if round == 1 {
            fs.drop_caches();
        }
    }
    let tiny = fs.t_file("tiny", b"abc");
    assert_eq!(fs.seek(tiny, 1, Whence::Hole).unwrap(), 3);
    assert!(matches!(fs.seek(tiny, 3, Whence::Data), Err(Error::NoData)));
}

#[test]
fn copying_within_and_between_files() {
    let fs = fresh();
    let data = pattern(3 << 20, 5);
    let a = fs.t_file("a", &data);
    let b = fs.t_create(ROOT, "b").ino;
    let copied = fs
        .copy_range(&root(), a, 1_000, b, 50, u64::MAX >> 1)
        .unwrap();
    assert_eq!(copied, (3 << 20) - 1_000);
    let mut expected = vec![0; 50];
    expected.extend(&data[1_000..]);
    everywhere(&fs, b, &expected);
    let over = fs.copy_range(&root(), a, 0, a, 10, 100);
    assert!(matches!(over, Err(Error::Invalid(_))));
    assert_eq!(fs.copy_range(&root(), a, 0, a, 200, 100).unwrap(), 100);
}

#[test]
fn a_copy_within_a_file_ends_where_the_file_ended() {
    let fs = fresh();
    let data = pattern(8_192, 5);
    let a = fs.t_file("a", &data);
    let copied = fs.copy_range(&root(), a, 4_096, a, 16_384, 8_192);
    assert_eq!(copied.unwrap(), 4_096, "the rest came with the copy itself");
    let mut expected = data.clone();
    expected.resize(16_384, 0);
    expected.extend(&data[4_096..]);
    everywhere(&fs, a, &expected);
    // The ranges overlap only beyond the end.
    let size = expected.len() as u64;
    let copied = fs.copy_range(&root(), a, size - 10, a, size, 100);
    assert_eq!(copied.unwrap(), 10);
    let behind = fs.copy_range(&root(), a, size + 10, a, 0, 100);
    assert_eq!(behind.unwrap(), 0);
}

#[test]
fn a_block_that_the_cleaner_moved_is_found_again() {
    let fs = fresh();
    let data = pattern(100_000, 2);
    let a = fs.t_file("a", &data);
    fs.sync().unwrap();
    fs.drop_caches();
    fs.layout().memory().move_blocks();
    assert!(fs.t_read(a) == data);
}

#[test]
fn sequential_misses_read_more_and_more() {
    let fs = fresh();
    let data = pattern(4 << 20, 2);
    let a = fs.t_file("a", &data);
    fs.sync().unwrap();
    fs.drop_caches();
    let before = fs.statistics();
    let mut buffer = vec![0; 4096];
    for block in 0..1024usize {
        fs.read(a, block as u64 * 4096, &mut buffer).unwrap();
        assert!(buffer == data[block * 4096..][..4096]);
    }
    let after = fs.statistics();
    assert!(after.layout_reads - before.layout_reads <= 12, "{after:?}");
    assert!(after.read_ahead_blocks > 900);
}

/// When blocks used more than once had 97 % of the cache, blocks read ahead were evicted
/// before the reader reached them, and a file was read more than twice.
#[test]
fn a_cache_that_others_use_keeps_what_is_read_ahead() {
    for cache_bytes in [2 << 20, 8 << 20, 24 << 20] {
        let fs = fresh_with(
            MemoryOptions::default(),
            Options {
                cache_bytes,
                ..Default::default()
            },
        );
        let hot = fs.t_file("hot", &pattern(cache_bytes as usize, 3));
        let cold = fs.t_file("cold", &pattern(16 << 20, 2));
        fs.sync().unwrap();
        fs.drop_caches();
        let read = |ino, bytes: u64| {
            let mut buffer = vec![0; 4096];
            for block in 0..bytes / 4096 {
                fs.read(ino, block * 4096, &mut buffer).unwrap();
            }
        };
        for _ in 0..4 {
            read(hot, cache_bytes);
        }
        let before = fs.statistics().read_ahead_blocks;
        read(cold, 16 << 20);
        let fetched = fs.statistics().read_ahead_blocks - before;
        assert!(
            fetched <= 4400,
            "{fetched} of 4096, a cache of {cache_bytes}"
        );
    }
}

#[test]
fn threads_fetch_ahead_of_a_reader() {
    let options = Options {
        read_ahead_threads: 2,
        ..Default::default()
    };
    let fs = fresh_with(MemoryOptions::default(), options);
    let data = pattern(8 << 20, 2);
    let a = fs.t_file("a", &data);
    fs.sync().unwrap();
    fs.drop_caches();
    let mut buffer = vec![0; 65_536];
    for at in (0..data.len()).step_by(buffer.len()) {
        fs.read(a, at as u64, &mut buffer).unwrap();
        assert!(buffer == data[at..at + buffer.len()], "{at}");
    }
    drop(fs); // joins the threads
}

/// Each was counted as free once for every change that queued it.
#[test]
fn a_file_that_is_cut_twice_and_removed_is_freed_once() {
    let mut fs = fresh();
    fs.settings.step_blocks = 16;
    let free = fs.statfs();
    let a = fs.t_file("a", &pattern(800_000, 3));
    fs.sync().unwrap();
    fs.t_truncate(a, 400_000);
    let half = fs.statfs();
    fs.t_truncate(a, 300_000);
    let less = fs.statfs();
    assert!(half.free < less.free && less.free < free.free, "{less:?}");
    fs.t_unlink("a");
    assert!(fs.usage().blocks > 100, "most is still to be freed");
    assert_eq!(fs.statfs().files, free.files);
    fs.unmount().unwrap();
    assert_eq!(fs.statfs().files, free.files);
}

#[test]
fn large_truncates_and_frees_go_in_steps() {
    let mut fs = fresh();
    fs.settings.step_blocks = 16;
    let data = pattern(400_000, 3);
    let a = fs.t_file("a", &data);
    let b = fs.t_file("b", &data);
    fs.sync().unwrap();
    fs.t_truncate(a, 10_000);
    assert_eq!(fs.t_read(a), &data[..10_000]);
    fs.t_unlink("b");
    assert!(matches!(fs.getattr(b), Err(Error::Stale)));
    fs.sync().unwrap();
    assert!(fs.usage().blocks > 100, "most is still to be freed");
    let half = crash(&fs, None);
    assert_eq!(half.t_read(a), &data[..10_000]);
    assert_eq!(half.usage().blocks, 3 + 1, "finished at mount");
    // Growing finishes the truncate first.
    fs.t_truncate(a, 50_000);
    let mut expected = data[..10_000].to_vec();
    expected.resize(50_000, 0);
    assert_eq!(fs.t_read(a), expected);
    fs.unmount().unwrap();
    assert_eq!(fs.usage().blocks, 3 + 1);
    assert_eq!(fs.layout().usage(), fs.usage());
    everywhere(&fs, a, &expected);
}

#[test]
fn special_files_have_no_content() {
    let fs = fresh();
    let fifo = fs.mknod(&root(), ROOT, b"p", 0o010_644, 0).unwrap().ino;
    assert!(matches!(fs.read(fifo, 0, &mut [0]), Err(Error::Invalid(_))));
    assert!(matches!(
        fs.read(ROOT, 0, &mut [0]),
        Err(Error::IsDirectory)
    ));
    assert!(matches!(
        fs.write(&root(), ROOT, 0, b"x"),
        Err(Error::IsDirectory)
    ));
    let set = SetAttr {
        size: Some(0),
        ..Default::default()
    };
    assert!(matches!(
        fs.setattr(&root(), ROOT, &set),
        Err(Error::IsDirectory)
    ));
}

#[test]
fn a_mounted_tree_is_shared_between_threads() {
    fn is_shareable<T: Send + Sync>() {}
    is_shareable::<FileSystem<crate::MemoryLayout>>();
}

#[test]
fn a_fetch_that_a_write_overtook_is_not_kept() {
    for large in [false, true] {
        let fs = Arc::new(fresh());
        let f = fs.t_file("f", &pattern(40_000, 1));
        fs.sync().unwrap();
        fs.drop_caches();
        let weak = Arc::downgrade(&fs);
        let meddle = move || {
            let fs = weak.upgrade().unwrap();
            let write = move || {
                fs.t_write(f, 100, b"overtaken");
                if large {
                    fs.t_truncate(f, 20_000);
                }
                fs.sync().unwrap();
            };
            std::thread::spawn(write).join().unwrap();
        };
        *fs.layout().during_read.lock() = Some(Box::new(meddle));
        let mut buffer = vec![0; 40_000];
        let read = fs.read(f, 0, &mut buffer).unwrap();
        let mut expected = pattern(40_000, 1);
        expected[100..109].copy_from_slice(b"overtaken");
        expected.truncate(if large { 20_000 } else { 40_000 });
        assert!(buffer[..read] == expected, "nothing of the old");
        assert!(fs.t_read(f) == expected, "nothing of it in the cache");
    }
}

/// Found by `schedules`: the block in memory was older than the write, those that were
/// fetched were newer.
#[test]
fn a_read_sees_a_write_whole_or_not_at_all() {
    let fs = Arc::new(fresh());
    let f = fs.t_file("f", &pattern(40_000, 1));
    fs.sync().unwrap();
    fs.drop_caches();
    fs.read(f, 0, &mut [0; 4096]).unwrap();
    let newer = pattern(40_000, 2);
    let (weak, data) = (Arc::downgrade(&fs), newer.clone());
    let meddle = move || {
        let fs = weak.upgrade().unwrap();
        let write = move || fs.t_write(f, 0, &data);
        std::thread::spawn(write).join().unwrap();
    };
    // The first miss fetches the rest of the file.
    *fs.layout().during_read.lock() = Some(Box::new(meddle));
    assert!(fs.t_read(f) == newer);
}

#[test]
fn a_fetch_is_not_repeated_for_what_changes_elsewhere() {
    let fs = Arc::new(fresh());
    let f = fs.t_file("f", &pattern(400_000, 1));
    let misses_beside_a_write_at = |offset: u64| {
        fs.sync().unwrap();
        fs.drop_caches();
        let weak = Arc::downgrade(&fs);
        let meddle = move || {
            let fs = weak.upgrade().unwrap();
            let write = move || fs.t_write(f, offset, b"elsewhere");
            std::thread::spawn(write).join().unwrap();
        };
        *fs.layout().during_read.lock() = Some(Box::new(meddle));
        let (before, mut buffer) = (fs.statistics().misses, [0; 10]);
        fs.read(f, 200_000, &mut buffer).unwrap();
        let misses = fs.statistics().misses - before;
        assert_eq!(buffer, fs.t_read(f)[200_000..200_010], "the newest");
        misses
    };
    // One miss of the reader, one of the writer, which changes a part of a block, and one
    // more of the reader; from then on changes are recorded.
    assert_eq!([0, 0, 390_000].map(misses_beside_a_write_at), [3, 2, 2]);
    misses_beside_a_write_at(200_005);
}

/// The parts that are reported cover the file's data once, and nothing else.
#[test]
fn stretches_are_what_a_file_holds() {
    let fs = fresh();
    let root = Caller::root();
    let told = |ino, bytes: std::ops::Range<u64>| {
        let mut parts = fs.stretches(ino, bytes).unwrap();
        parts.sort_unstable_by_key(|part| part.start);
        assert!(parts.windows(2).all(|two| two[0].end <= two[1].start));
        // Adjacent parts are joined here, regardless of their places.
        parts.into_iter().fold(Vec::new(), |mut all: Vec<_>, part| {
            match all.last_mut() {
                Some(std::ops::Range { end, .. }) if *end == part.start => *end = part.end,
                _ => all.push(part),
            }
            all
        })
    };
    let all = 0..u64::MAX;
    let small = fs.t_file("small", &[1; 20]);
    assert_eq!(told(small, all.clone()), std::slice::from_ref(&(0..20)));
    assert_eq!(told(fs.t_file("empty", &[]), all.clone()), []);
    let f = fs.t_file("f", &pattern(100_000, 2));
    fs.t_write(f, 500_000, &pattern(10_000, 3));
    fs.fallocate(&root, f, 0, 700_000, 50_000).unwrap();
    let holds = [0..102_400, 499_712..512_000];
    assert_eq!(told(f, all.clone()), holds, "in memory");
    fs.sync().unwrap();
    assert_eq!(told(f, all.clone()), holds, "on the layout");
    fs.t_write(f, 8192, &[7; 4096]);
    let punch_and_keep_size = 3;
    fs.fallocate(&root, f, punch_and_keep_size, 20_480, 8192)
        .unwrap();
    assert_eq!(told(f, all), [0..20_480, 28_672..102_400, 499_712..512_000]);
    assert_eq!(told(f, 5000..30_000), [5000..20_480, 28_672..30_000]);
    // A rewritten block is stored after the rest.
    fs.sync().unwrap();
    let parts = fs.stretches(f, 0..12_288).unwrap();
    assert_eq!(parts, [0..8192, 8192..12_288]);
    assert!(matches!(fs.stretches(ROOT, 0..1), Err(Error::IsDirectory)));
}
