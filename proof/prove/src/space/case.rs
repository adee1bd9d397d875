//! The random choices of a case.

use super::{Cycle, Service};
use crate::explorer::mix;
use crate::random::Random;
use std::fmt;
use varve_lfs::MAX_HEADS;

const MIB: u64 = 1 << 20;
/// Least number of blocks of a volume.
const BLOCKS_MIN: u64 = 1000;

/// The shape of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the device; a drive has the number of cylinders that is closest.
    pub device_bytes: u64,
    /// Bytes per logical block.
    pub block_bytes: u32,
    /// Bytes that the device writes without affecting their neighbours: 512 or 4096.
    pub unit_bytes: u32,
    /// True if the device is a simulated drive.
    pub in_drive: bool,
    /// Choice of properties that only one layout has: the size of segments, slots.
    pub variety: u64,
}

/// One case; the module [`crate::space`] explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Seed of all choices.
    pub seed: u64,
    /// Shape of the volume.
    pub shape: Shape,
    /// Services for which it is mounted, in turn.
    pub services: Vec<Service>,
    /// Bytes of padding in names.
    pub name_bytes: usize,
    /// Number of threads that fill and remove in parallel.
    pub threads: u64,
    /// Cycles, one after the other.
    pub cycles: Vec<Cycle>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Case {
    /// Returns one of a series of cases: one of eight in succession has any size.
    pub fn nth(seed: u64, index: u64) -> Self {
        match index % 8 {
            7 => Case::nth_of_any_size(seed, index),
            _ => Case::nth_small(seed, index),
        }
    }

    /// Returns one of a series of cases of any size.
    pub fn nth_of_any_size(seed: u64, index: u64) -> Self {
        Case::draw(mix(seed, index))
    }

    /// Returns one of a series of small cases.
    pub fn nth_small(seed: u64, index: u64) -> Self {
        Case::small(mix(seed, index))
    }

    /// Returns the case of this seed, of any size.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let shape = draw_shape(&mut random);
        let services = draw_services(&mut random);
        let threads = *random.pick(&[1, 1, 1, 1, 2, 12]);
        let cycles = 1 + random.below(3);
        Case {
            seed,
            shape,
            services,
            name_bytes: *random.pick(&[0, 0, 30, 200]),
            threads,
            cycles: (0..cycles).map(|_| Cycle::draw(&mut random)).collect(),
        }
    }

    /// Returns the small case of this seed, of which a few hundred run in a minute. Some
    /// volumes are soon full without any ballast, with mostly metadata; they take
    /// longest, because nearly every step at the end must clean.
    pub fn small(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let is_least = random.once_in(16);
        let mebibytes = match is_least {
            true => 6,
            false => *random.pick(&[16, 16, 16, 17, 20, 24]),
        };
        let odd = random.below(64) * 4096;
        let blocks: &[u32] = match is_least {
            true => &[4096],
            false => &[4096, 4096, 4096, 4096, 8192, 16384],
        };
        let shape = Shape {
            device_bytes: mebibytes * MIB + odd,
            block_bytes: *random.pick(blocks),
            unit_bytes: *random.pick(&[512, 4096]),
            in_drive: !is_least && random.once_in(5),
            variety: random.word(),
        };
        let mut services = draw_services(&mut random);
        if is_least {
            // Each further head takes two of so few segments.
            services.iter_mut().for_each(|service| service.heads = 1);
        }
        let threads = *random.pick(&[1, 1, 1, 1, 1, 1, 2, 12]);
        let cycles = if is_least {
            1
        } else {
            *random.pick(&[1, 1, 2])
        };
        let draw_cycle = |_| Cycle::small(&mut random, is_least);
        Case {
            seed,
            shape,
            services,
            threads,
            cycles: (0..cycles).map(draw_cycle).collect(),
            name_bytes: *random.pick(&[0, 0, 30, 200]),
        }
    }

    /// Returns the same case for a tree that is reached by paths, with this number of
    /// threads. Names are short, because paths are limited; a volume is as large as
    /// `mkfs` makes it; and threads make no detours, because a file is reached by a name
    /// that another thread may remove.
    pub fn through_the_kernel(mut self, threads: u64) -> Self {
        self.name_bytes = 0;
        self.threads = threads;
        self.shape.device_bytes = self.shape.device_bytes.max(16 * MIB);
        self.shape.block_bytes = 4096;
        if threads > 1 {
            self.cycles
                .iter_mut()
                .for_each(|cycle| cycle.detour_one_in = 0);
        }
        self
    }
}

fn draw_shape(random: &mut Random) -> Shape {
    let in_drive = random.once_in(5);
    let mebibytes: &[u64] = match in_drive {
        true => &[16, 16, 24, 64],
        false => &[16, 16, 16, 17, 20, 24, 32, 48, 64, 128, 256, 512, 1024],
    };
    let odd = random.below(256) * 4096;
    let device_bytes = random.pick(mebibytes) * MIB + odd;
    let blocks = [4096, 4096, 4096, 4096, 8192, 16384, 65536];
    // A volume of few large blocks is mostly reserve.
    let sensible = blocks
        .iter()
        .filter(|&&bytes| device_bytes / bytes >= BLOCKS_MIN);
    let sensible: Vec<u64> = sensible.copied().collect();
    Shape {
        device_bytes,
        block_bytes: *random.pick(&sensible) as u32,
        unit_bytes: *random.pick(&[512, 4096]),
        in_drive,
        variety: random.word(),
    }
}

/// Draws one service for all mounts, or another one for each.
fn draw_services(random: &mut Random) -> Vec<Service> {
    let count = *random.pick(&[1, 1, 2, 3]);
    let mut draw = || Service {
        heads: *random.pick(&[1, 1, 0, 2, 4, MAX_HEADS as u32]),
        policy: random.below(3) as usize,
    };
    (0..count).map(|_| draw()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Filling;
    use super::*;

    fn are_of_all_kinds(draw: fn(u64) -> Case) {
        assert_eq!(draw(7), draw(7));
        let cases: Vec<_> = (0..300).map(draw).collect();
        let some = |is: &dyn Fn(&Case) -> bool| assert!(cases.iter().any(is));
        some(&|case| case.threads == 12);
        some(&|case| case.shape.in_drive);
        for policy in 0..3 {
            some(&|case| (case.services).iter().any(|one| one.policy == policy));
        }
        some(&|case| case.services.iter().any(|one| one.heads > 2));
        some(&|case| case.services.len() > 1);
        for filling in Filling::ALL {
            let has = |cycle: &Cycle| cycle.fillings.contains(&filling);
            some(&|case| case.cycles.iter().any(has));
        }
        for cycle in cases.iter().flat_map(|case| &case.cycles) {
            assert!(cycle.fillings.iter().any(|filling| filling.grows()));
        }
    }

    #[test]
    fn a_seed_draws_one_case_and_the_cases_are_of_all_kinds() {
        are_of_all_kinds(Case::draw);
        are_of_all_kinds(Case::small);
        let large = |seed| Case::draw(seed).shape.device_bytes >= 1 << 30;
        assert!((0..300).any(large));
    }
}
