//! Arm, head and track buffer serving requests: the model of a disk.
//!
//! One request is served at a time, in the order given; `queue.rs` chooses an
//! order. A request costs, one after the other: command overhead; seek or head
//! switch; rotation; the passing of its sectors, with a switch and a wait at
//! each end of a track; what the interface lags behind. Reading on into the
//! buffer happens in the time between requests, and is computed when the next
//! one comes.
//!
//! Simplifications, all deterministic: a read-ahead that is interrupted while
//! the arm moves is taken never to have moved it; writes go through to the
//! medium and empty a sequential buffer; heads are never recalibrated.

mod ahead;
mod tracks;

use std::sync::Arc;

use crate::drive::{Access, Drive, ReadAhead};
use crate::geometry::TrackId;
use crate::times::Times;
use ahead::Ahead;
use tracks::Tracks;

/// A request to a mechanism, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Read or write.
    pub access: Access,
    /// The first logical sector.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
    /// Issued by the drive's own processor: it costs no command overhead and
    /// crosses no bus.
    pub inside: bool,
}

impl Request {
    /// The host reads.
    pub fn read(sector: u64, sectors: u64) -> Self {
        Request {
            access: Access::Read,
            sector,
            sectors,
            inside: false,
        }
    }

    /// The host writes.
    pub fn write(sector: u64, sectors: u64) -> Self {
        Request {
            access: Access::Write,
            ..Request::read(sector, sectors)
        }
    }

    /// The same, from the drive's own processor.
    pub fn from_inside(self) -> Self {
        Request {
            inside: true,
            ..self
        }
    }
}

/// How a request was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// When it was done.
    pub end_ns: u64,
    /// What its time went to, from the moment the disk took it up.
    pub times: Times,
    /// True if no sector had to be waited for: all were in the buffer.
    pub from_buffer: bool,
}

/// The state of one disk. Times are those of the caller's clock.
#[derive(Debug, Clone)]
pub struct Mechanism {
    drive: Arc<Drive>,
    /// How far the platter was turned when the clock stood at 0.
    phase_ns: u64,
    track: TrackId,
    /// When the last request was done.
    free_ns: u64,
    ahead: Option<Ahead>,
    tracks: Tracks,
}

/// Sectors passing under the head, from the first to the last.
#[derive(Debug, Clone, Copy)]
struct Pass {
    /// When the first began.
    begun_ns: u64,
    /// When the last ended.
    end_ns: u64,
    times: Times,
}

impl Mechanism {
    /// A disk at rest over its outermost track. `seed` turns the platter:
    /// disks of an array are not in phase.
    pub fn new(drive: Arc<Drive>, seed: u64) -> Self {
        // One step of splitmix64.
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let phase_ns = (mixed ^ (mixed >> 27)) % drive.rotation.revolution_ns();
        Mechanism {
            drive,
            phase_ns,
            track: TrackId {
                cylinder: 0,
                head: 0,
            },
            free_ns: 0,
            ahead: None,
            tracks: Tracks::default(),
        }
    }

    /// The drive's parameters.
    pub fn drive(&self) -> &Arc<Drive> {
        &self.drive
    }

    /// The track the head is over.
    pub fn track(&self) -> TrackId {
        self.track
    }

    /// When the disk can take the next request.
    pub fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// The platter's time at the clock's: what [`Rotation`](crate::Rotation)
    /// counts from.
    pub fn platter_ns(&self, clock_ns: u64) -> u64 {
        clock_ns + self.phase_ns
    }

    /// How long until `sector` is under the head, from `now_ns` or from when
    /// the disk is free: seek, head switch and rotation, no overhead.
    ///
    /// # Panics
    /// In debug builds, if the disk has no such sector.
    pub fn time_to(&self, now_ns: u64, access: Access, sector: u64) -> Times {
        let (track, nth) = self.drive.geometry.locate(sector);
        let at = self.platter_ns(now_ns.max(self.free_ns));
        let mut times = self.drive.travel(self.track, track.id, access);
        times.rotation_ns = self.drive.rotation_to(at + times.locate_ns(), &track, nth);
        times
    }

