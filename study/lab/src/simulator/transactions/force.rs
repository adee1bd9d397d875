//! Group commit, and where what is written behind the last goes.
//!
//! While a force is under way, those who commit gather; they are written
//! together by the next. Blocks of 4 KB that follow one another lie on one disk
//! after the other, the log's as the database's (§4.5).

use super::locks::Txn;
use super::parameters::Service;

/// Bytes of a stripe.
const STRIPE: u64 = 4096;

/// Something written in sequence: a log of transactions, or a log-structured
/// file system.
#[derive(Debug)]
pub(super) struct Sequence {
    position: u64,
    /// Time on each disk of what is being gathered, and of that the log's.
    parts: Vec<(f64, f64)>,
    service: Service,
    positioned: bool,
}

impl Sequence {
    pub(super) fn new(disks: usize, service: Service, positioned: bool) -> Self {
        Sequence {
            position: 0,
            parts: vec![(0.0, 0.0); disks],
            service,
            positioned,
        }
    }

    /// Puts bytes behind the last ones; whether they are the transactions' log.
    pub(super) fn append(&mut self, mut bytes: u64, log: bool) {
        while bytes > 0 {
            let room = STRIPE - self.position % STRIPE;
            let now = bytes.min(room);
            let disk = (self.position / STRIPE) as usize % self.parts.len();
            let mut ns = self.service.sequential(now as f64);
            let part = &mut self.parts[disk];
            if self.positioned && part.0 == 0.0 {
                ns += self.service.position();
            }
            part.0 += ns;
            if log {
                part.1 += ns;
            }
            self.position += now;
            bytes -= now;
        }
    }

    /// Disks with something to write, how long, and of that the log's.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let parts = self.parts.iter_mut().enumerate();
        parts.filter_map(|(disk, part)| {
            let (ns, log_ns) = std::mem::take(part);
            (ns > 0.0).then(|| (disk, ns.round() as u64, log_ns.round() as u64))
        })
    }
}

/// Who waits for a force.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// For the next one.
    pub(super) gathering: Vec<Txn>,
    pub(super) gathered_bytes: u64,
    /// For the one under way.
    pub(super) written: Vec<Txn>,
    /// Parts of it that are not yet written.
    pub(super) parts: usize,
    /// When those are written, pages that must follow the log are next.
    pub(super) pages_next: bool,
}

impl Group {
    /// Whether a force is under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.written.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_goes_from_disk_to_disk() {
        let mut sequence = Sequence::new(3, Service::EAGLE, false);
        sequence.append(1024, true);
        sequence.append(4096, false);
        sequence.append(4096, false);
        let parts: Vec<_> = sequence.take().collect();
        let quarter = 497_500;
        assert_eq!(
            parts,
            [
                (0, 4 * quarter, quarter),
                (1, 4 * quarter, 0),
                (2, quarter, 0)
            ]
        );
        assert_eq!(sequence.take().count(), 0);
        // Where the last one ended.
        sequence.append(4096, true);
        let disks: Vec<_> = sequence.take().map(|(disk, ..)| disk).collect();
        assert_eq!(disks, [0, 2]);
    }

    #[test]
    fn a_place_that_must_be_found_again_costs_once_a_disk() {
        let mut sequence = Sequence::new(2, Service::EAGLE, true);
        sequence.append(3 * 4096, false);
        let parts: Vec<_> = sequence.take().map(|(_, ns, _)| ns).collect();
        assert_eq!(parts, [26_310_000 + 2 * 1_990_000, 28_300_000]);
    }
}
