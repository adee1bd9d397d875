//! Counters as JSON.

use serde_json::{Value, json};
use varve_nbd::Export;
use varve_vlog::format::Layout;
use varve_vlog::{Medium, Recovery, VldStatistics};

use super::serve::LogDisk;

/// Counters of requests and of the disk.
pub fn all(export: &Export, log_disk: Option<&LogDisk>) -> Value {
    let mut all = json!({ "nbd": export.counters().to_json() });
    if let Some(vld) = log_disk {
        all["vld"] = of_disk(&vld.statistics());
        if let Some(now_ns) = vld.medium().now_ns() {
            all["drive_time_ns"] = now_ns.into();
        }
    }
    all
}

/// A virtual log disk's counters.
pub fn of_disk(counts: &VldStatistics) -> Value {
    json!({
        "blocks_written": counts.blocks_written,
        "blocks_merged": counts.blocks_merged,
        "records_written": counts.records_written,
        "commits": counts.commits,
        "checkpoints": counts.checkpoints,
        "blocks_moved": counts.blocks_moved,
        "blocks_realigned": counts.blocks_realigned,
        "tracks_emptied": counts.tracks_emptied,
        "records_retried": counts.records_retried,
        "writes_retried": counts.writes_retried,
        "blocks_mapped": counts.blocks_mapped,
        "blocks_astride": counts.blocks_astride,
        "blocks_free": counts.blocks_free,
        "tracks_empty": counts.tracks_empty,
        "records_waiting": counts.records_waiting,
    })
}

/// A virtual log disk's geometry.
pub fn of_layout(layout: &Layout) -> Value {
    json!({
        "volume": format!("{:016x}", layout.volume),
        "bytes": layout.logical_blocks * u64::from(layout.block_bytes),
        "block_bytes": layout.block_bytes,
        "unit_bytes": layout.unit_bytes,
        "logical_blocks": layout.logical_blocks,
        "physical_blocks": layout.physical_blocks,
        "anywhere": layout.anywhere,
    })
}

/// The recovery at the open.
pub fn of_recovery(recovery: &Recovery) -> Value {
    json!({
        "parked": recovery.source == varve_vlog::Source::Tail,
        "records_read": recovery.records_read,
        "records_discarded": recovery.records_discarded,
        "checkpoint_seq": recovery.checkpoint_seq,
        "tail_seq": recovery.tail_seq,
        "checkpoints_damaged": recovery.checkpoints_damaged,
    })
}
