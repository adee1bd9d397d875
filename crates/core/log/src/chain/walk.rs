//! The summaries of one segment, one behind the other.

use super::Summary;
use crate::error::Result;
use crate::geometry::Geometry;

/// The partial segments of one segment's present incarnation, in order.
/// Ends where the chain within the segment does.
pub fn summaries_of(
    image: &[u8],
    geometry: &Geometry,
    volume_tag: u64,
    segment: u32,
    incarnation: u32,
) -> Vec<Summary> {
    let parse = |offset| Ok(Summary::parse(image, geometry, volume_tag, segment, offset).ok());
    summaries_while(geometry, segment, incarnation, parse)
        .unwrap_or_default()
        .0
}

/// As [`summaries_of`], asking `read` for the summary at each offset, until
/// it has none. The second is true if these are all: no other fits behind
/// them, or the segment has been opened anew.
///
/// # Errors
/// What `read` fails with.
pub fn summaries_while(
    geometry: &Geometry,
    segment: u32,
    incarnation: u32,
    mut read: impl FnMut(u32) -> Result<Option<Summary>>,
) -> Result<(Vec<Summary>, bool)> {
    let mut summaries: Vec<Summary> = Vec::new();
    let mut offset = geometry.payload_start(segment);
    while geometry.partial_fits(offset) {
        let Some(summary) = read(offset)? else {
            return Ok((summaries, false));
        };
        let opened = summary.header.segment_incarnation.get();
        let serial = summary.header.serial.get();
        let after = summaries
            .last()
            .is_none_or(|before| serial > before.header.serial.get());
        if opened != incarnation || !after {
            let anew = summaries.is_empty() && opened > incarnation;
            return Ok((summaries, anew));
        }
        offset += summary.bytes();
        summaries.push(summary);
    }
    Ok((summaries, true))
}
