//! Bytes of files, through real system calls.

use crate::support::Mounted;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use varve_fuse::MountOptions;

const MIB: usize = 1 << 20;

fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|i| ((i / 7).wrapping_mul(seed | 1) >> 3) as u8)
        .collect()
}

fn writable(m: &Mounted, name: &str) -> File {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(m.path(name))
        .unwrap()
}

#[test]
fn large_files_read_back_with_and_without_write_back() {
    for strict_order in [false, true] {
        let Some(m) = Mounted::ordered(strict_order) else {
            return;
        };
        let data = pattern(11, 9 * MIB + 4321);
        fs::write(m.path("f"), &data).unwrap();
        assert_eq!(fs::read(m.path("f")).unwrap(), data);
        fs::copy(m.path("f"), m.path("g")).unwrap();
        // From the server, not from pages.
        rustix_drop_caches(&m);
        assert!(
            fs::read(m.path("g")).unwrap() == data,
            "strict_order {strict_order}"
        );
        assert_eq!(m.fs.getattr(ino(&m, "g")).unwrap().size, data.len() as u64);
    }
}

fn ino(m: &Mounted, name: &str) -> varve_fs::InodeNo {
    varve_fs::InodeNo(fs::metadata(m.path(name)).unwrap().ino())
}

/// Drops this mount's cached pages, as far as a test can: each file's own.
fn rustix_drop_caches(m: &Mounted) {
    for entry in fs::read_dir(m.root()).unwrap() {
        let file = File::open(entry.unwrap().path()).unwrap();
        file.sync_all().unwrap();
        let all = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 0, None, all).unwrap();
    }
}

#[test]
fn direct_io_agrees_with_the_page_cache() {
    let Some(m) = Mounted::new() else { return };
    let mut cached = writable(&m, "f");
    cached.write_all(&pattern(3, 3 * MIB)).unwrap();
    let direct = OFlags::DIRECT.bits() as i32;
    let open = |write: bool| {
        File::options()
            .read(true)
            .write(write)
            .custom_flags(direct)
            .open(m.path("f"))
            .unwrap()
    };
    // What was written through the cache, unsynced, is what direct I/O reads.
    let mut got = vec![0; 3 * MIB];
    open(false).read_exact_at(&mut got, 0).unwrap();
    assert!(got == pattern(3, 3 * MIB));
    // What direct I/O wrote is what the cache shows.
    open(true)
        .write_all_at(&pattern(5, 2 * MIB), MIB as u64 / 2)
        .unwrap();
    cached
        .read_exact_at(&mut got[..2 * MIB], MIB as u64 / 2)
        .unwrap();
    assert!(got[..2 * MIB] == pattern(5, 2 * MIB));
    // Direct I/O extends.
    open(true).write_all_at(&[9; 4096], 3 * MIB as u64).unwrap();
    assert_eq!(
        fs::metadata(m.path("f")).unwrap().len(),
        3 * MIB as u64 + 4096
    );
}

#[test]
fn preallocate_punch_and_zero() {
    let Some(m) = Mounted::new() else { return };
    let file = writable(&m, "f");
    fallocate(&file, FallocateFlags::empty(), 0, MIB as u64).unwrap();
    let meta = file.metadata().unwrap();
    assert_eq!((meta.len(), meta.blocks()), (MIB as u64, MIB as u64 / 512));
    fallocate(&file, FallocateFlags::KEEP_SIZE, MIB as u64, MIB as u64).unwrap();
    assert_eq!(file.metadata().unwrap().len(), MIB as u64);
    file.write_all_at(&pattern(13, MIB), 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 100, 9000).unwrap();
    fallocate(&file, FallocateFlags::ZERO_RANGE, 20_000, 10).unwrap();
    let mut want = pattern(13, MIB);
    want[100..9100].fill(0);
    want[20_000..20_010].fill(0);
    let mut got = vec![0; MIB];
    file.read_exact_at(&mut got, 0).unwrap();
    assert!(got == want);
    file.sync_all().unwrap();
    rustix_drop_caches(&m);
    file.read_exact_at(&mut got, 0).unwrap();
    assert!(got == want);
    let refused = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).unwrap_err();
    assert_eq!(refused, Errno::OPNOTSUPP);
}

#[test]
fn data_and_holes_are_found_even_while_dirty() {
    let Some(m) = Mounted::new() else { return };
    let mut file = writable(&m, "f");
    let block = 4096u64;
    file.set_len(100 * block).unwrap();
    // Neither write has reached the server when the seeks ask.
    file.write_all_at(&[1; 4096], 10 * block).unwrap();
    file.write_all_at(&[2; 8192], 50 * block).unwrap();
    let data = |from: u64| rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(from));
    let hole = |from: u64| rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(from));
    assert_eq!(data(0), Ok(10 * block));
    assert_eq!(hole(10 * block), Ok(11 * block));
    assert_eq!(data(11 * block), Ok(50 * block));
    assert_eq!(hole(50 * block), Ok(52 * block));
    assert_eq!(data(52 * block), Err(Errno::NXIO));
    assert_eq!(hole(52 * block), Ok(52 * block));
    assert_eq!(hole(100 * block), Err(Errno::NXIO));
    // A dense file, still dirty, whose end the server has not seen.
    let mut dense = writable(&m, "g");
    dense.write_all(&[3; 10_000]).unwrap();
    assert_eq!(
        rustix::fs::seek(&dense, rustix::fs::SeekFrom::Hole(0)),
        Ok(10_000)
    );
    dense.write_all(&[3; 10_000]).unwrap();
    assert_eq!(
        rustix::fs::seek(&dense, rustix::fs::SeekFrom::Data(15_000)),
        Ok(15_000)
    );
    assert_eq!(
        rustix::fs::seek(&dense, rustix::fs::SeekFrom::Hole(15_000)),
        Ok(20_000)
    );
    // And what was called in is still there.
    let mut got = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut got).unwrap();
    assert_eq!(got.iter().filter(|&&b| b != 0).count(), 3 * 4096);
}

