//! The model of a replay: the state of every inode according to the groups, in maps, at
//! each mark of the original.

use crate::failure::{Failure, Promise};
use crate::mounted::Subject;
use crate::runner::new_clock;
use crate::subjects::Log;
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_device::{Device, MemoryDevice, MemoryImage};
use varve_fs::{BlockPointer, Error, Inode, InodeNo, Item, Layout, View};
use varve_lfs::format::Mark;
use varve_lfs::shipping::{Measures, Record, record_flags, record_kind};
use varve_lfs::{Lfs, MountOptions};

/// Upper bound of the inode numbers in the small trees of workloads.
const NUMBERS: u64 = 400;

pub(super) type Outcome<T> = Result<T, Failure>;

pub(super) fn failed(text: impl Into<String>) -> Failure {
    Failure::new(Promise::Reference, text)
}

pub(super) fn because<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Failure + use<'_, E> {
    move |error| failed(format!("{what}: {error}"))
}

/// The known state of one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    inode: Inode,
    xattrs: Vec<u8>,
    /// Whole blocks by number; `None` for a block that was reserved and never written.
    blocks: BTreeMap<u64, Option<Vec<u8>>>,
}

/// Every inode, by number.
pub type Files = BTreeMap<u64, File>;

/// The changes of all groups so far.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    files: Files,
}

impl Ledger {
    /// Applies one more group.
    ///
    /// # Errors
    /// If it refers to an inode that does not exist.
    pub fn apply(&mut self, items: Vec<Item>, block_bytes: usize) -> Outcome<()> {
        let mut images: BTreeMap<u64, Inode> = BTreeMap::new();
        for item in &items {
            if let Item::Inode(inode) = item {
                images.insert(inode.ino.0, (**inode).clone());
            }
        }
        for item in items {
            if let Item::Freed { ino, .. } = item {
                self.files.remove(&ino.0);
                continue;
            }
            let (ino, version) = match &item {
                Item::Inode(inode) => (inode.ino, inode.version),
                Item::Truncated { ino, version, .. }
                | Item::Punched { ino, version, .. }
                | Item::Reserved { ino, version, .. }
                | Item::Block { ino, version, .. }
                | Item::Xattrs { ino, version, .. } => (*ino, *version),
                Item::Placed { .. } => {
                    return Err(failed(format!("{item:?}: nothing is spilled here")));
                }
                Item::Freed { .. } => continue,
            };
            let image = images.get(&ino.0);
            let known = self.files.get(&ino.0).map(|file| file.inode.clone());
            let first = || known.or_else(|| image.cloned());
            let inode = first().ok_or_else(|| failed(format!("{item:?} of no inode")))?;
            let file = self.files.entry(ino.0).or_insert(File {
                inode,
                xattrs: Vec::new(),
                blocks: BTreeMap::new(),
            });
            if file.inode.version != version {
                return Err(failed(format!("{item:?}, not {}", file.inode.version)));
            }
            match item {
                Item::Truncated { from_block, .. } => {
                    file.blocks.split_off(&from_block);
                }
                Item::Punched {
                    from_block,
                    to_block,
                    ..
                } => file
                    .blocks
                    .retain(|b, _| !(from_block..to_block).contains(b)),
                Item::Reserved {
                    from_block,
                    to_block,
                    ..
                } => file
                    .blocks
                    .extend((from_block..to_block).map(|b| (b, None))),
                Item::Block { block, data, .. } => {
                    let mut data = data.to_vec();
                    data.resize(block_bytes, 0);
                    file.blocks.insert(block, Some(data));
                }
                Item::Xattrs { data, .. } => file.xattrs = data.to_vec(),
                Item::Inode(inode) => {
                    file.xattrs.truncate(inode.xattr_bytes as usize);
                    file.inode = *inode;
                }
                Item::Freed { .. } | Item::Placed { .. } => {}
            }
        }
        Ok(())
    }
}

/// Returns the state of every inode of a volume.
///
/// # Errors
/// A structure that cannot be read.
pub fn files_of(lfs: &Lfs) -> Outcome<Files> {
    let mut files = Files::new();
    let block_bytes = lfs.geometry().block_bytes as usize;
    for number in InodeNo::ROOT.0..NUMBERS {
        let ino = InodeNo(number);
        let inode = match lfs.read_inode(View::Live, ino) {
            Err(Error::NotFound) => continue,
            other => other.map_err(because("an inode"))?,
        };
        let xattrs = lfs.read_xattrs(View::Live, ino);
        let mapped = lfs.map(View::Live, ino, 0, 1 << 48);
        let mapped = mapped.map_err(because("a map"))?;
        let mut blocks = BTreeMap::new();
        for mapping in mapped {
            if mapping.pointer.unwritten() {
                blocks.insert(mapping.block, None);
                continue;
            }
            let read = lfs.read(ino, &[mapping]).map_err(because("a block"))?;
            let mut data = read[0].to_vec();
            data.resize(block_bytes, 0);
            blocks.insert(mapping.block, Some(data));
        }
        let xattrs = xattrs.map_err(because("attributes"))?;
        files.insert(
            number,
            File {
                inode,
                xattrs,
                blocks,
            },
        );
    }
    Ok(files)
}

