//! Shows a volume's structures, for `varve info` and `varve dump`.
//!
//! [`Inspector`] opens a volume like a check, in memory and read-only, and returns plain
//! values that implement [`std::fmt::Display`] for people and [`serde::Serialize`] for
//! scripts. Damage is reported in the values (`problem`, `problems`) next to the readable
//! parts; only a volume without any superblock is an error.

mod collector;
mod history;
mod ifile;
mod inode;
mod runs;
mod segments;
mod volume;

pub use history::{HistoryRunView, HistoryView, SnapshotView};
pub use ifile::{IfileRegion, IfileView, NumberRange};
pub use inode::{InodeView, Place};
pub use runs::{Run, RunState};
pub use segments::{EntryView, PartialView, SegmentContentsView, SegmentView};
pub use volume::{
    OwnerView, PositionView, RecordView, SlotView, SuperblockView, VolumeView, uuid_text,
};

use crate::check::{Blocks, FileView, Findings, State, load_image, plain};
use std::sync::Arc;
use varve_device::{Clock, Device};
use varve_fs::directory::{self, Key};
use varve_fs::{FileKind, Inode, InodeNo};
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::format::{Pointer, Superblock, UsageEntry};
use varve_lfs::internal::{Reader, read_ring, recover};
use varve_lfs::{Error, Geometry, Lfs, RecoveryReport, Result};

/// Bytes of decoded metadata in the cache.
const CACHE_BYTES: u64 = 16 << 20;

/// A volume that is inspected.
pub struct Inspector {
    device: Arc<dyn Device>,
    superblock: Superblock,
    geometry: Geometry,
    reader: Reader,
    /// Time of opening, in ns since 1970.
    now_ns: i64,
    /// The committed state, if any checkpoint can be loaded.
    loaded: Option<Loaded>,
    /// Reasons why parts of the state are missing.
    problems: Vec<String>,
}

/// A checkpoint and the changes replayed over it.
struct Loaded {
    record: CheckpointRecord,
    /// The usage table as written, without corrections.
    table: Vec<UsageEntry>,
    state: State,
}

