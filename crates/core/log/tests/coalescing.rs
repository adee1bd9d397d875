//! Coalescing on a whole volume: pieces, requests, contents, what it leaves
//! alone.

use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{BlockPointer, Caller, FileSystem, InodeNo, Layout, Options, View};
use varve_fsck::check::{CheckOptions, check};
use varve_lfs::cleaner::Coalesced;
use varve_lfs::policy::Coalescing;
use varve_lfs::{Error, FormatOptions, Lfs, MountOptions};

const BLOCK: usize = 4096;

struct Volume {
    device: Arc<MemoryDevice>,
    clock: Arc<dyn Clock>,
    lfs: Arc<Lfs>,
    fs: FileSystem<Lfs>,
}

impl Volume {
    fn new(bytes: u64) -> Self {
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        Lfs::format(&*device, &*clock, &FormatOptions::default()).unwrap();
        let options = MountOptions {
            seed: Some(7),
            ..MountOptions::default()
        };
        let lfs = Lfs::mount(device.clone(), Arc::clone(&clock), options).unwrap();
        let lfs = Arc::new(lfs);
        FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
        let options = Options {
            cache_bytes: 4 << 20,
            read_ahead_threads: 0,
            ..Options::default()
        };
        let fs = FileSystem::mount(Arc::clone(&lfs), Arc::clone(&clock), options).unwrap();
        Volume {
            device,
            clock,
            lfs,
            fs,
        }
    }

    fn file(&self, name: &str, data: &[u8]) -> InodeNo {
        let (caller, root) = (Caller::root(), InodeNo::ROOT);
        let made = self.fs.mknod(&caller, root, name.as_bytes(), 0o100_644, 0);
        let ino = made.unwrap().ino;
        for (at, chunk) in data.chunks(1 << 20).enumerate() {
            self.write(ino, at << 8, chunk);
        }
        ino
    }

    fn write(&self, ino: InodeNo, block: usize, data: &[u8]) {
        let at = (block * BLOCK) as u64;
        self.fs.write(&Caller::root(), ino, at, data).unwrap();
    }

    /// Updates blocks at random, with an fsync now and then, in `data` too.
    fn update(&self, ino: InodeNo, data: &mut [u8], updates: usize) {
        let blocks = data.len() / BLOCK;
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for update in 0..updates {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let block = (random >> 33) as usize % blocks;
            let bytes = [(update % 251) as u8; BLOCK];
            data[block * BLOCK..][..BLOCK].copy_from_slice(&bytes);
            self.write(ino, block, &bytes);
            if update % 256 == 255 {
                self.fs.fsync(ino, true).unwrap();
            }
        }
        self.fs.sync().unwrap();
    }

    fn runs(&self, ino: InodeNo) -> usize {
        let blocks = self.lfs.map(View::Live, ino, 0, u64::MAX).unwrap();
        let breaks = blocks
            .windows(2)
            .filter(|pair| !pair[1].pointer.follows(&pair[0].pointer));
        1 + breaks.count()
    }

    /// Reads it in order, nothing of it in memory; the requests that took.
    fn read(&self, ino: InodeNo, data: &[u8]) -> u64 {
        self.fs.drop_caches();
        self.lfs.drop_caches();
        let before = self.device.counters().snapshot().reads;
        let mut chunk = vec![0; 1 << 20];
        for (at, expected) in data.chunks(1 << 20).enumerate() {
            let part = &mut chunk[..expected.len()];
            self.fs.read(ino, (at as u64) << 20, part).unwrap();
            assert!(part == expected, "mebibyte {at}");
        }
        self.device.counters().snapshot().reads - before
    }

