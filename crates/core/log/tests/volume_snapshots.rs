//! Snapshots of the volume next to a naive model: each shows what every file was when it
//! was taken, whatever is written, cleaned, folded, mounted again, or cut off meanwhile.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Layout, Options, SetAttr, View};
use varve_fsck::check::{CheckOptions, check};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Fs = FileSystem<Lfs>;

/// A file: content and one attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct File {
    data: Vec<u8>,
    attribute: Vec<u8>,
}

/// Files by inode number and version.
type State = BTreeMap<(u64, u32), File>;

const MIB: u64 = 1 << 20;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

fn mount(device: &Arc<MemoryDevice>) -> Arc<Fs> {
    let options = MountOptions {
        seed: Some(3),
        ..MountOptions::default()
    };
    let lfs = Lfs::mount(device.clone(), clock(), options).unwrap();
    let options = Options {
        cache_bytes: 2 * MIB,
        ..Options::default()
    };
    Arc::new(FileSystem::mount(Arc::new(lfs), clock(), options).unwrap())
}

fn fresh(bytes: u64) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(bytes));
    let format = FormatOptions {
        seed: Some(7),
        segment_bytes: 256 << 10,
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock(), &format).unwrap();
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    lfs.unmount().unwrap();
    device
}

fn assert_sound(device: &MemoryDevice, what: &str) {
    let image = Arc::new(MemoryDevice::from_image(&device.snapshot()));
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let report = check(image, clock(), &options).unwrap();
    assert!(report.is_spotless(), "{what}: {report:#?}");
}

/// What a snapshot says of a file.
fn file_in(lfs: &Lfs, view: View, ino: InodeNo, version: u32) -> Option<File> {
    let inode = match lfs.read_inode(view, ino) {
        Ok(inode) if inode.version == version => inode,
        Ok(_) | Err(Error::NotFound) => return None,
        Err(error) => panic!("{ino}: {error}"),
    };
    let mut data = vec![0; inode.size as usize];
    if inode.inline.is_empty() {
        let block_bytes = lfs.geometry().block_bytes as usize;
        let count = data.len().div_ceil(block_bytes) as u64;
        let mapped = lfs.map(view, ino, 0, count).unwrap();
        let contents = lfs.read(ino, &mapped).unwrap();
        for (mapping, content) in mapped.iter().zip(contents) {
            let start = mapping.block as usize * block_bytes;
            let length = content.len().min(data.len() - start);
            data[start..start + length].copy_from_slice(&content[..length]);
        }
        let first = lfs.next_mapped(view, ino, 0).unwrap();
        assert_eq!(first, mapped.first().map(|m| m.block), "{ino}");
    } else {
        data[..inode.inline.len()].copy_from_slice(&inode.inline);
    }
    let attribute = lfs.read_xattrs(view, ino).unwrap();
    Some(File { data, attribute })
}

struct Run {
    device: Arc<MemoryDevice>,
    fs: Arc<Fs>,
    rng: Xoshiro256PlusPlus,
    now: State,
    snapshots: BTreeMap<u32, State>,
    taken: u32,
    names: BTreeMap<u64, Vec<u8>>,
    made: u64,
}

impl Run {
    fn new(bytes: u64, seed: u64) -> Self {
        let device = fresh(bytes);
        let fs = mount(&device);
        Run {
            device,
            fs,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            now: State::new(),
            snapshots: BTreeMap::new(),
            taken: 0,
            names: BTreeMap::new(),
            made: 0,
        }
    }

    fn pick(&mut self) -> Option<(u64, u32)> {
        let count = self.now.len();
        if count == 0 {
            return None;
        }
        let nth = self.rng.random_range(0..count);
        self.now.keys().nth(nth).copied()
    }

