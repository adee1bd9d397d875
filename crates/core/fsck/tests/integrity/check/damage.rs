//! Single faults, each with the finding that it must give.

use crate::patient::{Files, patient};
use crate::surgeon::Surgeon;
use crate::volume::{Image, Volume, checked, formatted};
use FindingKind as Kind;
use std::sync::Arc;
use varve_device::{Clock, VirtualClock};
use varve_fs::InodeNo;
use varve_fsck::check::{CheckReport, Finding, FindingKind, Subject};
use varve_fsck::repair::{RepairOptions, repair};
use varve_lfs::FormatOptions;
use varve_lfs::format::Pointer;
use varve_lfs::format::ifile::ImapState;

/// A populated volume with the numbers of its files.
struct Patient {
    surgeon: Surgeon,
    files: Files,
}

impl Patient {
    fn new() -> Patient {
        let (surgeon, files) = patient();
        Patient { surgeon, files }
    }

    fn file(&self, name: &str) -> InodeNo {
        self.files[name]
    }

    /// Returns a segment that contains a block of "large".
    fn live_segment(&mut self) -> u32 {
        let pointer = self.surgeon.pointer(self.files["large"], 0, 3);
        let geometry = self.surgeon.geometry;
        geometry.segment_of(pointer.sector()).unwrap()
    }

    #[track_caller]
    fn expect(&self, kinds: &[Kind]) -> CheckReport {
        expect(&self.surgeon, true, kinds)
    }
}

/// Checks a volume. The kinds of errors must be exactly these.
#[track_caller]
fn expect(surgeon: &Surgeon, data: bool, kinds: &[Kind]) -> CheckReport {
    let report = surgeon.check(data);
    let mut found: Vec<String> = report
        .errors
        .iter()
        .map(|f| format!("{:?}", f.kind))
        .collect();
    found.sort();
    found.dedup();
    let mut wanted: Vec<String> = kinds.iter().map(|kind| format!("{kind:?}")).collect();
    wanted.sort();
    assert_eq!(found, wanted, "{report}");
    if !kinds.is_empty() {
        mends(surgeon);
    }
    report
}

/// Repairs a volume. A check must then find nothing, the volume must be mountable and
/// readable, and a second repair must write nothing.
#[track_caller]
fn mends(surgeon: &Surgeon) {
    let device = surgeon.device();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(9_000_000_000_000, 1000));
    let options = RepairOptions {
        seed: Some(5),
        ..RepairOptions::default()
    };
    let first = repair(device.clone(), clock.clone(), &options).unwrap();
    assert!(first.changed() && first.is_whole(), "{first}");
    let image = Image::from(device.snapshot());
    let check = checked(&image, true);
    assert!(check.is_spotless(), "{check}\nafter {first}");
    let second = repair(image.0.clone(), clock, &options).unwrap();
    assert!(!second.changed(), "again: {second}");
    assert_eq!(image.0.counters().snapshot().bytes_written, 0);
    let volume = Volume::mount(image.0, Arc::new(VirtualClock::new(0, 1000)), 6);
    let mut waiting = vec![InodeNo::ROOT];
    while let Some(directory) = waiting.pop() {
        let emit = &mut |entry: varve_fs::Entry<'_>| {
            let child = entry.kind == varve_fs::FileKind::Directory;
            if child && entry.name != b"." && entry.name != b".." {
                waiting.push(entry.ino);
            }
            true
        };
        volume.system.readdir(directory, 0, emit).unwrap();
    }
    volume.unmount();
}

#[track_caller]
fn only(report: &CheckReport, kind: Kind) -> &Finding {
    let mut findings = report.errors.iter().filter(|finding| finding.kind == kind);
    let first = findings.next().unwrap();
    assert_eq!(findings.next(), None, "{report}");
    first
}

#[test]
fn nothing() {
    let patient = Patient::new();
    let report = patient.expect(&[]);
    assert!(report.is_spotless(), "{report}");
    // An edit without a change leaves no finding.
    let mut patient = patient;
    let large = patient.file("large");
    patient
        .surgeon
        .edit_pointer(large, 0, 100, &mut Surgeon::content(|bytes| bytes[0] ^= 1));
    patient
        .surgeon
        .edit_inode(large, |image| image.inode.uid = 77);
    assert!(patient.expect(&[]).is_spotless());
}

