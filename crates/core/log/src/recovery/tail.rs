//! Distinguishing the log's end from damage in its tail (protocol rules 10, 11).
//!
//! The partial that should follow the last valid one is missing or invalid. That is the
//! normal end, unless a later summary states that it was durable: then acknowledged data
//! has been lost. The search reads the rest of the current segment and the next one, and
//! follows the `next` fields of every later summary it finds there, to their end.
//! Checkpoint records are evidence, too: what they name was flushed before them, their
//! own blocks included.
//!
//! The search begins where each head of the log continues (rule H6). The leftovers of
//! torn partials there are noted, for the mount to clear (H7).

use super::{Recovered, leftover};
use crate::chain::{ChainItem, Summary};
use crate::error::Result;
use crate::format::{SECTOR, SummaryHeader};
use crate::geometry::Geometry;
use crate::reader::Reader;
use std::collections::{BTreeSet, VecDeque};
use varve_fs::planted::{self, Planted};

/// Fills the report's `damage` if there is proof of any, and `leftover`. Checkpoint
/// records state that the log was durable up to serial `recorded`.
///
/// # Errors
/// If a read fails for a reason that says nothing about the medium's content.
pub fn search(
    geometry: &Geometry,
    reader: &Reader,
    volume_tag: u64,
    recorded: u64,
    out: &mut Recovered,
) -> Result<()> {
    let last = out.end.serial();
    let mut queue = VecDeque::new();
    let mut seen = BTreeSet::new();
    let searched = match planted::is(Planted::SearchFirstHead) {
        true => 1,
        false => out.end.heads(),
    };
    for position in out.end.positions().take(searched) {
        let (place, offset, _) = geometry.successor(&position);
        let next = position.next_segment.get();
        queue.push_back((place, offset));
        if next != place {
            queue.push_back((next, geometry.payload_start(next)));
        }
        seen.extend([place, next]);
    }
    let mut proof: Option<SummaryHeader> = None;
    let mut later: Vec<Summary> = Vec::new();
    while let Some((segment, offset)) = queue.pop_front() {
        let mut image = vec![0; geometry.segment_bytes as usize];
        read_what_is_readable(geometry, reader, segment, &mut image)?;
        let cleared = match planted::is(Planted::ClearFirstHead) {
            true => 1,
            false => out.end.heads(),
        };
        let torn = (0..cleared)
            .filter(|head| geometry.successor(&out.end.at(*head)).0 == segment)
            .filter_map(|head| leftover::find(&image, geometry, volume_tag, &out.end, head));
        let torn: Vec<u64> = torn.collect();
        out.leftovers.extend(torn);
        let mut at = offset;
        while at < geometry.segment_bytes {
            let found = Summary::parse(&image, geometry, volume_tag, segment, at).ok();
            // The search continues after a summary's own entries, in which no other
            // summary begins.
            let taken = found.as_ref().map_or(1, Summary::summary_bytes);
            at += taken.next_multiple_of(geometry.write_unit);
            let later_life = |s: &Summary| {
                s.header.serial.get() > last && s.header.incarnation.get() >= out.end.incarnation()
            };
            let Some(summary) = found.filter(later_life) else {
                continue;
            };
            let next = summary.header.next_segment.get();
            if next < geometry.segment_count && seen.insert(next) {
                queue.push_back((next, geometry.payload_start(next)));
            }
            if summary.header.durable_through.get() > last {
                proof = proof
                    .into_iter()
                    .chain([summary.header])
                    .max_by_key(|header| header.serial.get());
            }
            later.push(summary);
        }
    }
    let summarised = proof.map_or(0, |header| header.durable_through.get());
    let through = summarised.max(recorded);
    if through <= last {
        return Ok(());
    }
    let witness = match proof {
        Some(proof) if summarised >= recorded => format!("partial {}", proof.serial),
        _ => "the checkpoint record".into(),
    };
    let places: Vec<String> = out
        .end
        .positions()
        .map(|position| {
            let (segment, offset, _) = geometry.successor(&position);
            (geometry.byte(segment, offset) / SECTOR).to_string()
        })
        .collect();
    let mut damage = vec![format!(
        "partial segment {} at sector {} is missing or damaged ({}), but {witness} says the log \
         was durable up to {through}: acknowledged data is lost",
        last + 1,
        places.join(" or "),
        out.report.end,
    )];
    later.sort_by_key(|s| s.header.serial.get());
    for summary in later
        .iter()
        .filter(|s| s.header.serial.get() <= through.max(last + 1))
    {
        damage.extend(lost_files(geometry, summary));
    }
    out.report.damage = damage;
    Ok(())
}

/// Reads a segment. Unreadable parts count as zeros, because a torn unit may be
/// unreadable. The first sector of such a unit is tried by itself: a header may be whole
/// while its entries are not.
///
/// # Errors
/// If a read fails for a reason that says nothing about the medium's content. Smaller
/// reads are not tried then.
pub fn read_what_is_readable(
    geometry: &Geometry,
    reader: &Reader,
    segment: u32,
    image: &mut [u8],
) -> Result<()> {
    let first = geometry.byte(segment, 0) / SECTOR;
    if readable(reader, first, image)? {
        return Ok(());
    }
    let unit = geometry.write_unit as usize;
    for (nth, bytes) in (0u64..).zip(image.chunks_mut(unit)) {
        let sector = first + nth * unit as u64 / SECTOR;
        if readable(reader, sector, bytes)? {
            continue;
        }
        bytes.fill(0);
        let header = &mut bytes[..SECTOR as usize];
        if !readable(reader, sector, header)? {
            header.fill(0);
        }
    }
    Ok(())
}

fn readable(reader: &Reader, sector: u64, bytes: &mut [u8]) -> Result<bool> {
    match reader.read_uncached(sector, bytes) {
        Ok(_) => Ok(true),
        Err(error) if error.is_of_service() => Err(error),
        Err(_) => Ok(false),
    }
}

/// One line for each file with an item in a partial that cannot be applied.
fn lost_files(geometry: &Geometry, summary: &Summary) -> Vec<String> {
    let Ok(items) = summary.items(geometry) else {
        return Vec::new();
    };
    let files: BTreeSet<u64> = items
        .iter()
        .filter(|item| !matches!(item, ChainItem::Map { .. }))
        .map(|item| item.ino().0)
        .collect();
    let serial = summary.header.serial;
    files
        .into_iter()
        .map(|ino| format!("partial {serial}: changes of inode {ino} are lost"))
        .collect()
}

#[cfg(test)]
mod tests;
