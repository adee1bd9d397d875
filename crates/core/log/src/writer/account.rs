//! Counting the bytes of a partial segment by cause.
//!
//! Every byte that the log writes is counted once: the sum of the causes of
//! [`crate::Statistics::written_by_cause`] is the number of bytes that the device takes.

use crate::format::SECTOR;
use crate::format::ifile::UNFINISHED_OFFSET;
use crate::log::item::{GroupKind, LogItem};
use crate::log::plan::PartialPlan;
use crate::statistics::Counters;
use crate::writer::Writer;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_fs::InodeNo;

impl Writer {
    /// Counts one partial segment of a group of this kind, made of `items`.
    pub(super) fn account(&self, plan: &PartialPlan, items: &[LogItem], kind: GroupKind) {
        let (c, size) = (&self.counters, &plan.size);
        let add = |counter: &AtomicU64, bytes: u64| {
            counter.fetch_add(bytes, Relaxed);
        };
        // A filler stores its summary only.
        let stored = match items {
            [] => self.geometry.write_unit,
            _ => plan.bytes,
        };
        add(&c.summary_bytes, u64::from(size.summary_sectors()) * SECTOR);
        let sectors =
            size.summary_sectors() + size.block_sectors() + size.inode_sectors(&self.geometry);
        add(
            &c.padding_bytes,
            u64::from(stored) - u64::from(sectors) * SECTOR,
        );
        add(&c.skipped_bytes, u64::from(plan.bytes - stored));
        let own = u64::from(size.block_sectors()) * SECTOR;
        let (mut plugged, mut mapped) = (0, 0);
        for chunk in &plan.plugs {
            let pages = chunk.pages.len() as u64 * u64::from(self.geometry.block_bytes);
            mapped += pages;
            plugged += u64::from(chunk.bytes(&self.geometry)) - pages;
        }
        add(&c.map_bytes, mapped);
        add(&c.plugged_bytes, plugged);
        add(&c.segments_plugged, plan.plugs.len() as u64);
        let blocks = own + plugged;
        let inodes = u64::from(size.inode_sectors(&self.geometry)) * SECTOR;
        match kind {
            GroupKind::User | GroupKind::Spill(_) => {
                add(&c.user_log_bytes, u64::from(stored));
                add(&c.data_bytes, blocks);
                add(&c.inode_bytes, inodes);
            }
            GroupKind::Cleaner(_) | GroupKind::Coalescing(_) => {
                let moved = match kind {
                    GroupKind::Coalescing(_) => &c.coalesced_bytes,
                    _ => &c.cleaner_bytes,
                };
                add(moved, blocks + inodes);
                add(&c.cleaner_log_bytes, u64::from(stored));
            }
            GroupKind::Checkpoint => {
                for item in items {
                    let bytes = u64::from(item.stored_sectors(&self.geometry)) * SECTOR;
                    add(self.checkpoint_cause(c, item), bytes);
                }
                add(&c.inode_bytes, inodes);
                add(&c.checkpoint_log_bytes, u64::from(stored));
            }
        }
    }

    /// The cause for a block written by a checkpoint.
    fn checkpoint_cause<'c>(&self, c: &'c Counters, item: &LogItem) -> &'c AtomicU64 {
        let unit = u64::from(self.geometry.block_bytes);
        match item {
            LogItem::Node { .. } => &c.node_bytes,
            LogItem::Block {
                ino: InodeNo::IFILE,
                block,
                ..
            } if block * unit < UNFINISHED_OFFSET => &c.usage_table_bytes,
            LogItem::Block {
                ino: InodeNo::IFILE,
                ..
            } => &c.inode_map_bytes,
            // Inodes and records have no blocks; attributes that a checkpoint stores are
            // data.
            _ => &c.data_bytes,
        }
    }
}
