//! A layout that records and checks all calls, and short names for common steps of tests.

use crate::layout::{
    Answer, Group, Item, Layout, LayoutGeometry, Mapping, Position, Purpose, Request, StatFs,
    Usage, VolumeSnapshot, Waiting,
};
use crate::{
    Attr, BlockPointer, Caller, Conflict, Error, FileKind, FileSystem, Inode, InodeNo,
    MemoryLayout, MemoryOptions, MemoryPointer, Options, Result, SnapshotNo, SpillNo, Transaction,
    TransactionOptions, Version, View, flags,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use varve_device::sync::Mutex;
use varve_device::{Block, VirtualClock};

pub const LIVE: View = View::Live;
pub const ROOT: InodeNo = InodeNo::ROOT;

pub type FailRead = Box<dyn FnMut() -> bool + Send>;
pub type Hook = Box<dyn FnOnce() + Send>;

/// Passes all calls to a [`MemoryLayout`], which asserts the order of items, counts and
/// usage; checks further rules itself.
pub struct Recorder {
    pub memory: Mutex<Arc<MemoryLayout>>,
    /// No test makes holes: then every byte below a logged size is stored.
    pub dense: AtomicBool,
    pub fail_append: AtomicBool,
    /// A group that fails is applied all the same, as by a log that notices the failure
    /// only at the write.
    pub apply_failed: AtomicBool,
    pub fail_commit: AtomicBool,
    /// Growth beyond this usage is refused.
    pub limit: Mutex<Option<Usage>>,
    pub commits: AtomicU64,
    /// Called before each access to the stored state; true makes the access fail.
    pub fail_read: Mutex<Option<FailRead>>,
    /// Called once, while an operation that grows the tree is being admitted.
    pub during_admit: Mutex<Option<Hook>>,
    /// Operations that free space are refused as well.
    pub without_reserve: AtomicBool,
    /// Space is so short that removals are admitted only alone.
    pub take_turns: AtomicBool,
    /// The waiting changes in the last request that must not be refused.
    pub shrinking: Mutex<Waiting>,
    /// Called once, before a group is appended.
    pub during_append: Mutex<Option<Hook>>,
    /// Called once, when blocks have been spilled.
    pub during_spill: Mutex<Option<Hook>>,
    /// Called once, after blocks have been read.
    pub during_read: Mutex<Option<Hook>>,
    /// The groups appended.
    pub groups: Mutex<Vec<Group>>,
}

impl Recorder {
    pub fn new(memory: MemoryLayout) -> Arc<Self> {
        Arc::new(Recorder {
            memory: Mutex::new(Arc::new(memory)),
            dense: AtomicBool::new(false),
            fail_append: AtomicBool::new(false),
            apply_failed: AtomicBool::new(false),
            fail_commit: AtomicBool::new(false),
            limit: Mutex::new(None),
            commits: AtomicU64::new(0),
            fail_read: Mutex::new(None),
            during_admit: Mutex::new(None),
            without_reserve: AtomicBool::new(false),
            take_turns: AtomicBool::new(false),
            shrinking: Mutex::default(),
            during_append: Mutex::new(None),
            during_spill: Mutex::new(None),
            during_read: Mutex::new(None),
            groups: Mutex::default(),
        })
    }

    pub fn memory(&self) -> Arc<MemoryLayout> {
        Arc::clone(&self.memory.lock())
    }

    /// The layout in memory, unless the access is to fail.
    fn stored(&self) -> Result<Arc<MemoryLayout>> {
        let fails = self.fail_read.lock().as_mut().is_some_and(|fails| fails());
        if fails {
            return Err(Error::Damaged {
                ino: None,
                detail: "the test said so".into(),
            });
        }
        Ok(self.memory())
    }

    /// Rule 4: asserts that no size exceeds the stored data.
    fn check_sizes(&self, group: &Group) {
        let block_bytes = u64::from(self.geometry().block_bytes);
        for item in &group.items {
            let Item::Inode(image) = item else { continue };
            if FileKind::from_mode(image.mode) != Some(FileKind::Regular) {
                continue;
            }
            if image.flags & flags::INLINE != 0 {
                assert_eq!(image.inline.len() as u64, image.size, "{image:?}");
                assert_eq!(image.blocks, 0, "inline content and blocks: {image:?}");
                continue;
            }
            let count = image.size.div_ceil(block_bytes);
            let mapped = self.map(LIVE, image.ino, 0, count).unwrap();
            assert_eq!(
                mapped.len() as u64,
                count,
                "a hole below the logged size: {image:?}"
            );
            if let Some(last) = mapped.last() {
                let held = last.block * block_bytes + u64::from(last.pointer.sectors()) * 512;
                assert!(held >= image.size, "{image:?} holds {held}");
            }
        }
    }
}

fn broken() -> Error {
    Error::ReadOnly("the test said so".into())
}

impl Layout for Recorder {
    type Pointer = MemoryPointer;

    fn geometry(&self) -> LayoutGeometry {
        self.memory().geometry()
    }
    fn usage(&self) -> Usage {
        self.memory().usage()
    }
    fn allocate_inode(&self, near: InodeNo, kind: FileKind) -> Result<(InodeNo, Version)> {
        self.stored()?.allocate_inode(near, kind)
    }
    fn forget_inode(&self, ino: InodeNo) {
        self.memory().forget_inode(ino);
    }
    fn read_inode(&self, view: View, ino: InodeNo) -> Result<Inode> {
        self.stored()?.read_inode(view, ino)
    }
    fn read_xattrs(&self, view: View, ino: InodeNo) -> Result<Vec<u8>> {
        self.stored()?.read_xattrs(view, ino)
    }
    fn unfinished(&self) -> Result<Vec<InodeNo>> {
        self.memory().unfinished()
    }
    fn map(
        &self,
        view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<MemoryPointer>>> {
        self.stored()?.map(view, ino, first, count)
    }
    fn next_mapped(&self, view: View, ino: InodeNo, from: u64) -> Result<Option<u64>> {
        self.stored()?.next_mapped(view, ino, from)
    }
    fn read(&self, ino: InodeNo, blocks: &[Mapping<MemoryPointer>]) -> Result<Vec<Arc<Block>>> {
        let read = self.stored()?.read(ino, blocks);
        let hook = self.during_read.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        read
    }
    fn admit(&self, request: &Request) -> Result<Answer> {
        let (total, waiting, purpose) = (request.total, request.waiting, request.purpose);
        let beyond = |limit: Usage| {
            total.inodes > limit.inodes
                || total.blocks > limit.blocks
                || total.sectors > limit.sectors
        };
        let hook = match purpose {
            Purpose::Grow | Purpose::Rewrite => self.during_admit.lock().take(),
            Purpose::Shrink => {
                *self.shrinking.lock() = waiting;
                None
            }
        };
        if let Some(hook) = hook {
            hook();
        }
        if purpose == Purpose::Shrink && self.take_turns.load(Relaxed) && !waiting.alone {
            return Ok(Answer::Alone);
        }
        if purpose == Purpose::Shrink && self.without_reserve.load(Relaxed) {
            return Ok(Answer::Refused);
        }
        if purpose != Purpose::Shrink && self.limit.lock().is_some_and(beyond) {
            return Ok(Answer::Refused);
        }
        self.memory().admit(request)
    }
    fn append(&self, group: Group) -> Result<Position> {
        if self.fail_append.load(Relaxed) {
            if self.apply_failed.load(Relaxed) {
                self.memory().append(group)?;
            }
            return Err(broken());
        }
        let hook = self.during_append.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        self.groups.lock().push(group.clone());
        let position = self.memory().append(group.clone())?;
        if self.dense.load(Relaxed) {
            self.check_sizes(&group);
        }
        Ok(position)
    }
    fn commit(&self, position: Position) -> Result<()> {
        if self.fail_commit.load(Relaxed) {
            return Err(broken());
        }
        self.commits.fetch_add(1, Relaxed);
        self.memory().commit(position)
    }
    fn checkpoint(&self) -> Result<()> {
        self.memory().checkpoint()
    }
    fn snapshot(&self) -> Result<SnapshotNo> {
        self.memory().snapshot()
    }
    fn release_snapshot(&self, snapshot: SnapshotNo) {
        self.memory().release_snapshot(snapshot);
    }
    fn volume_snapshots(&self) -> Result<Vec<VolumeSnapshot>> {
        self.memory().volume_snapshots()
    }
    fn create_volume_snapshot(&self, name: &str) -> Result<VolumeSnapshot> {
        self.memory().create_volume_snapshot(name)
    }
    fn delete_volume_snapshots(&self, numbers: &[u32]) -> Result<()> {
        self.memory().delete_volume_snapshots(numbers)
    }
    fn rename_volume_snapshot(&self, number: u32, name: &str) -> Result<()> {
        self.memory().rename_volume_snapshot(number, name)
    }
    fn open_volume_snapshot(&self, number: u32) -> Result<SnapshotNo> {
        self.memory().open_volume_snapshot(number)
    }
    fn changed_inodes(&self, from: u32, to: Option<u32>) -> Result<Vec<InodeNo>> {
        self.memory().changed_inodes(from, to)
    }
    fn snapshot_bytes(&self) -> Result<Vec<(u32, u64)>> {
        self.memory().snapshot_bytes()
    }
    fn spill(&self, blocks: Vec<Item>) -> Result<SpillNo> {
        if self.fail_append.load(Relaxed) {
            return Err(broken());
        }
        let number = self.memory().spill(blocks);
        let hook = self.during_spill.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        number
    }
    fn read_spill(
        &self,
        first: (InodeNo, u64),
        spill: SpillNo,
        blocks: Range<u32>,
    ) -> Result<Vec<Arc<Block>>> {
        self.stored()?.read_spill(first, spill, blocks)
    }
    fn keep_spills(&self, spills: &[SpillNo]) -> Result<()> {
        self.memory().keep_spills(spills)
    }
    fn release_spill(&self, spill: SpillNo) {
        self.memory().release_spill(spill);
    }
    fn maintain(&self) -> Result<()> {
        self.memory().maintain()
    }
    fn statfs(&self, total: Usage) -> StatFs {
        self.memory().statfs(total)
    }
    fn stop(&self, reason: &str) {
        self.memory().stop(reason);
    }
}

pub type Fs = FileSystem<Recorder>;

pub type Txn = Transaction<Recorder>;

pub fn shared() -> Arc<Fs> {
    Arc::new(fresh())
}

/// Begins a transaction with the default options.
pub fn begin(fs: &Arc<Fs>) -> Txn {
    fs.begin_transaction(&TransactionOptions::default())
        .unwrap()
}

/// Begins a transaction nested in another.
pub fn nested(txn: &Txn) -> Txn {
    begin(txn.tree())
}

/// The conflict of a commit, which must have failed with one.
pub fn conflict(outcome: Result<()>) -> Conflict {
    match outcome {
        Err(Error::Conflict(conflict)) => conflict,
        other => panic!("a conflict was expected: {other:?}"),
    }
}

pub fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(1_000_000_000_000_000_000, 1_000))
}

