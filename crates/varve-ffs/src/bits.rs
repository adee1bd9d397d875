//! Bits, and how a range of them becomes the content of a sector of a map.

use std::ops::Range;

/// A bit for each of so many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    pub fn new(len: u64) -> Self {
        Bits {
            words: vec![0; len.div_ceil(64) as usize],
            len,
        }
    }

    pub fn get(&self, at: u64) -> bool {
        self.words[(at / 64) as usize] >> (at % 64) & 1 != 0
    }

    pub fn set(&mut self, at: u64, value: bool) {
        let (word, bit) = (&mut self.words[(at / 64) as usize], 1 << (at % 64));
        match value {
            true => *word |= bit,
            false => *word &= !bit,
        }
    }

    /// Sets a range of them.
    pub fn fill(&mut self, range: Range<u64>, value: bool) {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / 64 + 1) * 64);
            let bits = (u64::MAX >> (64 - (end - at))) << (at % 64);
            let word = &mut self.words[(at / 64) as usize];
            *word = if value { *word | bits } else { *word & !bits };
            at = end;
        }
    }

    /// The bits of an aligned power of two of them, 8 at most.
    pub fn few(&self, at: u64, count: u64) -> u8 {
        (self.words[(at / 64) as usize] >> (at % 64) & ((1 << count) - 1)) as u8
    }

    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().flat_map(|(nth, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| u64::from(rest.trailing_zeros()))?;
                rest &= rest - 1;
                Some(nth as u64 * 64 + bit)
            })
        })
    }

    /// The runs of zeros, in order.
    pub fn zeros(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.alike(0..self.len, false)
    }

    /// The runs of ones in a range, in order.
    pub fn runs(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        self.alike(range, true)
    }

    fn alike(&self, range: Range<u64>, value: bool) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = self.next(at, value).filter(|start| *start < range.end)?;
            at = self.next(start, !value).unwrap_or(self.len).min(range.end);
            Some(start..at)
        })
    }

    /// The first bit at or behind `from` that is as wanted.
    fn next(&self, from: u64, wanted: bool) -> Option<u64> {
        let mut at = from;
        while at < self.len {
            let word = self.words[(at / 64) as usize];
            let word = if wanted { word } else { !word } >> (at % 64);
            if word != 0 {
                let found = at + u64::from(word.trailing_zeros());
                return (found < self.len).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Writes the bits from `from` on, as many as fit and are before `to`.
    pub fn store(&self, from: u64, to: u64, content: &mut [u8]) {
        content.fill(0);
        for at in from..to.min(from + content.len() as u64 * 8).min(self.len) {
            if self.get(at) {
                let nth = at - from;
                content[(nth / 8) as usize] |= 1 << (nth % 8);
            }
        }
    }

    /// The reverse of [`Self::store`].
    pub fn load(&mut self, from: u64, to: u64, content: &[u8]) {
        for at in from..to.min(from + content.len() as u64 * 8).min(self.len) {
            let nth = at - from;
            self.set(at, content[(nth / 8) as usize] >> (nth % 8) & 1 != 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded() {
        let mut bits = Bits::new(10_000);
        let mut at = 7;
        while at < 10_000 {
            bits.set(at, true);
            at += 1 + at % 61;
        }
        let mut loaded = Bits::new(10_000);
        for from in (0..10_000).step_by(504 * 8) {
            let mut content = [0xff; 504];
            bits.store(from, 10_000, &mut content);
            loaded.load(from, 10_000, &content);
        }
        assert_eq!(bits, loaded);
        assert!(bits.ones().all(|at| bits.get(at)) && bits.ones().count() > 200);
        let zeros: Vec<u64> = bits.zeros().flatten().collect();
        let expected: Vec<u64> = (0..10_000).filter(|at| !bits.get(*at)).collect();
        assert_eq!(zeros, expected);
        let ones: Vec<u64> = bits.runs(70..9_000).flatten().collect();
        assert!(
            ones.into_iter()
                .eq(bits.ones().filter(|at| (70..9_000).contains(at)))
        );
        assert!(Bits::new(130).zeros().eq(std::iter::once(0..130)));
    }

    #[test]
    fn ranges_are_filled_and_nothing_else() {
        for (start, end) in [
            (0, 0),
            (0, 64),
            (3, 5),
            (63, 65),
            (64, 128),
            (1, 200),
            (70, 190),
        ] {
            for value in [true, false] {
                let mut bits = Bits::new(200);
                (0..200).for_each(|at| bits.set(at, at % 3 == 0));
                let before = bits.clone();
                bits.fill(start..end, value);
                for at in 0..200 {
                    let expected = match (start..end).contains(&at) {
                        true => value,
                        false => before.get(at),
                    };
                    assert_eq!(bits.get(at), expected, "{at} of {start} to {end}");
                }
            }
        }
    }
}
