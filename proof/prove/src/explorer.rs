//! The crash explorer: it runs a workload on a recording device, cuts the power at every
//! write and flush in every manner that the medium allows, and compares the tree that a
//! mount finds with the contract ([`crate::contract`]).
//!
//! For every crash image:
//! - it mounts for writing and reports no damage, because power cuts are not damage;
//! - the tree is at one allowed moment; no inode is in use without a name.
//!
//! For a random share of the images, moreover:
//! - mounting with the newest checkpoint damaged shows the same tree;
//! - the offline check finds nothing, before and after recovery;
//! - mounting once more, after the process was killed, shows the same tree;
//! - the recovered volume accepts operations, a sync, a remount;
//! - **nested**: the recovery, and a short workload after it, are recorded and explored
//!   in the same way, down to a given depth.
//!
//! A workload may contain [`Operation::Kill`]: the process is killed, the device with its
//! volatile cache is not, and the next mount's writes join the unflushed ones of the
//! previous mount.

mod plan;

use crate::contract::{History, Step};
use crate::failure::{Failure, Promise, shrink};
use crate::generator::Generator;
use crate::model::{Model, Refusal};
use crate::mounted::{Mounted, Subject};
use crate::operation::{Operation, story};
use crate::panics;
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use crate::switch::SwitchedDevice;
use crate::tree::{self, Bounds, Tree};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{
    CrashExplorer, CrashShape, Device, Event, MemoryDevice, MemoryImage, Missing, RecordingDevice,
};

pub use plan::{Counts, Plan};

pub(crate) fn mix(seed: u64, salt: u64) -> u64 {
    Random::new(seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)).word()
}

/// Returns true if a unit may contain bytes that were never written.
fn is_torn(shape: &CrashShape) -> bool {
    matches!(shape, CrashShape::Torn(tear) if tear.missing != Missing::Old)
}

/// A workload that ran on a recording device.
struct Recorded {
    trace: Vec<Event>,
    history: History,
}

/// Explores workloads on one subject.
pub struct Explorer<'a, S: Subject + ?Sized> {
    subject: &'a S,
    counts: RefCell<Counts>,
}

