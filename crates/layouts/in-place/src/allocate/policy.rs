//! Which policy a volume has, with its parameters, and the map that it makes.

use super::{
    Allocator, Buddy, CylinderGroups, Extent, Extents, Fit, Fixed, Grow, Order, Placement,
    Restricted, RestrictedError, Shape,
};

/// Sizes that a policy can have.
pub const SIZES_MAX: usize = 8;

/// See the module's head. Sizes are in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Blocks and fragments in cylinder groups.
    Ffs {
        /// Blocks of a file that lie behind each other before a gap.
        maxcontig: u32,
        /// Blocks of the gap.
        rotdelay: u32,
        /// Blocks that come together are put together, as later FFSs do by
        /// reallocating.
        clusters: bool,
    },
    /// Single blocks.
    Fixed {
        /// The seed of a free list that years have shuffled; otherwise in order.
        shuffled: Option<u64>,
    },
    /// Extents of the file's own size.
    Extents {
        /// Which free run.
        fit: Fit,
        /// Means from which a file gets its size.
        sizes: Vec<u32>,
    },
    /// Binary buddies.
    Buddy,
    /// Restricted buddies.
    Restricted {
        /// Of blocks, rising, each a multiple of the one before; the first is 1.
        sizes: Vec<u32>,
        /// How many times a larger block a file's smaller ones must be.
        grow: u32,
        /// A bookkeeping region; one of the whole volume if there is none.
        region: Option<u32>,
    },
}

/// Parameters that make no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There is no such policy in this program.
    #[error("allocation policy {0}, which this program does not have")]
    Unknown(u8),
    /// Too few sizes, too many, or impossible ones.
    #[error("sizes of {0:?} blocks: there must be 1 to 8, none of 0")]
    Sizes(Vec<u32>),
    /// A superblock with more sizes than it has room for.
    #[error("{0} sizes: there are 8 at most")]
    Count(u8),
    /// A layout promises single blocks.
    #[error("restricted buddies whose smallest block is {0} of the layout's")]
    Smallest(u32),
    /// Only FFS's own has fragments.
    #[error("fragments smaller than a block, which only FFS's own policy hands out")]
    Fragments,
    /// See there.
    #[error(transparent)]
    Restricted(#[from] RestrictedError),
    /// The gaps of FFS.
    #[error("maxcontig {maxcontig}, rotdelay {rotdelay}")]
    Gaps {
        /// At least 1.
        maxcontig: u32,
        /// At most 65,536.
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

    /// A policy with its usual parameters: `ffs`; the configurations of the papers
    /// `FFS-m1r2`, `FFS-m8r0`, `FFS-m8r2` (Seltzer et al. 1995, §2) and `EFS`
    /// (Seltzer 1992, §7.1), which place block by block; `fixed`, `extent`,
    /// `buddy`, `restricted`. Extents are of 16 blocks, restricted blocks of 1, 16
    /// and 256 in regions of 8192.
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

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Policy::Ffs { .. } => "ffs",
            Policy::Fixed { .. } => "fixed",
            Policy::Extents { .. } => "extent",
            Policy::Buddy => "buddy",
            Policy::Restricted { .. } => "restricted",
        }
    }

    /// It hands out fragments; all others blocks.
    pub fn has_fragments(&self) -> bool {
        matches!(self, Policy::Ffs { .. })
    }

    /// Blocks of a file that are placed, and moved, at once.
    pub fn maxcontig(&self) -> u64 {
        match self {
            Policy::Ffs { maxcontig, .. } => u64::from(*maxcontig),
            _ => 256,
        }
    }

    /// Refuses parameters that make no policy.
    ///
    /// # Errors
    /// See [`PolicyError`].
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
                    // Whether they fit each other does not depend on the volume.
                    1 => restricted(0, sizes, *grow, *region).map(drop),
                    smallest => Err(PolicyError::Smallest(smallest)),
                }
            }
            _ => Ok(()),
        }
    }

    /// The map of an empty volume: the heads of groups are taken. `scarce` as in
    /// [`Placement`].
    ///
    /// # Errors
    /// See [`Policy::check`].
    ///
    /// # Panics
    /// If a policy other than FFS's is to hand out fragments.
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

/// For people: the name and what it was made with.
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
