//! What a mount may choose.

/// How access times are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atime {
    /// A read sets the access time if it is older than the last change, or
    /// than a day.
    #[default]
    Relatime,
    /// The same, but for directories, whose listings leave it alone.
    RelatimeOfFiles,
    /// Reads leave the access time alone.
    Never,
}

/// Choices made at mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for clean and dirty blocks together. At least 1 MiB is used.
    /// Default: 64 MiB.
    pub cache_bytes: u64,
    /// Every group carries all data written before it, so that after a crash
    /// data, too, survives as a prefix of its order. Default: off.
    pub strict_order: bool,
    /// How access times are kept. Default: relatime.
    pub relatime: Atime,
    /// Files' blocks stay in the cache once they have been appended. Off where
    /// somebody above keeps them anyway, as a kernel does. Default: on.
    pub keep_written: bool,
    /// Threads that fetch ahead of sequential readers. 0 fetches within the
    /// read that missed, which is deterministic. Default: 0.
    pub read_ahead_threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_bytes: 64 << 20,
            strict_order: false,
            relatime: Atime::Relatime,
            keep_written: true,
            read_ahead_threads: 0,
        }
    }
}

const MIB: u64 = 1 << 20;

impl Options {
    /// The cache size in force.
    pub(crate) fn cache(&self) -> u64 {
        self.cache_bytes.max(MIB)
    }

    /// Dirty bytes beyond which write-back starts: an eighth of the cache,
    /// between 1 and 16 MiB, and never more than a quarter of it.
    pub fn start_write_bytes(&self) -> u64 {
        (self.cache() / 8)
            .clamp(MIB, 16 * MIB)
            .min(self.cache() / 4)
    }

    /// Dirty bytes beyond which writers write back themselves: four times the
    /// start-write threshold, at most half the cache.
    pub fn stop_access_bytes(&self) -> u64 {
        (4 * self.start_write_bytes()).min(self.cache() / 2)
    }
}
