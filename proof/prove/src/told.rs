//! Damage is reported: the offline check reports everything that a repair would change,
//! or that a mount would refuse or skip.
//!
//! A mutant on which a check finds nothing must be equivalent to the original: it mounts
//! for writing, the calls of a walk succeed and agree with each other, a check finds
//! nothing after the unmount, and a repair changes nothing that the mount did not.

use crate::failure::{Failure, Promise};
use crate::images::{images_of, mutate, used_sectors};
use crate::in_place::InPlace;
use crate::mounted::Subject;
use crate::operation::Operation;
use crate::panics;
use crate::random::Random;
use crate::repair::Checksums;
use crate::runner::new_clock;
use crate::subjects::Log;
use crate::tree::{Bounds, walk};
use crate::virtual_log::VirtualLog;
use std::ops::Range;
use std::sync::Arc;
use varve_device::{Device, MemoryDevice, MemoryImage};
use varve_fsck::check::{CheckOptions, check};
use varve_fsck::repair::{RepairOptions, repair};

/// A layout whose offline tools are tested.
pub trait Repaired: Subject {
    /// Repairs a volume. Returns the changes that a mount for writing does not make.
    ///
    /// # Errors
    /// The reason why it cannot be repaired.
    fn repair(&self, device: Arc<dyn Device>) -> Result<Vec<String>, String>;

    /// Returns the findings for which fsck returns an exit code other than 0.
    fn reported(&self, device: Arc<dyn Device>) -> Vec<String> {
        self.check(device)
    }
}

impl Repaired for Log {
    fn repair(&self, device: Arc<dyn Device>) -> Result<Vec<String>, String> {
        let options = RepairOptions {
            seed: Some(7),
            ..RepairOptions::default()
        };
        let done = repair(device, new_clock(), &options).map_err(|error| error.to_string())?;
        let actions = done.actions.iter().map(ToString::to_string);
        Ok(actions.chain(done.refused).collect())
    }

    fn reported(&self, device: Arc<dyn Device>) -> Vec<String> {
        let options = CheckOptions {
            data: true,
            ..CheckOptions::default()
        };
        match check(device, new_clock(), &options) {
            Ok(report) if report.needs_repair() => (report.errors.iter())
                .chain(&report.warnings)
                .map(ToString::to_string)
                .collect(),
            Ok(_) => Vec::new(),
            Err(error) => vec![error.to_string()],
        }
    }
}

impl Repaired for InPlace {
    fn repair(&self, device: Arc<dyn Device>) -> Result<Vec<String>, String> {
        let done = self.repaired(device).map_err(|error| error.to_string())?;
        let copies = (done.superblocks > 0).then(|| format!("{} superblocks", done.superblocks));
        let recovery = done.recovery;
        // A mount makes these changes itself.
        let repairs = recovery.repairs.into_iter().filter(|_| !recovery.unclean);
        Ok(copies
            .into_iter()
            .chain(repairs)
            .chain(recovery.losses)
            .collect())
    }
}

impl Repaired for VirtualLog {
    /// This layout has no repair, so nothing is changed.
    fn repair(&self, _device: Arc<dyn Device>) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// Counts of mutants by result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcomes {
    /// Mutants tried.
    pub mutants: u64,
    /// Mutants reported by the check.
    pub reported: u64,
}

/// An image, with the repair of its mutants' checksums.
pub struct Original {
    /// The image after the workload.
    pub image: MemoryImage,
    /// Sectors that are not empty, and those with a checksum.
    sectors: [Vec<u64>; 2],
    seals: Checksums,
}

impl Original {
    /// Finds the checksums of an image.
    pub fn new(image: MemoryImage) -> Self {
        let seals = Checksums::new(&image);
        Original {
            sectors: [used_sectors(&image), seals.sectors()],
            seals,
            image,
        }
    }

    /// Returns the image after a crash of a workload, and the one after an unmount.
    ///
    /// # Errors
    /// If the workload fails.
    pub fn both(subject: &impl Subject, operations: &[Operation]) -> Result<[Self; 2], Failure> {
        Ok(images_of(subject, operations, 4096)?.map(Original::new))
    }

    /// Returns a mutant: one or two changes, whose checksums are made right three times
    /// out of four.
    pub fn mutant(&self, random: &mut Random) -> (MemoryImage, Vec<Range<u64>>) {
        let mut image = self.image.clone();
        let mut changed = Vec::new();
        for _ in 0..1 + random.below(2) {
            let sectors = random.pick(&self.sectors);
            changed.push(mutate(&mut image, sectors, random));
        }
        if !random.once_in(4) {
            self.seals.repair(&mut image, &changed);
        }
        (image, changed)
    }

