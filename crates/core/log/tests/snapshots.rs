//! Snapshots of the log: what they show stays what it was, whatever is written,
//! cleaned and folded meanwhile, or they are given up.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{
    Caller, Error, FileSystem, InodeNo, Options, Result, SetAttr, Transaction, TransactionOptions,
};
use varve_fsck::check::{CheckOptions, check};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Fs = FileSystem<Lfs>;
type Tree = BTreeMap<String, Vec<u8>>;

const MIB: u64 = 1 << 20;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

fn layout(device: &Arc<MemoryDevice>) -> Lfs {
    let options = MountOptions {
        seed: Some(3),
        ..MountOptions::default()
    };
    Lfs::mount(device.clone(), clock(), options).unwrap()
}

fn fresh(bytes: u64) -> (Arc<MemoryDevice>, Arc<Fs>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let format = FormatOptions {
        seed: Some(7),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock(), &format).unwrap();
    let lfs = layout(&device);
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    let options = Options {
        cache_bytes: 4 * MIB,
        ..Options::default()
    };
    let fs = FileSystem::mount(Arc::new(lfs), clock(), options).unwrap();
    (device, Arc::new(fs))
}

fn begin(fs: &Arc<Fs>) -> Transaction<Lfs> {
    fs.begin_transaction(&TransactionOptions::default())
        .unwrap()
}

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut data = vec![0; length];
    rng.fill(&mut data[..]);
    data
}

fn look_up(fs: &Fs, name: &str) -> Result<InodeNo> {
    let found = fs.lookup(&Caller::root(), InodeNo::ROOT, name.as_bytes());
    found.map(|attr| attr.ino)
}

fn write(fs: &Fs, name: &str, offset: usize, data: &[u8]) -> Result<()> {
    let caller = Caller::root();
    let ino = match look_up(fs, name) {
        Ok(ino) => ino,
        Err(Error::NotFound) => {
            fs.mknod(&caller, InodeNo::ROOT, name.as_bytes(), 0o644, 0)?
                .ino
        }
        Err(error) => return Err(error),
    };
    let done = fs.write(&caller, ino, offset as u64, data)?;
    assert_eq!(done, data.len());
    Ok(())
}

/// All that is in the root directory.
fn read_all(fs: &Fs) -> Result<Tree> {
    let mut names = Vec::new();
    fs.readdir(InodeNo::ROOT, 2, &mut |entry| {
        names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.ino));
        true
    })?;
    let mut all = Tree::new();
    for (name, ino) in names {
        let mut data = vec![0; fs.getattr(ino)?.size as usize];
        assert_eq!(fs.read(ino, 0, &mut data)?, data.len());
        all.insert(name, data);
    }
    Ok(all)
}

struct Run {
    fs: Arc<Fs>,
    model: Tree,
    rng: Xoshiro256PlusPlus,
}

impl Run {
    /// One change of the mounted tree, and of the model.
    fn step(&mut self) {
        let name = format!("f{}", self.rng.random_range(0..12));
        match self.rng.random_range(0..10) {
            0..=5 => {
                let length = self.rng.random_range(1..200_000);
                let offset = self.rng.random_range(0..100_000);
                let data = pattern(length, self.rng.random());
                write(&self.fs, &name, offset, &data).unwrap();
                let content = self.model.entry(name).or_default();
                let end = content.len().max(offset + length);
                content.resize(end, 0);
                content[offset..offset + length].copy_from_slice(&data);
            }
            6 => {
                let gone = self.model.remove(&name).is_some();
                let caller = Caller::root();
                let removed = self.fs.unlink(&caller, InodeNo::ROOT, name.as_bytes());
                assert_eq!(removed.is_ok(), gone);
            }
            7 => {
                let size = self.rng.random_range(0..150_000);
                let Some(content) = self.model.get_mut(&name) else {
                    return;
                };
                content.resize(size, 0);
                let set = SetAttr {
                    size: Some(size as u64),
                    ..SetAttr::default()
                };
                let ino = look_up(&self.fs, &name).unwrap();
                self.fs.setattr(&Caller::root(), ino, &set).unwrap();
            }
            8 => self.fs.sync().unwrap(),
            _ => match self.rng.random_range(0..3) {
                0 => self.fs.checkpoint().unwrap(),
                1 => self.fs.maintain().unwrap(),
                _ => {
                    self.fs.drop_caches();
                    self.fs.layout().drop_caches();
                }
            },
        }
    }
}

