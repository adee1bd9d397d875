//! Infers the geometry of a volume without superblocks from its summaries.
//!
//! | property | source |
//! |---|---|
//! | volume tag | the summaries; of several volumes the one written last |
//! | write unit | greatest unit that divides every place and length of a partial |
//! | segment size, first segment | the next segment named by a summary, and the place where the log continued |
//! | segment count, copy stride, reserve | the device's size, by the rules of mkfs |
//! | inode size | the size with which inodes match their checksums |
//! | block size | the block of the ifile at which the inode map begins |
//!
//! Index nodes are assumed to be possibly packed: each node states its form, and a volume
//! without packed nodes is read the same way.
//!
//! No summary contains the label, half of the UUID, the seed of directory hashes, and
//! whether names compare without regard to case. Directories are rebuilt, so their old
//! seed is not needed.

use std::collections::BTreeMap;
use varve_device::Device;
use varve_fs::InodeNo;
use varve_lfs::format::ifile::IMAP_OFFSET;
use varve_lfs::format::summary::{HEADER_BYTES, MAX_PARTIAL_BYTES, summary_flags};
use varve_lfs::format::superblock::{CHECKSUM_CRC32C, MAGIC, VERSION, incompat_flags};
use varve_lfs::format::{Malformed, SECTOR, SummaryHeader, Superblock, crc32c};
use varve_lfs::internal::{
    ChainItem, Payload, Reserve, Summary, default_segment_bytes, fixed_layout,
};
use varve_lfs::{Error, Geometry, MAX_HEADS, Result};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes between examined places: the smallest write unit.
const STEP: u64 = 4096;
/// Assumed bytes per block until the ifile shows the real size.
const BLOCK_BYTES: u32 = 4096;
/// Bytes read at once.
const CHUNK: u64 = 1 << 20;
/// Largest number of volumes whose summaries are distinguished.
const MAX_VOLUMES: usize = 64;
/// Largest number of summaries read again to find the sizes of inodes and blocks.
const SAMPLES: usize = 4096;

/// One valid summary.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    sector: u64,
    serial: u64,
    bytes: u64,
    next_segment: u32,
    segment_incarnation: u32,
    head: u8,
    aligned: bool,
}

/// The summaries of one volume.
#[derive(Debug, Default)]
struct Seen {
    newest_ns: i64,
    sightings: Vec<Sighting>,
}

/// Returns the superblock that a volume must have had.
///
/// `tag` selects one of several volumes that left summaries; `progress` receives the
/// number of bytes searched.
///
/// # Errors
/// `NoVolume` with the property that could not be inferred.
pub(crate) fn superblock(
    device: &dyn Device,
    tag: Option<u64>,
    case_fold: bool,
    progress: &dyn Fn(u64, u64),
) -> Result<Superblock> {
    let missing = |problem: String| Error::NoVolume {
        device: device.name(),
        reason: Malformed::new("log", problem),
    };
    let mut volumes = search(device, progress);
    let chosen = tag.is_some();
    let tag = tag
        .or_else(|| {
            let newest = volumes.iter().max_by_key(|(_, seen)| seen.newest_ns);
            newest.map(|(tag, _)| *tag)
        })
        .ok_or_else(|| missing("no summary is whole".into()))?;
    let others: Vec<String> = (volumes.keys().filter(|other| **other != tag))
        .map(|other| name(*other))
        .collect();
    if !others.is_empty() && !chosen {
        let others = others.join(", ");
        tracing::warn!(%others, "the device holds summaries of other volumes as well");
    }
    let seen = volumes
        .remove(&tag)
        .ok_or_else(|| missing(format!("no summary of volume {} is whole", name(tag))))?;
    let mut sightings = seen.sightings;
    sightings.sort_unstable_by_key(|sighting| (sighting.serial, sighting.sector));
    let candidates = layouts(device, &sightings);
    for (unit, segment_bytes, first_segment) in candidates {
        let draft = draft(device, tag, case_fold, unit, segment_bytes, first_segment);
        let Some(mut superblock) = draft else {
            continue;
        };
        let sizes = sizes(device, &superblock, &sightings);
        superblock.inode_bytes = sizes.0.into();
        superblock.block_bytes = sizes.1.into();
        if sightings.iter().any(|sighting| sighting.aligned) {
            superblock.incompat |= incompat_flags::ALIGNED;
        }
        let (record_bytes, _) = fixed_layout(unit, sizes.0, segment_bytes);
        superblock.record_bytes = record_bytes.into();
        let sealed = superblock.sealed_for(0);
        if let Ok(superblock) = Superblock::parse(sealed.as_bytes(), 0) {
            return Ok(superblock);
        }
    }
    let problem = format!(
        "{} summaries of volume {} do not tell its measures",
        sightings.len(),
        name(tag)
    );
    Err(missing(problem))
}

