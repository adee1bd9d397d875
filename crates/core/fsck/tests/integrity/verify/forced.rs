//! The effects of a failed verification on a volume in use.

use super::scrub;
use crate::surgeon::Surgeon;
use crate::volume::{Volume, pattern};
use std::sync::Arc;
use varve_fs::{Caller, InodeNo};
use varve_fsck::check::Subject;
use varve_fsck::verify::{Control, Outcome, VerifyOptions, verify};

/// Returns a mounted volume whose device was damaged underneath.
fn damaged(damage: impl FnOnce(&mut Surgeon, InodeNo)) -> (Volume, InodeNo) {
    let volume = Volume::new(16 << 20);
    let file = volume.file(InodeNo::ROOT, "file");
    volume.write(file, 0, &pattern(1, 900_000));
    volume.file(InodeNo::ROOT, "other");
    volume.system.checkpoint().unwrap();
    let mut surgeon = Surgeon::new(&volume.device);
    let before = surgeon.bytes.clone();
    damage(&mut surgeon, file);
    for (at, (old, new)) in before
        .chunks(512)
        .zip(surgeon.bytes.chunks(512))
        .enumerate()
    {
        if old != new {
            volume.device.apply_write(at as u64 * 512, new).unwrap();
        }
    }
    volume.system.drop_caches();
    volume.lfs.drop_caches();
    (volume, file)
}

fn refused(volume: &Volume) -> varve_fs::Error {
    let (root, caller) = (InodeNo::ROOT, Caller::root());
    let made = volume.system.mknod(&caller, root, b"new", 0o644, 0);
    made.expect_err("the volume is read-only")
}

#[test]
fn damaged_metadata_makes_the_volume_read_only_and_reads_go_on() {
    let (volume, file) = damaged(|surgeon, file| {
        let pointer = surgeon.pointer(file, 1, 0);
        surgeon.rot(&pointer);
    });
    let report = scrub(&volume);
    let subject = Subject::Node {
        ino: file.0,
        height: 1,
        index: 0,
    };
    assert_eq!(report.errors[0].subject, subject);
    assert_eq!(report.errors[0].path.as_deref(), Some("/file"));
    let reason = volume.lfs.stopped().unwrap();
    let named = format!("inode {}, index node 0 of height 1", file.0);
    assert!(reason.contains(&named), "{reason}");
    let error = refused(&volume);
    assert_eq!(error.errno(), 30, "{error}");
    assert!(
        error.to_string().contains("verification found damage"),
        "{error}"
    );
    let other = volume.lookup(InodeNo::ROOT, "other");
    assert_eq!(volume.system.getattr(other).unwrap().size, 0);
}

#[test]
fn damaged_data_is_told_and_stops_nothing_unless_asked_to() {
    let (volume, file) = damaged(|surgeon, file| {
        for block in [7, 8, 9, 200] {
            let pointer = surgeon.pointer(file, 0, block);
            surgeon.rot(&pointer);
        }
    });
    let report = scrub(&volume);
    assert!(report.errors.is_empty(), "{report:#?}");
    assert_eq!((report.found, report.files.len()), (4, 1));
    let ranges: Vec<_> = report.files[0]
        .ranges
        .iter()
        .map(|r| (r.offset, r.length))
        .collect();
    assert_eq!(ranges, [(7 * 4096, 3 * 4096), (200 * 4096, 4096)]);
    assert_eq!(report.files[0].path.as_deref(), Some("/file"));
    assert_eq!(volume.lfs.stopped(), None);
    // Rewriting the data removes the damage.
    volume.write(file, 7 * 4096, &pattern(2, 3 * 4096));
    volume.write(file, 200 * 4096, &pattern(3, 4096));
    volume.system.sync().unwrap();
    assert!(scrub(&volume).is_sound());

    let (volume, _) = damaged(|surgeon, file| {
        let pointer = surgeon.pointer(file, 0, 7);
        surgeon.rot(&pointer);
    });
    let options = VerifyOptions {
        data: true,
        strict: true,
    };
    let control = Arc::new(Control::new(0));
    let report = verify(&volume.lfs, &control, &options).unwrap();
    assert_eq!(report.files.len(), 1);
    assert!(
        volume
            .lfs
            .stopped()
            .unwrap()
            .contains("damaged data in 1 files")
    );
}

#[test]
fn one_at_a_time_and_stopped_at_once() {
    let (volume, _) = damaged(|_, _| {});
    let control = Arc::new(Control::new(1)); // one byte per second
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| verify(&volume.lfs, &control, &VerifyOptions::default()));
        while control.progress().attempt == 0 {
            std::thread::yield_now();
        }
        let other = Arc::new(Control::new(0));
        assert!(verify(&volume.lfs, &other, &VerifyOptions::default()).is_none());
        // At this rate it would take hours.
        control.stop();
        let report = slow.join().unwrap().unwrap();
        assert_eq!(report.outcome, Outcome::Cancelled);
    });
    assert!(scrub(&volume).is_sound());
    volume.unmount();
}

/// A checkpoint that cannot read an index node that it must change stops the volume,
/// instead of writing a node that marks a loss. See docs/design/repair.md.
#[test]
fn a_rotten_index_node_of_a_file_being_written_stops_writes_and_not_reads() {
    let volume = Volume::new(16 << 20);
    let file = volume.file(InodeNo::ROOT, "file");
    volume.write(file, 0, &pattern(1, 900_000));
    let other = volume.file(InodeNo::ROOT, "other");
    volume.system.checkpoint().unwrap();
    let mut surgeon = Surgeon::new(&volume.device);
    volume.write(other, 0, b"kept");
    volume.write(file, 5 * 4096, &pattern(8, 4096));
    volume.system.sync().unwrap();
    // The damage follows the write, because a write that needs the damaged node fails
    // itself.
    let pointer = surgeon.pointer(file, 1, 0);
    surgeon.rot(&pointer);
    let (start, length) = (pointer.sector() * 512, pointer.stored_bytes());
    let rotten = &surgeon.bytes[start as usize..(start + length) as usize];
    volume.device.apply_write(start, rotten).unwrap();
    volume.system.drop_caches();
    volume.lfs.drop_caches();
    let caller = Caller::root();
    let refusal = volume.system.write(&caller, file, 7 * 4096, &[1; 4096]);
    assert_eq!(refusal.unwrap_err().errno(), 5);
    assert_eq!(volume.lfs.stopped(), None);
    volume.system.checkpoint().unwrap_err();
    let reason = volume.lfs.stopped().unwrap();
    assert!(
        reason.contains("checkpoint") && reason.contains(&file.0.to_string()),
        "{reason}"
    );
    assert_eq!(refused(&volume).errno(), 30);
    // Data that was written before, and does not need the node, can be read.
    let mut buffer = vec![0; 4096];
    volume.system.drop_caches();
    let read = volume.system.read(other, 0, &mut buffer).unwrap();
    assert_eq!(&buffer[..read], b"kept");
    let read = volume.system.read(file, 6 * 4096, &mut buffer);
    assert_eq!(read.unwrap_err().errno(), 5);
    // Synced changes survive: the next mount replays them.
    let again = volume.crash(9);
    let other = again.lookup(InodeNo::ROOT, "other");
    let read = again.system.read(other, 0, &mut buffer).unwrap();
    assert_eq!(&buffer[..read], b"kept");
}