impl<'a, S: Subject + ?Sized> Explorer<'a, S> {
    /// Returns an explorer without results.
    pub fn new(subject: &'a S) -> Self {
        Explorer {
            subject,
            counts: RefCell::default(),
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Returns the bytes of the subject's device.
    pub fn device_bytes(&self) -> u64 {
        self.subject.device_bytes()
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.borrow_mut());
    }

    /// Returns a formatted device.
    ///
    /// # Errors
    /// If it cannot be formatted.
    pub fn fresh_image(&self) -> Result<MemoryImage, Failure> {
        let device = Arc::new(MemoryDevice::new(self.subject.device_bytes()));
        let formatted = panics::catch(|| self.subject.format(device.clone(), new_clock()));
        match formatted {
            Ok(Ok(())) => Ok(device.snapshot()),
            Ok(Err(error)) => Err(Failure::new(Promise::Mount, format!("format: {error}"))),
            Err(message) => Err(Failure::new(Promise::Panic, format!("format: {message}"))),
        }
    }

    fn empty_model(&self, plan: &Plan) -> Model {
        let mut model = Model::new(plan.profile.block_bytes);
        model.exact = plan.strict;
        model
    }

    /// Explores `operations` on an empty volume; a failure is shrunk.
    ///
    /// # Errors
    /// The shortest failing story found.
    pub fn explore(&self, operations: &[Operation], plan: &Plan) -> Result<(), Failure> {
        let Err(failure) = self.explore_once(operations, plan) else {
            return Ok(());
        };
        let shrinker = Explorer::new(self.subject);
        let attempt = |story: &[Operation]| shrinker.explore_once(story, plan).err();
        Err(shrink(failure, plan.patience, attempt))
    }

    /// Explores a story given as text.
    ///
    /// # Errors
    /// The same as [`Explorer::explore`].
    pub fn explore_story(&self, text: &str, plan: &Plan) -> Result<(), Failure> {
        self.explore(&story(text), plan)
    }

    /// Explores workload number `index` of the plan's seed.
    ///
    /// # Errors
    /// The same as [`Explorer::explore`].
    pub fn explore_generated(&self, index: u64, length: u64, plan: &Plan) -> Result<(), Failure> {
        let random = Random::new(mix(plan.seed, index));
        let operations = Generator::new(plan.profile.clone(), random).take(length);
        let plan = Plan {
            seed: mix(plan.seed, index),
            ..plan.clone()
        };
        self.explore(&operations, &plan)
    }

    /// Returns the device trace of a workload.
    ///
    /// # Errors
    /// If the workload fails.
    pub fn trace(&self, operations: &[Operation], plan: &Plan) -> Result<Vec<Event>, Failure> {
        let image = self.fresh_image()?;
        let recorded = self.live(&image, self.empty_model(plan), operations, plan)?;
        Ok(recorded.trace)
    }

    fn explore_once(&self, operations: &[Operation], plan: &Plan) -> Result<(), Failure> {
        self.count(|counts| counts.workloads += 1);
        let image = self.fresh_image()?;
        let life = self.live(&image, self.empty_model(plan), operations, plan);
        let recorded = life.map_err(|failure| failure.during(operations))?;
        self.explore_trace(&image, &recorded, plan)
            .map_err(|failure| failure.during(operations))
    }

    /// Runs a workload on a recording device that begins with `image`.
    fn live(
        &self,
        image: &MemoryImage,
        model: Model,
        operations: &[Operation],
        plan: &Plan,
    ) -> Result<Recorded, Failure> {
        panics::catch(|| self.live_or_panic(image, model, operations, plan))
            .unwrap_or_else(|message| Err(Failure::new(Promise::Panic, message)))
    }

    fn live_or_panic(
        &self,
        image: &MemoryImage,
        model: Model,
        operations: &[Operation],
        plan: &Plan,
    ) -> Result<Recorded, Failure> {
        let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(image)));
        let clock = new_clock();
        let mut lives = 0;
        let mut switch = SwitchedDevice::new(recorder.clone());
        let mut mount = |switch: &Arc<SwitchedDevice>| {
            lives += 1;
            let device: Arc<dyn Device> = switch.clone();
            let mounted = self
                .subject
                .mount(device, clock.clone(), mix(plan.seed, lives));
            mounted.map_err(|error| Failure::new(Promise::Mount, format!("mount: {error}")))
        };
        let mounted = mount(&switch)?;
        let mut model = model;
        let promise = mounted.promise();
        model.in_place = promise != varve_fs::Promise::Groups;
        let mut history = History::promising(model.clone(), promise);
        let mut runner = Runner::new(mounted, clock.clone(), model);
        runner.may_be_full = plan.may_be_full;
        for (index, operation) in operations.iter().enumerate() {
            recorder.mark(Step::begun(index).0);
            let at = |error: String| {
                Failure::new(Promise::Reference, error).context(format!("at operation {index}"))
            };
            match operation {
                Operation::Kill => {
                    switch.cut();
                    switch = SwitchedDevice::new(recorder.clone());
                    runner.replace(mount(&switch)?);
                    let seen = tree::walk(runner.mounted(), Bounds::default()).map_err(at)?;
                    let killed = history.push_kill(operation, &seen);
                    runner.model = killed.map_err(|error| {
                        Failure::new(Promise::Contract, error).context("after the process died")
                    })?;
                }
                Operation::Remount => {
                    runner
                        .mounted()
                        .unmount()
                        .map_err(|error| at(format!("unmount: {error}")))?;
                    self.check_offline(recorder.inner(), "after unmount")
                        .map_err(|failure| failure.context(format!("at operation {index}")))?;
                    switch.cut();
                    switch = SwitchedDevice::new(recorder.clone());
                    let _ = runner.step(operation).map_err(at)?;
                    runner.replace(mount(&switch)?);
                    history.push(operation, runner.model.clone(), true);
                }
                _ => {
                    let outcome = runner.step(operation).map_err(at)?;
                    history.push(operation, runner.model.clone(), outcome.is_ok());
                }
            }
            recorder.mark(Step::returned(index).0);
        }
        let verified = runner.verify();
        verified.map_err(|error| {
            Failure::new(Promise::Reference, error).context("after the last operation")
        })?;
        // Requests that result from dropping the file system are not part of the story.
        switch.cut();
        drop(runner);
        Ok(Recorded {
            trace: recorder.take_trace(),
            history,
        })
    }

    fn explore_trace(
        &self,
        base: &MemoryImage,
        recorded: &Recorded,
        plan: &Plan,
    ) -> Result<(), Failure> {
        for &unit in &plan.units {
            let mut crashes = CrashExplorer::new(base, &recorded.trace, unit, plan.limits);
            if plan.whole_units {
                crashes.keep_units_whole();
            }
            let stops: Vec<usize> = crashes.stops().collect();
            for stop in stops {
                self.count(|counts| counts.stops += 1);
                let step = Step(crashes.marks(stop).last().unwrap_or(0));
                let flow = crashes.for_each(stop, plan.seed, |image, description| {
                    let torn = is_torn(&description.shape);
                    match self.check_state(&image, &recorded.history, (step, torn), plan) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(failure) => ControlFlow::Break(
                            failure.context(format!("{step}: {description}, atomic unit {unit}")),
                        ),
                    }
                });
                if let ControlFlow::Break(failure) = flow {
                    return Err(failure);
                }
            }
            let found = crashes.counts();
            self.count(|counts| counts.duplicates += found.duplicates);
        }
        Ok(())
    }

    /// Checks one crash image.
    fn check_state(
        &self,
        image: &MemoryImage,
        history: &History,
        (step, torn): (Step, bool),
        plan: &Plan,
    ) -> Result<(), Failure> {
        self.count(|counts| {
            counts.states += 1;
            counts.nested_states += u64::from(plan.nesting > 0);
        });
        let checked = panics::catch(|| {
            let device = Arc::new(MemoryDevice::from_image(image));
            let (mounted, tree) = self.mount_and_walk(device.clone(), plan)?;
            let survivor = history.survivor(&tree, step, torn);
            let mut model = survivor.map_err(|error| Failure::new(Promise::Contract, error))?;
            model.close_all();
            model.settle();
            Ok((device, mounted, tree, model))
        });
        let checked = checked.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)));
        let (device, mounted, tree, model) = checked?;
        let lot = mix(self.counts().states, plan.seed);
        if lot.is_multiple_of(plan.older_one_in) {
            let seen = panics::catch(|| self.look_from_older_checkpoint(image, &tree));
            seen.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)))?;
        }
        if lot.is_multiple_of(plan.afterwards_one_in) {
            self.count(|counts| counts.afterwards += 1);
            let used =
                panics::catch(|| self.use_further(image, &device, mounted, &tree, &model, plan));
            used.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)))?;
        } else {
            drop(mounted);
        }
        if plan.depth > 1 && (lot >> 20).is_multiple_of(plan.nested_one_in) {
            self.crash_again(image, model, &plan.deeper(lot))?;
        }
        Ok(())
    }

    pub(crate) fn mount_and_walk(
        &self,
        device: Arc<dyn Device>,
        plan: &Plan,
    ) -> Result<(Box<dyn Mounted>, Tree), Failure> {
        let fail = |text: String| Failure::new(Promise::Mount, text);
        let mounted = self.subject.mount(device, new_clock(), mix(plan.seed, 99));
        let mounted = mounted.map_err(|error| fail(format!("mount: {error}")))?;
        if let Some(reason) = mounted.read_only() {
            return Err(fail(format!("mounted read-only: {reason}")));
        }
        if let Some(damage) = mounted.damage().first() {
            return Err(fail(format!("reported as damaged: {damage}")));
        }
        let tree = tree::walk(&*mounted, Bounds::default()).map_err(fail)?;
        let usage = mounted.usage();
        if usage.inodes != tree.inodes {
            let (used, reached) = (usage.inodes, tree.inodes);
            let text = format!("{used} inodes in use, {reached} reached by names");
            return Err(Failure::new(Promise::Leak, text));
        }
        Ok((mounted, tree))
    }

    /// Runs the offline check on the image in `device`.
    pub(crate) fn check_offline(&self, device: &MemoryDevice, when: &str) -> Result<(), Failure> {
        let copy = MemoryDevice::from_image(&device.snapshot());
        match self.subject.check(Arc::new(copy)).first() {
            None => Ok(()),
            Some(error) => Err(Failure::new(
                Promise::Check,
                format!("check {when}: {error}"),
            )),
        }
    }

    /// Checks that a read-only mount shows the same tree and writes nothing.
    fn look_without_writing(&self, image: &MemoryImage, tree: &Tree) -> Result<(), Failure> {
        let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(image)));
        let Some(mounted) = self.subject.mount_read_only(recorder.clone(), new_clock()) else {
            return Ok(());
        };
        let fail = |text: String| Failure::new(Promise::Again, format!("read-only: {text}"));
        let mounted = mounted.map_err(|error| fail(format!("mount: {error}")))?;
        let seen = tree::walk(&*mounted, Bounds::default()).map_err(fail)?;
        same_tree(tree, &seen, "read-only")?;
        let _ = mounted.unmount();
        drop(mounted);
        match recorder.len() {
            0 => Ok(()),
            count => Err(fail(format!("{count} writes, flushes or discards"))),
        }
    }

    /// Checks that the older checkpoint leads to the same tree.
    fn look_from_older_checkpoint(&self, image: &MemoryImage, tree: &Tree) -> Result<(), Failure> {
        let Some(image) = self.subject.without_newest_checkpoint(image) else {
            return Ok(());
        };
        let device = Arc::new(MemoryDevice::from_image(&image));
        let Some(mounted) = self.subject.mount_read_only(device, new_clock()) else {
            return Ok(());
        };
        let when = "from the older checkpoint";
        let fail = |text: String| Failure::new(Promise::Again, format!("{when}: {text}"));
        let mounted = mounted.map_err(|error| fail(format!("mount: {error}")))?;
        if let Some(damage) = mounted.damage().first() {
            return Err(fail(damage.clone()));
        }
        let seen = tree::walk(&*mounted, Bounds::default()).map_err(fail)?;
        same_tree(tree, &seen, when)
    }

    /// Checks the recovered volume, kills the process, mounts, works, and mounts again.
    fn use_further(
        &self,
        image: &MemoryImage,
        device: &Arc<MemoryDevice>,
        mounted: Box<dyn Mounted>,
        tree: &Tree,
        model: &Model,
        plan: &Plan,
    ) -> Result<(), Failure> {
        let raw = MemoryDevice::from_image(image);
        self.check_offline(&raw, "of the crash image")?;
        self.check_offline(device, "after recovery")?;
        self.look_without_writing(image, tree)?;
        // The process is killed: its writes remain.
        let dead = Arc::new(MemoryDevice::from_image(&device.snapshot()));
        drop(mounted);
        let (mounted, again) = self.mount_and_walk(dead.clone(), plan)?;
        same_tree(tree, &again, "mounted again")?;
        let mut runner = Runner::new(mounted, new_clock(), model.clone());
        runner.may_be_full = plan.may_be_full;
        let mut random = Random::new(mix(plan.seed, self.counts().states));
        let mut generator = Generator::on(
            plan.profile.clone(),
            Random::new(random.word()),
            model.clone(),
        );
        let mut operations = generator.take(4);
        operations.extend(story(
            "create after; write after 0+5000 #3; fsync after; sync",
        ));
        let told = operations.iter().map(ToString::to_string);
        let told = format!("after recovery: [{}]", told.collect::<Vec<_>>().join("; "));
        let fail = |text: String| Failure::new(Promise::Afterwards, text).context(told.clone());
        for operation in &operations {
            let outcome = match operation {
                Operation::Kill | Operation::Remount => Ok(Err(Refusal::Skip)),
                _ => runner.step(operation),
            };
            let _ = outcome.map_err(fail)?;
        }
        runner.verify().map_err(fail)?;
        let unmounted = runner.mounted().unmount();
        unmounted.map_err(|error| fail(format!("unmount: {error}")))?;
        let mut expected = runner.model.clone();
        expected.close_all();
        drop(runner);
        self.check_offline(&dead, "after unmount")
            .map_err(|failure| failure.context(told.clone()))?;
        let (mounted, _) = self.mount_and_walk(dead, plan)?;
        let runner = Runner::new(mounted, new_clock(), expected);
        runner
            .verify()
            .map_err(|text| fail(format!("remounted: {text}")))
    }

    /// Records the recovery of `image` and a short workload after it, and explores all
    /// crashes of that.
    fn crash_again(&self, image: &MemoryImage, model: Model, plan: &Plan) -> Result<(), Failure> {
        let drawn;
        let operations = match &plan.second_life {
            Some(operations) => operations,
            None => {
                let mut random = Random::new(plan.seed);
                let length = random.below(6);
                let generator = Random::new(random.word());
                drawn = Generator::on(plan.profile.clone(), generator, model.clone()).take(length);
                &drawn
            }
        };
        let life = self.live(image, model, operations, plan);
        let explored = life.and_then(|recorded| self.explore_trace(image, &recorded, plan));
        explored.map_err(|failure| {
            let told: Vec<String> = operations.iter().map(ToString::to_string).collect();
            failure.context(format!("then recovered, then [{}], then:", told.join("; ")))
        })
    }
}

/// Compares names and contents of two trees of one volume.
pub(crate) fn same_tree(first: &Tree, second: &Tree, when: &str) -> Result<(), Failure> {
    let fail = |text: String| Err(Failure::new(Promise::Again, format!("{when}: {text}")));
    if first.lines != second.lines {
        return fail(tree::differences(&first.lines, &second.lines));
    }
    for (one, other) in first.files.iter().zip(&second.files) {
        if one.bytes != other.bytes {
            return fail(format!("{}: other content", first.lines[one.line]));
        }
    }
    Ok(())
}
