//! Choices made when a volume is created or opened.

mod tuning;

pub use tuning::Tuning;

use varve_device::IoMode;
use varve_ffs::FreeMap;
use varve_ffs::allocate::Policy as Allocation;
use varve_ffs::format::Metadata as MetadataUpdates;
use varve_fs::{Atime, Caller, Detection};

/// How a volume places what is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// A log of segments, with a cleaner. The default.
    #[default]
    Log,
    /// The virtual log: each write goes where it is near, nothing is cleaned.
    /// For small synchronous writes.
    VirtualLog,
    /// In place, in cylinder groups, as FFS does, with a journal of metadata or without
    /// ([`VolumeOptions::metadata`]). For
    /// what is read often, written once, and overwritten seldom; without
    /// transactions and without checksums of file content.
    InPlace,
}

/// How the host's space for a new image is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preallocation {
    /// Not at all: the image takes space as it fills, and writes to the volume
    /// fail should the host run out. The default.
    #[default]
    Sparse,
    /// Reserved but not written: quick, and the host cannot run out.
    Reserve,
    /// Written with zeros: slow to create, but later writes change no metadata
    /// of the host's file system, which makes each flush cheaper.
    Written,
}

/// How a volume is created and opened.
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
    pub(crate) tuning: Tuning,
}

impl VolumeOptions {
    /// The defaults.
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
            tuning: Tuning::default(),
        }
    }
}

/// What a new volume is to be like.
impl VolumeOptions {
    /// Bytes of a new image, a multiple of 512. Default: the size of what
    /// exists, a block device or an image file.
    pub fn size(&mut self, bytes: u64) -> &mut Self {
        self.size = Some(bytes);
        self
    }

    /// How it places what is written. Default: in a segmented log.
    pub fn layout(&mut self, layout: Layout) -> &mut Self {
        self.layout = layout;
        self
    }

    /// How the space of a new image is obtained. Default: sparse.
    pub fn preallocate(&mut self, how: Preallocation) -> &mut Self {
        self.preallocate = how;
        self
    }

    /// Name for people, at most 64 bytes. Default: none.
    pub fn label(&mut self, label: impl Into<String>) -> &mut Self {
        self.label = label.into();
        self
    }

    /// Bytes in a logical block: a power of two, 4096 to 65536. Default: 4096, or the
    /// map's ([`VolumeOptions::aged`]).
    pub fn block_bytes(&mut self, bytes: u32) -> &mut Self {
        self.block_bytes = Some(bytes);
        self
    }

    /// Those that were given, or by default.
    pub(crate) fn bytes_of_block(&self) -> u32 {
        let map = self.aged.as_ref().map(|map| map.block_bytes());
        self.block_bytes.or(map).unwrap_or(4096)
    }

    /// Bytes in a segment: a power of two; of the segmented log only. Default:
    /// 0, which chooses by the size of the volume, 128 KiB to 4 MiB.
    pub fn segment_bytes(&mut self, bytes: u32) -> &mut Self {
        self.segment_bytes = bytes;
        self
    }

    /// How a volume that is updated in place finds room. By default as FFS does, in
    /// clusters of 256 blocks.
    pub fn allocation(&mut self, policy: Allocation) -> &mut Self {
        self.allocation = policy;
        self
    }

    /// A volume that is updated in place is made as if years had passed: a file
    /// `aged` has all room but what is free on the map. Of FFS's own policy only. By
    /// default all is free.
    pub fn aged(&mut self, map: FreeMap) -> &mut Self {
        self.aged = Some(Box::new(map));
        self
    }

    /// How a volume that is updated in place changes its metadata. Default: through a
    /// journal.
    pub fn metadata(&mut self, metadata: MetadataUpdates) -> &mut Self {
        self.metadata = metadata;
        self
    }

    /// Hundredths of the room that a volume that is updated in place keeps back from its
    /// users, 50 at most. Default: 5.
    pub fn minfree_percent(&mut self, percent: u32) -> &mut Self {
        self.minfree_percent = percent;
        self
    }

    /// Bytes in an inode: a power of two, 256 to 4096; of the segmented log
    /// only. What is left of it holds small files whole. Default: 256.
    pub fn inode_bytes(&mut self, bytes: u32) -> &mut Self {
        self.inode_bytes = bytes;
        self
    }

    /// Directory names compare without regard to case. Default: off.
    pub fn case_fold(&mut self, on: bool) -> &mut Self {
        self.case_fold = on;
        self
    }

    /// Overwrite whatever is there, but for what is in use. Default: off.
    pub fn overwrite(&mut self, on: bool) -> &mut Self {
        self.overwrite = on;
        self
    }
}

/// How it is opened.
impl VolumeOptions {
    /// Change nothing, not even to recover: what a crash left is replayed in
    /// memory. Other readers may have the volume open, too. Default: off.
    pub fn read_only(&mut self, on: bool) -> &mut Self {
        self.read_only = on;
        self
    }

    /// Bytes of memory for file data and metadata, at least 2 MiB. Default:
    /// 128 MiB.
    pub fn cache(&mut self, bytes: u64) -> &mut Self {
        self.cache_bytes = bytes;
        self
    }

    /// How bytes travel between the process and the host. Default: direct,
    /// past the host's page cache; buffered where the host refuses that.
    pub fn io(&mut self, mode: IoMode) -> &mut Self {
        self.io = mode;
        self
    }

    /// Start threads that write back, checkpoint and clean. Without them
    /// writers do that work when thresholds are passed. Default: on.
    pub fn background(&mut self, on: bool) -> &mut Self {
        self.background = on;
        self
    }

    /// After a crash data, too, survives as a prefix of its order. Default:
    /// off: directory operations and what was synced do.
    pub fn strict_order(&mut self, on: bool) -> &mut Self {
        self.strict_order = on;
        self
    }

    /// When deadlocks of locking transactions are looked for. Default: at each wait, so
    /// that there is none for longer than a moment. With [`Detection::OnCall`] whoever
    /// is in one waits for [`Volume::detect_deadlocks`](crate::Volume::detect_deadlocks),
    /// or for the end of his time.
    pub fn deadlocks(&mut self, when: Detection) -> &mut Self {
        self.deadlocks = when;
        self
    }

    /// How access times are kept. Default: relatime.
    pub fn atime(&mut self, how: Atime) -> &mut Self {
        self.atime = how;
        self
    }

    /// User and group that new files belong to, and the root directory of a
    /// new volume. Permission bits refuse nothing, whoever it is. Default:
    /// those of this process.
    pub fn owner(&mut self, uid: u32, gid: u32) -> &mut Self {
        self.owner = Some((uid, gid));
        self
    }

    /// Bits that new files and directories do not get. Default: 022.
    pub fn umask(&mut self, mask: u32) -> &mut Self {
        self.umask = mask & 0o777;
        self
    }

    /// What programs that run volumes may choose. Default: what
    /// [`Tuning`] says.
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
    /// How the cache is divided: blocks and inodes for the file system, decoded
    /// metadata for the layout. An eighth is what allocating it wastes.
    pub(crate) fn cache_shares(&self) -> (u64, u64) {
        let total = self.cache_bytes.max(2 << 20) / 8 * 7;
        let metadata = total / 4;
        (total - metadata, metadata)
    }

    /// How the file system over the layout is mounted.
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

    /// On whose behalf operations run, and whose the root directory is.
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