    fn create(&mut self) {
        self.made += 1;
        let name = format!("f{}", self.made).into_bytes();
        let made = (self.fs).mknod(&Caller::root(), InodeNo::ROOT, &name, 0o644, 0);
        match made {
            Ok(made) => {
                self.names.insert(made.ino.0, name);
                self.now.insert((made.ino.0, made.version), File::default());
            }
            Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
        }
    }

    fn write(&mut self) {
        let Some(key) = self.pick() else { return };
        let small = self.rng.random_range(0..4) == 0;
        let most = if small { 200 } else { 60_000 };
        let offset = self.rng.random_range(0..100_000usize);
        let mut data = vec![0; self.rng.random_range(1..most)];
        self.rng.fill(&mut data[..]);
        match self
            .fs
            .write(&Caller::root(), InodeNo(key.0), offset as u64, &data)
        {
            Ok(done) => {
                let file = self.now.get_mut(&key).unwrap();
                file.data.resize(file.data.len().max(offset + done), 0);
                file.data[offset..offset + done].copy_from_slice(&data[..done]);
            }
            Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
        }
    }

    fn truncate(&mut self) {
        let Some(key) = self.pick() else { return };
        let size = self.rng.random_range(0..120_000usize);
        let set = SetAttr {
            size: Some(size as u64),
            ..SetAttr::default()
        };
        match self.fs.setattr(&Caller::root(), InodeNo(key.0), &set) {
            Ok(_) => self.now.get_mut(&key).unwrap().data.resize(size, 0),
            Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
        }
    }

    fn remove(&mut self) {
        let Some(key) = self.pick() else { return };
        let name = self.names[&key.0].clone();
        self.fs
            .unlink(&Caller::root(), InodeNo::ROOT, &name)
            .unwrap();
        self.now.remove(&key);
    }

    fn attribute(&mut self) {
        let Some(key) = self.pick() else { return };
        let mut value = vec![0; self.rng.random_range(1..3000)];
        self.rng.fill(&mut value[..]);
        let (root, ino) = (Caller::root(), InodeNo(key.0));
        let set = (self.fs).setxattr(&root, ino, b"user.a", &value, false, false);
        match set {
            Ok(()) => {
                self.fs.sync().unwrap();
                let blob = self.fs.layout().read_xattrs(View::Live, InodeNo(key.0));
                self.now.get_mut(&key).unwrap().attribute = blob.unwrap();
            }
            Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
        }
    }

    fn take(&mut self) {
        self.fs.sync().unwrap();
        match self
            .fs
            .layout()
            .create_volume_snapshot(&format!("s{}", self.taken))
        {
            Ok(snapshot) => {
                self.taken += 1;
                self.snapshots.insert(snapshot.number, self.now.clone());
            }
            Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
        }
    }

    fn delete(&mut self) {
        let numbers: Vec<u32> = self.snapshots.keys().copied().collect();
        if numbers.is_empty() {
            return;
        }
        let number = numbers[self.rng.random_range(0..numbers.len())];
        self.fs.layout().delete_volume_snapshots(&[number]).unwrap();
        self.snapshots.remove(&number);
    }

    fn compare(&self) {
        let lfs = self.fs.layout();
        let listed: Vec<u32> = lfs
            .volume_snapshots()
            .unwrap()
            .iter()
            .map(|s| s.number)
            .collect();
        let known: Vec<u32> = self.snapshots.keys().copied().collect();
        assert_eq!(listed, known);
        let highest = self
            .now
            .keys()
            .chain(self.snapshots.values().flat_map(BTreeMap::keys));
        let highest = highest.map(|key| key.0).max().unwrap_or(0);
        for (number, state) in &self.snapshots {
            let pin = lfs.open_volume_snapshot(*number).unwrap();
            let view = View::Snapshot(pin);
            for (&(ino, version), wanted) in state {
                let found = file_in(lfs, view, InodeNo(ino), version);
                let found = found.unwrap_or_else(|| panic!("snapshot {number} lost inode {ino}"));
                assert!(found == *wanted, "snapshot {number}, inode {ino}");
            }
            for ino in InodeNo::FIRST.0..=highest {
                let exists = lfs.read_inode(view, InodeNo(ino)).is_ok();
                let wanted = state.keys().any(|key| key.0 == ino);
                assert_eq!(exists, wanted, "snapshot {number}, inode {ino}");
            }
            lfs.release_snapshot(pin);
        }
        for (&(ino, version), wanted) in &self.now {
            self.fs.sync().unwrap();
            let found = file_in(lfs, View::Live, InodeNo(ino), version);
            assert_eq!(found.as_ref(), Some(wanted), "inode {ino}");
        }
    }

