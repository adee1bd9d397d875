//! The time of an fsynced overwrite on VLFS on a full simulated ST19101, in virtual
//! time: the mean, and the time that one in a hundred exceeds.
//!
//! ```text
//! cargo run --release -p varve-vlfs --example full_drive -- SHAPE CYLINDERS UPDATES [ITEMS BLOCKS]
//! ```
//!
//! Shapes: `large`, blocks of one file; `small`, files of 1 to 4096 bytes; `tails`,
//! files of one to eight sectors; `sparse`, blocks at large offsets in eight files.
//! First as many ITEMS of these as given are written, or as fit; then as many BLOCKS of
//! a file that is not overwritten.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::{Clock, VirtualClock};
use varve_disk::{SimulatedDisk, drives};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Options};
use varve_vlfs::{Vlfs, VlfsFormatOptions, VlfsMountOptions, format};
use varve_vlog::{InDrive, Medium};

const BLOCK: u64 = 4096;
const SEED: u64 = 9;

/// The part of a file that is overwritten: file, offset, and length.
#[derive(Clone, Copy)]
struct Item(InodeNo, u64, usize);

struct Full {
    fs: FileSystem<Vlfs>,
    items: Vec<Item>,
    files: u64,
    random: Xoshiro256PlusPlus,
}

impl Full {
    fn make(&mut self) -> Result<InodeNo, Error> {
        let (caller, name) = (Caller::root(), format!("file{}", self.files));
        self.files += 1;
        let name = name.as_bytes();
        let made = (self.fs).mknod(&caller, InodeNo::ROOT, name, 0o100_644, 0);
        Ok(made?.ino)
    }

    fn put(&self, Item(ino, at, bytes): Item, fill: u8) -> Result<usize, Error> {
        let caller = Caller::root();
        (self.fs).write(&caller, ino, at, &vec![fill; bytes])
    }

    fn add(&mut self, shape: &str) -> Result<(), Error> {
        let nth = self.items.len() as u64;
        let whole = BLOCK as usize;
        let item = match shape {
            "large" if nth == 0 => Item(self.make()?, 0, whole),
            "large" => Item(self.items[0].0, nth * BLOCK, whole),
            "small" => Item(self.make()?, 0, self.random.random_range(1..=whole)),
            "tails" => Item(self.make()?, 0, 512 * self.random.random_range(1..=8)),
            "sparse" if nth < 8 => Item(self.make()?, 0, whole),
            "sparse" => {
                let far = self.random.random_range(1..1u64 << 40);
                Item(self.items[nth as usize % 8].0, far * BLOCK, whole)
            }
            other => panic!("no shape {other}"),
        };
        self.put(item, 1)?;
        self.items.push(item);
        if nth.is_multiple_of(64) {
            self.fs.sync()?;
        }
        Ok(())
    }

    /// Adds items until there are `most`, or until there is no space; returns their
    /// number.
    fn fill(most: u64, mut add: impl FnMut(u64) -> Result<(), Error>) -> u64 {
        for nth in 0..most {
            match add(nth) {
                Ok(()) => {}
                Err(Error::NoSpace) => return nth,
                Err(error) => panic!("{error}"),
            }
        }
        most
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize| {
        arguments
            .get(nth)
            .map(|text| text.parse().expect("a number"))
    };
    let (shape, cylinders) = (&arguments[0], number(1).expect("cylinders") as u32);
    let updates: u64 = number(2).expect("updates");
    let most = number(3).unwrap_or(u64::MAX);
    let clock = Arc::new(VirtualClock::new(0, 0));
    let drive = drives::st19101().with_cylinders(cylinders);
    let medium: Arc<dyn Medium> = Arc::new(InDrive(Arc::new(SimulatedDisk::new(
        drive,
        clock.clone(),
        SEED,
    ))));
    let options = VlfsFormatOptions {
        inodes: medium.geometry().size / 2048,
        seed: Some(SEED),
        ..VlfsFormatOptions::default()
    };
    format(&*medium, &*clock, &options).expect("it fits");
    let mount = || {
        let layout = Vlfs::mount(medium.clone(), clock.clone(), VlfsMountOptions::default());
        Arc::new(layout.expect("just made"))
    };
    FileSystem::format(&*mount(), &*clock, (0, 0)).expect("room");
    let options = Options {
        read_ahead_threads: 0,
        ..Options::default()
    };
    let fs = FileSystem::mount(mount(), clock.clone(), options).expect("a tree");
    let mut full = Full {
        fs,
        items: Vec::new(),
        files: 0,
        random: Xoshiro256PlusPlus::seed_from_u64(SEED),
    };
    let filler = full.make().expect("room");
    Full::fill(most, |_| full.add(shape));
    full.fs.sync().expect("a sound drive");
    let whole = |nth| Item(filler, nth * BLOCK, BLOCK as usize);
    let rest = Full::fill(number(4).unwrap_or(u64::MAX), |nth| {
        full.put(whole(nth), 1).map(|_| ())
    });
    full.fs.sync().expect("a sound drive");
    let before = full.fs.layout().statistics();
    let (mut times, mut refused) = (Vec::new(), 0);
    for _ in 0..updates {
        let nth = full.random.random_range(0..full.items.len());
        let item = full.items[nth];
        let begun = clock.monotonic_ns();
        match full.put(item, 2) {
            Ok(_) => full.fs.fsync(item.0, true).expect("a sound drive"),
            Err(Error::NoSpace) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        times.push(clock.monotonic_ns() - begun);
    }
    let after = full.fs.layout().statistics();
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e6;
    times.sort_unstable();
    let late = times[times.len() * 99 / 100] as f64 / 1e6;
    println!(
        "{shape}, {cylinders} cylinders: {} items, {rest} blocks, {} free; {mean:.3} ms, 1 % beyond {late:.3}; \
         {refused} refused; {} to {} blocks live, {} full transactions, {} checkpoints",
        full.items.len(),
        full.fs.statfs().free,
        before.blocks_live,
        after.blocks_live,
        (after.transactions - after.brief) - (before.transactions - before.brief),
        after.checkpoints - before.checkpoints,
    );
}