/// Returns the first difference as an error.
fn same(expected: &Files, found: &Files, when: &str) -> Outcome<()> {
    if expected == found {
        return Ok(());
    }
    for number in expected.keys().chain(found.keys()) {
        let (a, b) = (expected.get(number), found.get(number));
        if a == b {
            continue;
        }
        let text = match (a, b) {
            (Some(a), Some(b)) if a.inode != b.inode => format!("{:?} is {:?}", a.inode, b.inode),
            (Some(a), Some(b)) if a.xattrs != b.xattrs => "attributes differ".into(),
            (Some(a), Some(b)) => {
                let differs = |block: &&u64| a.blocks.get(block) != b.blocks.get(block);
                let all: Vec<&u64> = a.blocks.keys().chain(b.blocks.keys()).collect();
                format!("block {:?} differs", all.into_iter().find(differs))
            }
            (a, b) => format!("there is {}, and here {}", a.is_some(), b.is_some()),
        };
        return Err(failed(format!("{when}: inode {number}: {text}")));
    }
    Ok(())
}
/// The states of the volume at its marks, according to the stream.
pub struct Course {
    ledger: Ledger,
    measures: Measures,
    items: Vec<Item>,
    /// The state at the end of each group, by serial.
    pub at: BTreeMap<u64, (Mark, Files)>,
}

impl Course {
    /// Returns the course of a new volume.
    pub fn new(block_bytes: u32, inode_bytes: u32) -> Self {
        let measures = Measures {
            block_bytes,
            inode_bytes,
            xattr_bytes: 1 << 17,
            blocks: 1 << 30,
            inodes: 1 << 20,
        };
        let at = BTreeMap::from([(0, (Mark::default(), Files::new()))]);
        Course {
            ledger: Ledger::default(),
            measures,
            items: Vec::new(),
            at,
        }
    }

    /// Starts again with the state of a volume at this mark.
    pub(super) fn begin_anew(&mut self, mark: Mark, files: Files) {
        self.items.clear();
        self.ledger.files = files.clone();
        self.at.insert(mark.serial, (mark, files));
    }

    /// Applies these records.
    ///
    /// # Errors
    /// If they refer to an inode that does not exist.
    pub fn follow(&mut self, records: &[Record]) -> Outcome<()> {
        for record in records {
            let header = &record.header;
            if header.kind == record_kind::END {
                continue;
            }
            if header.has(record_flags::FIRST) {
                self.items.clear();
            }
            let items = self.measures.items(&record.payload);
            self.items.extend(items.map_err(because("a record"))?);
            if header.has(record_flags::LAST) {
                let items = std::mem::take(&mut self.items);
                let block_bytes = self.measures.block_bytes as usize;
                self.ledger.apply(items, block_bytes)?;
                let state = (header.mark(), self.ledger.files.clone());
                self.at.insert(header.mark().serial, state);
            }
        }
        Ok(())
    }

    /// Checks that the stream so far gives the content of the original.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn is_now(&self, original: &Files) -> Outcome<()> {
        same(&self.ledger.files, original, "the original")
    }

    fn files(&self, mark: Mark) -> Outcome<&Files> {
        match self.at.get(&mark.serial) {
            Some((at, files)) if *at == mark => Ok(files),
            _ => Err(failed(format!("{mark} is the end of no group"))),
        }
    }

    /// Checks that a copy equals the original at its mark.
    ///
    /// # Errors
    /// The first difference.
    pub fn look(&self, subject: &Log, image: &MemoryImage) -> Outcome<Mark> {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(image));
        let options = MountOptions {
            read_only: true,
            seed: Some(1),
            ..subject.mount.clone()
        };
        let lfs = Lfs::mount(Arc::clone(&device), new_clock(), options);
        let lfs = lfs.map_err(because("mounting the copy"))?;
        if let Some(damage) = lfs.recovery_report().damage.first() {
            return Err(failed(format!("the copy is damaged: {damage}")));
        }
        let mark = lfs.mark();
        same(self.files(mark)?, &files_of(&lfs)?, &format!("at {mark}"))?;
        match subject.check(device).first() {
            None => Ok(mark),
            Some(error) => Err(Failure::new(Promise::Check, error.clone())),
        }
    }
}
