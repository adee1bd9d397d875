//! Bytes by cause: what the log says it wrote and read, and why, is what the
//! device took and gave.

use std::sync::Arc;
use varve_device::{Clock, CounterSnapshot, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};
use varve_lfs::policy::Coalescing;
use varve_lfs::{FormatOptions, Lfs, MountOptions, Statistics};

const BLOCK: usize = 4096;

struct Volume {
    device: Arc<MemoryDevice>,
    clock: Arc<dyn Clock>,
    lfs: Arc<Lfs>,
    fs: FileSystem<Lfs>,
    /// The device's counters and ours when the volume had been mounted.
    before: (CounterSnapshot, Statistics),
}

impl Volume {
    fn new() -> Self {
        let device = Arc::new(MemoryDevice::new(24 << 20));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        let options = FormatOptions {
            segment_bytes: 256 << 10,
            ..FormatOptions::default()
        };
        Lfs::format(&*device, &*clock, &options).unwrap();
        Self::mount(device, clock, true)
    }

    fn mount(device: Arc<MemoryDevice>, clock: Arc<dyn Clock>, new: bool) -> Self {
        let written = device.counters().snapshot().bytes_written;
        let options = MountOptions {
            seed: Some(7),
            ..MountOptions::default()
        };
        let lfs = Lfs::mount(device.clone(), Arc::clone(&clock), options).unwrap();
        let lfs = Arc::new(lfs);
        // What mounting itself writes is counted, what finds the log is not.
        let mounted = device.counters().snapshot();
        assert_eq!(
            lfs.statistics().bytes_written,
            mounted.bytes_written - written
        );
        if new {
            FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
        }
        let before = (device.counters().snapshot(), lfs.statistics());
        let fs = FileSystem::mount(Arc::clone(&lfs), Arc::clone(&clock), Options::default());
        Volume {
            device,
            clock,
            lfs,
            fs: fs.unwrap(),
            before,
        }
    }

    fn file(&self, name: &str, blocks: usize) -> InodeNo {
        let (caller, root) = (Caller::root(), InodeNo::ROOT);
        let made = self.fs.mknod(&caller, root, name.as_bytes(), 0o100_644, 0);
        let ino = made.unwrap().ino;
        let data = vec![ino.0 as u8; blocks * BLOCK];
        self.fs.write(&caller, ino, 0, &data).unwrap();
        ino
    }

    fn remove(&self, name: &str) {
        self.fs
            .unlink(&Caller::root(), InodeNo::ROOT, name.as_bytes())
            .unwrap();
    }

    /// Every byte has its cause.
    fn adds_up(&self) -> Statistics {
        let (device, lfs) = (self.device.counters().snapshot(), self.lfs.statistics());
        let written: u64 = lfs.written_by_cause().iter().map(|c| c.1).sum();
        assert_eq!(written, lfs.bytes_written, "{:?}", lfs.written_by_cause());
        let writes = device.bytes_written - self.before.0.bytes_written;
        assert_eq!(lfs.bytes_written - self.before.1.bytes_written, writes);
        let read: u64 = lfs.read_by_cause().iter().map(|c| c.1).sum();
        assert_eq!(
            read,
            lfs.bytes_read + lfs.verified_read_bytes,
            "{:?}",
            lfs.read_by_cause()
        );
        let reads = device.bytes_read - self.before.0.bytes_read;
        assert_eq!(lfs.bytes_read - self.before.1.bytes_read, reads);
        lfs
    }
}

#[test]
fn bytes_by_cause_are_what_the_device_counted() {
    let v = Volume::new();
    for round in 0..12 {
        for n in 0..20 {
            let name = format!("file {}", n + 20 * (round % 3));
            if round >= 3 && n % 3 != 0 {
                v.remove(&name);
            }
            if round < 3 || n % 3 != 0 {
                v.file(&name, 5 + n % 7);
            }
        }
        v.file(&format!("large {round}"), 200);
        v.fs.sync().unwrap();
        v.lfs.checkpoint().unwrap();
        v.lfs.cleaner().clean_batch().unwrap();
        // From back to front: as many pieces as blocks.
        let large = v.file(&format!("pieces {round}"), 20);
        for block in (0..20).rev() {
            let at = (block * BLOCK) as u64;
            let caller = Caller::root();
            v.fs.write(&caller, large, at, &[9; BLOCK]).unwrap();
            v.fs.fsync(large, true).unwrap();
        }
        v.lfs
            .cleaner()
            .coalesce(&Coalescing::thorough(), large, 0, u64::MAX)
            .unwrap();
        v.lfs.checkpoint().unwrap();
        v.lfs.checkpoint().unwrap();
    }
    let s = v.adds_up();
    for (cause, bytes) in s.written_by_cause() {
        // Nothing is short of room here, and the device has no holes to fill.
        let none = ["maps", "ahead"].contains(&cause);
        assert!(bytes > 0 || none, "nothing for {cause}");
    }
    assert!(s.write_cost() > 1.0 && s.write_amplification() > 1.0);
    assert!(s.cleaner_log_bytes >= s.cleaner_bytes);

    // Segments cleaned have their place in the histogram, as those there are.
    assert!(s.segments_cleaned > 0);
    let cleaned: u64 = s.cleaned_by_utilisation.iter().sum();
    assert_eq!(cleaned, s.segments_cleaned);
    let now = v.lfs.utilisation();
    let used: u64 = now.used.iter().sum();
    let all = u64::from(v.lfs.superblock().segment_count.get());
    assert_eq!(now.clean + now.open + now.empty + used, all);

    // Mounted again: reads have causes, too.
    v.fs.drop_caches();
    let Volume { device, clock, .. } = v;
    let v = Volume::mount(device, clock, false);
    let root = InodeNo::ROOT;
    let attr = v.fs.lookup(&Caller::root(), root, b"large 3");
    let mut data = vec![0; 200 * BLOCK];
    v.fs.read(attr.unwrap().ino, 0, &mut data).unwrap();
    let s = v.adds_up();
    assert!(s.data_read_bytes >= 200 * BLOCK as u64 && s.metadata_read_bytes > 0);
}
