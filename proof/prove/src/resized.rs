//! Changes of size and label, interrupted at every write, and in random order with other
//! operations (`docs/design/resize.md`).
//!
//! For every image that a power cut may leave of a change:
//! - it has the old size and label or the new ones, and its check finds nothing;
//! - it mounts for writing and shows the former tree; if it has a new, smaller size, also
//!   on a device that ends there.
//!
//! For a random share of them, moreover:
//! - the same change is requested again and completed, and a check again finds nothing;
//! - it is used further, is unmounted and loses its primary superblock: any copy that
//!   replaces it shows everything written (S1 and S2).

use crate::explorer::{mix, same_tree};
use crate::failure::{Failure, Promise};
use crate::generator::{Generator, Profile};
use crate::model::Model;
use crate::mounted::Subject;
use crate::operation::{Operation, story};
use crate::panics;
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use crate::subjects::Log;
use crate::tree::{Bounds, Tree, walk};
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{
    CrashExplorer, Device, Geometry, Limits, MemoryDevice, MemoryImage, RecordingDevice,
};
use varve_lfs::format::Superblock;
use varve_lfs::{Error, Lfs, ResizeOptions, Tune, resize, tune};

/// A change of a volume.
#[derive(Clone, Debug)]
pub enum Change {
    /// A change of the label or UUID.
    Name(Tune),
    /// A change of the size, to this number of bytes.
    Size(u64),
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// Errors of the change.
    pub fn make(&self, device: &Arc<dyn Device>, seed: u64) -> Result<Superblock, Error> {
        match self {
            Change::Name(tuning) => tune(&**device, tuning),
            Change::Size(bytes) => {
                let options = ResizeOptions {
                    seed: Some(seed),
                    ..ResizeOptions::default()
                };
                resize(device, new_clock(), *bytes, &options)
            }
        }
    }
}

impl Change {
    /// Returns the least possible size, if this one is refused because of live data.
    fn least(&self, image: &MemoryImage) -> Option<u64> {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(image));
        match self.make(&device, 0) {
            Err(Error::DoesNotFit { least, .. }) => Some(least),
            _ => None,
        }
    }
}

/// Counts of an exploration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Crash images.
    pub states: u64,
    /// Crash images with the new size or label.
    pub changed: u64,
    /// Crash images that were used further.
    pub further: u64,
}

/// Returns `image` on a device of `bytes` bytes.
pub fn on_device_of(image: &MemoryImage, bytes: u64) -> MemoryImage {
    let geometry = Geometry {
        size: bytes,
        ..image.geometry()
    };
    let mut other = MemoryImage::new(geometry);
    let (mut chunk, zeros) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    for at in (0..bytes.min(image.geometry().size)).step_by(chunk.len()) {
        let length = (bytes.min(image.geometry().size) - at).min(chunk.len() as u64) as usize;
        image.read(at, &mut chunk[..length]);
        if chunk[..length] != zeros[..length] {
            other.write(at, &chunk[..length]);
        }
    }
    other
}

/// Returns a used volume, after `length` random operations and then `text`. It is either
/// unmounted, or in the state after a crash of its server.
///
/// # Panics
/// If that fails.
pub fn used(subject: &Log, seed: u64, (length, text): (u64, &str), unmounted: bool) -> MemoryImage {
    let device = Arc::new(MemoryDevice::new(subject.device_bytes));
    subject.format(device.clone(), new_clock()).expect("format");
    let mounted = subject.mount(device.clone(), new_clock(), seed);
    let mut runner = Runner::new(mounted.expect("mount"), new_clock(), Model::new(4096));
    let operations = Generator::new(Profile::crash(), Random::new(seed)).take(length);
    for operation in operations.into_iter().chain(story(text)) {
        if !matches!(operation, Operation::Kill | Operation::Remount) {
            let _ = runner.step(&operation).expect("as the model has it");
        }
    }
    runner.mounted().sync().expect("sync");
    if unmounted {
        runner.mounted().unmount().expect("unmount");
    }
    device.snapshot()
}

fn tree_of(subject: &Log, image: &MemoryImage, seed: u64) -> Result<Tree, Failure> {
    let fail = |text: String| Failure::new(Promise::Mount, text);
    let device = Arc::new(MemoryDevice::from_image(image));
    let mounted = subject.mount(device, new_clock(), seed);
    let mounted = mounted.map_err(|error| fail(format!("mount: {error}")))?;
    if let Some(reason) = mounted.read_only() {
        return Err(fail(format!("mounted read-only: {reason}")));
    }
    walk(&*mounted, Bounds::default()).map_err(fail)
}

fn check(subject: &Log, image: &MemoryImage, when: &str) -> Result<(), Failure> {
    let device = Arc::new(MemoryDevice::from_image(image));
    match subject.check(device).first() {
        None => Ok(()),
        Some(error) => Err(Failure::new(
            Promise::Check,
            format!("check {when}: {error}"),
        )),
    }
}

