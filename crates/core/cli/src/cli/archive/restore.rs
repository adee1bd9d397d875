//! `varve archive restore`: makes an image of an archive.

use super::manifest::{Manifest, from_hex};
use super::{FAILED, Failure, Outcome};
use crate::cli::output;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use varve::admin::open_device;
use varve::{IoMode, VolumeOptions};
use varve_device::{Clock, Device, HostClock, OpenMode};
use varve_lfs::format::Superblock;
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::internal::write_superblocks;
use varve_lfs::{Geometry, superblock_offsets};
use varve_object::{Store, StoreUrl};

/// Make an image of an archive.
///
/// Every segment is compared with its checksum. The volume has all snapshots that it had
/// at that checkpoint; `varve fsck --data IMAGE` verifies each block.
#[derive(clap::Args)]
pub struct Restore {
    /// The folder of the archives, or the URL of a store.
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,
    /// The image to make. Holes take no space.
    #[arg(long, value_name = "IMAGE")]
    to: PathBuf,
    /// Roll the volume back to this snapshot, which is looked for from the newest archive
    /// on. By default the newest archive is restored as it is.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Restore the archive of this checkpoint.
    #[arg(long, value_name = "N", conflicts_with = "snapshot")]
    checkpoint: Option<u64>,
    /// The volume, if the folder has several: its tag, the name of a folder in it.
    #[arg(long, value_name = "TAG")]
    volume: Option<String>,
}

impl Restore {
    pub fn run(self) -> Outcome {
        let failed = |text: String| Failure::new(FAILED, text);
        let shown = self.from.display();
        if !StoreUrl::is_url(&self.from) && !self.from.is_dir() {
            return Err(failed(format!(
                "{shown} is no folder; name one with archives"
            )));
        }
        let store = super::store_of(&self.from)?;
        let manifest = self.choose(&*store)?;
        restore(&*store, &manifest, &self.to).map_err(failed)?;
        if let Some(name) = &self.snapshot {
            let volume = VolumeOptions::new().open(&self.to)?;
            let snapshot = volume.snapshot_named(name)?;
            volume.rollback(&snapshot)?;
            volume.close()?;
        }
        output::line(format_args!(
            "{}: checkpoint {}, {} segments",
            self.to.display(),
            manifest.serial,
            manifest.segments.len()
        ));
        Ok(0)
    }

    fn choose(&self, store: &dyn Store) -> Result<Manifest, Failure> {
        let shown = self.from.display();
        let failed = |text: String| Failure::new(FAILED, format_args!("{shown}: {text}"));
        let listed = store.list("", "").map_err(Failure::with(FAILED))?;
        let mut names = listed.iter().map(|object| object.name.as_str());
        let mut tags: Vec<&str> = names
            .by_ref()
            .filter_map(|name| name.split_once("/manifests/"))
            .map(|(tag, _)| tag)
            .filter(|tag| self.volume.as_deref().is_none_or(|wanted| wanted == *tag))
            .collect();
        tags.dedup();
        let tag = match tags[..] {
            [tag] => tag,
            [] => return Err(failed("there is no archive".to_owned())),
            _ => {
                let all = tags.join(", ");
                return Err(failed(format!(
                    "there are several volumes; name one with --volume: {all}"
                )));
            }
        };
        let mut why = None;
        let names = Manifest::list(store, tag).map_err(Failure::with(FAILED))?;
        for name in names.iter().rev() {
            match Manifest::get(store, name) {
                Ok(manifest) if self.is_wanted(&manifest) => return Ok(manifest),
                Ok(_) => {}
                Err(damaged) => {
                    output::notes(&damaged);
                    why = Some(damaged);
                }
            }
        }
        Err(failed(why.unwrap_or_else(|| {
            "no archive has this snapshot or checkpoint".to_owned()
        })))
    }

    fn is_wanted(&self, manifest: &Manifest) -> bool {
        let now = HostClock::default().now_ns();
        let now = varve_fs::Timestamp::from_ns(now);
        let has = |name: &String| match varve_fs::parse_time(name, now) {
            Ok(latest) => manifest
                .snapshots
                .iter()
                .any(|one| one.taken <= latest.seconds),
            Err(_) => manifest.snapshots.iter().any(|one| one.name == *name),
        };
        self.snapshot.as_ref().is_none_or(has)
            && self
                .checkpoint
                .is_none_or(|serial| serial == manifest.serial)
    }
}

/// Makes the image `to` of an archive. A partly written image is removed if that fails.
pub(super) fn restore(store: &dyn Store, manifest: &Manifest, to: &Path) -> Result<(), String> {
    let of_target = |error: std::io::Error| format!("{}: {error}", to.display());
    let damaged = || format!("{}: the manifest is damaged", store.name());
    let superblock = from_hex(&manifest.superblock).ok_or_else(damaged)?;
    let superblock = Superblock::parse(&superblock, 0).map_err(|_| damaged())?;
    let record = from_hex(&manifest.record).ok_or_else(damaged)?;
    let decoded = CheckpointRecord::decode(&record, superblock.volume_tag());
    decoded.map_err(|_| damaged())?;
    let file = std::fs::File::create_new(to).map_err(of_target)?;
    let made = file.set_len(superblock.device_bytes.get());
    let filled = made.map_err(of_target).and_then(|()| {
        drop(file);
        fill(store, manifest, to, &superblock, &record)
    });
    if filled.is_err() {
        // The first failure is reported, not that of the removal.
        let _ = std::fs::remove_file(to);
    }
    filled
}

fn fill(
    store: &dyn Store,
    manifest: &Manifest,
    to: &Path,
    superblock: &Superblock,
    record: &[u8],
) -> Result<(), String> {
    let geometry = Geometry::from(superblock);
    let device = open_device(to, OpenMode::ReadWrite, IoMode::Buffered);
    let device = device.map_err(|error| error.to_string())?;
    let write = |at: u64, bytes: &[u8]| {
        let written = device.write(at, &[IoSlice::new(bytes)]);
        written.map_err(|error| format!("{}: {error}", to.display()))
    };
    for stored in &manifest.segments {
        let fits = stored.segment < geometry.segment_count
            && stored.bytes <= u64::from(geometry.segment_bytes);
        if !fits {
            return Err(format!("{}: the manifest is damaged", store.name()));
        }
        let bytes = stored.get(store, &manifest.tag)?;
        write(geometry.byte(stored.segment, 0), &bytes)?;
    }
    let slot = manifest.serial % u64::from(superblock.record_count.get());
    let slot_bytes = u64::from(superblock.record_bytes.get());
    write(superblock.ring_offset.get() + slot * slot_bytes, record)?;
    // The primary is written last: until then there is no volume.
    let offsets = superblock_offsets(superblock).collect();
    write_superblocks(&device, superblock, offsets).map_err(|error| error.to_string())
}
