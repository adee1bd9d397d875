//! Devices that misbehave: an error or right data, never wrong data, never a
//! panic.
//!
//! A workload runs on a device with planned faults; then the device is mended
//! and mounted again, with and without a power cut between. What is held
//! against it:
//!
//! - an operation answers as the model does, or fails with EIO, EROFS, or
//!   (where the device said so) ENOSPC. What failed so may have happened or
//!   not: both *branches* are followed;
//! - what is read, then and after the remount, is what some branch holds;
//! - if the faults were all reported by the device as errors, the remount
//!   keeps the whole contract: it mounts, and what was acknowledged is there;
//! - if some were silent (lies, lost, misdirected, decayed), then a mount may
//!   be refused and reads may fail, but what is read was written: at any one
//!   moment the tree had, or, where damage is reported, file by file.

use crate::contract::{History, Step};
use crate::explorer::mix;
use crate::failure::{Failure, Promise};
use crate::model::errno::ENOSPC;
use crate::model::{Model, Refusal};
use crate::mounted::{Mounted, Subject};
use crate::operation::Operation;
use crate::panics;
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use crate::switch::SwitchedDevice;
use crate::tree::{self, Bounds, Trouble};
use std::sync::Arc;
use varve_device::{Device, Fault, FaultDevice, FaultKind, FaultReport, MemoryDevice, MemoryImage};

/// What came of a number of attacks.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Runs in which a fault struck.
    pub struck: u64,
    /// How often each kind did.
    pub injected: FaultReport,
    /// Operations that failed because of one.
    pub failed_operations: u64,
    /// Remounts refused, or read-only, or with damage reported.
    pub damage_reported: u64,
    /// Remounts at which something could not be read.
    pub unreadable: u64,
    /// Remounts that showed the newest tree.
    pub intact: u64,
    /// Remounts that showed an older one without a word.
    pub older: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.runs += other.runs;
        self.struck += other.struck;
        self.injected.add(&other.injected);
        self.failed_operations += other.failed_operations;
        self.damage_reported += other.damage_reported;
        self.unreadable += other.unreadable;
        self.intact += other.intact;
        self.older += other.older;
    }
}

/// Branches followed at most; a run with more ends early.
const BRANCHES: usize = 16;
/// Operations that fail before a run ends early.
const FAILURES: u64 = 8;

const EIO: i32 = 5;
const EROFS: i32 = 30;

/// One way in which what failed may have gone.
#[derive(Clone)]
struct Branch {
    model: Model,
    history: History,
}

/// Attacks one subject with faults.
pub struct Attack<'a, S: Subject + ?Sized> {
    /// What is attacked.
    pub subject: &'a S,
    /// Decides what faults leave open.
    pub seed: u64,
    /// Bytes in a block of the file system.
    pub block_bytes: u64,
}

struct Run<'a> {
    branches: Vec<Branch>,
    tally: Tally,
    operations: &'a [Operation],
    done: usize,
    silent: bool,
}

