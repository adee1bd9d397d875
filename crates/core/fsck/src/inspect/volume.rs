//! Superblocks, the owner record, the checkpoint ring, and an overview of the volume.

mod text;

use super::Inspector;
use serde::Serialize;
pub use varve_format::identity::uuid_text;
use varve_lfs::format::checkpoint::{CheckpointRecord, checkpoint_flags};
use varve_lfs::format::owner::OwnerRecord;
use varve_lfs::format::{LogPosition, Superblock};
use varve_lfs::internal::{LogEnd, read_ring};
use varve_lfs::{SegmentState, superblock_offsets};

/// One copy of the superblock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SuperblockView {
    /// Byte address of the copy.
    pub offset: u64,
    /// Generation of the copy, if it is valid.
    pub generation: Option<u64>,
    /// True if it equals the copy in use.
    pub in_use: bool,
    /// The reason why it was refused.
    pub problem: Option<String>,
}

/// The present or last owner of a mount of the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerView {
    /// True if the volume was not unmounted: it is mounted, or its server crashed.
    pub mounted: bool,
    /// Name of the host.
    pub host: String,
    /// Identity of the host's boot.
    pub boot_id: String,
    /// Process number on that host.
    pub pid: u32,
    /// Identity of the mount.
    pub mount_id: u64,
    /// Time of the mount, in ns since 1970.
    pub since_ns: i64,
}

/// One slot of the checkpoint ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlotView {
    /// Number of the slot.
    pub slot: u32,
    /// Byte address of the slot.
    pub offset: u64,
    /// True if recovery started from it.
    pub used: bool,
    /// The record in the slot.
    pub record: Option<RecordView>,
    /// The reason why it was refused.
    pub problem: Option<String>,
}

/// A position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PositionView {
    /// Serial of the last partial segment before the position.
    pub serial: u64,
    /// Segment of that partial.
    pub segment: u32,
    /// Byte offset behind that partial.
    pub offset: u32,
    /// Segment in which the log continues after this one.
    pub next_segment: u32,
    /// Number of the mount that wrote that partial.
    pub incarnation: u32,
    /// Incarnation of the segment.
    pub segment_incarnation: u32,
}

impl From<&LogPosition> for PositionView {
    fn from(position: &LogPosition) -> Self {
        PositionView {
            serial: position.serial.get(),
            segment: position.segment.get(),
            offset: position.offset.get(),
            next_segment: position.next_segment.get(),
            incarnation: position.incarnation.get(),
            segment_incarnation: position.segment_incarnation.get(),
        }
    }
}

/// Position of a further head of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeadView {
    /// Number of the head, from 1; the first head is in [`PositionView`].
    pub head: usize,
    /// Segment of its last partial; equal to `next_segment` if it has none.
    pub segment: u32,
    /// Byte offset behind that partial.
    pub offset: u32,
    /// Segment in which the head continues.
    pub next_segment: u32,
}

impl HeadView {
    /// Returns all heads except for the first.
    fn further(end: &LogEnd) -> Vec<Self> {
        let views = end.positions().enumerate().skip(1);
        let views = views.map(|(head, position)| HeadView {
            head,
            segment: position.segment.get(),
            offset: position.offset.get(),
            next_segment: position.next_segment.get(),
        });
        views.collect()
    }
}

/// A checkpoint record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordView {
    /// Serial of the checkpoint.
    pub serial: u64,
    /// True if a clean unmount wrote it.
    pub clean: bool,
    /// Time of writing, in ns since 1970.
    pub written_ns: i64,
    /// Position at which roll-forward starts.
    pub position: PositionView,
    /// Positions of the log's other heads at that time.
    pub further_heads: Vec<HeadView>,
    /// Number of segments opened so far.
    pub segments_opened: u32,
    /// Highest inode number used plus one.
    pub next_ino: u64,
    /// First number of the free list; 0 if it is empty.
    pub free_head: u64,
    /// Length of the free list.
    pub free_count: u64,
    /// Number of inodes on the unfinished list.
    pub unfinished_count: u64,
    /// Number of inodes in use.
    pub inodes_used: u64,
    /// Number of blocks in use.
    pub blocks_used: u64,
    /// Number of sectors in use.
    pub sectors_used: u64,
    /// Live bytes of index nodes and ifile.
    pub metadata_bytes: u64,
    /// Last serial that was flushed before the record.
    pub durable_through: u64,
    /// Corrections of the usage table: segment and bytes.
    pub corrections: Vec<(u32, i64)>,
}

