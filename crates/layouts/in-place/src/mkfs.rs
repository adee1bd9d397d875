//! Creation of a volume.

use crate::allocate::{Policy, PolicyError};
use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::format::{
    BITS_PER_SECTOR, CONTENT_BYTES, DiskPolicy, Geometry, GroupMap, IN_PLACE, JournalHead, MAGIC,
    Metadata, Superblock, group_meta_blocks, is_block,
};
use std::io::IoSlice;
use varve_device::{Clock, Device};
use varve_format::identity::{Identity, identity};
use varve_fs::Usage;
use zerocopy::IntoBytes;

/// The options of a new volume.
#[derive(Clone, Debug)]
pub struct FfsFormatOptions {
    /// Size of a block, in bytes: 4096 to 65536.
    pub block_bytes: u32,
    /// Size of a fragment, in bytes: at least an eighth of a block, and at least the
    /// device's physical block. With 0 it is the smallest size that these and the
    /// policy allow.
    pub fragment_bytes: u32,
    /// Size of a cylinder group, in blocks; 0: chosen by the volume's size.
    pub group_blocks: u64,
    /// Number of blocks of a cylinder group that are for data; 0: as `group_blocks`
    /// implies.
    pub group_data_blocks: u64,
    /// Number of bytes of the volume for each inode; 0: 8192.
    pub inode_ratio: u64,
    /// Size of the journal, in bytes; 0: chosen by the changes that a group may
    /// contain.
    pub journal_bytes: u64,
    /// The discipline of metadata writes.
    pub metadata: Metadata,
    /// The part of the space that is reserved, in percent.
    pub minfree_percent: u32,
    /// The allocation policy.
    pub policy: Policy,
    /// Name for people, at most 64 bytes of UTF-8.
    pub label: String,
    /// True if directory names are compared without regard to case.
    pub case_fold: bool,
    /// Determines the UUID and the hash seed, for reproducible runs.
    pub seed: Option<u64>,
}

impl Default for FfsFormatOptions {
    fn default() -> Self {
        FfsFormatOptions {
            block_bytes: 4096,
            fragment_bytes: 0,
            group_blocks: 0,
            group_data_blocks: 0,
            inode_ratio: 0,
            journal_bytes: 0,
            metadata: Metadata::Journal,
            minfree_percent: 5,
            policy: Policy::default(),
            label: String::new(),
            case_fold: false,
            seed: None,
        }
    }
}

impl FfsFormatOptions {
    /// Returns options with the policy of this name ([`Policy::named`]). The
    /// configurations of the papers, which place block by block, have synchronous
    /// metadata, as in the papers; other policies have the default.
    pub fn named(name: &str) -> Option<Self> {
        let policy = Policy::named(name)?;
        let metadata = match policy {
            Policy::Ffs {
                clusters: false, ..
            } => Metadata::Synchronous,
            _ => Metadata::default(),
        };
        Some(FfsFormatOptions {
            metadata,
            policy,
            ..FfsFormatOptions::default()
        })
    }
}

/// Returns the default size of a cylinder group, in blocks: one sector of its fragment
/// map, more on a large volume, a quarter of a small one.
fn group_blocks(blocks: u64) -> u64 {
    match blocks < 4 * BITS_PER_SECTOR {
        true => (blocks / 4).max(96).min(blocks),
        false => BITS_PER_SECTOR * (blocks / BITS_PER_SECTOR / 512).max(1),
    }
}

/// Returns the default size of the journal, in bytes: six times the size of all maps,
/// which one group may change, and a part of the volume for inodes and directories.
fn journal_bytes(geometry: &Geometry) -> u64 {
    let unit = u64::from(geometry.unit_bytes);
    let volume = geometry.blocks * u64::from(geometry.block_bytes);
    (6 * geometry.map_units() * unit + (512 << 10)).max((volume / 32).min(64 << 20))
}

/// Returns the number of inodes of a group with so many blocks.
fn group_inodes(options: &FfsFormatOptions, group_blocks: u64) -> u64 {
    let ratio = match options.inode_ratio {
        0 => 8192,
        given => given,
    };
    let each = u64::from(options.block_bytes / 512);
    let inodes = group_blocks.saturating_mul(options.block_bytes.into()) / ratio;
    // Absurd numbers are limited here and refused with the others.
    let inodes = inodes.min(1 << 40);
    let rounded = match inodes.next_multiple_of(each) {
        // A group has at most eight inodes for each block.
        above if above > group_blocks.saturating_mul(8) => inodes / each * each,
        above => above,
    };
    rounded.max(each)
}

