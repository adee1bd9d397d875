//! Damage, and the result of its repair.

use super::*;
use crate::format::{Geometry, Metadata, SECTOR_BYTES, Superblock};
use std::io::IoSlice;
use varve_fs::{Cause, FileKind, Group, Inode, Item, Timestamp, Version, flags};
use zerocopy::IntoBytes;

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
    unmount(&system);
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

/// The files of a lost directory are kept under their numbers.
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
        unmount(&system);
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
    let names = names(&system, kept);
    // Empty files are freed.
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with(b"inode-"));
    let found = system.lookup(&root, kept, &names[0]).unwrap().ino;
    assert_eq!(read(&system, found, 0, 20), b"still here");
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

/// A mount repairs the effects of a crash, and writes nothing if there is other damage.
#[test]
fn a_mount_refuses_to_write_to_what_no_crash_explains() {
    let (device, geometry, files) = volume(Metadata::Asynchronous);
    let system = again(&device);
    create(&system, "one more");
    system.sync().unwrap();
    drop(system);
    // The volume is dirty, and also damaged.
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

fn repair_fails(device: &Arc<dyn Device>) -> String {
    let done = repair(Arc::clone(device), clock(), FfsMountOptions::default());
    done.unwrap_err().to_string()
}

/// Both superblocks are lost, so the copies must identify the volume.
#[test]
fn copies_that_differ_and_those_of_a_former_volume_do_not_count() {
    let (device, geometry, _) = volume(Metadata::Journal);
    let mut bytes = [0; 512];
    device.read(0, &mut bytes).unwrap();
    let mut other = Superblock::parse(&bytes).unwrap();
    spoil(&device, 0);
    spoil(&device, geometry.last_block() * geometry.block_sectors());
    assert!(search(&*device).unwrap().is_some());
    other.label[0] = b'x';
    let at = geometry.block_byte(geometry.group_block(1));
    let before = other.sealed();
    device
        .write(at, &[IoSlice::new(before.as_bytes())])
        .unwrap();
    assert!(repair_fails(&device).contains("differ"));
    device.write(at, &[IoSlice::new(&bytes)]).unwrap();
    // Another file system has been made over it.
    for copy in 0..2 {
        let block = Geometry::HEAD_BLOCK + copy;
        spoil(&device, block * geometry.block_sectors());
    }
    assert!(search(&*device).unwrap().is_none());
    repair_fails(&device);
    let mut front = [0; 512];
    device.read(0, &mut front).unwrap();
    assert_eq!(front, [0x5a; 512]);
}

/// Creates a file without a name, with inline content, or with blocks of `bytes` bytes.
fn orphan(layout: &Ffs, blocks: u64, bytes: usize) -> InodeNo {
    let allocated = layout.allocate_inode(InodeNo::ROOT, FileKind::Regular);
    let (ino, version): (InodeNo, Version) = allocated.unwrap();
    let mut inode = Inode::new(ino, version, 0o100_644, Timestamp::default());
    inode.nlink = 1;
    let mut items = Vec::new();
    for block in 0..blocks {
        items.push(Item::Block {
            ino,
            version,
            block,
            data: Arc::new(vec![1; bytes].into()),
            written: Timestamp::default(),
        });
    }
    if blocks == 0 {
        inode.flags |= flags::INLINE;
        inode.inline = b"inline".to_vec();
    }
    inode.size = (blocks * 4096).max(6);
    inode.blocks = blocks;
    inode.sectors = blocks * bytes as u64 / 512;
    let mut usage = layout.usage();
    usage.inodes += 1;
    usage.blocks += inode.blocks;
    usage.sectors += inode.sectors;
    items.push(Item::Inode(Box::new(inode)));
    let cause = Cause::WriteBack;
    let group = Group {
        items,
        usage,
        cause,
    };
    let position = layout.append(group).unwrap();
    layout.commit(position).unwrap();
    ino
}

/// A new directory for the file would need a number.
#[test]
fn a_file_without_a_name_is_kept_where_no_number_is_left() {
    let device = memory(24 << 20, 512);
    let options = FfsFormatOptions {
        metadata: Metadata::Synchronous,
        inode_ratio: 1 << 20,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let root = Caller::root();
    let make = |name: &str| system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100_644, 0);
    let refused = (0..100).find_map(|nth| Some((nth, make(&format!("{nth}")).err()?)));
    assert!(
        refused.as_ref().is_some_and(|(count, _)| *count > 8),
        "{refused:?}"
    );
    system.unlink(&root, InodeNo::ROOT, b"3").unwrap();
    system.sync().unwrap();
    let ino = orphan(system.layout(), 0, 0);
    drop(system);
    sound(&device);
    let system = again(&device);
    assert_eq!(system.layout().stopped(), None);
    let name = format!("inode-{ino}");
    let found = system
        .lookup(&root, InodeNo::ROOT, name.as_bytes())
        .unwrap();
    assert_eq!(read(&system, found.ino, 0, 20), b"inline");
    unmount(&system);
    sound(&device);
}

/// There is no space for a name, but the volume can still be read.
#[test]
fn a_volume_without_any_room_is_mounted_to_be_read() {
    let device = memory(8 << 20, 512);
    let options = FfsFormatOptions {
        metadata: Metadata::Synchronous,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let file = create(&system, "file");
    write(&system, file, 0, b"kept").unwrap();
    system.sync().unwrap();
    let layout = system.layout();
    let free = || {
        let writer = layout.writer.lock();
        (writer.room.free_blocks(), writer.room.free_fragments())
    };
    layout.checkpoint().unwrap();
    while free().0 > 0 {
        orphan(layout, free().0.min(12), 4096);
    }
    while free().1 > 0 {
        orphan(layout, free().1.min(12), 512);
    }
    drop(system);
    let system = again(&device);
    let reason = system.layout().stopped().unwrap();
    assert!(reason.contains("no room"), "{reason}");
    assert_eq!(read(&system, file, 0, 9), b"kept");
    drop(system);
    let found = check(Arc::clone(&device), clock(), true).unwrap();
    assert!(
        found
            .problems
            .iter()
            .any(|problem| problem.contains("no room"))
    );
    assert!(repair_fails(&device).contains("no room"));
}

/// The file's inode was durable before its name, so no crash explains its loss,
/// whatever the maps say, which are written later.
#[test]
fn a_name_of_no_file_is_a_loss_where_names_are_ordered() {
    for metadata in [Metadata::Synchronous, Metadata::Asynchronous] {
        let (device, geometry, _) = volume(metadata);
        let system = again(&device);
        let file = create(&system, "late");
        system.sync().unwrap();
        drop(system);
        spoil(&device, geometry.inode_sector(file.0));
        let layout = mounted(&device);
        let report = layout.recovery_report();
        let is_loss = metadata == Metadata::Synchronous;
        assert_eq!(layout.stopped().is_some(), is_loss);
        assert_eq!(report.losses.len(), usize::from(is_loss), "{report:?}");
        drop(layout);
        mend(&device);
    }
}

/// A name that cannot be entered again is not counted.
#[test]
fn names_that_differ_only_by_case_leave_one_and_a_file_without() {
    let device = memory(24 << 20, 512);
    let system = made(&device);
    for name in ["Name", "name"] {
        let file = create(&system, name);
        write(&system, file, 0, name.as_bytes()).unwrap();
    }
    unmount(&system);
    let geometry = system.layout().store.geometry;
    let mut superblock = *system.layout().superblock();
    drop(system);
    superblock.options |= 1;
    let superblock = superblock.sealed();
    let groups = (0..geometry.groups()).map(|group| geometry.group_block(group));
    for block in groups.chain([0, geometry.last_block()]) {
        let at = block * geometry.block_sectors() * SECTOR_BYTES as u64;
        let copy = IoSlice::new(superblock.as_bytes());
        device.write(at, &[copy]).unwrap();
    }
    let recovery = mend(&device).recovery;
    assert!(
        recovery
            .losses
            .iter()
            .any(|loss| loss.contains("cannot be kept"))
    );
    let system = again(&device);
    assert_eq!(names(&system, InodeNo::ROOT).len(), 2);
    let kept = system.lookup(&Caller::root(), InodeNo::ROOT, b"lost+found");
    assert_eq!(names(&system, kept.unwrap().ino).len(), 1);
}

/// The directory's names move elsewhere in the same commit, and its former state is not
/// readable.
#[test]
fn a_damaged_directory_is_repaired_beside_others() {
    for metadata in Metadata::ALL {
        let device = memory(24 << 20, 512);
        let options = FfsFormatOptions {
            metadata,
            ..FfsFormatOptions::default()
        };
        let system = made_with(&device, &options);
        let root = Caller::root();
        let directory = system.mkdir(&root, InodeNo::ROOT, b"d", 0o755).unwrap().ino;
        for nth in 0..800 {
            let name = format!("{nth:0>100}");
            let file = system.mknod(&root, directory, name.as_bytes(), 0o100_644, 0);
            write(&system, file.unwrap().ino, 0, b"x").unwrap();
        }
        unmount(&system);
        let crate::format::Slot::Used(image) = slot(system.layout(), directory) else {
            panic!("it is in use");
        };
        drop(system);
        spoil(&device, image.indirect[0].sector);
        let recovery = mend(&device).recovery;
        assert!(recovery.losses.len() >= 2, "{recovery:?}");
        let system = again(&device);
        let kept = system.lookup(&root, InodeNo::ROOT, b"lost+found").unwrap();
        let count = names(&system, kept.ino).len() + names(&system, directory).len();
        assert_eq!(count, 800);
    }
}
