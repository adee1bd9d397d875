//! Snapshots of a volume: kept, read, compared, restored.

use crate::error::{Cause, Error, Result};
use crate::metadata::{Metadata, system_time};
use crate::mounted::Mounted;
use crate::transaction::Transaction;
use crate::tree::Tree;
use crate::volume::Volume;
use std::ffi::OsString;
use std::ops::{Deref, Range};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use varve_fs::{ChangeKind, FileSystem, Restored, SnapshotTree, VolumeSnapshot};
use varve_lfs::Lfs;

/// A snapshot of a volume. It is part of the volume, and kept until it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot(VolumeSnapshot);

impl Snapshot {
    /// Its number: ascends with time and is never used again.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Its name; empty for an automatic one, which is deleted when space is needed.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// When it was taken.
    ///
    /// # Errors
    /// `InvalidInput` if the host cannot express that.
    pub fn taken(&self) -> Result<SystemTime> {
        system_time(self.0.taken)
    }

    /// True if it was taken without a name.
    pub fn is_automatic(&self) -> bool {
        self.0.is_automatic()
    }
}

/// A volume as a snapshot has it: everything of a [`Volume`] that reads. What would
/// change it is refused (`ReadOnlyFilesystem`). Once the snapshot is deleted or the
/// volume closed, reads fail with `ECANCELED`.
///
/// ```
/// # let volume = varve::Volume::in_memory(16 << 20)?;
/// volume.write("/notes", b"first")?;
/// let monday = volume.snapshot("monday")?;
/// volume.write("/notes", b"second")?;
/// let past = volume.at(&monday)?;
/// assert_eq!(past.read("/notes")?, b"first");
/// assert!(past.write("/notes", b"third").is_err());
/// # Ok::<(), varve::Error>(())
/// ```
#[derive(Debug)]
pub struct ReadOnlyVolume {
    volume: Volume,
    /// Ends the tree when it is dropped.
    _tree: SnapshotTree<Lfs>,
}

impl Deref for ReadOnlyVolume {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

/// A difference between two states of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The path, from the root; of a removed file the one that it had.
    pub path: PathBuf,
    /// The former path of a renamed file.
    pub from: Option<PathBuf>,
    /// The parts of the file that were written or freed: of a new file all of it. Whole
    /// blocks are compared by the write that made them, so a part may have been written
    /// with the bytes that it had.
    pub ranges: Vec<Range<u64>>,
}

impl Change {
    /// How many bytes the ranges have.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|part| part.end - part.start).sum()
    }

    fn new(change: varve_fs::Change) -> Self {
        let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
        Change {
            kind: change.kind,
            path: path(change.path),
            from: change.from.map(path),
            ranges: change.ranges,
        }
    }
}

/// A version of a file.
#[derive(Clone, Debug)]
pub struct FormerFile {
    /// The oldest snapshot that has it; none for the file as it is.
    pub snapshot: Option<Snapshot>,
    /// Its attributes.
    pub metadata: Metadata,
}

/// A name that a snapshot has and the volume has not any more.
#[derive(Clone, Debug)]
pub struct RemovedName {
    /// The name in its directory.
    pub name: OsString,
    /// The newest snapshot that has it.
    pub snapshot: Snapshot,
    /// The attributes that the file had.
    pub metadata: Metadata,
}

impl Volume {
    /// Takes a snapshot of everything that has been written, durable when this returns.
    /// With an empty name it is an automatic one, which is deleted when its space is
    /// needed.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is longer than 255 bytes, begins with `@`, or has a
    /// slash or control characters; `AlreadyExists`, `StorageFull`, `ReadOnlyFilesystem`;
    /// `Unsupported` on a volume of another layout than the log.
    pub fn snapshot(&self, name: &str) -> Result<Snapshot> {
        let taken = self.on_log("take a snapshot", |fs, _| fs.create_snapshot(name));
        taken.map(Snapshot)
    }

