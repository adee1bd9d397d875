//! What snapshots cost, and how long it takes to use them.
//!
//! `cargo bench -p varve --bench snapshots -- DIR [PART..] [--files N] [--rounds N]`;
//! one JSON line for each figure. `DIR` must be able to store 8 GiB. Parts: `names`
//! (creation, comparison and undelete among N files, 1,000,000 unless said otherwise),
//! `live` (reads and writes with 0, 10 and 1,000 snapshots, alternating), `amplification`
//! (bytes written per byte of a user at 80 % full, with and without ten snapshots),
//! `deletion` (of 1,000 snapshots, with updates in parallel). All parts without one.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use varve::{File, OpenOptions, Preallocation, Volume, VolumeOptions, admin};

const BLOCK: u64 = 4096;

/// The random number generator xorshift64*.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// Makes a volume of some bytes whose space is written once, so that the host's file
/// system allocates nothing later.
fn made(directory: &Path, name: &str, bytes: u64) -> Volume {
    let image = directory.join(name);
    let _ = std::fs::remove_file(&image);
    let mut options = VolumeOptions::new();
    options.size(bytes).preallocate(Preallocation::Written);
    options.create(&image).unwrap()
}

fn ended(directory: &Path, name: &str, volume: Volume) {
    volume.close().unwrap();
    std::fs::remove_file(directory.join(name)).unwrap();
}

fn file(volume: &Volume, path: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.open(volume, path).unwrap()
}

fn fill(file: &File, bytes: u64) {
    let chunk: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    for at in (0..bytes).step_by(chunk.len()) {
        file.write_all_at(&chunk, at).unwrap();
    }
}

/// Overwrites `blocks` random blocks of a file, with a sync every 256.
fn overwrite(volume: &Volume, file: &File, bytes: u64, blocks: u64, random: &mut u64) {
    for at in 0..blocks {
        let block = [(*random & 0xff) as u8; BLOCK as usize];
        let place = next(random) % (bytes / BLOCK) * BLOCK;
        file.write_all_at(&block, place).unwrap();
        if at % 256 == 255 {
            volume.sync().unwrap();
        }
    }
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

/// Updates a file in parallel with `work`, each update durable. Returns the updates'
/// durations in milliseconds, sorted, and what `work` returned.
fn updating<T>(volume: &Volume, work: impl FnOnce() -> T) -> (Vec<f64>, T) {
    let stop = AtomicBool::new(false);
    let busy = file(volume, "/busy");
    busy.write_all_at(&[0; 1 << 20], 0).unwrap();
    std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            let (mut times, mut random) = (Vec::new(), 7);
            while !stop.load(Relaxed) {
                let begun = Instant::now();
                let place = next(&mut random) % 256 * BLOCK;
                busy.write_all_at(&[1; BLOCK as usize], place).unwrap();
                busy.sync_data().unwrap();
                times.push(milliseconds(begun));
                std::thread::sleep(Duration::from_millis(1));
            }
            times.sort_by(f64::total_cmp);
            times
        });
        std::thread::sleep(Duration::from_millis(500));
        let done = work();
        stop.store(true, Relaxed);
        (updates.join().unwrap(), done)
    })
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// Creation, comparison and undelete on a volume with many files.
fn names(directory: &Path, files: u64) {
    let volume = made(directory, "names", 4 << 30);
    for at in 0..files {
        if at % 1000 == 0 {
            volume.create_dir(format!("/d{}", at / 1000)).unwrap();
        }
        let path = format!("/d{}/f{}", at / 1000, at % 1000);
        volume.write(path, at.to_le_bytes()).unwrap();
    }
    volume.checkpoint().unwrap();
    let first = volume.snapshot("first").unwrap();
    let (alone, ()) = updating(&volume, || std::thread::sleep(Duration::from_secs(2)));
    let (stalls, created) = updating(&volume, || {
        let mut created = Vec::new();
        for at in 0..5 {
            let begun = Instant::now();
            volume.snapshot(&format!("s{at}")).unwrap();
            created.push(milliseconds(begun));
            std::thread::sleep(Duration::from_millis(200));
        }
        created.sort_by(f64::total_cmp);
        created
    });
    println!(
        "{{\"part\":\"create\",\"files\":{files},\"median_ms\":{:.2},\"longest_ms\":{:.2},\
         \"update_longest_ms\":{:.2},\"update_longest_alone_ms\":{:.2}}}",
        quantile(&created, 0.5),
        quantile(&created, 1.0),
        quantile(&stalls, 1.0),
        quantile(&alone, 1.0),
    );
    // A thousand files of a thousand directories.
    let mut random = 3;
    for at in 0..files.min(1_000_000) / 1000 {
        let path = format!("/d{at}/f{}", next(&mut random) % 1000);
        volume.write(path, b"changed").unwrap();
    }
    let second = volume.snapshot("second").unwrap();
    for round in ["cold", "warm"] {
        let begun = Instant::now();
        let changes = volume.diff(&first, Some(&second)).unwrap().len();
        println!(
            "{{\"part\":\"diff\",\"files\":{files},\"cache\":\"{round}\",\"changes\":{changes},\"ms\":{:.2}}}",
            milliseconds(begun)
        );
    }
    let removed = format!("/d{}/f7", files / 2000);
    volume.remove_file(&removed).unwrap();
    volume.checkpoint().unwrap();
    let begun = Instant::now();
    volume.restore(&second, &removed).unwrap();
    println!(
        "{{\"part\":\"undelete\",\"files\":{files},\"ms\":{:.2}}}",
        milliseconds(begun)
    );
    ended(directory, "names", volume);
}

