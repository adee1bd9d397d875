//! A file system without content: FFS's own allocator, and which file has what.
//!
//! Directories go to the group with the fewest of them among those with no more
//! files than the average, files to their directory's. A tail that grows does so
//! in place, or moves. Inodes and names take no room; a directory takes a fragment.

use crate::error::LabError;
use std::collections::HashMap;
use varve_ffs::FreeMap;
use varve_ffs::allocate::{Allocator, CylinderGroups, Extent, FileView, Placement, Shape};

/// How the file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Make {
    /// Bytes in a block.
    pub block_bytes: u64,
    /// Bytes in a fragment, an eighth of a block at least.
    pub fragment_bytes: u64,
    /// Blocks of data in a cylinder group.
    pub group_blocks: u64,
    /// Cylinder groups.
    pub groups: u64,
    /// Blocks of a file behind each other.
    pub maxcontig: u64,
    /// Blocks that come together are put together.
    pub clusters: bool,
}

impl Make {
    /// Bytes of data.
    pub fn bytes(&self) -> u64 {
        self.groups * self.group_blocks * self.block_bytes
    }
}

/// Where files that were made lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Files of two blocks.
    pub pairs: u64,
    /// Those whose second follows the first.
    pub pairs_joined: u64,
    /// Blocks of files of 256 KB but the first.
    pub large: u64,
    /// Those that follow the one before.
    pub large_joined: u64,
}

struct File {
    directory: usize,
    units: u64,
    extents: Vec<Extent>,
}

#[derive(Clone, Copy)]
struct Group {
    directories: u64,
    files: u64,
}

/// See the module's head.
pub struct Volume {
    make: Make,
    map: CylinderGroups,
    groups: Vec<Group>,
    /// The group of each directory.
    directories: Vec<usize>,
    files: HashMap<u64, File>,
    next: u64,
    score: Score,
    operations: u64,
    refused: u64,
    written: u64,
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Volume {
    /// An empty one.
    ///
    /// # Errors
    /// Blocks and fragments do not fit each other.
    pub fn new(make: Make) -> Result<Self, LabError> {
        let Make {
            block_bytes,
            fragment_bytes,
            ..
        } = make;
        let block = block_bytes / fragment_bytes.max(1);
        if ![1, 2, 4, 8].contains(&block) || block * fragment_bytes != block_bytes {
            let text = format!("blocks of {block_bytes} bytes in fragments of {fragment_bytes}");
            return Err(LabError::System(text));
        }
        let group = make.group_blocks.max(1) * block;
        let shape = Shape {
            units: group * make.groups.max(1),
            block,
            group,
            head: 0,
        };
        let placement = Placement {
            maxcontig: make.maxcontig.max(1),
            rotdelay: 0,
            clusters: make.clusters,
            scarce: 0,
        };
        Ok(Volume {
            make,
            map: CylinderGroups::new(shape, placement),
            groups: vec![
                Group {
                    directories: 0,
                    files: 0,
                };
                make.groups.max(1) as usize
            ],
            directories: Vec::new(),
            files: HashMap::new(),
            next: 0,
            score: Score::default(),
            operations: 0,
            refused: 0,
            written: 0,
        })
    }

    /// A new directory.
    pub fn mkdir(&mut self) -> usize {
        let average = self.files.len() as u64 / self.groups.len() as u64;
        let groups = self.groups.iter().enumerate();
        let candidates = groups.filter(|(_, group)| group.files <= average);
        let least = candidates.min_by_key(|(_, group)| group.directories);
        let group = least.map_or(0, |(at, _)| at);
        self.groups[group].directories += 1;
        let file = FileView {
            home: self.home(group),
            ..FileView::default()
        };
        // It may be without, on a volume that is full.
        let _ = self.map.extend(&file, 1, &mut Vec::new());
        self.directories.push(group);
        self.directories.len() - 1
    }

    /// How many directories there are.
    pub fn directories(&self) -> usize {
        self.directories.len()
    }

    fn home(&self, group: usize) -> u64 {
        group as u64 * self.make.group_blocks * self.block()
    }

    fn block(&self) -> u64 {
        self.make.block_bytes / self.make.fragment_bytes
    }

    fn units(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.make.fragment_bytes)
    }