#[test]
fn usage_count_off_by_one_sector() {
    let mut patient = Patient::new();
    let segment = patient.live_segment();
    patient
        .surgeon
        .edit_usage(segment, |entry| entry.live_bytes += 512);
    let report = patient.expect(&[Kind::UsageCount]);
    let finding = only(&report, Kind::UsageCount);
    assert_eq!(finding.subject, Subject::Segment(segment));
    assert!(
        finding
            .to_string()
            .contains(&format!("segment {segment}: "))
    );
}

#[test]
fn live_segment_marked_empty() {
    let mut patient = Patient::new();
    let segment = patient.live_segment();
    patient
        .surgeon
        .edit_usage(segment, |entry| entry.empty_since = 1.into());
    patient.expect(&[Kind::SegmentState]);
    patient
        .surgeon
        .edit_usage(segment, |entry| entry.live_bytes = 0.into());
    patient.expect(&[Kind::SegmentState, Kind::UsageCount]);
}

#[test]
fn incarnation_of_another_life() {
    let mut patient = Patient::new();
    let segment = patient.live_segment();
    patient
        .surgeon
        .edit_usage(segment, |entry| entry.incarnation -= 1);
    let report = patient.expect(&[Kind::PointerIncarnation]);
    only(&report, Kind::PointerIncarnation);
}

#[test]
fn cleared_inode_map_entry() {
    let mut patient = Patient::new();
    let file = patient.file("file7");
    patient.surgeon.edit_imap(file, &|_| ImapState::Unused);
    let report = patient.expect(&[Kind::FreeList, Kind::Entry, Kind::UsageCount, Kind::Totals]);
    assert_eq!(
        only(&report, Kind::FreeList).subject,
        Subject::Inode(file.0)
    );
    let entry = only(&report, Kind::Entry);
    assert_eq!(entry.path.as_deref(), Some("/home"));
    assert!(entry.text.contains("file7"), "{entry}");
}

#[test]
fn free_number_in_use() {
    let mut patient = Patient::new();
    let file = patient.file("file9");
    patient.surgeon.edit_imap(file, &|_| ImapState::Free {
        next_version: 2,
        previous: 0,
        next: 0,
    });
    let report = patient.expect(&[Kind::FreeList, Kind::Entry, Kind::UsageCount, Kind::Totals]);
    let text = only(&report, Kind::FreeList).to_string();
    assert!(text.contains("not on the free list"), "{text}");
}

#[test]
fn stale_link_of_the_free_list() {
    let mut patient = Patient::new();
    let head = InodeNo(patient.surgeon.record.header.free_head.get());
    let mut second = 0;
    if let ImapState::Free { next, .. } = patient.surgeon.imap(head) {
        second = next;
    }
    assert_ne!(second, 0, "populate frees several numbers");
    patient
        .surgeon
        .edit_imap(InodeNo(second), &|state| match state {
            ImapState::Free {
                next_version, next, ..
            } => ImapState::Free {
                next_version,
                previous: second,
                next,
            },
            other => other,
        });
    let report = patient.expect(&[Kind::FreeList]);
    assert_eq!(
        only(&report, Kind::FreeList).subject,
        Subject::Inode(second)
    );
    // The free list returns to its head.
    patient
        .surgeon
        .edit_imap(InodeNo(second), &|state| match state {
            ImapState::Free { next_version, .. } => ImapState::Free {
                next_version,
                previous: head.0,
                next: head.0,
            },
            other => other,
        });
    let report = patient.expect(&[Kind::FreeList]);
    let circle = report
        .errors
        .iter()
        .any(|f| f.text.contains("returns to it"));
    assert!(circle, "{report}");
}

#[test]
fn wrong_link_counts() {
    let mut patient = Patient::new();
    let labelled = patient.file("labelled");
    patient
        .surgeon
        .edit_inode(labelled, |image| image.inode.nlink = 3);
    let report = patient.expect(&[Kind::LinkCount]);
    let finding = only(&report, Kind::LinkCount);
    assert_eq!(finding.path.as_deref(), Some("/home/labelled"));
    assert!(finding.text.contains("count is 3, it should be 1"));
    let mut patient = Patient::new();
    let home = patient.file("home");
    patient
        .surgeon
        .edit_inode(home, |image| image.inode.nlink = 2);
    let report = patient.expect(&[Kind::LinkCount]);
    let finding = only(&report, Kind::LinkCount);
    assert_eq!(finding.path.as_deref(), Some("/home"));
    assert!(finding.text.contains("count is 2, it should be 3"));
}

