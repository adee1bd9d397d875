//! Archives of a volume that changes are restored and compared with what it contained.

use super::restore::restore;
use super::*;
use rand::{RngExt, SeedableRng};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use varve::{Volume, VolumeOptions, admin};
use varve_device::MemoryDevice;
use varve_object::{Cause, Listed, Request, StoreError, StoreResult};

type Contents = BTreeMap<PathBuf, Vec<u8>>;

fn contents(volume: &Volume) -> Contents {
    let files = volume.walk("/").unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|entry| entry.file_type().unwrap().is_file());
    let content = |path: PathBuf| (path.clone(), volume.read(&path).unwrap());
    files.map(|entry| content(entry.path())).collect()
}

/// A store that answers so many creations, and then none.
#[derive(Debug)]
struct Failing<'a>(&'a FolderStore, AtomicI64);

impl Store for Failing<'_> {
    fn create(&self, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        match self.1.fetch_sub(1, Relaxed) > 0 {
            true => self.0.create(name, parts),
            false => Err(StoreError {
                store: self.name(),
                operation: Request::Create,
                object: name.to_owned(),
                cause: Cause::Rejected,
                message: "no permission".to_owned(),
            }),
        }
    }
    fn get(&self, name: &str) -> StoreResult<Vec<u8>> {
        self.0.get(name)
    }
    fn get_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> StoreResult<()> {
        self.0.get_range(name, offset, buffer)
    }
    fn list(&self, prefix: &str, after: &str) -> StoreResult<Vec<Listed>> {
        self.0.list(prefix, after)
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        self.0.delete(name)
    }
    fn name(&self) -> String {
        self.0.name()
    }
}

struct Bench {
    host: tempfile::TempDir,
    store: FolderStore,
    volume: Volume,
    random: rand_xoshiro::Xoshiro256PlusPlus,
}

impl Bench {
    fn new(seed: u64) -> Self {
        crate::cli::output::note(format_args!("seed {seed}"));
        let host = tempfile::tempdir().unwrap();
        let device = Arc::new(MemoryDevice::new(24 << 20));
        let mut options = VolumeOptions::new();
        options.segment_bytes(256 << 10);
        admin::format_on(device.clone(), &options).unwrap();
        Bench {
            store: FolderStore::open(host.path().join("archives")).unwrap(),
            volume: admin::open_on(device, &options).unwrap(),
            random: rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed),
            host,
        }
    }

    /// Random writes and removals, of some 10 MiB; a write that finds no space removes files.
    fn change(&mut self, operations: usize) {
        for _ in 0..operations {
            let name = format!("/{}", self.random.random_range(0..60));
            let length = self.random.random_range(0..350_000);
            let byte = self.random.random();
            match self.random.random_range(0..4) {
                0 => drop(self.volume.remove_file(&name)),
                1 if self.volume.exists(&name).unwrap() => {
                    let file = varve::OpenOptions::new()
                        .write(true)
                        .open(&self.volume, &name);
                    let at = self.random.random_range(0..350_000);
                    let data = vec![byte; length / 10];
                    let _ = file.unwrap().write_all_at(&data, at);
                }
                _ => {
                    let Err(error) = self.volume.write(&name, vec![byte; length]) else {
                        continue;
                    };
                    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
                    for nth in 0..20 {
                        let _ = self.volume.remove_file(format!("/{nth}"));
                    }
                }
            }
        }
    }

    fn archive(&self, store: &dyn Store) -> Result<Value, Failure> {
        archive_of(&self.volume, store)
    }

    fn tag(&self) -> String {
        let fs = admin::tree(&self.volume).log().unwrap();
        format!("{:016x}", fs.layout().superblock().volume_tag())
    }

    fn manifests(&self) -> Vec<Manifest> {
        let names = Manifest::list(&self.store, &self.tag()).unwrap();
        names
            .iter()
            .map(|name| Manifest::get(&self.store, name).unwrap())
            .collect()
    }

    fn restored(&self, manifest: &Manifest) -> Volume {
        let image = self.host.path().join(format!("{}.img", manifest.serial));
        restore(&self.store, manifest, &image).unwrap();
        Volume::open(image).unwrap()
    }
}

fn archive_of(volume: &Volume, store: &dyn Store) -> Result<Value, Failure> {
    let fs = admin::tree(volume).log().unwrap();
    let mut ask = |question: &Value, emit: Emit<'_>| {
        let answer = source::answer(fs, &question["archive"], emit);
        answer.map_err(|why| Failure::new(FAILED, why))
    };
    archive(store, &mut ask)
}

