//! Drives of the first log-structured file systems: 3600 rpm, one density.

use super::{MIB, us};
use crate::drive::{Drive, ReadAhead};
use crate::geometry::{DiskGeometry, Skew};
use crate::rotation::Rotation;
use crate::seek::SeekCurve;

/// CDC Wren IV 94171-344, as Seltzer et al. 1995, table 1 (and Rosenblum &
/// Ousterhout 1992) have it: 3600 rpm, 45 sectors, 1546 cylinders of 9 tracks,
/// 32 KB of buffer, 17.5 ms average seek, 1.3 MB/s. One cylinder in 5.5 ms:
/// Seltzer 1992, table 3-1. Estimates: full stroke 35 ms, head switch 1 ms with
/// the skew it needs, 1 ms of overhead.
pub fn wren_iv() -> Drive {
    let skew = Skew {
        track: 3,
        cylinder: 16,
    };
    Drive {
        name: "wren-iv",
        geometry: DiskGeometry::uniform(1546, 9, 45, skew),
        rotation: Rotation::of_rpm(3600),
        seek: SeekCurve::fitted(1546, 5.5, 17.5, 35.0),
        head_switch_ns: us(1000),
        write_settle_ns: 0,
        read_overhead_ns: us(1000),
        write_overhead_ns: us(1000),
        bus_bytes_per_s: (1.3 * MIB) as u64,
        buffer_bytes: 32 << 10,
        read_ahead: ReadAhead::Sequential,
    }
}

/// The Wren IV as the simulations of Seltzer 1992, table 3-1, have it: 1600
/// cylinders of 9 tracks of 24 KB, 16.67 ms a revolution, `5.5 + 0.032 d` ms.
/// The table's simulator knows no overhead, head switch or buffer; the skew is
/// the least that hides the seek to the next cylinder.
pub fn wren_iv_simulated() -> Drive {
    let skew = Skew {
        track: 0,
        cylinder: 16,
    };
    Drive {
        name: "wren-iv-simulated",
        geometry: DiskGeometry::uniform(1600, 9, 48, skew),
        rotation: Rotation::of_rpm(3600),
        seek: SeekCurve::line(5.5, 0.032),
        head_switch_ns: 0,
        write_settle_ns: 0,
        read_overhead_ns: 0,
        write_overhead_ns: 0,
        bus_bytes_per_s: 1 << 30,
        buffer_bytes: 0,
        read_ahead: ReadAhead::Off,
    }
}

/// Fujitsu M2361A "Eagle": Seltzer 1992, chapter 4, gives 28.3 ms for a random
/// access and 1.99 ms for each 4 KB in sequence: with 3600 rpm that is 67
/// sectors a track and an average seek of 18 ms. Data sheet: 842 cylinders, 20
/// tracks, 5 ms and 35 ms for one and for all cylinders. Estimates: head switch
/// hidden by no skew at all (the paper's sequential rate leaves no room for
/// it), no overhead (the paper counts none).
pub fn eagle() -> Drive {
    let skew = Skew {
        track: 0,
        cylinder: 21,
    };
    Drive {
        name: "eagle-m2361a",
        geometry: DiskGeometry::uniform(842, 20, 67, skew),
        rotation: Rotation::of_rpm(3600),
        seek: SeekCurve::fitted(842, 5.0, 18.0, 35.0),
        head_switch_ns: 0,
        write_settle_ns: 0,
        read_overhead_ns: 0,
        write_overhead_ns: 0,
        bus_bytes_per_s: 3_000_000,
        buffer_bytes: 0,
        read_ahead: ReadAhead::Off,
    }
}

/// DEC RZ55 (Seltzer 1992, chapter 5: "300 MB SCSI"). Data sheet: 1224
/// cylinders of 15 tracks of 36 sectors (332 MB after spares, which are not
/// modelled), 3600 rpm, 16 ms average seek. Estimates: 4 ms and 35 ms for one
/// and for all cylinders, 1 ms of head switch and of overhead, 1.25 MB/s, 32 KB
/// of buffer.
pub fn rz55() -> Drive {
    let skew = Skew {
        track: 3,
        cylinder: 9,
    };
    Drive {
        name: "rz55",
        geometry: DiskGeometry::uniform(1224, 15, 36, skew),
        rotation: Rotation::of_rpm(3600),
        seek: SeekCurve::fitted(1224, 4.0, 16.0, 35.0),
        head_switch_ns: us(1000),
        write_settle_ns: 0,
        read_overhead_ns: us(1000),
        write_overhead_ns: us(1000),
        bus_bytes_per_s: 1_250_000,
        buffer_bytes: 32 << 10,
        read_ahead: ReadAhead::Sequential,
    }
}
