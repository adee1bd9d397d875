//! Virtual log disks: their structures, and whole media that hold anything.

use crate::input::Input;
use crate::mutate::EXTREMES;
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use varve_device::{Device, Geometry, MemoryDevice, VirtualClock};
use varve_disk::{SimulatedDisk, drives};
use varve_vlog::format::{
    CheckpointHeader, Layout, MapRecord, RecordHeader, Superblock, TailRecord, crc32c,
};
use varve_vlog::{FormatOptions, Granularity, InDrive, InOrder, Medium, Options, Vld};
use zerocopy::{FromBytes, IntoBytes};

const BLOCK: u32 = 1024;
const UNIT: usize = 512;
const DEVICE_BYTES: u64 = 128 << 10;
/// Bits of the first byte of an input.
const PARKED: u8 = 1;
const SEALED: u8 = 2;
const READ_ONLY: u8 = 4;
const ANYWHERE: u8 = 8;
/// Patches of one input: more would leave nothing of the volume.
const PATCHES_MAX: usize = 16;

fn layout(anywhere: bool) -> Layout {
    let blocks = DEVICE_BYTES / u64::from(BLOCK);
    Layout::choose(7, UNIT as u32, BLOCK, blocks, None, anywhere).expect("fits")
}

/// A whole unit of the input, zeros behind it.
fn unit(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(UNIT, 0);
    bytes
}

/// Sets the checksum of a structure that ends at `end`.
fn seal(bytes: &mut [u8], end: usize) {
    let crc = crc32c(&bytes[4..end]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Every structure: bytes as found, and with magic number, volume and checksum
/// made right.
pub fn structures(data: &[u8]) {
    for anywhere in [false, true] {
        structures_of(data, &layout(anywhere));
    }
}

fn structures_of(data: &[u8], layout: &Layout) {
    let mut bytes = unit(data);
    let place = u64::from(data.first().copied().unwrap_or(0));
    parse_all(&bytes, place, layout);
    for (magic, end) in [
        (b"VLDM", UNIT),
        (b"VLDS", size_of::<Superblock>()),
        (b"VLDT", size_of::<TailRecord>()),
        (b"VLDC", size_of::<CheckpointHeader>()),
    ] {
        bytes[4..8].copy_from_slice(magic);
        let at = if magic == b"VLDS" { 24 } else { 8 };
        bytes[at..at + 8].copy_from_slice(&layout.volume.to_le_bytes());
        seal(&mut bytes, end);
        parse_all(&bytes, place, layout);
    }
    // A record that is where it says it is, and above its checkpoints.
    let (mut header, _) = RecordHeader::read_from_prefix(&bytes).expect("long enough");
    header.magic = u32::from_le_bytes(*b"VLDM").into();
    header.unit = place.into();
    header.floor = (header.floor.get() % 100).into();
    header.newer = (header.floor.get() + header.newer.get() % 100).into();
    (header.previous, header.first) = (header.newer, header.newer);
    header.seq = (header.newer.get() + 1 + header.seq.get() % 100).into();
    bytes[..size_of::<RecordHeader>()].copy_from_slice(header.as_bytes());
    seal(&mut bytes, UNIT);
    parse_all(&bytes, place, layout);
}

fn parse_all(bytes: &[u8], place: u64, layout: &Layout) {
    if let Ok(record) = MapRecord::parse(bytes, place, layout) {
        let again = record.encode(UNIT as u32);
        let again = MapRecord::parse(&again, place, layout).expect("encoded");
        assert_eq!(again.entries, record.entries);
        for (entry, _) in record.entries {
            assert!(entry.place == 0 || layout.is_data_place(entry.place));
        }
    }
    if let Ok(superblock) = Superblock::parse(bytes) {
        let layout = Layout::of(&superblock).expect("checked by parse");
        assert!(layout.eager_start() < layout.last_block());
        assert!(layout.entries_of(layout.pieces() as u32 - 1) > 0);
    }
    let _ = TailRecord::parse(bytes, layout.volume);
    let _ = CheckpointHeader::parse(bytes, layout);
}

/// One of each structure.
pub fn structure_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (_, bytes) in samples(false).iter().chain(samples(true)) {
        let found = bytes
            .chunks_exact(UNIT)
            .filter(|unit| unit[4..].starts_with(b"VLD"));
        seeds.extend(found.step_by(5).map(<[u8]>::to_vec));
    }
    seeds
}

/// The drive that a volume whose data may begin anywhere is used in.
fn in_drive(device: MemoryDevice) -> Arc<dyn Medium> {
    let (drive, clock) = (drives::st19101(), Arc::new(VirtualClock::new(0, 0)));
    let disk = SimulatedDisk::over(device, drive.with_cylinders(1), clock, 1);
    Arc::new(InDrive(Arc::new(disk)))
}

/// A used medium: as a crash left it, and parked.
fn samples(anywhere: bool) -> &'static [(Geometry, Vec<u8>); 2] {
    type Media = [(Geometry, Vec<u8>); 2];
    static SAMPLES: [OnceLock<Media>; 2] = [OnceLock::new(), OnceLock::new()];
    SAMPLES[usize::from(anywhere)].get_or_init(|| {
        let geometry = Geometry {
            size: DEVICE_BYTES,
            logical_block: 512,
            physical_block: UNIT as u32,
        };
        let medium: Arc<dyn Medium> = match anywhere {
            true => in_drive(MemoryDevice::with_geometry(geometry)),
            false => Arc::new(InOrder(MemoryDevice::with_geometry(geometry))),
        };
        let options = FormatOptions {
            block_bytes: BLOCK,
            logical_bytes: None,
            volume: 7,
            anywhere,
        };
        let layout = Vld::format(&medium, options).expect("an empty medium");
        let (vld, _) = Vld::open(medium.clone(), Options::default()).expect("just formatted");
        for nth in 0..60 {
            let at = nth * 7 % layout.logical_blocks * u64::from(BLOCK);
            let bytes = [nth as u8; BLOCK as usize];
            vld.write(at, &[IoSlice::new(&bytes)]).expect("room");
            vld.flush().expect("memory");
            if nth % 20 == 19 {
                vld.checkpoint().expect("memory");
            }
        }
        let bytes = || {
            let mut bytes = vec![0; DEVICE_BYTES as usize];
            medium.read(0, &mut bytes).expect("memory");
            (geometry, bytes)
        };
        let dead = bytes();
        vld.park().expect("memory");
        [dead, bytes()]
    })
}

