//! Blocks that transactions write before their commit: whose room it is, and what
//! happens if the device refuses them.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use varve_device::{Clock, Device, Fault, FaultDevice, FaultKind, MemoryDevice, VirtualClock};
use varve_fs::{Caller, Error, FileSystem, InodeNo, Options, Result, TransactionOptions};
use varve_fsck::check::{CheckOptions, check};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Fs = FileSystem<Lfs>;

const MIB: u64 = 1 << 20;
const CHUNK: usize = 64 << 10;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_000_000_000_000, 1000))
}

fn mount(device: Arc<dyn Device>) -> Arc<Fs> {
    let lfs = Lfs::mount(device, clock(), MountOptions::default()).unwrap();
    let options = Options {
        cache_bytes: 3 * MIB,
        ..Options::default()
    };
    Arc::new(FileSystem::mount(Arc::new(lfs), clock(), options).unwrap())
}

fn fresh(bytes: u64) -> (Arc<FaultDevice<MemoryDevice>>, Arc<Fs>) {
    let device = MemoryDevice::new(bytes);
    Lfs::format(&device, &*clock(), &FormatOptions::default()).unwrap();
    let device = Arc::new(FaultDevice::new(device, 1));
    let lfs = Lfs::mount(device.clone(), clock(), MountOptions::default()).unwrap();
    FileSystem::format(&lfs, &*clock(), (0, 0)).unwrap();
    lfs.unmount().unwrap();
    let fs = mount(device.clone());
    (device, fs)
}

fn chunk(seed: u64) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut data = vec![0; CHUNK];
    rng.fill(&mut data[..]);
    data
}

fn create(fs: &Fs, name: &str) -> Result<InodeNo> {
    let made = fs.mknod(&Caller::root(), InodeNo::ROOT, name.as_bytes(), 0o644, 0);
    made.map(|attr| attr.ino)
}

/// Appends chunks until there is no room, `most` at most. How many, and why not more.
fn append(fs: &Fs, ino: InodeNo, most: u64) -> (u64, Option<Error>) {
    for number in 0..most {
        let at = fs.getattr(ino).unwrap().size;
        match fs.write(&Caller::root(), ino, at, &chunk(at)) {
            Ok(CHUNK) => {}
            Ok(_) => return (number, Some(Error::NoSpace)),
            Err(error) => return (number, Some(error)),
        }
    }
    (most, None)
}

fn assert_chunks(fs: &Fs, ino: InodeNo, chunks: u64) {
    let mut data = vec![0; CHUNK];
    for at in (0..chunks).map(|number| number * CHUNK as u64) {
        assert_eq!(fs.read(ino, at, &mut data).unwrap(), CHUNK);
        assert!(data == chunk(at), "byte {at}");
    }
}

fn close(device: &FaultDevice<MemoryDevice>, fs: &Fs) {
    fs.unmount().unwrap();
    fs.layout().unmount().unwrap();
    assert_sound(&device.inner().snapshot());
}

