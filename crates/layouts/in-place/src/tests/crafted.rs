//! Images with random bytes and correct checksums: the program returns an error or an
//! answer, and does not panic. `fuzz/` does the same for longer.

use super::*;
use crate::format::{Geometry, JournalHead, Metadata, Seal, Slot, Superblock};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::IoSlice;
use varve_format::crc32c;
use zerocopy::IntoBytes;

const BYTES: u64 = 4 << 20;

/// Returns a used volume as a crash left it.
fn sample(unit: u32, metadata: Metadata, policy: &str) -> Vec<u8> {
    let device = memory(BYTES, unit);
    let options = FfsFormatOptions {
        group_blocks: 256,
        metadata,
        ..FfsFormatOptions::named(policy).unwrap()
    };
    let system = made_with(&device, &options);
    let root = Caller::root();
    for nth in 0..40u64 {
        let ino = create(&system, &format!("file {nth}"));
        let at = if nth % 8 == 0 { 1 << 33 } else { 0 };
        write(&system, ino, at, &vec![nth as u8; 100 + 700 * nth as usize]).unwrap();
        if nth % 10 == 5 {
            let value = vec![nth as u8; 300];
            let set = system.setxattr(&root, ino, b"user.note", &value, false, false);
            set.unwrap();
        }
        if nth % 4 == 0 {
            system.fsync(ino, false).unwrap();
        }
        if nth == 20 {
            system.checkpoint().unwrap();
        }
    }
    let mut bytes = vec![0; BYTES as usize];
    device.read(0, &mut bytes).unwrap();
    bytes
}

/// Corrects the checksum of the content of a sector.
fn seal(bytes: &mut [u8], sector: usize, geometry: &Geometry) {
    let at = sector * 512;
    if bytes[at..].starts_with(b"VARVEFF\x01") {
        let crc = crc32c(&bytes[at + 12..at + 512]);
        bytes[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
    } else if bytes[at..].starts_with(b"VFJH") {
        let crc = crc32c(&bytes[at + 8..at + 512]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    } else if bytes[at..].starts_with(b"VFJR") {
        let length = u32::from_le_bytes(bytes[at + 40..at + 44].try_into().unwrap()) as usize;
        let end = (at + length).min(bytes.len()).max(at + 8);
        let crc = crc32c(&bytes[at + 8..end]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    } else {
        let mut sealed = [0; 512];
        sealed.copy_from_slice(&bytes[at..at + 512]);
        let owner = u32::from_le_bytes(sealed[504..508].try_into().unwrap());
        let seal = Seal {
            tag: geometry.tag,
            sector: sector as u64,
            owner,
        };
        seal.close(&mut sealed);
        bytes[at..at + 512].copy_from_slice(&sealed);
    }
}

/// Checks that the result of a repair is sound, also when it is checked again.
fn repaired(bytes: &[u8], unit: u32) {
    let device = memory(BYTES, unit);
    device.write(0, &[IoSlice::new(bytes)]).unwrap();
    let options = FfsMountOptions::default;
    match repair(Arc::clone(&device), clock(), options()) {
        Err(Error::NoVolume { .. }) => return,
        done => drop(done.unwrap()),
    }
    sound(&device);
    let again = repair(device, clock(), options()).unwrap().recovery;
    assert_eq!((again.repairs, again.losses), (vec![], vec![]));
}

fn use_all(device: &Arc<dyn Device>) {
    let _ = check(Arc::clone(device), clock(), true);
    let Ok(layout) = Ffs::mount(Arc::clone(device), clock(), FfsMountOptions::default()) else {
        return;
    };
    let Ok(system) = FileSystem::mount(Arc::new(layout), clock(), options()) else {
        return;
    };
    let root = Caller::root();
    let mut names = Vec::new();
    let _ = system.readdir(InodeNo::ROOT, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.ino));
        names.len() < 200
    });
    let mut buffer = vec![0; 8192];
    for (name, ino) in &names {
        let _ = system.read(*ino, 0, &mut buffer);
        let _ = system.read(*ino, 1 << 33, &mut buffer);
        let _ = system.write(&root, *ino, 5000, &buffer);
        if ino.0 % 3 == 0 {
            let _ = system.unlink(&root, InodeNo::ROOT, name);
        }
    }
    let _ = system.sync();
    let _ = system.checkpoint();
    let _ = (system.statfs(), system.layout().statistics());
    let _ = system.unmount();
}