    /// A new file of so many bytes; its number.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn create(&mut self, directory: usize, bytes: u64) -> Result<u64, Full> {
        self.operations += 1;
        let group = self.directories[directory];
        let units = self.units(bytes);
        let view = FileView {
            home: self.home(group),
            ..FileView::default()
        };
        let mut extents = Vec::new();
        if self.map.extend(&view, units, &mut extents).is_err() {
            self.refused += 1;
            return Err(Full);
        }
        self.count(units, &extents);
        self.written += bytes;
        let file = File {
            directory,
            units,
            extents,
        };
        self.groups[group].files += 1;
        self.next += 1;
        self.files.insert(self.next, file);
        Ok(self.next)
    }

    /// Notes where a new file lies.
    fn count(&mut self, units: u64, extents: &[Extent]) {
        let block = self.block();
        let blocks = units.div_ceil(block);
        let large = (256 << 10) / self.make.block_bytes;
        if blocks != 2 && blocks != large {
            return;
        }
        // A block is where its first fragment is: extents are of whole ones, but for
        // the tail at the end of the last.
        let joined = blocks - extents.len() as u64;
        let score = &mut self.score;
        match blocks == 2 {
            true => {
                (score.pairs, score.pairs_joined) = (score.pairs + 1, score.pairs_joined + joined)
            }
            false => {
                score.large += blocks - 1;
                score.large_joined += joined;
            }
        }
    }

    /// A file grows by so many bytes.
    ///
    /// # Errors
    /// There is no room for them: it is as it was.
    pub fn grow(&mut self, number: u64, bytes: u64) -> Result<(), Full> {
        self.operations += 1;
        let more = self.units(bytes);
        let (block, groups) = (self.block(), &self.directories);
        let Some(file) = self.files.get_mut(&number) else {
            return Ok(());
        };
        let end = file.extents.last().map_or(0, |last| last.end());
        let tail = Extent {
            start: end - file.units % block,
            units: file.units % block,
        };
        let lacks = tail.lacks((tail.units + more).min(block), block);
        let here = lacks.filter(|here| tail.units > 0 && self.map.occupy(*here).is_ok());
        // A tail that cannot grow where it is moves with what is new.
        let (gone, grown) = match here {
            Some(here) => (0, here.units),
            None => (tail.units, 0),
        };
        let held = file.units - gone + grown;
        let view = FileView {
            held,
            end: (held > 0).then_some(end - gone + grown),
            home: groups[file.directory] as u64 * self.make.group_blocks * block,
            ..FileView::default()
        };
        let wanted = more - grown + gone;
        let mut extents = Vec::new();
        if wanted > 0 && self.map.extend(&view, wanted, &mut extents).is_err() {
            if let Some(here) = here {
                self.map.release(here).expect("it was taken just now");
            }
            self.refused += 1;
            return Err(Full);
        }
        if gone > 0 {
            self.map.release(tail).expect("it is the file's");
        }
        if let Some(last) = file.extents.last_mut() {
            last.units = last.units - gone + grown;
        }
        file.extents.retain(|extent| extent.units > 0);
        file.extents.extend(extents);
        file.units += more;
        self.written += bytes;
        Ok(())
    }

    /// A file is gone. Nothing happens if it is already.
    pub fn remove(&mut self, number: u64) {
        let Some(file) = self.files.remove(&number) else {
            return;
        };
        self.operations += 1;
        self.groups[self.directories[file.directory]].files -= 1;
        for extent in file.extents {
            self.map.release(extent).expect("it was the file's");
        }
    }

    /// Bytes of a file, in whole fragments; 0 if there is none.
    #[cfg(test)]
    pub fn bytes_of(&self, number: u64) -> u64 {
        let file = self.files.get(&number);
        file.map_or(0, |file| file.units * self.make.fragment_bytes)
    }

    /// Files there are.
    pub fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// Share of the room that is in use.
    pub fn utilisation(&self) -> f64 {
        1.0 - self.map.free_units() as f64 / self.map.capacity() as f64
    }

    /// Share of the free room that is in whole blocks.
    pub fn free_in_blocks(&self) -> f64 {
        self.map.free_in_blocks() as f64 / self.map.free_units().max(1) as f64
    }

    /// Bytes of room.
    pub fn bytes(&self) -> u64 {
        self.make.bytes()
    }

    /// Bytes that files were made or lengthened by.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Creations, growths and removals.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Of them, those that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Where files lie that have been made since this was asked for.
    pub fn take_score(&mut self) -> Score {
        std::mem::take(&mut self.score)
    }

    /// What is free.
    pub fn map(&self) -> FreeMap {
        let unit = self.make.fragment_bytes;
        let group = self.make.group_blocks * self.block();
        let mut groups = vec![Vec::new(); self.groups.len()];
        for run in self.map.free_runs() {
            let (mut at, end) = (run.start, run.end());
            while at < end {
                let nth = at / group;
                let stop = end.min((nth + 1) * group);
                let first = nth * group;
                groups[nth as usize].push((at - first) * unit..(stop - first) * unit);
                at = stop;
            }
        }
        let map = FreeMap::new(self.make.block_bytes as u32, group * unit, groups);
        map.expect("the allocator's runs rise")
    }
}
