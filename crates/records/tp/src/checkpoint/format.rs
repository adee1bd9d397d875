//! A checkpoint as bytes. `docs/spec/records.md` has them as a table.

use crate::buffer::MapBlock;
use crate::change::{chain_bytes, chains};
use crate::engine::Listed;
use crate::log::Lsn;
use crate::options::{Placement, TornPages};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of a checkpoint.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CheckpointHeader {
    /// [`MAGIC`].
    pub magic: U64,
    /// CRC-32C of the bytes behind it.
    pub crc: U32,
    /// Bytes of the whole checkpoint.
    pub length: U32,
    /// [`VERSION`] or [`FIRST_VERSION`].
    pub version: U32,
    /// Bytes per page.
    pub page_bytes: U32,
    /// Bytes per segment of the log.
    pub segment_bytes: U32,
    /// Bytes of the log that are written atomically.
    pub unit: U32,
    /// Serial; of two valid checkpoints the one with the higher serial is used.
    pub serial: U64,
    /// End of the log when the checkpoint began.
    pub begin: U64,
    /// LSN of the first record that pages may lack.
    pub redo: U64,
    /// First byte of the log that is needed.
    pub keep: U64,
    /// Beginning of this life.
    pub life_begins: U64,
    /// Number of times that the environment was opened.
    pub life: U32,
    /// Pages in the map.
    pub pages: U32,
    /// Blocks of the map.
    pub blocks: U32,
    /// Number of active transactions.
    pub active: U32,
    /// Number of the next transaction.
    pub next: U64,
}

/// The magic `VARVETP1`.
pub const MAGIC: U64 = U64::from_bytes(*b"VARVETP1");
/// Version of the format since environments have a placement.
pub const VERSION: u32 = 2;
/// Version with shadow slots and without images in the log.
pub const FIRST_VERSION: u32 = 1;
const HEADER: usize = 96;
const _: () = assert!(size_of::<CheckpointHeader>() == HEADER);
/// Bytes of the longest checkpoint that is read.
pub(crate) const LONGEST: u64 = 1 << 30;

/// A checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub version: u32,
    pub placement: Placement,
    pub page_bytes: u32,
    pub segment_bytes: u32,
    pub unit: u32,
    pub serial: u64,
    pub begin: Lsn,
    pub redo: Lsn,
    pub keep: Lsn,
    pub life_begins: Lsn,
    pub life: u32,
    pub pages: u32,
    pub blocks: Vec<MapBlock>,
    pub active: Vec<Listed>,
    pub next: u64,
}