/// Formats a tag as the beginning of the UUID.
fn name(tag: u64) -> String {
    format!("{:016x}", tag.swap_bytes())
}

/// Returns every valid summary of the device, by volume.
fn search(device: &dyn Device, progress: &dyn Fn(u64, u64)) -> BTreeMap<u64, Seen> {
    let size = device.geometry().size / STEP * STEP;
    let mut volumes: BTreeMap<u64, Seen> = BTreeMap::new();
    let mut chunk = vec![0; CHUNK as usize];
    let mut at = 0;
    while at < size {
        let length = CHUNK.min(size - at);
        progress(at, size);
        let bytes = &mut chunk[..length as usize];
        if device.read(at, bytes).is_err() {
            for (nth, part) in (0..).zip(bytes.chunks_mut(STEP as usize)) {
                if device.read(at + nth * STEP, part).is_err() {
                    part.fill(0);
                }
            }
        }
        for offset in (0..length).step_by(STEP as usize) {
            let here = &bytes[offset as usize..];
            let Some((tag, written_ns, sighting)) = sighting(device, at + offset, here) else {
                continue;
            };
            if volumes.len() >= MAX_VOLUMES && !volumes.contains_key(&tag) {
                continue;
            }
            let seen = volumes.entry(tag).or_default();
            seen.newest_ns = seen.newest_ns.max(written_ns);
            seen.sightings.push(sighting);
        }
        at += length;
    }
    volumes
}

/// Returns the summary at byte `at`, whose first bytes are `here`.
fn sighting(device: &dyn Device, at: u64, here: &[u8]) -> Option<(u64, i64, Sighting)> {
    let (header, _) = SummaryHeader::read_from_prefix(here).ok()?;
    let tag = header.volume_tag.get();
    let header = SummaryHeader::parse(here, tag, at / SECTOR).ok()?;
    let end = HEADER_BYTES + header.entry_bytes.get() as usize;
    let mut whole;
    let entries = match here.get(HEADER_BYTES..end) {
        Some(entries) => entries,
        None => {
            whole = vec![0; end.next_multiple_of(STEP as usize)];
            device.read(at, &mut whole).ok()?;
            &whole[HEADER_BYTES..end]
        }
    };
    header.verify_entries(entries).ok()?;
    let sighting = Sighting {
        sector: header.sector.get(),
        serial: header.serial.get(),
        bytes: u64::from(header.sectors.get()) * SECTOR,
        next_segment: header.next_segment.get(),
        segment_incarnation: header.segment_incarnation.get(),
        head: header.head,
        aligned: header.has(summary_flags::ALIGNED),
    };
    Some((tag, header.written_ns.get(), sighting))
}

/// Returns segment numbers with the byte address at which a head entered each of them. An
/// entry counts only if the summary before it in the same head named the segment and no
/// serial is missing in between.
fn entries(sightings: &[Sighting]) -> Vec<(u64, u64)> {
    let mut last: [Option<&Sighting>; MAX_HEADS] = [None; MAX_HEADS];
    let mut serial = None;
    let mut entries = Vec::new();
    for sighting in sightings {
        if serial.is_some_and(|before: u64| sighting.serial.checked_sub(before) != Some(1)) {
            last = [None; MAX_HEADS];
        }
        serial = Some(sighting.serial);
        let Some(before) = last.get_mut(usize::from(sighting.head)) else {
            continue;
        };
        if let Some(before) = before.replace(sighting)
            && before.segment_incarnation != sighting.segment_incarnation
        {
            entries.push((u64::from(before.next_segment), sighting.sector * SECTOR));
        }
    }
    entries
}

