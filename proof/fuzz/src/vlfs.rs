//! Volumes on the virtual log that hold anything: their structures, and whole
//! images, mounted and used.

use crate::input::Input;
use crate::mutate::EXTREMES;
use std::sync::{Arc, OnceLock};
use varve_device::{Clock, Device, Geometry, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Layout, Options};
use varve_lfs::format::crc32c;
use varve_vlfs::format::{
    CheckpointHeader, Delta, Fork, Image, Measures, Node, NodeId, Record, Superblock,
};
use varve_vlfs::{Vlfs, VlfsFormatOptions, VlfsMountOptions, check, format};
use varve_vlog::{InOrder, Medium};

const DEVICE_BYTES: u64 = 4 << 20;
/// Bits of the first byte of an input.
const UNMOUNTED: u8 = 1;
const SEALED: u8 = 2;
const READ_ONLY: u8 = 4;
const SECTORS: u8 = 8;
/// Patches of one input: more would leave nothing of the volume.
const PATCHES_MAX: usize = 16;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_600_000_000_000_000_000, 0))
}

fn mount(medium: &Arc<dyn Medium>, read_only: bool) -> Option<(Arc<Vlfs>, FileSystem<Vlfs>)> {
    let options = VlfsMountOptions {
        read_only,
        seed: Some(1),
        cache_bytes: 1 << 20,
        ..VlfsMountOptions::default()
    };
    let layout = Arc::new(Vlfs::mount(Arc::clone(medium), clock(), options).ok()?);
    let options = Options {
        cache_bytes: 1 << 20,
        read_ahead_threads: 0,
        ..Options::default()
    };
    let system = FileSystem::mount(Arc::clone(&layout), clock(), options).ok()?;
    Some((layout, system))
}

/// A device with physical blocks of so many bytes: a unit of the volume.
fn device(unit: u32) -> MemoryDevice {
    MemoryDevice::with_geometry(Geometry {
        size: DEVICE_BYTES,
        logical_block: 512,
        physical_block: unit,
    })
}

/// A used volume: as a crash left it, and unmounted. Units are blocks, or
/// sectors, of which short blocks take one to eight.
fn samples(unit: u32) -> &'static [Vec<u8>; 2] {
    static SAMPLES: [OnceLock<[Vec<u8>; 2]>; 2] = [OnceLock::new(), OnceLock::new()];
    SAMPLES[usize::from(unit == 512)].get_or_init(|| {
        let device = Arc::new(device(unit));
        let medium: Arc<dyn Medium> = Arc::new(InOrder(Arc::clone(&device)));
        let options = VlfsFormatOptions {
            unit_bytes: unit,
            seed: Some(7),
            ..VlfsFormatOptions::default()
        };
        format(&*medium, &*clock(), &options).expect("an empty device");
        let mounting = VlfsMountOptions::default();
        let made = Vlfs::mount(Arc::clone(&medium), clock(), mounting).expect("a volume");
        FileSystem::format(&made, &*clock(), (0, 0)).expect("room");
        made.unmount().expect("memory");
        let (layout, system) = mount(&medium, false).expect("a volume");
        let caller = Caller::root();
        for nth in 0..40u64 {
            let name = format!("file {nth}");
            let root = InodeNo::ROOT;
            let made = system.mknod(&caller, root, name.as_bytes(), 0o100_644, 0);
            let ino = made.expect("room").ino;
            let bytes = vec![nth as u8; 100 + 700 * nth as usize];
            let at = if nth % 8 == 0 { 1 << 40 } else { 0 };
            let written = system.write(&caller, ino, at, &bytes);
            written.expect("room");
            if nth % 10 == 5 {
                let value = vec![nth as u8; 300 + 1800 * nth as usize];
                let set = system.setxattr(&caller, ino, b"user.note", &value, false, false);
                set.expect("room");
            }
            if nth % 4 == 0 {
                system.fsync(ino, false).expect("memory");
            }
            if nth == 20 {
                system.checkpoint().expect("memory");
            }
        }
        let bytes = || {
            let mut bytes = vec![0; DEVICE_BYTES as usize];
            device.read(0, &mut bytes).expect("memory");
            bytes
        };
        let dead = bytes();
        system.unmount().expect("memory");
        layout.unmount().expect("memory");
        [dead, bytes()]
    })
}