    /// The snapshots, oldest first.
    ///
    /// # Errors
    /// `Unsupported` on a volume of another layout than the log.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let all = self.on_log("list the snapshots", |fs, _| fs.snapshots())?;
        Ok(all.into_iter().map(Snapshot).collect())
    }

    /// The snapshot with a name, or the newest one that is not younger than a time:
    /// `@-2h`, `@-3d`, `@2026-11-28T10:00` (in UTC).
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` for a malformed time; as [`Volume::snapshots`].
    pub fn snapshot_named(&self, name: &str) -> Result<Snapshot> {
        let found = self.on_log("find the snapshot", |fs, _| fs.snapshot_named(name));
        found.map(Snapshot)
    }

    /// Gives a snapshot another name; an automatic one is kept from now on.
    ///
    /// # Errors
    /// `NotFound` if it was deleted; as [`Volume::snapshot`].
    pub fn rename_snapshot(&self, snapshot: &Snapshot, name: &str) -> Result<()> {
        let number = snapshot.number();
        self.on_log("rename the snapshot", |fs, _| {
            fs.rename_snapshot(number, name)
        })
    }

    /// Deletes a snapshot. What only it has is freed later.
    ///
    /// # Errors
    /// `NotFound` if it was deleted before; as [`Volume::snapshot`].
    pub fn delete_snapshot(&self, snapshot: &Snapshot) -> Result<()> {
        let numbers = [snapshot.number()];
        self.on_log("delete the snapshot", |fs, _| fs.delete_snapshots(&numbers))
    }

    /// The volume as a snapshot has it.
    ///
    /// # Errors
    /// `NotFound` if it was deleted; as [`Volume::snapshots`].
    pub fn at(&self, snapshot: &Snapshot) -> Result<ReadOnlyVolume> {
        let tree = self.on_log("open the snapshot", |fs, _| fs.at(snapshot.number()))?;
        Ok(ReadOnlyVolume {
            volume: self.within(Tree::Log(Arc::clone(tree.tree()))),
            _tree: tree,
        })
    }

    /// What happened between a snapshot and a later one, or the present, sorted by path.
    /// It takes time for the changes, and not for the volume: unchanged directories are
    /// read only to find the name of a file that was modified in one of them.
    ///
    /// ```
    /// use varve::ChangeKind;
    /// # let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/a", b"1")?;
    /// let before = volume.snapshot("before")?;
    /// volume.rename("/a", "/b")?;
    /// let changes = volume.diff(&before, None)?;
    /// assert_eq!(changes[0].kind, ChangeKind::Renamed);
    /// assert_eq!(changes[0].path.to_str(), Some("/b"));
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if the second one is older; `NotFound` if one was deleted; as
    /// [`Volume::snapshots`].
    pub fn diff(&self, from: &Snapshot, to: Option<&Snapshot>) -> Result<Vec<Change>> {
        let to = to.map(Snapshot::number);
        let changes = self.on_log("compare snapshots", |fs, _| fs.diff(from.number(), to))?;
        Ok(changes.into_iter().map(Change::new).collect())
    }

    /// Restores a file, or a directory with all that was in it, from a snapshot, in one
    /// transaction. Directories above it that are gone are made.
    /// If the path exists now, an automatic snapshot is taken before.
    ///
    /// ```
    /// # let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.create_dir("/letters")?;
    /// volume.write("/letters/may", b"Hello,")?;
    /// let monday = volume.snapshot("monday")?;
    /// volume.remove_dir_all("/letters")?;
    /// volume.restore(&monday, "/letters/may")?;
    /// assert_eq!(volume.read("/letters/may")?, b"Hello,");
    /// # Ok::<(), varve::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` if the snapshot has no such path; as [`Volume::transact`] and
    /// [`Volume::snapshot`].
    pub fn restore(&self, snapshot: &Snapshot, path: impl AsRef<Path>) -> Result<Restored> {
        let path = path.as_ref();
        if self.symlink_metadata(path).is_ok() {
            self.snapshot("")?;
        }
        self.transact(|transaction| transaction.restore(snapshot, path))
    }

    /// Makes the whole volume what it was in a snapshot, in one transaction. What it was
    /// before is an automatic snapshot.
    ///
    /// # Errors
    /// As [`Volume::restore`].
    pub fn rollback(&self, snapshot: &Snapshot) -> Result<Restored> {
        self.restore(snapshot, "/")
    }

    /// The versions of the file at a path, oldest first and the present one last.
    ///
    /// # Errors
    /// As [`Volume::snapshots`].
    pub fn versions(&self, path: impl AsRef<Path>) -> Result<Vec<FormerFile>> {
        let path = path.as_ref().as_os_str().as_bytes();
        let device = self.mounted().device;
        let find = |fs: &Arc<FileSystem<Lfs>>, on: &Mounted| fs.versions(on.caller(), path);
        let found = self.on_log("find versions", find)?.into_iter();
        let version = |version: varve_fs::FormerFile| FormerFile {
            snapshot: version.snapshot.map(Snapshot),
            metadata: Metadata::new(version.attr, device),
        };
        Ok(found.map(version).collect())
    }

    /// The names that were in a directory and are not any more, sorted. The directory
    /// itself may be gone.
    ///
    /// # Errors
    /// As [`Volume::snapshots`].
    pub fn removed_names(&self, directory: impl AsRef<Path>) -> Result<Vec<RemovedName>> {
        let path = directory.as_ref().as_os_str().as_bytes();
        let device = self.mounted().device;
        let find = |fs: &Arc<FileSystem<Lfs>>, on: &Mounted| fs.removed_names(on.caller(), path);
        let found = self.on_log("find removed names", find)?.into_iter();
        let removed = |removed: varve_fs::RemovedName| RemovedName {
            name: OsString::from_vec(removed.name),
            snapshot: Snapshot(removed.snapshot),
            metadata: Metadata::new(removed.attr, device),
        };
        Ok(found.map(removed).collect())
    }

    /// Runs an operation on the log's file system.
    fn on_log<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Arc<FileSystem<Lfs>>, &Mounted) -> varve_fs::Result<T>,
    ) -> Result<T> {
        let mounted = self.mounted();
        let run = || {
            let _open = mounted.admit()?;
            let fs = mounted.tree().log().ok_or(varve_fs::Error::NoSnapshots);
            fs.and_then(|fs| work(fs, mounted)).map_err(Cause::Tree)
        };
        run().map_err(|cause| Error::of_volume(operation, cause))
    }
}

