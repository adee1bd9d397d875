//! A small volume, everything that can wait on its device a chance to be
//! overtaken, and the choice of schedules.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::io::IoSlice;
use std::str::FromStr;
use std::sync::Arc;
use varve_device::sync::atomic::{AtomicU64, Ordering::SeqCst};
use varve_device::sync::thread::{self, JoinHandle};
use varve_device::{
    Clock, CrashExplorer, Device, Event, Geometry, Limits, MemoryDevice, MemoryImage,
    RecordingDevice, Result, VirtualClock,
};
use varve_fs::{Caller, FileSystem, InodeNo, Options, SetAttr};
use varve_fsck::check::{CheckOptions, check};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

pub const BLOCK: usize = 4096;
/// Steps of one schedule: more are an endless loop.
const STEPS_MAX: usize = 2_000_000;

/// Runs `story` under `schedules` schedules: at every step any thread, or,
/// every other time, the one with the highest of random priorities, which
/// change a few times.
pub fn explore(test: &str, schedules: u64, story: fn()) {
    let seed = setting("VARVE_SEED", 1);
    eprintln!(
        "reproduce: VARVE_SEED={seed} cargo test -p varve-lfs --features shuttle,planted \
         --test schedules {test}"
    );
    let scaled = schedules as f64 * setting("VARVE_PROVE_SCALE", 1.0);
    run(seed, (scaled as u64).max(1), story);
}

fn setting<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => (text.parse().ok()).unwrap_or_else(|| panic!("{name}: {text:?} is no number")),
        Err(_) => default,
    }
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

fn new_clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_700_000_000_000_000_000, 1000))
}

/// How a volume is mounted: with little memory, and no threads but those that a story
/// asks for.
struct Mounting {
    log: MountOptions,
    system: Options,
}

impl Default for Mounting {
    fn default() -> Self {
        Mounting {
            log: MountOptions {
                cache_bytes: 1 << 20,
                checkpoint_bytes: 1 << 20,
                ..MountOptions::default()
            },
            system: Options {
                cache_bytes: 1 << 20,
                read_ahead_threads: 0,
                ..Options::default()
            },
        }
    }
}

impl Mounting {
    fn mount(&self, device: Arc<dyn Device>, seed: u64) -> FileSystem<Lfs> {
        let log = MountOptions {
            seed: Some(seed),
            ..self.log.clone()
        };
        let layout = Lfs::mount(device, new_clock(), log).unwrap();
        FileSystem::mount(Arc::new(layout), new_clock(), self.system.clone()).unwrap()
    }
}

/// An empty volume with segments as small as they may be.
fn format(device_bytes: u64) -> MemoryImage {
    let device = Arc::new(MemoryDevice::new(device_bytes));
    let options = FormatOptions {
        segment_bytes: 128 << 10,
        seed: Some(1),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*new_clock(), &options).unwrap();
    let log = MountOptions {
        seed: Some(0),
        ..Mounting::default().log
    };
    let layout = Lfs::mount(device.clone(), new_clock(), log).unwrap();
    FileSystem::format(&layout, &*new_clock(), (0, 0)).unwrap();
    layout.unmount().unwrap();
    device.snapshot()
}

fn assert_sound(image: &MemoryImage) {
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let device = Arc::new(MemoryDevice::from_image(image));
    let report = check(device, new_clock(), &options).unwrap();
    assert!(report.errors.is_empty(), "{:#?}", report.errors);
}

/// A mounted volume with threads of its own.
pub struct Stage {
    mounting: Mounting,
    base: MemoryImage,
    recorder: Arc<RecordingDevice<Overtaken>>,
    pub system: Arc<FileSystem<Lfs>>,
}

impl Stage {
    /// A volume of 8 MiB.
    pub fn new(write_threads: usize, read_ahead_threads: usize) -> Self {
        Self::sized(8 << 20, write_threads, read_ahead_threads)
    }

    pub fn sized(device_bytes: u64, write_threads: usize, read_ahead_threads: usize) -> Self {
        let mut mounting = Mounting::default();
        mounting.log.write_threads = write_threads;
        mounting.system.read_ahead_threads = read_ahead_threads;
        Self::on(mounting, &format(device_bytes))
    }

