//! Ageing: a map of the free space that years of use leave, and a volume with exactly
//! this space free (Seltzer et al. 1995, §5.3).
//!
//! A file takes all other space, so that such a volume is otherwise ordinary. Removing
//! the file makes the volume young again.

use crate::Ffs;
use crate::allocate::Extent;
use crate::error::{Error, Result};
use crate::format::{Geometry, Slot, Superblock, is_block};
use crate::store::Sectors;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use varve_fs::{Cause, Group, InodeNo, Item, Usage};

/// Number of blocks that one group gives to the file.
const BLOCKS_AT_ONCE: u64 = 256;

/// The free ranges of each cylinder group, in bytes from the beginning of its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct FreeMap {
    block_bytes: u32,
    group_bytes: u64,
    groups: Vec<Vec<Range<u64>>>,
}

/// The map as it is stored in a file; a run is its beginning and its length.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stored {
    format: String,
    version: u32,
    block_bytes: u32,
    /// Bytes of data in a group, the same in each.
    group_bytes: u64,
    groups: Vec<Vec<(u64, u64)>>,
}

const FORMAT: &str = "varve free map";
const VERSION: u32 = 1;
/// Limits on the number of groups, and on the bytes in all of them.
const GROUPS_MAX: usize = 1 << 16;
const BYTES_MAX: u64 = 1 << 48;

impl From<FreeMap> for Stored {
    fn from(map: FreeMap) -> Self {
        let runs =
            |runs: &Vec<Range<u64>>| runs.iter().map(|r| (r.start, r.end - r.start)).collect();
        Stored {
            format: FORMAT.into(),
            version: VERSION,
            block_bytes: map.block_bytes,
            group_bytes: map.group_bytes,
            groups: map.groups.iter().map(runs).collect(),
        }
    }
}

impl TryFrom<Stored> for FreeMap {
    type Error = String;

    fn try_from(stored: Stored) -> std::result::Result<Self, String> {
        if stored.format != FORMAT || stored.version != VERSION {
            return Err(format!(
                "no {FORMAT} of version {VERSION}, but {:?}, {}",
                stored.format, stored.version
            ));
        }
        let range = |(start, length): (u64, u64)| start..start.saturating_add(length);
        let ranges = |runs: Vec<(u64, u64)>| runs.into_iter().map(range).collect();
        FreeMap::new(
            stored.block_bytes,
            stored.group_bytes,
            stored.groups.into_iter().map(ranges).collect(),
        )
    }
}

impl FreeMap {
    /// Creates a map from the free ranges of each cylinder group, ascending. Each group
    /// has `group_bytes` bytes of data. `block_bytes` is the block size of the original
    /// file system.
    ///
    /// # Errors
    /// A message about the value that is impossible.
    pub fn new(
        block_bytes: u32,
        group_bytes: u64,
        groups: Vec<Vec<Range<u64>>>,
    ) -> std::result::Result<Self, String> {
        if !is_block(block_bytes) {
            return Err(format!("blocks of {block_bytes} bytes"));
        }
        let whole = group_bytes > 0 && group_bytes.is_multiple_of(block_bytes.into());
        let bytes = group_bytes.saturating_mul(groups.len() as u64);
        if groups.is_empty() || groups.len() > GROUPS_MAX || !whole || bytes > BYTES_MAX {
            let groups = groups.len();
            return Err(format!("{groups} cylinder groups of {group_bytes} bytes"));
        }
        for (nth, runs) in groups.iter().enumerate() {
            let mut end = 0;
            for run in runs {
                if run.start < end || run.end <= run.start || run.end > group_bytes {
                    return Err(format!("cylinder group {nth}: bytes {run:?} are free"));
                }
                end = run.end;
            }
        }
        Ok(FreeMap {
            block_bytes,
            group_bytes,
            groups,
        })
    }

    /// Returns the block size of the original file system, in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Returns the number of bytes of data in a group.
    pub fn group_bytes(&self) -> u64 {
        self.group_bytes
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Returns the number of bytes of data in all groups.
    pub fn bytes(&self) -> u64 {
        self.groups() * self.group_bytes
    }

    /// Returns the number of bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        let runs = self.groups.iter().flatten();
        runs.map(|run| run.end - run.start).sum()
    }

