//! Volumes that are updated in place and hold anything: their structures, and whole
//! images, mounted and used.

use crate::input::Input;
use crate::mutate::EXTREMES;
use std::sync::{Arc, OnceLock};
use varve_device::{Clock, Device, MemoryDevice, VirtualClock};
use varve_ffs::allocate::Policy;
use varve_ffs::format::{Geometry, JournalHead, Metadata, RecordHeader, Seal, Slot, Superblock};
use varve_ffs::{
    Error, Ffs, FfsFormatOptions, FfsMountOptions, FreeMap, bytes_for, check, format, repair,
};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::format::crc32c;

const DEVICE_BYTES: u64 = 4 << 20;
const SECTOR: usize = 512;
/// Bits of the first byte of an input.
const SEALED: u8 = 1;
const READ_ONLY: u8 = 2;
const SECTORS: u8 = 4;
/// The two bits that say how metadata is written, as a number.
const METADATA_SHIFT: u32 = 3;
/// Room is found as restricted buddies do.
const RESTRICTED: u8 = 32;
/// Patches of one input: more would leave nothing of the volume.
const PATCHES_MAX: usize = 16;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_600_000_000_000_000_000, 0))
}

fn mount(device: &Arc<dyn Device>, read_only: bool) -> Option<FileSystem<Ffs>> {
    let options = FfsMountOptions {
        read_only,
        seed: Some(1),
        cache_bytes: 1 << 20,
        ..FfsMountOptions::default()
    };
    let layout = Arc::new(Ffs::mount(Arc::clone(device), clock(), options).ok()?);
    let options = Options {
        cache_bytes: 1 << 20,
        read_ahead_threads: 0,
        ..Options::default()
    };
    FileSystem::mount(layout, clock(), options).ok()
}

/// A device with physical blocks of so many bytes.
fn device(unit: u32) -> MemoryDevice {
    MemoryDevice::with_geometry(varve_device::Geometry {
        size: DEVICE_BYTES,
        logical_block: 512,
        physical_block: unit,
    })
}

/// A used volume as a crash left it.
fn sample(unit: u32, metadata: Metadata, restricted: bool) -> &'static [u8] {
    static SAMPLES: [OnceLock<Vec<u8>>; 12] = [const { OnceLock::new() }; 12];
    let kind = usize::from(unit == 512) + 2 * usize::from(restricted);
    SAMPLES[kind * 3 + usize::from(metadata.number())].get_or_init(|| {
        let device: Arc<dyn Device> = Arc::new(device(unit));
        let options = FfsFormatOptions {
            group_blocks: 256,
            metadata,
            policy: match restricted {
                true => Policy::Restricted {
                    sizes: vec![1, 2, 8],
                    grow: 1,
                    region: Some(64),
                },
                false => Policy::default(),
            },
            seed: Some(7),
            ..FfsFormatOptions::default()
        };
        format(&*device, &*clock(), &options).expect("an empty device");
        let mounting = FfsMountOptions::default();
        let made = Ffs::mount(Arc::clone(&device), clock(), mounting).expect("a volume");
        FileSystem::format(&made, &*clock(), (0, 0)).expect("room");
        made.unmount().expect("memory");
        let system = mount(&device, false).expect("a volume");
        let caller = Caller::root();
        for nth in 0..40u64 {
            let (name, root) = (format!("file {nth}"), InodeNo::ROOT);
            let made = system.mknod(&caller, root, name.as_bytes(), 0o100_644, 0);
            let ino = made.expect("room").ino;
            let bytes = vec![nth as u8; 100 + 700 * nth as usize];
            let at = if nth % 8 == 0 { 1 << 33 } else { 0 };
            system.write(&caller, ino, at, &bytes).expect("room");
            if nth % 4 == 0 {
                system.fsync(ino, false).expect("memory");
            }
            if nth == 20 {
                system.checkpoint().expect("memory");
            }
        }
        let mut bytes = vec![0; DEVICE_BYTES as usize];
        device.read(0, &mut bytes).expect("memory");
        bytes
    })
}

