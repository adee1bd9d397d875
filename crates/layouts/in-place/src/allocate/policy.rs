//! The choice of a volume's allocation policy, its parameters, and the map that
//! follows.

use super::{
    Allocator, Buddy, CylinderGroups, Extent, Extents, Fit, Fixed, Grow, Order, Placement,
    Restricted, RestrictedError, Shape,
};

/// Maximum number of sizes of a policy.
pub const SIZES_MAX: usize = 8;

/// An allocation policy with its parameters. Sizes are in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// FFS: blocks and fragments in cylinder groups.
    Ffs {
        /// Number of contiguous blocks of a file before a gap.
        maxcontig: u32,
        /// Length of the gap, in blocks.
        rotdelay: u32,
        /// True if blocks that are requested together are placed together, as later
        /// FFSs do by reallocation.
        clusters: bool,
    },
    /// Blocks of one size.
    Fixed {
        /// The seed of a free list that years have shuffled; `None` for the order of
        /// addresses.
        shuffled: Option<u64>,
    },
    /// Extents, whose size each file has for itself.
    Extents {
        /// The choice among free runs.
        fit: Fit,
        /// Means, from which the size of a file's extents is derived.
        sizes: Vec<u32>,
    },
    /// Binary buddies.
    Buddy,
    /// Restricted buddies.
    Restricted {
        /// Sizes of blocks, ascending, each a multiple of the one before; the first is
        /// 1.
        sizes: Vec<u32>,
        /// Factor of growth: how many times a larger block a file's smaller blocks must
        /// be.
        grow: u32,
        /// Size of a bookkeeping region; `None` for one region of the whole volume.
        region: Option<u32>,
    },
}

/// The reason why parameters are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// This program has no policy of this number.
    #[error("allocation policy {0}, which this program does not have")]
    Unknown(u8),
    /// There are no sizes, too many, or impossible ones.
    #[error("sizes of {0:?} blocks: there must be 1 to 8, none of 0")]
    Sizes(Vec<u32>),
    /// A superblock declares more sizes than it has fields for.
    #[error("{0} sizes: there are 8 at most")]
    Count(u8),
    /// The smallest block is not a single block, which a layout promises.
    #[error("restricted buddies whose smallest block is {0} of the layout's")]
    Smallest(u32),
    /// The volume has fragments, but only FFS's policy can allocate them.
    #[error("fragments smaller than a block, which only FFS's own policy hands out")]
    Fragments,
    /// The parameters of restricted buddies are refused.
    #[error(transparent)]
    Restricted(#[from] RestrictedError),
    /// The gaps of FFS are refused.
    #[error("maxcontig {maxcontig}, rotdelay {rotdelay}")]
    Gaps {
        /// The `maxcontig` given; it must be at least 1.
        maxcontig: u32,
        /// The `rotdelay` given; it must be at most 65,536.
        rotdelay: u32,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Policy::ffs(256, 0, true)
    }
}

impl Policy {
    const fn ffs(maxcontig: u32, rotdelay: u32, clusters: bool) -> Self {
        Policy::Ffs {
            maxcontig,
            rotdelay,
            clusters,
        }
    }