/// Returns candidates for write unit, segment size and first segment, the most plausible
/// first.
fn layouts(device: &dyn Device, sightings: &[Sighting]) -> Vec<(u32, u32, u64)> {
    let all = sightings
        .iter()
        .fold(0, |all, s| all | (s.sector * SECTOR) | s.bytes);
    let coarsest = 1u64 << all.trailing_zeros().min(16);
    let entries = entries(sightings);
    let mut scored = Vec::new();
    let mut unit = STEP;
    while unit <= coarsest.max(STEP) {
        for shift in 16..=30 {
            let segment_bytes = 1u64 << shift;
            if segment_bytes < 16 * unit {
                continue;
            }
            let usual = fixed_layout(unit as u32, 256, segment_bytes as u32).1;
            let mut firsts = vec![usual];
            for (segment, byte) in entries.iter().take(64) {
                for start in [0, unit] {
                    let before = segment * segment_bytes + start;
                    firsts.extend(byte.checked_sub(before).filter(|first| *first >= 4 * unit));
                }
            }
            firsts.sort_unstable();
            firsts.dedup();
            for first in firsts {
                let score = score(first, segment_bytes, unit, &entries, sightings);
                let ordinary = first == usual;
                let default = u64::from(default_segment_bytes(device.geometry().size));
                let key = (score, ordinary, segment_bytes == default, unit);
                scored.push((key, (unit as u32, segment_bytes as u32, first)));
            }
        }
        unit *= 2;
    }
    scored.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key));
    scored
        .into_iter()
        .map(|(_, layout)| layout)
        .take(8)
        .collect()
}

/// Returns a score of a layout: summaries and entries that fit raise it, others lower it.
fn score(
    first: u64,
    segment_bytes: u64,
    unit: u64,
    entries: &[(u64, u64)],
    sightings: &[Sighting],
) -> i64 {
    if !first.is_multiple_of(unit) {
        return i64::MIN;
    }
    let entered = |(segment, byte): &&(u64, u64)| {
        let start = first + segment * segment_bytes;
        *byte == start || *byte == start + unit
    };
    let mut score = 4 * entries.iter().filter(entered).count() as i64;
    for sighting in sightings {
        let byte = sighting.sector * SECTOR;
        let inside = byte
            .checked_sub(first)
            .is_some_and(|offset| offset % segment_bytes + sighting.bytes <= segment_bytes);
        score += if inside { 0 } else { -4 };
    }
    // Partials of one opening share a segment.
    let mut segments: BTreeMap<u32, u64> = BTreeMap::new();
    for sighting in sightings {
        let segment = (sighting.sector * SECTOR).saturating_sub(first) / segment_bytes;
        let known = *segments
            .entry(sighting.segment_incarnation)
            .or_insert(segment);
        score += if known == segment { 1 } else { -4 };
    }
    // Different openings have different segments, except for leftovers.
    let places: std::collections::BTreeSet<u64> = segments.values().copied().collect();
    score - 2 * (segments.len() - places.len()) as i64
}

