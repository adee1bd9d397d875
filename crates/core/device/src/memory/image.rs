//! The bytes of a medium at one moment, as a value: cloned, changed and compared.
//!
//! Invariants:
//! - Cloning copies O(size / 16 MiB) pointers; a clone never sees the changes of
//!   another one.
//! - Equality and the fingerprint depend on bytes alone: a chunk of zeros equals a
//!   chunk that was never written.

use std::ops::Range;
use std::sync::Arc;

use super::chunks::{CHUNK_BYTES, Chunk, ChunkMap};
use crate::device::Geometry;
use crate::hash;

const CHUNK: u64 = CHUNK_BYTES as u64;
/// Maximum number of chunks that one call of [`MemoryImage::extent`] examines.
const EXTENT_CHUNKS_MAX: u64 = 1 << 16;
static ZEROS: Chunk = [0; CHUNK_BYTES];

/// The bytes of a memory device, shared until changed.
#[derive(Clone)]
pub struct MemoryImage {
    geometry: Geometry,
    chunks: ChunkMap,
}

/// A write that is cut into chunks once and applied to many images, which then share
/// the whole chunks instead of copying them.
#[derive(Debug, Clone)]
pub struct PreparedWrite {
    offset: u64,
    bytes: Arc<[u8]>,
    /// The chunks that the write covers from end to end, from `first_whole`.
    whole: Vec<Arc<Chunk>>,
    first_whole: u64,
}

/// Returns the pieces of `length` bytes at `offset`, one per chunk touched: the chunk's
/// number, the range within the chunk, and the range within the request.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % CHUNK) as usize;
        let step = (CHUNK_BYTES - start).min(length - done);
        done += step;
        Some((at / CHUNK, start..start + step, done - step..done))
    })
}

impl MemoryImage {
    /// Creates an image of zeros.
    ///
    /// # Panics
    /// If the logical block is not a power of two of at least 512 bytes, or if the size
    /// is not a multiple of it.
    pub fn new(geometry: Geometry) -> Self {
        assert!(
            geometry.logical_block >= 512 && geometry.logical_block.is_power_of_two(),
            "logical block of {} bytes",
            geometry.logical_block
        );
        assert!(
            geometry
                .size
                .is_multiple_of(u64::from(geometry.logical_block)),
            "{} bytes are not whole logical blocks",
            geometry.size
        );
        MemoryImage {
            geometry,
            chunks: ChunkMap::default(),
        }
    }