/// Makes the checksum of whatever stands in a sector right.
fn seal(bytes: &mut [u8], sector: usize, geometry: &Geometry) {
    let at = sector * SECTOR;
    let begins = |magic: &[u8]| bytes[at..].starts_with(magic);
    let (from, to, field) = if begins(b"VARVEFF\x01") {
        (at + 12, at + SECTOR, at + 8)
    } else if begins(b"VFJH") {
        (at + 8, at + SECTOR, at + 4)
    } else if begins(b"VFJR") {
        let mut length = [0; 4];
        length.copy_from_slice(&bytes[at + 40..at + 44]);
        let end = at.saturating_add(u32::from_le_bytes(length) as usize);
        (at + 8, end.clamp(at + 8, bytes.len()), at + 4)
    } else {
        let mut sealed = [0; SECTOR];
        sealed.copy_from_slice(&bytes[at..at + SECTOR]);
        let mut owner = [0; 4];
        owner.copy_from_slice(&sealed[504..508]);
        let seal = Seal {
            tag: geometry.tag,
            sector: sector as u64,
            owner: u32::from_le_bytes(owner),
        };
        seal.close(&mut sealed);
        bytes[at..at + SECTOR].copy_from_slice(&sealed);
        return;
    };
    let crc = crc32c(&bytes[from..to]);
    bytes[field..field + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Parses a sector as every structure.
fn parse(bytes: &[u8], geometry: &Geometry) {
    let _ = Superblock::parse(bytes);
    let _ = JournalHead::parse(bytes, geometry.tag);
    let _ = RecordHeader::parse(bytes, geometry);
    let mut sector = [0; SECTOR];
    sector.copy_from_slice(&bytes[..SECTOR]);
    if let Ok(Slot::Used(image)) = Slot::decode(&sector, geometry, InodeNo(3)) {
        let again = Slot::decode(&image.encode(geometry), geometry, InodeNo(3));
        assert_eq!(again.expect("what was parsed"), Slot::Used(image));
    }
}

/// Mounts a patched image, and uses it if that succeeds.
pub fn image(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let unit = if flags & SECTORS != 0 { 512 } else { 4096 };
    let metadata = Metadata::ALL[usize::from(flags >> METADATA_SHIFT) % 3];
    let mut bytes = sample(unit, metadata, flags & RESTRICTED != 0).to_vec();
    let geometry = Geometry::of(&Superblock::parse(&bytes).expect("the sample's"));
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        let at = input.number(3) as usize % bytes.len();
        let sector = at / SECTOR;
        let end = (sector + 1) * SECTOR;
        let length = (1 + usize::from(input.byte() % 16)).min(end - at);
        match input.byte() % 3 {
            0 => {
                let patch = input.take(length);
                bytes[at..at + patch.len()].copy_from_slice(patch);
            }
            1 => {
                let extreme = EXTREMES[usize::from(input.byte()) % EXTREMES.len()].to_le_bytes();
                let length = length.min(8);
                bytes[at..at + length].copy_from_slice(&extreme[..length]);
            }
            _ => {
                // A sector at another's place.
                let from = input.number(3) as usize % bytes.len() / SECTOR * SECTOR;
                bytes.copy_within(from..from + SECTOR, sector * SECTOR);
            }
        }
        if flags & SEALED != 0 {
            seal(&mut bytes, sector, &geometry);
        }
        parse(&bytes[sector * SECTOR..], &geometry);
    }
    let device = device(unit);
    device.apply_write(0, &bytes).expect("memory");
    let device: Arc<dyn Device> = Arc::new(device);
    let _ = check(Arc::clone(&device), clock(), true);
    repaired(&bytes, unit);
    if let Some(system) = mount(&device, flags & READ_ONLY != 0) {
        use_all(&system);
    }
}

/// What a repair leaves is sound, and found so the second time.
fn repaired(bytes: &[u8], unit: u32) {
    let device = device(unit);
    device.apply_write(0, bytes).expect("memory");
    let device: Arc<dyn Device> = Arc::new(device);
    let options = || FfsMountOptions {
        seed: Some(1),
        cache_bytes: 1 << 20,
        ..FfsMountOptions::default()
    };
    // There may be no room for what has to be written; nothing else stops it.
    match repair(Arc::clone(&device), clock(), options()) {
        Err(Error::NoVolume { .. } | Error::Stopped(_)) => return,
        done => drop(done.expect("a device in memory")),
    }
    let found = check(Arc::clone(&device), clock(), true).expect("a repaired volume");
    assert_eq!(found.problems, Vec::<String>::new());
    let again = repair(device, clock(), options())
        .expect("a repaired volume")
        .recovery;
    assert_eq!(again.repairs, Vec::<String>::new());
    assert_eq!(again.losses, Vec::<String>::new());
}

/// Reads, changes and unmounts, errors ignored.
fn use_all(system: &FileSystem<Ffs>) {
    let caller = Caller::root();
    let mut names = Vec::new();
    let _ = system.readdir(InodeNo::ROOT, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.ino));
        names.len() < 200
    });
    let mut buffer = vec![0; 8192];
    for (name, ino) in &names {
        let _ = system.read(*ino, 0, &mut buffer);
        let _ = system.read(*ino, 1 << 33, &mut buffer);
        let _ = system.write(&caller, *ino, 5000, &buffer);
        if ino.0 % 3 == 0 {
            let _ = system.unlink(&caller, InodeNo::ROOT, name);
        }
    }
    let _ = system.sync();
    let _ = system.checkpoint();
    let _ = (system.statfs(), system.layout().statistics());
    let _ = system.unmount();
    let _ = system.layout().unmount();
}

/// Inputs worth mutating.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..24)
        .chain([RESTRICTED, RESTRICTED | SEALED])
        .flat_map(|flags| {
            let patched = [0, 8, 0, 4, 1, 3, 0, 40, 0, 2, 0, 9, 9];
            [vec![flags], [&[flags][..], &patched].concat()]
        })
        .collect()
}

/// A map of free room as JSON: what is one can be written and read again.
pub fn free_map(data: &[u8]) {
    let Ok(map) = serde_json::from_slice::<FreeMap>(data) else {
        return;
    };
    assert!(map.free_bytes() <= map.bytes());
    let _ = bytes_for(&map);
    let text = serde_json::to_vec(&map).expect("a map");
    let again: FreeMap = serde_json::from_slice(&text).expect("what was written");
    assert_eq!(again, map);
}

/// Maps, and what is nearly one.
pub fn free_map_seeds() -> Vec<Vec<u8>> {
    let of = |groups: &str| {
        let head = r#"{"format":"varve free map","version":1,"block_bytes":8192"#;
        format!(r#"{head},"group_bytes":65536,"groups":{groups}}}"#).into_bytes()
    };
    [
        "[[]]",
        "[[[0,1024],[8192,57344]],[[1024,7]]]",
        "[]",
        "[[[8,8],[0,8]]]",
    ]
    .map(of)
    .into()
}
