//! Recovery: the newest valid checkpoint, then roll-forward over whole groups.
//!
//! Roll-forward begins at the newest record of the [`ring`] whose [`image`] can be
//! loaded. It follows the chain of summaries from the record's position (protocol rules 8
//! and 9), verifies each partial's payload ([`replay`]), and applies a group when its
//! last partial has proved valid (rule 1, [`redo`]). It continues after the last valid
//! partial even if that one's group is incomplete (rule 10). Where the chain ends,
//! [`tail`] searches for proof that it should not end. Nothing is written meanwhile. A
//! mount for writing flushes before its first write (rule 12), and clears with that flush
//! what [`leftover`] finds.

mod image;
mod leftover;
mod redo;
mod replay;
mod ring;
mod tail;

pub use image::load_base;
pub use leftover::clear as clear_leftover;
pub use ring::{read_ring, valid_records};
pub use tail::read_what_is_readable;

use crate::base::Base;
use crate::committed::Committed;
use crate::delta::Delta;
use crate::error::Result;
use crate::format::checkpoint::{CheckpointRecord, checkpoint_flags};
use crate::format::{Malformed, Mark, Superblock, UsageEntry};
use crate::geometry::Geometry;
use crate::heads::LogEnd;
use crate::locks::{Rank, RankedRwLock};
use crate::reader::Reader;
use crate::segments::SegmentTable;
use replay::Replay;
use std::collections::BTreeSet;
use std::sync::Arc;
use varve_device::Device;
use varve_fs::Usage;

/// Findings and actions of a mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct RecoveryReport {
    /// Number of the checkpoint at which it started.
    pub checkpoint: u64,
    /// Refused records of the ring, newest first, with the reason.
    pub refused_records: Vec<String>,
    /// The last unmount was clean.
    pub clean: bool,
    /// Partial segments read after the checkpoint.
    pub partials: u64,
    /// Groups applied.
    pub groups: u64,
    /// Bytes of log read.
    pub log_bytes: u64,
    /// Partials of an incomplete group that were dropped.
    pub dropped_partials: u64,
    /// The reason for which the chain ended.
    pub end: String,
    /// Descriptions of lost acknowledged data, for which the volume is read-only. Empty
    /// if there is none.
    pub damage: Vec<String>,
}

/// The result of roll-forward.
pub struct Recovered {
    /// The committed state, with the replayed groups in its live delta.
    pub(crate) committed: RankedRwLock<Committed>,
    /// The usage table, with segments of the replayed log marked.
    pub segments: SegmentTable,
    /// The position after the last valid partial.
    pub end: LogEnd,
    /// The end of the last whole group.
    pub mark: Mark,
    /// True if every valid record of the ring names as many heads (rule H4).
    pub heads_confirmed: bool,
    /// Byte addresses of leftovers of torn partials that could follow.
    pub leftovers: Vec<u64>,
    /// Usage of the volume.
    pub usage: Usage,
    /// Inodes without names or in the middle of a truncate.
    pub unfinished: BTreeSet<u64>,
    /// Report for the caller.
    pub report: RecoveryReport,
}

impl Recovered {
    /// The newest image.
    pub fn base(&self) -> Arc<Base> {
        Arc::clone(&self.committed.read().base)
    }

    /// The delta of the replayed groups, to be changed.
    pub fn live_mut(&mut self) -> &mut Delta {
        &mut self.committed.get_mut().live
    }
}

/// Recovers a volume in memory.
///
/// # Errors
/// If no checkpoint is usable, or the device fails.
pub fn recover(
    device: &dyn Device,
    superblock: &Superblock,
    reader: &Reader,
    geometry: &Geometry,
) -> Result<Recovered> {
    let mut report = RecoveryReport::default();
    let records = valid_records(device, superblock, &mut report)?;
    let recorded = records.iter().map(|r| r.header.durable_through.get()).max();
    let named: BTreeSet<u32> = records
        .iter()
        .map(|r| r.header.further_heads.get())
        .collect();
    let newest = records.first().map(|record| record.header.serial);
    let older = ring::before_newest(device, superblock, &records);
    let (record, base, table) = first_usable(reader, geometry, records, &mut report)?;
    // If recovery had to fall back, there is no older record.
    let older = older.filter(|_| Some(record.header.serial) == newest);
    let image = Image {
        record: &record,
        base,
        table,
        older: older.as_ref(),
    };
    let recorded = recorded.unwrap_or(0);
    let mut recovered = roll_forward(superblock, reader, geometry, image, recorded, report)?;
    recovered.heads_confirmed = named.len() == 1;
    Ok(recovered)
}

/// The start of roll-forward.
pub struct Image<'a> {
    /// The checkpoint's record.
    pub record: &'a CheckpointRecord,
    /// Its image.
    pub base: Base,
    /// Its usage table.
    pub table: Vec<UsageEntry>,
    /// The position of the record before it, if recovery could fall back to that one.
    /// Without it no segment is reused ahead of checkpoints for now.
    pub older: Option<&'a LogEnd>,
}

/// Replays the log after an image. Records state that the log was durable up to serial
/// `recorded`.
///
/// # Errors
/// If the device fails.
pub fn roll_forward(
    superblock: &Superblock,
    reader: &Reader,
    geometry: &Geometry,
    image: Image<'_>,
    recorded: u64,
    mut report: RecoveryReport,
) -> Result<Recovered> {
    let Image {
        record,
        base,
        table,
        older,
    } = image;
    report.checkpoint = base.serial;
    report.clean = record.header.flags.get() & checkpoint_flags::CLEAN != 0;
    let opened = record.header.segments_opened.get();
    let end = LogEnd::from(&record.header);
    let segments = SegmentTable::load(&table, opened, base.serial, &end, older);
    let usage = base.usage;
    let live = crate::delta::Delta::above(base.next_ino, base.history.directory.kept_through());
    let unfinished = base.unfinished.clone();
    let committed = Committed {
        base: Arc::new(base),
        frozen: None,
        live,
        usage,
    };
    let out = Recovered {
        committed: RankedRwLock::new(Rank::Committed, committed),
        segments,
        end,
        mark: end.at(0).into(),
        heads_confirmed: true,
        leftovers: Vec::new(),
        usage,
        unfinished,
        report,
    };
    let tag = superblock.volume_tag();
    Replay::new(geometry, reader, tag, recorded, out).run()
}

/// The newest record whose image can be read. The older one is retained for this
/// fallback.
fn first_usable(
    reader: &Reader,
    geometry: &Geometry,
    records: Vec<CheckpointRecord>,
    report: &mut RecoveryReport,
) -> Result<(CheckpointRecord, Base, Vec<UsageEntry>)> {
    let mut refused = None;
    for record in records {
        let loaded = LogEnd::from(&record.header)
            .check(geometry)
            .and_then(|()| load_base(reader, geometry, &record));
        match loaded {
            Ok((base, table)) => return Ok((record, base, table)),
            Err(error) => {
                tracing::error!(%error, serial = record.header.serial.get(), "checkpoint refused");
                report.refused_records.push(error.to_string());
                refused.get_or_insert(error);
            }
        }
    }
    let none = || Malformed::new("checkpoint record", "there is none").into();
    Err(refused.unwrap_or_else(none))
}

/// Unfinished inodes after replay.
pub fn unfinished_after(recovered: &Recovered) -> BTreeSet<u64> {
    let mut list = recovered.unfinished.clone();
    let committed = recovered.committed.read();
    committed.live.change_unfinished(&mut list);
    list
}