#[test]
fn name_without_a_count() {
    let mut patient = Patient::new();
    let labelled = patient.file("labelled");
    patient
        .surgeon
        .edit_inode(labelled, |image| image.inode.nlink = 0);
    patient.expect(&[Kind::LinkCount, Kind::Unfinished]);
}

#[test]
fn crossed_pointers() {
    let mut patient = Patient::new();
    let (large, other) = (patient.file("large"), patient.file("file15"));
    let target = patient.surgeon.pointer(large, 0, 7);
    patient
        .surgeon
        .edit_pointer(other, 0, 0, &mut |_, _| target);
    let report = patient.expect(&[Kind::PointerOverlap, Kind::UsageCount, Kind::Summary]);
    let overlaps: Vec<&Finding> = report
        .errors
        .iter()
        .filter(|f| f.kind == Kind::PointerOverlap)
        .collect();
    let paths: Vec<_> = overlaps.iter().filter_map(|f| f.path.as_deref()).collect();
    assert_eq!(paths.len(), 2, "{report}");
    assert!(paths.contains(&"/home/file15"), "{report}");
    assert!(
        paths
            .iter()
            .any(|p| *p == "/home/hard" || *p == "/home/deep/large")
    );
}

#[test]
fn pointers_out_of_bounds() {
    let ring = |surgeon: &Surgeon| surgeon.superblock.ring_offset.get() / 512;
    let copy = |surgeon: &Surgeon| surgeon.geometry.byte(0, 0) / 512;
    let crossing = |surgeon: &Surgeon| surgeon.geometry.byte(5, 0) / 512 - 4;
    let end = |surgeon: &Surgeon| surgeon.bytes.len() as u64 / 512 + 8;
    let places: [&dyn Fn(&Surgeon) -> u64; 4] = [&ring, &copy, &crossing, &end];
    for place in places {
        let mut patient = Patient::new();
        let file = patient.file("file15");
        let sector = place(&patient.surgeon);
        patient
            .surgeon
            .edit_pointer(file, 0, 0, &mut |_, pointer: Pointer| {
                Pointer::new(sector, pointer.sectors(), 1, pointer.birth(), 1)
            });
        let report = patient.expect(&[Kind::PointerBounds, Kind::UsageCount]);
        let finding = only(&report, Kind::PointerBounds);
        assert_eq!(finding.path.as_deref(), Some("/home/file15"));
    }
}

#[test]
fn pointer_into_a_summary() {
    let mut patient = Patient::new();
    let (file, large) = (patient.file("file15"), patient.file("large"));
    let near = patient.surgeon.pointer(large, 0, 0);
    let geometry = patient.surgeon.geometry;
    let segment = geometry.segment_of(near.sector()).unwrap();
    let sector = geometry.byte(segment, geometry.payload_start(segment)) / 512;
    patient
        .surgeon
        .edit_pointer(file, 0, 0, &mut |_, pointer: Pointer| {
            Pointer::new(sector, 1, 1, pointer.birth(), near.incarnation())
        });
    patient.expect(&[
        Kind::Summary,
        Kind::UsageCount,
        Kind::BlockCount,
        Kind::Totals,
        Kind::Data,
    ]);
}

#[test]
fn rotten_data() {
    let mut patient = Patient::new();
    let pointer = patient.surgeon.pointer(patient.file("sparse"), 0, 0);
    patient.surgeon.rot(&pointer);
    expect(&patient.surgeon, false, &[]);
    let report = patient.expect(&[Kind::Data]);
    let finding = only(&report, Kind::Data);
    assert_eq!(finding.path.as_deref(), Some("/home/deep/sparse"));
    let ino = patient.file("sparse").0;
    assert_eq!(finding.subject, Subject::Block { ino, block: 0 });
}

#[test]
fn rotten_index_node() {
    let mut patient = Patient::new();
    let large = patient.file("large");
    let pointer = patient.surgeon.pointer(large, 1, 0);
    patient.surgeon.rot(&pointer);
    let report = expect(&patient.surgeon, false, &[Kind::IndexNode]);
    let finding = only(&report, Kind::IndexNode);
    assert!(matches!(finding.subject, Subject::Node { ino, .. } if ino == large.0));
    assert_eq!(report.warnings.len(), 1, "{report}");
}

