//! A copy that follows its original (`docs/spec/stream.md`).
//!
//! A [`Ledger`] keeps the changes of groups in maps: the model of a replay. Original and
//! copy are compared with it inode by inode: all attributes, versions and times, the
//! extended attributes, the existing blocks with their states, and their content. The
//! original's tree also follows the model of the tree, and the copy mounts and shows it.
//!
//! For every image that a power cut may leave of a replay:
//! - its position is the end of a group of the original, and it equals the original
//!   there;
//! - its check finds nothing;
//! - for a share of them: the same stream, replayed again, brings it to the end.

mod course;

use crate::explorer::mix;
use crate::failure::{Failure, Promise};
use crate::generator::{Generator, Profile};
use crate::model::Model;
use crate::mounted::Subject;
use crate::operation::Operation;
use crate::panics;
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use crate::subjects::Log;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{
    CrashExplorer, Device, Event, Limits, MemoryDevice, MemoryImage, RecordingDevice,
};
use varve_lfs::format::{Mark, SummaryHeader};
use varve_lfs::shipping::{Record, Replay, Replayed, ShipError, StreamReader, record_flags};
use varve_lfs::{Lfs, MountOptions};

pub use course::{Course, File, Files, Ledger, files_of};
use course::{Outcome, because, failed};

/// A stream in parsed form.
pub struct Taken {
    /// The stream as it is shipped.
    pub bytes: Vec<u8>,
    /// The records.
    pub records: Vec<Record>,
}

/// Returns the stream of everything durable behind `since`.
///
/// # Errors
/// Errors of shipping.
pub fn take(lfs: &Lfs, since: Mark) -> Result<Taken, ShipError> {
    let mut shipper = lfs.ship(since)?;
    let mut bytes = Vec::new();
    shipper.header().write(&mut bytes).expect("into memory");
    let mut records = Vec::new();
    while let Some(record) = shipper.next_record()? {
        records.push(record);
    }
    records.push(shipper.end());
    for record in &records {
        record.write(&mut bytes).expect("into memory");
    }
    Ok(Taken { bytes, records })
}

/// Replays a stream onto a copy.
///
/// # Errors
/// Errors of replaying; earlier groups are on the device.
pub fn replay(
    device: Arc<dyn Device>,
    options: &MountOptions,
    stream: &[u8],
) -> Result<Replayed, ShipError> {
    let mut reader = StreamReader::new(stream)?;
    let mut replay = Replay::onto(device, new_clock(), options.clone(), reader.header())?;
    let mut fed = || -> Result<(), ShipError> {
        while let Some(record) = reader.next_record()? {
            replay.record(&record)?;
        }
        Ok(())
    };
    let outcome = fed();
    let done = replay.finish()?;
    outcome.map(|()| done)
}

/// Counts of a test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Groups that were shipped and replayed.
    pub groups: u64,
    /// Copies that were compared.
    pub compared: u64,
    /// Times that the log was lost and a new base was made.
    pub bases: u64,
    /// Crash images.
    pub states: u64,
    /// Streams that were replayed again on a crash image.
    pub again: u64,
}

/// An original in use, and its copy.
pub struct Pair<'a> {
    subject: &'a Log,
    profile: Profile,
    /// True if the log was lost, so that a new base is needed.
    lost: bool,
    seed: u64,
    random: Random,
    original: Arc<MemoryDevice>,
    model: Model,
    /// The copy.
    pub copy: MemoryImage,
    /// All states of the original.
    pub course: Course,
    followed: Mark,
    mark: Mark,
    counts: Counts,
}

impl<'a> Pair<'a> {
    /// Returns a new volume and its base.
    ///
    /// # Errors
    /// Errors of a mount.
    pub fn new(subject: &'a Log, seed: u64) -> Outcome<Self> {
        Pair::using(subject, Profile::crash(), seed)
    }

    /// Does the same for operations of a given profile.
    ///
    /// # Errors
    /// Errors of a mount.
    pub fn using(subject: &'a Log, profile: Profile, seed: u64) -> Outcome<Self> {
        let original = Arc::new(MemoryDevice::new(subject.device_bytes));
        let formatted = subject.format(original.clone(), new_clock());
        formatted.map_err(because("format"))?;
        let copy = original.snapshot();
        let superblock = Lfs::find_superblock(&*original).map_err(because("superblock"))?;
        let (block, inode) = (superblock.block_bytes.get(), superblock.inode_bytes.get());
        let mut pair = Pair {
            subject,
            seed,
            random: Random::new(seed),
            original,
            model: Model::new(profile.block_bytes),
            profile,
            lost: false,
            copy,
            course: Course::new(block, inode),
            followed: Mark::default(),
            mark: Mark::default(),
            counts: Counts::default(),
        };
        pair.mark = pair.mark_of_copy()?;
        Ok(pair)
    }

    fn mark_of_copy(&self) -> Outcome<Mark> {
        let device = Arc::new(MemoryDevice::from_image(&self.copy));
        let options = MountOptions {
            read_only: true,
            ..self.subject.mount.clone()
        };
        let lfs = Lfs::mount(device, new_clock(), options);
        Ok(lfs.map_err(because("the copy"))?.mark())
    }

