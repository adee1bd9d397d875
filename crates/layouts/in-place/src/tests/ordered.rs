//! Special cases of metadata that is written in place.

use super::*;
use crate::format::{Image, JournalHead, Metadata, Place, Slot};
use std::io::IoSlice;
use varve_device::{Event, RecordingDevice};
use varve_fs::{FileKind, View};

fn in_place(metadata: Metadata, unit: u32) -> (Arc<dyn Device>, System) {
    let device = memory(24 << 20, unit);
    let options = FfsFormatOptions {
        metadata,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    (device, system)
}

const BOTH: [Metadata; 2] = [Metadata::Synchronous, Metadata::Asynchronous];

/// Returns true if the newest head is dirty.
fn is_dirty(device: &Arc<dyn Device>, system: &System) -> bool {
    let tag = system.layout().store.geometry.tag;
    let mut heads = Vec::new();
    for block in [2, 3] {
        let mut bytes = vec![0; 4096];
        device.read(block * 4096, &mut bytes).unwrap();
        heads.push(JournalHead::parse(&bytes, tag).unwrap());
    }
    let newest = heads.iter().max_by_key(|head| head.serial.get());
    newest.unwrap().is_dirty()
}

#[test]
fn a_volume_says_whether_it_was_unmounted() {
    for metadata in BOTH {
        let (device, system) = in_place(metadata, 4096);
        assert!(is_dirty(&device, &system));
        let file = create(&system, "file");
        write(&system, file, 0, b"kept").unwrap();
        unmount(&system);
        assert!(!is_dirty(&device, &system));
        sound(&device);
        let system = again(&device);
        let report = system.layout().recovery_report();
        assert!(!report.unclean && report.repairs.is_empty(), "{report:?}");
        assert_eq!(read(&system, file, 0, 9), b"kept");
    }
}

#[test]
fn what_is_synced_is_there_after_a_crash() {
    for metadata in BOTH {
        for unit in [512, 4096] {
            let (device, system) = in_place(metadata, unit);
            let root = Caller::root();
            let directory = system.mkdir(&root, InodeNo::ROOT, b"d", 0o755).unwrap().ino;
            for nth in 0..300 {
                let name = format!("file {nth}");
                system
                    .mknod(&root, directory, name.as_bytes(), 0o100644, 0)
                    .unwrap();
            }
            let large = create(&system, "large");
            let content: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
            write(&system, large, 0, &content).unwrap();
            let sparse = create(&system, "sparse");
            write(&system, sparse, 1 << 36, b"far out").unwrap();
            system.sync().unwrap();
            drop(system);
            sound(&device);
            let system = again(&device);
            assert!(system.layout().recovery_report().unclean);
            assert_eq!(system.layout().stopped(), None);
            assert_eq!(read(&system, large, 0, content.len()), content);
            assert_eq!(read(&system, sparse, 1 << 36, 9), b"far out");
            let found = system.lookup(&root, directory, b"file 299").unwrap().ino;
            system.unlink(&root, directory, b"file 299").unwrap();
            system.sync().unwrap();
            assert!(system.getattr(found).is_err());
            drop(system);
            sound(&device);
        }
    }
}

/// The cost of operations on names: a flush for the new inode, one for the directory.
#[test]
fn names_are_durable_when_they_are_answered() {
    let (device, system) = in_place(Metadata::Synchronous, 4096);
    let told = || system.layout().statistics();
    let before = told().flushes;
    let file = create(&system, "file");
    assert_eq!(told().flushes, before + 2);
    let root = Caller::root();
    system.unlink(&root, InodeNo::ROOT, b"file").unwrap();
    // The commit does not wait for the free inode.
    assert_eq!(told().flushes, before + 4);
    let kept = create(&system, "kept");
    drop(system);
    let system = again(&device);
    assert!(system.getattr(file).is_err() || file == kept);
    assert_eq!(
        system.lookup(&root, InodeNo::ROOT, b"kept").unwrap().ino,
        kept
    );
}

#[test]
fn nothing_is_written_in_place_before_a_commit_where_nothing_is_ordered() {
    let (device, system) = in_place(Metadata::Asynchronous, 4096);
    let flushes = system.layout().statistics().flushes;
    for nth in 0..50 {
        create(&system, &format!("file {nth}"));
    }
    system.write_back().unwrap();
    assert_eq!(system.layout().statistics().flushes, flushes);
    drop(system);
    let system = again(&device);
    assert!(
        system
            .lookup(&Caller::root(), InodeNo::ROOT, b"file 0")
            .is_err()
    );
}

/// I2: references to blocks are copied, and never changed where something refers to
/// them.
#[test]
fn a_directory_and_what_leads_to_blocks_are_never_overwritten() {
    let (_device, system) = in_place(Metadata::Synchronous, 4096);
    let layout = system.layout();
    let place = |ino: InodeNo| layout.map(View::Live, ino, 0, 1).unwrap()[0].pointer.sector;
    create(&system, "one");
    let before = place(InodeNo::ROOT);
    let large = create(&system, "two");
    assert_ne!(place(InodeNo::ROOT), before);
    write(&system, large, 0, &vec![1; 200 << 10]).unwrap();
    system.fsync(large, false).unwrap();
    let indirect = || match slot(layout, large) {
        Slot::Used(image) => (image.indirect[0].sector, image.direct[0].sector),
        Slot::Free(_) => unreachable!(),
    };
    let before = indirect();
    write(&system, large, 200 << 10, &[2; 4096]).unwrap();
    system.fsync(large, false).unwrap();
    let after = indirect();
    assert_ne!(before.0, after.0);
    assert_eq!(before.1, after.1);
}

/// I1: two crashes may leave a file in the sector of a number that has none.
#[test]
fn a_name_waits_for_its_inode_whatever_stood_there() {
    let recorder = Arc::new(RecordingDevice::new(MemoryDevice::with_geometry(
        varve_device::Geometry {
            size: 24 << 20,
            logical_block: 512,
            physical_block: 512,
        },
    )));
    let device: Arc<dyn Device> = recorder.clone();
    let options = FfsFormatOptions {
        metadata: Metadata::Synchronous,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let allocated = system
        .layout()
        .allocate_inode(InodeNo::ROOT, FileKind::Regular);
    let (next, version) = allocated.unwrap();
    system.layout().forget_inode(next);
    unmount(&system);
    let geometry = system.layout().store.geometry;
    drop(system);
    let mut stale = Image::blank(next, version);
    stale.inode.nlink = 1;
    stale.direct[0] = Place {
        sector: geometry.fragment_sector(geometry.data_fragments(1).start),
        sectors: 1,
        flags: 0,
        crc: 0,
    };
    let at = |ino: InodeNo| geometry.inode_sector(ino.0) * 512;
    let bytes = stale.encode(&geometry);
    device.write(at(next), &[IoSlice::new(&bytes)]).unwrap();
    let system = again(&device);
    recorder.take_trace();
    assert_eq!(create(&system, "file"), next);
    let trace = recorder.take_trace();
    let written = |ino: InodeNo| {
        let has = |event: &Event| match event {
            Event::Write { offset, data } => {
                (*offset..offset + data.len() as u64).contains(&at(ino))
            }
            _ => false,
        };
        trace.iter().position(has).unwrap()
    };
    let between = &trace[written(next)..written(InodeNo::ROOT)];
    assert!(
        between
            .iter()
            .any(|event| matches!(event, Event::Flush { .. }))
    );
}

/// I5: space and numbers are reused after the commit that gives them up.
#[test]
fn a_number_is_given_away_again_after_its_commit() {
    let (_device, system) = in_place(Metadata::Asynchronous, 4096);
    let root = Caller::root();
    let file = create(&system, "file");
    system.sync().unwrap();
    system.unlink(&root, InodeNo::ROOT, b"file").unwrap();
    while system.write_back().unwrap() {}
    assert_ne!(create(&system, "other"), file);
    system.sync().unwrap();
    assert_eq!(create(&system, "third"), file);
}

/// Threads share commits, and the result of each acknowledged operation is found.
#[test]
fn threads_that_move_files_lose_none() {
    for metadata in BOTH {
        let (device, system) = in_place(metadata, 4096);
        let root = Caller::root();
        let make = |name: &[u8]| system.mkdir(&root, InodeNo::ROOT, name, 0o755).unwrap().ino;
        let (from, to) = (make(b"from"), make(b"to"));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (system, root) = (&system, &root);
                scope.spawn(move || {
                    for nth in 0..40 {
                        let name = format!("{thread} {nth}");
                        let name = name.as_bytes();
                        let file = system.mknod(root, from, name, 0o100644, 0).unwrap().ino;
                        system.write(root, file, 0, name).unwrap();
                        system.fsync(file, false).unwrap();
                        let flags = varve_fs::Rename::default();
                        system.rename(root, from, name, to, name, flags).unwrap();
                        if nth % 4 == 0 {
                            system.unlink(root, to, name).unwrap();
                        }
                    }
                });
            }
        });
        system.fsync(to, false).unwrap();
        drop(system);
        sound(&device);
        let system = again(&device);
        assert_eq!(
            system.layout().recovery_report().losses,
            Vec::<String>::new()
        );
        for (thread, nth) in (0..4).flat_map(|thread| (0..40).map(move |nth| (thread, nth))) {
            let name = format!("{thread} {nth}");
            let found = system.lookup(&root, to, name.as_bytes());
            assert!(system.lookup(&root, from, name.as_bytes()).is_err());
            match nth % 4 {
                0 => assert!(found.is_err()),
                _ => assert_eq!(read(&system, found.unwrap().ino, 0, 20), name.as_bytes()),
            }
        }
    }
}