    /// Returns the policy of this name with its usual parameters: `ffs`; the
    /// configurations of the papers `FFS-m1r2`, `FFS-m8r0`, `FFS-m8r2` (Seltzer et al.
    /// 1995, §2) and `EFS` (Seltzer 1992, §7.1), which place block by block; `fixed`,
    /// `extent`, `buddy`, `restricted`. Extents are of 16 blocks, restricted blocks of
    /// 1, 16 and 256 in regions of 8192.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "ffs" => Policy::default(),
            "ffs-m1r2" => Policy::ffs(1, 2, false),
            "ffs-m8r0" => Policy::ffs(8, 0, false),
            "ffs-m8r2" => Policy::ffs(8, 2, false),
            "efs" => Policy::ffs(256, 0, false),
            "fixed" => Policy::Fixed { shuffled: None },
            "extent" => Policy::Extents {
                fit: Fit::First,
                sizes: vec![16],
            },
            "buddy" => Policy::Buddy,
            "restricted" => Policy::Restricted {
                sizes: vec![1, 16, 256],
                grow: 1,
                region: Some(8192),
            },
            _ => return None,
        })
    }

    /// Returns the name of the policy.
    pub fn name(&self) -> &'static str {
        match self {
            Policy::Ffs { .. } => "ffs",
            Policy::Fixed { .. } => "fixed",
            Policy::Extents { .. } => "extent",
            Policy::Buddy => "buddy",
            Policy::Restricted { .. } => "restricted",
        }
    }

    /// Returns true if the policy allocates fragments; other policies allocate blocks.
    pub fn has_fragments(&self) -> bool {
        matches!(self, Policy::Ffs { .. })
    }

    /// Returns the number of blocks of a file that are placed, and moved, at once.
    pub fn maxcontig(&self) -> u64 {
        match self {
            Policy::Ffs { maxcontig, .. } => u64::from(*maxcontig),
            _ => 256,
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// The first parameter that is refused.
    pub fn check(&self) -> Result<(), PolicyError> {
        let sized = |sizes: &[u32]| {
            let few = (1..=SIZES_MAX).contains(&sizes.len());
            (few && !sizes.contains(&0))
                .then_some(())
                .ok_or_else(|| PolicyError::Sizes(sizes.to_vec()))
        };
        match self {
            Policy::Ffs {
                maxcontig,
                rotdelay,
                ..
            } if *maxcontig == 0 || *rotdelay > 1 << 16 => Err(PolicyError::Gaps {
                maxcontig: *maxcontig,
                rotdelay: *rotdelay,
            }),
            Policy::Extents { sizes, .. } => sized(sizes),
            Policy::Restricted {
                sizes,
                grow,
                region,
            } => {
                sized(sizes)?;
                match sizes[0] {
                    // The volume's size does not matter for the consistency of the
                    // parameters.
                    1 => restricted(0, sizes, *grow, *region).map(drop),
                    smallest => Err(PolicyError::Smallest(smallest)),
                }
            }
            _ => Ok(()),
        }
    }

    /// Creates the map of an empty volume: the heads of groups are taken. `scarce` is
    /// as in [`Placement`].
    ///
    /// # Errors
    /// As [`Policy::check`].
    ///
    /// # Panics
    /// If a policy other than FFS's would have to allocate fragments.
    pub fn build(&self, shape: Shape, scarce: u64) -> Result<Box<dyn Allocator>, PolicyError> {
        self.check()?;
        assert!(
            shape.block == 1 || self.has_fragments(),
            "{self:?}, {shape:?}"
        );
        let units = shape.units;
        let mut map: Box<dyn Allocator> = match self {
            Policy::Ffs {
                maxcontig,
                rotdelay,
                clusters,
            } => {
                let placement = Placement {
                    maxcontig: (*maxcontig).into(),
                    rotdelay: (*rotdelay).into(),
                    clusters: *clusters,
                    scarce,
                };
                return Ok(Box::new(CylinderGroups::new(shape, placement)));
            }
            Policy::Fixed { shuffled } => {
                let order = shuffled.map_or(Order::InOrder, |seed| Order::Aged { seed });
                Box::new(Fixed::new(units, 1, order))
            }
            Policy::Extents { fit, sizes } => {
                let sizes: Vec<u64> = sizes.iter().map(|&size| size.into()).collect();
                Box::new(Extents::new(units, *fit, &sizes))
            }
            Policy::Buddy => Box::new(Buddy::new(units)),
            Policy::Restricted {
                sizes,
                grow,
                region,
            } => Box::new(restricted(units, sizes, *grow, *region)?),
        };
        for start in (0..units).step_by(shape.group as usize) {
            let head = Extent {
                start,
                units: shape.head.min(units - start),
            };
            if head.units > 0 {
                map.occupy(head).expect("nothing has been handed out");
            }
        }
        Ok(map)
    }
}

fn restricted(
    units: u64,
    sizes: &[u32],
    grow: u32,
    region: Option<u32>,
) -> Result<Restricted, PolicyError> {
    let sizes: Vec<u64> = sizes.iter().map(|&size| size.into()).collect();
    let (grow, region) = (Grow(grow.into()), region.map(u64::from));
    Ok(Restricted::new(units, &sizes, grow, region)?)
}

/// Shows the name and the parameters, for people.
impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Policy::Ffs {
                maxcontig,
                rotdelay,
                clusters,
            } => {
                let how = if *clusters {
                    "in clusters"
                } else {
                    "block by block"
                };
                write!(f, "FFS, maxcontig {maxcontig}, rotdelay {rotdelay}, {how}")
            }
            Policy::Fixed { shuffled: None } => write!(f, "fixed blocks, in order"),
            Policy::Fixed {
                shuffled: Some(seed),
            } => write!(f, "fixed blocks, shuffled by {seed}"),
            Policy::Extents { fit, sizes } => {
                let fit = match fit {
                    Fit::First => "first",
                    Fit::Best => "best",
                };
                write!(f, "extents of {sizes:?} blocks, {fit} fit")
            }
            Policy::Buddy => write!(f, "binary buddies"),
            Policy::Restricted {
                sizes,
                grow,
                region,
            } => {
                write!(
                    f,
                    "restricted buddies of {sizes:?} blocks, grow factor {grow}, "
                )?;
                match region {
                    Some(region) => write!(f, "regions of {region} blocks"),
                    None => write!(f, "one region"),
                }
            }
        }
    }
}
