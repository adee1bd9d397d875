//! What the last percents of a volume cost: time, checkpoints, write
//! amplification, refusals.
//!
//! ```text
//! cargo run --release -p varve-lfs --example nearly_full -- SCENARIO MIB [PERCENT [POLICY]]
//! ```
//!
//! Scenarios: `large` fills with one file, `small` with files of a block,
//! `writers` with twelve threads; `random` fills to PERCENT of what statfs
//! promises and then overwrites blocks at random, twice the volume's size in
//! all; `hot` does the same with nine in ten writes to a tenth of the blocks. The device is memory, so times are the price of computing alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve_device::{Clock, HostClock, MemoryDevice};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Options};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Fs = FileSystem<Lfs>;

const MIB: usize = 1 << 20;

fn create(fs: &Fs, name: &str) -> Result<InodeNo, Error> {
    let root = Caller::root();
    fs.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100_644, 0)
        .map(|attr| attr.ino)
}

fn unlink(fs: &Fs, name: &str) {
    let root = Caller::root();
    fs.unlink(&root, InodeNo::ROOT, name.as_bytes())
        .unwrap_or_else(|error| panic!("unlink {name}: {error}"));
}

/// Appends pieces to a file until `bytes` are in it or the volume is full.
fn append(fs: &Fs, ino: InodeNo, piece: usize, bytes: u64) -> u64 {
    let data = vec![b'z'; piece];
    let mut written = 0;
    while written < bytes {
        match fs.write(&Caller::root(), ino, written, &data) {
            Ok(count) => written += count as u64,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("write at {written}: {error}"),
        }
    }
    written
}

fn device_bytes(fs: &Fs) -> u64 {
    let s = fs.layout().statistics();
    s.data_bytes
        + s.inode_bytes
        + s.summary_bytes
        + s.padding_bytes
        + s.node_bytes
        + s.cleaner_bytes
}

fn report(what: &str, fs: &Fs, before: (varve_lfs::Statistics, u64), user: u64, took: Duration) {
    let s = fs.layout().statistics();
    println!(
        "{what}: {:.1} MiB in {:.2} s, {} checkpoints, {} segments cleaned, amplification {:.2}, free {}",
        user as f64 / MIB as f64,
        took.as_secs_f64(),
        s.checkpoints - before.0.checkpoints,
        s.segments_cleaned - before.0.segments_cleaned,
        (device_bytes(fs) - before.1) as f64 / user as f64,
        fs.statfs().free,
    );
}

fn now(fs: &Fs) -> (varve_lfs::Statistics, u64) {
    (fs.layout().statistics(), device_bytes(fs))
}

fn random(fs: &Fs, volume: u64, percent: u64, hot: bool) {
    let bytes = fs.statfs().free * 4096 / 100 * percent;
    let ino = create(fs, "big").unwrap();
    let written = append(fs, ino, MIB, bytes);
    fs.sync().unwrap();
    let blocks = written / 4096;
    let (before, start) = (now(fs), Instant::now());
    let (mut refused, mut done, mut x) = (0u64, 0u64, 88_172_645_463_325_252u64);
    let data = vec![b'r'; 4096];
    while done * 4096 < 2 * volume && start.elapsed() < Duration::from_secs(100) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let among = if hot && !x.is_multiple_of(10) {
            blocks / 10
        } else {
            blocks
        };
        let block = (x >> 8) % among;
        match fs.write(&Caller::root(), ino, block * 4096, &data) {
            Ok(_) => done += 1,
            Err(Error::NoSpace) => {
                refused += 1;
                if refused > 20 {
                    break;
                }
            }
            Err(error) => panic!("overwrite: {error}"),
        }
        if done.is_multiple_of(256) {
            fs.maintain().unwrap();
        }
    }
    let took = start.elapsed();
    println!(
        "{refused} refused; {:.0} overwrites/s",
        done as f64 / took.as_secs_f64()
    );
    report(
        &format!("random at {percent} %"),
        fs,
        before,
        (done * 4096).max(1),
        took,
    );
    unlink(fs, "big");
}

fn writers(fs: &Fs) -> u64 {
    let total = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let background = scope.spawn(|| {
            while !stop.load(Relaxed) {
                fs.maintain().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let threads: Vec<_> = (0..12)
            .map(|i| {
                let total = &total;
                scope.spawn(move || {
                    let Ok(ino) = create(fs, &format!("w{i}")) else {
                        return;
                    };
                    total.fetch_add(append(fs, ino, 256 << 10, u64::MAX), Relaxed);
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        stop.store(true, Relaxed);
        background.join().unwrap();
    });
    total.into_inner()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let volume = arguments[2].parse::<u64>().unwrap() << 20;
    let percent = arguments.get(3).map_or(95, |p| p.parse().unwrap());
    let device = Arc::new(MemoryDevice::new(volume));
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let format = FormatOptions {
        seed: Some(7),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format).unwrap();
    let policy = arguments.get(4).map_or("greedy", String::as_str);
    let options = MountOptions {
        policy: policy.parse().unwrap(),
        ..MountOptions::default()
    };
    let mount = || Lfs::mount(device.clone(), clock.clone(), options.clone()).unwrap();
    let lfs = mount();
    FileSystem::format(&lfs, &*clock, (0, 0)).unwrap();
    lfs.unmount().unwrap();
    drop(lfs);
    let fs = FileSystem::mount(Arc::new(mount()), clock.clone(), Options::default()).unwrap();
    let free = fs.statfs().free;
    let (before, start) = (now(&fs), Instant::now());
    match arguments[1].as_str() {
        "large" => {
            let ino = create(&fs, "big").unwrap();
            let written = append(&fs, ino, MIB, u64::MAX);
            report("one large file", &fs, before, written, start.elapsed());
            unlink(&fs, "big");
        }
        "small" => {
            let mut count = 0;
            let data = vec![b's'; 4096];
            while let Ok(ino) = create(&fs, &format!("s{count}")) {
                match fs.write(&Caller::root(), ino, 0, &data) {
                    Ok(_) => count += 1,
                    Err(Error::NoSpace) => {
                        unlink(&fs, &format!("s{count}"));
                        break;
                    }
                    Err(error) => panic!("write: {error}"),
                }
                if count % 256 == 0 {
                    fs.maintain().unwrap();
                }
            }
            report(
                "files of a block",
                &fs,
                before,
                count * 4096,
                start.elapsed(),
            );
            (0..count).for_each(|i| unlink(&fs, &format!("s{i}")));
        }
        "writers" => {
            let written = writers(&fs);
            report("twelve writers", &fs, before, written, start.elapsed());
            (0..12).for_each(|i| unlink(&fs, &format!("w{i}")));
        }
        "random" => random(&fs, volume, percent, false),
        "hot" => random(&fs, volume, percent, true),
        other => panic!("unknown scenario {other}"),
    }
    let start = Instant::now();
    fs.sync().unwrap();
    let back = fs.statfs().free;
    println!(
        "{:.1} % of {free} blocks are back after {:.2} s",
        back as f64 * 100.0 / free as f64,
        start.elapsed().as_secs_f64()
    );
    fs.unmount().unwrap();
    fs.layout().unmount().unwrap();
}