#[test]
fn crafted_images_are_errors_or_answers() {
    let kinds = [
        (512, Metadata::Journal, "ffs"),
        (4096, Metadata::Journal, "ffs"),
        (512, Metadata::Synchronous, "ffs"),
        (4096, Metadata::Asynchronous, "ffs"),
        (4096, Metadata::Journal, "extent"),
        (4096, Metadata::Synchronous, "buddy"),
        (4096, Metadata::Journal, "restricted"),
        (4096, Metadata::Asynchronous, "fixed"),
    ];
    for (unit, metadata, policy) in kinds {
        let sample = sample(unit, metadata, policy);
        let geometry = Geometry::of(&Superblock::parse(&sample).unwrap());
        // Targets are where metadata is, because other blocks would be drawn most of
        // the time.
        let mut targets: Vec<usize> = vec![0, 16, 24];
        let journal = geometry.groups_block() * 8;
        targets.extend((32..journal as usize).step_by(8).take(60));
        for group in 0..geometry.groups() {
            let first = geometry.maps_sector(group);
            targets.extend((first..first + geometry.map_sectors()).map(|s| s as usize));
        }
        targets.extend((2..60).map(|ino| geometry.inode_sector(ino) as usize));
        for group in 0..geometry.groups() {
            let data = geometry.data_fragments(group);
            let sector = |at| geometry.fragment_sector(at) as usize;
            targets.extend(data.step_by(7).take(12).map(sector));
        }
        for seed in 0..60 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut bytes = sample.clone();
            for _ in 0..random.random_range(1..5) {
                let sector = targets[random.random_range(0..targets.len())];
                for _ in 0..random.random_range(1..4) {
                    let at = sector * 512 + random.random_range(0..500);
                    let extremes = [0, 1, 0x7f, 0xff, random.random()];
                    let fill = extremes[random.random_range(0..extremes.len())];
                    let length = random.random_range(1..9);
                    bytes[at..at + length].fill(fill);
                }
                seal(&mut bytes, sector, &geometry);
            }
            let device = memory(BYTES, unit);
            device.write(0, &[IoSlice::new(&bytes)]).unwrap();
            eprintln!("unit {unit}, {metadata:?}, {policy}, seed {seed}");
            repaired(&bytes, unit);
            use_all(&device);
        }
    }
}

/// A head cannot make replay endless.
#[test]
fn positions_beyond_all_use_are_refused() {
    let device = memory(BYTES, 512);
    drop(made(&device));
    let layout = mounted(&device);
    let tag = layout.store.geometry.tag;
    drop(layout);
    for first in [u64::MAX, 0] {
        let head = JournalHead::new(tag, u64::MAX, 1, first, Default::default(), 0);
        let mut block = vec![0; 4096];
        block[..512].copy_from_slice(head.as_bytes());
        device.write(2 * 4096, &[IoSlice::new(&block)]).unwrap();
        mounted(&device);
    }
}

/// An indirect block that refers to itself seems to have 38 million blocks.
#[test]
fn an_indirect_block_that_leads_to_itself_ends() {
    let device = memory(BYTES, 512);
    let options = FfsFormatOptions {
        group_blocks: 256,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let file = create(&system, "file");
    write(&system, file, 1 << 33, &[1; 10]).unwrap();
    unmount(&system);
    let store = &system.layout().store;
    let geometry = store.geometry;
    let sector = store.read(geometry.inode_sector(file.0), 1).unwrap();
    let slot = Slot::decode(sector[..].try_into().unwrap(), &geometry, file);
    let Slot::Used(image) = slot.unwrap() else {
        panic!("it is in use");
    };
    let place = image.indirect[2];
    for sector in place.sector..place.sector + u64::from(place.sectors) {
        let mut bytes = [0; 512];
        for slot in bytes[..504].chunks_exact_mut(12) {
            place.encode(slot);
        }
        geometry.seal(sector, file.0 as u32).close(&mut bytes);
        device.write(sector * 512, &[IoSlice::new(&bytes)]).unwrap();
    }
    drop(system);
    let checked = check(Arc::clone(&device), clock(), false).unwrap();
    assert!(!checked.problems.is_empty());
    let system = again(&device);
    let _ = system.unlink(&Caller::root(), InodeNo::ROOT, b"file");
    assert!(system.sync().is_err());
}
