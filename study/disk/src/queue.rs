//! Requests waiting for one mechanism, and who is next.
//!
//! The queue is the drive's own (tagged commands): it sees at most `depth`
//! requests, the others wait before it in order of arrival. A choice is made
//! whenever the disk becomes free; requests that have arrived by then compete.
//!
//! Ties go to the request that came first, so equal seeds give equal orders.

use std::collections::VecDeque;

use crate::mechanism::{Mechanism, Request, Service};

/// Who is served next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First come, first served.
    Fcfs,
    /// The shortest seek, by cylinders.
    Sstf,
    /// The next cylinder inwards; from the last one back to the first (C-LOOK).
    CLook,
    /// The shortest positioning time: seek and rotation.
    Sptf,
}

impl Discipline {
    /// All of them.
    pub const ALL: [Discipline; 4] = [
        Discipline::Fcfs,
        Discipline::Sstf,
        Discipline::CLook,
        Discipline::Sptf,
    ];
}

/// A request and when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When the host issued it.
    pub at_ns: u64,
    /// What it asks.
    pub request: Request,
    /// The caller's name for it.
    pub tag: u64,
}

/// A request served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// What was served.
    pub arrival: Arrival,
    /// How. Its times leave out the wait in the queue.
    pub service: Service,
}

impl Completion {
    /// From arrival to completion.
    pub fn response_ns(&self) -> u64 {
        self.service.end_ns - self.arrival.at_ns
    }
}

/// One disk and what waits for it.
#[derive(Debug)]
pub struct DiskQueue {
    mechanism: Mechanism,
    discipline: Discipline,
    depth: usize,
    /// By time of arrival.
    waiting: VecDeque<Arrival>,
}

impl DiskQueue {
    /// A queue of `depth` before `mechanism`.
    ///
    /// # Panics
    /// If `depth` is zero.
    pub fn new(mechanism: Mechanism, discipline: Discipline, depth: usize) -> Self {
        assert!(depth > 0, "a queue of no requests");
        DiskQueue {
            mechanism,
            discipline,
            depth,
            waiting: VecDeque::new(),
        }
    }

    /// The disk.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Requests waiting.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a request.
    ///
    /// # Panics
    /// If it came before one added earlier.
    pub fn push(&mut self, arrival: Arrival) {
        let last = self.waiting.back().map_or(0, |last| last.at_ns);
        assert!(arrival.at_ns >= last, "requests come in order");
        self.waiting.push_back(arrival);
    }

    /// Serves one request; `None` if none waits.
    pub fn serve_next(&mut self) -> Option<Completion> {
        let first = self.waiting.front()?;
        let now = self.mechanism.free_ns().max(first.at_ns);
        let competing = self.waiting.iter().take(self.depth);
        let competing = competing.take_while(|arrival| arrival.at_ns <= now).count();
        let chosen = self.choose(now, competing);
        let arrival = self.waiting.remove(chosen)?;
        let service = self.mechanism.serve(now, arrival.request);
        Some(Completion { arrival, service })
    }

