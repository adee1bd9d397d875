//! A small volume, everything that can wait on its device a chance to be
//! overtaken, and the choice of schedules.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};
use varve_device::sync::thread::{self, JoinHandle};
use varve_device::{
    CrashExplorer, Device, Event, Geometry, Limits, MemoryDevice, MemoryImage, RecordingDevice,
    Result,
};
use varve_fs::{Caller, FileSystem, InodeNo, SetAttr};
use varve_lfs::Lfs;
use varve_prove::mounted::Subject;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::runner::new_clock;
use varve_prove::subjects::Log;

pub const BLOCK: usize = 4096;
/// Steps of one schedule: more are an endless loop.
const STEPS_MAX: usize = 2_000_000;

/// Runs `story` under `schedules` schedules: at every step any thread, or,
/// every other time, the one with the highest of random priorities, which
/// change a few times.
pub fn explore(test: &str, schedules: u64, story: fn()) {
    let seed = announce_seed(&format!("--features shuttle {test}"), 1);
    run(seed, scaled(schedules), story);
}

/// [`explore`] with a seed, and exactly so many schedules.
pub fn run(seed: u64, schedules: u64, story: impl Fn() + Clone + Send + Sync + 'static) {
    let half = schedules.div_ceil(2) as usize;
    run_with(PctScheduler::new_from_seed(seed, 4, half), story.clone());
    run_with(RandomScheduler::new_from_seed(seed, half), story);
}

fn run_with(scheduler: impl Scheduler + 'static, story: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None; // the seed repeats it
    config.silence_warnings = true; // about weaker orderings: all are one here
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    Runner::new(scheduler, config).run(story);
}

/// Gives others a chance to run before and after every request. Counting is
/// a step of its own to the checker; to yield would ask it to run them.
#[derive(Debug)]
struct Overtaken {
    inner: MemoryDevice,
    requests: AtomicU64,
}

impl Overtaken {
    fn pass<T>(&self, request: impl FnOnce(&MemoryDevice) -> T) -> T {
        self.requests.fetch_add(1, SeqCst);
        let answer = request(&self.inner);
        self.requests.fetch_add(1, SeqCst);
        answer
    }
}

