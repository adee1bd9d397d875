//! Crafted and mutated images: any bytes give an error or a tree, never a panic, an
//! endless loop, or unbounded memory.
//!
//! The images of a workload, one unmounted and one crashed, are mutated: bits, bytes and
//! words of used sectors change, whole sectors are copied, exchanged or filled. In half
//! of the mutants the subject repairs checksums ([`Repair`]), so that the mutation
//! reaches the code behind them. Each mutant is mounted, walked, changed, unmounted and
//! checked.
//!
//! A watchdog ends a hang and prints how to repeat it.

use crate::explorer::{Plan, mix};
use crate::failure::{Failure, Promise};
use crate::generator::Generator;
use crate::model::Model;
use crate::mounted::{Mounted, Subject};
use crate::operation::Operation;
use crate::panics;
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use crate::tree::{self, Bounds};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use varve_device::{MemoryDevice, MemoryImage};

/// Makes the checksums over changed bytes of an image right again.
pub type Repair = Box<dyn Fn(&mut MemoryImage, &[Range<u64>])>;

/// Counts of mutants by result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcomes {
    /// Mutants mounted.
    pub mutants: u64,
    /// Mutants that mount refused.
    pub refused: u64,
    /// Mutants that mounted read-only or with a report of damage.
    pub reported: u64,
    /// Mutants that were walked completely.
    pub walked: u64,
    /// Mutants in which the offline check found errors.
    pub found_by_check: u64,
}

/// Time limit of a mutant.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prints the current story and ends the process if a mutant exceeds its time limit.
struct Watchdog(Sender<String>);

impl Watchdog {
    fn start() -> Watchdog {
        let (sender, receiver) = channel::<String>();
        std::thread::spawn(move || {
            let mut story = String::new();
            loop {
                match receiver.recv_timeout(PATIENCE) {
                    Ok(next) => story = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) if story.is_empty() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("still not done after {PATIENCE:?}: {story}");
                        std::process::exit(101);
                    }
                }
            }
        });
        Watchdog(sender)
    }

    fn expect(&self, story: String) {
        let _ = self.0.send(story);
    }
}

/// Returns a workload with enough files for index nodes and directory nodes.
pub fn workload(seed: u64) -> Vec<Operation> {
    let mut profile = Plan::quick(seed).profile;
    profile
        .names
        .extend((0..30).map(|number| format!("{number}^9")));
    profile.file_blocks = 40;
    Generator::new(profile, Random::new(seed)).take(250)
}

/// Returns the images of a workload: of a volume that crashed, and of one that was
/// unmounted.
///
/// # Errors
/// If the workload fails.
pub fn images_of<S: Subject + ?Sized>(
    subject: &S,
    operations: &[Operation],
    block_bytes: u64,
) -> Result<[MemoryImage; 2], Failure> {
    let fail = |text: String| Failure::new(Promise::Reference, text).during(operations);
    let device = Arc::new(MemoryDevice::new(subject.device_bytes()));
    let clock = new_clock();
    let formatted = subject.format(device.clone(), clock.clone());
    formatted.map_err(|error| fail(error.to_string()))?;
    let mounted = subject.mount(device.clone(), clock.clone(), 1);
    let mounted = mounted.map_err(|error| fail(error.to_string()))?;
    let mut runner = Runner::new(mounted, clock, Model::new(block_bytes));
    for operation in operations {
        if !matches!(operation, Operation::Kill | Operation::Remount) {
            let _ = runner.step(operation).map_err(fail)?;
        }
    }
    let dead = device.snapshot();
    runner
        .mounted()
        .unmount()
        .map_err(|error| fail(error.to_string()))?;
    Ok([dead, device.snapshot()])
}

/// Makes mutants of the images of one workload.
pub struct Mutants<'a, S: Subject + ?Sized> {
    subject: &'a S,
    generator: Generator,
    images: Vec<(MemoryImage, Vec<u64>, Option<Repair>)>,
    watchdog: Watchdog,
}

impl<'a, S: Subject + ?Sized> Mutants<'a, S> {
    /// Runs the workload and keeps its images.
    ///
    /// # Errors
    /// If the workload fails.
    pub fn new(
        subject: &'a S,
        repair: Option<fn(&MemoryImage) -> Repair>,
        operations: &[Operation],
        generator: Generator,
        block_bytes: u64,
    ) -> Result<Self, Failure> {
        let images = images_of(subject, operations, block_bytes)?.map(|image| {
            let sectors = used_sectors(&image);
            let repair = repair.map(|learn| learn(&image));
            (image, sectors, repair)
        });
        let images = images.into();
        Ok(Mutants {
            subject,
            generator,
            images,
            watchdog: Watchdog::start(),
        })
    }

