//! Runs each operation on the subject and on the model, and compares the results.

use crate::model::content::describe;
use crate::model::errno::ENOSPC;
use crate::model::{Answer, Model, Outcome, Refusal, symlink_target, xattr_name};
use crate::mounted::Mounted;
use crate::operation::{File, Operation, Over, Path, Range, pattern_bytes};
use crate::tree::{self, Bounds, SeenFile, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use varve_device::VirtualClock;
use varve_fs::{FileKind, InodeNo, Rename, Result as FsResult, SetAttr, Whence};

const FALLOC_KEEP_SIZE: i32 = 1;
const FALLOC_PUNCH_HOLE: i32 = 2;
const FALLOC_ZERO_RANGE: i32 = 0x10;

/// Age after which the background writer writes dirty data.
const OLD: Duration = Duration::from_secs(31);

/// Returns the clock with which every run begins, 2023-11-14; it advances a little at
/// each reading.
pub fn new_clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(1_700_000_000_000_000_000, 1000))
}

/// A mounted file system and the model of its content.
pub struct Runner {
    /// The expected content.
    pub model: Model,
    mounted: Box<dyn Mounted>,
    slots: BTreeMap<u8, InodeNo>,
    clock: Arc<VirtualClock>,
    /// True if growing operations may be refused for lack of space.
    pub may_be_full: bool,
    /// Number of operations refused for lack of space.
    pub refused_as_full: u64,
}

impl Runner {
    /// Returns a runner; `mounted` must have the content of `model`.
    pub fn new(mounted: Box<dyn Mounted>, clock: Arc<VirtualClock>, model: Model) -> Self {
        Runner {
            model,
            mounted,
            slots: BTreeMap::new(),
            clock,
            may_be_full: false,
            refused_as_full: 0,
        }
    }

    /// Returns the subject.
    pub fn mounted(&self) -> &dyn Mounted {
        &*self.mounted
    }

    /// Replaces the mount by `mounted`, in which no file is open.
    pub fn replace(&mut self, mounted: Box<dyn Mounted>) {
        self.slots.clear();
        self.mounted = mounted;
    }

    /// Runs one operation on both.
    ///
    /// # Errors
    /// The difference.
    pub fn step(&mut self, operation: &Operation) -> Result<Outcome, String> {
        let mut predicted = self.model.clone();
        let expected = predicted.apply(operation);
        if expected == Err(Refusal::Skip) {
            return Ok(expected);
        }
        let real = self.perform(operation);
        let found = real.clone().map_err(|error| Refusal::Errno(error.errno()));
        if found == expected {
            self.model = predicted;
            return Ok(found);
        }
        let full = found == Err(Refusal::Errno(ENOSPC));
        if self.may_be_full && full && may_grow(operation) {
            self.refused_as_full += 1;
            return Ok(found);
        }
        let text = match (&expected, &found) {
            (Ok(Answer::Bytes(expected)), Ok(Answer::Bytes(found))) => {
                first_difference(expected, found)
            }
            _ => format!("expected {expected:?}, found {real:?}"),
        };
        Err(format!("{operation}: {text}"))
    }

    fn place(&self, path: &Path) -> FsResult<(InodeNo, Vec<u8>)> {
        let mut components = path.components();
        let name = components.pop().unwrap_or_default();
        let mut at = InodeNo::ROOT;
        for component in &components {
            at = self.mounted.lookup(at, component)?.ino;
        }
        Ok((at, name))
    }

    fn resolve(&self, path: &Path) -> FsResult<InodeNo> {
        let mut at = InodeNo::ROOT;
        for component in &path.components() {
            at = self.mounted.lookup(at, component)?.ino;
        }
        Ok(at)
    }

    fn file(&self, file: &File) -> FsResult<InodeNo> {
        match file {
            File::At(path) => self.resolve(path),
            File::Open(slot) => Ok(self.slots[slot]),
        }
    }

