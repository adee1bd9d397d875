//! Faults of Varve itself: every checksum is right, and structures contradict each other.

use super::scrub;
use crate::patient::patient;
use crate::surgeon::Surgeon;
use crate::volume::{Volume, mount_options, system_options};
use std::sync::Arc;
use varve_device::VirtualClock;
use varve_fs::FileSystem;
use varve_fsck::check::{FindingKind as Kind, Subject};
use varve_fsck::verify::{Control, Verification, VerifyOptions, is_wanted, verify};
use varve_lfs::Lfs;
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::ImapState;

/// Mounts and verifies a volume. The layout is verified even if its tree cannot be
/// opened.
pub fn verified(surgeon: &Surgeon) -> (Verification, Option<String>) {
    let clock = Arc::new(VirtualClock::new(2_000_000_000_000, 1000));
    let lfs = Lfs::mount(surgeon.device(), clock.clone(), mount_options(3)).unwrap();
    let lfs = Arc::new(lfs);
    let _system = FileSystem::mount(lfs.clone(), clock, system_options());
    let options = VerifyOptions {
        data: true,
        ..VerifyOptions::default()
    };
    let control = Arc::new(Control::new(0));
    let report = verify(&lfs, &control, &options).unwrap();
    (report, lfs.stopped())
}

#[track_caller]
fn expect(surgeon: &Surgeon, kind: Kind, subject: Subject) -> Verification {
    let (report, stopped) = verified(surgeon);
    let found = report
        .errors
        .iter()
        .any(|f| f.kind == kind && f.subject == subject);
    assert!(found, "{kind:?} of {subject}: {report:#?}");
    let reason = stopped.expect("a failed check stops the volume");
    assert!(reason.contains("verification found damage"), "{reason}");
    report
}

#[test]
fn a_sound_volume_gives_nothing() {
    let (surgeon, _) = patient();
    let (report, stopped) = verified(&surgeon);
    assert!(
        report.is_sound() && report.warnings.is_empty(),
        "{report:#?}"
    );
    assert_eq!(stopped, None);
}

#[test]
fn links_that_are_counted_wrong() {
    let (mut surgeon, files) = patient();
    surgeon.edit_inode(files["labelled"], |image| image.inode.nlink = 3);
    let labelled = Subject::Inode(files["labelled"].0);
    let report = expect(&surgeon, Kind::LinkCount, labelled);
    assert_eq!(report.errors[0].path.as_deref(), Some("/home/labelled"));
    assert!(report.errors[0].text.contains("is 3, it should be 1"));
    let (mut surgeon, files) = patient();
    surgeon.edit_inode(files["home"], |image| image.inode.nlink = 2);
    expect(&surgeon, Kind::LinkCount, Subject::Inode(files["home"].0));
    let (mut surgeon, files) = patient();
    surgeon.edit_inode(files["labelled"], |image| image.inode.nlink = 0);
    expect(&surgeon, Kind::Unfinished, labelled);
}

#[test]
fn names_that_mislead() {
    let (mut surgeon, files) = patient();
    let home = Subject::Inode(files["home"].0);
    surgeon.edit_name(files["home"], "labelled", 9999, None);
    expect(&surgeon, Kind::Entry, home);
    let (mut surgeon, files) = patient();
    let labelled = files["labelled"].0;
    surgeon.edit_name(files["home"], "labelled", labelled, Some(10));
    expect(&surgeon, Kind::Entry, home);
    let (mut surgeon, files) = patient();
    surgeon.edit_imap(files["labelled"], &|_| ImapState::Unused);
    let report = expect(&surgeon, Kind::FreeList, Subject::Inode(labelled));
    assert!(report.errors.iter().any(|f| f.kind == Kind::Entry));
}

#[test]
fn directories_that_contain_each_other() {
    let (mut surgeon, files) = patient();
    let (home, deep) = (files["home"], files["deep"]);
    surgeon.edit_inode(home, |image| image.inode.parent = deep);
    let report = expect(&surgeon, Kind::Parent, Subject::Inode(home.0));
    assert!(report.errors.iter().any(|f| f.kind == Kind::Cycle));
}

