//! A volume with a file system on it, and a workload.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options, Rename, SetAttr};
use varve_fsck::check::{CheckOptions, CheckReport, check};
use varve_lfs::policy::{Candidate, Measures, Policy, PolicyKind, Survivor, Write, emptiest};
use varve_lfs::{FormatOptions, Lfs, MAX_HEADS, MountOptions};

pub type System = FileSystem<Lfs>;

/// A mounted volume.
pub struct Volume<D = MemoryDevice> {
    pub device: Arc<D>,
    pub clock: Arc<VirtualClock>,
    pub lfs: Arc<Lfs>,
    pub system: System,
    caller: Caller,
}

/// Returns mount options. `VARVE_HEADS` runs the whole suite on volumes with this number
/// of heads.
pub fn mount_options(seed: u64) -> MountOptions {
    let heads = std::env::var("VARVE_HEADS").ok();
    let one_head = MountOptions {
        seed: Some(seed),
        cache_bytes: 1 << 20,
        ..MountOptions::default()
    };
    match heads.map(|heads| heads.parse().expect("VARVE_HEADS is a number")) {
        Some(heads) => with_heads(heads, one_head),
        None => one_head,
    }
}

/// A policy that uses as many heads as a log can have.
#[derive(Debug)]
struct Scattered;

impl Policy for Scattered {
    fn name(&self) -> &'static str {
        "scattered"
    }

    fn choose(&self, candidates: &[Candidate], _now_ns: i64, limit: usize) -> Vec<Candidate> {
        emptiest(candidates, limit)
    }

    fn heads(&mut self, _measures: &Measures) -> usize {
        MAX_HEADS - 1
    }

    fn place(&mut self, write: &Write) -> usize {
        write.block as usize % (MAX_HEADS - 1)
    }

    fn place_survivor(&mut self, survivor: &Survivor) -> usize {
        survivor.age as usize % (MAX_HEADS - 1)
    }
}

/// Mount options with which even a few blocks are worth a partial in another head.
pub fn with_heads(heads: u32, options: MountOptions) -> MountOptions {
    MountOptions {
        policy: PolicyKind::new("scattered", || Box::new(Scattered)),
        heads,
        head_bytes: 4096,
        ..options
    }
}

pub fn system_options() -> Options {
    Options {
        cache_bytes: 1 << 20,
        ..Options::default()
    }
}

/// Returns an empty, unmounted volume of `bytes` bytes.
pub fn formatted(bytes: u64, options: FormatOptions) -> (Arc<MemoryDevice>, Arc<VirtualClock>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let clock = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    let options = FormatOptions {
        seed: Some(7),
        ..options
    };
    Lfs::format(&*device, &*clock, &options).unwrap();
    let lfs = Lfs::mount(device.clone(), clock.clone(), mount_options(1)).unwrap();
    FileSystem::format(&lfs, &*clock, (0, 0)).unwrap();
    lfs.unmount().unwrap();
    (device, clock)
}

impl Volume<MemoryDevice> {
    pub fn new(bytes: u64) -> Volume {
        Volume::with(bytes, FormatOptions::default())
    }

    pub fn with(bytes: u64, options: FormatOptions) -> Volume {
        let (device, clock) = formatted(bytes, options);
        Volume::mount(device, clock, 2)
    }

    /// Simulates a crash of the server; writes that reached the device remain.
    pub fn crash(self, seed: u64) -> Volume {
        let device = Arc::new(MemoryDevice::from_image(&self.device.snapshot()));
        Volume::mount(device, self.clock, seed)
    }

    pub fn check(&self) -> CheckReport {
        checked(&self.device.snapshot().into(), true)
    }
}