    /// Tries mutant number `index` of `seed`.
    ///
    /// # Errors
    /// If anything panics.
    pub fn try_one(
        &mut self,
        seed: u64,
        index: u64,
        outcomes: &mut Outcomes,
    ) -> Result<(), Failure> {
        let mut random = Random::new(mix(seed, index));
        let (original, sectors, repair) = random.pick(&self.images);
        let (mut image, mut changed) = (original.clone(), Vec::new());
        for _ in 0..1 + random.below(4) {
            changed.push(mutate(&mut image, sectors, &mut random));
        }
        if let Some(repair) = repair
            && random.once_in(2)
        {
            repair(&mut image, &changed);
        }
        let told = format!("mutant {index} of seed {seed}, changed {changed:?}");
        self.watchdog.expect(told.clone());
        let operations: Vec<Operation> = (0..8).map(|_| self.generator.operation()).collect();
        let tried = panics::catch(|| self.exercise(&image, &operations, outcomes));
        self.watchdog.expect(String::new());
        tried.map_err(|text| {
            Failure::new(Promise::Panic, text)
                .context(told)
                .during(&operations)
        })
    }

    fn exercise(&self, image: &MemoryImage, operations: &[Operation], outcomes: &mut Outcomes) {
        outcomes.mutants += 1;
        let device = Arc::new(MemoryDevice::from_image(image));
        match self.subject.mount(device.clone(), new_clock(), 2) {
            Ok(mounted) => {
                let reported = mounted.read_only().is_some() || !mounted.damage().is_empty();
                outcomes.reported += u64::from(reported);
                outcomes.walked += u64::from(self.use_mounted(mounted, operations));
            }
            Err(_) => outcomes.refused += 1,
        }
        let raw = Arc::new(MemoryDevice::from_image(image));
        let found = !self.subject.check(raw).is_empty();
        outcomes.found_by_check += u64::from(found);
        self.subject.check(device);
    }

    /// Walks the tree, runs operations, and unmounts. Returns true if the walk was
    /// complete.
    fn use_mounted(&self, mounted: Box<dyn Mounted>, operations: &[Operation]) -> bool {
        let walked = tree::walk_damaged(&*mounted, Bounds::damaged());
        let mut runner = Runner::new(mounted, new_clock(), Model::new(4096));
        for operation in operations {
            // Files that are open in the model are not open here.
            let open = operation.to_string().contains('@');
            if !open {
                let _ = runner.perform(operation);
            }
        }
        let _ = runner.mounted().clean();
        let _ = tree::walk_damaged(runner.mounted(), Bounds::damaged());
        let _ = runner.mounted().unmount();
        walked.is_ok_and(|tree| tree.unreadable.is_empty())
    }
}

pub(crate) fn used_sectors(image: &MemoryImage) -> Vec<u64> {
    let mut sectors = Vec::new();
    let mut sector = [0; 512];
    for offset in (0..image.geometry().size).step_by(sector.len()) {
        image.read(offset, &mut sector);
        if sector.iter().any(|&byte| byte != 0) {
            sectors.push(offset);
        }
    }
    sectors
}

/// Changes a part of the image and returns its range.
pub(crate) fn mutate(image: &mut MemoryImage, sectors: &[u64], random: &mut Random) -> Range<u64> {
    let sector = *random.pick(sectors);
    // The beginning of a sector is chosen more often, because structures begin there.
    let within = if random.once_in(2) {
        random.below(64)
    } else {
        random.below(512)
    };
    let at = sector + within;
    let word_at = at & !7;
    match random.below(8) {
        0 | 1 => {
            let mut byte = [0];
            image.read(at, &mut byte);
            image.write(at, &[byte[0] ^ (1 << random.below(8))]);
            at..at + 1
        }
        2 => {
            image.write(at, &[random.word() as u8]);
            at..at + 1
        }
        3 => {
            let extreme = [
                0,
                1,
                u64::MAX,
                1 << 63,
                1 << 31,
                u64::from(u32::MAX),
                4096,
                1 << 48,
            ];
            image.write(word_at, &random.pick(&extreme).to_le_bytes());
            word_at..word_at + 8
        }
        4 => {
            let mut word = [0; 8];
            image.read(word_at, &mut word);
            let step = [1, u64::MAX, 8, 1 << 32, 512];
            let changed = u64::from_le_bytes(word).wrapping_add(*random.pick(&step));
            image.write(word_at, &changed.to_le_bytes());
            word_at..word_at + 8
        }
        5 => {
            let from = *random.pick(sectors);
            let mut bytes = [0; 512];
            image.read(from, &mut bytes);
            image.write(sector, &bytes);
            sector..sector + 512
        }
        6 => {
            let (from, length) = (
                random.pick(sectors) + random.below(500),
                1 + random.below(64),
            );
            let mut bytes = vec![0; length as usize];
            let last = image.geometry().size - length;
            image.read(from.min(last), &mut bytes);
            image.write(at.min(last), &bytes);
            at..at + length
        }
        _ => {
            let drawn = random.word() as u8;
            let filler = *random.pick(&[0, 0xff, drawn]);
            image.write(sector, &[filler; 512]);
            sector..sector + 512
        }
    }
}

/// Returns the peak memory of this process in bytes, if the system provides it.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
