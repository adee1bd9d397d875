//! V3: physical blocks of 1 to 8 sectors for a logical block of 4 KiB (Wang et
//! al. 1999, §4.2), on the drives of V1 and V2.
//!
//! Equation (11) counts blocks that are skipped, from where a block begins. So
//! the claim is measured with the head at the beginning of a physical block,
//! anywhere on the disk, where space is free at random. Beside it stand the
//! head where any sector begins, which adds half a physical block on average
//! before the first of an aligned one, and the head on the track that was
//! written last, which greedy writing fills up.

use crate::experiments::virtual_log::eager_writing::{Bench, GREEDY, both, picture};
use crate::experiments::{Experiment, Point, Row};
use crate::report::{Curve, Verdict};
use varve_disk::{Drive, TrackId};
use varve_vlog::{Eager, model};

/// Physical block sizes.
pub const V3: Experiment = Experiment::new("V3", points, verdicts, |rows| {
    picture(rows, "Time to room for 4 KiB", "physical block, sectors")
})
.taking(10.0);

const LOGICAL: u32 = 8;
const SIZES: [u32; 4] = [1, 2, 4, 8];

fn points(context: &crate::experiments::Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (name, drive) in both() {
        for utilisation in context.size(&[0.5, 0.8, 0.9][..], &[0.8]) {
            for size in SIZES {
                let (drive, utilisation) = (drive.clone(), *utilisation);
                let series = format!("{name} at {utilisation}");
                points.push(Point::new(
                    format!("{series}, blocks of {size}"),
                    move |context| {
                        let row = |seed| pieces(context, &series, &drive, utilisation, size, seed);
                        Ok(context.seeds().map(row).collect())
                    },
                ));
            }
        }
    }
    points
}

/// Where the head is when a logical block is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// Where a physical block begins, on any track: what equation (11) takes
    /// for granted.
    AtBlock,
    /// Where any sector begins, on any track.
    AtSector,
    /// The same, on the track that was written last, with what that wrote.
    OnWrittenTrack,
}

/// The mean time spent looking for room for a logical block, in blocks of
/// `size` sectors.
fn pieces(
    context: &crate::experiments::Context,
    series: &str,
    drive: &Drive,
    utilisation: f64,
    size: u32,
    seed: u64,
) -> Row {
    let looked = |arrival| {
        let mut bench = Bench::new(drive, size, seed);
        bench.fill(utilisation);
        look(context, bench, size, arrival)
    };
    let track = drive.geometry.track(TrackId {
        cylinder: 0,
        head: 0,
    });
    let sector_ms = drive.rotation.revolution_ns() as f64 / f64::from(track.sectors) / 1e6;
    let n = f64::from(track.sectors);
    let p = 1.0 - utilisation;
    let skipped = model::skipped_for_block(n, p, f64::from(size), f64::from(LOGICAL));
    Row::new(series, f64::from(size), seed)
        .with("ms", looked(Arrival::AtBlock))
        .with("at_sector_ms", looked(Arrival::AtSector))
        .with("on_written_track_ms", looked(Arrival::OnWrittenTrack))
        .with("model_ms", skipped * sector_ms)
}

/// The mean time in milliseconds, on a bench that has been filled.
fn look(
    context: &crate::experiments::Context,
    mut bench: Bench,
    size: u32,
    arrival: Arrival,
) -> f64 {
    let (mut sum, writes) = (0, context.size(5000, 300));
    let mut written = Vec::new();
    for _ in 0..writes {
        if arrival != Arrival::OnWrittenTrack {
            bench.go_anywhere();
        }
        bench.wait_for(if arrival == Arrival::AtBlock { size } else { 1 });
        let mut eager = Eager::new(GREEDY);
        for _ in 0..LOGICAL / size {
            let (block, took) = bench.write(&mut eager).expect("some is free");
            sum += took;
            written.push(block);
        }
        for block in written.drain(..) {
            match arrival {
                // Space stays free at random.
                Arrival::AtBlock | Arrival::AtSector => bench.free.give_block(block),
                Arrival::OnWrittenTrack => bench.give_any(),
            }
        }
    }
    sum as f64 / f64::from(writes) / 1e6
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let best = |curve: &Curve, how: &str| {
        let best = curve.points.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let best = best.map_or(f64::NAN, |best| best.0);
        let text: Vec<String> = curve
            .points
            .iter()
            .map(|(b, ms)| format!("{b}: {ms:.2} ms"))
            .collect();
        Verdict::of(
            format!("{}, {how}: room is found soonest", curve.name),
            "with a physical block as large as the logical one, 8 sectors",
            text.join(", "),
            best == f64::from(LOGICAL),
        )
    };
    let mut verdicts = Vec::new();
    for curve in Curve::all(rows, "ms") {
        verdicts.push(best(&curve, "the head where a block begins"));
    }
    for (value, how) in [
        ("at_sector_ms", "the head anywhere"),
        ("on_written_track_ms", "the head on the track written last"),
    ] {
        for curve in Curve::all(rows, value) {
            verdicts.push(best(&curve, how).beside_the_claim(true));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Context;
    use varve_disk::Rotation;

    /// Disks that turn, and switch heads, in eight times the time under the largest blocks.
    #[test]
    fn a_wrong_drive_fails() {
        let [(name, drive), _] = both();
        let pass = |times: u32| {
            let row = |size: u32| {
                let mut drive = drive.clone();
                if size == LOGICAL {
                    drive.rotation = Rotation::of_rpm(4002 / times);
                    drive.head_switch_ns *= u64::from(times);
                }
                pieces(&Context::tiny(), name, &drive, 0.8, size, 1)
            };
            verdicts(&SIZES.map(row)).remove(0)
        };
        let (right, wrong) = (pass(1), pass(8));
        assert!(right.pass && !wrong.pass, "{right}; {wrong}");
    }
}
