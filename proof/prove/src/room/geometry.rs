//! A volume of the model, and the kinds of its slots.

/// Slot of the usage table.
pub(super) const TABLE: usize = 0;
/// Slot of the image of the directory, inode 0.
pub(super) const DIRECTORY: usize = 1;
/// Slot of the first block of the inode map.
pub(super) const MAPS: usize = 2;

/// A volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Number of segments, less than 255.
    pub segments: usize,
    /// Slots per segment.
    pub slots: usize,
    /// Inode numbers per block of the map; at most 128 blocks.
    pub per_map: usize,
    /// Names per block of the directory; at most 128 blocks.
    pub per_directory: usize,
    /// Largest number of files.
    pub files: usize,
    /// Slots of the largest file: 1 or 2.
    pub largest: u8,
}

impl Geometry {
    pub(super) fn maps(&self) -> usize {
        (self.files + 1).div_ceil(self.per_map)
    }

    pub(super) fn directories(&self) -> usize {
        self.files.div_ceil(self.per_directory)
    }

    /// Returns the block of the map that contains file `file`.
    pub fn map_of(&self, file: usize) -> usize {
        (file + 1) / self.per_map
    }

    /// Returns the block of the directory that contains its name.
    pub fn directory_of(&self, file: usize) -> usize {
        file / self.per_directory
    }

    pub(super) fn first_directory(&self) -> usize {
        MAPS + self.maps()
    }

    pub(super) fn first_file(&self) -> usize {
        self.first_directory() + self.directories()
    }

    pub(super) fn first_of(&self, file: usize) -> usize {
        self.first_file() + 2 * file
    }

    /// Returns the kind of a slot.
    pub(super) fn kind(&self, slot: usize) -> Kind {
        if slot == TABLE {
            Kind::Table
        } else if (MAPS..self.first_directory()).contains(&slot) {
            Kind::Map(slot - MAPS)
        } else if slot < self.first_file() {
            Kind::Moved(0)
        } else {
            Kind::Moved(self.map_of((slot - self.first_file()) / 2))
        }
    }

    /// Returns the name of a slot in a picture.
    pub(super) fn name(&self, slot: usize) -> String {
        let (first, files) = (self.first_directory(), self.first_file());
        match slot {
            TABLE => "T".to_owned(),
            DIRECTORY => "D".to_owned(),
            map if map < first => format!("m{}", map - MAPS),
            block if block < files => format!("d{}", block - first),
            file => format!("{}", (file - files) / 2),
        }
    }
}

/// Kind of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    Map(usize),
    /// A slot that the cleaner copies, which changes this block of the map.
    Moved(usize),
}
