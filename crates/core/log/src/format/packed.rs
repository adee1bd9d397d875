//! Pointers in columns: the second form of an index node.
//!
//! ```text
//! | PackedHeader | addresses | sectors | flags | births | incarnations | checksums |
//! ```
//!
//! A column has a number for each pointer, less the column's least, in as many bits as
//! the largest of them needs; none if all are equal. Checksums are stored unchanged.
//! Addresses also omit the low bits in which none differs from the least: those of full
//! blocks are multiples of the write unit.

use super::node::FANOUT;
use super::{Pointer, pointer::MAX_SECTOR};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The least value and the width of each column.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct PackedHeader {
    /// Least sector address.
    pub address_base: U64,
    /// Least birth serial.
    pub birth_base: U64,
    /// Least incarnation.
    pub incarnation_base: U32,
    /// Fewest stored sectors.
    pub sectors_base: u8,
    /// Least flags.
    pub flags_base: u8,
    /// Low bits omitted from addresses.
    pub address_shift: u8,
    /// Bits of an address, at most 48 with the omitted ones.
    pub address_bits: u8,
    /// Bits of a number of sectors, at most 8.
    pub sectors_bits: u8,
    /// Bits of flags, at most 8.
    pub flags_bits: u8,
    /// Bits of a birth serial, at most 64.
    pub birth_bits: u8,
    /// Bits of an incarnation, at most 32.
    pub incarnation_bits: u8,
}
const _: () = assert!(size_of::<PackedHeader>() == 28);

/// Pointers of a full node.
const MOST: usize = FANOUT as usize;
/// Most bytes of columns, and the bytes that reading the last number may use beyond them.
const COLUMNS_MOST: usize = MOST * (6 + 1 + 1 + 8 + 4 + 4);
const READ_BYTES: usize = 9;
/// Widest number, in bits, that eight of these bytes contain wherever it begins.
const WIDEST_IN_EIGHT: usize = 57;

/// A column other than that of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    base: u64,
    shift: u8,
    bits: u8,
}

/// The largest value in each column, and the column's name.
const LARGEST: [(u64, &str); 5] = [
    (MAX_SECTOR, "addresses"),
    (u8::MAX as u64, "sectors"),
    (u8::MAX as u64, "flags"),
    (u64::MAX, "births"),
    (u32::MAX as u64, "incarnations"),
];

impl Column {
    /// The narrowest column for these values, their common low bits omitted if `shifted`.
    fn of(values: &[u64], shifted: bool) -> Column {
        let first = values.first().copied().unwrap_or(0);
        let differing = values.iter().fold(0, |all, value| all | (value ^ first));
        let (mut least, mut most) = (first, first);
        if differing != 0 {
            for &value in values {
                least = least.min(value);
                most = most.max(value);
            }
        }
        // The differences have the trailing zeros that all exclusive-ors share.
        let shift = match shifted && differing != 0 {
            true => differing.trailing_zeros() as u8,
            false => 0,
        };
        Column {
            base: least,
            shift,
            bits: 64 - ((most - least) >> shift).leading_zeros() as u8,
        }
    }

    /// Bytes of `count` numbers.
    fn bytes(&self, count: usize) -> usize {
        (count * usize::from(self.bits)).div_ceil(8)
    }

    /// True if its numbers are no wider than values up to `largest`.
    fn is_possible(&self, largest: u64) -> bool {
        let bits = u64::BITS - largest.leading_zeros();
        u32::from(self.shift) + u32::from(self.bits) <= bits && self.base <= largest
    }

    /// Appends the numbers of these values, the first in the lowest bits.
    fn put(&self, bytes: &mut Vec<u8>, values: &[u64]) {
        let bits = u32::from(self.bits);
        if bits == 0 {
            return;
        }
        let (mut ready, mut have) = (0u64, 0);
        for value in values {
            let number = (value - self.base) >> self.shift;
            ready |= number << have;
            have += bits;
            if have >= u64::BITS {
                bytes.extend_from_slice(&ready.to_le_bytes());
                have -= u64::BITS;
                ready = number.checked_shr(bits - have).unwrap_or(0);
            }
        }
        bytes.extend_from_slice(&ready.to_le_bytes()[..have.div_ceil(8) as usize]);
    }

    /// Decodes as many values as `values` has, from the start of `bytes`, which extend
    /// beyond them. `None` if one is greater than `largest`.
    fn get(&self, bytes: &[u8], values: &mut [u64], largest: u64) -> Option<()> {
        if self.bits == 0 {
            values.fill(self.base);
            return Some(());
        }
        let width = usize::from(self.bits);
        let mask = u64::MAX >> (u64::BITS - u32::from(self.bits));
        let mut widest = 0;
        for (nth, value) in values.iter_mut().enumerate() {
            let bit = nth * width;
            let read: &[u8; READ_BYTES] = bytes[bit / 8..].first_chunk()?;
            let [low @ .., high] = *read;
            let mut number = u64::from_le_bytes(low) >> (bit % 8);
            if width > WIDEST_IN_EIGHT {
                // The ninth byte's bits above those; none if the first is whole.
                number |= u64::from(high) << 1 << (63 - bit % 8);
            }
            number &= mask;
            widest = number.max(widest);
            *value = number;
        }
        // Possible columns: neither the shift nor the difference overflows.
        let room = (largest - self.base) >> self.shift;
        if widest > room {
            return None;
        }
        for value in values {
            *value = self.base + (*value << self.shift);
        }
        Some(())
    }
}

