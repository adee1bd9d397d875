//! A volume's allocation policy in its superblock: the last 64 bytes. All zeros,
//! together with `maxcontig` and `rotdelay`, are FFS's own policy with clusters.

use super::Superblock;
use crate::allocate::{self, Fit, Policy, PolicyError, SIZES_MAX};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The stored form of a policy.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DiskPolicy {
    /// 0 FFS, 1 fixed blocks, 2 extents, 3 binary buddies, 4 restricted buddies.
    kind: u8,
    /// Bit 0: FFS places block by block; fixed blocks are shuffled; best fit.
    options: u8,
    /// Number of sizes.
    sizes: u8,
    /// Unused, zero.
    padding: u8,
    /// Factor of growth.
    grow: U32,
    /// Size of a region, in blocks; 0 for one region.
    region: U32,
    /// The sizes, in blocks.
    size: [U32; SIZES_MAX],
    /// Seed of the shuffled list.
    seed: U64,
    /// Unused, zero.
    spare: [u8; 12],
}
const _: () = assert!(size_of::<DiskPolicy>() == 64);
// FFS's policy changes the group where the pointers of this format become indirect.
const _: () = assert!(allocate::DIRECT == super::DIRECT as u64);

impl Superblock {
    /// Returns the superblock with this policy, which must be valid
    /// ([`Policy::check`]).
    pub fn with_policy(mut self, policy: &Policy) -> Self {
        let mut disk = DiskPolicy::default();
        let mut put = |sizes: &[u32]| {
            disk.sizes = sizes.len() as u8;
            for (slot, &size) in disk.size.iter_mut().zip(sizes) {
                *slot = size.into();
            }
        };
        (self.maxcontig, self.rotdelay) = (256.into(), 0.into());
        (disk.kind, disk.options) = match policy {
            Policy::Ffs {
                maxcontig,
                rotdelay,
                clusters,
            } => {
                (self.maxcontig, self.rotdelay) = ((*maxcontig).into(), (*rotdelay).into());
                (0, u8::from(!clusters))
            }
            Policy::Fixed { shuffled } => {
                disk.seed = shuffled.unwrap_or(0).into();
                (1, u8::from(shuffled.is_some()))
            }
            Policy::Extents { fit, sizes } => {
                put(sizes);
                (2, u8::from(*fit == Fit::Best))
            }
            Policy::Buddy => (3, 0),
            Policy::Restricted {
                sizes,
                grow,
                region,
            } => {
                put(sizes);
                (disk.grow, disk.region) = ((*grow).into(), region.unwrap_or(0).into());
                (4, 0)
            }
        };
        self.policy = disk;
        self
    }

    /// Returns the policy.
    ///
    /// # Errors
    /// The parameters are invalid.
    pub fn policy(&self) -> Result<Policy, PolicyError> {
        let disk = &self.policy;
        let option = disk.options & 1 != 0;
        let sizes = || -> Result<Vec<u32>, PolicyError> {
            let sizes = disk.size.get(..usize::from(disk.sizes));
            let sizes = sizes.ok_or(PolicyError::Count(disk.sizes))?;
            Ok(sizes.iter().map(|size| size.get()).collect())
        };
        let policy = match disk.kind {
            0 => Policy::Ffs {
                maxcontig: self.maxcontig.get(),
                rotdelay: self.rotdelay.get(),
                clusters: !option,
            },
            1 => Policy::Fixed {
                shuffled: option.then_some(disk.seed.get()),
            },
            2 => Policy::Extents {
                fit: if option { Fit::Best } else { Fit::First },
                sizes: sizes()?,
            },
            3 => Policy::Buddy,
            4 => Policy::Restricted {
                sizes: sizes()?,
                grow: disk.grow.get(),
                region: Some(disk.region.get()).filter(|region| *region > 0),
            },
            kind => return Err(PolicyError::Unknown(kind)),
        };
        policy.check()?;
        match policy.has_fragments() || self.fragment_bytes == self.block_bytes {
            true => Ok(policy),
            false => Err(PolicyError::Fragments),
        }
    }
}