/// Opens a patched medium, and uses it if that succeeds.
pub fn medium(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.byte();
    let anywhere = flags & ANYWHERE != 0;
    let (geometry, bytes) = &samples(anywhere)[usize::from(flags & PARKED)];
    let mut bytes = bytes.clone();
    for _ in 0..PATCHES_MAX {
        if input.is_empty() {
            break;
        }
        let at = input.number(3) as usize % bytes.len();
        let length = (1 + usize::from(input.byte() % 16)).min(bytes.len() - at);
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
                let from = input.number(3) as usize % bytes.len() / UNIT * UNIT;
                let to = at / UNIT * UNIT;
                bytes.copy_within(from..from + UNIT, to);
            }
        }
        if flags & SEALED != 0 {
            let start = at / UNIT * UNIT;
            let unit = &mut bytes[start..start + UNIT];
            let end = match &unit[4..8] {
                b"VLDM" => UNIT,
                b"VLDS" => size_of::<Superblock>(),
                b"VLDT" => size_of::<TailRecord>(),
                b"VLDC" => size_of::<CheckpointHeader>(),
                _ => continue,
            };
            seal(unit, end);
        }
    }
    let device = MemoryDevice::with_geometry(*geometry);
    device.apply_write(0, &bytes).expect("memory");
    let options = Options {
        read_only: flags & READ_ONLY != 0,
        ..Options::default()
    };
    let medium: Arc<dyn Medium> = match anywhere {
        true => in_drive(device),
        false => Arc::new(InOrder(device)),
    };
    let Ok((vld, _)) = Vld::open(medium, options) else {
        return;
    };
    use_all(&vld);
}

/// Everything a volume can be asked, errors ignored.
fn use_all(vld: &Vld<Arc<dyn Medium>>) {
    let size = vld.geometry().size;
    let mut block = vec![0; BLOCK as usize];
    for at in (0..size).step_by(BLOCK as usize) {
        let _ = vld.read(at, &mut block);
    }
    for nth in 0..40u64 {
        let at = nth * 1536 % (size - 1024);
        let _ = vld.write(at / 512 * 512, &[IoSlice::new(&block)]);
        if nth % 3 == 0 {
            let _ = vld.flush();
        }
    }
    let _ = vld.discard(0, size / 2);
    let until_ns = vld.medium().now_ns().map_or(0, |now| now + 100_000_000);
    let _ = vld.compact(until_ns, Granularity::Track);
    let _ = vld.checkpoint();
    let map = vld.map();
    if vld.park().is_ok() {
        let again = Vld::open(vld.medium().clone(), Options::default());
        let (again, _) = again.expect("what was parked can be opened");
        assert_eq!(again.map(), map);
    }
}

/// Inputs worth mutating.
pub fn medium_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for flags in 0..2 * ANYWHERE {
        seeds.push(vec![flags]);
        seeds.push([&[flags][..], &[0, 8, 0, 4, 1, 3, 0, 40, 0, 2, 0, 9, 9]].concat());
        seeds.push([&[flags][..], &[0, 60, 0, 4, 2, 0, 80, 0, 16, 4, 0, 7, 1, 2]].concat());
    }
    seeds
}
