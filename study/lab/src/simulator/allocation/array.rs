//! Drives with a queue each, striped: a request has a part on each drive that
//! it touches, and is done when its last part is.

use super::Assumptions;
use super::windows::Windows;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use varve_device::{SECTOR, Stripes};
use varve_disk::{Access, Arrival, DiskQueue, Mechanism, Request};

/// Who waits for parts: a user's number.
pub(super) type User = usize;

/// The array.
#[derive(Debug)]
pub(super) struct Bench {
    queues: Vec<DiskQueue>,
    /// When a drive ends with what it serves, and for whom.
    busy: Vec<Option<(u64, User)>>,
    stripes: Stripes,
    /// Parts that each user waits for.
    parts: Vec<u32>,
    moved: Windows,
}

impl Bench {
    /// Drives at rest, not in phase.
    ///
    /// # Panics
    /// If there are no drives or the stripe unit is 0.
    pub(super) fn new(assumed: &Assumptions, users: usize, seed: u64) -> Self {
        let queue = |member: usize| {
            let seed = seed.wrapping_add(member as u64);
            let mechanism = Mechanism::new(assumed.drive.clone(), seed);
            DiskQueue::new(mechanism, assumed.discipline, usize::MAX)
        };
        let stripes = Stripes::new(assumed.members, assumed.stripe_bytes);
        Bench {
            queues: (0..assumed.members).map(queue).collect(),
            busy: vec![None; assumed.members],
            stripes: stripes.expect("drives, and a stripe unit"),
            parts: vec![0; users],
            moved: Windows::default(),
        }
    }

    /// A user asks for bytes of the volume: how, from where, how many. When
    /// drives end goes to the agenda.
    pub(super) fn ask(
        &mut self,
        now_ns: u64,
        user: User,
        (access, offset, bytes): (Access, u64, u64),
        agenda: &mut Agenda,
    ) {
        let runs = self.stripes.runs(offset, bytes);
        for run in runs {
            let first = run.offset / SECTOR;
            let request = Request {
                access,
                sector: first,
                sectors: (run.offset + run.length).div_ceil(SECTOR) - first,
                inside: false,
            };
            self.parts[user] += 1;
            self.queues[run.member].push(Arrival {
                at_ns: now_ns,
                request,
                tag: user as u64,
            });
            if self.busy[run.member].is_none() {
                self.serve(run.member, agenda);
            }
        }
    }

    fn serve(&mut self, drive: usize, agenda: &mut Agenda) {
        let Some(done) = self.queues[drive].serve_next() else {
            return;
        };
        let end_ns = done.service.end_ns;
        let begin_ns = end_ns - done.service.times.total_ns();
        let bytes = done.arrival.request.sectors * SECTOR;
        self.moved.add(begin_ns, end_ns, bytes);
        self.busy[drive] = Some((end_ns, done.arrival.tag as usize));
        agenda.at(end_ns, Event::Drive(drive));
    }

    /// A drive has ended: whoever waits for nothing else any more is named.
    pub(super) fn ended(&mut self, drive: usize, agenda: &mut Agenda) -> Option<User> {
        let (_, user) = self.busy[drive].take().expect("it was at work");
        self.serve(drive, agenda);
        self.parts[user] -= 1;
        (self.parts[user] == 0).then_some(user)
    }

    /// What was moved when.
    pub(super) fn moved(&mut self) -> &mut Windows {
        &mut self.moved
    }
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A user is ready.
    User(User),
    /// A drive has ended with a part.
    Drive(usize),
}

/// Events by time, those of one moment in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
}

impl Agenda {
    pub(super) fn at(&mut self, time_ns: u64, event: Event) {
        self.made += 1;
        self.events.push(Reverse((time_ns, self.made, event)));
    }

    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        let Reverse((time_ns, _, event)) = self.events.pop()?;
        Some((time_ns, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::allocation::Assumptions;
    use varve_disk::Access;

    const TRACK: u64 = 24 << 10;
    const REVOLUTION_NS: u64 = 16_666_667;

    /// When the user who asked is served, and how many drives took part.
    fn served(bench: &mut Bench, offset: u64, bytes: u64) -> (u64, u32) {
        let mut agenda = Agenda::default();
        bench.ask(0, 0, (Access::Read, offset, bytes), &mut agenda);
        let mut parts = 0;
        while let Some((now_ns, event)) = agenda.next() {
            let Event::Drive(drive) = event else {
                panic!("no user has an event")
            };
            parts += 1;
            if bench.ended(drive, &mut agenda) == Some(0) {
                assert!(agenda.next().is_none(), "the last part ends it");
                return (now_ns, parts);
            }
        }
        panic!("never served");
    }

    #[test]
    fn a_request_is_done_with_its_slowest_part() {
        let assumed = Assumptions::default();
        let mut bench = Bench::new(&assumed, 1, 1);
        let (end_ns, parts) = served(&mut bench, 0, 8 * TRACK);
        assert_eq!(parts, 8);
        // A track each, no seek, and the worst of eight rotations.
        assert!((REVOLUTION_NS..2 * REVOLUTION_NS).contains(&end_ns));
    }

    #[test]
    fn users_of_one_drive_wait_for_each_other() {
        let assumed = Assumptions::default();
        let mut bench = Bench::new(&assumed, 3, 1);
        let mut agenda = Agenda::default();
        for user in 0..3 {
            bench.ask(0, user, (Access::Write, 0, TRACK), &mut agenda);
        }
        let mut order = Vec::new();
        while let Some((now_ns, Event::Drive(drive))) = agenda.next() {
            order.extend(bench.ended(drive, &mut agenda));
            assert!(now_ns >= order.len() as u64 * REVOLUTION_NS);
        }
        assert_eq!(order, [0, 1, 2]);
        let moved = bench.moved().bytes_per_s(1_000_000_000);
        assert!((moved - 3.0 * TRACK as f64).abs() < 1.0);
    }

    #[test]
    fn small_requests_take_a_seek_half_a_revolution_and_their_bytes() {
        let mut drive = (*Assumptions::default().drive).clone();
        drive.seek = varve_disk::SeekCurve::line(20.0, 0.0);
        let assumed = Assumptions {
            drive: std::sync::Arc::new(drive),
            members: 1,
            ..Assumptions::default()
        };
        let mut bench = Bench::new(&assumed, 1, 1);
        let (mut now_ns, mut agenda) = (0, Agenda::default());
        let mut random = varve_prove::random::Random::new(1);
        for _ in 0..2000 {
            // Any cylinder, and any sector of a track.
            let offset = random.below(1600) * 9 * TRACK + random.below(41) * 512;
            bench.ask(now_ns, 0, (Access::Read, offset, 4096), &mut agenda);
            let (end_ns, event) = agenda.next().unwrap();
            assert_eq!(event, Event::Drive(0));
            assert_eq!(bench.ended(0, &mut agenda), Some(0));
            now_ns = end_ns;
        }
        let ms = now_ns as f64 / 2e9;
        assert!((ms - (20.0 + 8.33 + 2.78)).abs() < 0.4, "{ms} ms each");
    }
}
