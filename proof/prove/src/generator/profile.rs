//! The possible content of a workload.

/// The possible content of a workload.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Components of paths.
    pub names: Vec<String>,
    /// Longest path in components.
    pub depth: u64,
    /// Bytes per block of the file system.
    pub block_bytes: u64,
    /// Largest number of blocks of a file.
    pub file_blocks: u64,
    /// Largest number of blocks of a write, if ranges are whole blocks.
    pub run_blocks: u64,
    /// Blocks at which ranges and sizes begin, if they are whole blocks; if empty, any
    /// block.
    pub hot_blocks: Vec<u64>,
    /// True if offsets and lengths are arbitrary; otherwise they are whole blocks.
    pub odd_ranges: bool,
    /// True if otherwise whole blocks mostly end at some sector of their last one, so
    /// that files have tails of every length.
    pub tails: bool,
    /// Bytes of the longest value of an extended attribute, sometimes drawn for one of
    /// the two names; the other's has at most 3000 bytes.
    pub xattr_bytes: u64,
    /// Operations to draw from, each as often as it is listed.
    pub kinds: Vec<Kind>,
}

/// Operations that may be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each draws the operation of that name")]
pub enum Kind {
    Create,
    Fifo,
    Mkdir,
    Symlink,
    Link,
    Unlink,
    Rmdir,
    Rename,
    Exchange,
    Whiteout,
    Chmod,
    Chown,
    Xattr,
    Write,
    Read,
    Truncate,
    Punch,
    Zero,
    Reserve,
    Copy,
    Open,
    Close,
    WriteOpen,
    Fsync,
    FsyncDirectory,
    Sync,
    WriteBack,
    Checkpoint,
    LayoutCheckpoint,
    Clean,
    Coalesce,
    Claim,
    Move,
    Stranger,
    SwitchPolicy,
    Maintain,
    DropCaches,
    Remount,
    Kill,
}

fn times(kinds: &[(Kind, usize)]) -> Vec<Kind> {
    let repeat = |&(kind, count): &(Kind, usize)| std::iter::repeat_n(kind, count);
    kinds.iter().flat_map(repeat).collect()
}

impl Profile {
    /// Returns the profile of crash states: few names, whole blocks, many syncs.
    pub fn crash() -> Self {
        use Kind::*;
        Profile {
            names: vec!["a".to_owned(), "b".to_owned()],
            depth: 2,
            block_bytes: 4096,
            file_blocks: 4,
            run_blocks: 2,
            odd_ranges: false,
            tails: false,
            // With the other attribute, the names and headers, this does not exceed the
            // limit of any layout.
            xattr_bytes: 60_000,
            kinds: times(&[
                (Create, 6),
                (Mkdir, 3),
                (Symlink, 1),
                (Link, 2),
                (Unlink, 4),
                (Rmdir, 1),
                (Rename, 6),
                (Whiteout, 1),
                (Chmod, 1),
                (Xattr, 1),
                (Write, 12),
                (Truncate, 4),
                (Punch, 1),
                (Reserve, 1),
                (Copy, 1),
                (Open, 1),
                (Close, 1),
                (WriteOpen, 1),
                (Fsync, 5),
                (FsyncDirectory, 1),
                (Sync, 1),
                (WriteBack, 4),
                (Checkpoint, 1),
                (LayoutCheckpoint, 2),
                (Clean, 2),
                (Maintain, 1),
                (Remount, 1),
                (Kill, 1),
            ]),
            hot_blocks: Vec::new(),
        }
    }

    /// Returns a profile of files with large holes, whose index has two levels.
    pub fn sparse() -> Self {
        use Kind::*;
        let mut profile = Profile::crash();
        profile.file_blocks = 900;
        profile.hot_blocks = vec![0, 2, 3, 100, 128, 129, 300, 380, 381, 898];
        profile.kinds.extend(times(&[
            (Write, 6),
            (Punch, 3),
            (Truncate, 2),
            (Reserve, 2),
        ]));
        profile
    }

    /// Returns a profile of all operations, including odd sizes, for comparisons without
    /// crashes.
    pub fn everything() -> Self {
        use Kind::*;
        let mut profile = Profile::crash();
        profile
            .names
            .extend(["x^255".to_owned(), "x^256".to_owned()]);
        profile.depth = 3;
        profile.file_blocks = 24;
        profile.odd_ranges = true;
        profile.kinds.extend(times(&[
            (Fifo, 1),
            (Symlink, 2),
            (Exchange, 2),
            (Whiteout, 1),
            (Chown, 2),
            (Xattr, 4),
            (Read, 12),
            (Write, 10),
            (Truncate, 4),
            (Punch, 4),
            (Zero, 3),
            (Reserve, 3),
            (Copy, 4),
            (Open, 2),
            (Close, 2),
            (WriteOpen, 3),
            (DropCaches, 3),
            (Remount, 1),
        ]));
        profile
    }

    /// Returns a profile of many names in few directories.
    pub fn wide() -> Self {
        use Kind::*;
        let mut profile = Profile::everything();
        profile.names = (0..600)
            .map(|number| format!("{number}^{}", 1 + number % 40))
            .collect();
        profile.depth = 1;
        profile.kinds = times(&[
            (Create, 30),
            (Mkdir, 2),
            (Symlink, 2),
            (Link, 6),
            (Unlink, 16),
            (Rmdir, 2),
            (Rename, 16),
            (Fsync, 1),
            (Sync, 1),
            (WriteBack, 2),
            (LayoutCheckpoint, 1),
            (DropCaches, 1),
        ]);
        profile
    }

    /// Returns a profile of long writes to few files, and much cleaning: segments are
    /// used up, cleaned and reused.
    pub fn churn() -> Self {
        use Kind::*;
        let mut profile = Profile::crash();
        profile.depth = 1;
        profile.names.push("c".to_owned());
        profile.file_blocks = 48;
        profile.run_blocks = 24;
        profile.kinds = times(&[
            (Create, 3),
            (Unlink, 2),
            (Rename, 1),
            (Write, 16),
            (Truncate, 2),
            (Punch, 1),
            (Fsync, 4),
            (Sync, 1),
            (WriteBack, 2),
            (LayoutCheckpoint, 3),
            (Clean, 6),
            (Maintain, 1),
        ]);
        profile
    }

    /// Removes the given kinds.
    pub fn without(mut self, kinds: &[Kind]) -> Self {
        self.kinds.retain(|kind| !kinds.contains(kind));
        self
    }
}
