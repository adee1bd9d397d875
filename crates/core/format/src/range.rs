//! Ranges of bytes that a user names, intersected with the pieces of a volume.

use std::ops::Range;

/// Returns the part of `piece` within `range`, reduced to whole blocks of
/// `block_bytes`.
pub fn part_in(piece: &Range<u64>, range: &Range<u64>, block_bytes: u64) -> Range<u64> {
    let start = piece.start.max(range.start).next_multiple_of(block_bytes);
    let end = piece.end.min(range.end) / block_bytes * block_bytes;
    start..end.max(start)
}

/// Refuses a range that begins behind the end of the volume.
///
/// # Errors
/// `Invalid` unless `start` is below `volume_bytes`, the size of the volume.
pub fn must_begin_within(start: u64, volume_bytes: u64) -> varve_fs::Result<()> {
    let problem = "the range begins behind the volume's end";
    match start < volume_bytes {
        true => Ok(()),
        false => Err(varve_fs::Error::Invalid(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_blocks_of_both() {
        assert_eq!(part_in(&(4096..8192), &(0..u64::MAX), 512), 4096..8192);
        assert_eq!(part_in(&(4096..8192), &(4097..8191), 512), 4608..7680);
        assert!(part_in(&(4096..8192), &(0..4096), 512).is_empty());
        assert!(part_in(&(4096..8192), &(8192..u64::MAX), 512).is_empty());
        assert!(part_in(&(4096..8192), &(5000..5001), 4096).is_empty());
    }
}