    /// Serves a request that is given to the disk at `now_ns`. If the disk is
    /// still busy, it is taken up when that ends.
    ///
    /// # Panics
    /// In debug builds, if the request reaches beyond the disk.
    pub fn serve(&mut self, now_ns: u64, request: Request) -> Service {
        debug_assert!(
            request
                .sector
                .checked_add(request.sectors)
                .is_some_and(|end| end <= self.drive.geometry.total_sectors()),
            "{request:?} reaches beyond the disk"
        );
        let taken_ns = now_ns.max(self.free_ns);
        let overhead_ns = self.overhead_ns(&request);
        let begin = self.platter_ns(taken_ns) + overhead_ns;
        let (end, mut times, from_buffer) = match (request.sectors, request.access) {
            (0, _) => (begin, Times::default(), true),
            (_, Access::Write) => self.write(begin, request),
            (_, Access::Read) => match self.drive.read_ahead {
                ReadAhead::Off => {
                    let (end, _, times) = self.read_medium(begin, request);
                    (end, times, false)
                }
                ReadAhead::Sequential => self.read_sequential(begin, request),
                ReadAhead::WholeTrack => self.read_tracks(begin, request),
            },
        };
        times.overhead_ns += overhead_ns;
        self.free_ns = end - self.phase_ns;
        debug_assert_eq!(times.total_ns(), self.free_ns - taken_ns);
        Service {
            end_ns: self.free_ns,
            times,
            from_buffer,
        }
    }

    /// What the command costs before anything moves.
    pub(crate) fn overhead_ns(&self, request: &Request) -> u64 {
        match request.inside {
            true => 0,
            false => self.drive.overhead_ns(request.access),
        }
    }

    fn bus_ns(&self, request: &Request, sectors: u64) -> u64 {
        match request.inside {
            true => 0,
            false => self.drive.bus_ns(sectors),
        }
    }

    /// Passes over sectors, from platter time `at`; the data of a write is not
    /// there before `data_ns`. Waiting for it counts as transfer.
    fn pass(&mut self, at: u64, access: Access, first: u64, count: u64, data_ns: u64) -> Pass {
        let drive = Arc::clone(&self.drive);
        let (mut sector, end) = (first, first + count);
        let mut pass = Pass {
            begun_ns: 0,
            end_ns: at,
            times: Times::default(),
        };
        while sector < end {
            let (track, nth) = drive.geometry.locate(sector);
            let here = (end - sector).min(u64::from(track.sectors - nth)) as u32;
            pass.times += drive.travel(self.track, track.id, access);
            let mut ready = drive.arrival_ns(pass.end_ns, self.track, track.id, access);
            if sector == first && ready < data_ns {
                pass.times.transfer_ns += data_ns - ready;
                ready = data_ns;
            }
            let rotation_ns = drive.rotation_to(ready, &track, nth);
            let passing_ns = drive.rotation.pass_ns(track.slot(nth), here, track.sectors);
            if sector == first {
                pass.begun_ns = ready + rotation_ns;
            }
            pass.times.rotation_ns += rotation_ns;
            pass.times.transfer_ns += passing_ns;
            pass.end_ns = ready + rotation_ns + passing_ns;
            self.track = track.id;
            sector += u64::from(here);
        }
        pass
    }

    fn write(&mut self, begin: u64, request: Request) -> (u64, Times, bool) {
        self.stop_reading(begin);
        let (track, _) = self.drive.geometry.locate(request.sector);
        // The interface must stay ahead of the head.
        let bus_ns = self.bus_ns(&request, request.sectors);
        let media_ns = request.sectors * self.drive.rotation.edge_ns(1, track.sectors);
        let lead_ns = bus_ns
            .saturating_sub(media_ns)
            .max(self.bus_ns(&request, 1));
        let pass = self.pass(
            begin,
            Access::Write,
            request.sector,
            request.sectors,
            begin + lead_ns,
        );
        (pass.end_ns, pass.times, false)
    }

    /// When the last byte is across the bus, if the first sector had been read
    /// at `first_ns` and the last at `end_ns`.
    fn delivered_ns(&self, request: &Request, first_ns: u64, end_ns: u64) -> u64 {
        let streamed = first_ns + self.bus_ns(request, request.sectors);
        streamed.max(end_ns + self.bus_ns(request, 1))
    }

    /// A read past every buffer: when it is done, and how the sectors passed.
    fn read_medium(&mut self, begin: u64, request: Request) -> (u64, Pass, Times) {
        let pass = self.pass(begin, Access::Read, request.sector, request.sectors, 0);
        let (track, _) = self.drive.geometry.locate(request.sector);
        let sector_ns = self.drive.rotation.edge_ns(1, track.sectors);
        let end = self.delivered_ns(&request, pass.begun_ns + sector_ns, pass.end_ns);
        let mut times = pass.times;
        times.transfer_ns += end - pass.end_ns;
        (end, pass, times)
    }

    /// Ends whatever is being read into the buffer at platter time `at`.
    fn stop_reading(&mut self, at: u64) {
        if let Some(mut ahead) = self.ahead.take() {
            ahead.advance(&self.drive, &mut self.track, at);
        }
        self.tracks.stop(&self.drive, at);
    }
}

#[cfg(test)]
mod tests;
