//! The possible sizes of a volume: pure arithmetic.

use crate::error::{Error, Result};
use crate::format::Superblock;
use crate::format::checkpoint::record_bytes_for;
use crate::format::ifile::ENTRY_BYTES;
use crate::format::superblock::incompat_flags;
use crate::geometry::Geometry;
use crate::mkfs::{Reserve, enough, not_too_many};
use varve_device::size::Bytes;
use zerocopy::IntoBytes;

/// Divisor of the corrections that fit into a record: the segments of a whole usage table
/// may take that part, because a checkpoint must be able to write one.
const TABLE_PART: u64 = 4;

/// Reserved segments of `count` segments like these.
pub(super) fn reserve(superblock: &Superblock, count: u64) -> u64 {
    let sizes = (superblock.segment_bytes.get(), superblock.block_bytes.get());
    Reserve::of(sizes, count).segments()
}

/// Least bytes of a volume of `count` segments like these.
pub(super) fn bytes_for(superblock: &Superblock, count: u64) -> u64 {
    let segments = count.saturating_mul(superblock.segment_bytes.get().into());
    let fixed = superblock.first_segment.get() + u64::from(superblock.write_unit.get());
    segments.saturating_add(fixed)
}

/// Most segments of this volume, so that a checkpoint can write its usage table.
fn most_segments(superblock: &Superblock) -> u64 {
    let slot = superblock.record_bytes.get() as usize;
    let fixed = record_bytes_for(superblock.inode_bytes.get() as usize, 0, 1);
    let corrections = slot.saturating_sub(fixed) / size_of::<crate::format::UsageDelta>();
    let segments = corrections as u64 / TABLE_PART;
    segments * u64::from(superblock.segment_bytes.get()) / ENTRY_BYTES as u64
}

/// The superblock of the same volume with `bytes`, or a few less. Only its numbers
/// change.
///
/// # Errors
/// `Unfit` states the problem and the possible sizes.
pub fn plan(present: &Superblock, bytes: u64) -> Result<Superblock> {
    let unfit = |problem: String| Error::Unfit(format!("a volume of {}: {problem}", Bytes(bytes)));
    let unit = u64::from(present.write_unit.get());
    let segment_bytes = present.segment_bytes.get();
    let device_bytes = bytes / unit * unit;
    let room = device_bytes.saturating_sub(present.first_segment.get() + unit);
    let count = room / u64::from(segment_bytes);
    let before = u64::from(present.segment_count.get());
    not_too_many(segment_bytes, count).map_err(unfit)?;
    let reserve = match count == before {
        true => present.reserve_segments.get().into(),
        false => reserve(present, count),
    };
    if count != before {
        enough(segment_bytes, count, reserve).map_err(unfit)?;
    }
    if count > before {
        let most = most_segments(present);
        if count > most {
            return Err(unfit(format!(
                "it would have {count} segments of {}, and can grow to {most}: make a new volume \
                 with larger ones",
                Bytes(segment_bytes.into())
            )));
        }
        let gained = count - reserve;
        if gained < before.saturating_sub(present.reserve_segments.get().into()) {
            return Err(unfit(
                "what is held back would take more than is gained: let it grow further".into(),
            ));
        }
    }
    let number = |n: u64| u32::try_from(n).map_err(|_| unfit(format!("{n} segments")));
    let shrunk = match count < before {
        true => incompat_flags::SHRUNK,
        false => 0,
    };
    let planned = Superblock {
        incompat: (present.incompat.get() | shrunk).into(),
        segment_count: number(count)?.into(),
        reserve_segments: number(reserve)?.into(),
        device_bytes: device_bytes.into(),
        ..*present
    }
    .sealed_for(0);
    // The reader's own check decides whether the result is possible.
    Superblock::parse(planned.as_bytes(), 0).map_err(|malformed| unfit(malformed.to_string()))?;
    Ok(planned)
}

/// The least number of segments that contain so many bytes outside the reserve.
pub(super) fn least_segments(superblock: &Superblock, held_bytes: u64) -> Option<u64> {
    let geometry = Geometry::from(superblock);
    let each = u64::from(geometry.segment_bytes) - 4 * u64::from(geometry.write_unit);
    let holds = |count: &u64| {
        let reserve = reserve(superblock, *count);
        enough(geometry.segment_bytes, *count, reserve).is_ok()
            && (count - reserve) * each >= held_bytes
    };
    (held_bytes / each + 1..=geometry.segment_count.into()).find(holds)
}