impl<S: Subject + ?Sized> Attack<'_, S> {
    /// How many reads, writes and flushes the workload makes when all is
    /// well, the mount included.
    ///
    /// # Errors
    /// If it fails without faults.
    pub fn requests(&self, operations: &[Operation]) -> Result<(u64, u64, u64), Failure> {
        let faulty = Arc::new(FaultDevice::new(self.formatted()?, self.seed));
        let before = faulty.inner().counters().snapshot();
        let mut run = self.start(operations, false);
        let clock = new_clock();
        let mounted = self
            .subject
            .mount(faulty.clone(), clock.clone(), mix(self.seed, 1));
        let mounted = mounted
            .map_err(|error| Failure::new(Promise::Mount, format!("first mount: {error}")))?;
        let mut runner = Runner::new(mounted, clock, Model::new(self.block_bytes));
        run.workload(&mut runner)?;
        run.look_at_living(runner.mounted())?;
        let after = faulty.inner().counters().snapshot();
        Ok((
            after.reads - before.reads,
            after.writes - before.writes,
            after.flushes - before.flushes,
        ))
    }

    fn start<'o>(&self, operations: &'o [Operation], silent: bool) -> Run<'o> {
        let mut model = Model::new(self.block_bytes);
        model.distrustful = silent;
        let history = History::new(model.clone());
        Run {
            branches: vec![Branch { model, history }],
            tally: Tally::default(),
            operations,
            done: 0,
            silent,
        }
    }

    fn formatted(&self) -> Result<MemoryDevice, Failure> {
        let device = Arc::new(MemoryDevice::new(self.subject.device_bytes()));
        let formatted = self.subject.format(device.clone(), new_clock());
        formatted.map_err(|error| Failure::new(Promise::Mount, format!("format: {error}")))?;
        Ok(MemoryDevice::from_image(&device.snapshot()))
    }

    /// Runs the workload on a fresh volume with the faults given.
    ///
    /// # Errors
    /// If wrong data was seen, or the contract broken.
    pub fn attack(&self, operations: &[Operation], faults: &[Fault]) -> Result<Tally, Failure> {
        let device = FaultDevice::new(self.formatted()?, self.seed);
        let device = Arc::new(device.with_volatile_cache());
        for fault in faults {
            device.inject(fault.clone());
        }
        let mut tally = Tally {
            runs: 1,
            ..Tally::default()
        };
        let attacked =
            panics::catch(|| self.attack_device(&device, operations, faults, &mut tally));
        let attacked = attacked.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)));
        let tell = || format!("faults {faults:?}, struck {:?}", device.injections());
        attacked.map_err(|failure| failure.context(tell()).during(operations))?;
        tally.injected = device.report();
        tally.struck += u64::from(tally.injected.total() > 0);
        Ok(tally)
    }

    fn attack_device(
        &self,
        device: &Arc<FaultDevice<MemoryDevice>>,
        operations: &[Operation],
        faults: &[Fault],
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let silent = faults
            .iter()
            .any(|fault| !fault.kind.is_reported() && fault.kind != FaultKind::Latency);
        let mut run = self.start(operations, silent);
        let switch = SwitchedDevice::new(device.clone());
        let clock = new_clock();
        match self
            .subject
            .mount(switch.clone(), clock.clone(), mix(self.seed, 1))
        {
            Ok(mounted) => {
                let mut runner = Runner::new(mounted, clock, run.branches[0].model.clone());
                run.workload(&mut runner)?;
                run.look_at_living(runner.mounted())?;
                switch.cut();
            }
            Err(error) if acceptable(error.errno(), faults) => run.tally.failed_operations += 1,
            Err(error) => {
                return Err(Failure::new(
                    Promise::Mount,
                    format!("first mount: {error}"),
                ));
            }
        }
        device.clear_faults();
        let kept = self.read_all(device)?;
        self.look_at_mended(&kept, &mut run, "without a power cut")?;
        if device.power_cut() > 0 {
            let kept = self.read_all(device)?;
            self.look_at_mended(&kept, &mut run, "after a power cut")?;
        }
        tally.add(&run.tally);
        Ok(())
    }

    /// The bytes that `device` would now deliver.
    fn read_all(&self, device: &FaultDevice<MemoryDevice>) -> Result<MemoryImage, Failure> {
        let mut image = device.inner().snapshot();
        let mut chunk = vec![0; 1 << 16];
        let mut old = chunk.clone();
        for offset in (0..device.geometry().size).step_by(chunk.len()) {
            let length = (device.geometry().size - offset).min(chunk.len() as u64) as usize;
            let read = device.read(offset, &mut chunk[..length]);
            read.map_err(|error| Failure::new(Promise::Reference, error.to_string()))?;
            image.read(offset, &mut old[..length]);
            if chunk[..length] != old[..length] {
                image.write(offset, &chunk[..length]);
            }
        }
        Ok(image)
    }

    /// Mounts the mended device.
    fn look_at_mended(
        &self,
        image: &MemoryImage,
        run: &mut Run<'_>,
        when: &str,
    ) -> Result<(), Failure> {
        let device = Arc::new(MemoryDevice::from_image(image));
        let mounted = self
            .subject
            .mount(device.clone(), new_clock(), mix(self.seed, 2));
        let looked = match mounted {
            Ok(mounted) => run.look_at_remounted(&*mounted),
            Err(_) if run.silent => {
                run.tally.damage_reported += 1;
                Ok(())
            }
            Err(error) => Err(Failure::new(Promise::Mount, format!("remount: {error}"))),
        };
        looked.map_err(|failure| failure.context(format!("mended, {when}")))?;
        let found = self.subject.check(device);
        match found.first() {
            Some(error) if !run.silent => {
                let text = format!("mended, {when}: check: {error}");
                Err(Failure::new(Promise::Check, text))
            }
            _ => Ok(()),
        }
    }
}

