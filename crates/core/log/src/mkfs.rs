//! Making a volume.

use crate::error::Error;
use crate::format::checkpoint::{
    CheckpointRecord, MAGIC as RECORD_MAGIC, checkpoint_flags, record_bytes_for,
};
use crate::format::ifile::{ENTRY_BYTES, IMAP_OFFSET, UNFINISHED_OFFSET, USAGE_OFFSET};
use crate::format::inode::{InodeImage, Root};
use crate::format::superblock::{CHECKSUM_CRC32C, MAGIC, VERSION, incompat_flags};
use crate::format::{CheckpointHeader, LogPosition, Pointer, Superblock};
use crate::geometry::Geometry;
use crate::superblocks::{self, superblock_offsets};
use std::io::IoSlice;
use varve_device::size::Bytes;
use varve_device::{Clock, Device};
use varve_format::identity::{Identity, identity};
use varve_fs::{FileKind, Inode, InodeNo, Timestamp};
use zerocopy::IntoBytes;

/// What a new volume is to be like.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Bytes in a logical block: 4096 to 65536.
    pub block_bytes: u32,
    /// Bytes in a segment; 0 chooses by the size of the volume.
    pub segment_bytes: u32,
    /// Bytes in an inode: 256 to 4096.
    pub inode_bytes: u32,
    /// Name for people, at most 64 bytes of UTF-8.
    pub label: String,
    /// Directory names compare without regard to case.
    pub case_fold: bool,
    /// Full blocks stand on write units, so that a full volume can write into
    /// holes (`docs/design/holes.md`). Without effect where the device's blocks are
    /// larger than the volume's.
    pub aligned: bool,
    /// Fixes identity and hash seed, for reproducible runs.
    pub seed: Option<u64>,
}

impl Default for FormatOptions {
    fn default() -> Self {
        FormatOptions {
            block_bytes: 4096,
            segment_bytes: 0,
            inode_bytes: 256,
            label: String::new(),
            case_fold: false,
            aligned: true,
            seed: None,
        }
    }
}

/// Copies of the superblock at the start of segments.
const COPIES: u32 = 8;
/// Largest share of a volume above [`SMALL_VOLUME`] that may be reserve.
const MAX_RESERVE_PERCENT: u64 = 5;
/// Segments that the usage table has room for.
const MAX_SEGMENTS: u64 = (UNFINISHED_OFFSET - USAGE_OFFSET) / ENTRY_BYTES as u64;
/// Volumes up to this size may have a larger reserve.
const SMALL_VOLUME: u64 = 64 << 20;

/// The segment size for a volume of `bytes`.
pub fn default_segment_bytes(bytes: u64) -> u32 {
    match bytes {
        0..=0x3ff_ffff => 128 << 10,
        0x400_0000..=0x1fff_ffff => 256 << 10,
        0x2000_0000..=0xffff_ffff => 512 << 10,
        0x1_0000_0000..=0xf_ffff_ffff => 1 << 20,
        _ => 4 << 20,
    }
}

/// What is held back on a volume of `count` segments, in segments. On top comes the
/// inode map, which grows with what a volume holds (`space`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Two for the log's head, and what every checkpoint writes: the usage table.
    fixed: u64,
    /// What the cleaner moves together while everything else is full.
    batch: u64,
    /// Kept from users so that a full volume still has something to clean: 2 % at
    /// least.
    pub slack: u64,
}

impl Reserve {
    /// Of a volume of such segments and blocks.
    ///
    /// The emptiest segments of a full volume have the slack's share of dead bytes
    /// at least. A batch of them must gain more than the pair of checkpoints that
    /// gives them back writes, so batch times slack is at least that price times the
    /// volume (`docs/design/space.md`). A price is an upper bound, of which a checkpoint
    /// without changes writes half.
    pub fn of((segment_bytes, block_bytes): (u32, u32), count: u64) -> Self {
        let table = count * 32 + 2 * u64::from(block_bytes);
        let checkpoint = table + 9 * 4096;
        let price = checkpoint.saturating_mul(count);
        let price = price.div_ceil(u64::from(segment_bytes));
        let fixed = 2 + table.div_ceil(u64::from(segment_bytes));
        let batch = 2 + u64::from((512 << 10) / segment_bytes).min(4);
        let batch = batch.max(price.isqrt() * 7 / 10);
        let least = (count / 50).max(1);
        let mut slack = least.max(price.div_ceil(batch));
        if count * u64::from(segment_bytes) > SMALL_VOLUME {
            let most = count * MAX_RESERVE_PERCENT / 100;
            slack = slack.min(most.saturating_sub(fixed + batch)).max(least);
        }
        Reserve {
            fixed,
            batch,
            slack,
        }
    }