    fn again(&mut self, cleanly: bool) {
        let fs = &self.fs;
        if cleanly {
            fs.unmount().unwrap();
            fs.layout().unmount().unwrap();
        } else {
            fs.sync().unwrap(); // what is not durable may be lost; all of this is
        }
        let image = self.device.snapshot();
        self.device = Arc::new(MemoryDevice::from_image(&image));
        assert_sound(&self.device, if cleanly { "unmounted" } else { "cut off" });
        self.fs = mount(&self.device);
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..20 => self.create(),
            20..60 => self.write(),
            60..66 => self.truncate(),
            66..74 => self.remove(),
            74..78 => self.attribute(),
            78..84 => self.take(),
            84..88 => self.delete(),
            88..92 => drop(self.fs.layout().checkpoint()),
            92..97 => drop(self.fs.layout().cleaner().clean_batch()),
            97..99 => self.again(true),
            _ => self.again(false),
        }
    }
}

fn live(seed: u64, steps: usize, bytes: u64) {
    println!("seed {seed}");
    let mut run = Run::new(bytes, seed);
    for step in 0..steps {
        run.step();
        if step % 16 == 15 {
            run.compare();
        }
    }
    run.compare();
    run.again(true);
    run.compare();
}

#[test]
fn each_snapshot_shows_what_was() {
    for seed in 0..6 {
        live(seed, 400, 48 * MIB);
    }
}

/// Wherever files and snapshots fill the volume, removing both gives all of it back.
#[test]
fn a_full_volume_with_snapshots_can_be_emptied() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut run = Run::new(24 * MIB, 100 + seed);
        let free = |run: &Run| run.fs.statfs().free;
        let empty = free(&run);
        for _ in 0..600 {
            match run.rng.random_range(0..20) {
                0..6 => run.create(),
                6..18 => run.write(),
                _ => run.take(),
            }
        }
        run.compare();
        while !run.now.is_empty() || !run.snapshots.is_empty() {
            match run.rng.random_range(0..3) {
                0 => run.delete(),
                _ => run.remove(),
            }
        }
        run.fs.sync().unwrap();
        for _ in 0..4 {
            run.fs.layout().checkpoint().unwrap();
        }
        let left = free(&run);
        assert!(
            left + empty / 50 >= empty,
            "{left} of {empty} blocks are free"
        );
        run.again(true);
    }
}

/// A snapshot reserves space for what it may come to list, and only while it exists.
#[test]
fn a_deleted_snapshot_gives_its_reserve_back() {
    let device = fresh(256 * MIB);
    let fs = mount(&device);
    let made = fs.mknod(&Caller::root(), InodeNo::ROOT, b"file", 0o644, 0);
    let ino = made.unwrap().ino;
    for piece in 0..140 {
        let written = fs.write(&Caller::root(), ino, piece * MIB, &vec![7; MIB as usize]);
        assert_eq!(written.unwrap(), MIB as usize);
    }
    fs.sync().unwrap();
    fs.layout().checkpoint().unwrap();
    let before = fs.statfs().free;
    let snapshot = fs.layout().create_volume_snapshot("monday").unwrap();
    let with = fs.statfs().free;
    assert!(
        with + 500 < before,
        "{with} of {before} blocks are free with it"
    );
    fs.layout()
        .delete_volume_snapshots(&[snapshot.number])
        .unwrap();
    let after = fs.statfs().free;
    assert!(
        after + 100 > before,
        "{after} of {before} blocks are free without it"
    );
}