/// Pointers by column.
pub(super) struct Columns {
    count: usize,
    values: [[u64; MOST]; 5],
    crcs: [U32; MOST],
}

impl Columns {
    /// Empty columns, to be filled: large, and so never moved.
    pub(super) fn empty() -> Columns {
        Columns {
            count: 0,
            values: [[0; MOST]; 5],
            crcs: [U32::ZERO; MOST],
        }
    }

    /// Takes the pointers of a node; false if one has a tag.
    ///
    /// # Panics
    /// With more pointers than a node has.
    #[inline]
    pub(super) fn fill(&mut self, pointers: impl Iterator<Item = Pointer>) -> bool {
        self.count = 0;
        let [addresses, sectors, flags, births, incarnations] = &mut self.values;
        let mut tags = 0;
        for (nth, pointer) in pointers.enumerate() {
            addresses[nth] = pointer.sector();
            sectors[nth] = pointer.sectors().into();
            flags[nth] = pointer.flags().into();
            births[nth] = pointer.birth();
            incarnations[nth] = pointer.incarnation().into();
            self.crcs[nth] = pointer.crc().into();
            tags |= pointer.tag();
            self.count = nth + 1;
        }
        tags == 0
    }

    /// The header with which they are packed.
    pub(super) fn header(&self) -> PackedHeader {
        let column = |nth: usize| Column::of(&self.values[nth][..self.count], nth == 0);
        let [address, sectors, flags, birth, incarnation] = std::array::from_fn(column);
        PackedHeader {
            address_base: address.base.into(),
            birth_base: birth.base.into(),
            incarnation_base: (incarnation.base as u32).into(),
            sectors_base: sectors.base as u8,
            flags_base: flags.base as u8,
            address_shift: address.shift,
            address_bits: address.bits,
            sectors_bits: sectors.bits,
            flags_bits: flags.bits,
            birth_bits: birth.bits,
            incarnation_bits: incarnation.bits,
        }
    }

    /// Appends header and columns.
    pub(super) fn put(&self, header: &PackedHeader, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(header.as_bytes());
        for (column, values) in header.columns().iter().zip(&self.values) {
            column.put(bytes, &values[..self.count]);
        }
        bytes.extend_from_slice(self.crcs[..self.count].as_bytes());
    }

    /// Parses the columns of `count` pointers at the start of `bytes`, the header first.
    ///
    /// # Errors
    /// Names the part that is impossible.
    ///
    /// # Panics
    /// With more pointers than a node has.
    pub(super) fn parse(&mut self, bytes: &[u8], count: usize) -> Result<(), String> {
        let (header, rest) =
            PackedHeader::ref_from_prefix(bytes).map_err(|_| "columns cut short")?;
        let columns = header.columns();
        for (column, (largest, name)) in columns.iter().zip(LARGEST) {
            if !column.is_possible(largest) {
                return Err(format!("impossible {name}: {column:?}"));
            }
        }
        let length = header.bytes(count) - size_of::<PackedHeader>();
        let stored = rest.get(..length).ok_or("columns cut short")?;
        let mut bytes = [0; COLUMNS_MOST + READ_BYTES];
        bytes[..length].copy_from_slice(stored);
        let mut rest = &bytes[..];
        self.count = count;
        let known = columns.iter().zip(&mut self.values).zip(LARGEST);
        for ((column, values), (largest, name)) in known {
            let values = &mut values[..count];
            let fits = column.get(rest, values, largest);
            fits.ok_or_else(|| format!("{name} beyond {largest}"))?;
            rest = &rest[column.bytes(count)..];
        }
        let crcs = &mut self.crcs[..count];
        crcs.as_mut_bytes()
            .copy_from_slice(&rest[..count * size_of::<U32>()]);
        Ok(())
    }

    /// Pointer `nth`.
    pub(super) fn pointer(&self, nth: usize) -> Pointer {
        let [address, sectors, flags, birth, incarnation] = &self.values;
        Pointer::of_parts(
            address[nth],
            sectors[nth] as u8,
            flags[nth] as u8,
            birth[nth],
            self.crcs[nth].get(),
            incarnation[nth] as u32,
        )
    }
}

impl PackedHeader {
    fn columns(&self) -> [Column; 5] {
        let column = |base, shift, bits| Column { base, shift, bits };
        [
            column(
                self.address_base.get(),
                self.address_shift,
                self.address_bits,
            ),
            column(self.sectors_base.into(), 0, self.sectors_bits),
            column(self.flags_base.into(), 0, self.flags_bits),
            column(self.birth_base.get(), 0, self.birth_bits),
            column(self.incarnation_base.get().into(), 0, self.incarnation_bits),
        ]
    }

    /// Bytes of `count` pointers packed like this, this header included.
    pub(super) fn bytes(&self, count: usize) -> usize {
        let columns = self.columns().map(|column| column.bytes(count));
        size_of::<PackedHeader>() + columns.iter().sum::<usize>() + count * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests;