    /// Returns the geometry of the device of this image.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn assert_inside(&self, offset: u64, length: u64) {
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.geometry.size),
            "{length} bytes at byte {offset} of an image of {} bytes",
            self.geometry.size
        );
    }

    /// Fills `buffer` from byte `offset`, which needs no alignment.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        self.assert_inside(offset, buffer.len() as u64);
        for (number, within, part) in pieces(offset, buffer.len()) {
            match self.chunks.get(number) {
                Some(chunk) => buffer[part].copy_from_slice(&chunk[within]),
                None => buffer[part].fill(0),
            }
        }
    }

    /// Replaces the bytes from byte `offset`, which needs no alignment.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.assert_inside(offset, bytes.len() as u64);
        for (number, within, part) in pieces(offset, bytes.len()) {
            let slot = self.chunks.slot(number);
            match <&Chunk>::try_from(&bytes[part.clone()]) {
                Ok(whole) => *slot = Some(Arc::new(*whole)),
                Err(_) => {
                    let chunk = slot.get_or_insert_with(|| Arc::new(ZEROS));
                    Arc::make_mut(chunk)[within].copy_from_slice(&bytes[part]);
                }
            }
        }
    }

    /// Replaces a range by zeros, and frees the memory of whole chunks.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn zero(&mut self, offset: u64, length: u64) {
        self.assert_inside(offset, length);
        // Beyond the map's own bound nothing is stored: a discard of a terabyte must
        // not visit every chunk of it.
        let end = (offset + length).min(self.chunks.bound().saturating_mul(CHUNK));
        let mut at = offset;
        while at < end {
            let start = (at % CHUNK) as usize;
            let step = (CHUNK - at % CHUNK).min(end - at);
            if self.chunks.get(at / CHUNK).is_some() {
                let slot = self.chunks.slot(at / CHUNK);
                if step == CHUNK {
                    *slot = None;
                } else if let Some(chunk) = slot {
                    Arc::make_mut(chunk)[start..start + step as usize].fill(0);
                }
            }
            at += step;
        }
    }

    /// Returns for how many bytes from `offset` on, at most `length`, nothing is stored
    /// (and true) or something is (and false). It examines a bounded number of chunks,
    /// so that the answer may be shorter than the hole or the data.
    ///
    /// # Panics
    /// If the range is not within the image.
    pub fn extent(&self, offset: u64, length: u64) -> (u64, bool) {
        self.assert_inside(offset, length);
        let (first, end) = (offset / CHUNK, (offset + length).div_ceil(CHUNK));
        let hole = self.chunks.get(first).is_none();
        let bound = self.chunks.bound();
        if first >= bound {
            return (length, true);
        }
        let most = end.min(first + EXTENT_CHUNKS_MAX);
        let mut last = first + 1;
        while last < most.min(bound) && self.chunks.get(last).is_none() == hole {
            last += 1;
        }
        if hole && last == bound {
            last = end;
        }
        ((last * CHUNK - offset).min(length), hole)
    }

    /// Applies a prepared write: as [`MemoryImage::write`], without copying whole
    /// chunks.
    ///
    /// # Panics
    /// If the write is not within the image.
    pub fn apply(&mut self, write: &PreparedWrite) {
        self.assert_inside(write.offset, write.bytes.len() as u64);
        for (number, chunk) in (write.first_whole..).zip(&write.whole) {
            *self.chunks.slot(number) = Some(chunk.clone());
        }
        let head = write.head_bytes();
        let tail = (head + write.whole.len() * CHUNK_BYTES).min(write.bytes.len());
        self.write(write.offset, &write.bytes[..head]);
        self.write(write.offset + tail as u64, &write.bytes[tail..]);
    }

    /// Returns the memory used by chunks, in bytes, shared ones included.
    pub fn allocated_bytes(&self) -> u64 {
        self.chunks.iter().count() as u64 * CHUNK
    }

    /// Returns a hash of the bytes: equal images have equal fingerprints, on every
    /// machine. It is not safe against an adversary.
    pub fn fingerprint(&self) -> u64 {
        let present = self.chunks.iter().filter(|(_, chunk)| ***chunk != ZEROS);
        present.fold(hash::mix(self.geometry.size), |sum, (number, chunk)| {
            sum.wrapping_add(hash::term(number, &chunk[..]))
        })
    }

    /// Returns the numbers of the chunks (of 4096 bytes) that are present and that a
    /// range touches.
    pub(crate) fn present_in(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        let numbers = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let present = self.chunks.iter().map(|(number, _)| number);
        present.filter(move |number| numbers.contains(number))
    }

    /// Returns the numbers of the chunks (of 4096 bytes) in which two images may
    /// differ, without comparing the bytes of chunks that they share.
    fn unshared<'a>(&'a self, other: &'a MemoryImage) -> impl Iterator<Item = u64> + 'a {
        let one_way = |from: &'a MemoryImage, to: &'a MemoryImage| {
            from.chunks
                .iter()
                .filter_map(move |(number, chunk)| match to.chunks.get(number) {
                    Some(same) if Arc::ptr_eq(same, chunk) => None,
                    _ => Some(number),
                })
        };
        one_way(self, other).chain(one_way(other, self))
    }

    /// Returns the sum of [`hash::term`] over the sectors of the given chunks that
    /// differ from `base`. Two images over one base have equal sums exactly when their
    /// bytes are equal there, except for collisions.
    pub(crate) fn difference(
        &self,
        base: &MemoryImage,
        chunks: impl IntoIterator<Item = u64>,
    ) -> u64 {
        let mut sum = 0u64;
        for number in chunks {
            let (mine, theirs) = (self.chunks.get(number), base.chunks.get(number));
            let shared = match (mine, theirs) {
                (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
                (None, None) => true,
                _ => false,
            };
            if shared {
                continue;
            }
            let bytes = |chunk: Option<&'_ Arc<Chunk>>| chunk.map_or(ZEROS, |chunk| **chunk);
            let (mine, theirs) = (bytes(mine), bytes(theirs));
            for (index, (sector, old)) in mine.chunks(512).zip(theirs.chunks(512)).enumerate() {
                if sector != old {
                    sum = sum.wrapping_add(hash::term(number * 8 + index as u64, sector));
                }
            }
        }
        sum
    }
}