/// What a snapshot has is moved and given new places while it is read.
#[test]
fn a_snapshot_is_read_while_the_log_is_cleaned() {
    const BLOCKS: u64 = 2000;
    let device = fresh(24 * MIB);
    let fs = mount(&device);
    let made = fs.mknod(&Caller::root(), InodeNo::ROOT, b"file", 0o644, 0);
    let ino = made.unwrap().ino;
    let write = |block: u64, byte: u8| {
        let data = vec![byte; 4096];
        fs.write(&Caller::root(), ino, block * 4096, &data)
            .map(drop)
    };
    for block in 0..BLOCKS {
        write(block, block as u8).unwrap();
    }
    fs.sync().unwrap();
    let snapshot = fs.layout().create_volume_snapshot("monday").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
    let read = |seed: u64| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let past = fs.at(snapshot.number).unwrap();
        let mut data = vec![0; 8 * 4096];
        let mut count = 0u64;
        while !stopped() {
            let first = rng.random_range(0..BLOCKS - 8);
            past.tree().drop_caches();
            assert_eq!(past.read(ino, first * 4096, &mut data).unwrap(), data.len());
            for (block, bytes) in (first..).zip(data.chunks(4096)) {
                assert!(
                    bytes.iter().all(|byte| *byte == block as u8),
                    "block {block}"
                );
            }
            count += 1;
        }
        count
    };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    std::thread::scope(|scope| {
        let readers = [1, 2].map(|seed| scope.spawn(move || read(seed)));
        for round in 0..400u32 {
            for _ in 0..40 {
                write(rng.random_range(0..BLOCKS / 2), round as u8).unwrap();
            }
            fs.sync().unwrap();
            fs.layout().drop_caches();
            fs.layout().cleaner().clean_batch().unwrap();
            if round % 7 == 0 {
                fs.layout().checkpoint().unwrap();
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 10);
        }
    });
    assert!(fs.layout().statistics().segments_cleaned > 20);
}

/// Creates a file of `bytes` bytes.
fn add(fs: &Fs, name: &str, bytes: u64) -> varve_fs::Result<InodeNo> {
    let root = Caller::root();
    let made = fs.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o644, 0)?;
    let mut offset = 0;
    while offset < bytes {
        let piece = (bytes - offset).min(64 << 10);
        let written = fs.write(&root, made.ino, offset, &vec![7; piece as usize])?;
        offset += written as u64;
    }
    fs.sync()?;
    Ok(made.ino)
}

/// A snapshot is taken only if what it may come to list fits, and so no removal is refused
/// because of one.
#[test]
fn a_snapshot_that_does_not_fit_is_refused_and_a_removal_is_not() {
    for (bytes, file) in [(64 * MIB, 4096), (64 * MIB, 64 << 10), (64 * MIB, 100)] {
        let device = fresh(bytes);
        let fs = mount(&device);
        let mut names: Vec<String> = Vec::new();
        let refused = |result: varve_fs::Result<()>| matches!(result, Err(Error::NoSpace));
        // One is taken when there is still space; it is not refused before that.
        let mut is_taken = false;
        loop {
            let name = format!("file {}", names.len());
            names.push(name.clone());
            let added = add(&fs, &name, file);
            if added.is_err() {
                assert!(refused(added.map(drop)));
                break;
            }
            if !is_taken && names.len() * file as usize > 8 << 20 {
                fs.create_snapshot("early").unwrap();
                is_taken = true;
            }
            if file == 100 && names.len() == 6000 {
                break;
            }
        }
        if file > 100 {
            let late = fs.create_snapshot("late");
            assert!(refused(late.map(drop)), "{file}");
        }
        for name in &names {
            match fs.unlink(&Caller::root(), InodeNo::ROOT, name.as_bytes()) {
                Ok(_) | Err(Error::NotFound) => {}
                Err(error) => panic!("{file}: {name}: {error}"),
            }
        }
        fs.sync().unwrap();
        fs.layout().checkpoint().unwrap();
        let all = fs.snapshots().unwrap();
        let numbers: Vec<u32> = all.iter().map(|one| one.number).collect();
        fs.delete_snapshots(&numbers).unwrap();
        fs.create_snapshot("late").unwrap();
        add(&fs, "file", 30 * MIB).unwrap();
        fs.layout().unmount().unwrap();
        assert_sound(&device, "emptied");
    }
}