    /// All of it.
    pub fn segments(&self) -> u64 {
        self.fixed + self.batch + self.slack
    }
}

/// Heads of the log whose segments the reserve of such a volume may hold.
pub(crate) fn most_heads(geometry: &Geometry) -> usize {
    let count = u64::from(geometry.segment_count);
    let most = match geometry.volume_bytes() {
        0..=SMALL_VOLUME => count / 2,
        _ => count * MAX_RESERVE_PERCENT / 100,
    };
    let spare = most.saturating_sub(u64::from(geometry.reserve_segments));
    1 + (spare / 2) as usize
}

/// Bytes of a slot of the checkpoint ring, and where the first segment begins.
pub fn fixed_layout(write_unit: u32, inode_bytes: u32, segment_bytes: u32) -> (u32, u64) {
    let unit = u64::from(write_unit);
    let record_bytes = record_bytes_for(inode_bytes as usize, 128, write_unit as usize) as u32;
    let ring_end = 2 * unit + 2 * u64::from(record_bytes);
    let align = u64::from(segment_bytes).min(1 << 20).max(unit);
    (record_bytes, ring_end.next_multiple_of(align.min(64 << 10)))
}

/// The superblock a volume of this device would have.
///
/// # Errors
/// `Format` says what is impossible and what would do.
pub fn plan(
    device: &dyn Device,
    options: &FormatOptions,
    now_ns: i64,
) -> Result<Superblock, Error> {
    let bad = |problem: String| Error::Format(problem);
    let disk = device.geometry();
    let unit = 4096
        .max(disk.logical_block)
        .max(disk.physical_block.min(65536));
    let segment_bytes = match options.segment_bytes {
        0 => default_segment_bytes(disk.size)
            .max(32 * unit)
            .max(32 * options.block_bytes),
        given => given,
    };
    let Identity {
        uuid,
        label,
        hash_seed,
    } = identity(&options.label, options.seed).map_err(Error::Format)?;
    let unit64 = u64::from(unit);
    let owner_offset = unit64;
    let ring_offset = 2 * unit64;
    let (record_bytes, first_segment) = fixed_layout(unit, options.inode_bytes, segment_bytes);
    // The last unit holds a superblock copy.
    let room = (disk.size / unit64 * unit64).saturating_sub(first_segment + unit64);
    let count = room / u64::from(segment_bytes.max(1));
    let reserve = not_too_many(segment_bytes, count)
        .map(|()| Reserve::of((segment_bytes.max(1), options.block_bytes), count).segments())
        .and_then(|reserve| enough(segment_bytes, count, reserve).map(|()| reserve))
        .map_err(|problem| {
            bad(format!(
                "{} of {}: {problem}",
                device.name(),
                Bytes(disk.size)
            ))
        })?;
    let aligned = options.aligned && options.block_bytes.is_multiple_of(unit);
    let superblock = Superblock {
        magic: MAGIC,
        crc: 0.into(),
        version: VERSION.into(),
        checksum_kind: CHECKSUM_CRC32C,
        options: u8::from(options.case_fold),
        compat: 0.into(),
        read_only_compat: 0.into(),
        incompat: match aligned {
            true => incompat_flags::ALL,
            false => incompat_flags::ALL & !incompat_flags::ALIGNED,
        }
        .into(),
        uuid,
        label,
        hash_seed: hash_seed.into(),
        block_bytes: options.block_bytes.into(),
        write_unit: unit.into(),
        segment_bytes: segment_bytes.into(),
        inode_bytes: options.inode_bytes.into(),
        segment_count: u32::try_from(count)
            .map_err(|_| bad(format!("{count} segments: use larger ones")))?
            .into(),
        record_bytes: record_bytes.into(),
        record_count: 2.into(),
        copy_stride: (count as u32).div_ceil(COPIES).into(),
        first_segment: first_segment.into(),
        owner_offset: owner_offset.into(),
        ring_offset: ring_offset.into(),
        device_bytes: (disk.size / unit64 * unit64).into(),
        created_ns: now_ns.into(),
        generation: 1.into(),
        sector: 0.into(),
        reserve_segments: (reserve as u32).into(),
        spare: [0; 4],
        tag: 0.into(),
        spare_2: [0; 280],
    }
    .sealed_for(0);
    // The reader's own check is the last word on what is possible.
    Superblock::parse(superblock.as_bytes(), 0).map_err(|malformed| bad(malformed.to_string()))?;
    Ok(superblock)
}

