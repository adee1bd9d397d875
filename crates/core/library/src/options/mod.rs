//! Options for creating and opening a volume.

mod store;
mod tuning;

pub use store::StoreOptions;
pub use tuning::Tuning;

use varve_device::IoMode;
use varve_ffs::FreeMap;
use varve_ffs::allocate::Policy as Allocation;
use varve_ffs::format::Metadata as MetadataUpdates;
use varve_fs::{Atime, Caller, Detection};

/// How a volume places its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// A log of segments with a cleaner. The default.
    #[default]
    Log,
    /// The virtual log: each block is written at a free place near the head, and nothing
    /// is cleaned. For small synchronous writes.
    VirtualLog,
    /// In place, in cylinder groups, as in FFS, with or without a journal of metadata
    /// ([`VolumeOptions::metadata`]). For files that are read often and seldom
    /// overwritten; it has no transactions and no checksums of file content.
    InPlace,
}

/// Allocation of the host's space for a new image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preallocation {
    /// None: the image takes space as it fills, and writes to the volume fail if the host
    /// has no space left. The default.
    #[default]
    Sparse,
    /// Reserved but not written: fast, and the host cannot run out of space.
    Reserve,
    /// Written with zeros: slow to create, but later writes change no metadata of the
    /// host's file system, which makes each flush cheaper.
    Written,
}

/// Options for creating and opening a volume.
///
/// ```
/// # let host = tempfile::tempdir()?;
/// # let image = host.path().join("archive.img");
/// use varve::VolumeOptions;
/// VolumeOptions::new()
///     .size(64 << 20)
///     .label("archive")
///     .create(&image)?
///     .close()?;
/// let volume = VolumeOptions::new().read_only(true).open(&image)?;
/// assert_eq!(volume.label(), "archive");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    pub(crate) size: Option<u64>,
    pub(crate) layout: Layout,
    pub(crate) preallocate: Preallocation,
    pub(crate) label: String,
    pub(crate) block_bytes: Option<u32>,
    pub(crate) segment_bytes: u32,
    pub(crate) allocation: Allocation,
    pub(crate) aged: Option<Box<FreeMap>>,
    pub(crate) metadata: MetadataUpdates,
    pub(crate) minfree_percent: u32,
    pub(crate) inode_bytes: u32,
    pub(crate) case_fold: bool,
    pub(crate) overwrite: bool,
    pub(crate) read_only: bool,
    pub(crate) cache_bytes: u64,
    pub(crate) io: IoMode,
    pub(crate) background: bool,
    pub(crate) strict_order: bool,
    pub(crate) deadlocks: Detection,
    pub(crate) atime: Atime,
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) umask: u32,
    pub(crate) store: StoreOptions,
    pub(crate) tuning: Tuning,
}

impl VolumeOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        VolumeOptions {
            size: None,
            layout: Layout::Log,
            preallocate: Preallocation::Sparse,
            label: String::new(),
            block_bytes: None,
            segment_bytes: 0,
            allocation: Allocation::default(),
            aged: None,
            metadata: MetadataUpdates::Journal,
            minfree_percent: 5,
            inode_bytes: 256,
            case_fold: false,
            overwrite: false,
            read_only: false,
            cache_bytes: 128 << 20,
            io: IoMode::Direct,
            background: true,
            strict_order: false,
            deadlocks: Detection::default(),
            atime: Atime::Relatime,
            owner: None,
            umask: 0o022,
            store: StoreOptions::default(),
            tuning: Tuning::default(),
        }
    }
}

/// Options of a new volume.
impl VolumeOptions {
    /// Sets the size of a new image in bytes, a multiple of 512. Default: the size of the
    /// existing block device or image file.
    pub fn size(&mut self, bytes: u64) -> &mut Self {
        self.size = Some(bytes);
        self
    }

    /// Sets the layout. Default: [`Layout::Log`].
    pub fn layout(&mut self, layout: Layout) -> &mut Self {
        self.layout = layout;
        self
    }

    /// Sets the allocation of space for a new image. Default: sparse.
    pub fn preallocate(&mut self, how: Preallocation) -> &mut Self {
        self.preallocate = how;
        self
    }

    /// Sets the label, at most 64 bytes. Default: none.
    pub fn label(&mut self, label: impl Into<String>) -> &mut Self {
        self.label = label.into();
        self
    }

    /// Sets the size of a block in bytes, a power of two from 4096 to 65536. Default:
    /// 4096, or that of the map ([`VolumeOptions::aged`]).
    pub fn block_bytes(&mut self, bytes: u32) -> &mut Self {
        self.block_bytes = Some(bytes);
        self
    }

    /// Returns the size of a block that was set, or its default.
    pub(crate) fn bytes_of_block(&self) -> u32 {
        let map = self.aged.as_ref().map(|map| map.block_bytes());
        self.block_bytes.or(map).unwrap_or(4096)
    }

    /// Sets the size of a segment in bytes, a power of two; for the segmented log only.
    /// Default: 0, which chooses 128 KiB to 4 MiB by the size of the volume.
    pub fn segment_bytes(&mut self, bytes: u32) -> &mut Self {
        self.segment_bytes = bytes;
        self
    }

    /// Sets the allocation policy of a volume that is updated in place. Default: that of
    /// FFS, in clusters of 256 blocks.
    pub fn allocation(&mut self, policy: Allocation) -> &mut Self {
        self.allocation = policy;
        self
    }

