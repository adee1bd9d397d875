//! Random workloads.
//!
//! Names come from very few letters, so that operations collide. The
//! generator follows its own model of the tree: three times out of four it
//! draws again when an operation would be refused, and one time out of four
//! it does not, so that refusals are tested too.

use crate::model::{Model, Refusal};
use crate::operation::{File, Operation, Over, Path, Range};
use crate::random::Random;

/// What a workload may contain.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The components of paths.
    pub names: Vec<String>,
    /// Longest path in components.
    pub depth: u64,
    /// Bytes in a block of the file system.
    pub block_bytes: u64,
    /// Blocks a file may have.
    pub file_blocks: u64,
    /// Blocks a write may have, where ranges are whole blocks.
    pub run_blocks: u64,
    /// Blocks at which ranges and sizes begin, where they are whole blocks; if
    /// empty, at any.
    pub hot_blocks: Vec<u64>,
    /// Offsets and lengths may be any; otherwise whole blocks.
    pub odd_ranges: bool,
    /// Operations to draw from, each as often as it is listed.
    pub kinds: Vec<Kind>,
}

/// What may be drawn.
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
    /// What crash states are made of: few names, whole blocks, many syncs.
    pub fn crash() -> Self {
        use Kind::*;
        Profile {
            names: vec!["a".to_owned(), "b".to_owned()],
            depth: 2,
            block_bytes: 4096,
            file_blocks: 4,
            run_blocks: 2,
            odd_ranges: false,
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

    /// Files with great holes, so that their index has two levels.
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

    /// Everything, odd sizes included, for comparing without crashes.
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

    /// Many names in few directories.
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

    /// Long writes over few files, and much cleaning: segments are used up,
    /// cleaned and reused.
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

    /// Without the kinds given.
    pub fn without(mut self, kinds: &[Kind]) -> Self {
        self.kinds.retain(|kind| !kinds.contains(kind));
        self
    }
}

/// Draws the operations of one workload.
#[derive(Debug)]
pub struct Generator {
    profile: Profile,
    random: Random,
    model: Model,
    patterns: u64,
}

impl Generator {
    /// A workload on an empty tree.
    pub fn new(profile: Profile, random: Random) -> Self {
        let model = Model::new(profile.block_bytes);
        Generator {
            profile,
            random,
            model,
            patterns: 0,
        }
    }

    /// A workload on the tree `model`.
    pub fn on(profile: Profile, random: Random, model: Model) -> Self {
        Generator {
            profile,
            random,
            model,
            patterns: 1000,
        }
    }

    /// A whole workload.
    pub fn take(&mut self, count: u64) -> Vec<Operation> {
        (0..count).map(|_| self.operation()).collect()
    }

    /// The next operation.
    pub fn operation(&mut self) -> Operation {
        let tries = if self.random.once_in(4) { 1 } else { 20 };
        let mut operation = self.draw();
        for _ in 1..tries {
            if self.model.clone().apply(&operation).is_ok() {
                break;
            }
            operation = self.draw();
        }
        while self.model.clone().apply(&operation) == Err(Refusal::Skip) {
            operation = self.draw();
        }
        let _ = self.model.apply(&operation);
        operation
    }

    fn path(&mut self) -> Path {
        let depth = 1 + self.random.below(self.profile.depth);
        let component = |_| self.random.pick(&self.profile.names).as_str();
        let components: Vec<&str> = (0..depth).map(component).collect();
        Path(components.join("/"))
    }

    fn file(&mut self) -> File {
        File::At(self.path())
    }

    fn slot(&mut self) -> u8 {
        1 + self.random.below(2) as u8
    }

    fn size(&mut self) -> u64 {
        let limit = self.profile.file_blocks * self.profile.block_bytes;
        if self.profile.odd_ranges {
            // Small sizes often: they live in the inode.
            return match self.random.below(4) {
                0 => self.random.below(200),
                1 => self.random.below(self.profile.file_blocks) * self.profile.block_bytes,
                _ => self.random.below(limit),
            };
        }
        match self.random.below(8) {
            0 => self.random.below(limit),
            _ => self.block(self.profile.file_blocks + 1) * self.profile.block_bytes,
        }
    }

    /// A block below `limit`.
    fn block(&mut self, limit: u64) -> u64 {
        match self.profile.hot_blocks.as_slice() {
            [] => self.random.below(limit),
            hot => *self.random.pick(hot),
        }
    }

    /// Never empty.
    fn range(&mut self) -> Range {
        let block = self.profile.block_bytes;
        if self.profile.odd_ranges {
            let offset = self.size();
            let length = match self.random.below(3) {
                0 => 1 + self.random.below(100),
                1 => block,
                _ => 1 + self.random.below(6 * block),
            };
            return Range { offset, length };
        }
        let first = self.block(self.profile.file_blocks);
        let count = 1 + self.random.below(self.profile.run_blocks);
        match self.random.below(10) {
            0 => Range {
                offset: 0,
                length: 1 + self.random.below(100),
            },
            1 => Range {
                offset: first * block + 1000,
                length: 700,
            },
            _ => Range {
                offset: first * block,
                length: count * block,
            },
        }
    }

    fn pattern(&mut self) -> u64 {
        self.patterns += 1;
        self.patterns
    }

    fn xattr(&mut self) -> Operation {
        let path = self.path();
        let name = self.random.pick(&["p", "q"]).to_string();
        if self.random.once_in(3) {
            return Operation::RemoveXattr { path, name };
        }
        let length = if self.random.once_in(5) {
            3000
        } else {
            self.random.below(200)
        };
        Operation::SetXattr {
            path,
            name,
            length,
            pattern: self.pattern(),
        }
    }

    fn draw(&mut self) -> Operation {
        use Operation as O;
        match *self.random.pick(&self.profile.kinds) {
            Kind::Create => O::Create(self.path()),
            Kind::Fifo => O::Fifo(self.path()),
            Kind::Mkdir => O::Mkdir(self.path()),
            Kind::Symlink => {
                let length = *self.random.pick(&[1, 20, 60, 100, 300, 4000]);
                O::Symlink {
                    path: self.path(),
                    length,
                }
            }
            Kind::Link => O::Link {
                from: self.path(),
                to: self.path(),
            },
            Kind::Unlink => O::Unlink(self.path()),
            Kind::Rmdir => O::Rmdir(self.path()),
            Kind::Rename => {
                let over = if self.random.once_in(10) {
                    Over::Refuse
                } else {
                    Over::Replace
                };
                O::Rename {
                    from: self.path(),
                    to: self.path(),
                    over,
                }
            }
            Kind::Exchange => O::Rename {
                from: self.path(),
                to: self.path(),
                over: Over::Exchange,
            },
            Kind::Whiteout => O::Rename {
                from: self.path(),
                to: self.path(),
                over: Over::Whiteout,
            },
            Kind::Chmod => {
                let mode = *self.random.pick(&[0o644, 0o600, 0o755, 0o1777, 0]);
                O::Chmod {
                    path: self.path(),
                    mode,
                }
            }
            Kind::Chown => {
                let (uid, gid) = (self.random.below(3) as u32, self.random.below(3) as u32);
                O::Chown {
                    path: self.path(),
                    uid,
                    gid,
                }
            }
            Kind::Xattr => self.xattr(),
            Kind::Open => O::Open {
                path: self.path(),
                slot: self.slot(),
            },
            Kind::Close => O::Close { slot: self.slot() },
            Kind::Fsync => {
                let data_only = self.random.once_in(4);
                O::Fsync {
                    file: self.file(),
                    data_only,
                }
            }
            Kind::FsyncDirectory => O::Fsync {
                file: File::At(Path(String::new())),
                data_only: false,
            },
            Kind::Sync => O::Sync,
            Kind::WriteBack => O::WriteBack,
            Kind::Checkpoint => O::Checkpoint,
            Kind::LayoutCheckpoint => O::LayoutCheckpoint,
            Kind::Clean => O::Clean,
            Kind::Coalesce => O::Coalesce,
            Kind::Claim => O::Claim,
            Kind::Move => O::Move,
            Kind::Stranger => O::Stranger(self.random.below(2) as u8),
            Kind::SwitchPolicy => O::SwitchPolicy,
            Kind::Maintain => O::Maintain,
            Kind::DropCaches => O::DropCaches,
            Kind::Remount => O::Remount,
            Kind::Kill => O::Kill,
            data => self.draw_data(data),
        }
    }

    fn draw_data(&mut self, kind: Kind) -> Operation {
        use Operation as O;
        let file = match kind {
            Kind::WriteOpen => File::Open(self.slot()),
            _ => self.file(),
        };
        let range = self.range();
        match kind {
            Kind::Read => O::Read { file, range },
            Kind::Truncate => O::Truncate {
                file,
                size: self.size(),
            },
            Kind::Punch => O::Punch { file, range },
            Kind::Zero => O::Zero { file, range },
            Kind::Reserve => O::Reserve {
                file,
                range,
                keep_size: self.random.once_in(2),
            },
            Kind::Copy => O::Copy {
                from: file,
                range,
                to: self.file(),
                offset: self.size(),
            },
            _ => O::Write {
                file,
                range,
                pattern: self.pattern(),
            },
        }
    }
}