fn acceptable(errno: i32, faults: &[Fault]) -> bool {
    let full = faults.iter().any(|fault| fault.kind == FaultKind::NoSpace);
    !faults.is_empty() && (errno == EIO || errno == EROFS || (full && errno == ENOSPC))
}

impl Run<'_> {
    fn workload(&mut self, runner: &mut Runner) -> Result<(), Failure> {
        for (index, operation) in self.operations.iter().enumerate() {
            if matches!(operation, Operation::Kill | Operation::Remount) {
                self.push(operation, false);
                continue;
            }
            let skipped = self.branches[0].model.clone().apply(operation) == Err(Refusal::Skip);
            if skipped {
                self.push(operation, false);
                continue;
            }
            let real = panics::catch(|| runner.perform(operation));
            let real = real.map_err(|text| {
                Failure::new(
                    Promise::Panic,
                    format!("operation {index}, {operation}: {text}"),
                )
            })?;
            let answer = match real {
                Err(error) if matches!(error.errno(), EIO | EROFS | ENOSPC) => {
                    self.tally.failed_operations += 1;
                    self.fork(operation);
                    if self.branches.len() > BRANCHES || self.tally.failed_operations > FAILURES {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) => Err(Refusal::Errno(error.errno())),
                Ok(answer) => Ok(answer),
            };
            let mut followed = Vec::new();
            let mut expected = Vec::new();
            for mut branch in std::mem::take(&mut self.branches) {
                let outcome = branch.model.apply(operation);
                if outcome == answer {
                    branch
                        .history
                        .push(operation, branch.model.clone(), answer.is_ok());
                    followed.push(branch);
                } else {
                    expected.push(outcome);
                }
            }
            self.branches = followed;
            self.done += 1;
            if self.branches.is_empty() {
                let text = format!(
                    "operation {index}, {operation}: found {}, expected {}",
                    short(&answer),
                    expected.iter().map(short).collect::<Vec<_>>().join(" or ")
                );
                return Err(Failure::new(Promise::WrongData, text));
            }
        }
        Ok(())
    }

    /// An operation that changes nothing.
    fn push(&mut self, operation: &Operation, done: bool) {
        for branch in &mut self.branches {
            branch.history.push(operation, branch.model.clone(), done);
        }
        self.done += 1;
    }

    /// `operation` failed: it may have happened or not.
    fn fork(&mut self, operation: &Operation) {
        let mut happened = self.branches.clone();
        self.push(operation, false);
        if operation.promises_durability() {
            return; // it changes nothing but what is promised
        }
        happened.retain_mut(|branch| {
            let applied = branch.model.apply(operation).is_ok();
            branch.history.push(operation, branch.model.clone(), false);
            applied
        });
        self.branches.extend(happened);
    }

    /// The tree as it is in memory, with the faults still there.
    fn look_at_living(&mut self, mounted: &dyn Mounted) -> Result<(), Failure> {
        let tree = match tree::walk_damaged(mounted, Bounds::damaged()) {
            Ok(tree) => tree,
            Err(Trouble::Refused(_)) => return Ok(()),
            Err(Trouble::Disagrees(text)) => {
                return Err(Failure::new(Promise::WrongData, text).context("still mounted"));
            }
        };
        if !tree.unreadable.is_empty() {
            return Ok(());
        }
        let newest = |branch: &Branch| {
            let mut model = branch.model.clone();
            model.distrustful = false;
            model.settle();
            History::new(model).check(&tree, Step::START)
        };
        let mut errors = self.branches.iter().map(newest);
        if errors.any(|found| found.is_ok()) {
            return Ok(());
        }
        let error = self
            .branches
            .iter()
            .filter_map(|branch| newest(branch).err())
            .next();
        let error = error.unwrap_or_default();
        Err(Failure::new(Promise::WrongData, error).context("still mounted"))
    }

    fn look_at_remounted(&mut self, mounted: &dyn Mounted) -> Result<(), Failure> {
        let reported = mounted
            .read_only()
            .into_iter()
            .chain(mounted.damage())
            .next();
        if let Some(reason) = &reported
            && !self.silent
        {
            return Err(Failure::new(Promise::Mount, format!("remounted: {reason}")));
        }
        let tree = match tree::walk_damaged(mounted, Bounds::damaged()) {
            Ok(tree) => tree,
            Err(Trouble::Refused(_)) if self.silent => {
                self.tally.unreadable += 1;
                return Ok(());
            }
            Err(Trouble::Disagrees(_)) if self.silent && reported.is_some() => {
                self.tally.damage_reported += 1;
                return Ok(());
            }
            Err(trouble) => {
                return Err(Failure::new(Promise::WrongData, trouble.text()));
            }
        };
        self.tally.damage_reported += u64::from(reported.is_some());
        self.tally.unreadable += u64::from(!tree.unreadable.is_empty());
        if !self.silent
            && let Some(text) = tree.unreadable.first()
        {
            return Err(Failure::new(
                Promise::Contract,
                format!("unreadable: {text}"),
            ));
        }
        let step = self.done.checked_sub(1).map_or(Step::START, Step::returned);
        if reported.is_some() || !tree.unreadable.is_empty() {
            let fits = |branch: &Branch| branch.history.check_fragments(&tree);
            let mut found = self.branches.iter().map(fits);
            if found.any(|fits| fits.is_ok()) {
                return Ok(());
            }
            let error = self
                .branches
                .iter()
                .filter_map(|branch| fits(branch).err())
                .next();
            return Err(Failure::new(Promise::WrongData, error.unwrap_or_default()));
        }
        let checked: Vec<_> = self
            .branches
            .iter()
            .map(|branch| branch.history.check(&tree, step))
            .collect();
        if let Some(moment) = checked.iter().flatten().max() {
            self.tally.intact += u64::from(*moment == self.done);
            self.tally.older += u64::from(*moment < self.done);
            return Ok(());
        }
        let error = checked
            .into_iter()
            .filter_map(Result::err)
            .next()
            .unwrap_or_default();
        let promise = if self.silent {
            Promise::WrongData
        } else {
            Promise::Contract
        };
        Err(Failure::new(promise, error))
    }
}

