//! Making a volume.

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

/// What a new volume is to be like.
#[derive(Clone, Debug)]
pub struct FfsFormatOptions {
    /// Bytes in a block: 4096 to 65536.
    pub block_bytes: u32,
    /// Bytes in a fragment, an eighth of a block at least, and no less than the
    /// device's physical block; 0: as few as that and the policy allow.
    pub fragment_bytes: u32,
    /// Blocks of a cylinder group; 0: chosen by the volume's size.
    pub group_blocks: u64,
    /// Blocks of a cylinder group that are for data; 0: what `group_blocks` leaves.
    pub group_data_blocks: u64,
    /// Bytes of the volume for each inode; 0: 8192.
    pub inode_ratio: u64,
    /// Bytes of the journal; 0: chosen by what a group may change.
    pub journal_bytes: u64,
    /// How metadata gets to its place.
    pub metadata: Metadata,
    /// Share of the room that users do not get, in percent.
    pub minfree_percent: u32,
    /// How room is found.
    pub policy: Policy,
    /// Name for people, at most 64 bytes of UTF-8.
    pub label: String,
    /// Directory names compare without regard to case.
    pub case_fold: bool,
    /// Fixes identity and hash seed, for reproducible runs.
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
    /// With a policy that has a name ([`Policy::named`]). The configurations of the papers,
    /// which place block by block, have synchronous metadata, as they had there; others
    /// have the default.
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

/// Blocks of a cylinder group if nobody says: a sector of its fragment map, more on
/// a large volume, a quarter of a small one.
fn group_blocks(blocks: u64) -> u64 {
    match blocks < 4 * BITS_PER_SECTOR {
        true => (blocks / 4).max(96).min(blocks),
        false => BITS_PER_SECTOR * (blocks / BITS_PER_SECTOR / 512).max(1),
    }
}

/// Bytes of the journal if nobody says: six times what a group may change that
/// touches every map, and a share of the volume for inodes and directories.
fn journal_bytes(geometry: &Geometry) -> u64 {
    let unit = u64::from(geometry.unit_bytes);
    let volume = geometry.blocks * u64::from(geometry.block_bytes);
    (6 * geometry.map_units() * unit + (512 << 10)).max((volume / 32).min(64 << 20))
}

/// Inodes of a group of so many blocks.
fn group_inodes(options: &FfsFormatOptions, group_blocks: u64) -> u64 {
    let ratio = match options.inode_ratio {
        0 => 8192,
        given => given,
    };
    let each = u64::from(options.block_bytes / 512);
    let inodes = group_blocks.saturating_mul(options.block_bytes.into()) / ratio;
    // Absurd numbers are refused with the others.
    let inodes = inodes.min(1 << 40);
    let rounded = match inodes.next_multiple_of(each) {
        // No group has more than eight for each block.
        above if above > group_blocks.saturating_mul(8) => inodes / each * each,
        above => above,
    };
    rounded.max(each)
}

/// Blocks and inodes of the least group that has so many blocks for data.
fn group_with(options: &FfsFormatOptions, fragment_bytes: u32, data: u64) -> (u64, u64) {
    let mut blocks = data;
    loop {
        let inodes = group_inodes(options, blocks);
        let meta = group_meta_blocks(options.block_bytes, fragment_bytes, blocks, inodes);
        // Where inodes take more than that, there is no such group.
        if data.saturating_add(meta) <= blocks || meta > data.saturating_add(1024) {
            return (blocks, inodes);
        }
        blocks = data.saturating_add(meta);
    }
}

/// Bytes of the least volume, about, on which a map's groups find room.
pub fn bytes_for(map: &crate::FreeMap) -> u64 {
    let options = FfsFormatOptions {
        block_bytes: map.block_bytes(),
        ..FfsFormatOptions::default()
    };
    let block = u64::from(map.block_bytes());
    let (blocks, _) = group_with(&options, map.block_bytes() / 8, map.group_bytes() / block);
    let groups = map.groups() * blocks * block;
    // The journal, by its two reckonings, and what is outside groups.
    let maps = 6 * map.groups() * (blocks / BITS_PER_SECTOR + 2) * 4096 * 2;
    let bytes = groups + maps + (groups / 31).min(64 << 20) + (1 << 20);
    bytes.next_multiple_of(block)
}

/// The superblock that a volume on this device would have.
///
/// # Errors
/// `Format` says what is impossible.
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
    // Before the rest is derived from them.
    let geometry = Geometry::of(&parsed(&superblock)?);
    let journal = match options.journal_bytes {
        // The least that a geometry may have: nothing is written there.
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

/// Makes an empty volume: superblocks, maps, an empty journal. The root directory is
/// the file system's to make.
///
/// # Errors
/// `Format` says what is impossible; device errors.
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
    // The old volume is gone before the new one is there.
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

/// The maps of an empty group, whole blocks.
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
            // 0 and 1 are nobody's.
            sector[0] = 3;
        }
        geometry.seal(first + nth, group as u32).close(&mut sector);
        bytes[nth as usize * 512..][..512].copy_from_slice(&sector);
    }
    bytes
}
