//! One large file is overwritten at random, some blocks often, on a volume so full that
//! its segments are constantly reused ahead of checkpoints, as a whole (rules E1 to E3 of
//! `docs/design/reuse.md`) or hole by hole (P1 to P3 of `docs/design/holes.md`). The
//! power fails at any write.
//!
//! Whichever of the unflushed writes survive, from the newest record and from the one
//! before, each block has a content that was written no earlier than the last sync that
//! returned.

use crate::mounted::Subject;
use crate::random::Random;
use crate::runner::new_clock;
use crate::subjects::Log;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{CrashExplorer, Limits, MemoryDevice, MemoryImage, RecordingDevice};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

const BLOCK: u64 = 4096;
/// Number of overwrites between two runs of maintenance.
const AT_ONCE: u64 = 24;
/// Number of such intervals between two syncs.
const LAPS: u64 = 4;
/// One in this number of stops is explored.
const STOP_ONE_IN: u64 = 12;

/// Number of segments reused before a checkpoint recorded them as empty.
#[derive(Clone, Copy, Debug)]
pub struct Reused {
    /// Segments reused as a whole.
    pub vacated: u64,
    /// Segments reused hole by hole (`docs/design/holes.md`).
    pub plugged: u64,
}

struct Volume {
    device: Arc<RecordingDevice<MemoryDevice>>,
    fs: FileSystem<Lfs>,
    ino: InodeNo,
    /// Number of writes of each block.
    versions: Vec<u32>,
}

fn log() -> Log {
    Log {
        device_bytes: 6 << 20,
        format: FormatOptions {
            segment_bytes: 128 << 10,
            seed: Some(1),
            ..FormatOptions::default()
        },
        mount: MountOptions {
            cache_bytes: 4 << 20,
            ..MountOptions::default()
        },
        options: Options {
            cache_bytes: 256 << 10,
            read_ahead_threads: 0,
            ..Options::default()
        },
        ..Log::default()
    }
}

fn content(block: u64, version: u32) -> [u8; BLOCK as usize] {
    let mut bytes = [version as u8; BLOCK as usize];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes
}

impl Volume {
    /// Returns a volume with one file that fills `percent` of the available space.
    fn filled(log: &Log, seed: u64, percent: u64) -> Result<Self, String> {
        let clock = new_clock();
        let device = Arc::new(RecordingDevice::new(MemoryDevice::new(log.device_bytes)));
        let told = |error: &dyn std::fmt::Display| error.to_string();
        log.format(device.clone(), clock.clone())
            .map_err(|error| told(&error))?;
        let mount = MountOptions {
            seed: Some(seed),
            ..log.mount.clone()
        };
        let lfs = Lfs::mount(device.clone(), clock.clone(), mount).map_err(|error| told(&error))?;
        let fs =
            FileSystem::mount(Arc::new(lfs), clock, log.options.clone()).map_err(|e| told(&e))?;
        let (root, caller) = (InodeNo::ROOT, Caller::root());
        let made = fs.mknod(&caller, root, b"blocks", 0o100_644, 0);
        let ino = made.map_err(|error| told(&error))?.ino;
        let free = fs.statfs().free;
        let mut volume = Volume {
            device,
            fs,
            ino,
            versions: vec![0; (free * percent / 100) as usize],
        };
        for block in 0..volume.versions.len() as u64 {
            volume.write(block)?;
        }
        Ok(volume)
    }

    fn write(&mut self, block: u64) -> Result<(), String> {
        let version = self.versions[block as usize] + 1;
        let data = content(block, version);
        let caller = Caller::root();
        let written = self.fs.write(&caller, self.ino, block * BLOCK, &data);
        written.map_err(|error| format!("block {block}: {error}"))?;
        self.versions[block as usize] = version;
        Ok(())
    }

    /// Cleans any segment, also a young one, without regard to the benefit.
    fn clean(&self, random: &mut Random) -> varve_lfs::Result<()> {
        let layout = self.fs.layout();
        let candidates = layout.cleaner().candidates();
        if !candidates.is_empty() {
            let which = random.below(candidates.len() as u64) as usize;
            layout.cleaner().clean_segment(candidates[which].segment)?;
        }
        layout.checkpoints().settle_vacated()
    }