fn short(outcome: &crate::model::Outcome) -> String {
    match outcome {
        Ok(crate::model::Answer::Bytes(bytes)) => crate::model::content::describe(bytes),
        other => format!("{other:?}"),
    }
}

/// The kinds that a device reports, each a broken promise of nobody's.
pub const REPORTED: [FaultKind; 8] = [
    FaultKind::ReadError,
    FaultKind::ShortRead,
    FaultKind::WriteError,
    FaultKind::NoSpace,
    FaultKind::TornWrite,
    FaultKind::FlushFails,
    FaultKind::FlushFailsLosing,
    FaultKind::DeadDevice,
];

/// The kinds that only checksums can find.
pub const SILENT: [FaultKind; 10] = [
    FaultKind::StaleRead,
    FaultKind::BitFlipOnRead,
    FaultKind::MisdirectedRead,
    FaultKind::SilentTornWrite,
    FaultKind::LostWrite,
    FaultKind::MisdirectedWrite,
    FaultKind::BitFlipAtRest,
    FaultKind::ZeroedSector,
    FaultKind::GarbageSector,
    FaultKind::FlushLies,
];

/// Requests of a workload, so that faults can strike each of them in turn.
pub fn matching(kind: FaultKind, requests: (u64, u64, u64)) -> u64 {
    use varve_device::Operation as D;
    match kind.operation() {
        Some(D::Read) => requests.0,
        Some(D::Write) => requests.1,
        Some(D::Flush) => requests.2,
        Some(D::Discard) => 0,
        None => requests.0 + requests.1 + requests.2,
    }
}

