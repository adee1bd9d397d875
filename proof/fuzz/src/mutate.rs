//! Mutation of seeds, for runs without a coverage-guided fuzzer.

/// A generator of random numbers whose whole state is its seed.
///
/// Source: Steele, Lea & Flood 2014 (SplitMix).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed and a number within it.
    pub fn new(seed: u64, nth: u64) -> Self {
        let mut random = Random(seed);
        let mixed = random.word() ^ nth;
        Random(mixed)
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, or 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 {
            return 0;
        }
        (self.word() % end as u64) as usize
    }
}

/// Numbers that overflow, wrap, or stand at a limit.
pub const EXTREMES: [u64; 16] = [
    0,
    1,
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
    u32::MAX as u64,
    1 << 48,
    1 << 60,
    i64::MAX as u64,
    1 << 31,
    1 << 32,
    (1 << 48) - 1,
    512,
    4096,
    65536,
    255,
];

/// An input made from `seeds`.
pub fn mutant(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(6) {
        change(&mut bytes, seeds, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.word() as u8);
    }
    // Structures begin with what matters most.
    let span = if random.below(2) == 0 {
        256
    } else {
        usize::MAX
    };
    let at = random.below(bytes.len().min(span));
    match random.below(10) {
        0..=2 => bytes[at] ^= 1 << random.below(8),
        3 => bytes[at] = random.word() as u8,
        4 => put(bytes, at & !7, &extreme(random).to_le_bytes()),
        5 => put(bytes, at & !3, &extreme(random).to_le_bytes()[..4]),
        6 => {
            let step = [1, 2, 8, 255][random.below(4)];
            bytes[at] = bytes[at].wrapping_add(step);
        }
        7 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len());
            let length = (1 + random.below(64)).min(other.len() - from);
            put(bytes, at, &other[from..from + length]);
        }
        8 if random.below(4) == 0 => bytes.truncate(at),
        8 => {
            let end = (at + 1 + random.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let end = (at + 1 + random.below(40)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
    }
}

fn extreme(random: &mut Random) -> u64 {
    EXTREMES[random.below(EXTREMES.len())]
}

/// Writes as much of `value` at `at` as there is room for.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}
