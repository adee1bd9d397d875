//! `varve mkfs`: makes a volume.

use super::output::{self, Failure, Outcome, Progress};
use super::{ffs, size, vlfs};
use serde_json::json;
use std::path::PathBuf;
use varve::admin::{Superblock as Made, format};
use varve::{Layout, MetadataUpdates, Preallocation, VolumeOptions};
use varve_fsck::inspect::uuid_text;
use varve_lfs::format::Superblock;

/// How blocks are placed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LayoutKind {
    /// The segmented log.
    Log,
    /// The virtual log.
    Vlfs,
    /// In place, in cylinder groups.
    Ffs,
}

/// How changes of metadata reach their places, and what a crash leaves.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MetadataKind {
    /// Through a journal: no check after a crash.
    Journal,
    /// In order, and at once, as FFS does; the first mount after a crash checks.
    Synchronous,
    /// In any order, when asked for or after half a minute; the first mount after a crash
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
    /// Bytes in a block: 4K to 64K.
    #[arg(long, value_parser = size::parse_u32, default_value = "4K")]
    block_size: u32,
    /// Bytes in an inode: 256 to 4K. Small files live inside.
    #[arg(long, value_parser = size::parse_u32, default_value = "256")]
    inode_size: u32,
    /// How blocks are placed: `log`, in segments that are cleaned; `vlfs`,
    /// eagerly, on the virtual log, for small synchronous writes; `ffs`, in place,
    /// in cylinder groups.
    #[arg(long, value_enum, default_value = "log")]
    layout: LayoutKind,
    /// With `--layout ffs`: blocks of a file that lie behind each other before a gap.
    /// FFS-m1r2 of the papers is 1 with a gap of 2, FFS-m8r0 8 without one, EFS 256.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..))]
    maxcontig: Option<u32>,
    /// With `--layout ffs`: blocks of the gap.
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(..=65536))]
    rotdelay: Option<u32>,
    /// With `--layout ffs`: how changes of metadata reach their places.
    #[arg(long, value_enum, default_value = "journal")]
    metadata: MetadataKind,
    /// Name for people, at most 64 bytes.
    #[arg(short = 'L', long, default_value = "", hide_default_value = true)]
    label: String,
    /// Compare names without regard to case.
    #[arg(long)]
    case_fold: bool,
    /// Overwrite what is there.
    #[arg(short, long)]
    force: bool,
    /// Tell what was made as JSON.
    #[arg(long)]
    json: bool,
}

impl Mkfs {
    /// With this size, if one is given.
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
        let in_place = self.maxcontig.is_some()
            || self.rotdelay.is_some()
            || self.metadata != MetadataKind::Journal;
        if self.layout != LayoutKind::Ffs && in_place {
            let text = "--maxcontig, --rotdelay and --metadata are for --layout ffs";
            return Err(Failure::new(2, text));
        }
        let made = self.make(match self.layout {
            LayoutKind::Log => Layout::Log,
            LayoutKind::Vlfs => Layout::VirtualLog,
            LayoutKind::Ffs => Layout::InPlace,
        })?;
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

    fn make(&self, layout: Layout) -> varve::Result<Made> {
        let mut options = VolumeOptions::new();
        options
            .layout(layout)
            .preallocate(match (self.preallocate, self.reserve) {
                (true, _) => Preallocation::Written,
                (_, true) => Preallocation::Reserve,
                _ => Preallocation::Sparse,
            })
            .label(&self.label)
            .block_bytes(self.block_size)
            .segment_bytes(self.segment_size)
            .inode_bytes(self.inode_size)
            .metadata(match self.metadata {
                MetadataKind::Journal => MetadataUpdates::Journal,
                MetadataKind::Synchronous => MetadataUpdates::Synchronous,
                MetadataKind::Async => MetadataUpdates::Asynchronous,
            })
            .placement(self.maxcontig.unwrap_or(256), self.rotdelay.unwrap_or(0))
            .case_fold(self.case_fold)
            .overwrite(self.force);
        if let Some(size) = self.size {
            options.size(size);
        }
        let progress = Progress::bytes("writing the image");
        let made = format(&self.volume, &options, &mut |done, total| {
            progress.at(done, total);
        });
        progress.finish();
        made
    }
}

/// The UUID in its usual form.
pub fn uuid(superblock: &Superblock) -> String {
    uuid_text(&superblock.uuid)
}

/// The superblock for scripts.
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