/// A volume of 64 MiB with a file of 16 MiB that was written again after a snapshot.
fn rewritten(name: &str) -> Arc<Fs> {
    let fs = mount(&fresh(64 * MIB));
    let ino = add(&fs, "file", 16 * MIB).unwrap();
    fs.create_snapshot(name).unwrap();
    for at in 0..256 {
        let piece = vec![8; 64 << 10];
        fs.write(&Caller::root(), ino, at * (64 << 10), &piece)
            .unwrap();
    }
    fs.sync().unwrap();
    fs
}

fn names(fs: &Fs) -> Vec<String> {
    let all = fs.snapshots().unwrap().into_iter();
    all.map(|one| one.name).collect()
}

/// An automatic snapshot is deleted before a named one is refused.
#[test]
fn automatic_snapshots_give_way_to_a_named_one() {
    let fs = rewritten("");
    let mut made = 0;
    // Of these blocks a snapshot reserves more.
    while fs.statfs().free > 100 {
        made += 1;
        add(&fs, &format!("{made}"), 8192).unwrap();
    }
    assert_eq!(names(&fs), [""]);
    fs.create_snapshot("monday").unwrap();
    assert_eq!(names(&fs), ["monday"]);
    add(&fs, "new", 4 * MIB).unwrap();
    assert_eq!(names(&fs), ["monday"]);
}

/// What a deleted snapshot kept can be written at once, although a writer was refused before.
#[test]
fn a_full_volume_takes_writes_when_a_snapshot_is_deleted() {
    let fs = rewritten("monday");
    let mut made = 0;
    while add(&fs, &format!("{made}"), 64 << 10).is_ok() {
        made += 1;
    }
    assert!(add(&fs, "refused", 64 << 10).is_err());
    let number = fs.snapshots().unwrap()[0].number;
    fs.delete_snapshots(&[number]).unwrap();
    add(&fs, "new", 12 * MIB).unwrap();
}

/// Content of a file of a tree.
fn content(fs: &Fs, ino: InodeNo) -> Vec<u8> {
    let mut data = vec![0; fs.getattr(ino).unwrap().size as usize];
    let read = fs.read(ino, 0, &mut data).unwrap();
    assert_eq!(read, data.len());
    data
}

/// Blocks that only a snapshot has are moved out of the part that a shorter volume lacks.
#[test]
fn a_volume_with_snapshots_is_shrunk() {
    let device = fresh(128 * MIB);
    let fs = mount(&device);
    add(&fs, "filler", 60 * MIB).unwrap();
    let ino = add(&fs, "file", 20 * MIB).unwrap();
    let number = fs.create_snapshot("monday").unwrap().number;
    for piece in 0..10 {
        let data = vec![piece; MIB as usize];
        fs.write(&Caller::root(), ino, 2 * MIB * u64::from(piece), &data)
            .unwrap();
    }
    fs.unlink(&Caller::root(), InodeNo::ROOT, b"filler")
        .unwrap();
    fs.sync().unwrap();
    fs.unmount().unwrap();
    // The filler is part of the snapshot.
    let shared: Arc<dyn varve_device::Device> = device.clone();
    let options = varve_lfs::ResizeOptions::default();
    assert!(varve_lfs::resize(&shared, clock(), 64 * MIB, &options).is_err());
    assert_sound(&device, "refused");
    varve_lfs::resize(&shared, clock(), 116 * MIB, &options).unwrap();
    assert_sound(&device, "shrunk");
    let fs = mount(&device);
    let past = fs.at(number).unwrap();
    assert!(content(&past, ino).iter().all(|byte| *byte == 7));
    let filler = past.lookup(&Caller::root(), InodeNo::ROOT, b"filler");
    assert!(
        content(&past, filler.unwrap().ino)
            .iter()
            .all(|byte| *byte == 7)
    );
    assert!(
        content(&fs, ino)[..MIB as usize]
            .iter()
            .all(|byte| *byte == 0)
    );
}