    fn lap(&mut self, random: &mut Random) -> Result<(), String> {
        for _ in 0..AT_ONCE {
            // Half of the writes use a tenth of the blocks, so that young segments become
            // empty as well.
            let blocks = self.versions.len() as u64;
            let among = if random.once_in(2) {
                blocks
            } else {
                blocks / 10
            };
            let block = random.below(among);
            self.write(block)?;
        }
        self.clean(random).map_err(|error| error.to_string())?;
        let mut maintained = self.fs.write_back().map(drop);
        if random.once_in(2) {
            maintained = maintained.and_then(|()| self.fs.maintain());
        }
        maintained.map_err(|error| error.to_string())
    }
}

/// Mounts an image and compares every block.
fn look(log: &Log, image: &MemoryImage, least: &[u32], most: &[u32]) -> Result<(), String> {
    let device = Arc::new(MemoryDevice::from_image(image));
    let options = MountOptions {
        read_only: true,
        ..log.mount.clone()
    };
    let clock = new_clock();
    let lfs = Lfs::mount(device, clock.clone(), options).map_err(|error| error.to_string())?;
    let fs =
        FileSystem::mount(Arc::new(lfs), clock, log.options.clone()).map_err(|e| e.to_string())?;
    let caller = Caller::root();
    let found = fs.lookup(&caller, InodeNo::ROOT, b"blocks");
    let ino = found.map_err(|error| format!("the file: {error}"))?.ino;
    let mut bytes = vec![0; BLOCK as usize];
    for (block, (&least, &most)) in (0..).zip(least.iter().zip(most)) {
        let read = fs.read(ino, block * BLOCK, &mut bytes);
        read.map_err(|error| format!("block {block}: {error}"))?;
        let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        if !(least..=most).contains(&version) || bytes != content(block, version) {
            return Err(format!(
                "block {block} has version {version}, not one of {least} to {most}"
            ));
        }
    }
    Ok(())
}

/// Overwrites for `rounds` rounds on a volume `percent` full, and explores each round;
/// `images` counts the mounted images. Returns the number of reused segments.
///
/// # Errors
/// The fault, with the stop and the round.
pub fn explore(seed: u64, percent: u64, rounds: u64, images: &mut u64) -> Result<Reused, String> {
    let log = log();
    let mut random = Random::new(seed);
    let mut volume = Volume::filled(&log, seed, percent)?;
    let limits = Limits {
        exhaustive_writes: 2,
        random_subsets: 2,
        each_shape: 2,
        ..Limits::whole_writes()
    };
    for round in 0..rounds {
        volume.fs.sync().map_err(|error| error.to_string())?;
        let synced = volume.versions.clone();
        volume.device.take_trace();
        let base = volume.device.inner().snapshot();
        for _ in 0..LAPS {
            volume.lap(&mut random)?;
        }
        let trace = volume.device.take_trace();
        let mut states = CrashExplorer::new(&base, &trace, 4096, limits);
        for stop in states.stops().collect::<Vec<_>>() {
            if !random.once_in(STOP_ONE_IN) {
                continue;
            }
            let wrong = states.for_each(stop, seed, |image, state| {
                *images += 1;
                match judge(&log, &image, &synced, &volume.versions) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(format!("{state:?}: {error}")),
                }
            });
            if let ControlFlow::Break(error) = wrong {
                return Err(format!("round {round}, stop {stop}: {error}"));
            }
        }
    }
    let counts = volume.fs.layout().statistics();
    Ok(Reused {
        vacated: counts.segments_vacated,
        plugged: counts.segments_plugged,
    })
}

/// Checks an image from either record.
fn judge(log: &Log, image: &MemoryImage, least: &[u32], most: &[u32]) -> Result<(), String> {
    look(log, image, least, most)?;
    if let Some(first) = log.check(Arc::new(MemoryDevice::from_image(image))).first() {
        return Err(format!("the check: {first}"));
    }
    if let Some(older) = log.without_newest_checkpoint(image) {
        look(log, &older, least, most)
            .map_err(|error| format!("from the older checkpoint: {error}"))?;
    }
    Ok(())
}