impl Inspector {
    /// Opens a volume without writing to it.
    ///
    /// # Errors
    /// `NoVolume` if no copy of the superblock is usable.
    pub fn open(device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<Inspector> {
        let superblock = Lfs::find_superblock(&*device)?;
        let geometry = Geometry::from(&superblock);
        let reader = Reader::offline(Arc::clone(&device), geometry, CACHE_BYTES);
        let mut records: Vec<CheckpointRecord> = read_ring(&*device, &superblock)
            .into_iter()
            .flatten()
            .collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.header.serial.get()));
        let recovered = recover(&*device, &superblock, &reader, &geometry);
        let used = recovered.as_ref().ok().map(|r| r.report.checkpoint);
        let mut found = Findings::default();
        if let Err(error @ Error::NoCheckpoint { .. }) = &recovered {
            found.error(
                crate::check::FindingKind::Recovery,
                crate::check::Subject::Volume,
                error.to_string(),
            );
        }
        let image = load_image(&reader, &geometry, &records, used, &mut found);
        let loaded = image.map(|(record, base, table)| {
            let state = State::new(recovered, base, &table, &record, &mut found);
            Loaded {
                record,
                table,
                state,
            }
        });
        Ok(Inspector {
            device,
            superblock,
            geometry,
            reader,
            now_ns: clock.now_ns(),
            loaded,
            problems: found.errors.into_iter().map(|f| f.text).collect(),
        })
    }

    /// Returns the geometry of the volume.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the reasons why parts of the committed state are missing; empty on an
    /// undamaged volume.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the report of the roll-forward, if a checkpoint could be loaded.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.loaded.as_ref().map(|loaded| &loaded.state.report)
    }

    fn loaded(&self) -> Result<&Loaded> {
        self.loaded
            .as_ref()
            .ok_or_else(|| Error::Stopped("no checkpoint can be loaded".into()))
    }

    fn view(&self, ino: InodeNo) -> Result<FileView<'_>> {
        let loaded = self.loaded()?;
        let (base, live) = (&loaded.state.base, &loaded.state.live);
        FileView::new(&self.reader, &self.geometry, base, live, ino)
    }

    /// Resolves a path from the root without following symbolic links.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Damaged`.
    pub fn lookup(&self, path: &[u8]) -> varve_fs::Result<InodeNo> {
        let mut ino = InodeNo::ROOT;
        for name in path.split(|&byte| byte == b'/') {
            if name.is_empty() || name == b"." {
                continue;
            }
            ino = self.entry(ino, name)?;
        }
        Ok(ino)
    }

    fn entry(&self, ino: InodeNo, name: &[u8]) -> varve_fs::Result<InodeNo> {
        let (key, mut blocks, parent) = self.directory(ino)?;
        if name == b".." {
            return Ok(parent);
        }
        directory::lookup(&key, &mut blocks, name)?
            .map(|(ino, _)| ino)
            .ok_or(varve_fs::Error::NotFound)
    }

    /// Returns the attributes of an inode of the newest state.
    ///
    /// # Errors
    /// `NotFound`, `Damaged`.
    pub fn attributes(&self, ino: InodeNo) -> varve_fs::Result<Inode> {
        let view = self.view(ino)?;
        let logged = view.delta().and_then(|delta| delta.image.as_ref());
        let image = logged.map(|placed| &placed.image);
        image
            .or_else(|| view.image().map(|(image, _)| image))
            .map(|image| image.inode.clone())
            .ok_or(varve_fs::Error::NotFound)
    }

    fn directory(&self, ino: InodeNo) -> varve_fs::Result<(Key, Blocks<'_>, InodeNo)> {
        let inode = self.attributes(ino)?;
        if inode.kind() != FileKind::Directory {
            return Err(varve_fs::Error::NotDirectory);
        }
        let key = Key {
            hash_seed: self.superblock.hash_seed.get(),
            case_fold: self.superblock.case_fold(),
            ino,
            version: inode.version,
        };
        Ok((key, Blocks::new(self.view(ino)?), inode.parent))
    }

    /// Returns the names in the readable blocks of a directory, in the order of their
    /// cookies: name, inode, kind.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Damaged` if nothing can be listed.
    pub fn names(&self, ino: InodeNo) -> varve_fs::Result<Vec<(Vec<u8>, InodeNo, FileKind)>> {
        let (key, mut blocks, _) = self.directory(ino)?;
        let mut names = Vec::new();
        let outcome = directory::list(&key, &mut blocks, 0, &mut |name, ino, kind, _| {
            names.push((name.to_vec(), ino, kind));
            true
        });
        match outcome {
            Err(error) if names.is_empty() => Err(error),
            _ => Ok(names),
        }
    }

    /// Returns the pointer of a block of a file, and its content, padded with zeros to
    /// the block size. `None` for a hole.
    ///
    /// # Errors
    /// If the index or the block is damaged.
    pub fn read(&self, ino: InodeNo, block: u64) -> Result<Option<(Pointer, Vec<u8>)>> {
        let pointer = if ino == InodeNo::IFILE {
            let root = self.loaded()?.state.base.ifile_root();
            let reader = &self.reader;
            varve_lfs::internal::Tree { reader, ino, root }.get(block)?
        } else {
            self.view(ino)?.get(block)?
        };
        let Some(pointer) = pointer else {
            return Ok(None);
        };
        let mut bytes = self.reader.block(&pointer, ino, block)?;
        bytes.resize(self.geometry.block_bytes as usize);
        Ok(Some((pointer, bytes.into_vec())))
    }

    /// Reads stored bytes at any sector of the device, unverified.
    ///
    /// # Errors
    /// Device errors.
    pub fn raw(&self, sector: u64, bytes: &mut [u8]) -> Result<()> {
        self.reader.read_uncached(sector, bytes)
    }
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspector")
            .field("device", &self.device.name())
            .field("problems", &self.problems)
            .finish_non_exhaustive()
    }
}

/// Converts an error into text.
fn said<T>(result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| plain(&error))
}

/// Formats ns since 1970 as UTC, to the second.
pub fn utc(ns: i64) -> String {
    let seconds = ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil date from days since 1970, after Hinnant.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59:59 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_753_056_000_000_000_000), "2025-07-21 00:00:00 UTC");
    }
}
