//! The places of all structures on the medium, computed from the superblock's sizes.
//!
//! ```text
//! block 0      superblock
//! block 1      tail record
//! block 2 ..   checkpoint A: a header block, then the map
//!        ..    checkpoint B: the same
//!        ..    the eager space: data blocks and map records, anywhere
//! last block   superblock, again
//! ```

use super::record::{Entry, entries_per_record};
use super::{FormatError, Superblock};

/// Maximum number of places of a medium: an entry has 31 bits for one.
pub const PLACES_MAX: u64 = 1 << 30;

/// Limits on the number of blocks that may be written and not yet committed.
const UNCOMMITTED: std::ops::RangeInclusive<u64> = 8..=4096;

/// The sizes of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Random identifier of the volume.
    pub volume: u64,
    /// Size of a unit, in bytes.
    pub unit_bytes: u32,
    /// Size of a block, in bytes.
    pub block_bytes: u32,
    /// Number of blocks of the medium.
    pub physical_blocks: u64,
    /// Number of blocks offered.
    pub logical_blocks: u64,
    /// True if data may begin at any unit, not only at the beginning of a block.
    pub anywhere: bool,
}

impl Layout {
    /// Returns the layout that a superblock declares.
    ///
    /// # Errors
    /// If its sizes contradict each other.
    pub fn of(superblock: &Superblock) -> Result<Layout, FormatError> {
        let layout = Layout {
            volume: superblock.volume.get(),
            unit_bytes: superblock.unit_bytes.get(),
            block_bytes: superblock.block_bytes.get(),
            physical_blocks: superblock.physical_blocks.get(),
            logical_blocks: superblock.logical_blocks.get(),
            anywhere: superblock.version.get() == super::VERSION_ANYWHERE,
        };
        layout.check()?;
        Ok(layout)
    }

    /// Returns the superblock that declares this layout.
    pub fn superblock(&self) -> Superblock {
        Superblock {
            crc: 0.into(),
            magic: 0.into(),
            version: match self.anywhere {
                true => super::VERSION_ANYWHERE.into(),
                false => super::VERSION.into(),
            },
            unit_bytes: self.unit_bytes.into(),
            block_bytes: self.block_bytes.into(),
            reserved: 0.into(),
            volume: self.volume.into(),
            physical_blocks: self.physical_blocks.into(),
            logical_blocks: self.logical_blocks.into(),
        }
        .seal()
    }

