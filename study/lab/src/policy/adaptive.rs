//! Cleaning or hole-plugging, whichever frees space in less time (WOLF §2.5,
//! after Matthews et al. 1997).
//!
//! For the segments that either would take, the time to transfer what has to
//! be read and written is divided by the space that becomes free:
//!
//! - cleaning reads segments and writes their survivors, packed, in segments;
//! - plugging reads one segment and writes each survivor by itself.
//!
//! The lower quotient wins. Cleaning takes segments by cost-benefit, plugging
//! the emptiest.

use super::Simulated;
use varve_lfs::policy::{
    Candidate, Measures, Policy, Survivor, TransferModel, Write, emptiest, most_beneficial,
};

/// Seconds per byte that cleaning these segments frees.
fn cleaning(model: &TransferModel, segments: &[Candidate]) -> f64 {
    let Some(segment_bytes) = segments.first().map(|c| c.segment_bytes as f64) else {
        return f64::INFINITY;
    };
    let live: u64 = segments.iter().map(|c| c.live_bytes).sum();
    let all = segments.len() as f64 * segment_bytes;
    let segments_moved = segments.len() as f64 + live as f64 / segment_bytes;
    segments_moved * model.request_s(segment_bytes) / (all - live as f64)
}

/// Seconds per byte that plugging holes with these segments frees.
fn plugging(model: &TransferModel, segments: &[Candidate]) -> f64 {
    let Some(segment_bytes) = segments.first().map(|c| c.segment_bytes as f64) else {
        return f64::INFINITY;
    };
    let live: u64 = segments.iter().map(|c| c.live_bytes).sum();
    let blocks = live as f64 / model.block_bytes;
    let reads = segments.len() as f64 * model.request_s(segment_bytes);
    let freed = segments.len() as f64 * segment_bytes;
    (reads + blocks * model.request_s(model.block_bytes)) / freed
}

/// See the module's head.
#[derive(Debug, Clone, Copy)]
pub struct Adaptive {
    model: TransferModel,
    buffers: usize,
}

impl Adaptive {
    /// For the disk of the paper, without reordering.
    pub fn with_one_buffer() -> Self {
        Self::new(TransferModel::ATLAS_10K, 1)
    }

    /// For a device of this kind, behind so many reordering buffers (at least
    /// one), each with a head of its own. Survivors join the least active.
    pub fn new(model: TransferModel, buffers: usize) -> Self {
        Adaptive {
            model,
            buffers: buffers.max(1),
        }
    }
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        match self.buffers {
            1 => "adaptive",
            _ => "wolf",
        }
    }

    fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
        most_beneficial(candidates, now_ns, limit)
    }

    fn sorted_segments(&self) -> u64 {
        2
    }

    fn heads(&mut self, _measures: &Measures) -> usize {
        self.buffers
    }

    fn place(&mut self, write: &Write) -> usize {
        write.buffer.min(self.buffers - 1)
    }

    fn place_survivor(&mut self, _survivor: &Survivor) -> usize {
        self.buffers - 1
    }
}

impl Simulated for Adaptive {
    fn plugged(
        &self,
        candidates: &[Candidate],
        copied: &[Candidate],
        limit: usize,
    ) -> Option<Vec<Candidate>> {
        let emptiest = emptiest(candidates, limit);
        let dearer = cleaning(&self.model, copied) > plugging(&self.model, &emptiest);
        dearer.then_some(emptiest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(utilisation: u64) -> Candidate {
        Candidate {
            segment: 1,
            live_bytes: 2621 * utilisation,
            segment_bytes: 262_144,
            newest_ns: 0,
        }
    }

    #[test]
    fn plugging_is_for_segments_that_are_all_but_full() {
        let seek_free = TransferModel {
            access_s: 0.0,
            ..TransferModel::ATLAS_10K
        };
        let plugs = |policy: Adaptive, candidates: &[Candidate]| {
            let copied = policy.choose(candidates, 1, 1);
            assert_eq!(copied, candidates);
            policy.plugged(candidates, &copied, 1).is_some()
        };
        // Without seeks, (1 + u) / (1 - u) against 1 + u: plugging always wins.
        assert!(plugs(Adaptive::new(seek_free, 1), &[at(50)]));
        // 64 blocks of 6 ms each against two transfers of 10 ms and more.
        let disk = Adaptive::with_one_buffer();
        assert!(!plugs(disk, &[at(50)]) && plugs(disk, &[at(97)]) && !plugs(disk, &[]));
    }

    #[test]
    fn a_head_for_each_buffer_and_survivors_join_the_least_active() {
        let measures = Measures {
            spare_segments: 10,
            segment_blocks: 100,
        };
        for (buffers, heads) in [(0, 1), (1, 1), (3, 3)] {
            let mut policy = Adaptive::new(TransferModel::ATLAS_10K, buffers);
            assert_eq!(policy.heads(&measures), heads);
            let mut placed = |buffer| {
                policy.place(&Write {
                    block: 1,
                    arrival: 1,
                    life: None,
                    buffer,
                })
            };
            assert_eq!(
                [0, heads - 1, 9].map(&mut placed),
                [0, heads - 1, heads - 1]
            );
            let survivor = Survivor {
                block: 1,
                now: 1,
                age: 1,
                head: 0,
            };
            assert_eq!(policy.place_survivor(&survivor), heads - 1);
        }
    }

    #[test]
    fn what_freeing_a_byte_takes_is_counted_in_transfers() {
        let model = TransferModel {
            access_s: 1.0,
            bandwidth: 1000.0,
            block_bytes: 100.0,
        };
        let half = |segment| Candidate {
            segment,
            live_bytes: 500,
            segment_bytes: 1000,
            newest_ns: 0,
        };
        assert_eq!(model.request_s(1000.0), 2.0);
        // Two read and one written for a segment; two read and ten blocks
        // written, of 1.1 s each, for two.
        let two = [half(1), half(2)];
        assert_eq!(cleaning(&model, &two), 3.0 * 2.0 / 1000.0);
        assert_eq!(plugging(&model, &two), (2.0 * 2.0 + 10.0 * 1.1) / 2000.0);
        assert_eq!(
            (cleaning(&model, &[]), plugging(&model, &[])),
            (f64::INFINITY, f64::INFINITY)
        );
    }
}
