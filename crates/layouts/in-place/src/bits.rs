//! Bit sets, and their ranges as the content of map sectors.

use std::ops::Range;

/// A set of bits with a fixed length.
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

    /// Sets all bits of a range to `value`.
    pub fn fill(&mut self, range: Range<u64>, value: bool) {
        for (nth, bits) in words(range) {
            let word = &mut self.words[nth];
            *word = if value { *word | bits } else { *word & !bits };
        }
    }

    /// Returns the number of ones in a range.
    pub fn count(&self, range: Range<u64>) -> u64 {
        let ones = |(nth, bits): (usize, u64)| u64::from((self.words[nth] & bits).count_ones());
        words(range).map(ones).sum()
    }

    /// Returns `count` bits from `at` on: an aligned power of two, at most 8.
    pub fn few(&self, at: u64, count: u64) -> u8 {
        (self.words[(at / 64) as usize] >> (at % 64) & ((1 << count) - 1)) as u8
    }

    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.words.iter().enumerate();
        words.flat_map(|(nth, &word)| ones_of(word).map(move |bit| nth as u64 * 64 + bit))
    }

    /// Returns the runs of zeros, in order.
    pub fn zeros(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.alike(0..self.len, false)
    }

    /// Returns the runs of ones in a range, in order.
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

    /// Returns the first bit at or behind `from` that has the value `wanted`.
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

    /// Writes the bits from `from` on to `content`, as many as fit and are before `to`.
    pub fn store(&self, from: u64, to: u64, content: &mut [u8]) {
        content.fill(0);
        let end = to.min(from + content.len() as u64 * 8).min(self.len);
        for (nth, bits) in words(from..end) {
            for bit in ones_of(self.words[nth] & bits) {
                let at = nth as u64 * 64 + bit - from;
                content[(at / 8) as usize] |= 1 << (at % 8);
            }
        }
    }

    /// Reads the bits that [`Self::store`] wrote.
    pub fn load(&mut self, from: u64, to: u64, content: &[u8]) {
        let end = to.min(from + content.len() as u64 * 8).min(self.len);
        self.fill(from..end, false);
        for (begin, bytes) in (from..end).step_by(64).zip(content.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let ones = ones_of(u64::from_le_bytes(word)).map(|bit| begin + bit);
            ones.take_while(|at| *at < end)
                .for_each(|at| self.set(at, true));
        }
    }
}

/// Returns the indices of the ones of a word, in order.
fn ones_of(word: u64) -> impl Iterator<Item = u64> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = (rest != 0).then(|| u64::from(rest.trailing_zeros()))?;
        rest &= rest - 1;
        Some(bit)
    })
}

/// Returns the words that contain a range of bits, each with a mask of these bits.
fn words(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((at / 64 + 1) * 64);
        let count = end.checked_sub(at).filter(|count| *count > 0)?;
        let found = ((at / 64) as usize, (u64::MAX >> (64 - count)) << (at % 64));
        at = end;
        Some(found)
    })
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
    fn ranges_are_counted_and_filled_and_nothing_else() {
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
                let ones = (start..end).filter(|at| before.get(*at)).count() as u64;
                assert_eq!(before.count(start..end), ones, "{start} to {end}");
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