impl<D: Device + 'static> Volume<D> {
    pub fn mount(device: Arc<D>, clock: Arc<VirtualClock>, seed: u64) -> Volume<D> {
        Volume::mount_as(device, clock, mount_options(seed))
    }

    pub fn mount_as(device: Arc<D>, clock: Arc<VirtualClock>, options: MountOptions) -> Volume<D> {
        let lfs = Lfs::mount(device.clone(), clock.clone(), options).unwrap();
        let lfs = Arc::new(lfs);
        let system = FileSystem::mount(lfs.clone(), clock.clone(), system_options()).unwrap();
        Volume {
            device,
            clock,
            lfs,
            system,
            caller: Caller::root(),
        }
    }

    pub fn unmount(&self) {
        self.system.unmount().unwrap();
        self.lfs.unmount().unwrap();
    }

    pub fn file(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.system
            .mknod(&self.caller, parent, name.as_bytes(), 0o644, 0)
            .unwrap()
            .ino
    }

    pub fn directory(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.system
            .mkdir(&self.caller, parent, name.as_bytes(), 0o755)
            .unwrap()
            .ino
    }

    pub fn symlink(&self, parent: InodeNo, name: &str, target: &str) -> InodeNo {
        self.system
            .symlink(&self.caller, parent, name.as_bytes(), target.as_bytes())
            .unwrap()
            .ino
    }

    pub fn link(&self, ino: InodeNo, parent: InodeNo, name: &str) {
        self.system
            .link(&self.caller, ino, parent, name.as_bytes())
            .unwrap();
    }

    pub fn write(&self, ino: InodeNo, offset: u64, data: &[u8]) {
        let done = self.system.write(&self.caller, ino, offset, data).unwrap();
        assert_eq!(done, data.len());
    }

    pub fn unlink(&self, parent: InodeNo, name: &str) {
        self.system
            .unlink(&self.caller, parent, name.as_bytes())
            .unwrap();
    }

    pub fn set_attribute(&self, ino: InodeNo, name: &str, value: &[u8]) {
        self.system
            .setxattr(&self.caller, ino, name.as_bytes(), value, false, false)
            .unwrap();
    }

    pub fn lookup(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.system
            .lookup(&self.caller, parent, name.as_bytes())
            .unwrap()
            .ino
    }

    /// Creates files of every kind.
    pub fn populate(&self) {
        let root = InodeNo::ROOT;
        let home = self.directory(root, "home");
        let deep = self.directory(home, "deep");
        for n in 0..20 {
            let file = self.file(home, &format!("file{n}"));
            self.write(file, 0, &pattern(n, 700 * n as usize));
        }
        let large = self.file(deep, "large");
        self.write(large, 0, &pattern(77, 900_000));
        let sparse = self.file(deep, "sparse");
        for step in 0..6 {
            self.write(sparse, step * (40 << 20), &pattern(step, 5000));
        }
        self.symlink(deep, "short", "../file1");
        self.symlink(deep, "long", &"x/".repeat(300));
        self.link(large, home, "hard");
        let labelled = self.file(home, "labelled");
        self.set_attribute(labelled, "user.colour", b"green");
        self.set_attribute(labelled, "user.weight", &[7; 900]);
        let many = self.directory(root, "many");
        for n in 0..150 {
            self.file(many, &format!("a rather long name for file number {n}"));
        }
        let reserved = self.file(home, "reserved");
        self.system
            .fallocate(&self.caller, reserved, 1, 0, 100_000)
            .unwrap();
        for n in 0..5 {
            self.unlink(home, &format!("file{n}"));
        }
    }
}

/// A copy of a device's bytes, which is checked without affecting the device.
pub struct Image(pub Arc<MemoryDevice>);

impl From<varve_device::MemoryImage> for Image {
    fn from(image: varve_device::MemoryImage) -> Self {
        Image(Arc::new(MemoryDevice::from_image(&image)))
    }
}