impl Device for Overtaken {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.pass(|inner| inner.read(offset, buffer))
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.pass(|inner| inner.write(offset, buffers))
    }

    fn flush(&self) -> Result<()> {
        self.pass(MemoryDevice::flush)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.pass(|inner| inner.discard(offset, length))
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

/// A mounted volume with threads of its own.
pub struct Stage {
    log: Log,
    base: MemoryImage,
    recorder: Arc<RecordingDevice<Overtaken>>,
    pub system: Arc<FileSystem<Arc<Lfs>>>,
}

impl Stage {
    /// A volume of 8 MiB.
    pub fn new(write_threads: usize, read_ahead_threads: usize) -> Self {
        Self::sized(8 << 20, write_threads, read_ahead_threads)
    }

    pub fn sized(device_bytes: u64, write_threads: usize, read_ahead_threads: usize) -> Self {
        Self::with(device_bytes, |log| {
            log.mount.write_threads = write_threads;
            log.options.read_ahead_threads = read_ahead_threads;
        })
    }

    /// With threads that fetch windows of the log ahead, and no others.
    pub fn reading(device_bytes: u64, read_threads: usize) -> Self {
        Self::with(device_bytes, |log| log.mount.read_threads = read_threads)
    }

    fn with(device_bytes: u64, set: impl FnOnce(&mut Log)) -> Self {
        let mut log = Log {
            device_bytes,
            ..Log::default()
        };
        let device = Arc::new(MemoryDevice::new(log.device_bytes));
        log.format(device.clone(), new_clock()).unwrap();
        set(&mut log);
        Self::on(log, &device.snapshot())
    }

    fn on(log: Log, image: &MemoryImage) -> Self {
        let device = Overtaken {
            inner: MemoryDevice::from_image(image),
            requests: AtomicU64::new(0),
        };
        let recorder = Arc::new(RecordingDevice::new(device));
        let system = log.system(recorder.clone(), new_clock(), 1).unwrap();
        Stage {
            log,
            base: image.clone(),
            recorder,
            system: Arc::new(system),
        }
    }

    /// Starts a thread that works on this file system.
    pub fn spawn(
        &self,
        work: impl FnOnce(&FileSystem<Arc<Lfs>>, &dyn Fn(u64)) + Send + 'static,
    ) -> JoinHandle<()> {
        let (system, recorder) = (Arc::clone(&self.system), Arc::clone(&self.recorder));
        thread::spawn(move || work(&system, &|mark| recorder.mark(mark)))
    }

    /// What a power cut right after each mark leaves at least: `look` gets the
    /// marks so far, and the volume as mounted then.
    pub fn cut_at_marks(self, look: impl Fn(&[u64], &FileSystem<Arc<Lfs>>)) {
        drop(self.system); // as the process would, in the middle of everything
        let trace = self.recorder.take_trace();
        let mut crashes = CrashExplorer::new(&self.base, &trace, 4096, Limits::whole_writes());
        for (index, event) in trace.iter().enumerate() {
            if !matches!(event, Event::Mark(_)) {
                continue;
            }
            crashes.advance(index + 1);
            let marks: Vec<u64> = crashes.marks(index + 1).collect();
            let device = Arc::new(MemoryDevice::from_image(crashes.durable()));
            let system = self.log.system(device, new_clock(), 2).unwrap();
            look(&marks, &system);
        }
    }

    /// The server dies, and the next finds everything that had been written:
    /// the check finds nothing, before and after.
    pub fn remount(self) -> Self {
        drop(self.system);
        let image = self.recorder.inner().inner.snapshot();
        self.log.assert_sound(&image);
        Self::on(self.log, &image)
    }

    /// Unmounts and checks everything.
    pub fn finish(self) {
        self.system.unmount().unwrap();
        self.system.layout().unmount().unwrap();
        drop(self.system);
        self.log
            .assert_sound(&self.recorder.inner().inner.snapshot());
    }
}

trait Sound {
    fn assert_sound(&self, image: &MemoryImage);
}

impl Sound for Log {
    fn assert_sound(&self, image: &MemoryImage) {
        let errors = self.check(Arc::new(MemoryDevice::from_image(image)));
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

pub fn create(system: &FileSystem<Arc<Lfs>>, name: &str) -> InodeNo {
    let (caller, name) = (Caller::root(), name.as_bytes());
    let made = system.mknod(&caller, InodeNo::ROOT, name, 0o644, 0);
    made.unwrap().ino
}

pub fn unlink(system: &FileSystem<Arc<Lfs>>, name: &str) {
    let (caller, name) = (Caller::root(), name.as_bytes());
    system.unlink(&caller, InodeNo::ROOT, name).unwrap();
}

pub fn find(system: &FileSystem<Arc<Lfs>>, name: &str) -> Option<InodeNo> {
    let (caller, name) = (Caller::root(), name.as_bytes());
    let found = system.lookup(&caller, InodeNo::ROOT, name);
    found.ok().map(|attr| attr.ino)
}

/// Writes `blocks` blocks, every byte of which is `version`.
pub fn fill(system: &FileSystem<Arc<Lfs>>, ino: InodeNo, blocks: usize, version: u8) {
    let data = vec![version; blocks * BLOCK];
    let written = system.write(&Caller::root(), ino, 0, &data);
    assert_eq!(written.unwrap(), data.len());
}

pub fn resize(system: &FileSystem<Arc<Lfs>>, ino: InodeNo, size: u64) {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    system.setattr(&Caller::root(), ino, &set).unwrap();
}

pub fn fsync(system: &FileSystem<Arc<Lfs>>, ino: InodeNo) {
    system.fsync(ino, false).unwrap();
}

/// The version in each block; every byte of a block must be of one.
pub fn versions(system: &FileSystem<Arc<Lfs>>, ino: InodeNo, blocks: usize) -> Vec<u8> {
    let mut data = vec![0xee; blocks * BLOCK];
    let read = system.read(ino, 0, &mut data).unwrap();
    let uniform = |block: &[u8]| {
        let torn = block.iter().any(|byte| *byte != block[0]);
        assert!(!torn, "a block of two versions");
        block[0]
    };
    data[..read].chunks(BLOCK).map(uniform).collect()
}