impl From<&CheckpointRecord> for RecordView {
    fn from(record: &CheckpointRecord) -> Self {
        let header = &record.header;
        RecordView {
            serial: header.serial.get(),
            clean: header.flags.get() & checkpoint_flags::CLEAN != 0,
            written_ns: header.written_ns.get(),
            position: PositionView::from(&header.position),
            further_heads: HeadView::further(&LogEnd::from(header)),
            segments_opened: header.segments_opened.get(),
            next_ino: header.next_ino.get(),
            free_head: header.free_head.get(),
            free_count: header.free_count.get(),
            unfinished_count: header.unfinished_count.get(),
            inodes_used: header.inodes_used.get(),
            blocks_used: header.blocks_used.get(),
            sectors_used: header.sectors_used.get(),
            metadata_bytes: header.metadata_bytes.get(),
            durable_through: header.durable_through.get(),
            corrections: record
                .deltas
                .iter()
                .map(|delta| (delta.segment.get(), delta.bytes.get()))
                .collect(),
        }
    }
}

/// Overview of the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeView {
    /// Name of the device.
    pub device: String,
    /// UUID in the usual notation.
    pub uuid: String,
    /// Tag in every structure of the volume: the beginning of its original UUID.
    pub tag: String,
    /// Label of the volume.
    pub label: String,
    /// Format version.
    pub version: u16,
    /// Feature bits: compatible, read-only-compatible, incompatible.
    pub features: [u64; 3],
    /// True if names compare without regard to case.
    pub case_fold: bool,
    /// Time of creation, in ns since 1970.
    pub created_ns: i64,
    /// Number of times the volume was relabelled or resized.
    pub generation: u64,
    /// Bytes that the volume covers.
    pub device_bytes: u64,
    /// Bytes per logical block.
    pub block_bytes: u32,
    /// Alignment of partial segments in bytes.
    pub write_unit: u32,
    /// Bytes per segment.
    pub segment_bytes: u32,
    /// Number of segments.
    pub segment_count: u32,
    /// Number of segments in the reserve.
    pub reserve_segments: u32,
    /// Bytes per inode.
    pub inode_bytes: u32,
    /// Byte address of segment 0.
    pub first_segment: u64,
    /// Number of segments that may be reused.
    pub segments_clean: u32,
    /// Inodes, blocks and sectors in use.
    pub used: [u64; 3],
    /// Live bytes of index nodes and ifile.
    pub metadata_bytes: u64,
    /// Serial of the checkpoint from which recovery started; 0 if there is none.
    pub checkpoint: u64,
    /// True if the last unmount was clean and nothing was logged since.
    pub clean: bool,
    /// Number of groups in the log behind the checkpoint.
    pub groups_behind: u64,
    /// End of the log and position of its first head.
    pub position: Option<PositionView>,
    /// Positions of the other heads.
    pub further_heads: Vec<HeadView>,
    /// Time of this overview, in ns since 1970.
    pub now_ns: i64,
    /// Structures that could not be read, as text.
    pub problems: Vec<String>,
}

impl Inspector {
    /// Returns every copy of the superblock, the primary first.
    pub fn superblocks(&self) -> Vec<SuperblockView> {
        let mut bytes = vec![0; self.geometry.write_unit as usize];
        superblock_offsets(&self.superblock)
            .map(|offset| {
                let parsed = self
                    .device
                    .read(offset, &mut bytes)
                    .map_err(|error| error.to_string())
                    .and_then(|()| Superblock::parse(&bytes, offset / 512).map_err(|m| m.problem));
                let ours = self.superblock.sealed_for(0);
                SuperblockView {
                    offset,
                    generation: parsed.as_ref().ok().map(|sb| sb.generation.get()),
                    in_use: parsed.as_ref().is_ok_and(|sb| sb.sealed_for(0) == ours),
                    problem: parsed.err(),
                }
            })
            .collect()
    }