impl Transaction {
    /// [`Volume::restore`] as a part of this transaction, without a snapshot of what
    /// was before.
    ///
    /// # Errors
    /// As [`Volume::restore`].
    pub fn restore(&self, snapshot: &Snapshot, path: impl AsRef<Path>) -> Result<Restored> {
        let path = path.as_ref();
        let restored = || {
            let transaction = self.log().ok_or(varve_fs::Error::NoSnapshots)?;
            let from = transaction.snapshot(snapshot.number())?;
            let caller = self.mounted().caller();
            transaction.restore(caller, &from, path.as_os_str().as_bytes())
        };
        restored().map_err(|error| Error::at("restore", path, Cause::Tree(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    fn changes(volume: &Volume, from: &Snapshot) -> Vec<(ChangeKind, String, u64)> {
        let changes = volume.diff(from, None).unwrap().into_iter();
        changes
            .map(|change| {
                (
                    change.kind,
                    change.path.display().to_string(),
                    change.bytes(),
                )
            })
            .collect()
    }

    #[test]
    fn snapshots_are_taken_compared_and_restored() {
        let volume = Volume::in_memory(32 << 20).unwrap();
        volume.create_dir("/letters").unwrap();
        volume.write("/letters/may", vec![1; 20_000]).unwrap();
        let monday = volume.snapshot("monday").unwrap();
        volume.write("/letters/june", b"new").unwrap();
        volume.remove_file("/letters/may").unwrap();
        let wanted = [
            (ChangeKind::Created, "/letters/june".to_owned(), 3),
            (ChangeKind::Removed, "/letters/may".to_owned(), 0),
        ];
        assert_eq!(changes(&volume, &monday), wanted);
        let removed = volume.removed_names("/letters").unwrap();
        assert_eq!((&removed[0].name, removed.len()), (&"may".into(), 1));
        assert_eq!(removed[0].metadata.len(), 20_000);
        let done = volume.restore(&monday, "/letters/may").unwrap();
        assert_eq!((done.restored, done.bytes), (1, 20_000));
        assert_eq!(volume.snapshots().unwrap().len(), 1, "nothing was lost");
        volume.rollback(&monday).unwrap();
        assert!(!volume.exists("/letters/june").unwrap());
        assert_eq!(volume.read("/letters/may").unwrap(), [1; 20_000]);
        // June is in the automatic snapshot of before.
        let before = volume.snapshots().unwrap().pop().unwrap();
        assert!(before.is_automatic());
        let past = volume.at(&before).unwrap();
        assert_eq!(past.read("/letters/june").unwrap(), b"new");
        assert_eq!(volume.versions("/letters/june").unwrap().len(), 1);
        let named = volume.snapshot_named("monday").unwrap();
        volume.rename_snapshot(&named, "tuesday").unwrap();
        volume.delete_snapshot(&named).unwrap();
        let gone = volume.at(&monday).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn other_layouts_say_that_they_have_none() {
        let mut options = crate::VolumeOptions::new();
        let host = tempfile::tempdir().unwrap();
        for layout in [crate::Layout::VirtualLog, crate::Layout::InPlace] {
            options.layout(layout).size(64 << 20);
            let path = host.path().join(format!("{layout:?}.img"));
            let volume = options.create(path).unwrap();
            let error = volume.snapshot("monday").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let text = error.to_string();
            let start = "cannot take a snapshot: only volumes with the layout log have snapshots";
            assert!(text.starts_with(start), "{text}");
        }
    }
}
