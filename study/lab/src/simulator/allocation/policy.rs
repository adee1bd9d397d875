//! The policies under study, as §3.3 configures them.

use super::Load;
use varve_ffs::allocate::{
    Allocator, Buddy, CylinderGroups, Extents, Fit, Fixed, Grow, Order, Placement, Restricted,
    Shape,
};

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;

/// Block sizes of the restricted buddy system, bytes: a configuration has the
/// first two to five.
pub const RESTRICTED_SIZES: [u64; 5] = [KB, 8 * KB, 64 * KB, MB, 16 * MB];

/// Bytes of a bookkeeping region, where there are several.
const REGION: u64 = 32 * MB;

/// A policy with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Blocks of 4 KB for time-sharing, of 16 KB for the others (§3.3.4).
    Fixed {
        /// From a shuffled free list, or in order.
        aged: bool,
    },
    /// Such blocks, placed as FFS places them (T657): in the file's cylinder group, each
    /// behind the last one. The chapter gives no cluster and no rotational gap.
    Grouped,
    /// Extents (§3.3.3).
    Extents {
        /// Best fit, not first.
        best: bool,
        /// Ranges of table 3-6: one to five.
        ranges: usize,
        /// A file's range is drawn; otherwise its type has one ([`PolicyKind::wish`]).
        drawn: bool,
    },
    /// Binary buddies (§3.3.1).
    Buddy,
    /// Restricted buddies (§3.3.2).
    Restricted {
        /// Block sizes: two to five.
        sizes: usize,
        /// Grow factor.
        grow: u64,
        /// With regions of 32 MB, not one.
        clustered: bool,
    },
}

impl PolicyKind {
    /// The one that §3.3.2 chooses for the comparison.
    pub const RESTRICTED: PolicyKind = PolicyKind::Restricted {
        sizes: 5,
        grow: 1,
        clustered: true,
    };

    /// The one that §3.3.3 chooses.
    pub const EXTENTS: PolicyKind = PolicyKind::Extents {
        best: false,
        ranges: 3,
        drawn: false,
    };

    /// Bytes of a disk unit: the least that is transferred.
    pub fn unit_bytes(self, load: Load) -> u64 {
        match self {
            PolicyKind::Buddy => 512,
            PolicyKind::Grouped => fixed_bytes(load).min(2 * KB),
            _ => KB,
        }
    }

    /// Units that a file gets at least, where the map would give it fewer.
    pub fn block_units(self, load: Load) -> u64 {
        match self {
            PolicyKind::Grouped => fixed_bytes(load) / self.unit_bytes(load),
            _ => 1,
        }
    }

    /// An empty volume.
    pub fn build(self, load: Load, volume_bytes: u64, seed: u64) -> Box<dyn Allocator> {
        let unit = self.unit_bytes(load);
        let units = volume_bytes / unit;
        let fixed = |bytes: u64, aged| {
            let order = match aged {
                true => Order::Aged { seed },
                false => Order::InOrder,
            };
            Box::new(Fixed::new(units, bytes / unit, order))
        };
        match self {
            PolicyKind::Fixed { aged } => fixed(fixed_bytes(load), aged),
            PolicyKind::Grouped => {
                let shape = Shape {
                    units,
                    block: self.block_units(load),
                    group: REGION / unit,
                    head: 0,
                };
                let placement = Placement {
                    maxcontig: 1,
                    rotdelay: 0,
                    clusters: false,
                    scarce: 0,
                };
                Box::new(CylinderGroups::new(shape, placement))
            }
            PolicyKind::Extents { best, ranges, .. } => {
                let fit = if best { Fit::Best } else { Fit::First };
                let units_of = |bytes: &u64| bytes / unit;
                let means: Vec<u64> = ranges_of(load, ranges).iter().map(units_of).collect();
                Box::new(Extents::new(units, fit, &means))
            }
            PolicyKind::Buddy => Box::new(Buddy::new(units)),
            PolicyKind::Restricted {
                sizes,
                grow,
                clustered,
            } => {
                let sizes: Vec<u64> = RESTRICTED_SIZES[..sizes].iter().map(|s| s / unit).collect();
                let region = clustered.then_some(REGION / unit);
                let map = Restricted::new(units, &sizes, Grow(grow), region);
                Box::new(map.expect("the thesis's configurations are possible"))
            }
        }
    }

    /// Mean size of the extents of the `nth` file of a type, in units; 0 where
    /// the policy has no such parameter or draws the range itself.
    ///
    /// Which type has which range is not in the chapter. Here it is what leads
    /// to table 3-7, whose figures are quotients of sizes: `study/allocation.md`.
    pub fn wish(self, load: Load, kind: usize, nth: u64) -> u64 {
        let PolicyKind::Extents {
            ranges,
            drawn: false,
            ..
        } = self
        else {
            return 0;
        };
        let means = wishes(load, ranges)[kind];
        means[(nth % means.len() as u64) as usize] / self.unit_bytes(load)
    }
}

/// Of fixed blocks (§3.3.4).
fn fixed_bytes(load: Load) -> u64 {
    match load {
        Load::Ts => 4 * KB,
        Load::Tp | Load::Sc => 16 * KB,
    }
}

/// Table 3-6, bytes.
fn ranges_of(load: Load, count: usize) -> &'static [u64] {
    match (load, count) {
        (Load::Ts, 1) => &[4 * KB],
        (Load::Ts, 2) => &[KB, 8 * KB],
        (Load::Ts, 3) => &[KB, 8 * KB, MB],
        (Load::Ts, 4) => &[KB, 4 * KB, 8 * KB, MB],
        (Load::Ts, _) => &[KB, 4 * KB, 8 * KB, 16 * KB, MB],
        (_, 1) => &[512 * KB],
        (_, 2) => &[512 * KB, 16 * MB],
        (_, 3) => &[512 * KB, MB, 16 * MB],
        (_, 4) => &[512 * KB, MB, 10 * MB, 16 * MB],
        (_, _) => &[10 * KB, 512 * KB, MB, 10 * MB, 16 * MB],
    }
}

/// Ranges of each type's files, which take turns, bytes.
fn wishes(load: Load, count: usize) -> &'static [&'static [u64]] {
    const HALF: &[u64] = &[512 * KB];
    const ONE: &[u64] = &[MB];
    const TEN: &[u64] = &[10 * MB];
    const SIXTEEN: &[u64] = &[16 * MB];
    match (load, count) {
        (Load::Ts, 1) => &[&[4 * KB], &[4 * KB]],
        (Load::Ts, 2 | 3) => &[&[KB], &[8 * KB]],
        (Load::Ts, 4) => &[&[KB, 4 * KB], &[8 * KB]],
        (Load::Ts, _) => &[&[KB, 4 * KB], &[8 * KB, 16 * KB]],
        (Load::Tp, 1) => &[HALF, HALF, HALF],
        (Load::Tp, 2) => &[SIXTEEN, HALF, HALF],
        (Load::Tp, 3) => &[SIXTEEN, HALF, ONE],
        (Load::Tp, 4) => &[TEN, ONE, TEN],
        (Load::Tp, _) => &[TEN, HALF, &[10 * KB]],
        (Load::Sc, 1 | 5..) => &[HALF, HALF, HALF, HALF],
        (Load::Sc, 2) => &[SIXTEEN, HALF, HALF, HALF],
        (Load::Sc, 3) => &[SIXTEEN, ONE, HALF, HALF],
        (Load::Sc, _) => &[ONE, HALF, HALF, HALF],
    }
}
