//! Sequential read-ahead: after a read the head reads on.

use crate::drive::{Access, Drive};
use crate::geometry::TrackId;
use crate::mechanism::{Mechanism, Request};
use crate::times::Times;

/// What is in the buffer, and how the head goes on. Platter time.
#[derive(Debug, Clone)]
pub(super) struct Ahead {
    /// The first sector kept.
    from: u64,
    /// The sector that the head reads next.
    next: u64,
    /// When it was done with the one before.
    at_ns: u64,
    /// Where the buffer is full, or the disk ends: the head stops there. Below
    /// `next` after a request larger than the buffer, of which it keeps the end.
    limit: u64,
}

impl Ahead {
    /// Reads on until platter time `to_ns`, in whole sectors.
    pub(super) fn advance(&mut self, drive: &Drive, head: &mut TrackId, to_ns: u64) {
        while self.next < self.limit {
            let (track, nth) = drive.geometry.locate(self.next);
            let arrival = drive.arrival_ns(self.at_ns, *head, track.id, Access::Read);
            let start = arrival + drive.rotation_to(arrival, &track, nth);
            if start >= to_ns {
                return;
            }
            let left = (self.limit - self.next).min(u64::from(track.sectors - nth)) as u32;
            let slot = track.slot(nth);
            let done = drive
                .rotation
                .passed(slot, to_ns - start, track.sectors)
                .min(left);
            self.next += u64::from(done);
            self.at_ns = start + drive.rotation.pass_ns(slot, done, track.sectors);
            *head = track.id;
            if done < left {
                return;
            }
        }
    }
}

impl Mechanism {
    /// A read, and where reading goes on after it.
    pub(super) fn read_sequential(&mut self, begin: u64, request: Request) -> (u64, Times, bool) {
        let Request {
            sector, sectors, ..
        } = request;
        let mut ahead = self.ahead.take();
        if let Some(ahead) = &mut ahead {
            ahead.advance(&self.drive, &mut self.track, begin);
        }
        let capacity = self.drive.buffer_bytes / crate::SECTOR_BYTES;
        let limit = (sector + capacity).min(self.drive.geometry.total_sectors());
        let hit = ahead.filter(|ahead| ahead.from <= sector && sector <= ahead.next);
        let Some(mut ahead) = hit else {
            let (end, pass, times) = self.read_medium(begin, request);
            self.ahead = Some(Ahead {
                from: sector.max((sector + sectors).saturating_sub(capacity)),
                next: sector + sectors,
                at_ns: pass.end_ns,
                limit,
            });
            return (end, times, false);
        };
        // A head that had stopped, because the buffer was full, starts again now.
        if ahead.next >= ahead.limit {
            ahead.at_ns = ahead.at_ns.max(begin);
        }
        ahead.limit = limit;
        let missing = (sector + sectors).saturating_sub(ahead.next);
        let from_buffer = missing == 0;
        let mut times = Times::default();
        let mut end = begin + self.bus_ns(&request, sectors);
        if missing > 0 {
            let pass = self.pass(ahead.at_ns, Access::Read, ahead.next, missing, 0);
            end = end.max(pass.end_ns + self.bus_ns(&request, 1));
            times = pass.times;
            (ahead.next, ahead.at_ns) = (sector + sectors, pass.end_ns);
        }
        ahead.from = sector.max(ahead.next.saturating_sub(capacity));
        self.ahead = Some(ahead);
        (end, times.within(end - begin), from_buffer)
    }
}