fn superblock_of(image: &MemoryImage) -> Result<Superblock, Failure> {
    let device = MemoryDevice::from_image(image);
    Lfs::find_superblock(&device)
        .map_err(|error| Failure::new(Promise::Mount, format!("superblock: {error}")))
}

/// Returns the fields that show whether a change was made.
fn said(superblock: &Superblock) -> (u64, u32, [u8; 64], [u8; 16]) {
    (
        superblock.device_bytes.get(),
        superblock.segment_count.get(),
        superblock.label,
        superblock.uuid,
    )
}

/// A change that is interrupted everywhere.
pub struct Cut<'a> {
    /// Mount and check of the volume.
    pub subject: &'a Log,
    /// Limits of the crash states at each stop.
    pub limits: Limits,
    /// The medium's atomic unit, in bytes.
    pub unit: u32,
    /// One in this number of images is used further.
    pub further_one_in: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Cut<'_> {
    /// Makes `change` on `base`, and checks every state that a power cut may leave.
    ///
    /// # Errors
    /// The first fault.
    pub fn explore(&self, base: &MemoryImage, change: &Change) -> Result<Counts, Failure> {
        let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(base)));
        let device: Arc<dyn Device> = recorder.clone();
        let after = change.make(&device, self.seed);
        let after = after.map_err(|error| Failure::new(Promise::Mount, error.to_string()))?;
        let seen = Seen {
            change,
            tree: tree_of(self.subject, base, 5)?,
            before: superblock_of(base)?,
            after,
        };
        let trace = recorder.take_trace();
        let mut counts = Counts::default();
        let mut crashes = CrashExplorer::new(base, &trace, self.unit, self.limits);
        let stops: Vec<usize> = crashes.stops().collect();
        for stop in stops {
            let flow = crashes.for_each(stop, self.seed, |image, description| {
                let looked = panics::catch(|| self.look(&image, &seen, &mut counts));
                match looked.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text))) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(failure) => ControlFlow::Break(failure.context(description.to_string())),
                }
            });
            if let ControlFlow::Break(failure) = flow {
                return Err(failure);
            }
        }
        let whole = recorder.inner().snapshot();
        match said(&superblock_of(&whole)?) == said(&seen.after) {
            true => Ok(counts),
            false => Err(Failure::new(Promise::Afterwards, "the change was not made")),
        }
    }

    fn look(
        &self,
        image: &MemoryImage,
        seen: &Seen<'_>,
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        counts.states += 1;
        let found = superblock_of(image)?;
        let changed = said(&found) == said(&seen.after);
        counts.changed += u64::from(changed);
        if !changed && said(&found) != said(&seen.before) {
            let text = format!("neither old nor new: {found:?}");
            return Err(Failure::new(Promise::Contract, text));
        }
        check(self.subject, image, "of the crash image")?;
        same_tree(
            &seen.tree,
            &tree_of(self.subject, image, 6)?,
            "after the cut",
        )?;
        let lot = mix(self.seed, counts.states);
        if !lot.is_multiple_of(self.further_one_in) {
            return Ok(());
        }
        counts.further += 1;
        self.complete(image, seen, lot)?;
        self.lose_primary(image, lot)
    }

    /// Repeats the change on a crash image; then uses a device that ends where the volume
    /// does.
    fn complete(&self, image: &MemoryImage, seen: &Seen<'_>, lot: u64) -> Result<(), Failure> {
        let memory = Arc::new(MemoryDevice::from_image(image));
        let device: Arc<dyn Device> = memory.clone();
        let again = seen.change.make(&device, lot);
        let again = again
            .map_err(|error| Failure::new(Promise::Afterwards, format!("made again: {error}")))?;
        if said(&again) != said(&seen.after) {
            let text = "made again, it is something else";
            return Err(Failure::new(Promise::Afterwards, text));
        }
        let whole = memory.snapshot();
        check(self.subject, &whole, "of the change made again")?;
        let cut = on_device_of(&whole, again.device_bytes.get());
        check(self.subject, &cut, "on a device that ends with it")?;
        same_tree(&seen.tree, &tree_of(self.subject, &cut, 7)?, "made again")
    }

    /// Uses the volume further, and then removes its primary superblock.
    fn lose_primary(&self, image: &MemoryImage, lot: u64) -> Result<(), Failure> {
        let fail = |text: String| Failure::new(Promise::Afterwards, text);
        let device = Arc::new(MemoryDevice::from_image(image));
        let mounted = self.subject.mount(device.clone(), new_clock(), lot);
        let mounted = mounted.map_err(|error| fail(format!("mounted again: {error}")))?;
        let mut runner = Runner::new(mounted, new_clock(), Model::new(4096));
        for round in 0..4 {
            // Nothing else uses these names, so the model need not know the rest.
            let text = format!("create n{round}; write n{round} 0+300000 #{round}");
            for operation in story(&text) {
                match runner.perform(&operation) {
                    Ok(_) | Err(varve_fs::Error::NoSpace | varve_fs::Error::NotFound) => {}
                    Err(error) => return Err(fail(format!("{operation}: {error}"))),
                }
            }
            let synced = runner.mounted().sync();
            synced.map_err(|error| fail(format!("sync: {error}")))?;
        }
        let told = walk(runner.mounted(), Bounds::default()).map_err(fail)?;
        let unmounted = runner.mounted().unmount();
        unmounted.map_err(|error| fail(format!("unmount: {error}")))?;
        drop(runner);
        let mut image = device.snapshot();
        check(self.subject, &image, "after more was written")?;
        image.write(0, &[0x5a; 512]);
        let device = Arc::new(MemoryDevice::from_image(&image));
        let mounted = self.subject.mount(device, new_clock(), lot);
        let mounted = mounted.map_err(|error| fail(format!("without its primary: {error}")))?;
        let seen = walk(&*mounted, Bounds::default()).map_err(fail)?;
        same_tree(&told, &seen, "without its primary superblock")
    }
}

