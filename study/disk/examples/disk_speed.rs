//! How many requests a second of host time the models serve.
//!
//! `cargo run --release -p varve-disk --example disk_speed [REQUESTS]`
//!
//! Random and sequential requests of 4 KiB, half of them reads, to the model
//! alone and to the device with its bytes.

use std::hint::black_box;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use varve_device::{Clock, Device, VirtualClock};
use varve_disk::{Access, FlashModel, FlashParameters, Mechanism, Request, SimulatedDisk, drives};

fn main() {
    let requests = std::env::args().nth(1);
    let requests: u64 = requests
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000_000);
    for drive in [drives::hp97560(), drives::st19101(), drives::atlas10k()] {
        let name = drive.name;
        let blocks = drive.geometry.total_sectors() / 8;
        let drive = Arc::new(drive);
        for (pattern, random) in [("random", true), ("sequential", false)] {
            let mut disk = Mechanism::new(drive.clone(), 1);
            let (mut now, mut state) = (0, 1u64);
            let begun = Instant::now();
            for nth in 0..requests {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let block = if random {
                    (state >> 16) % blocks
                } else {
                    nth % blocks
                };
                let request = match state >> 63 {
                    0 => Request::read(block * 8, 8),
                    _ => Request::write(block * 8, 8),
                };
                now = disk.serve(now, request).end_ns;
            }
            report(&format!("{name} model {pattern}"), requests, begun, now);
        }
    }
    let mut flash = FlashModel::new(FlashParameters::nvme());
    let (begun, mut end) = (Instant::now(), 0u64);
    for nth in 0..requests {
        let block = nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let access = if nth % 2 == 0 {
            Access::Read
        } else {
            Access::Write
        };
        end = flash
            .serve(end.saturating_sub(50_000), access, block * 4096, 4096)
            .end_ns
            .max(end);
    }
    report("nvme model random", requests, begun, end);

    let clock = Arc::new(VirtualClock::new(0, 0));
    let disk = SimulatedDisk::new(drives::st19101(), clock.clone(), 1);
    let (mut block, bytes) = (vec![0; 4096], vec![7; 4096]);
    let begun = Instant::now();
    for nth in 0..requests {
        let at = (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) * 4096;
        let done = match nth % 2 {
            0 => disk.write(at, &[IoSlice::new(&bytes)]),
            _ => disk.read(at, black_box(&mut block)),
        };
        done.expect("within the disk");
    }
    report(
        "st19101 device random",
        requests,
        begun,
        clock.monotonic_ns(),
    );
}

fn report(what: &str, requests: u64, begun: Instant, virtual_ns: u64) {
    let rate = requests as f64 / begun.elapsed().as_secs_f64() / 1e6;
    let mean_us = virtual_ns as f64 / requests as f64 / 1e3;
    println!(
        "{what:26} {rate:6.2} M requests/s of host time, {mean_us:9.1} us each of virtual time"
    );
}