/// Either what it was, or nothing any more. True if it still stands.
fn stands(snapshot: &Transaction<Lfs>, model: &Tree) -> bool {
    match read_all(snapshot) {
        Ok(found) => {
            assert!(found == *model, "a snapshot shows something else");
            true
        }
        Err(Error::Aborted) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_snapshot_shows_what_it_showed_or_is_given_up() {
    let (mut stood, mut given_up) = (0, 0);
    for seed in 0..24 {
        eprintln!("seed {seed}");
        let (device, fs) = fresh(if seed % 2 == 0 { 16 * MIB } else { 64 * MIB });
        let mut run = Run {
            fs,
            model: Tree::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        };
        let mut snapshots: Vec<(Transaction<Lfs>, Tree)> = Vec::new();
        for step in 0..600 {
            run.step();
            if run.rng.random_range(0..40) == 0 {
                snapshots.push((begin(&run.fs), run.model.clone()));
            }
            if snapshots.len() > 4 || step % 150 == 149 {
                run.fs.drop_caches();
                let at = run.rng.random_range(0..snapshots.len().max(1));
                if at < snapshots.len() {
                    let (snapshot, model) = snapshots.swap_remove(at);
                    match stands(&snapshot, &model) {
                        true => stood += 1,
                        false => given_up += 1,
                    }
                }
            }
        }
        drop(snapshots);
        assert!(read_all(&run.fs).unwrap() == run.model);
        run.fs.unmount().unwrap();
        run.fs.layout().unmount().unwrap();
        let report = check(device.clone(), clock(), &CheckOptions::default()).unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
    eprintln!("{stood} stood, {given_up} were given up");
    assert!(stood > 20 && given_up > 0);
}

#[test]
fn a_snapshot_takes_no_room_from_a_full_volume() {
    let (device, fs) = fresh(16 * MIB);
    let mut number = 0;
    let mut fill = |fs: &Arc<Fs>| {
        loop {
            number += 1;
            let data = pattern(60_000, number);
            match write(fs, &format!("n{number}"), 0, &data) {
                Ok(()) => {}
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
        number
    };
    let many = fill(&fs);
    let snapshot = begin(&fs);
    let shown = read_all(&snapshot).unwrap();
    for number in 1..=many {
        let name = format!("n{number}");
        match fs.unlink(&Caller::root(), InodeNo::ROOT, name.as_bytes()) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    // All of it can be had again, whoever looks.
    let again = fill(&fs) - many;
    assert!(again * 10 >= many * 9, "{again} of {many}");
    assert!(!stands(&snapshot, &shown), "there was no room for both");
    assert!(
        matches!(snapshot.commit(), Ok(())),
        "it has changed nothing"
    );
    fs.unmount().unwrap();
    fs.layout().unmount().unwrap();
    let report = check(device.clone(), clock(), &CheckOptions::default()).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

#[test]
fn a_transaction_is_whole_after_a_power_cut() {
    let (device, fs) = fresh(32 * MIB);
    write(&fs, "a", 0, &pattern(50_000, 1)).unwrap();
    write(&fs, "b", 0, &pattern(50_000, 2)).unwrap();
    fs.sync().unwrap();
    let transaction = begin(&fs);
    write(&transaction, "a", 10_000, &pattern(5000, 3)).unwrap();
    write(&transaction, "c", 0, &pattern(300_000, 4)).unwrap();
    transaction
        .unlink(&Caller::root(), InodeNo::ROOT, b"b")
        .unwrap();
    transaction.commit().unwrap();
    let want = read_all(&fs).unwrap();
    let device = Arc::new(MemoryDevice::from_image(&device.snapshot()));
    let fs: Fs = FileSystem::mount(Arc::new(layout(&device)), clock(), Options::default()).unwrap();
    assert!(read_all(&fs).unwrap() == want);
    assert_eq!(want.keys().collect::<Vec<_>>(), ["a", "c"]);
}
