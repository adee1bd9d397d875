//! A small sound volume with something of everything, and its structures as seeds.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use varve_device::{Clock, MemoryDevice, MemoryImage, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options, Rename, Result, SetAttr};
use varve_lfs::format::map::{self, MapEntry, MapHeader};
use varve_lfs::format::node::{FANOUT, Node, NodeId};
use varve_lfs::format::{Pointer, Superblock, crc32c};
use varve_lfs::fuzzing::{self, Partial, Payload};
use varve_lfs::{FormatOptions, Geometry, Lfs, MountOptions, superblock_offsets};
use zerocopy::FromZeros;

/// Bytes of the sample's device.
pub const DEVICE_BYTES: u64 = 4 << 20;
/// Bytes of its segments.
pub const SEGMENT_BYTES: u32 = 128 << 10;

/// A mounted file system on the layout.
pub type Mounted = FileSystem<Lfs>;

/// A clock that moves by a microsecond at every reading.
pub fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_700_000_000_000_000_000, 1000))
}

/// An empty volume of `bytes`, to copy to.
pub fn blank(bytes: u64) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(bytes));
    formatted(&device).expect("an empty device");
    device
}

/// How every target mounts.
pub fn mount_options(read_only: bool) -> MountOptions {
    MountOptions {
        read_only,
        seed: Some(3),
        cache_bytes: 1 << 20,
        ..MountOptions::default()
    }
}

/// Mounts layout and file system.
///
/// # Errors
/// What either refuses.
pub fn mount(device: Arc<MemoryDevice>, read_only: bool) -> Result<(Arc<Lfs>, Mounted)> {
    let lfs = Arc::new(Lfs::mount(device, clock(), mount_options(read_only))?);
    let options = Options {
        cache_bytes: 4 << 20,
        ..Options::default()
    };
    let system = FileSystem::mount(Arc::clone(&lfs), clock(), options)?;
    Ok((lfs, system))
}

/// The sample's images: while mounted, the log reaching beyond the newest
/// checkpoint, and after a clean unmount.
pub fn images() -> &'static [Sample; 2] {
    static IMAGES: OnceLock<[Sample; 2]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let device = Arc::new(MemoryDevice::new(DEVICE_BYTES));
        let dead = populate(&device).expect("a sound volume takes what it is given");
        [dead, device.snapshot()].map(Sample::new)
    })
}

/// The sample's superblock.
pub fn superblock() -> &'static Superblock {
    &images()[0].superblock
}

fn formatted(device: &Arc<MemoryDevice>) -> Result<()> {
    let options = FormatOptions {
        segment_bytes: SEGMENT_BYTES,
        label: "sample".to_owned(),
        seed: Some(7),
        ..FormatOptions::default()
    };
    Lfs::format(&**device, &*clock(), &options)?;
    let lfs = Lfs::mount(device.clone(), clock(), mount_options(false))?;
    FileSystem::format(&lfs, &*clock(), (0, 0))?;
    Ok(lfs.unmount()?)
}

fn populate(device: &Arc<MemoryDevice>) -> Result<MemoryImage> {
    formatted(device)?;
    let (lfs, system) = mount(device.clone(), false)?;
    before_checkpoint(&system)?;
    system.checkpoint()?;
    after_checkpoint(&system)?;
    let dead = device.snapshot();
    system.unmount()?;
    lfs.unmount()?;
    Ok(dead)
}

const FILE: u32 = 0o100_644;

fn make(system: &Mounted, parent: InodeNo, name: &str) -> Result<InodeNo> {
    let root = Caller::root();
    let attr = system.mknod(&root, parent, name.as_bytes(), FILE, 0)?;
    Ok(attr.ino)
}

fn before_checkpoint(system: &Mounted) -> Result<()> {
    let root = &Caller::root();
    let top = InodeNo::ROOT;
    let tiny = make(system, top, "tiny")?;
    system.write(root, tiny, 0, b"held by the inode")?;
    let packed = make(system, top, "packed")?;
    system.write(root, packed, 0, &[0x5a; 5000])?;
    let sparse = make(system, top, "sparse")?;
    for block in [0u64, 3, 500, 1 << 20, 1 << 35] {
        system.write(root, sparse, block * 4096, &block.to_le_bytes())?;
    }
    system.fallocate(root, sparse, 0, 40 << 12, 8 << 12)?;
    // Enough pointers for a packed index node.
    system.fallocate(root, sparse, 0, 150 << 12, 60 << 12)?;
    system.symlink(root, top, b"short", b"tiny")?;
    system.symlink(root, top, b"long", &[b'x'; 300])?;
    system.mknod(root, top, b"pipe", 0o010_600, 0)?;
    system.link(root, tiny, top, b"second name")?;
    system.setxattr(root, tiny, b"user.note", b"kept", false, false)?;
    system.setxattr(root, packed, b"user.large", &[1; 3000], false, false)?;
    let many = system.mkdir(root, top, b"many", 0o755)?.ino;
    for n in 0..150 {
        make(system, many, &format!("entry-{n:04}"))?;
    }
    for n in 0..10 {
        system.unlink(root, many, format!("entry-{:04}", n * 7).as_bytes())?;
    }
    system.mkdir(root, many, b"below", 0o700)?;
    Ok(())
}