#[test]
fn misplaced_index_node() {
    let mut patient = Patient::new();
    let large = patient.file("large");
    let mut leaf = Surgeon::content(|bytes| bytes[16] ^= 1); // its number
    patient.surgeon.edit_pointer(large, 1, 0, &mut leaf);
    let report = patient.expect(&[Kind::IndexNode]);
    assert!(
        only(&report, Kind::IndexNode)
            .text
            .contains("stands in its place")
    );
    let mut leaf = Surgeon::content(|bytes| {
        bytes[16] ^= 1;
        bytes[4] ^= 1; // its version
    });
    patient.surgeon.edit_pointer(large, 1, 0, &mut leaf);
    let report = patient.expect(&[Kind::IndexNode]);
    assert!(only(&report, Kind::IndexNode).text.contains("version"));
}

#[test]
fn rotten_inode_and_inode_map() {
    let mut patient = Patient::new();
    let file = patient.file("labelled");
    let ImapState::Used { place, .. } = patient.surgeon.imap(file) else {
        panic!("it exists");
    };
    let at = (place.sector * 512) as usize + usize::from(place.slot) * 256;
    patient.surgeon.bytes[at + 40] ^= 1;
    let report = expect(&patient.surgeon, false, &[Kind::Inode]);
    assert_eq!(
        only(&report, Kind::Inode).path.as_deref(),
        Some("/home/labelled")
    );

    let mut patient = Patient::new();
    let block = patient.surgeon.imap_block(file);
    patient.surgeon.edit_ifile(block, &mut |surgeon, pointer| {
        surgeon.rot(&pointer);
        pointer
    });
    let report = expect(&patient.surgeon, false, &[Kind::InodeMap]);
    assert!(only(&report, Kind::InodeMap).text.contains("are lost"));
}

#[test]
fn wrong_counts_and_sizes_of_a_file() {
    let mut patient = Patient::new();
    let file = patient.file("file15");
    patient
        .surgeon
        .edit_inode(file, |image| image.inode.blocks += 1);
    patient.expect(&[Kind::BlockCount]);
    let mut patient = Patient::new();
    patient
        .surgeon
        .edit_inode(file, |image| image.inode.size = 4096);
    let report = patient.expect(&[Kind::BeyondSize]);
    assert_eq!(
        only(&report, Kind::BeyondSize).path.as_deref(),
        Some("/home/file15")
    );
    let mut patient = Patient::new();
    patient
        .surgeon
        .edit_inode(file, |image| image.inode.version += 1);
    patient.expect(&[Kind::Inode]);
}

#[test]
fn attributes_that_are_none() {
    let mut patient = Patient::new();
    let file = patient.file("labelled");
    let pointer = patient.surgeon.inode(file).xattrs;
    patient.surgeon.rot(&pointer);
    expect(&patient.surgeon, false, &[Kind::Attributes]);
    // The checksum is right, and the second name is truncated.
    let mut patient = Patient::new();
    let at = (pointer.sector() * 512) as usize;
    patient.surgeon.bytes[at] = 255;
    let xattrs = patient.surgeon.resealed(&pointer);
    patient
        .surgeon
        .edit_inode(file, |image| image.xattrs = xattrs);
    patient.expect(&[Kind::Attributes]);
}

#[test]
fn names_that_mislead() {
    let mut patient = Patient::new();
    let home = patient.file("home");
    patient.surgeon.edit_name(home, "labelled", 9999, None);
    let report = patient.expect(&[Kind::Entry, Kind::Unreachable]);
    let lost = only(&report, Kind::Unreachable);
    assert_eq!(lost.subject, Subject::Inode(patient.file("labelled").0));

    let mut patient = Patient::new();
    let file = patient.file("labelled").0;
    patient.surgeon.edit_name(home, "labelled", file, Some(10));
    patient.expect(&[Kind::Entry, Kind::Unreachable]);

    let mut patient = Patient::new();
    patient.surgeon.edit_pointer(
        home,
        0,
        0,
        &mut Surgeon::content(|bytes| bytes[6] ^= 0x20), // the number of entries
    );
    let report = patient.expect(&[Kind::Directory]);
    assert_eq!(
        only(&report, Kind::Directory).path.as_deref(),
        Some("/home")
    );
}

