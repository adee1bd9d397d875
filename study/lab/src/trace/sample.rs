//! A share of a trace that stands for all of it: whole regions, or whole files,
//! chosen by hash, so that what is done to one is followed from beginning to end
//! (spatial sampling; Waldspurger et al., SHARDS, FAST 2015).

/// One in `2^halvings` of all regions or files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    halvings: u32,
}

impl Sample {
    /// Half as many; each of them is in the larger sample, too. None if that
    /// would be one of more than there can be.
    pub fn halved(self) -> Option<Self> {
        let halvings = self.halvings + 1;
        (halvings < 64).then_some(Sample { halvings })
    }

    /// One in so many is followed.
    pub fn one_in(self) -> u64 {
        1 << self.halvings
    }

    /// Whether a region of a device is followed.
    pub fn takes_region(self, device: u64, region: u64) -> bool {
        self.halvings == 0 || self.takes(mixed(mixed(device) ^ region))
    }

    /// Whether a file is.
    pub fn takes_name(self, name: &str) -> bool {
        self.halvings == 0 || self.takes(hash(name))
    }

    fn takes(self, hash: u64) -> bool {
        hash >> (64 - self.halvings) == 0
    }
}

/// A name as a number, the same on every machine (FNV-1a, mixed).
pub fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mixed(name.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Every bit depends on every bit (the finaliser of SplitMix64).
fn mixed(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_share_and_contains_its_halves() {
        let half = Sample::default().halved().unwrap();
        let quarter = half.halved().unwrap();
        let taken = |sample: Sample| -> Vec<u64> {
            (0..10_000).filter(|r| sample.takes_region(7, *r)).collect()
        };
        let (all, halves, quarters) = (taken(Sample::default()), taken(half), taken(quarter));
        assert_eq!(all.len(), 10_000);
        assert!((4800..5200).contains(&halves.len()), "{}", halves.len());
        assert!((2300..2700).contains(&quarters.len()));
        assert!(quarters.iter().all(|r| halves.contains(r)));
        assert_eq!(quarter.one_in(), 4);
        let names = (0..1000).filter(|n| half.takes_name(&format!("f{n}")));
        assert!((430..570).contains(&names.count()));
    }
}
