//! Drives of the nineties, from 4002 to 10,025 rpm.

use super::{MIB, graded, us};
use crate::drive::{Drive, ReadAhead};
use crate::geometry::{DiskGeometry, Skew, Zone};
use crate::rotation::Rotation;
use crate::seek::SeekCurve;

/// `3.24 + 0.400 sqrt(d)` ms below 383 cylinders, `8.00 + 0.008 d` from there.
const HP97560_SEEK: SeekCurve = SeekCurve {
    short_base_ms: 3.24,
    short_root_ms: 0.400,
    bound: 383,
    long_base_ms: 8.00,
    long_slope_ms: 0.008,
};

/// HP 97560, as Ruemmler & Wilkes 1994 and Kotz et al. 1994 measured it: 1962
/// cylinders of 19 tracks of 72 sectors, 4002 rpm, seek as above, skew of 8
/// sectors from track to track and 18 from cylinder to cylinder (also Seltzer
/// 1992, table 7-1: 8, and 10 more), 128 KB of buffer, 10 MB/s of bus. Head
/// switch 1.6 ms, which that skew hides. Overhead: 2.2 ms (estimate, rounded
/// from the 2.3 ms of Wang et al. 1999).
pub fn hp97560() -> Drive {
    let skew = Skew {
        track: 8,
        cylinder: 18,
    };
    Drive {
        name: "hp97560",
        geometry: DiskGeometry::uniform(1962, 19, 72, skew),
        rotation: Rotation::of_rpm(4002),
        seek: HP97560_SEEK,
        head_switch_ns: us(1600),
        write_settle_ns: 0,
        read_overhead_ns: us(2200),
        write_overhead_ns: us(2200),
        bus_bytes_per_s: 10_000_000,
        buffer_bytes: 128 << 10,
        read_ahead: ReadAhead::Sequential,
    }
}

/// The HP 97560 of Wang et al. 1999, table 1: head switch 2.5 ms, overhead 2.3
/// ms; one cylinder in 3.64 ms (their 3.6). The skew is the least that hides
/// those (estimate); the rest as [`hp97560`].
pub fn hp97560_vlog() -> Drive {
    let skew = Skew {
        track: 13,
        cylinder: 18,
    };
    Drive {
        name: "hp97560-vlog",
        geometry: DiskGeometry::uniform(1962, 19, 72, skew),
        head_switch_ns: us(2500),
        read_overhead_ns: us(2300),
        write_overhead_ns: us(2300),
        ..hp97560()
    }
}

/// The SD97560 of Seltzer 1992, table 7-1: the HP 97560 behind asynchronous
/// SCSI of 1.6 MB/s and a controller of 1.0 ms.
pub fn sd97560() -> Drive {
    Drive {
        name: "sd97560",
        read_overhead_ns: us(1000),
        write_overhead_ns: us(1000),
        bus_bytes_per_s: (1.6 * MIB) as u64,
        ..hp97560()
    }
}

/// DSP 3105: Seltzer et al. 1995, table 1: 5400 rpm, 57 sectors, 2568 cylinders
/// of 14 tracks, 256 KB of buffer, 9.5 ms average seek, 2.3 MB/s of bus.
/// Estimates: 1.5 ms and 20 ms for one and for all cylinders, head switch 1 ms,
/// overhead 0.7 ms.
pub fn dsp3105() -> Drive {
    let skew = Skew {
        track: 6,
        cylinder: 9,
    };
    Drive {
        name: "dsp3105",
        geometry: DiskGeometry::uniform(2568, 14, 57, skew),
        rotation: Rotation::of_rpm(5400),
        seek: SeekCurve::fitted(2568, 1.5, 9.5, 20.0),
        head_switch_ns: us(1000),
        write_settle_ns: 0,
        read_overhead_ns: us(700),
        write_overhead_ns: us(700),
        bus_bytes_per_s: (2.3 * MIB) as u64,
        buffer_bytes: 256 << 10,
        read_ahead: ReadAhead::Sequential,
    }
}