#[test]
fn accounts_that_count_too_little_stop_and_too_much_warn() {
    let (mut surgeon, files) = patient();
    let pointer = surgeon.pointer(files["large"], 0, 3);
    let segment = surgeon.geometry.segment_of(pointer.sector()).unwrap();
    surgeon.edit_usage(segment, |entry| entry.live_bytes -= 512);
    expect(&surgeon, Kind::UsageCount, Subject::Segment(segment));
    surgeon.edit_usage(segment, |entry| entry.live_bytes += 1024);
    let (report, stopped) = verified(&surgeon);
    assert!(report.is_sound() && stopped.is_none(), "{report:#?}");
    assert_eq!(report.warnings[0].kind, Kind::UsageCount);
    let (mut surgeon, _) = patient();
    surgeon.edit_record(|header| header.blocks_used += 1);
    expect(&surgeon, Kind::Totals, Subject::Volume);
    let (mut surgeon, _) = patient();
    surgeon.edit_record(|header| header.free_count -= 1);
    expect(&surgeon, Kind::FreeList, Subject::Volume);
}

#[test]
fn pointers_that_cannot_be() {
    let (mut surgeon, files) = patient();
    let file = files["file15"];
    let block = Subject::Block {
        ino: file.0,
        block: 0,
    };
    let ring = surgeon.superblock.ring_offset.get() / 512;
    surgeon.edit_pointer(file, 0, 0, &mut |_, p| {
        Pointer::new(ring, p.sectors(), 1, p.birth(), 1)
    });
    expect(&surgeon, Kind::PointerBounds, block);
    // Two files share a block.
    let (mut surgeon, files) = patient();
    let target = surgeon.pointer(files["large"], 0, 7);
    surgeon.edit_pointer(file, 0, 0, &mut |_, _| target);
    let (report, stopped) = verified(&surgeon);
    let found = report.errors.iter().any(|f| f.kind == Kind::PointerOverlap);
    assert!(found && stopped.is_some(), "{report:#?}");
    let (mut surgeon, files) = patient();
    let segment = surgeon.geometry.segment_of(target.sector()).unwrap();
    surgeon.edit_usage(segment, |entry| entry.incarnation -= 1);
    let (report, _) = verified(&surgeon);
    let strays = report
        .errors
        .iter()
        .filter(|f| f.kind == Kind::PointerIncarnation);
    let owned = strays.filter(|f| f.subject.ino() == Some(files["large"].0));
    assert!(owned.count() > 0, "{report:#?}");
}

#[test]
fn counts_and_shapes_of_files() {
    let (mut surgeon, files) = patient();
    let large = Subject::Inode(files["large"].0);
    surgeon.edit_inode(files["large"], |image| image.inode.blocks += 1);
    expect(&surgeon, Kind::BlockCount, large);
    let (mut surgeon, files) = patient();
    surgeon.edit_inode(files["large"], |image| image.inode.size = 4096);
    expect(&surgeon, Kind::BeyondSize, large);
    let (mut surgeon, files) = patient();
    surgeon.edit_inode(files["labelled"], |image| image.inode.xattr_bytes = 1);
    expect(
        &surgeon,
        Kind::Attributes,
        Subject::Inode(files["labelled"].0),
    );
}

#[test]
fn what_was_rolled_forward_is_verified() {
    let volume = Volume::new(16 << 20);
    volume.populate();
    volume.system.sync().unwrap();
    let again = volume.crash(5);
    assert!(again.lfs.recovery_report().groups > 0);
    assert!(is_wanted(&again.lfs));
    let before = again.lfs.statistics().checkpoints;
    let report = scrub(&again);
    assert!(report.is_sound(), "{report:#?}");
    assert!(again.lfs.statistics().checkpoints > before);
    again.unmount();
    let clean = again.crash(6);
    assert!(!is_wanted(&clean.lfs));
}
