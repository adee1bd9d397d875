//! WOLF's reordering write buffers (Wang & Hu, FAST 2002, §2.2): active and
//! inactive blocks part before they reach the log.
//!
//! Every block has a reference count, which starts again when the block has
//! not been used for the *time-bar*. At a flush the waiting blocks are ordered
//! by count, equal ones by directory and file, and divided into as many equal
//! parts as there are buffers, the most active first. The time-bar follows the
//! workload: when nine in ten counts are equal it doubles, when no more than
//! one in ten is, it halves.
//!
//! The paper keeps counts in the buffers only. A buffer is flushed long before
//! most blocks are used again, so here a count stays with the block as long as
//! the time-bar has not passed, which is what the paper's cache of 64 MB
//! amounts to.

use std::cmp::Reverse;

/// The paper's first time-bar: ten minutes.
const FIRST_NS: i64 = 600_000_000_000;
/// The time-bar stays between a second and eighteen hours.
const RANGE_NS: (i64, i64) = (1_000_000_000, 1 << 46);

/// How often a block has been used of late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heat {
    /// Uses since it was last quiet for a time-bar.
    pub references: u32,
    /// Last use.
    pub used_ns: i64,
}

/// A block in the buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Its place in arrival order, which the summary keeps.
    pub arrival: u32,
    /// Its reference count.
    pub references: u32,
    /// The file it belongs to.
    pub file: u32,
    /// The directory of that file.
    pub directory: u32,
}

/// The buffers' division and time-bar.
#[derive(Debug, Clone)]
pub struct Reordering {
    buffers: usize,
    time_bar_ns: i64,
}

impl Reordering {
    /// So many buffers, at least one.
    pub fn new(buffers: usize) -> Self {
        Reordering {
            buffers: buffers.max(1),
            time_bar_ns: FIRST_NS,
        }
    }

    /// How many there are.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// A block is read or written.
    pub fn touch(&self, heat: &mut Heat, now_ns: i64) {
        let quiet = now_ns.saturating_sub(heat.used_ns) > self.time_bar_ns;
        heat.references = if quiet { 0 } else { heat.references } + 1;
        heat.used_ns = now_ns;
    }

    /// Orders the waiting blocks and returns how many each part holds, the
    /// most active part first.
    pub fn divide(&mut self, waiting: &mut [Waiting]) -> usize {
        waiting.sort_unstable_by_key(|w| (Reverse(w.references), w.directory, w.file, w.arrival));
        self.adapt(waiting);
        waiting.len().div_ceil(self.buffers).max(1)
    }

    /// Moves the time-bar. `ordered` is in order of reference counts.
    fn adapt(&mut self, ordered: &[Waiting]) {
        let alike = ordered.chunk_by(|a, b| a.references == b.references);
        let commonest = alike.map(<[Waiting]>::len).max().unwrap_or(0);
        let moved_ns = match commonest * 10 {
            _ if ordered.len() < 10 => return,
            tenfold if tenfold >= ordered.len() * 9 => self.time_bar_ns * 2,
            tenfold if tenfold <= ordered.len() => self.time_bar_ns / 2,
            _ => return,
        };
        self.time_bar_ns = moved_ns.clamp(RANGE_NS.0, RANGE_NS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(arrival: u32, references: u32, file: u32) -> Waiting {
        Waiting {
            arrival,
            references,
            file,
            directory: file / 10,
        }
    }

    #[test]
    fn active_blocks_come_first_and_files_stay_together() {
        let mut blocks: Vec<Waiting> = (0..12)
            .map(|i| waiting(i, if i % 3 == 0 { 5 } else { 1 }, i % 2))
            .collect();
        let mut reordering = Reordering::new(2);
        assert_eq!(reordering.divide(&mut blocks), 6);
        let order: Vec<u32> = blocks.iter().map(|w| w.arrival).collect();
        assert_eq!(order, [0, 6, 3, 9, 2, 4, 8, 10, 1, 5, 7, 11]);
        assert_eq!(reordering.time_bar_ns, FIRST_NS);
    }

    #[test]
    fn the_time_bar_doubles_when_counts_are_equal_and_halves_when_they_differ() {
        let mut reordering = Reordering::new(2);
        let mut equal: Vec<Waiting> = (0..20).map(|i| waiting(i, u32::from(i < 2), 0)).collect();
        reordering.divide(&mut equal);
        assert_eq!(reordering.time_bar_ns, 2 * FIRST_NS);
        let mut different: Vec<Waiting> = (0..20).map(|i| waiting(i, i / 2, 0)).collect();
        reordering.divide(&mut different);
        reordering.divide(&mut different);
        assert_eq!(reordering.time_bar_ns, FIRST_NS / 2);
    }

    #[test]
    fn a_count_starts_again_after_a_quiet_time_bar() {
        let reordering = Reordering::new(1);
        let mut heat = Heat::default();
        for now_ns in [0, FIRST_NS, 2 * FIRST_NS] {
            reordering.touch(&mut heat, now_ns);
        }
        assert_eq!(heat.references, 3);
        reordering.touch(&mut heat, 3 * FIRST_NS + 1);
        assert_eq!(heat.references, 1);
    }

    #[test]
    fn few_blocks_say_nothing_of_the_workload_and_the_time_bar_has_bounds() {
        let mut reordering = Reordering::new(2);
        let equal = |count| (0..count).map(|i| waiting(i, 1, 0)).collect::<Vec<_>>();
        reordering.divide(&mut equal(9));
        assert_eq!(reordering.time_bar_ns, FIRST_NS);
        reordering.divide(&mut equal(10));
        assert_eq!(reordering.time_bar_ns, 2 * FIRST_NS);
        for _ in 0..20 {
            reordering.divide(&mut equal(10));
        }
        assert_eq!(reordering.time_bar_ns, RANGE_NS.1);
        let mut different: Vec<Waiting> = (0..10).map(|i| waiting(i, i, 0)).collect();
        for _ in 0..20 {
            reordering.divide(&mut different);
        }
        assert_eq!(reordering.time_bar_ns, RANGE_NS.0);
        assert_eq!((reordering.buffers(), Reordering::new(0).buffers()), (2, 1));
    }
}