    /// Returns the image with every occurrence of `from` replaced and right checksums,
    /// and the number of occurrences.
    ///
    /// # Panics
    /// If `to` has another length.
    pub fn replaced(&self, from: &[u8], to: &[u8]) -> (MemoryImage, usize) {
        assert_eq!(from.len(), to.len());
        let mut bytes = vec![0; self.image.geometry().size as usize];
        self.image.read(0, &mut bytes);
        let found = bytes.windows(from.len()).enumerate();
        let places: Vec<u64> = found
            .filter(|(_, window)| *window == from)
            .map(|(at, _)| at as u64)
            .collect();
        let changed: Vec<Range<u64>> = (places.iter())
            .map(|&at| at..at + from.len() as u64)
            .collect();
        let mut image = self.image.clone();
        places.iter().for_each(|&at| image.write(at, to));
        self.seals.repair(&mut image, &changed);
        (image, places.len())
    }
}

fn device_of(image: &MemoryImage) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::from_image(image))
}

/// Returns the findings of the check of an image; if there are none, the image must be
/// undamaged.
///
/// # Errors
/// Damage that was not reported.
pub fn judge(subject: &impl Repaired, image: &MemoryImage) -> Result<Vec<String>, String> {
    let problems = subject.reported(device_of(image));
    if !problems.is_empty() {
        return Ok(problems);
    }
    let device = device_of(image);
    let mounted = subject
        .mount(Arc::clone(&device), new_clock(), 5)
        .map_err(|error| format!("a mount refuses it: {error}"))?;
    if let Some(reason) = mounted.read_only() {
        return Err(format!("a mount does not write to it: {reason}"));
    }
    if let Some(damage) = mounted.damage().first() {
        return Err(format!("a mount finds damage: {damage}"));
    }
    let tree = walk(&*mounted, Bounds::damaged());
    let tree = tree.map_err(|text| format!("a call fails or disagrees: {text}"))?;
    let unmounted = mounted.unmount();
    unmounted.map_err(|error| format!("an unmount fails: {error}"))?;
    drop(mounted);
    if let Some(problem) = subject.reported(Arc::clone(&device)).first() {
        return Err(format!("a check after an unmount finds: {problem}"));
    }
    for (device, when) in [
        (device, "after a mount and an unmount"),
        (device_of(image), "as it is"),
    ] {
        let done = subject.repair(Arc::clone(&device));
        let done = done.map_err(|error| format!("a repair {when} fails: {error}"))?;
        // The checkpoint of a mount rewrites the slot that a crash tore.
        let is_more = |done: &&String| !done.contains("of the checkpoint ring");
        if let Some(done) = done.iter().find(is_more) {
            return Err(format!("a repair {when} did something: {done}"));
        }
        let mounted = subject.mount(device, new_clock(), 6);
        let mounted = mounted.map_err(|error| format!("a repair {when} broke it: {error}"))?;
        match walk(&*mounted, Bounds::damaged()) {
            Ok(repaired) if repaired.lines == tree.lines => {}
            Ok(_) => return Err(format!("a repair {when} led to another tree")),
            Err(text) => return Err(format!("a repair {when} broke it: {text}")),
        }
    }
    Ok(problems)
}

/// Tries `count` mutants of a workload's two images.
///
/// # Errors
/// The first one that was damaged and not reported.
pub fn mutants(
    subject: &impl Repaired,
    operations: &[Operation],
    seed: u64,
    count: u64,
) -> Result<Outcomes, Failure> {
    let originals = Original::both(subject, operations)?;
    let fail = |text: String| Failure::new(Promise::Contract, text);
    for original in &originals {
        let problems = judge(subject, &original.image).map_err(fail)?;
        if let Some(problem) = problems.first() {
            return Err(fail(format!("a check of a sound image finds: {problem}")));
        }
    }
    let mut outcomes = Outcomes::default();
    let mut random = Random::new(seed);
    for number in 0..count {
        let original = random.pick(&originals);
        let (image, changed) = original.mutant(&mut random);
        let judged = panics::catch(|| judge(subject, &image));
        let judged = judged.unwrap_or_else(Err);
        let problems = judged.map_err(|text| {
            let told = format!("mutant {number} of seed {seed}, changed {changed:?}");
            fail(text).context(told)
        })?;
        outcomes.mutants += 1;
        outcomes.reported += u64::from(!problems.is_empty());
    }
    Ok(outcomes)
}
