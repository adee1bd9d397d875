//! What a user does next.

use super::Population;
use varve_prove::random::Random;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Read,
    Write,
    Extend,
    Truncate,
    Delete,
}

/// A stream of requests with the shares of table 3-3.
#[derive(Debug)]
pub(super) struct Requests {
    random: Random,
    /// By share of the requests: types, as often as they have users.
    types: Vec<u8>,
    /// By type: a hundred asks.
    asks: Vec<Vec<Ask>>,
    first: Vec<usize>,
    files: Vec<u64>,
}

impl Requests {
    pub(super) fn new(population: &Population, seed: u64) -> Self {
        let of = |kind: &super::FileType| {
            let shares = [
                (Ask::Read, kind.reads),
                (Ask::Write, kind.writes),
                (Ask::Extend, kind.extends),
                (Ask::Truncate, kind.truncates),
                (Ask::Delete, kind.deletes),
            ];
            let each = |(ask, share)| std::iter::repeat_n(ask, share as usize);
            shares.into_iter().flat_map(each).collect()
        };
        let types = population.types.iter().enumerate();
        Requests {
            random: Random::new(seed ^ 0x0072_6571_7565_7374),
            types: types
                .flat_map(|(at, kind)| std::iter::repeat_n(at as u8, kind.users as usize))
                .collect(),
            asks: population.types.iter().map(of).collect(),
            first: population.first.clone(),
            files: population
                .types
                .iter()
                .map(|t| u64::from(t.files))
                .collect(),
        }
    }

    /// A user for each place among the types.
    pub(super) fn users(&self) -> usize {
        self.types.len()
    }

    /// A file and what is asked of it.
    #[inline]
    pub(super) fn next(&mut self) -> (usize, Ask) {
        let word = self.random.word();
        // Independent parts of one draw: 16 bits each for type and ask, 32 for
        // the file. Their bias is below a thousandth of a percent of a share.
        let below = |bits: u64, width: u32, bound: usize| ((bits * bound as u64) >> width) as usize;
        let kind = usize::from(self.types[below(word & 0xffff, 16, self.types.len())]);
        let ask = self.asks[kind][below((word >> 16) & 0xffff, 16, 100)];
        let file = below(word >> 32, 32, self.files[kind] as usize);
        (self.first[kind] + file, ask)
    }

    /// A draw from `0..bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A pause of that mean, exponentially distributed.
    pub(super) fn pause_ns(&mut self, mean_ns: u64) -> u64 {
        if mean_ns == 0 {
            return 0;
        }
        let unit = ((self.random.word() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-unit.ln() * mean_ns as f64) as u64
    }
}
