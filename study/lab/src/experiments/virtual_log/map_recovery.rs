//! V10: recovery of the map of a virtual log disk (Wang et al. 1999, §3.2): from
//! the log's tail alone, from a checkpoint and the tail, and by reading the
//! whole disk when the tail record is damaged. All three open copies of one
//! image, and each map is compared with that before the power went down.
//!
//! The drive is the Seagate of the paper in three sizes, its time the clock's.
//! Half of the disk is written and updated at random; the checkpoint is taken
//! after nine elevenths of the updates.

use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::store::{EagerDisk, Places, open_virtual_log, virtual_log};
use crate::report::{Curve, Picture, Verdict, mean};
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Clock, Device, Geometry, VirtualClock};
use varve_disk::{Drive, ReadAhead, SimulatedDisk, drives};
use varve_prove::random::Random;
use varve_vlog::Source;

pub const V10: Experiment = Experiment::new("V10", points, verdicts, picture);

const BLOCK: usize = 4096;
const CYLINDERS: [u32; 3] = [11, 22, 44];
const WAYS: [&str; 3] = ["tail alone", "checkpoint and tail", "scan"];
/// Beside them: a second checkpoint has cut the log.
const CUT: &str = "two checkpoints and tail";
/// Bytes copied at once.
const PART: usize = 1 << 20;

fn points(context: &Context) -> Vec<Point> {
    let cylinders = context.size(&CYLINDERS[..], &[2]);
    let point = |&cylinders: &u32| {
        Point::new(
            format!("{cylinders} cylinders"),
            move |context: &Context| {
                let rows = context.seeds().map(|seed| recover(cylinders, seed));
                Ok(rows.collect::<Result<Vec<_>, LabError>>()?.concat())
            },
        )
    };
    cylinders.iter().map(point).collect()
}

fn drive(cylinders: u32) -> Drive {
    let drive = drives::st19101().with_cylinders(cylinders);
    drive.with_read_ahead(ReadAhead::WholeTrack)
}

/// A disk with a history, parked after so many checkpoints.
fn history(cylinders: u32, checkpoints: u64, seed: u64) -> Result<EagerDisk, LabError> {
    let clock = Arc::new(VirtualClock::new(0, 0));
    let disk = SimulatedDisk::new(drive(cylinders), clock, seed);
    let vld = virtual_log(&Arc::new(disk), Places::default(), seed)?;
    let blocks = vld.layout().logical_blocks / 2;
    let mut random = Random::new(seed);
    let mut write = |block: u64| {
        let bytes = [random.word() as u8; BLOCK];
        let at = block * BLOCK as u64;
        vld.write(at, &[IoSlice::new(&bytes)])
            .map_err(LabError::system)
    };
    for block in 0..blocks {
        write(block)?;
    }
    let mut places = Random::new(seed ^ 1);
    for nth in 0..blocks {
        write(places.below(blocks))?;
        let due = |checkpoint: u64| nth == blocks * (9 + checkpoint) / 11;
        if (0..checkpoints).any(due) {
            vld.checkpoint().map_err(LabError::system)?;
        }
    }
    vld.park().map_err(LabError::system)?;
    Ok(vld)
}

/// A copy of the disk under `vld`, with the block at byte `damaged` destroyed.
fn copy(
    vld: &EagerDisk,
    cylinders: u32,
    seed: u64,
    damaged: Option<u64>,
) -> Result<SimulatedDisk, LabError> {
    let from = vld.medium().0.inner();
    let Geometry { size, .. } = from.geometry();
    let disk = SimulatedDisk::new(drive(cylinders), Arc::new(VirtualClock::new(0, 0)), seed);
    let mut part = vec![0; PART];
    for at in (0..size).step_by(PART) {
        let here = (size - at).min(PART as u64) as usize;
        from.read(at, &mut part[..here]).map_err(LabError::system)?;
        let to = disk.inner();
        to.write(at, &[IoSlice::new(&part[..here])])
            .map_err(LabError::system)?;
    }
    if let Some(at) = damaged {
        let to = disk.inner();
        to.write(at, &[IoSlice::new(&[0xff; BLOCK])])
            .map_err(LabError::system)?;
    }
    Ok(disk)
}

