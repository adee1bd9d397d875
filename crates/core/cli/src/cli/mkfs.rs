//! `varve mkfs`: makes a volume.

use super::output::{self, Failure, Outcome, Progress};
use super::{ffs, free_map, size, vlfs};
use clap::ValueEnum;
use serde_json::json;
use std::path::PathBuf;
use varve::admin::{Superblock as Made, format};
use varve::{Allocation, Fit, FreeMap, Layout, MetadataUpdates, Preallocation, VolumeOptions};
use varve_device::size::Bytes;
use varve_ffs::FfsFormatOptions;
use varve_fsck::inspect::uuid_text;
use varve_lfs::format::Superblock;

/// The placement of blocks.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LayoutKind {
    /// The segmented log.
    Log,
    /// The virtual log.
    Vlfs,
    /// In place, in cylinder groups.
    Ffs,
    /// FFS-m1r2 of the papers: block by block, a gap of two after each.
    FfsM1r2,
    /// FFS-m8r0 of the papers: block by block, without gaps.
    FfsM8r0,
    /// FFS-m8r2 of the papers: a gap of two blocks after eight.
    FfsM8r2,
    /// EFS of the thesis: clusters as long as a track.
    Efs,
    /// In place, in extents.
    Extent,
    /// In place, in binary buddies.
    Buddy,
    /// In place, in restricted buddies.
    Restricted,
    /// In place, in single blocks.
    Fixed,
}

/// The free run from which an extent is taken.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FitKind {
    /// The first run that is long enough.
    First,
    /// The shortest run that is long enough.
    Best,
}

/// The order in which changes of metadata are written, and the check after a crash.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MetadataKind {
    /// Through a journal: no check after a crash.
    Journal,
    /// In order, and at once, as in FFS; the first mount after a crash checks.
    Synchronous,
    /// In any order, on a sync or after half a minute; the first mount after a crash
    /// checks.
    Async,
}

/// Make a volume in an image file or on a block device.
#[derive(clap::Args)]
pub struct Mkfs {
    /// The image file, made if it is missing, or the block device.
    volume: PathBuf,
    /// Bytes of a new image file, such as 64M, 10G.
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Write the whole image, so that the host cannot run out of space and
    /// later writes change none of its metadata.
    #[arg(long)]
    preallocate: bool,
    /// Reserve the image's space without writing it.
    #[arg(long, conflicts_with = "preallocate")]
    reserve: bool,
    /// Bytes in a segment, a power of two; by default chosen by size.
    #[arg(long, value_parser = size::parse_u32, default_value = "0", hide_default_value = true)]
    segment_size: u32,
    /// Bytes in a block: 4K to 64K. By default 4K, or those of the map with `--aged`.
    #[arg(long, value_parser = size::parse_u32)]
    block_size: Option<u32>,
    /// Bytes in an inode: 256 to 4K. Small files are stored inside.
    #[arg(long, value_parser = size::parse_u32, default_value = "256")]
    inode_size: u32,
    /// The placement of blocks: `log`, in segments that are cleaned; `vlfs`, eagerly, on
    /// the virtual log, for small synchronous writes; `ffs`, in place, in cylinder
    /// groups. The others are `ffs` with other allocation policies: study/allocation.md.
    #[arg(long, value_enum, default_value = "log")]
    layout: LayoutKind,
    /// With `--layout ffs`: adjacent blocks of a file before a gap. FFS-m1r2 of the
    /// papers is 1 with a gap of 2, FFS-m8r0 8 without one, EFS 256.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..))]
    maxcontig: Option<u32>,
    /// With `--layout ffs`: blocks in the gap.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(..=65536))]
    rotdelay: Option<u32>,
    /// With `--layout ffs` and the others that update in place: how changes of metadata
    /// are written. By default through a journal; `efs`, `ffs-m1r2`, `ffs-m8r0` and
    /// `ffs-m8r2` are synchronous, as those of the papers were.
    #[arg(long, value_enum)]
    metadata: Option<MetadataKind>,
    /// With `--layout ffs` and the others that update in place: percentage of the space
    /// that is reserved, for short searches and for removals. By default 5.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=50))]
    minfree: Option<u32>,
    /// With `--layout ffs`: place blocks one by one, not in clusters.
    #[arg(long)]
    block_by_block: bool,
    /// With `--layout extent`: the free run that is taken. By default the first.
    #[arg(long, value_enum)]
    fit: Option<FitKind>,
    /// With `--layout extent`: mean sizes from which each file gets that of its extents,
    /// such as 64K,1M. With `--layout restricted`: the sizes of blocks, rising multiples
    /// of each other, from the block size on.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size::parse)]
    sizes: Vec<u64>,
    /// With `--layout restricted`: how many times a larger block a file's smaller ones
    /// must be before it gets larger ones. By default 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    grow: Option<u32>,
    /// With `--layout restricted`: bytes of a bookkeeping region; 0: one. By default 32M.
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    region: Option<u64>,
    /// With `--layout fixed`: allocate blocks in the order of a free list shuffled by
    /// years of use; the number is the seed.
    #[arg(long, value_name = "SEED")]
    shuffled: Option<u64>,
    /// With a layout of FFS: free space is as on this map, made by `varve lab age`; a
    /// file `aged` occupies the rest. Cylinder groups are the map's, and so are blocks
    /// and the size if none are given.
    #[arg(long, value_name = "MAP")]
    aged: Option<PathBuf>,
    /// Label, at most 64 bytes.
    #[arg(short = 'L', long, default_value = "", hide_default_value = true)]
    label: String,
    /// Compare names without regard to case.
    #[arg(long)]
    case_fold: bool,
    /// Overwrite existing contents.
    #[arg(short, long)]
    force: bool,
    /// Print the new volume's properties as JSON.
    #[arg(long)]
    json: bool,
}

