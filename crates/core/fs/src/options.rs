//! Options of a mount.

use varve_locks::Detection;

/// Rule by which access times are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atime {
    /// A read sets the access time if it is older than the last change, or
    /// than a day.
    #[default]
    Relatime,
    /// As `Relatime`, but listings of directories change no access time.
    RelatimeOfFiles,
    /// Every read sets the access time.
    Strict,
    /// As `Strict`, but listings of directories change no access time.
    StrictOfFiles,
    /// No read changes the access time.
    Never,
}

/// Amount read beyond blocks that were asked for and are not in memory.
///
/// Source: Seltzer 1992, §7.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAheadWindow {
    /// A window for each file, which grows while the file is read in order and shrinks
    /// where it is not.
    #[default]
    Adaptive,
    /// The largest window as soon as two adjacent blocks are wanted. Where pages of
    /// several blocks are read at random, each page has that effect. For experiments.
    Maximal,
    /// Only the wanted blocks are read, as in file systems without read-ahead. For
    /// experiments.
    Off,
}

/// Options chosen at mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for clean and dirty blocks and for inodes together. At least 1 MiB is used.
    /// Default: 64 MiB.
    pub cache_bytes: u64,
    /// Dirty bytes beyond which write-back starts. A low value keeps the device busy in
    /// parallel with the processor; a high one places data together that is written
    /// together. Default: an eighth of the cache, at most 16 MiB.
    pub write_back_bytes: Option<u64>,
    /// Every group includes all data written before it, so that after a crash data, too,
    /// survives as a prefix of its order. Default: off.
    pub strict_order: bool,
    /// Rule by which access times are updated. Default: relatime.
    pub relatime: Atime,
    /// Files' blocks remain in the cache once they have been appended. Off where a layer
    /// above caches them, as a kernel does. Default: on.
    pub keep_written: bool,
    /// Threads that fetch ahead of sequential readers. 0 fetches within the read that
    /// missed, which is deterministic. Default: 0.
    pub read_ahead_threads: usize,
    /// Amount of read-ahead. Default: adaptive windows.
    pub read_ahead_window: ReadAheadWindow,
    /// When deadlocks of transactions are searched for. Default: at each wait.
    pub deadlocks: Detection,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_bytes: 64 << 20,
            write_back_bytes: None,
            strict_order: false,
            relatime: Atime::Relatime,
            keep_written: true,
            read_ahead_threads: 0,
            read_ahead_window: ReadAheadWindow::default(),
            deadlocks: Detection::default(),
        }
    }
}

const MIB: u64 = 1 << 20;
/// Bytes of an inode in memory, its place in the table included.
const VNODE_BYTES: u64 = 640;

impl Options {
    /// The effective cache size, in bytes.
    pub(crate) fn cache(&self) -> u64 {
        self.cache_bytes.max(MIB)
    }

    /// Most unused inodes that remain in memory: an eighth of the cache.
    pub(crate) fn idle_vnodes(&self) -> usize {
        usize::try_from(self.idle_vnode_bytes() / VNODE_BYTES).unwrap_or(usize::MAX)
    }

    fn idle_vnode_bytes(&self) -> u64 {
        self.cache() / 8
    }

    /// Bytes for clean blocks: the rest after dirty blocks and inodes. Small dirty files
    /// take half as much memory again as they are counted for: an inode, a map of one
    /// block, their items in a group.
    pub(crate) fn clean_block_bytes(&self) -> u64 {
        self.cache() - self.stop_access_bytes() * 3 / 2 - self.idle_vnode_bytes()
    }

    /// Most bytes of one group, which exists in memory a second time while it is written.
    pub(crate) fn group_bytes(&self) -> u64 {
        self.cache() / 16
    }

    /// Dirty bytes beyond which write-back starts: an eighth of the cache, at most 16
    /// MiB, unless the mount chose another value.
    pub fn start_write_bytes(&self) -> u64 {
        let chosen = self.write_back_bytes;
        chosen.unwrap_or_else(|| self.usual_start_bytes())
    }

    fn usual_start_bytes(&self) -> u64 {
        (self.cache() / 8).min(16 * MIB)
    }

    /// Dirty bytes beyond which writers write back themselves: four times the default
    /// start-write threshold, at most a quarter of the cache.
    pub fn stop_access_bytes(&self) -> u64 {
        (4 * self.usual_start_bytes()).min(self.cache() / 4)
    }
}
