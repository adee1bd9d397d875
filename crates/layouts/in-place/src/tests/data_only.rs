//! Commits of data alone: an overwrite needs no record for the times of its file.

use super::*;
use crate::format::Metadata;
use std::time::Duration;
use varve_device::CounterSnapshot;

const BLOCK: usize = 4096;

#[test]
fn what_is_written_over_takes_one_write_and_a_flush() {
    for metadata in Metadata::ALL {
        let disk = Arc::new(MemoryDevice::new(16 << 20));
        let device: Arc<dyn Device> = Arc::clone(&disk) as Arc<dyn Device>;
        let time = Arc::new(VirtualClock::new(1_600_000_000_000_000_000, 0));
        let clock: Arc<dyn Clock> = Arc::clone(&time) as Arc<dyn Clock>;
        unmount(&made_with(
            &device,
            &FfsFormatOptions {
                metadata,
                ..FfsFormatOptions::default()
            },
        ));
        let mount = |device: &Arc<dyn Device>| {
            let options = FfsMountOptions {
                seed: Some(2),
                ..FfsMountOptions::default()
            };
            let layout = Ffs::mount(Arc::clone(device), Arc::clone(&clock), options).unwrap();
            FileSystem::mount(Arc::new(layout), Arc::clone(&clock), super::options()).unwrap()
        };
        // Returns the state that a power cut would leave now.
        let cut = || -> Arc<dyn Device> { Arc::new(MemoryDevice::from_image(&disk.snapshot())) };
        let system = mount(&device);
        let ino = create(&system, "f");
        write(&system, ino, 0, &[1; 8 * BLOCK]).unwrap();
        system.fsync(ino, false).unwrap();
        let since = |before: CounterSnapshot| {
            let now = disk.counters().snapshot();
            (now.writes - before.writes, now.flushes - before.flushes)
        };

        time.advance(Duration::from_secs(10));
        let before = disk.counters().snapshot();
        write(&system, ino, BLOCK as u64, &[2; BLOCK]).unwrap();
        system.fsync(ino, true).unwrap();
        assert_eq!(since(before), (1, 1), "{metadata:?}");
        let there = mount(&cut());
        assert_eq!(read(&there, ino, BLOCK as u64, BLOCK), [2; BLOCK]);

        // A full sync also waits for the times of earlier data syncs.
        let mtime = system.getattr(ino).unwrap().mtime;
        system.fsync(ino, false).unwrap();
        let there = mount(&cut());
        assert_eq!(there.getattr(ino).unwrap().mtime, mtime, "{metadata:?}");

        // A file that grows has its size, and its block is reachable.
        write(&system, ino, 20 * BLOCK as u64, &[3; BLOCK]).unwrap();
        system.fsync(ino, true).unwrap();
        let there = mount(&cut());
        assert_eq!(there.getattr(ino).unwrap().size, 21 * BLOCK as u64);
        assert_eq!(read(&there, ino, 20 * BLOCK as u64, BLOCK), [3; BLOCK]);

        // Times that no call waited for are present after an unmount.
        time.advance(Duration::from_secs(10));
        write(&system, ino, 0, &[4; BLOCK]).unwrap();
        system.fsync(ino, true).unwrap();
        let mtime = system.getattr(ino).unwrap().mtime;
        unmount(&system);
        let there = mount(&device);
        assert_eq!(there.getattr(ino).unwrap().mtime, mtime, "{metadata:?}");
        unmount(&there);
        sound(&device);
    }
}