/// Returns the numbers of blocks and inodes of the smallest group with `data` data
/// blocks.
fn group_with(options: &FfsFormatOptions, fragment_bytes: u32, data: u64) -> (u64, u64) {
    let mut blocks = data;
    loop {
        let inodes = group_inodes(options, blocks);
        let meta = group_meta_blocks(options.block_bytes, fragment_bytes, blocks, inodes);
        // Where inodes need more than that, there is no such group.
        if data.saturating_add(meta) <= blocks || meta > data.saturating_add(1024) {
            return (blocks, inodes);
        }
        blocks = data.saturating_add(meta);
    }
}

/// Returns the size of the smallest volume, in bytes and approximately, with as many
/// groups as a map has.
pub fn bytes_for(map: &crate::FreeMap) -> u64 {
    let options = FfsFormatOptions {
        block_bytes: map.block_bytes(),
        ..FfsFormatOptions::default()
    };
    let block = u64::from(map.block_bytes());
    let (blocks, _) = group_with(&options, map.block_bytes() / 8, map.group_bytes() / block);
    let groups = map.groups() * blocks * block;
    // The journal by both of its rules, and the structures outside of groups.
    let maps = 6 * map.groups() * (blocks / BITS_PER_SECTOR + 2) * 4096 * 2;
    let bytes = groups + maps + (groups / 31).min(64 << 20) + (1 << 20);
    bytes.next_multiple_of(block)
}

/// Returns the superblock that a new volume on this device would have.
///
/// # Errors
/// `Format`, with the value that is impossible.
pub fn plan(device: &dyn Device, options: &FfsFormatOptions, now_ns: i64) -> Result<Superblock> {
    let disk = device.geometry();
    let block_bytes = options.block_bytes;
    if !is_block(block_bytes) {
        return Err(Error::Format(format!("blocks of {block_bytes} bytes")));
    }
    let unit_bytes = disk.logical_block.max(disk.physical_block);
    let fragment_bytes = match options.fragment_bytes {
        0 if !options.policy.has_fragments() => block_bytes,
        0 => (block_bytes / 8).max(unit_bytes),
        given => given,
    };
    let refused = |error: PolicyError| Error::Format(error.to_string());
    options.policy.check().map_err(refused)?;
    if options.minfree_percent > 50 {
        return Err(Error::Format("a reserve of more than half the room".into()));
    }
    let Identity {
        uuid,
        label,
        hash_seed,
    } = identity(&options.label, options.seed).map_err(Error::Format)?;
    let blocks = disk.size / u64::from(block_bytes);
    if options.group_data_blocks > blocks {
        let data = options.group_data_blocks;
        return Err(Error::Format(format!(
            "cylinder groups of {data} blocks for data: there are {blocks}"
        )));
    }
    let group_blocks = match options.group_blocks {
        0 if options.policy.has_fragments() => group_blocks(blocks),
        // A run ends where its group does.
        0 => group_blocks(blocks).max(blocks / 8),
        given => given,
    };
    let (group_blocks, group_inodes) = match options.group_data_blocks {
        0 => (group_blocks, group_inodes(options, group_blocks)),
        data => group_with(options, fragment_bytes, data),
    };
    let mut superblock = Superblock {
        magic: MAGIC,
        crc: 0.into(),
        version: 1.into(),
        checksum_kind: 1,
        options: u8::from(options.case_fold),
        compat: 0.into(),
        read_only_compat: 0.into(),
        incompat: match options.metadata.is_in_place() {
            true => IN_PLACE.into(),
            false => 0.into(),
        },
        uuid,
        label,
        hash_seed: hash_seed.into(),
        block_bytes: block_bytes.into(),
        fragment_bytes: fragment_bytes.into(),
        blocks: blocks.into(),
        journal_blocks: 16.into(),
        group_blocks: group_blocks.into(),
        group_inodes: group_inodes.into(),
        reserve_blocks: 0.into(),
        maxcontig: 1.into(),
        rotdelay: 0.into(),
        unit_bytes: unit_bytes.into(),
        metadata: options.metadata.number(),
        spare: [0; 3],
        created_ns: now_ns.into(),
        tag: 0.into(),
        padding: [0; 240],
        policy: DiskPolicy::default(),
    }
    .with_policy(&options.policy);
    let parsed = |superblock: &Superblock| {
        Superblock::parse(superblock.sealed().as_bytes())
            .map_err(|problem| Error::Format(problem.problem))
    };
    // The values are checked before others are derived from them.
    let geometry = Geometry::of(&parsed(&superblock)?);
    let journal = match options.journal_bytes {
        // The minimum of a geometry: this journal is never written.
        _ if options.metadata.is_in_place() => 16 * u64::from(block_bytes),
        0 => journal_bytes(&geometry),
        given => given,
    };
    superblock.journal_blocks = journal.div_ceil(block_bytes.into()).into();
    let geometry = Geometry::of(&parsed(&superblock)?);
    let reserve = geometry.data_blocks() * u64::from(options.minfree_percent) / 100;
    superblock.reserve_blocks = reserve.max(16).into();
    parsed(&superblock)
}