    /// Runs one operation on the subject alone. The caller handles [`Operation::Remount`]
    /// and [`Operation::Kill`], because it knows the device.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn perform(&mut self, operation: &Operation) -> FsResult<Answer> {
        use Operation as O;
        let fs = &*self.mounted;
        match operation {
            O::Open { path, slot } => {
                let ino = self.resolve(path)?;
                fs.retain(ino)?;
                self.slots.insert(*slot, ino);
            }
            O::Close { slot } => {
                if let Some(ino) = self.slots.remove(slot) {
                    fs.release(ino);
                }
            }
            O::Fsync { file, data_only } => fs.fsync(self.file(file)?, *data_only)?,
            O::Sync => fs.sync()?,
            O::WriteBack => {
                self.clock.advance(OLD);
                while fs.write_back()? {}
            }
            O::Checkpoint => fs.checkpoint()?,
            O::LayoutCheckpoint => fs.layout_checkpoint()?,
            O::Clean => fs.clean()?,
            O::Coalesce => fs.coalesce()?,
            O::Claim => fs.claim()?,
            O::Move => fs.move_claimed()?,
            O::Stranger(which) => fs.stranger(*which)?,
            O::SwitchPolicy => fs.switch_policy()?,
            O::Maintain => {
                self.clock.advance(OLD);
                fs.maintain()?;
            }
            O::DropCaches => fs.drop_caches(),
            O::Remount | O::Kill => {}
            _ => {
                self.perform_on_names(operation)?;
                return self.perform_data(operation);
            }
        }
        Ok(Answer::Done)
    }

    fn perform_on_names(&self, operation: &Operation) -> FsResult<()> {
        use Operation as O;
        let fs = &*self.mounted;
        match operation {
            O::Create(path) => {
                let (parent, name) = self.place(path)?;
                fs.mknod(parent, &name, FileKind::Regular.mode_bits() | 0o644)?;
            }
            O::Fifo(path) => {
                let (parent, name) = self.place(path)?;
                fs.mknod(parent, &name, FileKind::Fifo.mode_bits() | 0o600)?;
            }
            O::Mkdir(path) => {
                let (parent, name) = self.place(path)?;
                fs.mkdir(parent, &name, 0o755)?;
            }
            O::Symlink { path, length } => {
                let (parent, name) = self.place(path)?;
                fs.symlink(parent, &name, &symlink_target(*length))?;
            }
            O::Link { from, to } => {
                let ino = self.resolve(from)?;
                let (parent, name) = self.place(to)?;
                fs.link(ino, parent, &name)?;
            }
            O::Unlink(path) => {
                let (parent, name) = self.place(path)?;
                fs.unlink(parent, &name)?;
            }
            O::Rmdir(path) => {
                let (parent, name) = self.place(path)?;
                fs.rmdir(parent, &name)?;
            }
            O::Rename { from, to, over } => {
                let flags = Rename {
                    no_replace: *over == Over::Refuse,
                    exchange: *over == Over::Exchange,
                    whiteout: *over == Over::Whiteout,
                };
                let (from, to) = (self.place(from)?, self.place(to)?);
                fs.rename((from.0, &from.1), (to.0, &to.1), flags)?;
            }
            O::Chmod { path, mode } => {
                let set = SetAttr {
                    mode: Some(*mode),
                    ..SetAttr::default()
                };
                fs.setattr(self.resolve(path)?, &set)?;
            }
            O::Chown { path, uid, gid } => {
                let set = SetAttr {
                    uid: Some(*uid),
                    gid: Some(*gid),
                    ..SetAttr::default()
                };
                fs.setattr(self.resolve(path)?, &set)?;
            }
            O::SetXattr {
                path,
                name,
                length,
                pattern,
            } => {
                let value = pattern_bytes(
                    *pattern,
                    Range {
                        offset: 0,
                        length: *length,
                    },
                );
                fs.setxattr(self.resolve(path)?, &xattr_name(name), &value)?;
            }
            O::RemoveXattr { path, name } => {
                fs.removexattr(self.resolve(path)?, &xattr_name(name))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn perform_data(&self, operation: &Operation) -> FsResult<Answer> {
        use Operation as O;
        let fs = &*self.mounted;
        let allocate = |file: &File, range: &Range, mode| {
            fs.fallocate(self.file(file)?, mode, range.offset, range.length)
        };
        match operation {
            O::Write {
                file,
                range,
                pattern,
            } => {
                let data = pattern_bytes(*pattern, *range);
                let count = fs.write(self.file(file)?, range.offset, &data)?;
                if count != data.len() {
                    return Ok(Answer::Count(count as u64));
                }
            }
            O::Read { file, range } => {
                let mut buffer = vec![0xee; range.length as usize];
                let count = fs.read(self.file(file)?, range.offset, &mut buffer)?;
                buffer.truncate(count);
                return Ok(Answer::Bytes(buffer));
            }
            O::Truncate { file, size } => {
                let set = SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                };
                fs.setattr(self.file(file)?, &set)?;
            }
            O::Punch { file, range } => {
                allocate(file, range, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE)?;
            }
            O::Zero { file, range } => allocate(file, range, FALLOC_ZERO_RANGE)?,
            O::Reserve {
                file,
                range,
                keep_size: true,
            } => {
                allocate(file, range, FALLOC_KEEP_SIZE)?;
            }
            O::Reserve {
                file,
                range,
                keep_size: false,
            } => allocate(file, range, 0)?,
            O::Copy {
                from,
                range,
                to,
                offset,
            } => {
                let (from, to) = (self.file(from)?, self.file(to)?);
                let count = fs.copy_range((from, range.offset), (to, *offset), range.length)?;
                return Ok(Answer::Count(count));
            }
            _ => {}
        }
        Ok(Answer::Done)
    }

    /// Reads everything and compares it with the newest state of the model.
    ///
    /// # Errors
    /// The difference.
    pub fn verify(&self) -> Result<(), String> {
        let seen = tree::walk(&*self.mounted, Bounds::default())?;
        let (lines, ids) = tree::model_lines(&self.model);
        if lines != seen.lines {
            return Err(tree::differences(&lines, &seen.lines));
        }
        for file in &seen.files {
            let content = &self.model.node(ids[file.line]).content;
            let name = &lines[file.line];
            self.verify_file(content, file)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        for (slot, &ino) in &self.slots {
            let content = &self.model.node(self.model.slots()[slot]).content;
            let attr = self
                .mounted
                .getattr(ino)
                .map_err(|error| format!("@{slot}: {error}"))?;
            let mut bytes = vec![0; attr.size as usize];
            let count = self.mounted.read(ino, 0, &mut bytes);
            count.map_err(|error| format!("@{slot}: {error}"))?;
            let file = SeenFile {
                line: 0,
                ino,
                sectors: attr.sectors,
                bytes,
            };
            self.verify_file(content, &file)
                .map_err(|error| format!("@{slot}: {error}"))?;
        }
        self.verify_usage(&seen)
    }

    fn verify_file(
        &self,
        content: &crate::model::content::Content,
        file: &SeenFile,
    ) -> Result<(), String> {
        let expected = content.read(Range {
            offset: 0,
            length: content.size(),
        });
        if expected != file.bytes {
            return Err(first_difference(&expected, &file.bytes));
        }
        let (block_bytes, inline_bytes) = self.mounted.measures();
        let block_bytes = u64::from(block_bytes);
        let most = content.reserved_end().div_ceil(block_bytes) * (block_bytes / 512);
        let stored = expected
            .chunks(512)
            .filter(|sector| sector.iter().any(|&byte| byte != 0));
        let least = if expected.len() <= inline_bytes {
            0
        } else {
            stored.count() as u64
        };
        if file.sectors < least || file.sectors > most {
            let sectors = file.sectors;
            return Err(format!("{sectors} sectors, expected {least} to {most}"));
        }
        self.verify_holes(file.ino, &expected)
    }

    /// Checks that SEEK_DATA and SEEK_HOLE cover every byte that is not zero.
    fn verify_holes(&self, ino: InodeNo, expected: &[u8]) -> Result<(), String> {
        let size = expected.len() as u64;
        let mut at = 0;
        while at < size {
            let data = match self.mounted.seek(ino, at, Whence::Data) {
                Ok(data) if (at..size).contains(&data) => data,
                Ok(data) => return Err(format!("SEEK_DATA from {at} of {size}: {data}")),
                Err(varve_fs::Error::NoData) => size,
                Err(error) => return Err(format!("SEEK_DATA from {at}: {error}")),
            };
            if expected[at as usize..data as usize]
                .iter()
                .any(|&byte| byte != 0)
            {
                return Err(format!("SEEK_DATA from {at} skips data before {data}"));
            }
            if data == size {
                break;
            }
            at = match self.mounted.seek(ino, data, Whence::Hole) {
                Ok(hole) if hole > data && hole <= size => hole,
                other => return Err(format!("SEEK_HOLE from {data} of {size}: {other:?}")),
            };
        }
        Ok(())
    }

    /// Checks that the inodes counted are those reached by name, and those that are open.
    fn verify_usage(&self, seen: &Tree) -> Result<(), String> {
        let nameless: std::collections::BTreeSet<u64> =
            self.model.slots().values().copied().collect();
        let nameless = nameless
            .iter()
            .filter(|&&id| self.model.node(id).nlink == 0)
            .count() as u64;
        let usage = self.mounted.usage();
        if usage.inodes != seen.inodes + nameless {
            return Err(format!(
                "{} inodes in use, {} reached and {nameless} held open",
                usage.inodes, seen.inodes
            ));
        }
        let sectors: u64 = seen.files.iter().map(|file| file.sectors).sum();
        if usage.sectors < sectors {
            return Err(format!(
                "{} sectors in use, {sectors} in files",
                usage.sectors
            ));
        }
        Ok(())
    }
}

/// Returns true if a full volume may refuse the operation.
fn may_grow(operation: &Operation) -> bool {
    use Operation as O;
    !matches!(
        operation,
        O::Unlink(_) | O::Rmdir(_) | O::Punch { .. } | O::Read { .. }
    ) && !operation.promises_durability()
}

fn first_difference(expected: &[u8], found: &[u8]) -> String {
    let at = expected.iter().zip(found).position(|(a, b)| a != b);
    let at = at.unwrap_or(expected.len().min(found.len()));
    let around = |bytes: &[u8]| describe(&bytes[at.min(bytes.len())..bytes.len().min(at + 512)]);
    format!(
        "expected {} bytes, found {}; they differ from byte {at}: expected {}, found {}",
        expected.len(),
        found.len(),
        around(expected),
        around(found)
    )
}
