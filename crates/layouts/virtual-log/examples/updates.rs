//! Random synchronous updates of 4 KiB on a simulated drive, in place and on a virtual
//! log disk, with the components of their times (Wang et al. 1999, §5.3, §5.4).
//!
//! `cargo run --release -p varve-vlog --example updates [DRIVE] [CYLINDERS]`
//!
//! Virtual time only: the results are the same on any machine. No host is modelled.

use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Clock, Device, VirtualClock};
use varve_disk::{SimulatedDisk, Times, drives};
use varve_vlog::{FormatOptions, Granularity, InDrive, Options, Vld};

const UPDATES: u64 = 2000;
const BLOCK: u64 = 4096;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "st19101".to_owned());
    let cylinders = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(11);
    let Some(drive) = drives::by_name(&name) else {
        let known: Vec<_> = drives::all().iter().map(|drive| drive.name).collect();
        eprintln!("no drive {name}; there are: {}", known.join(", "));
        std::process::exit(2);
    };
    let drive = drive.with_cylinders(cylinders);
    println!("{name}, {cylinders} cylinders; microseconds for each update of 4 KiB");
    println!("utilisation  how                     total overhead  locate transfer    faster");
    for percent in [20, 40, 60, 70, 80, 85, 90] {
        let blocks = drive.geometry.bytes() / BLOCK * percent / 100;
        let clock = Arc::new(VirtualClock::new(0, 0));
        let plain = SimulatedDisk::new(drive.clone(), clock, 1);
        let in_place = update(&plain, &plain, blocks);
        report(percent, "in place", in_place, in_place);
        let clock = Arc::new(VirtualClock::new(0, 0));
        let disk = Arc::new(SimulatedDisk::new(drive.clone(), clock.clone(), 1));
        let medium = InDrive(Arc::clone(&disk));
        let options = FormatOptions {
            block_bytes: BLOCK as u32,
            logical_bytes: Some(blocks * BLOCK),
            volume: 1,
            anywhere: false,
        };
        if let Err(error) = Vld::format(&medium, options) {
            println!("{percent:10}%  {error}");
            continue;
        }
        let run = Options {
            synchronous: true,
            ..Options::default()
        };
        let (vld, _) = Vld::open(medium, run).expect("just formatted");
        for block in 0..blocks {
            let bytes = [1; BLOCK as usize];
            vld.write(block * BLOCK, &[IoSlice::new(&bytes)])
                .expect("within");
        }
        // There are two rounds, so that the effect of filling the volume is gone.
        update(&vld, &disk, blocks);
        report(
            percent,
            "virtual log",
            update(&vld, &disk, blocks),
            in_place,
        );
        let until = clock.monotonic_ns() + 100_000_000_000;
        vld.compact(until, Granularity::Track).expect("idle work");
        let empty = vld.statistics().tracks_empty;
        let times = update(&vld, &disk, blocks);
        report(
            percent,
            &format!("after compacting ({empty})"),
            times,
            in_place,
        );
    }
}

/// Returns the mean times of an update.
fn update(device: &dyn Device, disk: &SimulatedDisk, blocks: u64) -> Times {
    let before = disk.statistics().times;
    let mut state = 7u64;
    for _ in 0..UPDATES {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (state >> 20) % blocks * BLOCK;
        device
            .write(at, &[IoSlice::new(&[2; BLOCK as usize])])
            .expect("within");
    }
    disk.statistics().times - before
}

fn report(percent: u64, how: &str, times: Times, in_place: Times) {
    let us = |ns: u64| ns as f64 / UPDATES as f64 / 1e3;
    println!(
        "{percent:10}%  {how:22} {:7.0} {:8.0} {:7.0} {:8.0} {:8.2} x",
        us(times.total_ns()),
        us(times.overhead_ns),
        us(times.locate_ns()),
        us(times.transfer_ns),
        in_place.total_ns() as f64 / times.total_ns() as f64
    );
}
