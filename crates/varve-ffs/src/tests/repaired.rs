//! Damage, and what a repair makes of it.

use super::*;
use crate::format::{Geometry, Metadata, Superblock};
use std::io::IoSlice;

fn volume(metadata: Metadata) -> (Arc<dyn Device>, Geometry, Vec<InodeNo>) {
    let device = memory(24 << 20, 512);
    let options = FfsFormatOptions {
        metadata,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let root = Caller::root();
    let mut files = Vec::new();
    for nth in 0..12u8 {
        let file = create(&system, &format!("file {nth}"));
        write(&system, file, 0, &vec![nth; 100_000]).unwrap();
        files.push(file);
    }
    let directory = system.mkdir(&root, InodeNo::ROOT, b"d", 0o755).unwrap().ino;
    for nth in 0..100 {
        let name = format!("name {nth}");
        system
            .mknod(&root, directory, name.as_bytes(), 0o100644, 0)
            .unwrap();
    }
    files.push(directory);
    system.unmount().unwrap();
    system.layout().unmount().unwrap();
    let geometry = system.layout().store.geometry;
    (device, geometry, files)
}

fn spoil(device: &Arc<dyn Device>, sector: u64) {
    device
        .write(sector * 512, &[IoSlice::new(&[0x5a; 512])])
        .unwrap();
}

fn mend(device: &Arc<dyn Device>) -> Repaired {
    let done = repair(Arc::clone(device), clock(), FfsMountOptions::default()).unwrap();
    sound(device);
    let again = repair(Arc::clone(device), clock(), FfsMountOptions::default()).unwrap();
    assert_eq!(again.superblocks, 0);
    assert_eq!(
        (again.recovery.repairs, again.recovery.losses),
        (vec![], vec![])
    );
    done
}

#[test]
fn a_sound_volume_is_left_as_it_is() {
    for metadata in Metadata::ALL {
        let (device, ..) = volume(metadata);
        let done = mend(&device);
        assert_eq!(done.superblocks, 0);
        assert_eq!(
            (done.recovery.repairs, done.recovery.losses),
            (vec![], vec![])
        );
    }
}

#[test]
fn a_superblock_is_found_at_the_head_of_a_group() {
    let (device, geometry, files) = volume(Metadata::Synchronous);
    spoil(&device, 0);
    spoil(&device, geometry.last_block() * geometry.block_sectors());
    spoil(&device, geometry.group_block(0) * geometry.block_sectors());
    assert!(Ffs::mount(Arc::clone(&device), clock(), FfsMountOptions::default()).is_err());
    assert_eq!(mend(&device).superblocks, 3);
    let mut bytes = [0; 512];
    device.read(0, &mut bytes).unwrap();
    Superblock::parse(&bytes).unwrap();
    let system = again(&device);
    assert_eq!(read(&system, files[3], 0, 10), [3; 10]);
}

#[test]
fn a_lost_inode_costs_its_file_and_its_name() {
    for metadata in Metadata::ALL {
        let (device, geometry, files) = volume(metadata);
        spoil(&device, geometry.inode_sector(files[4].0));
        let recovery = mend(&device).recovery;
        assert_eq!(recovery.losses.len(), 1, "{recovery:?}");
        let system = again(&device);
        let root = Caller::root();
        assert!(system.lookup(&root, InodeNo::ROOT, b"file 4").is_err());
        assert_eq!(read(&system, files[5], 99_000, 2000), [5; 1000]);
        create(&system, "file 4");
        system.sync().unwrap();
        drop(system);
        sound(&device);
    }
}

/// The files of a directory that is gone are kept under their numbers.
#[test]
fn a_lost_directory_leaves_its_files_without_names() {
    let (device, geometry, files) = volume(Metadata::Synchronous);
    {
        let system = again(&device);
        let directory = *files.last().unwrap();
        let file = system
            .lookup(&Caller::root(), directory, b"name 7")
            .unwrap()
            .ino;
        write(&system, file, 0, b"still here").unwrap();
        system.unmount().unwrap();
        system.layout().unmount().unwrap();
    }
    spoil(&device, geometry.inode_sector(files.last().unwrap().0));
    let recovery = mend(&device).recovery;
    assert_eq!(recovery.losses.len(), 1, "{recovery:?}");
    let system = again(&device);
    let root = Caller::root();
    let kept = system
        .lookup(&root, InodeNo::ROOT, b"lost+found")
        .unwrap()
        .ino;
    let mut names = Vec::new();
    system
        .readdir(kept, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.ino));
            true
        })
        .unwrap();
    names.retain(|(name, _)| name.starts_with(b"inode-"));
    // Those that held nothing are free.
    assert_eq!(names.len(), 1);
    assert_eq!(read(&system, names[0].1, 0, 20), b"still here");
}

#[test]
fn damaged_maps_are_made_anew() {
    for metadata in Metadata::ALL {
        let (device, geometry, files) = volume(metadata);
        for nth in 0..geometry.map_sectors() {
            spoil(&device, geometry.maps_sector(0) + nth);
        }
        let recovery = mend(&device).recovery;
        assert_eq!(recovery.losses, Vec::<String>::new());
        assert_eq!(recovery.repairs.len(), 1, "{recovery:?}");
        let system = again(&device);
        assert_eq!(read(&system, files[0], 0, 10), [0; 10]);
    }
}

#[test]
fn a_damaged_indirect_block_costs_what_it_led_to() {
    let (device, _, files) = volume(Metadata::Synchronous);
    let indirect = {
        let system = again(&device);
        let found = slot(system.layout(), files[6]);
        system.layout().unmount().unwrap();
        match found {
            crate::format::Slot::Used(image) => image.indirect[0].sector,
            crate::format::Slot::Free(_) => unreachable!(),
        }
    };
    spoil(&device, indirect);
    let recovery = mend(&device).recovery;
    assert_eq!(recovery.losses.len(), 1, "{recovery:?}");
    let system = again(&device);
    assert_eq!(read(&system, files[6], 0, 12 * 4096), [6; 12 * 4096]);
    let rest = read(&system, files[6], 12 * 4096, 100_000);
    assert!(rest.iter().all(|&byte| byte == 0) && rest.len() == 100_000 - 12 * 4096);
}

/// A mount mends what a crash explains, and writes nothing where it does not.
#[test]
fn a_mount_refuses_to_write_to_what_no_crash_explains() {
    let (device, geometry, files) = volume(Metadata::Asynchronous);
    let system = again(&device);
    create(&system, "one more");
    system.sync().unwrap();
    drop(system);
    // Dirty, and damaged besides.
    spoil(&device, geometry.inode_sector(files[2].0));
    let layout = mounted(&device);
    assert!(
        layout.stopped().unwrap().contains("repair"),
        "{:?}",
        layout.stopped()
    );
    drop(layout);
    assert!(
        !check(Arc::clone(&device), clock(), false)
            .unwrap()
            .problems
            .is_empty()
    );
    mend(&device);
    assert_eq!(mounted(&device).stopped(), None);
}