pub fn fresh() -> Fs {
    fresh_with(MemoryOptions::default(), Options::default())
}

pub fn fresh_with(memory: MemoryOptions, options: Options) -> Fs {
    let layout = Recorder::new(MemoryLayout::new(memory));
    FileSystem::format(&*layout, &*clock(), (0, 0)).unwrap();
    FileSystem::mount(layout, clock(), options).unwrap()
}

/// The file system after a crash that kept all groups up to `position`, or only those
/// that were committed.
pub fn crash(fs: &Fs, position: Option<Position>) -> Fs {
    let memory = fs.layout().memory();
    let after = match position {
        Some(position) => memory.crash_after(position),
        None => memory.crash(),
    };
    FileSystem::mount(Recorder::new(after), clock(), Options::default()).unwrap()
}

/// Short names for operations of root.
impl Fs {
    pub(crate) fn t_create(&self, parent: InodeNo, name: &str) -> Attr {
        self.mknod(&Caller::root(), parent, name.as_bytes(), 0o644, 0)
            .unwrap()
    }

    pub(crate) fn t_mkdir(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.mkdir(&Caller::root(), parent, name.as_bytes(), 0o755)
            .unwrap()
            .ino
    }

    pub(crate) fn t_write(&self, ino: InodeNo, offset: u64, data: &[u8]) {
        let done = self.write(&Caller::root(), ino, offset, data).unwrap();
        assert_eq!(done, data.len());
    }

