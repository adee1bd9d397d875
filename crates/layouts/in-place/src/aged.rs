//! Room as years of use leave it: a map of what is free, and a volume on which no
//! more than that is (Seltzer et al. 1995, §5.3).
//!
//! A file takes everything else, so that such a volume is like any other, and
//! removing the file makes it young.

use crate::Ffs;
use crate::allocate::Extent;
use crate::error::{Error, Result};
use crate::format::{Geometry, Slot, Superblock, is_block};
use crate::store::Sectors;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use varve_fs::{Cause, Group, InodeNo, Item, Usage};

/// Blocks that are given to the file by one group.
const BLOCKS_AT_ONCE: u64 = 256;

/// What is free in each cylinder group, in bytes from the beginning of its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct FreeMap {
    block_bytes: u32,
    group_bytes: u64,
    groups: Vec<Vec<Range<u64>>>,
}

/// As in a file: runs are first and length.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stored {
    format: String,
    version: u32,
    block_bytes: u32,
    /// Of data, the same in each group.
    group_bytes: u64,
    groups: Vec<Vec<(u64, u64)>>,
}

const FORMAT: &str = "varve free map";
const VERSION: u32 = 1;
/// Groups, and bytes in all of them, at most: no volume has more.
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
    /// Of cylinder groups with so many bytes of data each, and the ranges that are
    /// free in each, rising. The block size is that of the file system that was.
    ///
    /// # Errors
    /// Says what is impossible.
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

    /// Bytes in a block of the file system that was.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Bytes of data in a group.
    pub fn group_bytes(&self) -> u64 {
        self.group_bytes
    }

    /// How many groups there are.
    pub fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Bytes of data in all groups.
    pub fn bytes(&self) -> u64 {
        self.groups() * self.group_bytes
    }

    /// Bytes of them that are free.
    pub fn free_bytes(&self) -> u64 {
        let runs = self.groups.iter().flatten();
        runs.map(|run| run.end - run.start).sum()
    }

    /// Whether a volume with this superblock can be aged by it.
    ///
    /// # Errors
    /// `Unfit` if its policy is not FFS's, or it has fewer or smaller groups.
    pub fn fits(&self, superblock: &Superblock) -> Result<()> {
        self.on(superblock).map(drop)
    }

    /// The fragments that are free on it then.
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
                // Only what is free altogether.
                let (first, end) = (run.start.div_ceil(unit), run.end / unit);
                if first < end {
                    free.push((data.start + first..data.start + end).into());
                }
            }
        }
        Ok(free)
    }
}

/// Its units, one by one.
fn singly(run: Extent) -> impl Iterator<Item = Extent> {
    (run.start..run.end()).map(|start| Extent { start, units: 1 })
}

impl Ffs {
    /// Gives a file all room but what is free on the map; others keep what they have.
    /// The file must be empty, and nobody may have the volume mounted as a file system.
    ///
    /// # Errors
    /// `Unfit` if the map does not fit ([`FreeMap::fits`]); those of an append.
    pub fn age(&self, ino: InodeNo, map: &FreeMap) -> Result<()> {
        let free = map.on(&self.superblock)?;
        self.writable()?;
        // What is to stay free is taken away while the file takes what there is.
        let withheld: Vec<Extent> = {
            let mut writer = self.writer.lock();
            let mut withhold = |extent: &Extent| writer.room.withhold(*extent);
            let each = |run: Extent| match withhold(&run) {
                true => vec![run],
                // The root directory may have some of it.
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
        // What a step takes of the journal at most.
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