impl PreparedWrite {
    /// Prepares a write of `bytes` at byte `offset`, which needs no alignment.
    pub fn new(offset: u64, bytes: Arc<[u8]>) -> Self {
        let first_whole = offset.div_ceil(CHUNK);
        let mut write = PreparedWrite {
            offset,
            bytes,
            whole: Vec::new(),
            first_whole,
        };
        let (whole, _) = write.bytes[write.head_bytes()..].as_chunks();
        write.whole = whole.iter().map(|chunk| Arc::new(*chunk)).collect();
        write
    }

    /// Returns the number of bytes before the first whole chunk.
    fn head_bytes(&self) -> usize {
        let head = self.first_whole * CHUNK - self.offset;
        (head as usize).min(self.bytes.len())
    }

    /// Returns the byte address of the write.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the bytes that are written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the numbers of the 4096-byte chunks that the write touches.
    pub(crate) fn chunk_numbers(&self) -> Range<u64> {
        self.offset / CHUNK..(self.offset + self.bytes.len() as u64).div_ceil(CHUNK)
    }
}

impl PartialEq for MemoryImage {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |image: &MemoryImage, number| match image.chunks.get(number) {
            Some(chunk) => **chunk,
            None => ZEROS,
        };
        self.geometry == other.geometry
            && self
                .unshared(other)
                .all(|number| bytes(self, number) == bytes(other, number))
    }
}

impl Eq for MemoryImage {}

impl std::fmt::Debug for MemoryImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryImage")
            .field("geometry", &self.geometry)
            .field("allocated_bytes", &self.allocated_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(size: u64) -> MemoryImage {
        MemoryImage::new(Geometry {
            size,
            logical_block: 512,
            physical_block: 4096,
        })
    }

    #[test]
    fn zeros_equal_the_unwritten() {
        let mut written = image(1 << 20);
        written.write(5000, &[0; 9000]);
        assert_eq!(written, image(1 << 20));
        assert_eq!(written.fingerprint(), image(1 << 20).fingerprint());
        written.write(5001, &[1]);
        assert_ne!(written, image(1 << 20));
        assert_ne!(written.fingerprint(), image(1 << 20).fingerprint());
    }

    #[test]
    fn prepared_writes_equal_plain_ones() {
        for (offset, length) in [
            (0, 4096),
            (512, 512),
            (512, 4096),
            (3584, 9728),
            (4096, 8704),
            (4608, 20_000),
            (1, 1),
            (4095, 2),
            (8192, 0),
        ] {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8 | 1).collect();
            let (mut plain, mut prepared) = (image(1 << 20), image(1 << 20));
            plain.write(offset, &bytes);
            prepared.apply(&PreparedWrite::new(offset, bytes.into()));
            assert_eq!(plain, prepared, "{length} bytes at {offset}");
        }
    }

    #[test]
    fn zeroing_keeps_the_neighbours() {
        let mut ones = image(1 << 30);
        ones.write(0, &[1; 20_000]);
        ones.zero(1000, 15_000);
        let mut bytes = [0; 20_000];
        ones.read(0, &mut bytes);
        assert!(bytes[..1000].iter().all(|&byte| byte == 1));
        assert!(bytes[1000..16_000].iter().all(|&byte| byte == 0));
        assert!(bytes[16_000..].iter().all(|&byte| byte == 1));
        ones.zero(0, 1 << 30);
        assert_eq!(ones.allocated_bytes(), 0);
    }

    #[test]
    fn extents_follow_what_is_stored() {
        let mut some = image(1 << 40);
        assert_eq!(some.extent(0, 1 << 40), (1 << 40, true));
        some.write(8192, &[1; 10_000]);
        assert_eq!(some.extent(0, 1 << 30), (8192, true));
        assert_eq!(some.extent(512, 1024), (1024, true));
        assert_eq!(some.extent(8704, 1 << 30), (20_480 - 8704, false));
        assert_eq!(some.extent(20_480, 1 << 39), (1 << 39, true));
        let (length, hole) = some.extent((1 << 40) - 512, 512);
        assert_eq!((length, hole), (512, true));
    }

    #[test]
    fn differences_tell_images_over_one_base_apart() {
        let mut base = image(1 << 20);
        base.write(0, &[7; 8192]);
        let (mut same, mut other) = (base.clone(), base.clone());
        same.write(512, &[7; 512]);
        other.write(512, &[8; 512]);
        let chunks = [0, 1];
        assert_eq!(same.difference(&base, chunks), 0);
        assert_ne!(other.difference(&base, chunks), 0);
    }

    #[test]
    #[should_panic(expected = "of an image of")]
    fn writing_past_the_end_is_a_bug() {
        image(4096).write(u64::MAX, &[1]);
    }
}