/// Decay: the image of an unmounted or a dead volume with one bit wrong.
pub struct Decay<'a, S: Subject + ?Sized> {
    attack: Attack<'a, S>,
    image: MemoryImage,
    history: History,
    /// Sectors that hold anything.
    sectors: Vec<u64>,
}

impl<'a, S: Subject + ?Sized> Decay<'a, S> {
    /// Runs the workload and keeps the image; with its last log unwritten if
    /// not `unmounted`.
    ///
    /// # Errors
    /// If the workload fails.
    pub fn new(
        attack: Attack<'a, S>,
        operations: &[Operation],
        unmounted: bool,
    ) -> Result<Self, Failure> {
        let device = Arc::new(attack.formatted()?);
        let mut model = Model::new(attack.block_bytes);
        model.distrustful = true;
        let mut history = History::new(model.clone());
        let clock = new_clock();
        let fail = |text: String| Failure::new(Promise::Reference, text).during(operations);
        let mounted = attack
            .subject
            .mount(device.clone(), clock.clone(), mix(attack.seed, 1));
        let mounted = mounted.map_err(|error| fail(format!("mount: {error}")))?;
        let mut runner = Runner::new(mounted, clock, model);
        for operation in operations {
            if matches!(operation, Operation::Kill | Operation::Remount) {
                continue;
            }
            let done = runner.step(operation).map_err(fail)?.is_ok();
            history.push(operation, runner.model.clone(), done);
        }
        if unmounted {
            runner
                .mounted()
                .unmount()
                .map_err(|error| fail(error.to_string()))?;
            let mut model = runner.model.clone();
            model.close_all();
            history.push(&Operation::Remount, model, true);
        }
        let image = device.snapshot();
        let mut sectors = Vec::new();
        let mut sector = [0; 512];
        for offset in (0..image.geometry().size).step_by(sector.len()) {
            image.read(offset, &mut sector);
            if sector.iter().any(|&byte| byte != 0) {
                sectors.push(offset);
            }
        }
        Ok(Decay {
            attack,
            image,
            history,
            sectors,
        })
    }

    /// Sectors that hold anything.
    pub fn sectors(&self) -> &[u64] {
        &self.sectors
    }

    /// Mounts and reads the image with one bit, drawn from `random`, wrong.
    ///
    /// # Errors
    /// If anything wrong is delivered as data, or anything panics.
    pub fn flip(&self, random: &mut Random, tally: &mut Tally) -> Result<(), Failure> {
        let at = random.pick(&self.sectors) + random.below(512);
        let bit = random.below(8);
        let mut image = self.image.clone();
        let mut byte = [0];
        image.read(at, &mut byte);
        image.write(at, &[byte[0] ^ (1 << bit)]);
        let told = format!("bit {bit} of the byte at {at} flipped");
        let looked = panics::catch(|| self.look(&image, tally));
        let looked = looked.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)));
        looked.map_err(|failure| failure.context(told))
    }

    fn look(&self, image: &MemoryImage, tally: &mut Tally) -> Result<(), Failure> {
        let mut run = Run {
            branches: vec![Branch {
                model: self.history.newest().clone(),
                history: self.history.clone(),
            }],
            tally: Tally {
                runs: 1,
                struck: 1,
                ..Tally::default()
            },
            operations: &[],
            done: self.history.len(),
            silent: true,
        };
        self.attack.look_at_mended(image, &mut run, "decayed")?;
        tally.add(&run.tally);
        Ok(())
    }
}