    /// With threads that fetch windows of the log ahead, and no others.
    pub fn reading(device_bytes: u64, read_threads: usize) -> Self {
        let mut mounting = Mounting::default();
        mounting.log.read_threads = read_threads;
        Self::on(mounting, &format(device_bytes))
    }

    fn on(mounting: Mounting, image: &MemoryImage) -> Self {
        let device = Overtaken {
            inner: MemoryDevice::from_image(image),
            requests: AtomicU64::new(0),
        };
        let recorder = Arc::new(RecordingDevice::new(device));
        let system = Arc::new(mounting.mount(recorder.clone(), 1));
        Stage {
            mounting,
            base: image.clone(),
            recorder,
            system,
        }
    }

    /// Starts a thread that works on this file system.
    pub fn spawn(
        &self,
        work: impl FnOnce(&FileSystem<Lfs>, &dyn Fn(u64)) + Send + 'static,
    ) -> JoinHandle<()> {
        let (system, recorder) = (Arc::clone(&self.system), Arc::clone(&self.recorder));
        thread::spawn(move || work(&system, &|mark| recorder.mark(mark)))
    }

    /// What a power cut right after each mark leaves at least: `look` gets the
    /// marks so far, and the volume as mounted then.
    pub fn cut_at_marks(self, look: impl Fn(&[u64], &FileSystem<Lfs>)) {
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
            look(&marks, &self.mounting.mount(device, 2));
        }
    }

    /// The server dies, and the next finds everything that had been written:
    /// the check finds nothing, before and after.
    pub fn remount(self) -> Self {
        drop(self.system);
        let image = self.recorder.inner().inner.snapshot();
        assert_sound(&image);
        Self::on(self.mounting, &image)
    }

    /// Unmounts and checks everything.
    pub fn finish(self) {
        self.system.unmount().unwrap();
        self.system.layout().unmount().unwrap();
        drop(self.system);
        assert_sound(&self.recorder.inner().inner.snapshot());
    }
}

pub fn create(system: &FileSystem<Lfs>, name: &str) -> InodeNo {
    let (caller, name) = (Caller::root(), name.as_bytes());
    let made = system.mknod(&caller, InodeNo::ROOT, name, 0o644, 0);
    made.unwrap().ino
}

pub fn unlink(system: &FileSystem<Lfs>, name: &str) {
    let (caller, name) = (Caller::root(), name.as_bytes());
    system.unlink(&caller, InodeNo::ROOT, name).unwrap();
}

pub fn find(system: &FileSystem<Lfs>, name: &str) -> Option<InodeNo> {
    let (caller, name) = (Caller::root(), name.as_bytes());
    let found = system.lookup(&caller, InodeNo::ROOT, name);
    found.ok().map(|attr| attr.ino)
}

/// Writes `blocks` blocks, every byte of which is `version`.
pub fn fill(system: &FileSystem<Lfs>, ino: InodeNo, blocks: usize, version: u8) {
    let data = vec![version; blocks * BLOCK];
    let written = system.write(&Caller::root(), ino, 0, &data);
    assert_eq!(written.unwrap(), data.len());
}

pub fn resize(system: &FileSystem<Lfs>, ino: InodeNo, size: u64) {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    system.setattr(&Caller::root(), ino, &set).unwrap();
}

pub fn fsync(system: &FileSystem<Lfs>, ino: InodeNo) {
    system.fsync(ino, false).unwrap();
}

/// The version in each block; every byte of a block must be of one.
pub fn versions(system: &FileSystem<Lfs>, ino: InodeNo, blocks: usize) -> Vec<u8> {
    let mut data = vec![0xee; blocks * BLOCK];
    let read = system.read(ino, 0, &mut data).unwrap();
    let uniform = |block: &[u8]| {
        let torn = block.iter().any(|byte| *byte != block[0]);
        assert!(!torn, "a block of two versions");
        block[0]
    };
    data[..read].chunks(BLOCK).map(uniform).collect()
}
