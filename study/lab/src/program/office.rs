//! Files of an office that are made, read whole, and die: R4's home directories, in
//! balance (Rosenblum & Ousterhout 1992, §5.2, table 2), as files instead of blocks.
//!
//! 24 KB in the mean, most files small, most bytes in large ones; of what is written a
//! third is gone after ten minutes, and a byte lives for 300 hours in the mean, by the
//! files' own clock. Lives grow with the root of sizes. For each file that is made one is
//! read, any of those that live; R4 has no reads, and the paper does not say how many
//! there were.

use super::{BLOCK, NumberedFiles};
use crate::workload::{BALANCED_ROOM, Balance, Event, Facts, Lives, Population, SizeLaw};

/// Seconds that a byte lives: 960 MB, of which 3.2 MB are written an hour.
const MEAN_LIFE_S: f64 = 960.0 * 1_048_576.0 / 3.2e6 * 3600.0;
const EARLY_SHARE: f64 = 0.35;
const SIZE_POWER: f64 = 0.5;
/// Files of a directory.
const TOGETHER: u32 = 32;

/// Bytes that are asked for at once.
const AT_ONCE: u32 = 1 << 20;

/// Bytes that live at least: twice the largest file.
pub const LIVE_BYTES_MIN: u64 = 16 << 20;
/// And at most: files and blocks have numbers of 32 bits.
pub const LIVE_BYTES_MAX: u64 = 1 << 42;

/// The files.
#[derive(Debug)]
pub struct Office {
    lives: Lives,
    events: Vec<Event>,
}

impl Office {
    /// Nobody has made any yet; when they are in balance so many bytes live.
    ///
    /// # Panics
    /// If that is less than [`LIVE_BYTES_MIN`] or more than [`LIVE_BYTES_MAX`].
    pub fn new(live_bytes: u64, seed: u64) -> Self {
        assert!((LIVE_BYTES_MIN..=LIVE_BYTES_MAX).contains(&live_bytes));
        let balance = Balance::of(&Facts {
            living: SizeLaw::office(),
            mean_life_s: MEAN_LIFE_S,
            early_share: EARLY_SHARE,
            size_power: SIZE_POWER,
            together: 1,
        });
        let bytes_per_hour = live_bytes as f64 / (MEAN_LIFE_S / 3600.0);
        let population = Population {
            reads: true,
            ..Population::balanced(balance, bytes_per_hour)
        };
        let room = (live_bytes / BLOCK) as f64 * BALANCED_ROOM;
        Office {
            lives: Lives::new(population, room as u32, seed),
            events: Vec::new(),
        }
    }

    /// Makes what lives already.
    ///
    /// # Errors
    /// As the files.
    pub fn fill<F: NumberedFiles + ?Sized>(&mut self, files: &mut F) -> Result<(), F::Error> {
        self.lives.prefill(&mut self.events);
        self.befall(files)
    }

    /// One file is read and one made, after those are removed whose time has come.
    ///
    /// # Errors
    /// As the files.
    pub fn step<F: NumberedFiles + ?Sized>(&mut self, files: &mut F) -> Result<(), F::Error> {
        self.lives.step(&mut self.events);
        self.befall(files)
    }

    /// Files that live.
    pub fn living(&self) -> usize {
        self.lives.living()
    }

    /// Does what has happened. Nobody waits for the time between.
    fn befall<F: NumberedFiles + ?Sized>(&mut self, files: &mut F) -> Result<(), F::Error> {
        self.events.drain(..).try_for_each(|event| match event {
            Event::Made { file, size } => {
                files.enter(1 + file / TOGETHER)?;
                files.create(file)?;
                write(files, file, size)
            }
            Event::Updated { file, size } => write(files, file, size),
            Event::Read { file, size } => {
                pieces(size).try_for_each(|(at, bytes)| files.read(file, at, bytes))
            }
            Event::Removed { file } => files.delete(file),
            Event::Wait { .. } => Ok(()),
        })
    }
}

fn write<F: NumberedFiles + ?Sized>(files: &mut F, file: u32, blocks: u32) -> Result<(), F::Error> {
    pieces(blocks).try_for_each(|(at, bytes)| files.write(file, at, bytes, false))
}

/// Places in a file of so many blocks, and how much is asked for there.
fn pieces(blocks: u32) -> impl Iterator<Item = (u64, u32)> {
    let end = blocks * BLOCK as u32;
    let places = (0..end).step_by(AT_ONCE as usize);
    places.map(move |at| (at.into(), (end - at).min(AT_ONCE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LabError;
    use crate::platform::host::Host;
    use crate::platform::{Disk, Layout, Platform};
    use varve_disk::drives;

    /// On a simulated drive, where every byte read is compared.
    #[test]
    fn an_office_keeps_its_balance() {
        let drive = drives::st19101().with_cylinders(44);
        let platform = Platform::new(Layout::Lfs, Disk::Regular).on(drive, Host::SPARCSTATION_10);
        let mut system = platform.build(1).unwrap();
        let mut office = Office::new(LIVE_BYTES_MIN, 1);
        office.fill(&mut *system).unwrap();
        let living = office.living();
        assert!((300..1500).contains(&living), "{living}");
        let steps: Result<(), LabError> = (0..1000).try_for_each(|_| office.step(&mut *system));
        steps.unwrap();
        let after = office.living();
        assert!((living / 2..2 * living).contains(&after), "{after}");
    }
}