#[test]
fn archives_of_a_changing_volume_are_restored() {
    for seed in 0..3 {
        let mut bench = Bench::new(seed);
        let (mut expected, mut past) = (Vec::new(), BTreeMap::new());
        for round in 0..6 {
            bench.change(60);
            if round % 3 == 1 {
                let taken = bench.volume.snapshot(&format!("s{round}"));
                if let Ok(snapshot) = taken {
                    past.insert(snapshot.number(), contents(&bench.volume));
                }
            }
            let done = bench.archive(&bench.store).unwrap();
            expected.push((done["serial"].as_u64().unwrap(), contents(&bench.volume)));
        }
        let manifests = bench.manifests();
        assert_eq!(manifests.len(), expected.len());
        for (manifest, (serial, wanted)) in manifests.iter().zip(&expected) {
            assert_eq!(manifest.serial, *serial);
            let restored = bench.restored(manifest);
            assert!(contents(&restored) == *wanted, "checkpoint {serial}");
            // It is a volume like any other, with the snapshots of that time.
            for snapshot in restored.snapshots().unwrap() {
                let tree = restored.at(&snapshot).unwrap();
                assert!(contents(&tree) == past[&snapshot.number()], "{snapshot:?}");
            }
            restored.checkpoint().unwrap();
            restored.close().unwrap();
        }
    }
}

#[test]
fn an_unchanged_segment_is_stored_once() {
    let mut bench = Bench::new(7);
    bench.change(60);
    let first = bench.archive(&bench.store).unwrap();
    bench.volume.write("/small", b"1").unwrap();
    let second = bench.archive(&bench.store).unwrap();
    let count = |done: &Value, name: &str| done[name].as_u64().unwrap();
    assert_eq!(count(&first, "written"), count(&first, "segments"));
    assert!(count(&second, "written") <= 4, "{second}");
    assert!(count(&second, "segments") >= count(&first, "segments") / 2);
    // A deleted object is stored again, if the segment still exists.
    let gone = bench.manifests().pop().unwrap().segments[0];
    bench.store.delete(&gone.name(&bench.tag())).unwrap();
    bench.archive(&bench.store).unwrap();
    let newest = bench.manifests().pop().unwrap();
    assert!(contents(&bench.restored(&newest)) == contents(&bench.volume));
}

#[test]
fn an_archive_that_is_cut_off_leaves_the_former_one() {
    let mut bench = Bench::new(9);
    bench.change(60);
    bench.archive(&bench.store).unwrap();
    let before = contents(&bench.volume);
    bench.change(40);
    let mut complete = false;
    for answered in 0..200 {
        let store = Failing(&bench.store, AtomicI64::new(answered));
        complete = bench.archive(&store).is_ok();
        if complete {
            break;
        }
        assert_eq!(bench.manifests().len(), 1);
    }
    assert!(complete, "segments that were stored are not created again");
    let manifests = bench.manifests();
    assert!(contents(&bench.restored(&manifests[0])) == before);
    assert!(contents(&bench.restored(&manifests[1])) == contents(&bench.volume));
}

#[test]
fn damage_in_the_target_is_found() {
    let mut bench = Bench::new(11);
    bench.change(40);
    bench.archive(&bench.store).unwrap();
    let manifest = bench.manifests().pop().unwrap();
    let object = bench
        .host
        .path()
        .join("archives")
        .join(manifest.segments[1].name(&bench.tag()));
    let mut bytes = std::fs::read(&object).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&object, bytes).unwrap();
    let image = bench.host.path().join("image");
    let why = restore(&bench.store, &manifest, &image).unwrap_err();
    assert!(
        why.contains("is damaged: its checksum does not match"),
        "{why}"
    );
    assert!(!image.exists(), "no image is left");
    let fs = admin::tree(&bench.volume).log().unwrap();
    let _verifying = fs.layout().begin_verification().unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| bench.archive(&bench.store).is_err());
        assert!(
            second.join().unwrap(),
            "one archive of a volume runs at a time"
        );
    });
}

/// Two copies of a volume have segments of the same numbers and incarnations.
#[test]
fn a_copy_of_the_volume_does_not_rely_on_the_archives_of_the_original() {
    let mut bench = Bench::new(13);
    bench.change(60);
    bench.archive(&bench.store).unwrap();
    let copy = bench.restored(&bench.manifests()[0]);
    bench.change(60);
    bench.archive(&bench.store).unwrap();
    for round in 0..3 {
        copy.write(format!("/of the copy {round}"), vec![round; 2 << 20])
            .unwrap();
        copy.checkpoint().unwrap();
    }
    archive_of(&copy, &bench.store).unwrap();
    let newest = bench.manifests().pop().unwrap();
    assert!(contents(&bench.restored(&newest)) == contents(&copy));
}
