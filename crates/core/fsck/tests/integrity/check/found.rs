//! Faults of the layout that the check, or images crafted for it, have found.

use crate::surgeon::Surgeon;
use crate::volume::{Volume, formatted, mount_options, pattern};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use varve_device::{Event, MemoryDevice, RecordingDevice};
use varve_fs::{Cause, Group, InodeNo, Item, Layout, View};
use varve_fsck::check::FindingKind;
use varve_lfs::{FormatOptions, Lfs};

/// Two slots of a root lead to one node, which names its place: the second is refused
/// even if the first has brought the node into the cache. If this is omitted, a crafted
/// index of ten nodes has 126^9 blocks, and freeing it never ends.
#[test]
fn a_node_answers_for_its_own_place_only() {
    let volume = Volume::new(16 << 20);
    let file = volume.file(InodeNo::ROOT, "large");
    volume.write(file, 0, &pattern(1, 900_000));
    volume.unmount();
    let mut surgeon = Surgeon::new(&volume.device);
    let first = surgeon.pointer(file, 1, 0);
    surgeon.edit_inode(file, |image| {
        image.root.as_mut().unwrap().slots[1] = first;
    });
    let lfs = Lfs::mount(surgeon.device(), volume.clock.clone(), mount_options(9)).unwrap();
    assert!(lfs.map(View::Live, file, 130, 1).is_err());
    assert_eq!(lfs.map(View::Live, file, 3, 1).unwrap().len(), 1);
    assert!(lfs.map(View::Live, file, 130, 1).is_err());
}

/// A checkpoint runs in parallel with groups that are not flushed, so the position in its
/// record precedes its own blocks. The power fails right after the record, and the first
/// partial behind the position is damaged. No summary proves that the partial was
/// durable, but the record does; if it is not used, the log continues over the image.
#[test]
fn a_record_testifies_to_what_was_durable() {
    let (device, clock) = formatted(8 << 20, FormatOptions::default());
    let base = device.snapshot();
    let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&base)));
    let volume = &Volume::mount(recorder.clone(), clock, 3);
    let file = volume.file(InodeNo::ROOT, "file");
    volume.write(file, 0, &pattern(1, 800_000));
    volume.system.sync().unwrap();
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !done.load(Relaxed) {
                let inode = volume.lfs.read_inode(View::Live, file).unwrap();
                let group = Group {
                    items: vec![Item::Inode(Box::new(inode))],
                    usage: volume.lfs.usage(),
                    cause: Cause::WriteBack,
                };
                volume.lfs.append(group).unwrap();
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for _ in 0..30 {
            volume.lfs.checkpoint().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Relaxed);
    });
    let superblock = Surgeon::new(&device).superblock;
    let ring = superblock.ring_offset.get();
    let ring = ring..ring + 2 * u64::from(superblock.record_bytes.get());
    let mut image = base;
    let mut tried = 0;
    for event in recorder.take_trace() {
        let Event::Write { offset, data } = event else {
            continue;
        };
        image.write(offset, &data);
        if ring.contains(&offset) && tried < 5 {
            tried += u32::from(rot_behind_the_position(&image));
        }
    }
    eprintln!("{tried} records lay behind their positions");
}

/// Damages the partial behind the record's position. Returns true if there was one.
fn rot_behind_the_position(image: &varve_device::MemoryImage) -> bool {
    let mut surgeon = Surgeon::new(&MemoryDevice::from_image(image));
    let header = surgeon.record.header;
    if header.durable_through.get() <= header.position.serial.get() {
        return false;
    }
    let report = surgeon.check(false);
    assert!(report.errors.is_empty(), "{report}");
    let (segment, offset, _) = surgeon.geometry.successor(&header.position);
    let at = surgeon.geometry.byte(segment, offset) as usize;
    surgeon.bytes[at + 64] ^= 1;
    let report = surgeon.check(false);
    let kinds: Vec<FindingKind> = report.errors.iter().map(|finding| finding.kind).collect();
    assert!(kinds.contains(&FindingKind::LogDamage), "{report}");
    true
}