/// Checks an image and verifies that nothing was written.
pub fn checked(image: &Image, data: bool) -> CheckReport {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let options = CheckOptions {
        data,
        ..CheckOptions::default()
    };
    let device: Arc<dyn Device> = image.0.clone();
    let clock: Arc<dyn Clock> = clock;
    let report = check(device, clock, &options).unwrap();
    assert_eq!(image.0.counters().snapshot().bytes_written, 0);
    report
}

pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..bytes).map(|_| rng.random()).collect()
}

/// Runs one random operation, which may be refused.
pub fn step<D: Device + 'static>(volume: &Volume<D>, rng: &mut Xoshiro256PlusPlus) {
    let system = &volume.system;
    let caller = &volume.caller;
    let directories = ["d0", "d1", "d2"];
    let parent = match rng.random_range(0..4) {
        0 => InodeNo::ROOT,
        n => system
            .lookup(caller, InodeNo::ROOT, directories[n - 1].as_bytes())
            .map_or(InodeNo::ROOT, |attr| attr.ino),
    };
    let parent = match system.getattr(parent) {
        Ok(attr) if attr.kind == varve_fs::FileKind::Directory => parent,
        _ => InodeNo::ROOT,
    };
    let name = format!("n{}", rng.random_range(0..12));
    let name = name.as_bytes();
    let target = system.lookup(caller, parent, name).map(|attr| attr.ino);
    match rng.random_range(0..100) {
        0..20 => drop(system.mknod(caller, parent, name, 0o600, 0)),
        20..26 => {
            let name = directories[rng.random_range(0..3)].as_bytes();
            drop(system.mkdir(caller, InodeNo::ROOT, name, 0o700));
        }
        26..30 => {
            let name = directories[rng.random_range(0..3)].as_bytes();
            drop(system.rmdir(caller, InodeNo::ROOT, name));
        }
        30..55 => {
            if let Ok(ino) = target {
                let length = rng.random_range(1..40_000);
                let offset = rng.random_range(0..200_000);
                drop(system.write(caller, ino, offset, &pattern(9, length)));
            }
        }
        55..62 => drop(system.unlink(caller, parent, name)),
        62..68 => {
            if let Ok(ino) = target {
                let set = SetAttr {
                    size: Some(rng.random_range(0..150_000)),
                    ..SetAttr::default()
                };
                drop(system.setattr(caller, ino, &set));
            }
        }
        68..74 => {
            let other = format!("n{}", rng.random_range(0..12));
            let to = if rng.random() { InodeNo::ROOT } else { parent };
            let flags = Rename::default();
            drop(system.rename(caller, parent, name, to, other.as_bytes(), flags));
        }
        74..80 => {
            if let Ok(ino) = target {
                let value = pattern(3, rng.random_range(0..1500));
                drop(system.setxattr(caller, ino, b"user.x", &value, false, false));
            }
        }
        80..82 => {
            if let Ok(ino) = target {
                drop(system.removexattr(caller, ino, b"user.x"));
            }
        }
        82..86 => {
            if let Ok(ino) = target {
                let mode = [0, 1, 3, 16][rng.random_range(0..4)];
                let offset = rng.random_range(0..100_000);
                drop(system.fallocate(caller, ino, mode, offset, 30_000));
            }
        }
        86..89 => {
            if let Ok(ino) = target {
                drop(system.link(caller, ino, InodeNo::ROOT, b"hard"));
            }
        }
        89..93 => {
            if let Ok(ino) = target {
                drop(system.fsync(ino, false));
            }
        }
        93..95 => drop(system.sync()),
        95..97 => drop(system.checkpoint()),
        97..98 => drop(system.symlink(caller, parent, name, &[b'x'; 300])),
        98..99 => {
            let candidates = volume.lfs.cleaner().candidates();
            if let Some(first) = candidates.iter().min_by_key(|c| c.live_bytes) {
                volume.lfs.cleaner().clean_segment(first.segment).unwrap();
            }
        }
        _ => drop(system.tmpfile(caller, InodeNo::ROOT, 0o600)),
    }
}
