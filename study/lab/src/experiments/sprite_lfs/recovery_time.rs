//! R5: recovery time (Rosenblum & Ousterhout 1992, table 3): so many megabytes
//! of files of one size, written since the last checkpoint, and a crash.
//!
//! The real log on the simulated Wren IV: recovery takes what its requests take there, one
//! by one. Its processor time is the host's, and is shown where the claim asks for it.
//! Today's device is the NVMe-like model.

use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use std::sync::Arc;
use std::time::Instant;
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_disk::{FlashDevice, FlashParameters, SimulatedDisk, drives};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

const SIZES_KB: [u32; 3] = [1, 10, 100];
const MEGABYTES: [u32; 3] = [1, 10, 50];
pub const R5: Experiment = Experiment::new("R5", points, verdicts, picture);

fn points(_: &Context) -> Vec<Point> {
    let pairs = SIZES_KB
        .iter()
        .flat_map(|kb| MEGABYTES.map(|megabytes| (*kb, megabytes)));
    pairs
        .map(|(kb, megabytes)| {
            Point::new(format!("{megabytes} MB of {kb} KB files"), move |context| {
                let bytes = u64::from(megabytes) * context.size(1_000_000, 50_000);
                let crash = |_: &FileSystem<Lfs>| Ok(());
                let row = Row::new(series(kb), f64::from(megabytes), context.seed);
                Ok(vec![recover(row, kb, bytes, &crash)?])
            })
        })
        .collect()
}

fn mount(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>, seed: u64) -> Result<Lfs, LabError> {
    let options = MountOptions {
        seed: Some(seed),
        // Only what is asked for: no checkpoint in the middle.
        checkpoint_bytes: u64::MAX,
        checkpoint_seconds: u64::MAX,
        cache_bytes: 256 << 20,
        ..MountOptions::default()
    };
    let mounted = Lfs::mount(device.clone(), Arc::clone(clock), options);
    mounted.map_err(LabError::system)
}

fn series(kb: u32) -> String {
    format!("{kb} KB files")
}

/// What is done when all has been written, before the power goes.
type Last<'a> = &'a dyn Fn(&FileSystem<Lfs>) -> varve_fs::Result<()>;

fn recover(row: Row, kb: u32, bytes: u64, last: Last<'_>) -> Result<Row, LabError> {
    let drive = drives::wren_iv();
    let memory = MemoryDevice::new(drive.geometry.bytes());
    let clock = || Arc::new(VirtualClock::new(1_000_000_000_000, 0));
    let (on_disk, on_flash) = (clock(), clock());
    let disk = SimulatedDisk::new(drive, Arc::clone(&on_disk), row.seed);
    let flash = FlashDevice::new(memory, FlashParameters::nvme(), Arc::clone(&on_flash));
    let lives: [(Arc<dyn Device>, _); 2] = [(Arc::new(disk), on_disk), (Arc::new(flash), on_flash)];
    let [disk, flash] = lives.map(|device| crash(device, row.seed, (kb, bytes), last));
    let (disk, flash) = (disk?, flash?);
    Ok(row
        .with("disk_s", disk.device_s)
        .with("flash_s", flash.device_s)
        .with("host_s", flash.host_s)
        .with("partials", disk.partials as f64)
        .with("files", disk.files as f64))
}

/// What a recovery took and found.
struct Recovered {
    device_s: f64,
    host_s: f64,
    partials: u64,
    files: u64,
}