fn after_checkpoint(system: &Mounted) -> Result<()> {
    let root = &Caller::root();
    let top = InodeNo::ROOT;
    let find = |name: &[u8]| -> Result<InodeNo> { Ok(system.lookup(root, top, name)?.ino) };
    let late = make(system, top, "late")?;
    system.write(root, late, 0, &[0xa5; 9000])?;
    let sparse = find(b"sparse")?;
    system.write(root, sparse, 501 * 4096, b"later")?;
    system.fallocate(root, sparse, 3, 3 << 12, 2 << 12)?;
    system.rename(root, top, b"packed", top, b"late", Rename::default())?;
    let cut = SetAttr {
        size: Some(100),
        ..SetAttr::default()
    };
    system.setattr(root, late, &cut).ok();
    system.removexattr(root, find(b"tiny")?, b"user.note")?;
    let orphan = make(system, top, "orphan")?;
    system.write(root, orphan, 0, &[7; 4096])?;
    system.retain(orphan)?;
    system.unlink(root, top, b"orphan")?;
    system.sync()
}

/// One image, and where its structures are.
pub struct Sample {
    /// All of the device.
    pub image: MemoryImage,
    /// The newest superblock.
    pub superblock: Superblock,
    /// Bytes of the device that hold anything, ascending, whole write units.
    pub used: Vec<Range<u64>>,
    /// Those bytes, one range after the other. What follows speaks of places
    /// within them.
    pub bytes: Vec<u8>,
    /// Superblock copies.
    pub superblocks: Vec<usize>,
    /// Slots of the checkpoint ring.
    pub records: Vec<Range<usize>>,
    /// Partial segments by serial: where each begins.
    pub partials: Vec<(usize, Partial)>,
    /// What a parser reads, payloads of files excepted.
    pub hot: Vec<Range<usize>>,
    /// Of that, superblock, records and summaries: few bytes that say much.
    pub heads: Vec<Range<usize>>,
}

impl Sample {
    fn new(image: MemoryImage) -> Sample {
        let mut sector = vec![0; 512];
        image.read(0, &mut sector);
        let superblock = Superblock::parse(&sector, 0).expect("a sound volume");
        let geometry = Geometry::from(&superblock);
        let unit = u64::from(geometry.write_unit);
        let mut found: Vec<(u64, Partial)> = Vec::new();
        for segment in 0..geometry.segment_count {
            let start = geometry.byte(segment, 0);
            let mut bytes = vec![0; SEGMENT_BYTES as usize];
            image.read(start, &mut bytes);
            for offset in (0..SEGMENT_BYTES).step_by(unit as usize) {
                if let Ok(partial) = fuzzing::partial(&bytes, &superblock, segment, offset) {
                    found.push((start + u64::from(offset), partial));
                }
            }
        }
        let slot = u64::from(superblock.record_bytes.get());
        let ring = (0..u64::from(superblock.record_count.get()))
            .map(|nth| superblock.ring_offset.get() + nth * slot);
        let owner = superblock.owner_offset.get();
        let copies = superblock_offsets(&superblock).collect::<Vec<_>>();
        let mut used: Vec<Range<u64>> = found
            .iter()
            .map(|(at, partial)| *at..at + u64::from(partial.header.sectors.get()) * 512)
            .chain(copies.iter().map(|&at| at..at + unit))
            .chain(ring.clone().map(|at| at..at + slot))
            .chain(std::iter::once(owner..owner + unit))
            .collect();
        used.sort_by_key(|range| range.start);
        let mut bytes = Vec::new();
        for range in &used {
            let mut part = vec![0; (range.end - range.start) as usize];
            image.read(range.start, &mut part);
            bytes.extend(part);
        }
        let mut sample = Sample {
            image,
            superblock,
            used,
            bytes,
            superblocks: Vec::new(),
            records: Vec::new(),
            partials: Vec::new(),
            hot: Vec::new(),
            heads: Vec::new(),
        };
        sample.superblocks = copies.iter().map(|&at| sample.place(at)).collect();
        sample.records = ring
            .map(|at| sample.place(at)..sample.place(at) + slot as usize)
            .collect();
        found.sort_by_key(|(_, partial)| partial.header.serial.get());
        sample.partials = found
            .into_iter()
            .map(|(at, mut partial)| {
                let offset = (at - superblock.first_segment.get()) % u64::from(SEGMENT_BYTES);
                let start = sample.place(at);
                for payload in &mut partial.payload {
                    let shift = |within: usize| within - offset as usize + start;
                    payload.range = shift(payload.range.start)..shift(payload.range.end);
                }
                (start, partial)
            })
            .collect();
        sample.heads = sample.head_ranges();
        sample.hot = sample.hot_ranges();
        sample
    }

