//! A usage table longer than a segment: writing it opens segments that the table itself
//! does not list yet.

use crate::surgeon::Surgeon;
use crate::volume::{Volume, checked, pattern};
use varve_fs::{Caller, InodeNo, SetAttr};
use varve_fsck::check::FindingKind;
use varve_lfs::FormatOptions;

/// Returns a volume whose usage table fills more than three segments. A checkpoint has
/// just rewritten all of it, and the log ends there.
fn rewritten() -> Volume {
    let volume = Volume::with(
        512 << 20,
        FormatOptions {
            segment_bytes: 64 << 10,
            ..FormatOptions::default()
        },
    );
    let file = volume.file(InodeNo::ROOT, "over the whole volume");
    let mebibyte = pattern(1, 1 << 20);
    for at in 0..300 {
        volume.write(file, at << 20, &mebibyte);
    }
    volume.system.checkpoint().unwrap();
    // Every segment loses its live blocks.
    let nothing = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    let cut = volume.system.setattr(&Caller::root(), file, &nothing);
    cut.unwrap();
    while volume.system.usage().blocks > 100 {
        volume.system.maintain().unwrap();
    }
    volume.system.checkpoint().unwrap();
    volume
}

#[test]
fn a_table_longer_than_a_segment_knows_the_segments_it_lies_in() {
    let volume = rewritten();
    let mut surgeon = Surgeon::new(&volume.device);
    let opened = surgeon
        .record
        .deltas
        .iter()
        .filter(|delta| delta.incarnation.get() != 0);
    assert!(opened.count() >= 3, "the table lies in too few segments");
    let report = checked(&surgeon.image(), true);
    assert!(report.errors.is_empty(), "{:#?}", report.errors);

    // The next mount knows the segments as well, so its cleaner does not suspect them.
    let next = Volume::mount(surgeon.device(), volume.clock.clone(), 3);
    for candidate in next.lfs.cleaner().candidates() {
        next.lfs.cleaner().clean_segment(candidate.segment).unwrap();
    }
    next.system.checkpoint().unwrap();
    next.system.checkpoint().unwrap();
    let report = next.check();
    assert!(report.errors.is_empty(), "{:#?}", report.errors);
    assert!(report.warnings.is_empty(), "{:#?}", report.warnings);

    // Without the corrections of the record, the segments are unknown.
    for delta in &mut surgeon.record.deltas {
        delta.incarnation = 0.into();
    }
    surgeon.edit_record(|_| {});
    let report = surgeon.check(false);
    let incarnations = |kind: &FindingKind| *kind == FindingKind::PointerIncarnation;
    let kinds: Vec<FindingKind> = report.errors.iter().map(|found| found.kind).collect();
    assert!(
        !kinds.is_empty() && kinds.iter().all(incarnations),
        "{kinds:?}"
    );
}