impl Mkfs {
    /// Sets the size, if one is given.
    pub fn sized(self, size: Option<u64>) -> Self {
        let size = size.or(self.size);
        Mkfs { size, ..self }
    }

    pub fn run(self) -> Outcome {
        let of_the_log = self.segment_size != 0 || self.inode_size != 256;
        if self.layout != LayoutKind::Log && of_the_log {
            let text = "only a volume on the segmented log has segments, and inodes of several \
                        sizes: leave --segment-size and --inode-size out";
            return Err(Failure::new(2, text));
        }
        let layout = self.layout.layout();
        let of_those_in_place = [
            (self.metadata.is_some(), "--metadata"),
            (self.minfree.is_some(), "--minfree"),
        ];
        let given = of_those_in_place.into_iter().find(|(given, _)| *given);
        if let (Some((_, option)), true) = (given, layout != Layout::InPlace) {
            let text = "is for --layout ffs and the others that update in place";
            return Err(Failure::new(2, format_args!("{option} {text}")));
        }
        let made = self.make(layout)?;
        let path = &self.volume;
        match (made, self.json) {
            (Made::Log(superblock), true) => output::json(&describe(&superblock)),
            (Made::Log(superblock), false) => output::line(format_args!(
                "{}: {} in {} segments of {}, blocks of {}, UUID {}",
                path.display(),
                size::show(superblock.device_bytes.get()),
                superblock.segment_count,
                size::show(superblock.segment_bytes.get().into()),
                size::show(superblock.block_bytes.get().into()),
                uuid(&superblock),
            )),
            (Made::VirtualLog(superblock), true) => output::json(&vlfs::describe(&superblock)),
            (Made::VirtualLog(superblock), false) => output::line(vlfs::made(path, &superblock)),
            (Made::InPlace(superblock), true) => output::json(&ffs::describe(&superblock)),
            (Made::InPlace(superblock), false) => output::line(ffs::made(path, &superblock)),
        }
        Ok(0)
    }

    fn make(&self, layout: Layout) -> Result<Made, Failure> {
        let allocation = self.allocation()?;
        let mut options = VolumeOptions::new();
        options
            .layout(layout)
            .preallocate(match (self.preallocate, self.reserve) {
                (true, _) => Preallocation::Written,
                (_, true) => Preallocation::Reserve,
                _ => Preallocation::Sparse,
            })
            .label(&self.label)
            .segment_bytes(self.segment_size)
            .inode_bytes(self.inode_size)
            .metadata(match self.metadata {
                None => self.layout.metadata(),
                Some(MetadataKind::Journal) => MetadataUpdates::Journal,
                Some(MetadataKind::Synchronous) => MetadataUpdates::Synchronous,
                Some(MetadataKind::Async) => MetadataUpdates::Asynchronous,
            })
            .allocation(allocation)
            .case_fold(self.case_fold)
            .overwrite(self.force);
        if let Some(bytes) = self.block_size {
            options.block_bytes(bytes);
        }
        if let Some(percent) = self.minfree {
            options.minfree_percent(percent);
        }
        let mut size = self.size;
        if let Some(map) = self.map()? {
            size = size.or((!self.volume.exists()).then(|| varve_ffs::bytes_for(&map)));
            options.aged(map);
        }
        if let Some(size) = size {
            options.size(size);
        }
        let progress = Progress::bytes("writing the image");
        let made = format(&self.volume, &options, &mut |done, total| {
            progress.at(done, total);
        });
        progress.finish();
        Ok(made?)
    }

    /// The map of the free space, if there is one.
    fn map(&self) -> Result<Option<FreeMap>, Failure> {
        let Some(path) = &self.aged else {
            return Ok(None);
        };
        match self.layout.is_ffs() {
            true => free_map::load(path).map(Some),
            false => Err(Failure::new(2, "--aged is for --layout ffs")),
        }
    }