/// Files are written to a fresh log, the power fails, and it is mounted again.
fn crash(
    (device, time): (Arc<dyn Device>, Arc<VirtualClock>),
    seed: u64,
    (kb, bytes): (u32, u64),
    last: Last<'_>,
) -> Result<Recovered, LabError> {
    let clock: Arc<dyn Clock> = Arc::clone(&time) as Arc<dyn Clock>;
    let format = FormatOptions {
        seed: Some(seed),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format).map_err(LabError::system)?;
    let lfs = mount(&device, &clock, seed)?;
    FileSystem::format(&lfs, &*clock, (0, 0)).map_err(LabError::system)?;
    let options = Options {
        read_ahead_threads: 0,
        ..Options::default()
    };
    let fs = FileSystem::mount(Arc::new(lfs), Arc::clone(&clock), options.clone());
    let fs = fs.map_err(LabError::system)?;
    fs.sync().map_err(LabError::system)?;
    fs.layout().checkpoint().map_err(LabError::system)?;
    let before = fs.layout().statistics().checkpoints;
    let files = write_files(&fs, kb, bytes).map_err(LabError::system)?;
    let again = fs.layout().statistics().checkpoints;
    assert_eq!(before, again, "the log must not be cut short");
    last(&fs).map_err(LabError::system)?;
    // What was synced is on the device; the volume is not unmounted.
    drop(fs);

    let (begun, begun_ns) = (Instant::now(), time.monotonic_ns());
    let lfs = mount(&device, &clock, seed + 1)?;
    let host_s = begun.elapsed().as_secs_f64();
    let device_s = (time.monotonic_ns() - begun_ns) as f64 / 1e9;
    let partials = lfs.recovery_report().partials;
    let fs = FileSystem::mount(Arc::new(lfs), clock, options).map_err(LabError::system)?;
    let found = fs.statfs().files;
    assert!(found >= files, "{found} of {files} files are back");
    Ok(Recovered {
        device_s,
        host_s,
        partials,
        files,
    })
}

/// Files of `kb` kilobytes in directories of a hundred, `bytes` in all; a sync
/// each megabyte. How many there are.
fn write_files(fs: &FileSystem<Lfs>, kb: u32, bytes: u64) -> varve_fs::Result<u64> {
    let (caller, root) = (Caller::root(), InodeNo::ROOT);
    let data = vec![0x5a; kb as usize * 1000];
    let files = (bytes / data.len() as u64).max(1);
    let mut unsynced = 0;
    let mut directory = root;
    for number in 0..files {
        if number % 100 == 0 {
            let name = format!("d{}", number / 100);
            let made = fs.mkdir(&caller, root, name.as_bytes(), 0o755)?;
            directory = made.ino;
        }
        let name = format!("f{number}");
        let mode = 0o100_644;
        let file = fs.mknod(&caller, directory, name.as_bytes(), mode, 0)?;
        fs.write(&caller, file.ino, 0, &data)?;
        unsynced += data.len();
        if unsynced >= 1_000_000 {
            fs.sync()?;
            unsynced = 0;
        }
    }
    fs.sync()?;
    Ok(files)
}