    /// Checks that a volume with this superblock can be aged by the map.
    ///
    /// # Errors
    /// `Unfit` if its policy is not FFS's, or if it has fewer or smaller groups.
    pub fn fits(&self, superblock: &Superblock) -> Result<()> {
        self.on(superblock).map(drop)
    }

    /// Returns the fragments of the volume that are free according to the map.
    fn on(&self, superblock: &Superblock) -> Result<Vec<Extent>> {
        if !superblock.policy()?.has_fragments() {
            return Err(Error::Unfit("a free map is for FFS's own policy".into()));
        }
        let geometry = Geometry::of(superblock);
        let unit = u64::from(geometry.fragment_bytes);
        let mut free = Vec::new();
        if geometry.groups() < self.groups() {
            return Err(Error::Unfit(format!(
                "the map is of {} cylinder groups, the volume has {}",
                self.groups(),
                geometry.groups()
            )));
        }
        for (group, runs) in (0..).zip(&self.groups) {
            let data = geometry.data_fragments(group);
            if (data.end - data.start) * unit < self.group_bytes {
                return Err(Error::Unfit(format!(
                    "cylinder group {group} has {} bytes for data, that of the map {}",
                    (data.end - data.start) * unit,
                    self.group_bytes
                )));
            }
            for run in runs {
                // Only fragments that are entirely free count.
                let (first, end) = (run.start.div_ceil(unit), run.end / unit);
                if first < end {
                    free.push((data.start + first..data.start + end).into());
                }
            }
        }
        Ok(free)
    }
}

/// Returns the units of a run, one by one.
fn singly(run: Extent) -> impl Iterator<Item = Extent> {
    (run.start..run.end()).map(|start| Extent { start, units: 1 })
}

impl Ffs {
    /// Gives a file all space that is not free on the map; other files keep their
    /// space. The file must be empty, and the volume must not be mounted as a file
    /// system.
    ///
    /// # Errors
    /// `Unfit` if the map does not fit ([`FreeMap::fits`]), and the errors of an
    /// append.
    pub fn age(&self, ino: InodeNo, map: &FreeMap) -> Result<()> {
        let free = map.on(&self.superblock)?;
        self.writable()?;
        // The space that is to stay free is withheld while the file takes the rest.
        let withheld: Vec<Extent> = {
            let mut writer = self.writer.lock();
            let mut withhold = |extent: &Extent| writer.room.withhold(*extent);
            let each = |run: Extent| match withhold(&run) {
                true => vec![run],
                // The root directory may have a part of it.
                false => singly(run).filter(&mut withhold).collect(),
            };
            free.into_iter().flat_map(each).collect()
        };
        let filled = self.fill(ino);
        let mut writer = self.writer.lock();
        withheld
            .into_iter()
            .for_each(|extent| writer.room.free(extent));
        filled
    }

    fn fill(&self, ino: InodeNo) -> Result<()> {
        // An upper bound of the journal space that a step needs.
        let priced = Group {
            items: vec![Item::Reserved {
                ino,
                version: 0,
                from_block: 0,
                to_block: BLOCKS_AT_ONCE,
            }],
            usage: Usage::default(),
            cause: Cause::WriteBack,
        };
        let price = self.prices.of_group(&priced);
        let mut full = false;
        while !full {
            self.append_own(price, |planner, mut usage| {
                let Slot::Used(mut image) = planner.stage.slot(ino)? else {
                    return Err(Error::NoInode(ino));
                };
                let (blocks, sectors) = planner.fill(&mut image, BLOCKS_AT_ONCE)?;
                full = blocks < BLOCKS_AT_ONCE;
                usage.blocks += blocks;
                usage.sectors += sectors;
                Ok(usage)
            })?;
        }
        let position = self.writer.lock().appended;
        self.commit_through(position)
    }
}

#[cfg(test)]
mod tests;