/// Refuses a volume of more segments than can be counted.
///
/// # Errors
/// Says what would do.
pub(crate) fn not_too_many(segment_bytes: u32, count: u64) -> Result<(), String> {
    match count <= MAX_SEGMENTS {
        true => Ok(()),
        false => Err(format!(
            "it gives {count} segments of {}, at most {MAX_SEGMENTS} can be: use larger segments",
            Bytes(segment_bytes.into())
        )),
    }
}

/// Refuses a volume of too few segments, or of which too many are in reserve.
///
/// # Errors
/// Says what would do.
pub(crate) fn enough(segment_bytes: u32, count: u64, reserve: u64) -> Result<(), String> {
    let least = 2 * reserve.max(8);
    if count < least {
        return Err(format!(
            "it gives {count} segments of {}, at least {least} are needed: use a larger device or \
             smaller segments",
            Bytes(segment_bytes.into())
        ));
    }
    let volume_bytes = count * u64::from(segment_bytes);
    if volume_bytes > SMALL_VOLUME && reserve * 100 > count * MAX_RESERVE_PERCENT {
        return Err(format!(
            "the reserve would be {reserve} of {count} segments, more than \
             {MAX_RESERVE_PERCENT} %: use smaller segments"
        ));
    }
    Ok(())
}

/// Makes an empty volume: superblocks and a first checkpoint. The root
/// directory is the file system's to make.
///
/// # Errors
/// `Format`, or device errors.
pub fn format(
    device: &dyn Device,
    clock: &dyn Clock,
    options: &FormatOptions,
) -> Result<(), Error> {
    let now_ns = clock.now_ns();
    let superblock = plan(device, options, now_ns)?;
    let unit = superblock.write_unit.get() as usize;
    let zeros = vec![0; superblock.record_bytes.get() as usize];
    device.write(
        superblock.owner_offset.get(),
        &[IoSlice::new(&zeros[..unit])],
    )?;
    for slot in 0..u64::from(superblock.record_count.get()) {
        let offset = superblock.ring_offset.get() + slot * zeros.len() as u64;
        device.write(offset, &[IoSlice::new(&zeros)])?;
    }
    // No summary of a former life at the log's start.
    let geometry = Geometry::from(&superblock);
    let start = geometry.byte(0, geometry.payload_start(0));
    device.write(start, &[IoSlice::new(&zeros[..unit])])?;
    let record = first_record(&superblock, now_ns).encode(zeros.len());
    let slot = 1 % u64::from(superblock.record_count.get());
    let offset = superblock.ring_offset.get() + slot * zeros.len() as u64;
    device.write(offset, &[IoSlice::new(&record)])?;
    device.flush()?;
    // The primary last: until it stands, there is no volume.
    let copies = superblock_offsets(&superblock).collect();
    superblocks::write(device, &superblock, copies)
}

/// The record of an empty volume.
pub fn first_record(superblock: &Superblock, now_ns: i64) -> CheckpointRecord {
    let geometry = Geometry::from(superblock);
    let now = Timestamp::from_ns(now_ns);
    let ifile = InodeImage {
        inode: Inode {
            nlink: 1,
            size: IMAP_OFFSET,
            ..Inode::new(
                InodeNo::IFILE,
                0,
                FileKind::Regular.mode_bits() | 0o400,
                now,
            )
        },
        root: Some(Root::default()),
        xattrs: Pointer::NONE,
    };
    let mut encoded = vec![0; geometry.inode_bytes as usize];
    ifile.encode(&mut encoded);
    CheckpointRecord {
        header: CheckpointHeader {
            serial: 1.into(),
            crc: 0.into(),
            magic: RECORD_MAGIC.into(),
            volume_tag: superblock.volume_tag().into(),
            position: LogPosition {
                serial: 0.into(),
                offset: geometry.payload_start(0).into(),
                segment: 0.into(),
                next_segment: 1.into(),
                predecessor: 0.into(),
                incarnation: 0.into(),
                segment_incarnation: 1.into(),
            },
            written_ns: now_ns.into(),
            flags: checkpoint_flags::of(true, 0).into(),
            segments_opened: 1.into(),
            next_ino: InodeNo::FIRST.0.into(),
            free_head: 0.into(),
            free_count: 0.into(),
            unfinished_count: 0.into(),
            inodes_used: 0.into(),
            blocks_used: 0.into(),
            sectors_used: 0.into(),
            metadata_bytes: 0.into(),
            durable_through: 0.into(),
            inode_bytes: geometry.inode_bytes.into(),
            delta_count: 0.into(),
            further_heads: 0.into(),
            first_version: 0.into(),
            heads: Default::default(),
        },
        ifile: encoded,
        deltas: Vec::new(),
    }
}