impl Checkpoint {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        match (self.version, self.placement) {
            (FIRST_VERSION, placement) => assert_eq!(placement, Placement::Shadow),
            (_, placement) => bytes.extend_from_slice(&placement_code(placement).to_le_bytes()),
        }
        for block in &self.blocks {
            bytes.extend_from_slice(&block.slot.to_le_bytes());
            bytes.extend_from_slice(&block.crc.to_le_bytes());
        }
        for active in &self.active {
            for number in [active.number, active.last.0, active.first.0] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            for number in [u32::from(active.committed), active.chains.len() as u32] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&chain_bytes(&active.chains));
        }
        let header = CheckpointHeader {
            magic: MAGIC,
            crc: 0.into(),
            length: (bytes.len() as u32).into(),
            version: self.version.into(),
            page_bytes: self.page_bytes.into(),
            segment_bytes: self.segment_bytes.into(),
            unit: self.unit.into(),
            serial: self.serial.into(),
            begin: self.begin.0.into(),
            redo: self.redo.0.into(),
            keep: self.keep.0.into(),
            life_begins: self.life_begins.0.into(),
            life: self.life.into(),
            pages: self.pages.into(),
            blocks: (self.blocks.len() as u32).into(),
            active: (self.active.len() as u32).into(),
            next: self.next.into(),
        };
        bytes[..HEADER].copy_from_slice(header.as_bytes());
        let crc = crate::checksum(0, &bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// The fault of the bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let (header, _) = CheckpointHeader::read_from_prefix(bytes).map_err(|_| "too short")?;
        if header.magic != MAGIC {
            return Err("not a checkpoint of varve-tp");
        }
        let whole = bytes.get(..header.length.get() as usize).ok_or("cut off")?;
        if whole.len() < HEADER || crate::checksum(0, &whole[12..]) != header.crc.get() {
            return Err("its checksum is wrong");
        }
        let mut rest = &whole[HEADER..];
        let version = header.version.get();
        let placement = match version {
            FIRST_VERSION => Placement::Shadow,
            VERSION => placement(number(&mut rest).ok_or("no placement")?)?,
            _ => return Err("of another version"),
        };
        let checkpoint = Checkpoint {
            version,
            placement,
            page_bytes: header.page_bytes.get(),
            segment_bytes: header.segment_bytes.get(),
            unit: header.unit.get(),
            serial: header.serial.get(),
            begin: Lsn(header.begin.get()),
            redo: Lsn(header.redo.get()),
            keep: Lsn(header.keep.get()),
            life_begins: Lsn(header.life_begins.get()),
            life: header.life.get(),
            pages: header.pages.get(),
            blocks: map_blocks(&mut rest, header.blocks.get()).ok_or("too few blocks")?,
            active: actives(&mut rest, header.active.get()).ok_or("too few transactions")?,
            next: header.next.get(),
        };
        checkpoint.check()?;
        Ok(checkpoint)
    }

    fn check(&self) -> Result<(), &'static str> {
        let page = self.page_bytes;
        if !page.is_power_of_two() || !(4096..=1 << 15).contains(&page) {
            return Err("a page size that there is not");
        }
        if !matches!(self.unit, 512 | 4096) {
            return Err("a unit of the log that there is not");
        }
        let segment = self.segment_bytes;
        if !segment.is_multiple_of(4096) || u64::from(segment) < smallest_segment(page.into()) {
            return Err("a segment size that there is not");
        }
        if self.placement != Placement::Shadow && self.pages > 0 {
            return Err("a map of pages that lie in place");
        }
        let per_block = crate::buffer::entries(page as usize);
        if (self.pages as usize).div_ceil(per_block) != self.blocks.len() {
            return Err("pages and blocks of the map do not agree");
        }
        let in_order = self.keep <= self.redo && self.redo <= self.begin;
        let life = self.life > 0 && self.begin.0 < 1 << 62 && self.life_begins.0 < 1 << 62;
        match in_order && life && self.keep.0 >= u64::from(segment) {
            true => Ok(()),
            false => Err("its positions in the log contradict each other"),
        }
    }
}

/// Returns the least number of bytes per segment for this page size.
pub(crate) fn smallest_segment(page_bytes: u64) -> u64 {
    16 * page_bytes
}

fn placement_code(placement: Placement) -> u32 {
    match placement {
        Placement::Shadow => 0,
        Placement::InPlace(TornPages::LogImages) => 1,
        Placement::InPlace(TornPages::Never) => 2,
    }
}

fn placement(code: [u8; 4]) -> Result<Placement, &'static str> {
    match u32::from_le_bytes(code) {
        0 => Ok(Placement::Shadow),
        1 => Ok(Placement::InPlace(TornPages::LogImages)),
        2 => Ok(Placement::InPlace(TornPages::Never)),
        _ => Err("a placement that there is not"),
    }
}

fn number<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (now, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*now)
}

fn map_blocks(from: &mut &[u8], count: u32) -> Option<Vec<MapBlock>> {
    let block = |_| {
        Some(MapBlock {
            slot: u32::from_le_bytes(number(from)?),
            crc: u32::from_le_bytes(number(from)?),
        })
    };
    (0..count).map(block).collect()
}

fn actives(from: &mut &[u8], count: u32) -> Option<Vec<Listed>> {
    let active = |_| {
        let (owner, last) = (
            u64::from_le_bytes(number(from)?),
            u64::from_le_bytes(number(from)?),
        );
        let first = u64::from_le_bytes(number(from)?);
        let committed = u32::from_le_bytes(number(from)?) == 1;
        let count = u32::from_le_bytes(number(from)?) as usize;
        let (listed, rest) = from.split_at_checked(count.checked_mul(8)?)?;
        *from = rest;
        Some(Listed {
            number: owner,
            first: Lsn(first),
            last: Lsn(last),
            committed,
            chains: chains(listed),
        })
    };
    (0..count).map(active).collect()
}
