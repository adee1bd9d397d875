//! A mount that overwrites directory blocks, as the papers' FFS does.

use super::*;
use crate::format::Metadata;
use std::io::IoSlice;
use varve_device::{Event, RecordingDevice};
use varve_fs::Rename;

type Recorder = Arc<RecordingDevice<MemoryDevice>>;

const GEOMETRY: varve_device::Geometry = varve_device::Geometry {
    size: 24 << 20,
    logical_block: 512,
    physical_block: 512,
};

fn overwriting() -> (Recorder, System) {
    let recorder: Recorder = Arc::new(RecordingDevice::new(MemoryDevice::with_geometry(GEOMETRY)));
    let device: Arc<dyn Device> = recorder.clone();
    let format = FfsFormatOptions {
        metadata: Metadata::Synchronous,
        seed: Some(1),
        ..FfsFormatOptions::default()
    };
    crate::format(&*device, &*clock(), &format).unwrap();
    let mount = FfsMountOptions {
        seed: Some(2),
        overwrites_directories: true,
        ..FfsMountOptions::default()
    };
    let layout = Arc::new(Ffs::mount(device, clock(), mount).unwrap());
    FileSystem::format(&*layout, &*clock(), (0, 0)).unwrap();
    let system = FileSystem::mount(layout, clock(), options()).unwrap();
    (recorder, system)
}

fn writes(trace: &[Event]) -> Vec<u64> {
    let offset = |event: &Event| match event {
        Event::Write { offset, .. } => Some(*offset),
        _ => None,
    };
    trace.iter().filter_map(offset).collect()
}

#[test]
fn a_name_takes_two_writes() {
    let (recorder, system) = overwriting();
    let root = Caller::root();
    // A directory of a block, and numbers that were used before.
    for nth in 0..20 {
        create(&system, &format!("file {nth}"));
    }
    for nth in 10..20 {
        let name = format!("file {nth}");
        system
            .unlink(&root, InodeNo::ROOT, name.as_bytes())
            .unwrap();
    }
    system.sync().unwrap();
    recorder.take_trace();
    let made = create(&system, "made");
    let of_create = writes(&recorder.take_trace());
    system.unlink(&root, InodeNo::ROOT, b"made").unwrap();
    let of_removal = writes(&recorder.take_trace());
    let inode = system.layout().store.geometry.inode_sector(made.0) * 512;
    let block = of_create[1];
    assert_eq!(of_create, [inode, block]);
    assert_eq!(of_removal, [block, inode]);
    // The times of the directory follow at the checkpoint.
    system.sync().unwrap();
    unmount(&system);
    let device: Arc<dyn Device> = recorder;
    sound(&device);
    assert_eq!(names(&again(&device), InodeNo::ROOT).len(), 10);
}

/// After each write of a life with names in three directories, a mount of any kind finds
/// nothing that a crash does not explain, and no file has lost its last name.
#[test]
fn a_crash_between_two_writes_is_mended() {
    let (recorder, system) = overwriting();
    let root = Caller::root();
    let make = |name: &[u8]| system.mkdir(&root, InodeNo::ROOT, name, 0o755).unwrap().ino;
    let directories = [make(b"a"), make(b"b"), InodeNo::ROOT];
    let kept = create(&system, "kept");
    system.sync().unwrap();
    let before = recorder.take_trace();
    let mut at = (InodeNo::ROOT, b"kept".to_vec());
    for nth in 0..60u32 {
        let directory = directories[nth as usize % 3];
        let name = format!("a rather long name of the file {nth}").into_bytes();
        match nth % 5 {
            0 => {
                system.link(&root, kept, directory, &name).unwrap();
                system.unlink(&root, at.0, &at.1).unwrap();
                at = (directory, name);
            }
            1 => {
                let flags = Rename::default();
                let to = directories[(nth as usize + 1) % 3];
                let renamed = system.rename(&root, at.0, &at.1, to, &name, flags);
                renamed.unwrap();
                at = (to, name);
            }
            _ => {
                system.mknod(&root, directory, &name, 0o100644, 0).unwrap();
            }
        }
        // Some commits have several changes.
        if nth % 4 != 0 {
            system.fsync(InodeNo::ROOT, false).unwrap();
        }
    }
    system.fsync(InodeNo::ROOT, false).unwrap();
    let life = recorder.take_trace();
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::with_geometry(GEOMETRY));
    let apply = |event: &Event| {
        if let Event::Write { offset, data } = event {
            device.write(*offset, &[IoSlice::new(data)]).unwrap();
        }
    };
    before.iter().for_each(apply);
    for event in &life {
        apply(event);
        let Event::Write { .. } = event else { continue };
        let copy: Arc<dyn Device> = Arc::new(MemoryDevice::with_geometry(GEOMETRY));
        let mut bytes = vec![0; GEOMETRY.size as usize];
        device.read(0, &mut bytes).unwrap();
        copy.write(0, &[IoSlice::new(&bytes)]).unwrap();
        let system = again(&copy);
        assert_eq!(system.layout().stopped(), None);
        unmount(&system);
        sound(&copy);
        let system = again(&copy);
        let found = directories.map(|directory| names(&system, directory));
        let inodes = directories
            .iter()
            .zip(&found)
            .flat_map(|(directory, names)| {
                let of = |name: &Vec<u8>| system.lookup(&root, *directory, name).unwrap().ino;
                names.iter().map(of).collect::<Vec<_>>()
            });
        assert!(inodes.collect::<Vec<_>>().contains(&kept), "{found:?}");
    }
}