    /// Mounts the original and runs `rounds` of random operations, cleaning and
    /// checkpoints, each followed by shipping and replaying.
    ///
    /// # Errors
    /// The first difference.
    pub fn live(&mut self, rounds: u64, operations: u64) -> Outcome<()> {
        let salt = self.random.word();
        let mounted = self
            .subject
            .mount_and_layout(self.original.clone(), new_clock(), salt);
        let (mounted, lfs) = mounted.map_err(because("mounting the original"))?;
        let mut runner = Runner::new(mounted, new_clock(), self.model.clone());
        runner.may_be_full = true;
        // The log kept for a shipper that reads nothing must not prevent anything.
        let idle = lfs.ship(lfs.mark()).map_err(because("an idle shipper"))?;
        for round in 0..rounds {
            let random = Random::new(self.random.word());
            let profile = self.profile.clone();
            let mut generator = Generator::on(profile, random, runner.model.clone());
            for operation in generator.take(operations) {
                if !matches!(operation, Operation::Kill | Operation::Remount) {
                    let _ = runner.step(&operation).map_err(failed)?;
                }
            }
            runner.mounted().sync().map_err(because("sync"))?;
            self.ship(&lfs)?;
            if round % 3 == 1 {
                lfs.checkpoints()
                    .take_checkpoint(false)
                    .map_err(because("checkpoint"))?;
            }
            self.course.is_now(&files_of(&lfs)?)?;
        }
        drop(idle);
        runner.verify().map_err(failed)?;
        match self.random.below(2) {
            0 => runner.mounted().unmount().map_err(because("unmount"))?,
            // The volume is left as it is, or with a checkpoint.
            _ if self.random.below(3) == 0 => lfs
                .checkpoints()
                .take_checkpoint(false)
                .map_err(because("checkpoint"))?,
            _ => {}
        }
        self.model = runner.model.clone();
        self.model.close_all();
        if std::mem::take(&mut self.lost) {
            self.counts.bases += 1;
            self.copy = self.original.snapshot();
            self.mark = self.mark_of_copy()?;
        }
        Ok(())
    }

    /// Adds everything durable to the ledger.
    fn keep_up(&mut self, lfs: &Lfs) -> Outcome<()> {
        let news = match take(lfs, self.followed) {
            // Like the copy, the ledger needs a new base.
            Err(ShipError::LogGone { mark, why }) => {
                // In other cases the summary exists, and the blocks that it describes do
                // not.
                if why.contains(&format!("partial segment {}", mark.serial + 1)) {
                    really_gone(lfs, &self.original.snapshot(), mark)?;
                }
                self.followed = lfs.mark();
                self.course.begin_anew(self.followed, files_of(lfs)?);
                return Ok(());
            }
            other => other.map_err(because("shipping to the ledger"))?,
        };
        self.course.follow(&news.records)?;
        let ends = |record: &&Record| record.header.has(record_flags::LAST);
        if let Some(last) = news.records.iter().rfind(ends) {
            self.followed = last.header.mark();
        }
        Ok(())
    }

    /// Returns a stream since `since`, from the original's image, which must not be
    /// mounted.
    ///
    /// # Errors
    /// Errors of shipping.
    pub fn shipped(&mut self, since: Mark) -> Outcome<Vec<u8>> {
        let options = MountOptions {
            read_only: true,
            ..self.subject.mount.clone()
        };
        let lfs = Lfs::mount(self.original.clone(), new_clock(), options);
        let lfs = lfs.map_err(because("the original"))?;
        self.keep_up(&lfs)?;
        Ok(take(&lfs, since).map_err(because("shipping"))?.bytes)
    }

    /// Ships the new part of the log, replays it, and compares.
    fn ship(&mut self, lfs: &Arc<Lfs>) -> Outcome<()> {
        self.keep_up(lfs)?;
        let taken = match take(lfs, self.mark) {
            Err(ShipError::LogGone { .. }) => {
                self.lost = true;
                return Ok(());
            }
            other => other.map_err(because("shipping"))?,
        };
        self.cut_short(&taken)?;
        let before = self.copy.clone();
        let device = Arc::new(MemoryDevice::from_image(&before));
        let done = replay(device.clone(), &self.options(), &taken.bytes);
        let done = done.map_err(because("replaying"))?;
        self.copy = device.snapshot();
        self.counts.groups += done.groups;
        self.counts.compared += 1;
        let mark = self.course.look(self.subject, &self.copy)?;
        if mark != self.followed || mark != done.to {
            return Err(failed(format!(
                "at {mark}, not {} or {}",
                self.followed, done.to
            )));
        }
        self.mark = mark;
        self.changes_nothing(&taken.bytes)
    }

    fn options(&self) -> MountOptions {
        MountOptions {
            seed: Some(mix(self.seed, self.counts.compared)),
            ..self.subject.mount.clone()
        }
    }

