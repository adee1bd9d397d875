//! Checkpoints and the cleaner run in parallel with writers; the state after a power cut
//! at any moment is sound.

use crate::volume::{Image, Volume, checked, pattern};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_fs::InodeNo;
use varve_fsck::check::FindingKind;
use varve_lfs::FormatOptions;

#[test]
fn snapshots_beside_writers_checkpoints_and_cleaning() {
    let volume = Volume::with(
        16 << 20,
        FormatOptions {
            segment_bytes: 128 << 10,
            ..FormatOptions::default()
        },
    );
    let files: Vec<InodeNo> = (0..6)
        .map(|n| {
            let file = volume.file(InodeNo::ROOT, &format!("f{n}"));
            volume.write(file, 0, &pattern(n, 800_000));
            file
        })
        .collect();
    volume.system.sync().unwrap();
    let done = &AtomicBool::new(false);
    let volume = &volume;
    let mut replayed = 0;
    std::thread::scope(|scope| {
        for (n, &file) in (0..).zip(&files[..2]) {
            scope.spawn(move || {
                let mut round: u64 = n;
                while !done.load(Relaxed) {
                    round = round.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(7);
                    volume.write(file, round % 190 * 4096, &pattern(round, 9000));
                    volume.system.fsync(file, false).unwrap();
                }
            });
        }
        scope.spawn(move || {
            while !done.load(Relaxed) {
                let candidates = volume.lfs.cleaner().candidates();
                if let Some(first) = candidates.iter().min_by_key(|c| c.live_bytes) {
                    volume.lfs.cleaner().clean_segment(first.segment).unwrap();
                }
                for _ in 0..2 {
                    volume.system.checkpoint().unwrap();
                }
            }
        });
        for _ in 0..150 {
            let image = volume.device.snapshot();
            let report = checked(&Image::from(image), true);
            replayed += report.recovery.groups;
            let mut warnings = report.warnings.iter();
            let odd = warnings.any(|w| w.kind != FindingKind::CheckpointSlot);
            if !report.errors.is_empty() || odd {
                done.store(true, Relaxed);
                panic!("{report}");
            }
        }
        done.store(true, Relaxed);
    });
    assert!(replayed > 0);
    volume.unmount();
    assert!(volume.check().errors.is_empty());
}

#[test]
fn a_usage_table_larger_than_a_segment() {
    let options = FormatOptions {
        segment_bytes: 128 << 10,
        ..FormatOptions::default()
    };
    let volume = Volume::with(1 << 30, options);
    let data = pattern(1, 1 << 20);
    for n in 0..700 {
        let file = volume.file(InodeNo::ROOT, &format!("f{n}"));
        volume.write(file, 0, &data);
    }
    volume.unmount();
    let report = checked(&Image::from(volume.device.snapshot()), false);
    assert!(report.is_spotless(), "{report}");
}