/// The states before and after a change.
struct Seen<'a> {
    change: &'a Change,
    tree: Tree,
    before: Superblock,
    after: Superblock,
}

/// Changes sizes and runs operations in random order, on the subject and the model.
///
/// # Errors
/// The first difference, or a finding of the check.
pub fn any_order(subject: &Log, seed: u64, rounds: u64) -> Result<Counts, Failure> {
    let fail = |text: String| Failure::new(Promise::Reference, text);
    let mut random = Random::new(seed);
    let mut image = used(subject, seed, (0, ""), true);
    let mut model = Model::new(4096);
    let mut counts = Counts::default();
    for round in 0..rounds {
        let device = Arc::new(MemoryDevice::from_image(&image));
        let mounted = subject.mount(device.clone(), new_clock(), mix(seed, round));
        let mounted = mounted.map_err(|error| fail(format!("round {round}: {error}")))?;
        let mut runner = Runner::new(mounted, new_clock(), model.clone());
        runner.may_be_full = true;
        runner.verify().map_err(fail)?;
        let profile = Profile::crash();
        let generator = Random::new(random.word());
        // The write is large, so that there are blocks to be moved; its length is
        // limited, because the model does not know how much of a write a full volume
        // accepts.
        let free = runner.mounted().statfs().free * 4096;
        let name = ["p", "q", "r", "s"][random.below(4) as usize];
        let bytes = random.below((free / 2).max(1)).min(3 << 20);
        let much = format!(
            "unlink {name}; create {name}; write {name} 0+{bytes} #{round}; sync; write {name} \
             {}+{} #{round}; sync",
            random.below(1 << 20),
            (free / 8).min(200_000),
        );
        for operation in story(&much) {
            let _ = runner.step(&operation).map_err(fail)?;
        }
        let mut generator = Generator::on(profile, generator, runner.model.clone());
        let length = match runner.mounted().statfs().free * 4096 > 1 << 20 {
            true => 60,
            false => 0,
        };
        for operation in generator.take(length) {
            if !matches!(operation, Operation::Kill | Operation::Remount) {
                let _ = runner.step(&operation).map_err(fail)?;
            }
        }
        runner
            .mounted()
            .sync()
            .map_err(|error| fail(error.to_string()))?;
        // The volume is unmounted, or left as by a crash of its server.
        if random.below(2) == 0 {
            let closed = runner.mounted().unmount();
            closed.map_err(|error| fail(format!("unmount: {error}")))?;
        }
        model = runner.model.clone();
        model.close_all();
        image = device.snapshot();
        drop(runner);
        counts.states += 1;
        // Sometimes the size is the least possible one.
        let least = match round % 4 {
            3 => Change::Size(4 << 20).least(&image),
            _ => None,
        };
        let wanted = least.unwrap_or((4 << 20) + random.below(40 << 20) / 512 * 512);
        let device = Arc::new(MemoryDevice::from_image(&on_device_of(
            &image,
            wanted.max(image.geometry().size),
        )));
        let shared: Arc<dyn Device> = device.clone();
        let resized = Change::Size(wanted).make(&shared, round);
        let bytes = match resized {
            Ok(superblock) => {
                counts.changed += 1;
                superblock.device_bytes.get()
            }
            Err(Error::DoesNotFit { .. } | Error::Unfit(_)) if least.is_none() => {
                image.geometry().size
            }
            Err(error) => return Err(fail(format!("round {round}, to {wanted}: {error}"))),
        };
        image = on_device_of(&device.snapshot(), bytes);
        check(subject, &image, &format!("round {round}, to {wanted}"))?;
    }
    Ok(counts)
}