#[test]
fn many_dirty_seeks_at_once_do_not_lock_up() {
    // Both carriers have few threads, which must not all wait for each other.
    for uring in [false, true] {
        let Some(m) = Mounted::with(MountOptions {
            threads_max: 2,
            uring,
            ..MountOptions::default()
        }) else {
            return;
        };
        seek_while_dirty(&m);
    }
}

fn seek_while_dirty(m: &Mounted) {
    std::thread::scope(|scope| {
        for n in 0..16u64 {
            scope.spawn(move || {
                let file = writable(m, &format!("f{n}"));
                file.set_len(1 << 22).unwrap();
                for round in 0..20 {
                    let at = (n + round) * 8192;
                    file.write_all_at(&[1; 4096], at).unwrap();
                    let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at));
                    assert_eq!(found, Ok(at));
                    let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(at));
                    assert_eq!(found, Ok(at + 4096));
                }
            });
        }
    });
}

/// On a busy host the first requests come before every thread has registered
/// its entry, and one that registers later takes none that wait already.
#[test]
fn a_seek_right_after_mounting_finds_somebody_to_serve() {
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // Ended also if something below panics.
        let _ends = Ends(&busy);
        for _ in 0..40 {
            let Some(m) = Mounted::new() else { return };
            let file = writable(&m, "f");
            file.set_len(1 << 20).unwrap();
            file.write_all_at(&[1; 4096], 40_960).unwrap();
            let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0));
            assert_eq!(found, Ok(40_960));
        }
    });
}

/// Lets busy threads go when dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn copies_stay_inside_the_server() {
    let Some(m) = Mounted::new() else { return };
    let from = writable(&m, "from");
    let data = pattern(17, 3 * MIB);
    from.write_all_at(&data, 0).unwrap();
    let to = writable(&m, "to");
    to.write_all_at(&[1; 100], 0).unwrap();
    let (mut at, mut to_at) = (10, 50);
    let mut copied = 0;
    let cost = m.cost(|| {
        while copied < 2 * MIB {
            let (left, ends) = (2 * MIB - copied, (Some(&mut at), Some(&mut to_at)));
            copied += rustix::fs::copy_file_range(&from, ends.0, &to, ends.1, left).unwrap();
        }
    });
    assert_eq!(cost.of("read"), 0, "{cost:?}");
    assert_eq!(
        cost.of("copy_file_range_64") + cost.of("copy_file_range"),
        1,
        "{cost:?}"
    );
    let mut got = vec![0; 2 * MIB];
    to.read_exact_at(&mut got, 50).unwrap();
    assert!(got == data[10..10 + 2 * MIB]);
    assert_eq!(to.metadata().unwrap().len(), 50 + 2 * MIB as u64);
}

#[test]
fn truncation_shows_zeros_when_it_is_undone() {
    let Some(m) = Mounted::new() else { return };
    let file = writable(&m, "f");
    file.write_all_at(&[5; 10_000], 0).unwrap();
    file.set_len(5000).unwrap();
    file.set_len(12_000).unwrap();
    let mut got = vec![1; 12_000];
    file.read_exact_at(&mut got, 0).unwrap();
    assert!(got[..5000].iter().all(|&b| b == 5) && got[5000..].iter().all(|&b| b == 0));
    // O_TRUNC arrives as a change of size.
    drop(File::create(m.path("f")).unwrap());
    assert_eq!(fs::metadata(m.path("f")).unwrap().len(), 0);
    let mut empty = Vec::new();
    file.try_clone().unwrap().read_to_end(&mut empty).unwrap();
    assert!(empty.is_empty());
}

#[test]
fn appends_from_two_descriptors_do_not_overlap() {
    let Some(m) = Mounted::new() else { return };
    let open = || {
        File::options()
            .create(true)
            .append(true)
            .open(m.path("log"))
            .unwrap()
    };
    std::thread::scope(|scope| {
        for byte in [b'a', b'b'] {
            let mut file = open();
            scope.spawn(move || {
                for _ in 0..2000 {
                    file.write_all(&[byte; 10]).unwrap();
                }
            });
        }
    });
    let got = fs::read(m.path("log")).unwrap();
    assert_eq!(got.len(), 40_000);
    assert!(got.chunks(10).all(|c| c.iter().all(|b| *b == c[0])));
}

#[test]
fn fsync_works_through_read_only_descriptors_and_directories() {
    let Some(m) = Mounted::new() else { return };
    let writer = writable(&m, "f");
    let reader = File::open(m.path("f")).unwrap();
    let cost = m.cost(|| {
        writer.write_all_at(b"durable", 0).unwrap();
        reader.sync_all().unwrap();
    });
    assert_eq!((cost.of("write"), cost.of("fsync")), (1, 1), "{cost:?}");
    let root = File::open(m.root()).unwrap();
    let cost = m.cost(|| root.sync_all().unwrap());
    assert_eq!(cost.of("fsyncdir"), 1, "{cost:?}");
    // What is durable survives a crash of the layout.
    let survivor = m.fs.layout().crash();
    let clock = Arc::new(varve_device::HostClock::default());
    let fs = varve_fs::FileSystem::mount(Arc::new(survivor), clock, varve_fs::Options::default())
        .unwrap();
    let caller = varve_fs::Caller::root();
    let found = fs.lookup(&caller, varve_fs::InodeNo::ROOT, b"f").unwrap();
    let mut got = [0; 7];
    fs.read(found.ino, 0, &mut got).unwrap();
    assert_eq!(&got, b"durable");
}