/// Reads and writes of volumes that differ only in the number of their snapshots.
fn live(directory: &Path, rounds: u64) {
    const BYTES: u64 = 256 << 20;
    let counts = [0_u64, 10, 1000];
    let volumes = counts.map(|count| {
        let volume = made(directory, &format!("live{count}"), 2 << 30);
        let data = file(&volume, "/data");
        fill(&data, BYTES);
        let mut random = 11;
        // The same updates everywhere: 1,000 x 16 blocks.
        for at in 0..1000 {
            overwrite(&volume, &data, BYTES, 16, &mut random);
            if count > 0 && at % (1000 / count) == 0 {
                volume.snapshot(&format!("s{at}")).unwrap();
            }
        }
        volume.checkpoint().unwrap();
        (volume, data, random)
    });
    let mut volumes = volumes;
    let mut seconds = counts.map(|_| [Vec::new(), Vec::new()]);
    for round in 0..rounds {
        for turn in 0..3 {
            let which = ((round + turn) % 3) as usize;
            let (volume, data, random) = &mut volumes[which];
            let begun = Instant::now();
            overwrite(volume, data, BYTES, 8192, random);
            seconds[which][1].push(begun.elapsed().as_secs_f64());
            let (begun, mut block) = (Instant::now(), [0; BLOCK as usize]);
            for _ in 0..65536 {
                let place = next(random) % (BYTES / BLOCK) * BLOCK;
                data.read_exact_at(&mut block, place).unwrap();
            }
            seconds[which][0].push(begun.elapsed().as_secs_f64());
        }
    }
    for (which, count) in counts.iter().enumerate() {
        let ratio = |kind: usize| {
            let pairs = seconds[0][kind].iter().zip(&seconds[which][kind]);
            let mut ratios: Vec<f64> = pairs.map(|(none, with)| none / with).collect();
            ratios.sort_by(f64::total_cmp);
            quantile(&ratios, 0.5)
        };
        println!(
            "{{\"part\":\"live\",\"snapshots\":{count},\"rounds\":{rounds},\"reads\":{:.3},\"writes\":{:.3}}}",
            ratio(0),
            ratio(1),
        );
    }
    for (count, (volume, data, _)) in counts.iter().zip(volumes) {
        drop(data);
        ended(directory, &format!("live{count}"), volume);
    }
}