/// Fujitsu M2694EXA: Seltzer et al. 1995, table 5: 5400 rpm, 68 to 111 sectors,
/// 1818 cylinders of 15 tracks, 512 KB of buffer, 9.5 ms average seek.
/// Estimates: eight zones of equal width (so 1.25 GB, where the data sheet has
/// 1.08 after spares), 2 ms and 22 ms for one and for all cylinders, head
/// switch 1 ms, overhead 0.7 ms, 10 MB/s of bus.
pub fn m2694() -> Drive {
    let skew = Skew {
        track: 11,
        cylinder: 21,
    };
    Drive {
        name: "m2694",
        geometry: DiskGeometry::new(1818, 15, &graded(1818, 111, 68, 8), skew),
        rotation: Rotation::of_rpm(5400),
        seek: SeekCurve::fitted(1818, 2.0, 9.5, 22.0),
        head_switch_ns: us(1000),
        write_settle_ns: 0,
        read_overhead_ns: us(700),
        write_overhead_ns: us(700),
        bus_bytes_per_s: 10_000_000,
        buffer_bytes: 512 << 10,
        read_ahead: ReadAhead::Sequential,
    }
}

/// HP 2247A (Wang & Hu 2002, §3.1): 1 GB, 5400 rpm, an access of 15 ms on
/// average, 5 MB/s. Data sheet: 2051 cylinders of 13 tracks of 56 to 96
/// sectors. Estimates: eight zones of equal width, an average seek of 9.4 ms
/// (15 less half a revolution), 2.5 ms and 22 ms for one and for all cylinders,
/// head switch 1 ms, overhead 0.7 ms, 256 KB of buffer.
pub fn hp2247a() -> Drive {
    let skew = Skew {
        track: 10,
        cylinder: 22,
    };
    Drive {
        name: "hp2247a",
        geometry: DiskGeometry::new(2051, 13, &graded(2051, 96, 56, 8), skew),
        rotation: Rotation::of_rpm(5400),
        seek: SeekCurve::fitted(2051, 2.5, 9.4, 22.0),
        head_switch_ns: us(1000),
        write_settle_ns: 0,
        read_overhead_ns: us(700),
        write_overhead_ns: us(700),
        bus_bytes_per_s: 5_000_000,
        buffer_bytes: 256 << 10,
        read_ahead: ReadAhead::Sequential,
    }
}

/// Seagate ST19101 (Cheetah 9), as Wang et al. 1999, table 1, model it: one
/// density of 256 sectors, 16 tracks a cylinder, 10,000 rpm, head switch and
/// one cylinder 0.5 ms, overhead 0.1 ms. The paper calls this a coarse
/// approximation. Data sheet: 9.1 GB, so 4340 such cylinders; 8 ms average
/// seek. Estimates: 19 ms for all cylinders, 40 MB/s of bus, 512 KB of buffer,
/// the least skew that hides the switches.
pub fn st19101() -> Drive {
    let skew = Skew {
        track: 22,
        cylinder: 22,
    };
    Drive {
        name: "st19101",
        geometry: DiskGeometry::uniform(4340, 16, 256, skew),
        rotation: Rotation::of_rpm(10_000),
        seek: SeekCurve::fitted(4340, 0.5, 8.0, 19.0),
        head_switch_ns: us(500),
        write_settle_ns: 0,
        read_overhead_ns: us(100),
        write_overhead_ns: us(100),
        bus_bytes_per_s: 40_000_000,
        buffer_bytes: 512 << 10,
        read_ahead: ReadAhead::Sequential,
    }
}

/// Quantum Atlas 10K (Wang & Hu 2002, §3.1): 9.1 GB, 10,024 rpm, 60 MB/s of
/// read channel. Data sheet: 10,042 cylinders of 6 tracks of 334 to 229
/// sectors, average seek 5.0 ms. (The paper's "access time 6 ms" is less than
/// that and half a revolution.) Estimates: three tenths of the cylinders at the
/// highest density and the rest in nine equal steps, 0.8 ms and 10.8 ms for one
/// and for all cylinders, head switch 0.8 ms, 0.5 ms more to settle a write,
/// overhead 0.1 ms, 2 MB of buffer.
pub fn atlas10k() -> Drive {
    let skew = Skew {
        track: 46,
        cylinder: 46,
    };
    let mut zones = vec![Zone {
        first_cylinder: 0,
        sectors_per_track: 334,
    }];
    for inner in graded(7030, 324, 229, 9) {
        zones.push(Zone {
            first_cylinder: inner.first_cylinder + 3012,
            ..inner
        });
    }
    Drive {
        name: "atlas10k",
        geometry: DiskGeometry::new(10_042, 6, &zones, skew),
        rotation: Rotation::of_rpm(10_024),
        seek: SeekCurve::fitted(10_042, 0.8, 5.0, 10.8),
        head_switch_ns: us(800),
        write_settle_ns: us(500),
        read_overhead_ns: us(100),
        write_overhead_ns: us(100),
        bus_bytes_per_s: 60_000_000,
        buffer_bytes: 2 << 20,
        read_ahead: ReadAhead::Sequential,
    }
}