fn draft(
    device: &dyn Device,
    tag: u64,
    case_fold: bool,
    unit: u32,
    segment_bytes: u32,
    first_segment: u64,
) -> Option<Superblock> {
    let unit64 = u64::from(unit);
    let device_bytes = device.geometry().size / unit64 * unit64;
    let room = device_bytes.checked_sub(first_segment + unit64)?;
    let count = u32::try_from(room / u64::from(segment_bytes)).ok()?;
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&tag.to_le_bytes());
    let reserve = Reserve::of((segment_bytes, BLOCK_BYTES), count.into()).segments();
    let reserve = u32::try_from(reserve).ok()?.min(count.checked_sub(1)?);
    Some(Superblock {
        magic: MAGIC,
        crc: 0.into(),
        version: VERSION.into(),
        checksum_kind: CHECKSUM_CRC32C,
        options: u8::from(case_fold),
        compat: 0.into(),
        read_only_compat: 0.into(),
        incompat: (incompat_flags::ALL & !incompat_flags::ALIGNED).into(),
        uuid,
        label: [0; 64],
        hash_seed: (tag.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15).into(),
        block_bytes: BLOCK_BYTES.into(),
        write_unit: unit.into(),
        segment_bytes: segment_bytes.into(),
        inode_bytes: 256.into(),
        segment_count: count.into(),
        record_bytes: 4096.into(),
        record_count: 2.into(),
        copy_stride: count.div_ceil(8).max(1).into(),
        first_segment: first_segment.into(),
        owner_offset: unit64.into(),
        ring_offset: (2 * unit64).into(),
        device_bytes: device_bytes.into(),
        created_ns: 0.into(),
        generation: 1.into(),
        sector: 0.into(),
        reserve_segments: reserve.into(),
        spare: [0; 4],
        tag: 0.into(),
        spare_2: [0; 280],
    })
}

/// Returns the sizes of inodes and blocks.
fn sizes(device: &dyn Device, superblock: &Superblock, sightings: &[Sighting]) -> (u32, u32) {
    let mut votes: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut highest, mut largest) = (0, 0);
    let step = sightings.len().div_ceil(SAMPLES).max(1);
    // A longer partial is a filler without information.
    let telling = |sighting: &&Sighting| sighting.bytes <= u64::from(MAX_PARTIAL_BYTES);
    for sighting in sightings.iter().rev().step_by(step).filter(telling) {
        let mut bytes = vec![0; sighting.bytes as usize];
        if device.read(sighting.sector * SECTOR, &mut bytes).is_err() {
            continue;
        }
        for inode_bytes in [256, 512, 1024, 2048, 4096] {
            let geometry = Geometry {
                inode_bytes,
                // The largest size of the format admits every block.
                block_bytes: 65536,
                ..Geometry::from(superblock)
            };
            let Some(summary) = parsed(&bytes, &geometry, superblock.volume_tag(), sighting) else {
                continue;
            };
            let items = summary.items(&geometry).unwrap_or_default();
            let payload = Payload::of(bytes.clone());
            for item in &items {
                match item {
                    ChainItem::Inode { place, .. }
                        if crc32c(summary.stored(&geometry, item, &payload)) == place.crc =>
                    {
                        *votes.entry(inode_bytes).or_default() += 1;
                    }
                    ChainItem::Block {
                        ino,
                        block,
                        pointer,
                        xattrs: false,
                        ..
                    } => {
                        if *ino == InodeNo::IFILE {
                            highest = highest.max(*block);
                        }
                        largest = largest.max(u32::from(pointer.sectors()) * SECTOR as u32);
                    }
                    _ => {}
                }
            }
        }
    }
    let inode_bytes = votes.iter().max_by_key(|(_, count)| **count);
    let inode_bytes = inode_bytes.map_or(256, |(bytes, _)| *bytes);
    let by_map = [4096, 8192, 16384, 32768, 65536]
        .into_iter()
        .find(|bytes| highest >= IMAP_OFFSET / u64::from(*bytes));
    let by_data = largest.next_power_of_two().clamp(4096, 65536);
    (inode_bytes, by_map.unwrap_or(by_data).max(by_data))
}

/// Parses the summary as part of the segment in which it is stored.
fn parsed(bytes: &[u8], geometry: &Geometry, tag: u64, sighting: &Sighting) -> Option<Summary> {
    let segment = geometry.segment_of(sighting.sector)?;
    let offset = sighting.sector * SECTOR - geometry.byte(segment, 0);
    Summary::begins(bytes, geometry, tag, segment, offset as u32).ok()
}