    /// Returns the superblock in use.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the owner record.
    ///
    /// # Errors
    /// The reason why there is none, as text; a volume that was never mounted has none.
    pub fn owner(&self) -> Result<OwnerView, String> {
        let mut bytes = vec![0; self.geometry.write_unit as usize];
        self.device
            .read(self.superblock.owner_offset.get(), &mut bytes)
            .map_err(|error| error.to_string())?;
        let record = OwnerRecord::parse(&bytes, self.superblock.volume_tag())
            .map_err(|malformed| malformed.to_string())?;
        Ok(OwnerView {
            mounted: record.mounted.get() != 0,
            host: record.host_text(),
            boot_id: record.boot_text(),
            pid: record.pid.get(),
            mount_id: record.mount_id.get(),
            since_ns: record.since_ns.get(),
        })
    }

    /// Returns every slot of the checkpoint ring.
    pub fn checkpoints(&self) -> Vec<SlotView> {
        let used = self
            .loaded
            .as_ref()
            .map(|loaded| loaded.record.header.serial.get());
        let length = u64::from(self.superblock.record_bytes.get());
        (0..)
            .zip(read_ring(&*self.device, &self.superblock))
            .map(|(slot, record)| SlotView {
                slot,
                offset: self.superblock.ring_offset.get() + u64::from(slot) * length,
                used: record
                    .as_ref()
                    .is_ok_and(|record| Some(record.header.serial.get()) == used),
                record: record.as_ref().ok().map(RecordView::from),
                problem: record.err().map(|malformed| malformed.problem),
            })
            .collect()
    }

    /// Returns the overview of the volume.
    pub fn volume(&self) -> VolumeView {
        let sb = &self.superblock;
        let state = self.loaded.as_ref().map(|loaded| &loaded.state);
        let usage = state.map(|state| state.usage).unwrap_or_default();
        let report = state.map(|state| state.report.clone()).unwrap_or_default();
        let segments_clean = state.map_or(0, |state| {
            let clean = |state: SegmentState| state == SegmentState::Clean;
            state
                .segments
                .iter()
                .filter(|(_, s)| clean(s.state))
                .count() as u32
        });
        VolumeView {
            device: self.device.name(),
            uuid: uuid_text(&sb.uuid),
            tag: tag_text(sb.volume_tag()),
            label: sb.label_text(),
            version: sb.version.get(),
            features: [
                sb.compat.get(),
                sb.read_only_compat.get(),
                sb.incompat.get(),
            ],
            case_fold: sb.case_fold(),
            created_ns: sb.created_ns.get(),
            generation: sb.generation.get(),
            device_bytes: sb.device_bytes.get(),
            block_bytes: sb.block_bytes.get(),
            write_unit: sb.write_unit.get(),
            segment_bytes: sb.segment_bytes.get(),
            segment_count: sb.segment_count.get(),
            reserve_segments: sb.reserve_segments.get(),
            inode_bytes: sb.inode_bytes.get(),
            first_segment: sb.first_segment.get(),
            segments_clean,
            used: [usage.inodes, usage.blocks, usage.sectors],
            metadata_bytes: state.map_or(0, |state| state.base.metadata_bytes),
            checkpoint: report.checkpoint,
            clean: report.clean && report.groups == 0,
            groups_behind: report.groups,
            position: state.map(|state| PositionView::from(&state.end.at(0))),
            further_heads: state.map_or_else(Vec::new, |state| HeadView::further(&state.end)),
            now_ns: self.now_ns,
            problems: self.problems.clone(),
        }
    }
}

/// Formats a volume tag as the beginning of a UUID, in 16 digits.
fn tag_text(tag: u64) -> String {
    format!("{:016x}", tag.swap_bytes())
}