    /// Replays the same stream again, which must write nothing.
    fn changes_nothing(&self, stream: &[u8]) -> Outcome<()> {
        let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&self.copy)));
        let done = replay(recorder.clone(), &self.options(), stream);
        let done = done.map_err(because("replaying again"))?;
        match (done.groups, recorder.take_trace().len()) {
            (0, 0) => Ok(()),
            other => Err(failed(format!("replayed twice: {other:?}"))),
        }
    }

    /// Replays a part of the stream, which may end within a group.
    fn cut_short(&mut self, taken: &Taken) -> Outcome<()> {
        let bytes = self.random.below(taken.bytes.len() as u64) as usize;
        let device = Arc::new(MemoryDevice::from_image(&self.copy));
        match replay(device.clone(), &self.options(), &taken.bytes[..bytes]) {
            Err(ShipError::BadStream { .. } | ShipError::Unfit(_)) => {}
            other => return Err(failed(format!("a stream that is cut off: {other:?}"))),
        }
        self.counts.compared += 1;
        self.course.look(self.subject, &device.snapshot()).map(drop)
    }

    /// Mounts the copy and compares its tree.
    ///
    /// # Errors
    /// The first difference.
    pub fn show(&self) -> Outcome<()> {
        let device = Arc::new(MemoryDevice::from_image(&self.copy));
        let mounted = self.subject.mount(device.clone(), new_clock(), self.seed);
        let mounted = mounted.map_err(because("mounting the copy"))?;
        let mut runner = Runner::new(mounted, new_clock(), self.model.clone());
        runner.verify().map_err(because("the copy"))?;
        // The copy can be used by itself, and is no longer a copy after that.
        runner.may_be_full = true;
        let random = Random::new(self.seed);
        let operations = Generator::on(self.profile.clone(), random, self.model.clone()).take(20);
        for operation in operations {
            if !matches!(operation, Operation::Kill | Operation::Remount) {
                let _ = runner.step(&operation).map_err(failed)?;
            }
        }
        runner.verify().map_err(because("the copy at work"))?;
        runner.mounted().unmount().map_err(because("unmount"))?;
        match self.subject.check(device).first() {
            None => Ok(()),
            Some(error) => Err(Failure::new(Promise::Check, error.clone())),
        }
    }

    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the original's device.
    pub fn original(&self) -> &Arc<MemoryDevice> {
        &self.original
    }
}

/// Checks that no summary on the whole volume follows `mark`, except for those in
/// segments that were opened again since, whose beginning is lost.
fn really_gone(lfs: &Lfs, image: &MemoryImage, mark: Mark) -> Outcome<()> {
    let geometry = lfs.geometry_of_volume();
    let tag = lfs.superblock().volume_tag();
    let header_at = |byte: u64| {
        let mut bytes = vec![0; 4096];
        image.read(byte, &mut bytes);
        SummaryHeader::parse(&bytes, tag, byte / 512).ok()
    };
    for segment in 0..geometry.segment_count {
        let start = geometry.byte(segment, geometry.payload_start(segment));
        let end = geometry.byte(segment, 0) + u64::from(geometry.segment_bytes);
        let Some(first) = header_at(start) else {
            continue;
        };
        for at in (start..end).step_by(4096) {
            let follows = header_at(at).is_some_and(|header| {
                header.serial.get() == mark.serial + 1
                    && header.predecessor.get() == mark.check
                    && header.segment_incarnation == first.segment_incarnation
            });
            if follows {
                return Err(failed(format!("what follows {mark} stands at byte {at}")));
            }
        }
    }
    Ok(())
}

/// Replays `stream` onto `base`, and checks every state that a power cut may leave.
///
/// # Errors
/// The first fault.
pub fn explore(
    subject: &Log,
    base: &MemoryImage,
    stream: &[u8],
    course: &Course,
    (limits, unit, seed): (Limits, u32, u64),
) -> Outcome<Counts> {
    let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(base)));
    let options = MountOptions {
        seed: Some(seed),
        ..subject.mount.clone()
    };
    let done = replay(recorder.clone(), &options, stream).map_err(because("replaying"))?;
    let trace: Vec<Event> = recorder.take_trace();
    let mut counts = Counts::default();
    let mut crashes = CrashExplorer::new(base, &trace, unit, limits);
    let stops: Vec<usize> = crashes.stops().collect();
    for stop in stops {
        let flow = crashes.for_each(stop, seed, |image, description| {
            let mut look = || {
                counts.states += 1;
                course.look(subject, &image)?;
                if !mix(seed, counts.states).is_multiple_of(3) {
                    return Ok(());
                }
                counts.again += 1;
                let device = Arc::new(MemoryDevice::from_image(&image));
                let again = replay(device.clone(), &options, stream);
                let again = again.map_err(because("replaying after the cut"))?;
                let mark = course.look(subject, &device.snapshot())?;
                match mark == done.to && again.to == done.to {
                    true => Ok(()),
                    false => Err(failed(format!("it came to {mark}, not {}", done.to))),
                }
            };
            let looked = panics::catch(&mut look);
            match looked.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text))) {
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => ControlFlow::Break(failure.context(description.to_string())),
            }
        });
        if let ControlFlow::Break(failure) = flow {
            return Err(failure);
        }
    }
    counts.groups = done.groups;
    Ok(counts)
}