    /// The allocation policy.
    fn allocation(&self) -> Result<Allocation, Failure> {
        let mut policy = Allocation::named(&self.layout.name()).unwrap_or_default();
        let only = |given: bool, option: &str, layout: &str, fits: bool| match given && !fits {
            true => Err(Failure::new(
                2,
                format_args!("{option} is for --layout {layout}"),
            )),
            false => Ok(()),
        };
        let (is_ffs, kind) = (self.layout.is_ffs(), self.layout);
        let gaps = self.maxcontig.is_some() || self.rotdelay.is_some() || self.block_by_block;
        only(
            gaps,
            "--maxcontig, --rotdelay or --block-by-block",
            "ffs",
            is_ffs,
        )?;
        only(
            self.fit.is_some(),
            "--fit",
            "extent",
            kind == LayoutKind::Extent,
        )?;
        let sized = [LayoutKind::Extent, LayoutKind::Restricted].contains(&kind);
        only(
            !self.sizes.is_empty(),
            "--sizes",
            "extent or restricted",
            sized,
        )?;
        let buddies = self.grow.is_some() || self.region.is_some();
        let restricted = kind == LayoutKind::Restricted;
        only(buddies, "--grow or --region", "restricted", restricted)?;
        let fixed = kind == LayoutKind::Fixed;
        only(self.shuffled.is_some(), "--shuffled", "fixed", fixed)?;
        let block = u64::from(self.block_size.unwrap_or(4096));
        let blocks = |bytes: u64| {
            let whole = bytes.checked_div(block).filter(|n| n * block == bytes);
            whole.and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
                Failure::new(
                    2,
                    format_args!(
                        "{} is no whole number of blocks, or too many of them",
                        Bytes(bytes)
                    ),
                )
            })
        };
        let given: Vec<u32> = self
            .sizes
            .iter()
            .map(|&bytes| blocks(bytes))
            .collect::<Result<_, _>>()?;
        match &mut policy {
            Allocation::Ffs {
                maxcontig,
                rotdelay,
                clusters,
            } => {
                *maxcontig = self.maxcontig.unwrap_or(*maxcontig);
                *rotdelay = self.rotdelay.unwrap_or(*rotdelay);
                *clusters &= !self.block_by_block;
            }
            Allocation::Fixed { shuffled } => *shuffled = self.shuffled,
            Allocation::Extents { fit, sizes } => {
                if self.fit == Some(FitKind::Best) {
                    *fit = Fit::Best;
                }
                if !given.is_empty() {
                    *sizes = given;
                }
            }
            Allocation::Buddy => {}
            Allocation::Restricted {
                sizes,
                grow,
                region,
            } => {
                *grow = self.grow.unwrap_or(*grow);
                if !given.is_empty() {
                    *sizes = given;
                }
                if let Some(bytes) = self.region {
                    *region = Some(blocks(bytes)?).filter(|blocks| *blocks > 0);
                }
            }
        }
        policy.check().map_err(Failure::with(2))?;
        Ok(policy)
    }
}

impl LayoutKind {
    /// The name on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().into())
    }

    fn layout(self) -> Layout {
        match self {
            LayoutKind::Log => Layout::Log,
            LayoutKind::Vlfs => Layout::VirtualLog,
            _ => Layout::InPlace,
        }
    }

    /// The default order in which changes of metadata are written.
    fn metadata(self) -> MetadataUpdates {
        let usual = FfsFormatOptions::named(&self.name());
        usual.map(|usual| usual.metadata).unwrap_or_default()
    }

    /// True for layouts with blocks and fragments, regardless of the gaps.
    fn is_ffs(self) -> bool {
        use LayoutKind::{Efs, Ffs, FfsM1r2, FfsM8r0, FfsM8r2};
        [Ffs, Efs, FfsM1r2, FfsM8r0, FfsM8r2].contains(&self)
    }
}

/// The UUID in its usual notation.
pub fn uuid(superblock: &Superblock) -> String {
    uuid_text(&superblock.uuid)
}

/// The superblock as JSON.
pub fn describe(superblock: &Superblock) -> serde_json::Value {
    json!({
        "uuid": uuid(superblock),
        "label": superblock.label_text(),
        "format_version": superblock.version.get(),
        "bytes": superblock.device_bytes.get(),
        "block_bytes": superblock.block_bytes.get(),
        "segment_bytes": superblock.segment_bytes.get(),
        "segments": superblock.segment_count.get(),
        "reserve_segments": superblock.reserve_segments.get(),
        "inode_bytes": superblock.inode_bytes.get(),
        "write_unit": superblock.write_unit.get(),
        "case_fold": superblock.case_fold(),
        "created_ns": superblock.created_ns.get(),
        "generation": superblock.generation.get(),
    })
}
