//! Random workloads.
//!
//! Names consist of very few letters, so that operations collide. The generator follows
//! its own model of the tree: three times out of four it draws again if an operation
//! would be refused, and one time out of four it does not, so that refusals are tested as
//! well.

mod profile;

pub use profile::{Kind, Profile};

use crate::model::{Model, Refusal};
use crate::operation::{File, Operation, Over, Path, Range};
use crate::random::Random;

/// Draws the operations of one workload.
#[derive(Debug)]
pub struct Generator {
    profile: Profile,
    random: Random,
    model: Model,
    patterns: u64,
}

impl Generator {
    /// Returns a generator for an empty tree.
    pub fn new(profile: Profile, random: Random) -> Self {
        let model = Model::new(profile.block_bytes);
        Generator {
            profile,
            random,
            model,
            patterns: 0,
        }
    }

    /// Returns a generator for the tree `model`.
    pub fn on(profile: Profile, random: Random, model: Model) -> Self {
        Generator {
            profile,
            random,
            model,
            patterns: 1000,
        }
    }

    /// Returns `count` operations.
    pub fn take(&mut self, count: u64) -> Vec<Operation> {
        (0..count).map(|_| self.operation()).collect()
    }

    /// Returns the next operation.
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
            // Small sizes are frequent, because such files are stored in the inode.
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

    /// Draws a block below `limit`.
    fn block(&mut self, limit: u64) -> u64 {
        match self.profile.hot_blocks.as_slice() {
            [] => self.random.below(limit),
            hot => *self.random.pick(hot),
        }
    }

    /// Draws a range that is not empty.
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
                length: count * block - self.tail(),
            },
        }
    }

    /// Draws the number of bytes by which a range is shorter than whole blocks.
    fn tail(&mut self) -> u64 {
        match self.profile.tails {
            true => 512 * self.random.below(self.profile.block_bytes / 512),
            false => 0,
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
        let length = if !self.random.once_in(5) {
            self.random.below(200)
        } else if name == "p" && self.random.once_in(2) {
            self.long_value()
        } else {
            self.profile.xattr_bytes.min(3000)
        };
        Operation::SetXattr {
            path,
            name,
            length,
            pattern: self.pattern(),
        }
    }

    /// Draws a length of mostly several blocks; the longest, and that of one block, are
    /// more frequent.
    fn long_value(&mut self) -> u64 {
        let most = self.profile.xattr_bytes;
        match self.random.below(4) {
            0 => most,
            1 => self.profile.block_bytes.min(most),
            _ => 1 + self.random.below(most),
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
