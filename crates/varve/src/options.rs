//! Choices made when a volume is created or opened.

use varve_device::IoMode;
use varve_fs::{Atime, Caller};
use varve_lfs::cleaner::Pace;
use varve_lfs::policy::PolicyKind;

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

/// What a new volume is to be like.
///
/// ```
/// let options = varve::CreateOptions {
///     label: "archive".into(),
///     ..varve::CreateOptions::new(1 << 30)
/// };
/// assert_eq!(options.block_bytes, 4096);
/// ```
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Bytes of a new image, a multiple of 512. `None` takes the size of what
    /// exists: a block device, or an image file.
    pub size: Option<u64>,
    /// How the space of a new image is obtained. Default: sparse.
    pub preallocate: Preallocation,
    /// Name for people, at most 64 bytes. Default: none.
    pub label: String,
    /// Bytes in a logical block: a power of two, 4096 to 65536. Default: 4096.
    pub block_bytes: u32,
    /// Bytes in a segment: a power of two. 0 chooses by the size of the
    /// volume, 128 KiB to 4 MiB. Default: 0.
    pub segment_bytes: u32,
    /// Bytes in an inode: a power of two, 256 to 4096. What is left of it
    /// holds small files whole. Default: 256.
    pub inode_bytes: u32,
    /// Directory names compare without regard to case. Default: off.
    pub case_fold: bool,
    /// Owner of the root directory, user and group. Default: this process's.
    pub root_owner: Option<(u32, u32)>,
    /// Overwrite whatever is there, but for what is in use. Default: off.
    pub overwrite: bool,
}

impl CreateOptions {
    /// The defaults for a new image of `size` bytes.
    pub fn new(size: u64) -> Self {
        CreateOptions {
            size: Some(size),
            ..CreateOptions::default()
        }
    }
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions {
            size: None,
            preallocate: Preallocation::Sparse,
            label: String::new(),
            block_bytes: 4096,
            segment_bytes: 0,
            inode_bytes: 256,
            case_fold: false,
            root_owner: None,
            overwrite: false,
        }
    }
}

/// How a volume is opened.
///
/// ```
/// let options = varve::OpenOptions { read_only: true, ..Default::default() };
/// assert!(options.background);
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Change nothing, not even to recover: what a crash left is replayed in
    /// memory. Other readers may have the volume open, too. Default: off.
    pub read_only: bool,
    /// Bytes of memory for file data and metadata, at least 2 MiB. Default:
    /// 128 MiB.
    pub cache_bytes: u64,
    /// Which segments the cleaner takes first. Default: greedy.
    pub cleaner_policy: PolicyKind,
    /// Heads of the log, each of which has a segment open; 0 for as many as the
    /// policy wants, at most [`crate::MAX_HEADS`]. Small volumes get fewer.
    /// Default: 0, which is one for greedy.
    pub heads: u32,
    /// Blocks may be written into holes of segments when clean ones are short.
    pub holes: bool,
    /// When the volume's own cleaner works; its `threaded` follows
    /// `background`. Default: whenever clean segments run low.
    pub cleaner: Pace,
    /// How bytes travel between the process and the host. Default: direct,
    /// past the host's page cache; buffered where the host refuses that.
    pub io: IoMode,
    /// Start threads that write back, checkpoint and clean. Without them
    /// writers do that work when thresholds are passed. Default: on.
    pub background: bool,
    /// Threads that fetch ahead of sequential readers; 0 fetches within the
    /// read that missed. Default: 4.
    pub read_ahead_threads: usize,
    /// Files' blocks stay in the cache once they have been written back. Off
    /// under a mount, whose kernel keeps them. Default: on.
    pub keep_written: bool,
    /// After a crash data, too, survives as a prefix of its order. Default:
    /// off: directory operations and what was synced do.
    pub strict_order: bool,
    /// How access times are kept. Default: relatime.
    pub atime: Atime,
    /// Tell the device about segments that became clean. Default: off.
    pub discard: bool,
    /// Verify the tree in the background after a roll-forward; needs
    /// `background`. Default: on.
    pub verify: bool,
    /// Put the blocks of files that were updated at random in order while
    /// nobody uses the volume; needs `background`. Default: off.
    pub coalesce: bool,
    /// On a volume on the virtual log: make empty regions of scattered free
    /// room while nobody uses the volume; needs `background`. Default: off.
    pub compact: bool,
    /// On whose behalf operations run. Default: this process's user and group,
    /// umask 022, and no permission bit refuses anything.
    pub caller: Option<Caller>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            read_only: false,
            cache_bytes: 128 << 20,
            cleaner_policy: PolicyKind::default(),
            heads: 0,
            holes: true,
            cleaner: Pace::default(),
            io: IoMode::Direct,
            background: true,
            read_ahead_threads: 4,
            keep_written: true,
            strict_order: false,
            atime: Atime::Relatime,
            discard: false,
            verify: true,
            coalesce: false,
            compact: false,
            caller: None,
        }
    }
}

impl OpenOptions {
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
            strict_order: self.strict_order,
            keep_written: self.keep_written,
            relatime: self.atime,
            read_ahead_threads: self.read_ahead_threads,
        }
    }

    pub(crate) fn caller(&self) -> Caller {
        self.caller.clone().unwrap_or_else(|| {
            let (uid, gid) = crate::host::user_and_group();
            Caller {
                uid,
                gid,
                groups: Vec::new(),
                checked: true,
                umask: 0o022,
            }
        })
    }
}
