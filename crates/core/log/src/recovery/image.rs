//! The image of a checkpoint record: the usage table and the list of unfinished inodes
//! are read whole, all other parts stay on the device.
//!
//! Counts that no volume of this size can have are refused, so that later code need not
//! guard its sums and its memory.

use crate::base::Base;
use crate::error::Result;
use crate::format::checkpoint::CheckpointRecord;
use crate::format::history::HISTORY;
use crate::format::ifile::{ENTRY_BYTES, MAX_INO, UNFINISHED_OFFSET, USAGE_OFFSET, usage_flags};
use crate::format::index::Index;
use crate::format::inode::InodeImage;
use crate::format::{Malformed, UsageEntry, entries};
use crate::geometry::Geometry;
use crate::history::HistoryImage;
use crate::reader::Reader;
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_fs::{InodeNo, Usage};
use zerocopy::little_endian::U64;

/// Height that is assumed of indexes for which no record states one: that of a file of 50
/// GB written in one go is less. Once a taller index is folded, its height is recorded.
const TALLEST_UNKNOWN: u8 = 3;

/// Loads the image that `record` describes.
///
/// # Errors
/// If it cannot be read.
pub fn load_base(
    reader: &Reader,
    geometry: &Geometry,
    record: &CheckpointRecord,
) -> Result<(Base, Vec<UsageEntry>)> {
    let header = &record.header;
    if record.ifile.len() != geometry.inode_bytes as usize {
        return Err(
            Malformed::new("checkpoint record", "the ifile's inode has a wrong size").into(),
        );
    }
    let ifile = InodeImage::decode(&record.ifile, InodeNo::IFILE)?;
    if ifile.root.is_none() {
        return Err(Malformed::new("checkpoint record", "the ifile's inode has no root").into());
    }
    let most_bytes = geometry.volume_bytes();
    let most = most_bytes / u64::from(geometry.inode_bytes);
    let sound = header.serial.get() < 1 << 62
        && header.next_ino.get() <= MAX_INO
        && header.free_head.get() < header.next_ino.get().max(1)
        && header.free_count.get() <= header.next_ino.get()
        && header.unfinished_count.get() <= most
        && header.inodes_used.get() <= header.next_ino.get()
        && header.metadata_bytes.get() <= most_bytes
        && header.sectors_used.get() <= most_bytes
        && header.blocks_used.get() <= most_bytes;
    if !sound {
        return Err(Malformed::new("checkpoint record", "its counts are impossible").into());
    }
    let mut base = Base {
        serial: header.serial.get(),
        ifile,
        next_ino: header.next_ino.get(),
        first_version: header.first_version.get().max(1),
        free_head: header.free_head.get(),
        free_count: header.free_count.get(),
        unfinished: BTreeSet::new(),
        usage: Usage {
            inodes: header.inodes_used.get(),
            blocks: header.blocks_used.get(),
            sectors: header.sectors_used.get(),
        },
        metadata_bytes: header.metadata_bytes.get(),
        tallest: header.tallest().unwrap_or(TALLEST_UNKNOWN),
        history: Arc::default(),
    };
    if geometry.snapshots {
        let loaded = base
            .inode(reader, geometry, HISTORY)
            .and_then(|inode| HistoryImage::load(inode, reader, geometry));
        // The tree can be read without; nothing can be written without.
        base.history = Arc::new(loaded.unwrap_or_else(|error| HistoryImage {
            problem: Some(error.to_string()),
            ..HistoryImage::default()
        }));
    }
    base.unfinished = load_unfinished(reader, geometry, &base, header.unfinished_count.get())?;
    let mut table = load_usage(reader, geometry, &base)?;
    for delta in &record.deltas {
        if let Some(entry) = table.get_mut(delta.segment.get() as usize) {
            let live = i64::from(entry.live_bytes.get()).saturating_add(delta.bytes.get());
            entry.live_bytes = (live.clamp(0, i64::from(u32::MAX)) as u32).into();
            if delta.bytes.get() > 0 {
                // The table itself was written there, and the nodes above it.
                entry.flags = (entry.flags.get() & !usage_flags::DATA_ONLY).into();
            }
            if delta.incarnation.get() != 0 {
                entry.incarnation = delta.incarnation;
            }
        }
    }
    Ok((base, table))
}

fn load_usage(reader: &Reader, geometry: &Geometry, base: &Base) -> Result<Vec<UsageEntry>> {
    let block_bytes = u64::from(geometry.block_bytes);
    let count = geometry.segment_count as usize;
    let blocks = (count * ENTRY_BYTES).div_ceil(block_bytes as usize) as u64;
    let first = USAGE_OFFSET / block_bytes;
    let tree = base.ifile_tree(reader);
    let mut pointers = Vec::new();
    tree.blocks(first, first + blocks, &mut |block, pointer| {
        pointers.push((block, pointer));
        true
    })?;
    let mut table = vec![UsageEntry::default(); count];
    let contents = match reader.is_patched() {
        false => reader.run(InodeNo::IFILE, &pointers)?,
        true => pointers
            .iter()
            .map(|(block, pointer)| reader.ifile_block(pointer, *block))
            .collect::<Result<_>>()?,
    };
    for ((block, _), bytes) in pointers.iter().zip(contents) {
        let at = ((block - first) * geometry.entries_per_block()) as usize;
        for (entry, stored) in table[at..].iter_mut().zip(entries(&bytes)) {
            *entry = *stored;
        }
    }
    Ok(table)
}

fn load_unfinished(
    reader: &Reader,
    geometry: &Geometry,
    base: &Base,
    count: u64,
) -> Result<BTreeSet<u64>> {
    let block_bytes = u64::from(geometry.block_bytes);
    let tree = base.ifile_tree(reader);
    let mut list = BTreeSet::new();
    let mut left = count;
    let mut block = UNFINISHED_OFFSET / block_bytes;
    while left > 0 {
        let Some(pointer) = tree.get(block)? else {
            return Err(
                Malformed::new("ifile", "the list of unfinished inodes is cut short").into(),
            );
        };
        let bytes = reader.ifile_block(&pointer, block)?;
        let here = left.min(block_bytes / 8) as usize;
        list.extend(
            entries::<U64>(&bytes)
                .iter()
                .take(here)
                .map(|ino| ino.get()),
        );
        left -= here as u64;
        block += 1;
    }
    Ok(list)
}
