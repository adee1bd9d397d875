//! Whole tracks in the buffer: reading begins with whichever sector the head
//! meets first.

use crate::drive::{Access, Drive};
use crate::geometry::{Track, TrackId};
use crate::mechanism::{Mechanism, Request};
use crate::times::Times;

/// One track, as read in one revolution from wherever the head came down.
/// Platter time.
#[derive(Debug, Clone)]
struct Held {
    track: Track,
    /// When `first_slot` began.
    start_ns: u64,
    first_slot: u32,
    /// Slots read when reading was cut short; `None` while the head is there.
    cut: Option<u32>,
}

impl Held {
    /// When the last of `count` sectors from the `nth` is in the buffer;
    /// `None` if one of them never will be.
    fn ready_ns(&self, drive: &Drive, nth: u32, count: u32) -> Option<u64> {
        let slots = self.track.sectors;
        let order = |nth: u32| (self.track.slot(nth) + slots - self.first_slot) % slots;
        let (first, last) = (order(nth), order(nth + count - 1));
        // If the head came down among them, the last one to be read is the one
        // just before it.
        let latest = if first <= last { last } else { slots - 1 };
        if self.cut.is_some_and(|cut| latest >= cut) {
            return None;
        }
        let pass = drive.rotation.pass_ns(self.first_slot, latest + 1, slots);
        Some(self.start_ns + pass)
    }
}

/// The tracks held, the last used last.
#[derive(Debug, Clone, Default)]
pub(super) struct Tracks(Vec<Held>);

impl Tracks {
    /// The head leaves, or does something else, at platter time `at_ns`.
    pub(super) fn stop(&mut self, drive: &Drive, at_ns: u64) {
        for held in &mut self.0 {
            if held.cut.is_none() {
                let elapsed = at_ns.saturating_sub(held.start_ns);
                let slots = held.track.sectors;
                held.cut = Some(drive.rotation.passed(held.first_slot, elapsed, slots));
            }
        }
    }

    fn find(&mut self, id: TrackId) -> Option<&Held> {
        let at = self.0.iter().position(|held| held.track.id == id)?;
        let held = self.0.remove(at);
        self.0.push(held);
        self.0.last()
    }

    fn hold(&mut self, held: Held, capacity_bytes: u64) {
        self.0.retain(|other| other.track.id != held.track.id);
        let bytes = u64::from(held.track.sectors) * crate::SECTOR_BYTES;
        let most = (capacity_bytes / bytes).max(1) as usize;
        if self.0.len() >= most {
            self.0.drain(..=self.0.len() - most);
        }
        self.0.push(held);
    }
}

impl Mechanism {
    /// A read out of whole tracks.
    pub(super) fn read_tracks(&mut self, begin: u64, request: Request) -> (u64, Times, bool) {
        let (mut sector, last) = (request.sector, request.sector + request.sectors);
        let (mut at, mut times, mut from_buffer) = (begin, Times::default(), true);
        while sector < last {
            let (track, nth) = self.drive.geometry.locate(sector);
            let here = (last - sector).min(u64::from(track.sectors - nth)) as u32;
            let held = self.tracks.find(track.id);
            let ready = match held.and_then(|held| held.ready_ns(&self.drive, nth, here)) {
                Some(ready) => ready,
                None => {
                    let (held, travel) = self.come_down(at, track);
                    let ready = held.ready_ns(&self.drive, nth, here);
                    let ready = ready.expect("a track whose reading was not cut short");
                    self.tracks.hold(held, self.drive.buffer_bytes);
                    let passing = self
                        .drive
                        .rotation
                        .pass_ns(track.slot(nth), here, track.sectors);
                    let rotation_ns = (ready - at - travel.locate_ns()).saturating_sub(passing);
                    times += Times {
                        rotation_ns,
                        ..travel
                    };
                    ready
                }
            };
            from_buffer &= ready <= at;
            at = at.max(ready);
            sector += u64::from(here);
        }
        let end =
            (at + self.bus_ns(&request, 1)).max(begin + self.bus_ns(&request, request.sectors));
        (end, times.within(end - begin), from_buffer)
    }

    /// Moves to a track at platter time `at` and begins to read it all.
    fn come_down(&mut self, at: u64, track: Track) -> (Held, Times) {
        self.tracks.stop(&self.drive, at);
        let travel = self.drive.travel(self.track, track.id, Access::Read);
        let arrived = at + travel.locate_ns();
        let first_slot = self.drive.rotation.next_slot(arrived, track.sectors);
        let wait = self
            .drive
            .rotation
            .wait_ns(arrived, first_slot, track.sectors);
        self.track = track.id;
        let held = Held {
            track,
            start_ns: arrived + wait,
            first_slot,
            cut: None,
        };
        (held, travel)
    }
}
