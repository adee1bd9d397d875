//! Free numbers in the order in which the list on the device has them.
//!
//! A million files that are removed leave as many numbers, and checkpoints come
//! between them, while names are removed in an order that has nothing to do with
//! numbers. So what one checkpoint puts on the list is dense and has gaps: it takes a
//! bit for each number where it is dense.

use varve_fs::Version;

/// Numbers from `first` on, within 64, whose next files get one version.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: u64,
    /// A bit for each number; that of `first` is the lowest.
    which: u64,
    version: Version,
}

/// A stack of numbers: the last one is at the head of the list.
#[derive(Debug, Default)]
pub(super) struct Settled {
    stretches: Vec<Stretch>,
}

impl Settled {
    /// Puts numbers on, in ascending order, each at the head.
    pub fn put(&mut self, ascending: impl IntoIterator<Item = (u64, Version)>) {
        let before = self.stretches.len();
        for (ino, version) in ascending {
            match self.stretches[before..].last_mut() {
                Some(last) if last.version == version && ino - last.first < 64 => {
                    last.which |= 1 << (ino - last.first);
                }
                _ => self.stretches.push(Stretch {
                    first: ino,
                    which: 1,
                    version,
                }),
            }
        }
    }

    /// Takes the number at the head.
    pub fn take(&mut self) -> Option<(u64, Version)> {
        let stretch = self.stretches.last_mut()?;
        let highest = stretch.which.ilog2();
        let number = (stretch.first + u64::from(highest), stretch.version);
        stretch.which &= !(1 << highest);
        if stretch.which == 0 {
            self.stretches.pop();
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a stack of numbers, with versions that differ here and there.
    #[test]
    fn numbers_come_back_from_the_last_to_the_first() {
        let (mut settled, mut stack) = (Settled::default(), Vec::new());
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for round in 0..200 {
            let mut ino = random(1000);
            let gap = 1 + random(if round % 3 == 0 { 200 } else { 3 });
            let mut batch = Vec::new();
            for _ in 0..random(300) {
                ino += 1 + random(gap);
                batch.push((ino, 1 + u32::from(random(10) == 0)));
            }
            stack.extend_from_slice(&batch);
            settled.put(batch);
            for _ in 0..random(300) {
                assert_eq!(settled.take(), stack.pop());
            }
        }
        while let Some(number) = stack.pop() {
            assert_eq!(settled.take(), Some(number));
        }
        assert_eq!(settled.take(), None);
    }

    #[test]
    fn a_million_numbers_in_any_order_take_little_memory() {
        let mut settled = Settled::default();
        // What each of five checkpoints finds of files that are removed at random.
        for part in 0..5u64 {
            let numbers =
                (0..1_000_000u64).filter(|n| n.wrapping_mul(0x9e37_79b9) >> 7 & 7 == part);
            settled.put(numbers.map(|n| (n, 2)));
        }
        let bytes = settled.stretches.capacity() * size_of::<Stretch>();
        assert!(bytes < 4 << 20, "{bytes} bytes");
    }
}