    /// Ages a new volume that is updated in place: a file `aged` occupies all space
    /// except for the blocks that are free on the map. Only with FFS's own policy.
    /// Default: all blocks are free.
    pub fn aged(&mut self, map: FreeMap) -> &mut Self {
        self.aged = Some(Box::new(map));
        self
    }

    /// Sets the method by which a volume that is updated in place changes its metadata.
    /// Default: a journal.
    pub fn metadata(&mut self, metadata: MetadataUpdates) -> &mut Self {
        self.metadata = metadata;
        self
    }

    /// Sets the percentage of space that a volume updated in place reserves, at most 50.
    /// Default: 5.
    pub fn minfree_percent(&mut self, percent: u32) -> &mut Self {
        self.minfree_percent = percent;
        self
    }

    /// Sets the size of an inode in bytes, a power of two from 256 to 4096; for the
    /// segmented log only. Small files are stored in the unused part. Default: 256.
    pub fn inode_bytes(&mut self, bytes: u32) -> &mut Self {
        self.inode_bytes = bytes;
        self
    }

    /// Compares directory names without regard to case. Default: off.
    pub fn case_fold(&mut self, on: bool) -> &mut Self {
        self.case_fold = on;
        self
    }

    /// Overwrites existing data, but never a device in use. Default: off.
    pub fn overwrite(&mut self, on: bool) -> &mut Self {
        self.overwrite = on;
        self
    }
}

/// Options for opening a volume.
impl VolumeOptions {
    /// Changes nothing on the device: after a crash the log is replayed in memory only.
    /// Other readers may open the volume at the same time. Default: off.
    pub fn read_only(&mut self, on: bool) -> &mut Self {
        self.read_only = on;
        self
    }

    /// Sets the memory for file data and metadata in bytes, at least 2 MiB. Default: 128
    /// MiB.
    pub fn cache(&mut self, bytes: u64) -> &mut Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets the I/O mode. Default: direct, which bypasses the host's page cache; buffered
    /// if the host refuses direct I/O.
    pub fn io(&mut self, mode: IoMode) -> &mut Self {
        self.io = mode;
        self
    }

    /// Starts threads that write back, checkpoint and clean. If they are off, writers do
    /// that work when thresholds are passed. Default: on.
    pub fn background(&mut self, on: bool) -> &mut Self {
        self.background = on;
        self
    }

    /// Makes data survive a crash as a prefix of its order. Default: off; then this is
    /// true of directory operations and synced data only.
    pub fn strict_order(&mut self, on: bool) -> &mut Self {
        self.strict_order = on;
        self
    }

    /// Sets the moment at which deadlocks of locking transactions are detected. Default:
    /// at each wait, so that a deadlock is resolved at once. With [`Detection::OnCall`] a
    /// transaction in a deadlock waits for
    /// [`Volume::detect_deadlocks`](crate::Volume::detect_deadlocks) or for its timeout.
    pub fn deadlocks(&mut self, when: Detection) -> &mut Self {
        self.deadlocks = when;
        self
    }

    /// Sets the treatment of access times. Default: relatime.
    pub fn atime(&mut self, how: Atime) -> &mut Self {
        self.atime = how;
        self
    }

    /// Sets the owner of new files, and of the root directory of a new volume. Permission
    /// bits are not enforced. Default: user and group of this process.
    pub fn owner(&mut self, uid: u32, gid: u32) -> &mut Self {
        self.owner = Some((uid, gid));
        self
    }

    /// Sets the permission bits that new files and directories do not get. Default: 022.
    pub fn umask(&mut self, mask: u32) -> &mut Self {
        self.umask = mask & 0o777;
        self
    }

    /// Sets how a volume in an object store is opened. Default: that of [`StoreOptions`].
    pub fn store(&mut self, options: StoreOptions) -> &mut Self {
        self.store = options;
        self
    }

    /// Sets options for servers and measurements. Default: that of [`Tuning`].
    pub fn tune(&mut self, tuning: Tuning) -> &mut Self {
        self.tuning = tuning;
        self
    }
}

impl Default for VolumeOptions {
    fn default() -> Self {
        VolumeOptions::new()
    }
}

impl VolumeOptions {
    /// Returns the shares of the cache in bytes: blocks and inodes of the file system,
    /// decoded metadata of the layout. An eighth of the cache is lost to the allocator.
    pub(crate) fn cache_shares(&self) -> (u64, u64) {
        let total = self.cache_bytes.max(2 << 20) / 8 * 7;
        let metadata = total / 4;
        (total - metadata, metadata)
    }

    /// Returns the mount options of the file system above the layout.
    pub(crate) fn tree(&self) -> varve_fs::Options {
        varve_fs::Options {
            cache_bytes: self.cache_shares().0,
            write_back_bytes: None,
            strict_order: self.strict_order,
            keep_written: self.tuning.keep_written,
            relatime: self.atime,
            read_ahead_threads: self.tuning.read_ahead_threads,
            read_ahead_window: varve_fs::ReadAheadWindow::default(),
            deadlocks: self.deadlocks,
        }
    }

    /// Returns the identity on whose behalf operations run and who owns the root
    /// directory.
    pub(crate) fn caller(&self) -> Caller {
        let (uid, gid) = self.owner.unwrap_or_else(crate::host::user_and_group);
        Caller {
            uid,
            gid,
            groups: Vec::new(),
            checked: true,
            umask: self.umask,
        }
    }
}
