//! What is where on the medium, from the superblock's measures.
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

/// Places of the largest medium: an entry has 31 bits for one.
pub const PLACES_MAX: u64 = 1 << 30;

/// Blocks that may be written and not committed yet.
const UNCOMMITTED: std::ops::RangeInclusive<u64> = 8..=4096;

/// The measures of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Tells the volume from others.
    pub volume: u64,
    /// Bytes in a unit.
    pub unit_bytes: u32,
    /// Bytes in a block.
    pub block_bytes: u32,
    /// Blocks of the medium.
    pub physical_blocks: u64,
    /// Blocks offered.
    pub logical_blocks: u64,
    /// Data may begin at any unit, not only where a block does.
    pub anywhere: bool,
}

impl Layout {
    /// The layout that a superblock declares.
    ///
    /// # Errors
    /// When its measures contradict each other.
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

    /// The superblock that declares this layout.
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

    /// The layout with the most logical blocks, or with as many as asked for.
    ///
    /// # Errors
    /// When the measures are not possible or the medium is too small.
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
        // The need grows with what is offered: the largest that fits.
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

    /// Blocks without which a full volume could not be written any more.
    fn needed_blocks(&self) -> u64 {
        // In the worst case every map record has broken a block of its own:
        // one live for each piece, one kept because others hang on it, and one
        // that is being written.
        self.eager_start()
            + 1
            + self.logical_blocks
            + 3 * self.pieces()
            + self.uncommitted_max()
            + 2
    }

    /// Blocks written before a commit is due.
    pub fn uncommitted_max(&self) -> u64 {
        (self.physical_blocks / 64).clamp(*UNCOMMITTED.start(), *UNCOMMITTED.end())
    }

    /// Data blocks that may begin elsewhere than where a block does while `mapped`
    /// are somewhere: each may break one block more than those that do not, and
    /// all the others must still find room.
    pub fn astride_max(&self, mapped: u64) -> u64 {
        let spare = self.physical_blocks - self.needed_blocks();
        match self.anywhere {
            true => spare + self.logical_blocks.saturating_sub(mapped),
            false => 0,
        }
    }

    /// Places in a block: where data may begin.
    pub fn places_per_block(&self) -> u32 {
        match self.anywhere {
            true => self.units_per_block(),
            false => 1,
        }
    }

    /// Places of the medium.
    pub fn places(&self) -> u64 {
        self.physical_blocks * u64::from(self.places_per_block())
    }

    /// The first unit of a place.
    pub fn place_unit(&self, place: u32) -> u64 {
        let units = self.units_per_block() / self.places_per_block();
        u64::from(place) * u64::from(units)
    }

    /// The place that begins with a unit, where one does.
    pub fn place_at(&self, unit: u64) -> u32 {
        let units = self.units_per_block() / self.places_per_block();
        (unit / u64::from(units)) as u32
    }

    /// The byte address of a place.
    pub fn place_byte(&self, place: u32) -> u64 {
        self.unit_byte(self.place_unit(place))
    }

    /// True if a block's data at this place lies across the border of two blocks.
    pub fn is_astride(&self, place: u32) -> bool {
        !place.is_multiple_of(self.places_per_block())
    }

    /// True if data may be at this place.
    pub fn is_data_place(&self, place: u32) -> bool {
        let each = u64::from(self.places_per_block());
        let last = u64::from(place) + each - 1;
        self.is_eager(u64::from(place) / each) && self.is_eager(last / each)
    }

    /// Units in a block.
    pub fn units_per_block(&self) -> u32 {
        self.block_bytes / self.unit_bytes
    }

    /// Units of the medium.
    pub fn units(&self) -> u64 {
        self.physical_blocks * u64::from(self.units_per_block())
    }

    /// Entries in a whole piece of the map.
    pub fn piece_entries(&self) -> u32 {
        entries_per_record(self.unit_bytes)
    }

    /// Pieces of the map.
    pub fn pieces(&self) -> u64 {
        self.logical_blocks
            .div_ceil(u64::from(self.piece_entries()))
    }

    /// Entries of one piece; the last one is shorter.
    pub fn entries_of(&self, piece: u32) -> usize {
        let each = u64::from(self.piece_entries());
        let before = u64::from(piece) * each;
        self.logical_blocks.saturating_sub(before).min(each) as usize
    }

    /// The block of the tail record.
    pub fn tail_block(&self) -> u64 {
        1
    }

    /// The first block of checkpoint region 0 or 1: its header's.
    pub fn checkpoint_block(&self, region: usize) -> u64 {
        2 + region as u64 * (1 + self.checkpoint_blocks())
    }

    /// Blocks that a checkpoint's map takes.
    pub fn checkpoint_blocks(&self) -> u64 {
        let bytes = self.logical_blocks * Entry::BYTES as u64;
        bytes.div_ceil(u64::from(self.block_bytes))
    }

    /// The block of the second superblock.
    pub fn last_block(&self) -> u64 {
        self.physical_blocks - 1
    }

    /// The first block of the eager space.
    pub fn eager_start(&self) -> u64 {
        self.checkpoint_block(2)
    }

    /// True if data and map records may be in this block.
    pub fn is_eager(&self, block: u64) -> bool {
        (self.eager_start()..self.last_block()).contains(&block)
    }

    /// The byte address of a block.
    pub fn block_byte(&self, block: u64) -> u64 {
        block * u64::from(self.block_bytes)
    }

    /// The byte address of a unit.
    pub fn unit_byte(&self, unit: u64) -> u64 {
        unit * u64::from(self.unit_bytes)
    }
}