    /// Serves everything that waits, in the order of service.
    pub fn drain(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.serve_next()).collect()
    }

    /// Which of the first `competing` requests is next.
    fn choose(&self, now_ns: u64, competing: usize) -> usize {
        let head = self.mechanism.track().cylinder;
        let rank = |arrival: &Arrival| -> (u64, u64) {
            let sector = arrival.request.sector;
            let cylinder = || self.mechanism.drive().geometry.locate(sector).0.id.cylinder;
            match self.discipline {
                Discipline::Fcfs => (0, 0),
                Discipline::Sstf => (u64::from(cylinder().abs_diff(head)), 0),
                Discipline::CLook => {
                    let cylinder = cylinder();
                    (u64::from(cylinder < head), u64::from(cylinder))
                }
                Discipline::Sptf => {
                    // The arm moves when the command's overhead is over.
                    let begin_ns = now_ns + self.mechanism.overhead_ns(&arrival.request);
                    let access = arrival.request.access;
                    let times = self.mechanism.time_to(begin_ns, access, sector);
                    (times.locate_ns(), 0)
                }
            }
        };
        let candidates = self.waiting.iter().take(competing).enumerate();
        let best = candidates.min_by_key(|(_, arrival)| rank(arrival));
        best.map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use std::sync::Arc;

    /// Requests at the given cylinders, all there from the beginning.
    fn order(discipline: Discipline, depth: usize, cylinders: &[u64]) -> Vec<u64> {
        let drive = Arc::new(drives::hp97560());
        let cylinder_sectors = 72 * 19;
        let mut queue = DiskQueue::new(Mechanism::new(drive, 1), discipline, depth);
        for (tag, cylinder) in cylinders.iter().enumerate() {
            queue.push(Arrival {
                at_ns: 0,
                request: Request::write(cylinder * cylinder_sectors, 8),
                tag: tag as u64,
            });
        }
        let done = queue.drain();
        assert!(queue.is_empty());
        done.iter().map(|done| done.arrival.tag).collect()
    }

    #[test]
    fn each_discipline_has_its_order() {
        let cylinders = [900, 100, 1000, 50, 100];
        assert_eq!(order(Discipline::Fcfs, 9, &cylinders), [0, 1, 2, 3, 4]);
        assert_eq!(order(Discipline::Sstf, 9, &cylinders), [3, 1, 4, 0, 2]);
        assert_eq!(order(Discipline::CLook, 9, &cylinders), [3, 1, 4, 0, 2]);
        // Of the first two, the nearer: then each newcomer competes.
        assert_eq!(order(Discipline::Sstf, 2, &cylinders), [1, 0, 2, 4, 3]);
        // C-LOOK does not turn back for a nearer one.
        assert_eq!(order(Discipline::CLook, 2, &cylinders), [1, 0, 2, 3, 4]);
        assert_eq!(order(Discipline::CLook, 3, &[5, 100, 4, 99]), [2, 0, 3, 1]);
    }

    #[test]
    fn positioning_time_beats_seek_distance_beats_order() {
        let drive = Arc::new(drives::st19101());
        let total = drive.geometry.total_sectors();
        let mean = |discipline| {
            let mut queue = DiskQueue::new(Mechanism::new(drive.clone(), 3), discipline, 32);
            let mut state = 17u64;
            for tag in 0..2000 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                let sector = (state >> 16) % (total - 8);
                queue.push(Arrival {
                    at_ns: 0,
                    request: Request::read(sector, 8),
                    tag,
                });
            }
            let done = queue.drain();
            done.last().map_or(0, |last| last.service.end_ns) / 2000
        };
        let [fcfs, sstf, clook, sptf] = Discipline::ALL.map(mean);
        assert!(sptf < sstf && sptf < clook && sstf < fcfs && clook < fcfs);
    }

    /// Where seeks are short and commands cost 2.2 ms, a choice made for the
    /// moment before the overhead is hardly better than none.
    #[test]
    fn positioning_time_counts_from_the_end_of_the_overhead() {
        let drive = Arc::new(drives::hp97560().with_cylinders(40));
        let mean = |discipline, inside| {
            let mut queue = DiskQueue::new(Mechanism::new(drive.clone(), 1), discipline, 64);
            let mut state = 1u64;
            let mut arrival = |at_ns, tag| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                let sector = (state >> 20) % (40 * 19 * 72 / 8) * 8;
                let request = Request {
                    inside,
                    ..Request::write(sector, 8)
                };
                Arrival {
                    at_ns,
                    request,
                    tag,
                }
            };
            (0..32).for_each(|tag| queue.push(arrival(0, tag)));
            let mut rotation_ns = 0;
            for tag in 0..3000 {
                let done = queue.serve_next().unwrap();
                rotation_ns += done.service.times.rotation_ns;
                queue.push(arrival(done.service.end_ns, tag));
            }
            (queue.mechanism().free_ns() / 3000, rotation_ns / 3000)
        };
        for inside in [false, true] {
            let [fcfs, sstf, clook, sptf] =
                Discipline::ALL.map(|discipline| mean(discipline, inside));
            assert!(sptf < sstf.min(clook) && sptf < fcfs, "inside: {inside}");
            // A choice of 32 leaves a small part of a revolution to wait.
            assert!(sptf.1 < 2_000_000, "{} ns of rotation", sptf.1);
        }
    }

    #[test]
    fn a_request_waits_for_the_disk_and_not_before_it_comes() {
        let drive = Arc::new(drives::hp97560());
        let mut queue = DiskQueue::new(Mechanism::new(drive, 1), Discipline::Sptf, 8);
        for at_ns in [5, 10, 1_000_000_000] {
            queue.push(Arrival {
                at_ns,
                request: Request::read(1000, 8),
                tag: at_ns,
            });
        }
        let done = queue.drain();
        let took = |at: usize| done[at].service.times.total_ns();
        assert_eq!(done[0].service.end_ns, 5 + took(0));
        assert_eq!(done[1].service.end_ns, 5 + took(0) + took(1));
        assert_eq!(done[1].response_ns(), done[1].service.end_ns - 10);
        assert_eq!(done[2].response_ns(), took(2));
    }
}