    fn finish(self) {
        let Volume {
            device,
            clock,
            lfs,
            fs,
        } = self;
        fs.unmount().unwrap();
        lfs.unmount().unwrap();
        let options = CheckOptions {
            data: true,
            ..CheckOptions::default()
        };
        let report = check(device, clock, &options).unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
}

#[test]
fn a_file_updated_at_random_is_put_in_order() {
    let v = Volume::new(256 << 20);
    let mut data: Vec<u8> = (0..64 << 20).map(|at| (at / BLOCK) as u8).collect();
    let file = v.file("large", &data);
    v.fs.sync().unwrap();
    let fresh = (v.runs(file), v.read(file, &data));
    v.update(file, &mut data, 8192);
    let broken = (v.runs(file), v.read(file, &data));
    let policy = Coalescing::default();
    let mut next = Some(0);
    let mut all = Coalesced::default();
    while let Some(from) = next {
        let done = v
            .lfs
            .cleaner()
            .coalesce(&policy, file, from, 4 << 20)
            .unwrap();
        // A call keeps to its bound, but for the extent that reaches it.
        assert!(done.moved_bytes < 5 << 20 && !done.short_of_room);
        all.moved_bytes += done.moved_bytes;
        all.runs.0 += done.runs.0;
        all.runs.1 += done.runs.1;
        next = done.next;
    }
    let whole = (v.runs(file), v.read(file, &data));
    eprintln!("pieces, requests: fresh {fresh:?}, updated {broken:?}, coalesced {whole:?}");
    assert!(broken.0 > 5000, "{broken:?}");
    // At most a piece for each extent, and one where it crosses segments.
    assert!(
        whole.0 <= 64 + 64 && whole.0 <= 3 * fresh.0.max(32),
        "{whole:?}"
    );
    assert!(whole.1 * 10 < broken.1, "{broken:?} {whole:?}");
    assert_eq!(all.moved_bytes, 64 << 20);

    let s = v.lfs.statistics();
    assert_eq!(s.coalesced_bytes, 64 << 20);
    assert!(s.coalesced_read_bytes >= 64 << 20 && s.cleaner_bytes == 0);
    assert!(s.write_cost() > 1.0, "it counts as cleaning");

    // What is in order stays where it is.
    let again = v
        .lfs
        .cleaner()
        .coalesce(&policy, file, 0, u64::MAX)
        .unwrap();
    assert_eq!((again.moved_bytes, again.next), (0, None));
    v.lfs.checkpoint().unwrap();
    assert_eq!(v.runs(file), whole.0);
    v.read(file, &data);
    v.finish();
}

#[test]
fn what_does_not_pay_or_has_no_room_is_left_alone() {
    let v = Volume::new(24 << 20);
    let mut data = vec![1; 6 << 20];
    let file = v.file("file", &data);
    v.update(file, &mut data, 1000);
    let pieces = v.runs(file);
    let policy = Coalescing::default();

    // Numbers that are no file's.
    for number in [InodeNo::IFILE, InodeNo(999)] {
        let refused = v.lfs.cleaner().coalesce(&policy, number, 0, u64::MAX);
        assert!(matches!(refused, Err(Error::NoInode(_))), "{refused:?}");
    }
    let behind = v
        .lfs
        .cleaner()
        .coalesce(&policy, file, 1 << 40, u64::MAX)
        .unwrap();
    assert_eq!(behind, Coalesced::default());
    let nothing = v.lfs.cleaner().coalesce(&policy, file, 0, 0).unwrap();
    assert_eq!((nothing.moved_bytes, nothing.next), (0, Some(0)));

    // A volume on which the cleaner is about to begin.
    let mut settings = v.lfs.cleaner().cleaner_settings();
    settings.pace.low_percent = Some(30);
    v.lfs.cleaner().set_cleaner(settings).unwrap();
    let mut filled = 0;
    let low = || {
        let gauge = v.lfs.space().cleaning_gauge();
        gauge.clean <= gauge.low
    };
    while !low() {
        v.file(&format!("filler {filled}"), &vec![2; 256 << 10]);
        v.fs.sync().unwrap();
        filled += 1;
    }
    let done = v
        .lfs
        .cleaner()
        .coalesce(&policy, file, 0, u64::MAX)
        .unwrap();
    assert!(done.short_of_room && done.moved_bytes == 0, "{done:?}");
    assert_eq!((v.runs(file), done.next), (pieces, Some(0)));

    // Room comes back, and so does order.
    for number in 0..filled {
        let name = format!("filler {number}");
        v.fs.unlink(&Caller::root(), InodeNo::ROOT, name.as_bytes())
            .unwrap();
    }
    for _ in 0..4 {
        v.fs.sync().unwrap();
        v.fs.maintain().unwrap();
        v.lfs.checkpoint().unwrap();
    }
    let done = v
        .lfs
        .cleaner()
        .coalesce(&policy, file, 0, u64::MAX)
        .unwrap();
    assert!(done.next.is_none() && v.runs(file) < 30, "{done:?}");
    v.read(file, &data);
    v.finish();
}

#[test]
fn others_write_meanwhile() {
    let v = Volume::new(64 << 20);
    let mut data = vec![3; 8 << 20];
    let file = v.file("file", &data);
    v.update(file, &mut data, 1500);
    std::thread::scope(|scope| {
        let coalesce = scope.spawn(|| {
            let policy = Coalescing::thorough();
            for _ in 0..6 {
                v.lfs
                    .cleaner()
                    .coalesce(&policy, file, 0, u64::MAX)
                    .unwrap();
                v.lfs.checkpoint().unwrap();
            }
        });
        v.update(file, &mut data, 3000);
        coalesce.join().unwrap();
    });
    v.read(file, &data);
    v.finish();
}