/// Creates an empty volume: superblocks, maps, an empty journal. The file system
/// creates the root directory.
///
/// # Errors
/// `Format`, with the value that is impossible, or errors of the device.
pub fn format(
    device: &dyn Device,
    clock: &dyn Clock,
    options: &FfsFormatOptions,
) -> Result<Superblock> {
    let now_ns = clock.now_ns();
    let superblock = plan(device, options, now_ns)?;
    let geometry = Geometry::of(&superblock);
    let zeros = vec![0; geometry.block_bytes as usize];
    let put =
        |block: u64, bytes: &[u8]| device.write(geometry.block_byte(block), &[IoSlice::new(bytes)]);
    // The old volume is invalid before the new one is valid.
    for block in [0, Geometry::OWNER_BLOCK, geometry.last_block()] {
        put(block, &zeros)?;
    }
    device.flush()?;
    let mut first = zeros.clone();
    first[..512].copy_from_slice(superblock.as_bytes());
    for group in 0..geometry.groups() {
        let mut bytes = first.clone();
        bytes.extend_from_slice(&maps(&geometry, group));
        put(geometry.group_block(group), &bytes)?;
    }
    for (nth, serial) in [1u64, 2].into_iter().enumerate() {
        let mut block = zeros.clone();
        let head = JournalHead::new(geometry.tag, serial, 0, 0, Usage::default(), now_ns);
        block[..512].copy_from_slice(head.as_bytes());
        put(Geometry::HEAD_BLOCK + nth as u64, &block)?;
    }
    device.flush()?;
    put(geometry.last_block(), &first)?;
    put(0, &first)?;
    device.flush()?;
    Ok(superblock)
}

/// Returns the maps of an empty group, in whole blocks.
fn maps(geometry: &Geometry, group: u64) -> Vec<u8> {
    let blocks = geometry.map_sectors().div_ceil(geometry.block_sectors());
    let mut bytes = vec![0; (blocks * u64::from(geometry.block_bytes)) as usize];
    let begin = group * geometry.group_fragments();
    let mut fragments = Bits::new(geometry.group_fragments());
    let data = geometry.data_fragments(group);
    fragments.fill(0..geometry.group_fragments(), true);
    fragments.fill(data.start - begin..data.end - begin, false);
    let first = geometry.maps_sector(group);
    for nth in 0..geometry.map_sectors() {
        let mut sector = [0; 512];
        let from = nth
            .checked_sub(4 * geometry.inode_map_sectors())
            .map(|nth| nth * BITS_PER_SECTOR);
        if let Some(from) = from {
            fragments.store(
                from,
                geometry.group_fragments(),
                &mut sector[..CONTENT_BYTES],
            );
        } else if group == 0 && nth == geometry.map_sector(0, GroupMap::Used, 0) - first {
            // Inodes 0 and 1 are not used.
            sector[0] = 3;
        }
        geometry.seal(first + nth, group as u32).close(&mut sector);
        bytes[nth as usize * 512..][..512].copy_from_slice(&sector);
    }
    bytes
}