#[test]
fn parents_and_circles() {
    let mut patient = Patient::new();
    let (home, deep) = (patient.file("home"), patient.file("deep"));
    patient
        .surgeon
        .edit_inode(deep, |image| image.inode.parent = InodeNo::ROOT);
    let report = patient.expect(&[Kind::Parent]);
    assert_eq!(
        only(&report, Kind::Parent).path.as_deref(),
        Some("/home/deep")
    );

    // "home" is moved from the root to below its own child.
    let mut patient = Patient::new();
    let many = patient.file("many").0;
    patient.surgeon.edit_name(InodeNo::ROOT, "home", many, None);
    patient.surgeon.edit_name(deep, "short", home.0, Some(4));
    patient
        .surgeon
        .edit_inode(home, |image| image.inode.parent = deep);
    patient
        .surgeon
        .edit_inode(deep, |image| image.inode.nlink = 3);
    patient
        .surgeon
        .edit_inode(InodeNo::ROOT, |image| image.inode.nlink = 3);
    patient.expect(&[Kind::Parent, Kind::Cycle, Kind::Unreachable]);
}

#[test]
fn totals_of_the_record() {
    let mut patient = Patient::new();
    patient
        .surgeon
        .edit_record(|header| header.inodes_used += 1);
    patient.expect(&[Kind::Totals]);
    let mut patient = Patient::new();
    patient
        .surgeon
        .edit_record(|header| header.metadata_bytes += 512);
    let report = patient.expect(&[]);
    assert_eq!(report.warnings.len(), 1);
    assert_eq!(report.warnings[0].kind, Kind::MetadataBytes);
    let mut patient = Patient::new();
    patient.surgeon.edit_record(|header| header.free_count += 1);
    patient.expect(&[Kind::FreeList]);
    let mut patient = Patient::new();
    patient.surgeon.edit_record(|header| header.next_ino -= 1);
    patient.expect(&[Kind::NextInode, Kind::Entry, Kind::UsageCount, Kind::Totals]);
}

#[test]
fn log_over_live_blocks() {
    let mut patient = Patient::new();
    let segment = patient.live_segment();
    patient
        .surgeon
        .edit_record(|header| header.position.next_segment = segment.into());
    patient.expect(&[Kind::SegmentState]);
}

#[test]
fn rotten_summary_and_data_behind_it() {
    let mut patient = Patient::new();
    let large = patient.file("large");
    let pointer = patient.surgeon.pointer(large, 0, 100);
    let geometry = patient.surgeon.geometry;
    let segment = geometry.segment_of(pointer.sector()).unwrap();
    let at = geometry.byte(segment, geometry.payload_start(segment)) as usize;
    patient.surgeon.bytes[at + 200] ^= 1;
    let report = patient.expect(&[Kind::Summary]);
    assert_eq!(
        only(&report, Kind::Summary).subject,
        Subject::Segment(segment)
    );
    patient.surgeon.rot(&pointer);
    let report = patient.expect(&[Kind::Summary, Kind::Data]);
    let subject = Subject::Block {
        ino: large.0,
        block: 100,
    };
    assert_eq!(only(&report, Kind::Data).subject, subject);
}

#[test]
fn torn_record_falls_back_to_the_one_before() {
    let mut patient = Patient::new();
    let at = patient.surgeon.slot_offset();
    patient.surgeon.bytes[at + 600] ^= 1;
    let report = patient.expect(&[]);
    assert_eq!(report.warnings.len(), 1, "{report}");
    assert_eq!(report.warnings[0].kind, Kind::CheckpointSlot);
    assert_eq!(
        report.recovery.checkpoint + 1,
        patient.surgeon.record.header.serial.get()
    );
}

#[test]
fn superblock_copies() {
    for (nth, offset) in
        varve_lfs::superblock_offsets(&Patient::new().surgeon.superblock).enumerate()
    {
        let mut patient = Patient::new();
        patient.surgeon.bytes[offset as usize + 70] ^= 1;
        let report = patient.expect(&[]);
        assert_eq!(report.warnings.len(), 1, "{nth}: {report}");
        assert_eq!(report.warnings[0].subject, Subject::Superblock(offset));
    }
}

#[test]
fn no_volume_at_all() {
    let (device, clock) = formatted(8 << 20, FormatOptions::default());
    let mut surgeon = Surgeon::new(&device);
    let ring = surgeon.superblock.ring_offset.get() as usize;
    surgeon.bytes[ring..ring + 8192 * 2].fill(0);
    let options = varve_fsck::check::CheckOptions::default();
    let error = varve_fsck::check::check(surgeon.device(), clock.clone(), &options).unwrap_err();
    assert!(matches!(error, varve_lfs::Error::NoCheckpoint { .. }));
    surgeon.bytes.fill(0);
    let error = varve_fsck::check::check(surgeon.device(), clock, &options).unwrap_err();
    assert!(matches!(error, varve_lfs::Error::NoVolume { .. }));
}