fn assert_sound(image: &varve_device::MemoryImage) {
    let device = Arc::new(MemoryDevice::from_image(image));
    let options = CheckOptions {
        data: true,
        ..CheckOptions::default()
    };
    let report = check(device, clock(), &options).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

fn begin(fs: &Arc<Fs>) -> varve_fs::Transaction<Lfs> {
    fs.begin_transaction(&TransactionOptions::default())
        .unwrap()
}

#[test]
fn a_full_volume_refuses_a_transaction_as_a_whole_and_has_its_room_again() {
    let (device, fs) = fresh(24 * MIB);
    let whole = fs.statfs().free;
    let base = create(&fs, "base").unwrap();
    append(&fs, base, 4 * MIB / CHUNK as u64);
    fs.sync().unwrap();
    let free = fs.statfs().free;
    for round in 0..3 {
        let txn = begin(&fs);
        let large = create(&txn, "large").unwrap();
        let (chunks, why) = append(&txn, large, u64::MAX);
        let why = why.unwrap();
        assert!(matches!(why, Error::NoSpace | Error::Aborted), "{why}");
        let blocks = chunks * CHUNK as u64 / 4096;
        assert!(
            blocks > free / 2,
            "round {round}: {blocks} of {free}: {why}"
        );
        drop(txn);
        assert!(fs.statfs().free + 64 > free); // metadata is estimated
        let plain = create(&fs, "plain").unwrap();
        let (again, _) = append(&fs, plain, u64::MAX);
        assert!(
            again * CHUNK as u64 / 4096 > free * 8 / 10,
            "{again} chunks of {free}"
        );
        assert_chunks(&fs, plain, again);
        fs.unlink(&Caller::root(), InodeNo::ROOT, b"plain").unwrap();
        fs.sync().unwrap();
    }
    fs.unlink(&Caller::root(), InodeNo::ROOT, b"base").unwrap();
    fs.sync().unwrap();
    assert!(fs.statfs().free + 64 > whole);
    close(&device, &fs);
}

#[test]
fn a_forgotten_transaction_takes_no_room_from_anybody() {
    let (device, fs) = fresh(24 * MIB);
    let free = fs.statfs().free;
    let txn = begin(&fs);
    let large = create(&txn, "large").unwrap();
    let (chunks, why) = append(&txn, large, 8 * MIB / CHUNK as u64);
    assert!(why.is_none(), "{why:?}");
    assert_chunks(&txn, large, chunks);
    let plain = create(&fs, "plain").unwrap();
    let (again, why) = append(&fs, plain, u64::MAX);
    assert!(matches!(why, Some(Error::NoSpace)), "{why:?}");
    assert!(
        again * CHUNK as u64 / 4096 > free * 8 / 10,
        "{again} chunks of {free}"
    );
    assert_chunks(&fs, plain, again);
    assert!(matches!(txn.commit(), Err(Error::Aborted)));
    fs.unlink(&Caller::root(), InodeNo::ROOT, b"plain").unwrap();
    close(&device, &fs);
}

#[test]
fn what_is_refused_by_the_device_is_written_elsewhere_while_it_is_open() {
    let (device, fs) = fresh(48 * MIB);
    let outside = create(&fs, "outside").unwrap();
    fs.sync().unwrap();
    let bad = 5_000_000..5_300_000;
    device.inject(Fault::sticky(FaultKind::WriteError).within(bad));
    let txn = begin(&fs);
    let large = create(&txn, "large").unwrap();
    let mut chunks = 0;
    for _ in 0..12 {
        chunks += append(&txn, large, MIB / CHUNK as u64).0;
        append(&fs, outside, 1);
        fs.fsync(outside, false).unwrap();
        assert_chunks(&txn, large, chunks);
    }
    let relocated = fs.layout().statistics().relocated_partials;
    assert!(relocated > 0, "nothing was refused");
    txn.commit().unwrap();
    assert_chunks(&fs, large, chunks);
    let left = device.inner().snapshot();
    assert_sound(&left);
    let again = mount(Arc::new(MemoryDevice::from_image(&left)));
    assert_chunks(&again, large, chunks);
    close(&device, &fs);
}

#[test]
fn a_volume_without_the_feature_refuses_what_is_too_large() {
    use varve_lfs::format::superblock::incompat_flags::SPILLS;
    let (device, fs) = fresh(24 * MIB);
    fs.unmount().unwrap();
    fs.layout().unmount().unwrap();
    drop(fs);
    // As an older version made it.
    let mut superblock = Lfs::find_superblock(&*device).unwrap();
    let (stride, count) = (superblock.copy_stride.get(), superblock.segment_count.get());
    let unit = u64::from(superblock.write_unit.get());
    let segment = |n: u32| {
        let bytes = u64::from(superblock.segment_bytes.get());
        superblock.first_segment.get() + u64::from(n) * bytes
    };
    let copies = (0..count).step_by(stride as usize).map(segment);
    let last = superblock.device_bytes.get() - unit;
    let places: Vec<u64> = copies.chain([0, last]).collect();
    superblock.incompat = (superblock.incompat.get() & !SPILLS).into();
    for place in places {
        let sealed = superblock.sealed_for(place / 512);
        let bytes = zerocopy::IntoBytes::as_bytes(&sealed);
        device
            .write(place, &[std::io::IoSlice::new(bytes)])
            .unwrap();
    }
    let fs = mount(device.clone());
    let txn = begin(&fs);
    let large = create(&txn, "large").unwrap();
    let (_, why) = append(&txn, large, 100);
    assert!(matches!(why, Some(Error::TransactionTooLarge)), "{why:?}");
    drop(txn);
    close(&device, &fs);
}