fn recover(cylinders: u32, seed: u64) -> Result<Vec<Row>, LabError> {
    let vld = history(cylinders, 1, seed)?;
    let (layout, before) = (*vld.layout(), vld.map());
    let checkpoint = layout.block_byte(layout.checkpoint_block(0));
    let damaged = [
        Some(checkpoint),
        None,
        Some(layout.block_byte(layout.tail_block())),
    ];
    let mut rows = Vec::new();
    for (way, damaged) in WAYS.into_iter().zip(damaged) {
        let copied = copy(&vld, cylinders, seed, damaged)?;
        rows.push(open_again(way, copied, &before, seed)?);
    }
    // The log is cut at the older of two.
    let cut = history(cylinders, 2, seed)?;
    let copied = copy(&cut, cylinders, seed, None)?;
    rows.push(open_again(CUT, copied, &cut.map(), seed)?);
    Ok(rows)
}

fn open_again(
    way: &str,
    disk: SimulatedDisk,
    before: &varve_vlog::map::Map,
    seed: u64,
) -> Result<Row, LabError> {
    let clock = Arc::clone(disk.clock());
    let megabytes = disk.geometry().size as f64 / 1e6;
    let (again, report) = open_virtual_log(&Arc::new(disk), Places::default(), seed)?;
    let took_ns = clock.monotonic_ns();
    let used = (report.source == Source::Scan, report.checkpoint_seq > 0);
    let as_meant = used == (way == WAYS[2], way != WAYS[0]);
    Ok(Row::new(way, megabytes, seed)
        .with("ms", took_ns as f64 / 1e6)
        .with("records_read", report.records_read as f64)
        .with("as_meant", f64::from(u8::from(as_meant)))
        .with("same", f64::from(u8::from(again.map() == *before))))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let sizes = Curve::all(rows, "ms");
    let mut verdicts: Vec<Verdict> = WAYS
        .into_iter()
        .chain([CUT])
        .map(|way| {
            let of: Vec<&Row> = rows.iter().filter(|row| row.series == way).collect();
            let holds = |row: &&&Row| row.values["same"] == 1.0 && row.values["as_meant"] == 1.0;
            let same = of.iter().filter(holds).count();
            let curve = sizes.iter().find(|curve| curve.name == way);
            let times = curve.map(|curve| &curve.points[..]).unwrap_or_default();
            let times = times.iter().map(|(mb, ms)| {
                let records = mean(rows, way, *mb, "records_read");
                format!("{ms:.0} ms for {mb:.0} MB ({records:.0} records)")
            });
            let times: Vec<String> = times.collect();
            Verdict::of(
                format!("recovery by {way} gives the map of before"),
                "byte-equal every time, and that way was taken",
                format!("{same} of {}; {}", of.len(), times.join(", ")),
                !of.is_empty() && same == of.len(),
            )
            .beside_the_claim(way == CUT)
        })
        .collect();
    let last = |way: &str| {
        let curve = sizes.iter().find(|curve| curve.name == way);
        curve
            .and_then(|curve| curve.points.last())
            .map_or(f64::NAN, |last| last.1)
    };
    let (tail, cut, scan) = (last(WAYS[1]), last(CUT), last(WAYS[2]));
    verdicts.push(
        Verdict::of(
            "the tail record saves reading the disk, and a checkpoint that cut the log more",
            "a scan takes longest",
            format!("{cut:.0} ms, {tail:.0} ms, by scanning {scan:.0} ms"),
            scan > tail && tail > cut,
        )
        .beside_the_claim(true),
    );
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Opening a virtual log disk on the Seagate".into(),
        x: "megabytes of disk".into(),
        y: "ms".into(),
        y_max: None,
        curves: Curve::all(rows, "ms"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that holds the map of another history, and one on which the tail is
    /// not what it was called.
    #[test]
    fn a_wrong_map_or_way_fails() {
        let (right, other) = (history(2, 1, 1).unwrap(), history(2, 1, 2).unwrap());
        let pass = |way: usize, map: &varve_vlog::map::Map| {
            let copied = copy(&right, 2, 1, None).unwrap();
            let row = open_again(WAYS[way], copied, map, 1).unwrap();
            verdicts(&[row])[way].pass
        };
        assert!(pass(1, &right.map()));
        assert!(!pass(1, &other.map()), "not the map of before");
        assert!(!pass(2, &right.map()), "nothing was damaged");
    }
}
