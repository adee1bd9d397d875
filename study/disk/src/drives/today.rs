//! One drive of today's kind.

use super::{graded, us};
use crate::drive::{Drive, ReadAhead};
use crate::geometry::{DiskGeometry, Skew};
use crate::rotation::Rotation;
use crate::seek::SeekCurve;

/// A nearline drive of 8 TB and 7200 rpm: no product, but what data sheets of
/// the class agree on: 4.16 ms of latency, an average seek of about 8.5 ms, 250
/// MB/s outside and about half of it inside, 6 Gb/s, 256 MB of cache. All else
/// is estimated: 12 surfaces of 398,000 tracks, sixteen zones, 0.7 ms and 16 ms
/// for one and for all cylinders, head switch 0.9 ms, 0.5 ms more to settle a
/// write, overhead 0.05 ms. Its write cache is off, as with all models here.
pub fn nearline() -> Drive {
    let skew = Skew {
        track: 490,
        cylinder: 490,
    };
    Drive {
        name: "nearline-7200",
        geometry: DiskGeometry::new(398_000, 12, &graded(398_000, 4500, 2050, 16), skew),
        rotation: Rotation::of_rpm(7200),
        seek: SeekCurve::fitted(398_000, 0.7, 8.5, 16.0),
        head_switch_ns: us(900),
        write_settle_ns: us(500),
        read_overhead_ns: us(50),
        write_overhead_ns: us(50),
        bus_bytes_per_s: 550_000_000,
        buffer_bytes: 256 << 20,
        read_ahead: ReadAhead::Sequential,
    }
}
