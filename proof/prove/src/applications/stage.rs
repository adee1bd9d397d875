//! The mount: a volume in memory whose device is recorded, served to the kernel by this
//! process, and a disturber.
//!
//! The *disturber* writes back, checkpoints and cleans at random moments, like the
//! threads of a server, and the clock of the file system runs fast: work that is due
//! after half a minute is due after milliseconds.
//!
//! A process must not map files of its own mount (see `varve-fuse`); programs that do run
//! as separate processes.

use super::{Application, Diary, Extent, Note, State, sync_directory};
use crate::explorer::mix;
use crate::failure::{Failure, Promise};
use crate::mounted::Subject;
use crate::random::Random;
use crate::runner::new_clock;
use crate::subjects::{Log, clean};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use varve_device::{Clock, Event, HostClock, MemoryDevice, MemoryImage, RecordingDevice};
use varve_fs::{Error, FileSystem, Layout, Options};
use varve_fuse::{End, MountOptions, Session, Unmounter};
use varve_lfs::Lfs;

const DEVICE_BYTES: u64 = 16 << 20;
/// Longest wait for a mount in use at the end.
const GRACE: Duration = Duration::from_secs(10);
/// Mark of a complete and durable preparation.
const PREPARED: u64 = 0;

/// Speed of the file system's clock relative to the host's.
const HURRY: u64 = 5000;

/// A fast clock, on which everything is soon overdue.
#[derive(Debug, Default)]
struct HurriedClock(HostClock);

impl Clock for HurriedClock {
    fn now_ns(&self) -> i64 {
        self.0.now_ns()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns().saturating_mul(HURRY)
    }
}

/// Recording of an application's run.
pub(super) struct Recorded {
    /// The volume that it used.
    pub subject: Log,
    /// The device before the first mount.
    pub base: MemoryImage,
    pub trace: Vec<Event>,
    /// The state after the preparation, and after each step.
    pub states: Vec<State>,
}

/// Returns the tag of a note in the trace.
fn tag(note: Note) -> u64 {
    match note {
        Note::Done(steps) => 2 * steps + 1,
        Note::Durable(steps) => 2 * steps + 2,
    }
}

/// Returns the first and last step that may be the last after a crash; `None` if the
/// preparation was not complete.
pub(super) fn allowed(marks: impl Iterator<Item = u64>, states: usize) -> Option<(usize, usize)> {
    let (mut prepared, mut durable, mut done) = (false, 0, 0);
    for mark in marks {
        prepared |= mark == PREPARED;
        match mark.checked_sub(1) {
            None => {}
            Some(even) if even % 2 == 0 => done = done.max(even / 2),
            Some(odd) => {
                durable = odd / 2;
                done = done.max(durable);
            }
        }
    }
    // One more step was running.
    let last = (done as usize + 1).min(states - 1);
    prepared.then_some((durable as usize, last))
}

/// Returns the log on which applications run.
fn subject(application: &dyn Application) -> Log {
    Log {
        device_bytes: DEVICE_BYTES,
        options: Options {
            cache_bytes: 4 << 20,
            strict_order: application.strict_order(),
            keep_written: false,
            read_ahead_threads: 1,
            ..Options::default()
        },
        ..Log::default()
    }
}

/// Runs the application from beginning to end.
pub(super) fn record(application: &dyn Application, extent: &Extent) -> Result<Recorded, Failure> {
    let subject = subject(application);
    let device = Arc::new(MemoryDevice::new(subject.device_bytes));
    let stopped = |what: &'static str| {
        move |error: Error| Failure::new(Promise::Mount, format!("{what}: {error}"))
    };
    subject
        .format(device.clone(), new_clock())
        .map_err(stopped("format"))?;
    let base = device.snapshot();
    let recorder = Arc::new(RecordingDevice::new(device));
    let mut mount = subject.mount.clone();
    mount.write_threads = 2;
    let subject_live = Log {
        mount,
        ..subject.clone()
    };
    let system = subject_live
        .system(
            recorder.clone(),
            Arc::new(HurriedClock::default()),
            extent.seed,
        )
        .map_err(stopped("mount"))?;
    let failed = |error: String| Failure::new(Promise::Reference, error);
    let stage = Stage::new(Arc::new(system), application).map_err(failed)?;
    let outcome = perform(application, extent, &stage, &recorder);
    let ended = stage.end();
    let states = outcome.map_err(failed)?;
    ended.map_err(failed)?;
    Ok(Recorded {
        subject,
        base,
        trace: recorder.take_trace(),
        states,
    })
}

