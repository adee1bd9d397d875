//! Published figures, drive by drive.

use super::*;
use crate::drive::Drive;

struct Published {
    drive: Drive,
    /// Formatted capacity in 10^9 bytes.
    gigabytes: f64,
    average_seek_ms: f64,
    full_seek_ms: f64,
    half_revolution_ms: f64,
    /// Long sequential transfers in the outermost zone, 10^6 bytes a second:
    /// published, or the media rate less skew where nothing is.
    sustained_mb_s: f64,
    /// Allowed relative error.
    within: f64,
}

fn published() -> Vec<Published> {
    let row = |drive: Drive, figures: [f64; 5], within| Published {
        drive,
        gigabytes: figures[0],
        average_seek_ms: figures[1],
        full_seek_ms: figures[2],
        half_revolution_ms: figures[3],
        sustained_mb_s: figures[4],
        within,
    };
    vec![
        // Rosenblum & Ousterhout 1992: 1.3 MB/s.
        row(wren_iv(), [0.32, 17.5, 35.0, 8.33, 1.3], 0.04),
        // Seltzer 1992, table 3-1: 2.8 GB and 10.8 MB/s from eight.
        row(
            wren_iv_simulated(),
            [2.83 / 8.0, 22.6, 56.7, 8.33, 10.8 * 1.048_576 / 8.0],
            0.01,
        ),
        // 4 KB in 1.99 ms; the seek to the next cylinder is not in that.
        row(eagle(), [0.578, 18.0, 35.0, 8.33, 2.058], 0.016),
        row(rz55(), [0.338, 16.0, 35.0, 8.33, 1.02], 0.01),
        // Average seek 13.0 ms and 2.2 MB/s: Seltzer 1992, table 7-1.
        row(hp97560(), [1.374, 13.0, 23.7, 7.5, 2.2], 0.015),
        row(hp97560_vlog(), [1.374, 13.0, 23.7, 7.5, 2.08], 0.015),
        row(sd97560(), [1.374, 13.0, 23.7, 7.5, 2.2], 0.015),
        row(dsp3105(), [1.05, 9.5, 20.0, 5.56, 2.37], 0.01),
        row(m2694(), [1.25, 9.5, 22.0, 5.56, 4.63], 0.01),
        row(hp2247a(), [1.04, 9.4, 22.0, 5.56, 3.96], 0.01),
        row(st19101(), [9.1, 8.0, 19.0, 3.0, 20.1], 0.01),
        row(atlas10k(), [9.1, 5.0, 10.8, 2.99, 25.1], 0.015),
        row(nearline(), [8000.0, 8.5, 16.0, 4.16, 250.0], 0.01),
    ]
}

#[test]
fn every_drive_has_its_published_figures() {
    let rows = published();
    assert_eq!(rows.len(), all().len());
    for row in rows {
        let drive = &row.drive;
        let cylinders = drive.geometry.cylinders();
        let close = |measured: f64, expected: f64, what: &str| {
            let error = (measured / expected - 1.0).abs();
            let name = drive.name;
            assert!(
                error <= row.within,
                "{name}: {what} is {measured}, published {expected}"
            );
        };
        close(
            drive.geometry.bytes() as f64 / 1e9,
            row.gigabytes,
            "capacity, GB",
        );
        close(
            drive.seek.average_ms(cylinders),
            row.average_seek_ms,
            "average seek, ms",
        );
        let full = drive.seek.seek_ns(cylinders - 1) as f64 / 1e6;
        close(full, row.full_seek_ms, "full stroke, ms");
        let half = drive.rotation.revolution_ns() as f64 / 2e6;
        close(half, row.half_revolution_ms, "half a revolution, ms");
        close(
            drive.sustained_bytes_per_s() / 1e6,
            row.sustained_mb_s,
            "sustained MB/s",
        );
    }
}

#[test]
fn the_eagle_s_random_access_is_the_thesis_s() {
    // Seltzer 1992, chapter 4: 28.3 ms for a random access to 4 KB.
    let drive = eagle();
    let transfer = 8.0 * drive.rotation.revolution_ns() as f64 / 67.0 / 1e6;
    assert!((transfer - 1.99).abs() < 0.005, "{transfer} ms");
    let half = drive.rotation.revolution_ns() as f64 / 2e6;
    let access = drive.seek.average_ms(842) + half + transfer;
    assert!((access - 28.3).abs() < 0.1, "{access} ms");
}

#[test]
fn the_virtual_log_s_table_1() {
    let (hp, st) = (hp97560_vlog(), st19101());
    let ms = |ns: u64| ns as f64 / 1e6;
    assert!((ms(hp.seek.seek_ns(1)) - 3.6).abs() < 0.05);
    assert!((ms(st.seek.seek_ns(1)) - 0.5).abs() < 0.001);
    assert_eq!((ms(hp.head_switch_ns), ms(st.head_switch_ns)), (2.5, 0.5));
    assert_eq!(
        (ms(hp.write_overhead_ns), ms(st.write_overhead_ns)),
        (2.3, 0.1)
    );
    // Section 2.1: four sectors in less than 100 us.
    assert!(4 * st.rotation.edge_ns(1, 256) < 100_000);
}

#[test]
fn names_find_drives_and_are_different() {
    for drive in all() {
        let found = by_name(&drive.name.to_uppercase());
        assert_eq!(found.map(|found| found.name), Some(drive.name));
    }
    let mut names: Vec<_> = all().iter().map(|drive| drive.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all().len());
    assert!(by_name("floppy").is_none());
}
