//! A drive's parameters, and the arithmetic of moving its arm.
//!
//! Everything here is a pure function of the arm's place and the time: the
//! mechanism serves requests with it, and eager writing asks it what is near.

use crate::geometry::{DiskGeometry, SECTOR_BYTES, Track, TrackId};
use crate::rotation::Rotation;
use crate::seek::SeekCurve;
use crate::times::Times;

/// What a drive does with its track buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadAhead {
    /// Nothing is kept.
    Off,
    /// After a read it reads on until the buffer is full, and keeps what lies
    /// from the beginning of the last request on: what drives of the early
    /// nineties do (Kotz et al. 1994; Wang et al. 1999, §4.2).
    Sequential,
    /// From the moment the head reaches a track it reads all of it, whichever
    /// sector comes first, and keeps whole tracks (Wang et al. 1999, §4.2: for
    /// data whose logical order is not its physical one).
    WholeTrack,
}

/// Reading or writing: a write must be settled better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// From the medium.
    Read,
    /// To the medium.
    Write,
}

/// A mechanical drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Drive {
    /// The manufacturer's or the literature's name.
    pub name: &'static str,
    /// Zones, tracks, skew.
    pub geometry: DiskGeometry,
    /// Speed.
    pub rotation: Rotation,
    /// Arm.
    pub seek: SeekCurve,
    /// From one head to another of the same cylinder; also the least that a
    /// seek takes when the head changes with it.
    pub head_switch_ns: u64,
    /// What a write adds to a seek or head switch.
    pub write_settle_ns: u64,
    /// Handling of a read command.
    pub read_overhead_ns: u64,
    /// Handling of a write command.
    pub write_overhead_ns: u64,
    /// Of the interface.
    pub bus_bytes_per_s: u64,
    /// Size of the track buffer.
    pub buffer_bytes: u64,
    /// Its use.
    pub read_ahead: ReadAhead,
}

impl Drive {
    /// Only the outermost `cylinders` of it: experiments that fill a disk need
    /// not fill all of it (Wang et al. 1999, §4.1).
    pub fn with_cylinders(mut self, cylinders: u32) -> Self {
        self.geometry = self.geometry.outermost(cylinders);
        self
    }

    /// Only so many of its surfaces: what takes less room is as far apart for the arm.
    pub fn with_heads(mut self, heads: u32) -> Self {
        self.geometry = self.geometry.with_heads(heads);
        self
    }

    /// Another use of the buffer.
    pub fn with_read_ahead(mut self, read_ahead: ReadAhead) -> Self {
        self.read_ahead = read_ahead;
        self
    }

    /// What a command costs before anything moves.
    pub fn overhead_ns(&self, access: Access) -> u64 {
        match access {
            Access::Read => self.read_overhead_ns,
            Access::Write => self.write_overhead_ns,
        }
    }

    /// How long the interface takes over `sectors`, rounded up.
    pub fn bus_ns(&self, sectors: u64) -> u64 {
        // Picoseconds for a sector, so that rounding stays below 2^-20 of it.
        let sector_ps = SECTOR_BYTES * 1_000_000_000_000 / self.bus_bytes_per_s;
        sectors.saturating_mul(sector_ps).div_ceil(1000)
    }

    /// How long before the first of `sectors` is written their data must begin
    /// to come: one sector, or more where the bus is slower than the medium at
    /// its densest.
    pub fn lead_ns(&self, sectors: u64) -> u64 {
        let track = self.geometry.track(TrackId {
            cylinder: 0,
            head: 0,
        });
        let media_ns = sectors * self.rotation.edge_ns(1, track.sectors);
        let lag_ns = self.bus_ns(sectors).saturating_sub(media_ns);
        lag_ns.max(self.bus_ns(sectors.min(1)))
    }

    /// Seek and head switch from one track to another; no rotation.
    pub fn travel(&self, from: TrackId, to: TrackId, access: Access) -> Times {
        let mut times = Times::default();
        if from == to {
            return times;
        }
        let settle = match access {
            Access::Read => 0,
            Access::Write => self.write_settle_ns,
        };
        let distance = from.cylinder.abs_diff(to.cylinder);
        if distance == 0 {
            times.head_switch_ns = self.head_switch_ns + settle;
        } else {
            let seek = self.seek.seek_ns(distance);
            times.seek_ns = match from.head == to.head {
                true => seek + settle,
                false => seek.max(self.head_switch_ns) + settle,
            };
        }
        times
    }

    /// The time at which the head is over `to`, ready for the next slot, if it
    /// leaves `from` at `at_ns`.
    pub fn arrival_ns(&self, at_ns: u64, from: TrackId, to: TrackId, access: Access) -> u64 {
        at_ns + self.travel(from, to, access).locate_ns()
    }

    /// The sector of `track` whose beginning comes first after `arrival_ns`,
    /// as its number on the track.
    pub fn first_sector_after(&self, arrival_ns: u64, track: &Track) -> u32 {
        let slot = self.rotation.next_slot(arrival_ns, track.sectors);
        track.nth(slot)
    }

    /// From `arrival_ns` until the track's `nth` sector begins.
    pub fn rotation_to(&self, arrival_ns: u64, track: &Track, nth: u32) -> u64 {
        let slot = track.slot(nth);
        self.rotation.wait_ns(arrival_ns, slot, track.sectors)
    }

    /// Sustained rate of a long sequential transfer in the outermost zone, in
    /// bytes a second: what skew leaves of the media rate.
    pub fn sustained_bytes_per_s(&self) -> f64 {
        self.sustained_at(0)
    }

    /// The same at a cylinder.
    pub fn sustained_at(&self, cylinder: u32) -> f64 {
        let track = self.geometry.track(TrackId { cylinder, head: 0 });
        let (track_skew, cylinder_skew) = self.geometry.skews(cylinder);
        let heads = f64::from(self.geometry.heads());
        let slots = heads * f64::from(track.sectors)
            + (heads - 1.0) * f64::from(track_skew)
            + f64::from(cylinder_skew);
        let revolutions = slots / f64::from(track.sectors);
        let bytes = heads * f64::from(track.sectors) * SECTOR_BYTES as f64;
        bytes * 1e9 / (revolutions * self.rotation.revolution_ns() as f64)
    }
}