fn perform<D: varve_device::Device>(
    application: &dyn Application,
    extent: &Extent,
    stage: &Stage,
    recorder: &RecordingDevice<D>,
) -> Result<Vec<State>, String> {
    let dir = stage.dir().join("files");
    std::fs::create_dir(&dir).map_err(super::at("make", &dir))?;
    let first = application.prepare(&dir)?;
    sync_directory(&dir)?;
    recorder.mark(PREPARED);
    let mut note = |note| recorder.mark(tag(note));
    let mut diary = Diary::new(first, &mut note);
    let disturber = Disturber::start(Arc::clone(&stage.system), extent.seed);
    let mut random = Random::new(extent.seed);
    let worked = application.work(&dir, extent.steps, &mut random, &mut diary);
    disturber.stop()?;
    worked?;
    assert_eq!(diary.steps(), extent.steps, "{}", application.name());
    Ok(diary.states)
}

/// A mount served by this process; unmounted when dropped.
struct Stage {
    system: Arc<FileSystem<Lfs>>,
    unmounter: Unmounter,
    server: Option<JoinHandle<std::io::Result<End>>>,
    mountpoint: TempDir,
}

impl Stage {
    fn new(system: Arc<FileSystem<Lfs>>, application: &dyn Application) -> Result<Self, String> {
        let mountpoint = tempfile::Builder::new().prefix("varve-prove-").tempdir();
        let mountpoint = mountpoint.map_err(|error| format!("make a mount point: {error}"))?;
        let options = MountOptions {
            strict_order: application.strict_order(),
            ..MountOptions::default()
        };
        let session = Session::new(Arc::clone(&system), mountpoint.path(), options)
            .map_err(super::at("mount at", mountpoint.path()))?;
        let unmounter = session.unmounter();
        let server = std::thread::spawn(move || session.run());
        Ok(Stage {
            system,
            unmounter,
            server: Some(server),
            mountpoint,
        })
    }

    fn dir(&self) -> &Path {
        self.mountpoint.path()
    }

    /// Unmounts and closes the volume.
    fn end(mut self) -> Result<(), String> {
        let shut = self.unmounter.shut_down(GRACE);
        shut.map_err(|error| format!("unmount: {error}"))?;
        let ended = self.server.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Ok(End::Unmounted))) => {}
            other => return Err(format!("the server ended with {other:?}")),
        }
        let unmounted = self.system.layout().unmount();
        unmounted.map_err(|error| format!("close: {error}"))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let _ = self.unmounter.shut_down(Duration::ZERO);
            let _ = server.join();
        }
    }
}

/// Does the work of a server's threads at random moments.
struct Disturber {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Disturber {
    fn start(system: Arc<FileSystem<Lfs>>, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut random = Random::new(mix(seed, 5));
            while !stopping.load(Relaxed) {
                std::thread::sleep(Duration::from_micros(200 + random.below(3000)));
                let outcome = match random.below(12) {
                    0 => system.layout().checkpoint(),
                    1 | 2 => clean(&system),
                    3 | 4 => system.maintain(),
                    _ => system.write_back().map(|_| ()),
                };
                match outcome {
                    Ok(()) | Err(Error::NoSpace) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        Disturber { stop, thread }
    }

    fn stop(self) -> Result<(), String> {
        self.stop.store(true, Relaxed);
        match self.thread.join() {
            Ok(outcome) => outcome.map_err(|error| format!("beside the application: {error}")),
            Err(_) => Err("beside the application: a panic".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_owed_once_durable_and_allowed_once_begun() {
        let notes = [
            Note::Done(1),
            Note::Done(2),
            Note::Durable(2),
            Note::Done(3),
        ];
        let marks: Vec<u64> = [PREPARED].into_iter().chain(notes.map(tag)).collect();
        let after = |count: usize| allowed(marks[..count].iter().copied(), 5);
        assert_eq!(after(0), None);
        assert_eq!(after(1), Some((0, 1)));
        assert_eq!(after(2), Some((0, 2)));
        assert_eq!(after(3), Some((0, 3)));
        assert_eq!(after(4), Some((2, 3)));
        assert_eq!(after(5), Some((2, 4)));
        assert_eq!(allowed([0, 8].into_iter(), 4), Some((3, 3)));
    }
}