/// A schedule keeps each hour of a month and more, up to 1,000 snapshots with
/// `VARVE_PROVE_SCALE=20`; then it is thinned, and all are deleted.
#[test]
fn a_month_of_snapshots_is_kept_and_thinned() {
    let scale = std::env::var("VARVE_PROVE_SCALE").ok();
    let scale = scale.and_then(|text| text.parse::<u32>().ok()).unwrap_or(1);
    let hours = (50 * scale).clamp(50, 1000);
    let device = fresh(256 * MIB);
    let time = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    let lfs = Lfs::mount(device.clone(), time.clone(), MountOptions::default()).unwrap();
    let options = Options {
        cache_bytes: 8 * MIB,
        ..Options::default()
    };
    let fs = Arc::new(FileSystem::mount(Arc::new(lfs), time.clone(), options).unwrap());
    let ino = add(&fs, "file", 8 * MIB).unwrap();
    fs.layout().checkpoint().unwrap();
    let empty = fs.statfs().free;
    let schedule = |hourly, daily, weekly| varve_fs::Schedule {
        hourly,
        daily,
        weekly,
    };
    fs.set_snapshot_schedule(schedule(1000, 0, 0)).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut now = content(&fs, ino);
    let mut past: Vec<Vec<u8>> = Vec::new();
    for hour in 0..hours {
        fs.keep_snapshots().unwrap();
        assert_eq!(fs.snapshots().unwrap().len(), hour as usize + 1);
        // Of an hour the first block is enough to know it, of some hours all are compared.
        past.push(now[..4096].to_vec());
        if hour == hours / 2 {
            past[hour as usize].clone_from(&now);
        }
        for at in [0, rng.random_range(1..2000), rng.random_range(1..2000)] {
            let data: Vec<u8> = (0..4096).map(|_| rng.random()).collect();
            fs.write(&Caller::root(), ino, at * 4096, &data).unwrap();
            now[at as usize * 4096..][..4096].copy_from_slice(&data);
        }
        fs.maintain().unwrap();
        time.advance(std::time::Duration::from_secs(3600));
    }
    fs.sync().unwrap();
    let all = fs.snapshots().unwrap();
    for (snapshot, wanted) in all.iter().zip(&past) {
        let tree = fs.at(snapshot.number).unwrap();
        let mut data = vec![0; wanted.len()];
        tree.read(ino, 0, &mut data).unwrap();
        assert!(&data == wanted, "snapshot {}", snapshot.number);
    }
    fs.set_snapshot_schedule(schedule(24, 7, 4)).unwrap();
    fs.keep_snapshots().unwrap();
    let left = fs.snapshots().unwrap();
    assert!((24..=36).contains(&left.len()), "{}", left.len());
    assert!(content(&fs, ino) == now);
    fs.set_snapshot_schedule(schedule(0, 0, 0)).unwrap();
    let numbers: Vec<u32> = left.iter().map(|one| one.number).collect();
    fs.delete_snapshots(&numbers).unwrap();
    for _ in 0..3 {
        fs.layout().checkpoint().unwrap();
    }
    let free = fs.statfs().free;
    assert!(free + 200 > empty, "{free} of {empty} blocks are free");
    fs.unmount().unwrap();
    assert_sound(&device, "emptied");
}