    /// Makes a new file with this content.
    pub(crate) fn t_file(&self, name: &str, data: &[u8]) -> InodeNo {
        let ino = self.t_create(ROOT, name).ino;
        self.t_write(ino, 0, data);
        ino
    }

    pub(crate) fn t_read(&self, ino: InodeNo) -> Vec<u8> {
        let size = self.getattr(ino).unwrap().size;
        let mut data = vec![0xee; size as usize];
        assert_eq!(self.read(ino, 0, &mut data).unwrap(), data.len());
        data
    }

    pub(crate) fn t_lookup(&self, name: &str) -> Result<InodeNo> {
        self.lookup(&Caller::root(), ROOT, name.as_bytes())
            .map(|attr| attr.ino)
    }

    pub(crate) fn t_content(&self, name: &str) -> Vec<u8> {
        self.t_read(self.t_lookup(name).unwrap())
    }

    pub(crate) fn t_unlink(&self, name: &str) {
        self.unlink(&Caller::root(), ROOT, name.as_bytes()).unwrap();
    }

    pub(crate) fn t_rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        self.rename(
            &Caller::root(),
            ROOT,
            from,
            ROOT,
            to,
            crate::Rename::default(),
        )
    }

    pub(crate) fn t_truncate(&self, ino: InodeNo, size: u64) {
        let set = crate::SetAttr {
            size: Some(size),
            ..Default::default()
        };
        self.setattr(&Caller::root(), ino, &set).unwrap();
    }

    pub(crate) fn t_fsync(&self, ino: InodeNo) {
        self.fsync(ino, false).unwrap();
    }

    pub(crate) fn t_names(&self, ino: InodeNo) -> Vec<String> {
        let mut names = Vec::new();
        self.readdir(ino, 2, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        })
        .unwrap();
        names.sort();
        names
    }
}

pub fn user(uid: u32) -> Caller {
    Caller {
        uid,
        gid: uid,
        ..Caller::root()
    }
}

/// An access list as stored in an extended attribute: tag, permissions, id.
pub fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Bytes other than zero that differ from place to place.
pub fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|i| ((i / 7 + i % 251) as u8).wrapping_add(seed) | 1)
        .collect()
}

/// Seeds for a random test: `usual` from `first` on, or as many as `VARVE_ROUNDS` states.
pub fn seeds(first: u64, usual: u64) -> std::ops::Range<u64> {
    let rounds = std::env::var("VARVE_ROUNDS").ok();
    first
        ..first
            + rounds
                .and_then(|rounds| rounds.parse().ok())
                .unwrap_or(usual)
}
