//! Devices with faults: the result is an error or right data, never wrong data, never a
//! panic.
//!
//! A workload runs on a device with planned faults; then the device is repaired and
//! mounted again, with and without a power cut in between. These rules are checked:
//!
//! - an operation returns the model's result, or fails with EIO, EROFS, or ENOSPC (if the
//!   device reported that). An operation that failed so may have happened or not: both
//!   *branches* are followed;
//! - everything read, then and after the remount, agrees with some branch;
//! - if the device reported all faults as errors, the remount fulfils the whole contract:
//!   it mounts, and everything acknowledged is present;
//! - if some faults were silent (lies, lost, misdirected or decayed writes), a mount may
//!   be refused and reads may fail, but data that is read was written: at any one moment
//!   that the tree had, or, if damage is reported, file by file.

mod decay;
mod run;

use crate::contract::History;
pub use decay::Decay;
use run::{Branch, EIO, EROFS, Run};

use crate::explorer::mix;
use crate::failure::{Failure, Promise};
use crate::model::Model;
use crate::model::errno::ENOSPC;
use crate::mounted::Subject;
use crate::operation::Operation;
use crate::panics;
use crate::runner::{Runner, new_clock};
use crate::switch::SwitchedDevice;
use std::sync::Arc;
use varve_device::{Device, Fault, FaultDevice, FaultKind, FaultReport, MemoryDevice, MemoryImage};

/// Counts of several attacks.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of runs.
    pub runs: u64,
    /// Runs in which a fault occurred.
    pub struck: u64,
    /// Number of faults by kind.
    pub injected: FaultReport,
    /// Operations that failed because of a fault.
    pub failed_operations: u64,
    /// Remounts that were refused, read-only, or reported damage.
    pub damage_reported: u64,
    /// Remounts after which something could not be read.
    pub unreadable: u64,
    /// Remounts that showed the newest tree.
    pub intact: u64,
    /// Remounts that showed an older tree without a report.
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

/// Attacks one subject with faults.
pub struct Attack<'a, S: Subject + ?Sized> {
    /// The subject.
    pub subject: &'a S,
    /// Seed of the choices that faults leave open.
    pub seed: u64,
    /// Bytes per block of the file system.
    pub block_bytes: u64,
}

impl<S: Subject + ?Sized> Attack<'_, S> {
    /// Returns the number of reads, writes and flushes of the workload without faults,
    /// including the mount.
    ///
    /// # Errors
    /// If the workload fails without faults.
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

    /// Runs the workload on a fresh volume with the given faults.
    ///
    /// # Errors
    /// If wrong data was read, or the contract broken.
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

    /// Runs every kind of fault at every `stride`th request at which it can occur, from
    /// number `from` on, once and sticky; each tally is passed to `told`.
    ///
    /// # Errors
    /// The same as [`Attack::attack`].
    pub fn attack_everywhere(
        &self,
        operations: &[Operation],
        kinds: &[FaultKind],
        (from, stride): (u64, u64),
        told: &mut dyn FnMut(FaultKind, &Tally),
    ) -> Result<(), Failure> {
        let requests = self
            .requests(operations)
            .map_err(|failure| failure.context("without faults"))?;
        for &kind in kinds {
            for skip in (from..matching(kind, requests)).step_by(stride as usize) {
                for fault in [Fault::once(kind), Fault::sticky(kind)] {
                    told(kind, &self.attack(operations, &[fault.after(skip)])?);
                }
            }
        }
        Ok(())
    }

    /// Returns the bytes that reads of `device` would now return.
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

    /// Mounts the repaired device.
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

/// The kinds of faults that a device reports.
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

/// The kinds of faults that only checksums can detect.
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

/// Returns the number of a workload's requests at which this kind of fault can occur.
pub fn matching(kind: FaultKind, requests: (u64, u64, u64)) -> u64 {
    use varve_device::Operation as D;
    match kind.operation() {
        Some(D::Read) => requests.0,
        Some(D::Write) => requests.1,
        Some(D::Flush) => requests.2,
        Some(D::Discard | D::Resize) => 0,
        None => requests.0 + requests.1 + requests.2,
    }
}
