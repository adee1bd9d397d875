//! How fast file systems on simulated drives run: requests of the drive a second.
//!
//! ```text
//! cargo run --release -p varve-lab --example drive_speed
//! ```
//!
//! The platforms of V4 to V9 with random synchronous updates of 4 KiB to a file of half
//! of the drive, and every byte of it real. One thread, so on a busy machine `time` tells
//! more than what is printed.

use std::time::Instant;
use varve_lab::experiments::LabError;
use varve_lab::platform::{BLOCK, Disk, Layout, Platform};
use varve_prove::random::Random;

const UPDATES: u64 = 20_000;

fn main() -> Result<(), LabError> {
    for (name, layout, disk) in [
        ("UFS, regular disk", Layout::UFS, Disk::Regular),
        ("UFS, VLD", Layout::UFS, Disk::VirtualLog),
        ("LFS, regular disk", Layout::Lfs, Disk::Regular),
        ("VLFS", Layout::Vlfs, Disk::Regular),
    ] {
        let mut system = Platform::new(layout, disk).build(1)?;
        let blocks = system.store().drive_bytes() / 2 / BLOCK;
        system.create(0)?;
        for block in 0..blocks {
            system.write(0, block * BLOCK, BLOCK as u32, false)?;
        }
        system.sync()?;
        let requests = |system: &dyn varve_lab::platform::System| {
            let drive = system.store().drive().expect("it has one");
            let all = drive.statistics().requests;
            all.reads + all.writes
        };
        let mut random = Random::new(1);
        let (before, begun) = (requests(&*system), Instant::now());
        for _ in 0..UPDATES {
            system.write(0, random.below(blocks) * BLOCK, BLOCK as u32, true)?;
        }
        let (seconds, after) = (begun.elapsed().as_secs_f64(), requests(&*system));
        println!(
            "{name:<18} {:>6.0} thousand requests a second, {:>6.0} thousand updates",
            (after - before) as f64 / seconds / 1e3,
            UPDATES as f64 / seconds / 1e3
        );
    }
    Ok(())
}
