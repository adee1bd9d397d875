//! Coalescing: which files are rewritten in the order of their blocks, in what order, and
//! when it pays (Seltzer 1992, §5.4 and ch. 8).
//!
//! A file that is updated at random is in as many pieces as there were updates; reading
//! it in order costs an access for each. A rewrite reads the pieces once and writes them
//! once, in order. Whether that pays depends on how often the file will be read, which is
//! unknown; [`READS`] times is assumed. Cold files are first, because files that are
//! still being updated are fragmented again. Among those, large ones are first, because
//! reading them in order takes longest.

use super::{TransferModel, Watermarks};

/// Bytes judged and rewritten together.
pub const EXTENT_BYTES: u64 = 1 << 20;
/// Number of reads in order after which a rewrite must have paid.
const READS: f64 = 2.0;
/// Nanoseconds without a write after which a file is cold.
const COLD_NS: i64 = 60_000_000_000;

/// Part of a file: [`EXTENT_BYTES`] of its blocks, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Pieces, each of which takes a request to read.
    pub runs: u64,
    /// Bytes stored.
    pub bytes: u64,
}

/// A file that may be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Number that identifies the file.
    pub number: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the last write, in nanoseconds since 1970.
    pub written_ns: i64,
}

/// The policy of coalescing.
#[derive(Clone, Copy, Debug)]
pub struct Coalescing {
    model: TransferModel,
    reads: f64,
    cold_ns: i64,
}

impl Default for Coalescing {
    fn default() -> Self {
        Coalescing {
            model: TransferModel::ATLAS_10K,
            reads: READS,
            cold_ns: COLD_NS,
        }
    }
}

impl Coalescing {
    /// A policy that rewrites every extent of more than one piece, hot or cold.
    pub fn thorough() -> Self {
        Coalescing {
            reads: f64::INFINITY,
            cold_ns: i64::MIN,
            ..Coalescing::default()
        }
    }

    /// True if rewriting an extent pays: the savings of later reads must exceed reading
    /// it in pieces once and writing it in one.
    pub fn pays(&self, extent: Extent) -> bool {
        if extent.runs <= 1 {
            return false;
        }
        let (runs, bytes) = (extent.runs as f64, extent.bytes as f64);
        let saved = self.reads * (runs - 1.0) * self.model.access_s;
        let spent = runs * self.model.access_s + bytes / self.model.bandwidth;
        saved > spent + self.model.request_s(bytes)
    }

    /// The files to examine, best first: the cold ones, larger ones before smaller ones.
    pub fn choose(&self, files: &[File], now_ns: i64) -> Vec<File> {
        let cold = |file: &&File| now_ns.saturating_sub(file.written_ns) >= self.cold_ns;
        let mut chosen: Vec<File> = files.iter().filter(cold).copied().collect();
        chosen.sort_by_key(|file| (std::cmp::Reverse(file.bytes), file.number));
        chosen
    }

    /// True if `segments` clean segments may be used up: never those for which the
    /// cleaner would begin to work.
    pub fn may_use(&self, space: &Watermarks, segments: u64) -> bool {
        u64::from(space.clean) >= u64::from(space.low) + segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(runs: u64) -> Extent {
        Extent {
            runs,
            bytes: EXTENT_BYTES,
        }
    }

    #[test]
    fn few_pieces_are_not_worth_it() {
        let policy = Coalescing::default();
        // 1 MiB twice is 35 ms of transfer, some six accesses.
        assert!(!policy.pays(extent(1)) && !policy.pays(extent(8)));
        assert!(policy.pays(extent(9)) && policy.pays(extent(256)));
        assert!(!Coalescing::thorough().pays(extent(1)));
        assert!(Coalescing::thorough().pays(extent(2)));
    }

    #[test]
    fn cold_and_large_files_come_first() {
        let file = |number, bytes, written_s: i64| File {
            number,
            bytes,
            written_ns: written_s * 1_000_000_000,
        };
        let files = [
            file(1, 10, 0),
            file(2, 30, 0),
            file(3, 99, 41),
            file(4, 30, 40),
        ];
        let now_ns = 100_000_000_000;
        let numbers = |policy: Coalescing| -> Vec<u64> {
            let chosen = policy.choose(&files, now_ns);
            chosen.iter().map(|file| file.number).collect()
        };
        assert_eq!(numbers(Coalescing::default()), [2, 4, 1]);
        assert_eq!(numbers(Coalescing::thorough()), [3, 2, 4, 1]);
    }

    #[test]
    fn the_cleaner_is_not_set_to_work() {
        let space = Watermarks {
            clean: 10,
            low: 8,
            high: 20,
        };
        let policy = Coalescing::default();
        assert!(policy.may_use(&space, 2) && !policy.may_use(&space, 3));
    }
}