/// Bytes written per byte of a user by random overwrites of a third of a volume that is
/// 80 % full, either with files or with what ten snapshots have.
fn amplification(directory: &Path) {
    const BYTES: u64 = 1 << 30;
    let mut measured = Vec::new();
    for count in [0, 10] {
        let volume = made(directory, "amplification", BYTES);
        let space = volume.statfs();
        let hot = space.blocks / 3 / 256 * (256 * BLOCK);
        let data = file(&volume, "/data");
        fill(&data, hot);
        let mut random = 13;
        for at in 0..count {
            volume.snapshot(&format!("s{at}")).unwrap();
            let share = hot / BLOCK / 40;
            overwrite(&volume, &data, hot, share, &mut random);
        }
        // All blocks are overwritten, so that what the snapshots have does not grow.
        if count > 0 {
            fill(&data, hot);
            volume.checkpoint().unwrap();
        }
        let space = volume.statfs();
        let used = (space.blocks - space.free) * BLOCK;
        let still = (space.blocks * BLOCK * 8 / 10).saturating_sub(used);
        fill(&file(&volume, "/still"), still >> 20 << 20);
        overwrite(&volume, &data, hot, BYTES / BLOCK, &mut random);
        let statistics = || {
            let tree = admin::tree(&volume);
            admin::Statistics::of(tree.log().unwrap()).layout
        };
        let before = statistics();
        overwrite(&volume, &data, hot, BYTES / BLOCK, &mut random);
        volume.sync().unwrap();
        let after = statistics();
        let space = volume.statfs();
        let ratio = (after.bytes_written - before.bytes_written) as f64 / BYTES as f64;
        println!(
            "{{\"part\":\"amplification\",\"snapshots\":{count},\"used_percent\":{},\"written_per_byte\":{ratio:.3}}}",
            (space.blocks - space.free) * 100 / space.blocks,
        );
        measured.push(ratio);
        drop(data);
        ended(directory, "amplification", volume);
    }
    println!(
        "{{\"part\":\"amplification\",\"ratio\":{:.3}}}",
        measured[1] / measured[0]
    );
}

/// Deletion of a thousand snapshots: until the space is there, and updates meanwhile.
fn deletion(directory: &Path) {
    const BYTES: u64 = 256 << 20;
    let volume = made(directory, "deletion", 2 << 30);
    let data = file(&volume, "/data");
    fill(&data, BYTES);
    let mut random = 17;
    let taken: Vec<_> = (0..1000)
        .map(|at| {
            overwrite(&volume, &data, BYTES, 128, &mut random);
            volume.snapshot(&format!("s{at}")).unwrap()
        })
        .collect();
    fill(&data, BYTES);
    volume.checkpoint().unwrap();
    let before = volume.statfs().free;
    let (alone, ()) = updating(&volume, || std::thread::sleep(Duration::from_secs(2)));
    let (updates, (asked, back)) = updating(&volume, || {
        let begun = Instant::now();
        for snapshot in &taken {
            volume.delete_snapshot(snapshot).unwrap();
        }
        let asked = milliseconds(begun);
        // Three quarters of a gigabyte are listed; a few blocks stay for the table.
        let freed = |now: u64| (now.saturating_sub(before)) * BLOCK;
        while freed(volume.statfs().free) < 700 << 20 && begun.elapsed().as_secs() < 60 {
            std::thread::sleep(Duration::from_millis(20));
        }
        (asked, milliseconds(begun))
    });
    println!(
        "{{\"part\":\"deletion\",\"asked_ms\":{asked:.0},\"back_ms\":{back:.0},\"freed_mib\":{},\
         \"update_p99_ms\":{:.2},\"update_p99_alone_ms\":{:.2}}}",
        (volume.statfs().free.saturating_sub(before) * BLOCK) >> 20,
        quantile(&updates, 0.99),
        quantile(&alone, 0.99),
    );
    drop(data);
    ended(directory, "deletion", volume);
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|a| a != "--bench");
    let directory = PathBuf::from(
        arguments
            .next()
            .expect("a directory on the disk to measure"),
    );
    let (mut parts, mut files, mut rounds) = (Vec::new(), 1_000_000, 9);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|value| value.parse().ok());
        match argument.as_str() {
            "--files" => files = number().expect("a number of files"),
            "--rounds" => rounds = number().expect("a number of rounds"),
            _ => parts.push(argument),
        }
    }
    let asked = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    if asked("names") {
        names(&directory, files);
    }
    if asked("live") {
        live(&directory, rounds);
    }
    if asked("amplification") {
        amplification(&directory);
    }
    if asked("deletion") {
        deletion(&directory);
    }
}