/// Makes the checksum of whatever stands in a unit right.
fn seal(unit: &mut [u8]) {
    let (from, end) = match (&unit[..8], &unit[4..8]) {
        (b"VARVEVL\x01", _) => {
            let crc = crc32c(&unit[12..512]);
            unit[8..12].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        (_, b"VLFM" | b"VLFD") => (4, unit.len()),
        (_, b"VLFC") => (4, size_of::<CheckpointHeader>()),
        _ => return,
    };
    let crc = crc32c(&unit[from..end]);
    unit[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Parses a unit as every structure.
fn parse(unit: &[u8], measures: &Measures, place: u64) {
    let _ = Superblock::parse(unit);
    let _ = CheckpointHeader::parse(unit, measures);
    if let Ok(record) = Record::parse(unit, place, measures) {
        let again = Record::parse(&record.encode(measures), place, measures);
        assert_eq!(again.expect("what was parsed").entries, record.entries);
    }
    if let Ok(delta) = Delta::parse(unit, place, measures) {
        let again = Delta::parse(&delta.encode(measures), place, measures);
        assert_eq!(again.expect("what was parsed").changes, delta.changes);
    }
    if let Ok(image) = Image::decode(unit, measures, InodeNo(3)) {
        let again = Image::decode(&image.encode(measures), measures, InodeNo(3));
        assert_eq!(again.expect("what was parsed"), image);
    }
    let forks = Fork::ALL.into_iter();
    for (fork, height) in forks.flat_map(|fork| [(fork, 1), (fork, 2)]) {
        let id = NodeId {
            ino: 3,
            fork,
            height,
            index: 0,
        };
        if let Ok(node) = Node::decode(unit, measures, id) {
            let again = Node::decode(&node.encode(measures, id, 1), measures, id);
            assert_eq!(again.expect("what was parsed"), node);
        }
    }
}

/// Mounts a patched image, and uses it if that succeeds.
pub fn image(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let unit_bytes = if flags & SECTORS != 0 { 512 } else { 4096 };
    let mut bytes = samples(unit_bytes)[usize::from(flags & UNMOUNTED)].clone();
    let superblock = Superblock::parse(&bytes).expect("the sample's");
    let measures = Measures::of(&superblock);
    let each = unit_bytes as usize;
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        let at = input.number(3) as usize % bytes.len();
        let length = (1 + usize::from(input.byte() % 16)).min(bytes.len() - at);
        let start = at / each * each;
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
                // A unit at another's place.
                let from = input.number(3) as usize % bytes.len() / each * each;
                bytes.copy_within(from..from + each, start);
            }
        }
        let unit = &mut bytes[start..start + each];
        if flags & SEALED != 0 {
            seal(unit);
        }
        parse(unit, &measures, (start / each) as u64);
    }
    let device = device(unit_bytes);
    device.apply_write(0, &bytes).expect("memory");
    let medium: Arc<dyn Medium> = Arc::new(InOrder(device));
    let _ = check(Arc::clone(&medium), clock(), true);
    if let Some((layout, system)) = mount(&medium, flags & READ_ONLY != 0) {
        use_all(&layout, &system);
    }
}

/// Reads, changes and unmounts, errors ignored.
fn use_all(layout: &Vlfs, system: &FileSystem<Vlfs>) {
    let caller = Caller::root();
    let mut names = Vec::new();
    let _ = system.readdir(InodeNo::ROOT, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.ino));
        names.len() < 200
    });
    let mut buffer = vec![0; 8192];
    for (name, ino) in &names {
        let _ = system.read(*ino, 0, &mut buffer);
        let _ = system.read(*ino, 1 << 40, &mut buffer);
        let _ = system.write(&caller, *ino, 5000, &buffer);
        if ino.0 % 3 == 0 {
            let _ = system.unlink(&caller, InodeNo::ROOT, name);
        }
    }
    let _ = system.sync();
    let _ = system.checkpoint();
    let _ = (system.statfs(), layout.unfinished(), layout.statistics());
    let _ = system.unmount();
    let _ = layout.unmount();
}

/// Inputs worth mutating.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..16)
        .flat_map(|flags| {
            let patched = [0, 8, 0, 4, 1, 3, 0, 40, 0, 2, 0, 9, 9];
            [vec![flags], [&[flags][..], &patched].concat()]
        })
        .collect()
}