/// R² of the least squares of `y` by a constant and two measures.
fn fit(points: &[([f64; 2], f64)]) -> f64 {
    // Normal equations of (1, a, b), by elimination.
    let mut rows = [[0.0; 4]; 3];
    for ([a, b], y) in points {
        let x = [1.0, *a, *b];
        for (row, factor) in rows.iter_mut().zip(x) {
            for (cell, value) in row.iter_mut().zip([x[0], x[1], x[2], *y]) {
                *cell += factor * value;
            }
        }
    }
    for at in 0..3 {
        let pivot = rows[at];
        for (other, row) in rows.iter_mut().enumerate() {
            if other != at && pivot[at] != 0.0 {
                let factor = row[at] / pivot[at];
                for (cell, value) in row.iter_mut().zip(pivot) {
                    *cell -= factor * value;
                }
            }
        }
    }
    let solution = [0, 1, 2].map(|at| rows[at][3] / rows[at][at]);
    let average = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    let (mut left, mut all) = (0.0, 0.0);
    for ([a, b], y) in points {
        let told = solution[0] + solution[1] * a + solution[2] * b;
        left += (y - told).powi(2);
        all += (y - average).powi(2);
    }
    1.0 - left / all
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let value =
        |kb: u32, megabytes: u32, name: &str| mean(rows, &series(kb), f64::from(megabytes), name);
    let time = |kb, megabytes| value(kb, megabytes, "disk_s");
    let by_data = SIZES_KB.iter().all(|kb| {
        MEGABYTES
            .windows(2)
            .all(|w| time(*kb, w[0]) < time(*kb, w[1]))
    });
    let by_files = MEGABYTES.iter().all(|mb| {
        SIZES_KB
            .windows(2)
            .all(|w| time(w[0], *mb) > time(w[1], *mb))
    });
    let points: Vec<([f64; 2], f64)> = SIZES_KB
        .iter()
        .flat_map(|kb| MEGABYTES.map(|mb| (*kb, mb)))
        .map(|(kb, mb)| {
            let files = value(kb, mb, "files");
            ([files, files * f64::from(kb) / 1000.0], time(kb, mb))
        })
        .collect();
    let r2 = fit(&points);
    let host_s = value(1, 50, "host_s");
    let extremes = format!("{:.2} s to {:.1} s", time(100, 1), time(1, 50));
    vec![
        Verdict::of(
            "disk time of recovery grows with the data",
            "monotone",
            extremes.clone(),
            by_data,
        ),
        Verdict::of(
            "disk time of recovery grows with the number of files",
            "monotone",
            extremes,
            by_files,
        ),
        Verdict::of(
            "it is linear in files and data",
            "R² at least 0.95",
            format!("{r2:.4}"),
            r2 >= 0.95,
        ),
        Verdict::of(
            "50 MB of 1 KB files on this host",
            "below 2 s",
            format!("{host_s:.2} s"),
            host_s < 2.0,
        ),
        today(&value),
    ]
}

fn today(value: &dyn Fn(u32, u32, &str) -> f64) -> Verdict {
    let (disk_s, flash_s) = (value(1, 50, "disk_s"), value(1, 50, "flash_s"));
    Verdict::of(
        "50 MB of 1 KB files on an NVMe-like device, the device alone",
        "a hundredth of the disk's time",
        format!("{flash_s:.4} s; the disk takes {disk_s:.1} s"),
        flash_s <= disk_s / 100.0,
    )
    .on_todays_devices()
}

fn picture(rows: &[Row]) -> Picture {
    // Table 3 of the paper, on a Sun-4/260 with a Wren IV.
    let paper = |kb: u32, seconds: [f64; 3]| {
        let at = MEGABYTES.map(f64::from).into_iter().zip(seconds);
        Curve::named(format!("paper, {kb} KB"), at.collect())
    };
    Picture {
        title: "Recovery on a disk like a Wren IV".into(),
        x: "megabytes written since the checkpoint".into(),
        y: "seconds, of the disk alone".into(),
        y_max: None,
        curves: Curve::all(rows, "disk_s"),
        references: vec![
            paper(1, [1.0, 21.0, 132.0]),
            paper(10, [1.0, 3.0, 17.0]),
            paper(100, [1.0, 1.0, 8.0]),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_fits_itself() {
        let plane = |a: f64, b: f64| ([a, b], 3.0 + 2.0 * a - b);
        let flat = [
            plane(1.0, 1.0),
            plane(5.0, 2.0),
            plane(2.0, 9.0),
            plane(7.0, 7.0),
        ];
        assert!((fit(&flat) - 1.0).abs() < 1e-9);
        let mut bent = flat;
        bent[0].1 += 40.0;
        assert!(fit(&bent) < 0.95);
    }

    /// A log that takes a checkpoint after all: nothing is left to recover.
    #[test]
    fn a_wrong_log_fails() {
        let pass = |last: Last<'_>| {
            let row = |kb: u32, megabytes: u32| {
                let row = Row::new(series(kb), f64::from(megabytes), 1);
                recover(row, kb, u64::from(megabytes) * 50_000, last).unwrap()
            };
            let rows = SIZES_KB.map(|kb| MEGABYTES.map(|megabytes| row(kb, megabytes)));
            verdicts(&rows.concat())[0].pass
        };
        assert!(pass(&|_| Ok(())));
        assert!(!pass(&|fs| fs.layout().checkpoint()));
    }
}