    /// Where the byte at `offset` of the device is in `bytes`.
    fn place(&self, offset: u64) -> usize {
        let mut before = 0;
        for range in &self.used {
            if range.contains(&offset) {
                return before + (offset - range.start) as usize;
            }
            before += (range.end - range.start) as usize;
        }
        panic!("byte {offset} is not in use");
    }

    fn head_ranges(&self) -> Vec<Range<usize>> {
        let superblock = self.superblocks[0];
        let mut heads: Vec<Range<usize>> = Vec::new();
        heads.push(superblock..superblock + 232);
        heads.extend(self.records.iter().map(|slot| slot.start..slot.start + 640));
        for (start, partial) in &self.partials {
            heads.push(*start..start + 128 + partial.header.entry_bytes.get() as usize);
        }
        heads
    }

    fn hot_ranges(&self) -> Vec<Range<usize>> {
        let payloads = self
            .partials
            .iter()
            .flat_map(|(_, partial)| &partial.payload);
        let parsed = payloads.filter(|payload| self.is_parsed(payload));
        let mut hot = self.heads.clone();
        hot.extend(parsed.map(|payload| payload.range.clone()));
        hot
    }

    /// True unless it is the content of a file.
    fn is_parsed(&self, payload: &Payload) -> bool {
        !payload.data || payload.ino == 1 || self.bytes[payload.range.clone()].starts_with(b"VDir")
    }

    /// The stored bytes that begin with `magic`.
    fn payloads(&self, magic: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.partials
            .iter()
            .flat_map(|(_, partial)| &partial.payload)
            .map(|payload| &self.bytes[payload.range.clone()])
            .filter(move |bytes| bytes.starts_with(magic))
    }
}

fn each(of: impl Fn(&Sample) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = images().iter().flat_map(of).collect();
    seeds.sort_by_key(|seed| crc32c(seed));
    seeds.dedup();
    seeds
}

/// The superblock.
pub fn superblock_seeds() -> Vec<Vec<u8>> {
    each(|sample| vec![sample.bytes[sample.superblocks[0]..][..512].to_vec()])
}

/// The owner record.
pub fn owner_seeds() -> Vec<Vec<u8>> {
    each(|sample| {
        let at = sample.place(sample.superblock.owner_offset.get());
        vec![sample.bytes[at..at + 512].to_vec()]
    })
}

/// Both slots of the ring.
pub fn checkpoint_seeds() -> Vec<Vec<u8>> {
    each(|sample| {
        sample
            .records
            .iter()
            .map(|slot| sample.bytes[slot.clone()].to_vec())
            .collect()
    })
}

/// Summaries with what they describe.
pub fn summary_seeds() -> Vec<Vec<u8>> {
    each(|sample| {
        let whole = |(start, partial): &(usize, Partial)| {
            let length = (partial.header.sectors.get() as usize * 512).min(16 << 10);
            sample.bytes[*start..start + length].to_vec()
        };
        sample.partials.iter().map(whole).collect()
    })
}

/// Inodes of every kind.
pub fn inode_seeds() -> Vec<Vec<u8>> {
    each(|sample| sample.payloads(b"VINO").map(<[u8]>::to_vec).collect())
}

/// A page of a map.
pub fn map_seeds() -> Vec<Vec<u8>> {
    let entry = |nth: u32| {
        let mut entry = MapEntry::new_zeroed();
        entry.ino = 7.into();
        entry.block = u64::from(nth).into();
        entry.sector = (8 * nth).into();
        entry.sectors = 8;
        entry
    };
    let entries: Vec<MapEntry> = (1..9).map(entry).collect();
    let mut header = MapHeader::new_zeroed();
    header.pages = 1.into();
    header.entry_count = 8.into();
    vec![map::encode(header, &entries, 4096)]
}

/// Index nodes, and a full one with numbers of all widths, packed and plain.
pub fn index_node_seeds() -> Vec<Vec<u8>> {
    let mut node = Node::default();
    for slot in 0..FANOUT {
        let (sector, crc) = (
            64 + 8 * (slot * 7919 % 50_000),
            0x9e37_79b9 ^ (slot as u32) << 20,
        );
        let pointer = match slot % 40 {
            7 => Pointer::unwritten_block(8, slot),
            _ => Pointer::new(sector, 8, crc, 1000 + slot * slot, 3 + slot as u32 % 9),
        };
        node.set(slot as usize, pointer);
    }
    let id = NodeId {
        ino: InodeNo(7),
        height: 1,
        index: 3,
    };
    let mut seeds = each(|sample| sample.payloads(b"VNOD").map(<[u8]>::to_vec).collect());
    seeds.extend([true, false].map(|packed| node.encode(id, 1, packed)));
    seeds
}

/// Blocks of the ifile.
pub fn ifile_seeds() -> Vec<Vec<u8>> {
    each(|sample| {
        sample
            .partials
            .iter()
            .flat_map(|(_, partial)| &partial.payload)
            .filter(|payload| payload.data && payload.ino == 1)
            .map(|payload| sample.bytes[payload.range.clone()][..1024].to_vec())
            .collect()
    })
}
