//! Benchmark of single operations in the file system itself, on the memory layout:
//! processor time where the host reports it, the best of several rounds.
//!
//! `cargo run --release -p varve-fs --example op_cost`

use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Instant;
use varve_device::HostClock;
use varve_fs::{Caller, FileSystem, InodeNo, MemoryLayout, MemoryOptions, Options};

const DIRECTORIES: usize = 100;
const FILES: usize = 10_000;

/// Nanoseconds of processor time of this thread, or else of elapsed time.
fn now_ns() -> u64 {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let run = schedule.and_then(|text| text.split(' ').next()?.parse().ok());
    run.unwrap_or_else(|| ORIGIN.elapsed().as_nanos() as u64)
}

const ROUNDS: usize = 8;
/// Number of repetitions of an operation that changes nothing, because the host's clock
/// is coarse.
const REPEATS: usize = 20;

/// The best time of each measurement, in the order of their first.
#[derive(Default)]
struct Times(Vec<(&'static str, f64)>);

impl Times {
    fn timed<T>(&mut self, what: &'static str, count: usize, run: impl FnOnce() -> T) -> T {
        let start = now_ns();
        let result = run();
        let each_us = (now_ns() - start) as f64 / count as f64 / 1_000.0;
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, best)) => *best = best.min(each_us),
            None => self.0.push((what, each_us)),
        }
        result
    }
}

fn main() -> varve_fs::Result<()> {
    let layout = MemoryLayout::new(MemoryOptions::default());
    let options = Options {
        cache_bytes: 256 << 20,
        ..Options::default()
    };
    let fs = FileSystem::mount(Arc::new(layout), Arc::new(HostClock::default()), options)?;
    let root = Caller::root();
    let directories: Vec<InodeNo> = (0..DIRECTORIES)
        .map(|n| fs.mkdir(&root, InodeNo::ROOT, format!("d{n}").as_bytes(), 0o755))
        .map(|made| made.map(|attr| attr.ino))
        .collect::<Result<_, _>>()?;
    let names: Vec<String> = (0..FILES).map(|n| format!("file-{n:05}")).collect();
    let data = vec![7; 1024];
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        times.timed(
            "create, write 1 KiB, release",
            FILES,
            || -> varve_fs::Result<()> {
                for (n, name) in names.iter().enumerate() {
                    let d = directories[n % DIRECTORIES];
                    let file = fs.mknod(&root, d, name.as_bytes(), 0o644, 0)?;
                    fs.retain(file.ino)?;
                    fs.write(&root, file.ino, 0, &data)?;
                    fs.release(file.ino, 1);
                }
                Ok(())
            },
        )?;
        let find = |(n, name): (usize, &String)| {
            let d = directories[n % DIRECTORIES];
            let found = fs.lookup(&root, d, name.as_bytes());
            found.map(|attr| attr.ino)
        };
        let inos: Vec<InodeNo> = names
            .iter()
            .enumerate()
            .map(find)
            .collect::<Result<_, _>>()?;
        let lookup_all = || {
            names
                .iter()
                .enumerate()
                .try_for_each(|it| find(it).map(|_| ()))
        };
        times.timed("lookup, hot", FILES * REPEATS, || {
            (0..REPEATS).try_for_each(|_| lookup_all())
        })?;
        times.timed("getattr", FILES * REPEATS, || {
            (0..REPEATS)
                .try_for_each(|_| inos.iter().try_for_each(|ino| fs.getattr(*ino).map(|_| ())))
        })?;
        let mut buffer = [0; 1024];
        let mut read_all = || {
            (0..REPEATS).try_for_each(|_| {
                inos.iter()
                    .try_for_each(|ino| fs.read(*ino, 0, &mut buffer).map(|_| ()))
            })
        };
        times.timed("read 1 KiB, dirty", FILES * REPEATS, &mut read_all)?;
        times.timed("overwrite 1 KiB", FILES * REPEATS, || {
            (0..REPEATS).try_for_each(|_| {
                inos.iter()
                    .try_for_each(|ino| fs.write(&root, *ino, 0, &data).map(|_| ()))
            })
        })?;
        times.timed("sync, the layout's part included, per file", FILES, || {
            fs.sync()
        })?;
        times.timed("lookup, logged", FILES * REPEATS, || {
            (0..REPEATS).try_for_each(|_| lookup_all())
        })?;
        times.timed("read 1 KiB, cached", FILES * REPEATS, &mut read_all)?;
        times.timed("unlink", FILES, || -> varve_fs::Result<()> {
            for (n, name) in names.iter().enumerate() {
                fs.unlink(&root, directories[n % DIRECTORIES], name.as_bytes())?;
            }
            Ok(())
        })?;
        fs.sync()?;
    }
    sequential(&fs, &root, &mut times)?;
    for (what, best_us) in times.0 {
        println!("{what:<44} {best_us:>8.3} us");
    }
    Ok(())
}

fn sequential(
    fs: &FileSystem<MemoryLayout>,
    root: &Caller,
    times: &mut Times,
) -> varve_fs::Result<()> {
    const BLOCKS: usize = 8192;
    let file = fs.mknod(root, InodeNo::ROOT, b"large", 0o644, 0)?.ino;
    let small = fs.mknod(root, InodeNo::ROOT, b"small", 0o644, 0)?.ino;
    let data = vec![3; 128 << 10];
    let steps = BLOCKS * 4096 / data.len();
    times.timed(
        "write 128 KiB, per 4 KiB",
        BLOCKS,
        || -> varve_fs::Result<()> {
            for step in 0..steps {
                fs.write(root, file, (step * data.len()) as u64, &data)?;
            }
            Ok(())
        },
    )?;
    fs.sync()?;
    let mut buffer = vec![0; data.len()];
    for what in [
        "read 128 KiB cached, per 4 KiB",
        "read 128 KiB cold, per 4 KiB",
    ] {
        times.timed(what, BLOCKS, || -> varve_fs::Result<()> {
            for step in 0..steps {
                fs.read(file, (step * buffer.len()) as u64, &mut buffer)?;
            }
            Ok(())
        })?;
        fs.drop_caches();
    }
    times.timed(
        "fsync of one 4 KiB block",
        1_000,
        || -> varve_fs::Result<()> {
            for step in 0..10_000 {
                fs.write(root, small, step % 16 * 4096, &data[..4096])?;
                fs.fsync(small, false)?;
            }
            Ok(())
        },
    )
}
