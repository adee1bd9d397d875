//! Text form of the volume's structures, for `varve dump`.

use super::{HeadView, OwnerView, PositionView, RecordView, SlotView, SuperblockView, VolumeView};
use crate::inspect::utc;
use std::fmt;

impl fmt::Display for SuperblockView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        match (self.generation, &self.problem) {
            (_, Some(problem)) => write!(f, "refused: {problem}"),
            (Some(generation), None) if self.in_use => write!(f, "generation {generation}"),
            (generation, None) => write!(
                f,
                "generation {}, differs from the one in use",
                generation.unwrap_or(0)
            ),
        }
    }
}

impl fmt::Display for OwnerView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.mounted {
            "in use, or not released,"
        } else {
            "released"
        };
        write!(
            f,
            "{state} by process {} on \"{}\" (boot {}), mount {:#018x}, {}",
            self.pid,
            self.host,
            self.boot_id,
            self.mount_id,
            utc(self.since_ns)
        )
    }
}

impl fmt::Display for PositionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "behind partial {} at byte {} of segment {} (opened as {}), then segment {}",
            self.serial, self.offset, self.segment, self.segment_incarnation, self.next_segment
        )
    }
}

impl fmt::Display for HeadView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "head {}: at byte {} of segment {}, then segment {}",
            self.head, self.offset, self.segment, self.next_segment
        )
    }
}

impl fmt::Display for RecordView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "checkpoint {}, {}{}",
            self.serial,
            utc(self.written_ns),
            if self.clean { ", clean" } else { "" }
        )?;
        writeln!(f, "  log: {}", self.position)?;
        for head in &self.further_heads {
            writeln!(f, "  {head}")?;
        }
        writeln!(
            f,
            "  in use: {} inodes, {} blocks, {} sectors; {} bytes of metadata",
            self.inodes_used, self.blocks_used, self.sectors_used, self.metadata_bytes
        )?;
        write!(
            f,
            "  inode numbers below {}, {} free from {}, {} unfinished; {} segments opened; \
             durable through {}; {} corrections",
            self.next_ino,
            self.free_count,
            self.free_head,
            self.unfinished_count,
            self.segments_opened,
            self.durable_through,
            self.corrections.len()
        )
    }
}

impl fmt::Display for SlotView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = if self.used { " (in use)" } else { "" };
        write!(f, "slot {} at byte {}{used}: ", self.slot, self.offset)?;
        match (&self.record, &self.problem) {
            (Some(record), _) => write!(f, "{record}"),
            (None, problem) => write!(f, "refused: {}", problem.as_deref().unwrap_or("")),
        }
    }
}

impl fmt::Display for VolumeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "device:     {}, {} bytes",
            self.device.escape_debug(),
            self.device_bytes
        )?;
        writeln!(f, "volume:     {} {:?}", self.uuid, self.label)?;
        if !self.uuid.replace('-', "").starts_with(&self.tag) {
            writeln!(f, "tag:        {} (its first UUID began so)", self.tag)?;
        }
        writeln!(
            f,
            "format:     version {}, generation {}, made {}",
            self.version,
            self.generation,
            utc(self.created_ns)
        )?;
        writeln!(
            f,
            "segments:   {} of {} bytes, {} clean, {} in reserve",
            self.segment_count, self.segment_bytes, self.segments_clean, self.reserve_segments
        )?;
        writeln!(
            f,
            "units:      blocks of {}, write unit {}, inodes of {} bytes",
            self.block_bytes, self.write_unit, self.inode_bytes
        )?;
        let [inodes, blocks, sectors] = self.used;
        writeln!(
            f,
            "in use:     {inodes} inodes, {blocks} blocks, {} bytes; {} bytes of metadata",
            sectors.saturating_mul(512),
            self.metadata_bytes
        )?;
        write!(
            f,
            "checkpoint: {}, {}",
            self.checkpoint,
            if self.clean {
                "clean".to_owned()
            } else {
                format!("{} groups in the log behind it", self.groups_behind)
            }
        )?;
        for problem in &self.problems {
            write!(f, "\nproblem:    {problem}")?;
        }
        Ok(())
    }
}
