//! Durable updates of 4 KiB on a real disk: at random places of a virtual log disk,
//! compared with a plain file that is written from its beginning to its end, and one
//! that is updated in place. Each write is flushed before the next.
//!
//! `cargo run --release -p varve-vlog --example durable DIRECTORY [SECONDS] [PERCENT] [BEFORE]`
//!
//! It uses three files of 256 MiB, written beforehand, so that a flush writes no
//! metadata of the host's file system; direct I/O, one thread. The sides alternate
//! every 0.2 s for SECONDS (10) in all, so that other load on the machine affects each.
//! PERCENT (80) of the virtual log disk are in use, and BEFORE (0) updates were made to
//! it already: its free space is in one piece at first. The files are removed at the
//! end.

use std::error::Error;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use varve_device::{AlignedBuffer, Device, FileDevice, IoMode, Preallocate};
use varve_vlog::{FormatOptions, InOrder, Options, Vld};

const BYTES: u64 = 256 << 20;
const BLOCK: u64 = 4096;
/// Number of earlier updates whose writes are counted together.
const PART: u64 = 50_000;
const TURN: Duration = Duration::from_millis(200);

/// A file that is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One method of updating, and the times that its updates took.
struct Side<'a> {
    name: &'static str,
    device: &'a dyn Device,
    next: Box<dyn FnMut() -> u64>,
    took_ns: Vec<u64>,
}

impl Side<'_> {
    fn turn(&mut self, buffer: &mut [u8]) -> varve_device::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            let offset = (self.next)() * BLOCK;
            buffer[..8].copy_from_slice(&(self.took_ns.len() as u64).to_le_bytes());
            let asked = Instant::now();
            self.device.write(offset, &[IoSlice::new(buffer)])?;
            self.device.flush()?;
            self.took_ns.push(asked.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    /// Returns the number of updates per second of the time that this side ran.
    fn rate(&self) -> f64 {
        self.took_ns.len() as f64 * 1e9 / self.took_ns.iter().sum::<u64>() as f64
    }

    fn percentile_us(&mut self, percent: usize) -> f64 {
        self.took_ns.sort_unstable();
        self.took_ns[self.took_ns.len() * percent / 100] as f64 / 1e3
    }
}

/// Returns blocks below `end` in random order.
fn random(end: u64) -> Box<dyn FnMut() -> u64> {
    let mut state = 1u64;
    Box::new(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("name a directory on the disk")?;
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let percent: u64 = arguments.next().map_or(Ok(80), |text| text.parse())?;
    let earlier: u64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let file = |name: &str| -> Result<(Scratch, FileDevice), Box<dyn Error>> {
        let path = Path::new(&directory).join(format!("durable.{name}.{}", std::process::id()));
        let device = FileDevice::create(
            &path,
            BYTES,
            Preallocate::Written(&mut |_, _| ()),
            IoMode::Direct,
        )?;
        if let Some(note) = device.note() {
            eprintln!("{}: {note}", path.display());
        }
        Ok((Scratch(path), device))
    };
    let (_first, appended) = file("append")?;
    let (_second, updated) = file("in-place")?;
    let (_third, medium) = file("virtual-log")?;
    let medium = InOrder(medium);
    let options = FormatOptions {
        block_bytes: BLOCK as u32,
        logical_bytes: Some(BYTES * percent / 100),
        volume: 1,
        anywhere: false,
    };
    let layout = Vld::format(&medium, options)?;
    let (vld, _) = Vld::open(medium, Options::default())?;
    let mut buffer = AlignedBuffer::zeroed(1 << 20);
    let logical_bytes = layout.logical_blocks * BLOCK;
    for offset in (0..logical_bytes).step_by(buffer.len()) {
        let length = (logical_bytes - offset).min(buffer.len() as u64) as usize;
        vld.write(offset, &[IoSlice::new(&buffer[..length])])?;
    }
    vld.flush()?;
    let writes = || vld.medium().0.counters().snapshot().writes;
    let mut anywhere = random(layout.logical_blocks);
    let (mut left, mut written) = (earlier, writes());
    while left > 0 {
        let some = left.min(PART);
        for _ in 0..some {
            let bytes = &buffer[..BLOCK as usize];
            vld.write(anywhere() * BLOCK, &[IoSlice::new(bytes)])?;
            vld.flush()?;
        }
        left -= some;
        let each = (writes() - written) as f64 / some as f64;
        written = writes();
        println!("{some} updates before: {each:.3} writes for each");
    }

    let mut places = (0..BYTES / BLOCK).cycle();
    let in_order = move || places.next().unwrap_or(0);
    let side = |name, device, next| Side {
        name,
        device,
        next,
        took_ns: Vec::new(),
    };
    let mut sides = [
        side(
            "appended to a plain file",
            &appended as &dyn Device,
            Box::new(in_order),
        ),
        side("in place, at random", &updated, random(BYTES / BLOCK)),
        side("virtual log disk, at random", &vld, anywhere),
    ];
    let (before, begun) = (writes(), Instant::now());
    while begun.elapsed() < Duration::from_secs(seconds) {
        for side in &mut sides {
            side.turn(&mut buffer[..BLOCK as usize])?;
        }
    }
    let base = sides[0].rate();
    let each = (writes() - before) as f64 / sides[2].took_ns.len() as f64;
    println!("updates of 4 KiB, each flushed; {percent} % of the virtual log disk in use,");
    println!("which writes {each:.2} times for each");
    println!(
        "{:28} {:>8} {:>8} {:>8} {:>6}",
        "", "/s", "p50 us", "p99 us", "ratio"
    );
    for side in &mut sides {
        let (rate, p50, p99) = (side.rate(), side.percentile_us(50), side.percentile_us(99));
        println!(
            "{:28} {rate:8.0} {p50:8.0} {p99:8.0} {:6.2}",
            side.name,
            rate / base
        );
    }
    Ok(())
}
