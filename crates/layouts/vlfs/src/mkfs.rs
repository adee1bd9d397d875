//! Creation of a volume.

use crate::checkpoint::write_head;
use crate::error::{Error, Result};
use crate::format::{CHANGES, LONG_XATTRS, MAGIC, Measures, PARTS, Superblock, VERSION};
use crate::mount::empty_head;
use std::io::IoSlice;
use varve_device::Clock;
use varve_format::identity::{Identity, identity};
use varve_vlog::Medium;
use zerocopy::IntoBytes;

/// The options of a new VLFS volume.
#[derive(Clone, Debug)]
pub struct VlfsFormatOptions {
    /// Size of a logical block, in bytes: 4096 to 65536.
    pub block_bytes: u32,
    /// Size of a unit, in bytes: at least the device's physical block. With 0 it is
    /// that size or an eighth of a block, and at least 4096 on a device without a head.
    pub unit_bytes: u32,
    /// Limit of inode numbers; 0: one for 16 KiB, at most 16 million.
    pub inodes: u64,
    /// Number of slots for records of changes, at most 1024. Without slots each
    /// transaction writes index nodes and inodes. `None`: one for 64 blocks, 4 to 64.
    pub slots: Option<u64>,
    /// Name for people, at most 64 bytes of UTF-8.
    pub label: String,
    /// True if directory names are compared without regard to case.
    pub case_fold: bool,
    /// Determines the UUID and the hash seed, for reproducible runs.
    pub seed: Option<u64>,
}

impl Default for VlfsFormatOptions {
    fn default() -> Self {
        VlfsFormatOptions {
            block_bytes: 4096,
            unit_bytes: 0,
            inodes: 0,
            slots: None,
            label: String::new(),
            case_fold: false,
            seed: None,
        }
    }
}

/// Returns the number of reserved blocks, for changes before their old versions are
/// free: a thirty-second of the volume, within bounds.
fn reserve_blocks(capacity: u64) -> u64 {
    (capacity / 32).clamp(160, 8192)
}

/// Returns the superblock that a new volume on this device would have.
///
/// # Errors
/// `Format`, with the value that is impossible.
pub fn plan(medium: &dyn Medium, options: &VlfsFormatOptions, now_ns: i64) -> Result<Superblock> {
    let bad = Error::Format;
    let disk = medium.geometry();
    let physical = disk.logical_block.max(disk.physical_block);
    let has_head = medium.head().is_some();
    // A block has at most eight units.
    let least = physical.max(options.block_bytes / 8);
    let unit_bytes = match options.unit_bytes {
        0 if has_head => least,
        0 => least.max(4096),
        given if given < physical => {
            return Err(bad(format!(
                "units of {given} bytes on physical blocks of {physical}: a write would touch \
                 its neighbours"
            )));
        }
        given => given,
    };
    let Identity {
        uuid,
        label,
        hash_seed,
    } = identity(&options.label, options.seed).map_err(Error::Format)?;
    let inodes = match options.inodes {
        0 => (disk.size >> 14).clamp(64, 16 << 20),
        given => given,
    };
    let blocks = disk.size / u64::from(options.block_bytes.max(1));
    let slots = options.slots.unwrap_or((blocks / 64).clamp(4, 64));
    let changes = if slots > 0 { CHANGES } else { 0 };
    // Where a block is a unit, older programs can read the volume, too.
    let has_parts = options.block_bytes > unit_bytes;
    let parts = if has_parts { PARTS } else { 0 };
    let mut superblock = Superblock {
        magic: MAGIC,
        crc: 0.into(),
        version: VERSION.into(),
        checksum_kind: 1,
        options: u8::from(options.case_fold),
        compat: 0.into(),
        read_only_compat: 0.into(),
        incompat: (changes | parts | LONG_XATTRS).into(),
        uuid,
        label,
        hash_seed: hash_seed.into(),
        block_bytes: options.block_bytes.into(),
        unit_bytes: unit_bytes.into(),
        blocks: blocks.into(),
        inodes: inodes.into(),
        zone_blocks: 0.into(),
        reserve_blocks: 64.into(),
        created_ns: now_ns.into(),
        slots: slots.into(),
        tag: 0.into(),
        spare: [0; 320],
    };
    // The values are checked before others are derived from them.
    Measures::of(&superblock).check().map_err(bad)?;
    if !has_head {
        let records = 3 * Measures::of(&superblock).pieces() + 8 + 2 * slots;
        let each = u64::from(options.block_bytes / unit_bytes);
        superblock.zone_blocks = records.div_ceil(each).into();
    }
    let capacity = Measures::of(&superblock).capacity_blocks();
    superblock.reserve_blocks = reserve_blocks(capacity).into();
    Measures::of(&superblock).check().map_err(bad)?;
    Ok(superblock.sealed())
}

/// Creates an empty volume: superblocks and two empty checkpoints. The file system
/// creates the root directory.
///
/// # Errors
/// `Format`, with the value that is impossible, or errors of the device.
pub fn format(
    medium: &dyn Medium,
    clock: &dyn Clock,
    options: &VlfsFormatOptions,
) -> Result<Superblock> {
    let now_ns = clock.now_ns();
    let superblock = plan(medium, options, now_ns)?;
    let measures = Measures::of(&superblock);
    let zeros = vec![0; measures.block_bytes as usize];
    let mut first = zeros.clone();
    first[..512].copy_from_slice(superblock.as_bytes());
    let put =
        |block: u64, bytes: &[u8]| medium.write(measures.block_byte(block), &[IoSlice::new(bytes)]);
    // The old volume is invalid before the new one is valid.
    for block in [
        0,
        Measures::OWNER_BLOCK,
        Measures::TAIL_BLOCK,
        measures.last_block(),
    ] {
        put(block, &zeros)?;
    }
    medium.flush()?;
    for region in 0..2 {
        let head = empty_head(&measures, region as u64 + 1, now_ns);
        write_head(medium, &measures, region, &head)?;
    }
    medium.flush()?;
    put(measures.last_block(), &first)?;
    put(0, &first)?;
    medium.flush()?;
    Ok(superblock)
}