    /// Returns the layout with the most logical blocks, or with the requested number.
    ///
    /// # Errors
    /// If the sizes are impossible or the medium is too small.
    pub fn choose(
        volume: u64,
        unit_bytes: u32,
        block_bytes: u32,
        physical_blocks: u64,
        logical_blocks: Option<u64>,
        anywhere: bool,
    ) -> Result<Layout, FormatError> {
        let layout = |logical_blocks| Layout {
            volume,
            unit_bytes,
            block_bytes,
            physical_blocks,
            logical_blocks,
            anywhere,
        };
        if let Some(asked) = logical_blocks {
            layout(asked).check()?;
            return Ok(layout(asked));
        }
        // The space needed grows with the number offered; this finds the largest that
        // fits.
        let (mut fits, mut too_many) = (1, physical_blocks.max(2));
        layout(fits).check()?;
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            match layout(middle).check() {
                Ok(()) => fits = middle,
                Err(_) => too_many = middle,
            }
        }
        Ok(layout(fits))
    }

    fn check(&self) -> Result<(), FormatError> {
        let Layout {
            unit_bytes,
            block_bytes,
            physical_blocks,
            logical_blocks,
            ..
        } = *self;
        let shapes = unit_bytes.is_power_of_two()
            && (512..=65_536).contains(&unit_bytes)
            && block_bytes.is_power_of_two()
            && block_bytes >= unit_bytes
            && block_bytes / unit_bytes <= 8;
        if !shapes {
            return Err(FormatError::Field(format!(
                "blocks of {block_bytes} bytes in units of {unit_bytes}; a block has 1, 2, 4 or 8 \
                 units of 512 to 65536 bytes"
            )));
        }
        if self.anywhere && self.units_per_block() == 1 {
            return Err(FormatError::Field(format!(
                "data anywhere, in blocks of {block_bytes} bytes on physical blocks as large: it can \
                 begin nowhere else; take larger blocks"
            )));
        }
        let most = PLACES_MAX / u64::from(self.places_per_block());
        if physical_blocks > most || logical_blocks == 0 || logical_blocks > physical_blocks {
            return Err(FormatError::Field(format!(
                "{logical_blocks} blocks offered on {physical_blocks}; at most {most}"
            )));
        }
        let need = self.needed_blocks();
        if need > physical_blocks {
            return Err(FormatError::Field(format!(
                "{logical_blocks} logical blocks need {need} blocks, the medium has {physical_blocks}"
            )));
        }
        Ok(())
    }

    /// Returns the number of blocks without which a full volume could no longer be
    /// written.
    fn needed_blocks(&self) -> u64 {
        // In the worst case every map record has broken a block of its own: one live
        // record for each piece, one that is kept because other records depend on it,
        // and one that is being written.
        self.eager_start()
            + 1
            + self.logical_blocks
            + 3 * self.pieces()
            + self.uncommitted_max()
            + 2
    }

    /// Returns the number of blocks that may be written before a commit is due.
    pub fn uncommitted_max(&self) -> u64 {
        (self.physical_blocks / 64).clamp(*UNCOMMITTED.start(), *UNCOMMITTED.end())
    }

    /// Returns how many data blocks may begin inside of a block of the medium while
    /// `mapped` logical blocks have places. Each of them may break one block more than
    /// an aligned one, and all other logical blocks must still find space.
    pub fn astride_max(&self, mapped: u64) -> u64 {
        let spare = self.physical_blocks - self.needed_blocks();
        match self.anywhere {
            true => spare + self.logical_blocks.saturating_sub(mapped),
            false => 0,
        }
    }

    /// Returns the number of places in a block: of units where data may begin.
    pub fn places_per_block(&self) -> u32 {
        match self.anywhere {
            true => self.units_per_block(),
            false => 1,
        }
    }

    /// Returns the number of places of the medium.
    pub fn places(&self) -> u64 {
        self.physical_blocks * u64::from(self.places_per_block())
    }

    /// Returns the first unit of a place.
    pub fn place_unit(&self, place: u32) -> u64 {
        let units = self.units_per_block() / self.places_per_block();
        u64::from(place) * u64::from(units)
    }

    /// Returns the place that begins at a unit, which must be the beginning of one.
    pub fn place_at(&self, unit: u64) -> u32 {
        let units = self.units_per_block() / self.places_per_block();
        (unit / u64::from(units)) as u32
    }

    /// Returns the byte address of a place.
    pub fn place_byte(&self, place: u32) -> u64 {
        self.unit_byte(self.place_unit(place))
    }

    /// Returns true if the data of a block at this place extends over two blocks of the
    /// medium.
    pub fn is_astride(&self, place: u32) -> bool {
        !place.is_multiple_of(self.places_per_block())
    }

    /// Returns true if data may be stored at this place.
    pub fn is_data_place(&self, place: u32) -> bool {
        let each = u64::from(self.places_per_block());
        let last = u64::from(place) + each - 1;
        self.is_eager(u64::from(place) / each) && self.is_eager(last / each)
    }

    /// Returns the number of units in a block.
    pub fn units_per_block(&self) -> u32 {
        self.block_bytes / self.unit_bytes
    }

    /// Returns the number of units of the medium.
    pub fn units(&self) -> u64 {
        self.physical_blocks * u64::from(self.units_per_block())
    }

    /// Returns the number of entries in a whole piece of the map.
    pub fn piece_entries(&self) -> u32 {
        entries_per_record(self.unit_bytes)
    }

    /// Returns the number of pieces of the map.
    pub fn pieces(&self) -> u64 {
        self.logical_blocks
            .div_ceil(u64::from(self.piece_entries()))
    }

    /// Returns the number of entries of one piece; the last one is shorter.
    pub fn entries_of(&self, piece: u32) -> usize {
        let each = u64::from(self.piece_entries());
        let before = u64::from(piece) * each;
        self.logical_blocks.saturating_sub(before).min(each) as usize
    }

    /// Returns the block of the tail record.
    pub fn tail_block(&self) -> u64 {
        1
    }

    /// Returns the first block, the header's, of checkpoint region 0 or 1.
    pub fn checkpoint_block(&self, region: usize) -> u64 {
        2 + region as u64 * (1 + self.checkpoint_blocks())
    }

    /// Returns the number of blocks of a checkpoint's map.
    pub fn checkpoint_blocks(&self) -> u64 {
        let bytes = self.logical_blocks * Entry::BYTES as u64;
        bytes.div_ceil(u64::from(self.block_bytes))
    }

    /// Returns the block of the second superblock.
    pub fn last_block(&self) -> u64 {
        self.physical_blocks - 1
    }

    /// Returns the first block of the eager space.
    pub fn eager_start(&self) -> u64 {
        self.checkpoint_block(2)
    }

    /// Returns true if data and map records may be stored in this block.
    pub fn is_eager(&self, block: u64) -> bool {
        (self.eager_start()..self.last_block()).contains(&block)
    }

    /// Returns the byte address of a block.
    pub fn block_byte(&self, block: u64) -> u64 {
        block * u64::from(self.block_bytes)
    }

    /// Returns the byte address of a unit.
    pub fn unit_byte(&self, unit: u64) -> u64 {
        unit * u64::from(self.unit_bytes)
    }
}
