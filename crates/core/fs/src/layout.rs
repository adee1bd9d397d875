//! The seam between what a file system means and where its blocks lie.
//!
//! The file system keeps names, attributes and dirty blocks in memory and
//! decides *what* belongs together; a layout decides *where* it goes. The seam
//! follows the split of UFS and LFS in the thesis (tables 6-7 and 6-8):
//!
//! | thesis | here |
//! |---|---|
//! | reserve space as blocks enter the cache (§6.2.2) | [`Layout::admit`] |
//! | allocate and free inodes (`valloc`, `vfree`) | [`Layout::allocate_inode`], [`Item::Freed`] |
//! | begin and end an operation, segment batching (§6.3.3) | the file system's epoch, handed over as one [`Group`] |
//! | write blocks and inodes (`bwrite`, `update`) | [`Layout::append`] |
//! | `fsync`, `sync` | [`Layout::commit`], [`Layout::checkpoint`] |
//! | `bmap`, `vget`, `blkatoff` | [`Layout::map`], [`Layout::read_inode`], [`Layout::read`] |
//!
//! Invariants a layout upholds:
//! - A group is atomic: after a crash all its items are there or none is, and
//!   groups survive as a prefix of the order in which they were appended. A layout
//!   that overwrites content in place says what is weaker ([`Layout::promise`]).
//! - As soon as `append` returns, every read sees the group.
//! - When `commit(p)` returns `Ok`, all groups up to `p` survive a crash.

mod group;
mod volume_snapshot;

use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::types::{FileKind, InodeNo, SnapshotNo, SpillNo, Version, View};
pub use group::{Cause, Group, Item};
use std::ops::Range;
use std::sync::Arc;
use varve_device::Block;
pub use volume_snapshot::VolumeSnapshot;

/// Fixed facts about a mounted layout.
#[derive(Clone, Debug)]
pub struct LayoutGeometry {
    /// Bytes in a logical block, a power of two, 4096 unless mkfs said else.
    pub block_bytes: u32,
    /// Bytes of content an inode can hold itself.
    pub inline_bytes: usize,
    /// Most bytes of extended attributes one inode can have.
    pub xattr_bytes: usize,
    /// Largest file size in bytes.
    pub max_file_bytes: u64,
    /// Payload bytes after which the file system closes a group.
    pub group_bytes: u64,
    /// No group may have much more data than that, what has joined the epoch aside.
    pub bounds_groups: bool,
    /// Seeds directory hashes; random per volume.
    pub hash_seed: u64,
    /// Names compare without regard to case.
    pub case_fold: bool,
    /// There are snapshots, and with them transactions.
    pub snapshots: bool,
    /// Why the volume takes no writes, if it does not.
    pub read_only: Option<String>,
}

/// What lives on the volume, in units a layout can price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Inodes in use.
    pub inodes: u64,
    /// Logical blocks that exist.
    pub blocks: u64,
    /// 512-byte sectors in those blocks, extended attributes included.
    pub sectors: u64,
}

/// Answers of `statfs`, in blocks of [`LayoutGeometry::block_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Blocks a user could ever fill: the reserve is left out.
    pub blocks: u64,
    /// Of these, free.
    pub free: u64,
    /// Inodes in use.
    pub files: u64,
    /// Inodes that could still be made.
    pub files_free: u64,
}

/// Inodes that one operation changes at most: of a rename over a directory, both
/// directories, what is moved and what ends.
pub const IMAGES_AT_MOST: u64 = 4;

/// Changes that are to be appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// In memory.
    pub unwritten: Unwritten,
    /// Bytes promised to operations that have been admitted.
    pub promised: u64,
    /// Of these, extended attributes: each file's are one blob.
    pub promised_attributes: u64,
    /// Bytes asked for by operations that are not admitted yet.
    pub asked: u64,
    /// Of these, extended attributes.
    pub asked_attributes: u64,
    /// Blocks that operations reserve, admitted or not yet: they have no bytes.
    pub reserving: u64,
    /// How many operations these are; each writes [`IMAGES_AT_MOST`] images at
    /// most.
    pub operations: u64,
    /// No operation since the mount has reached beyond this block of a file.
    pub highest_block: u64,
    /// The one who asks has waited for all others, and newcomers wait for the answer.
    pub alone: bool,
}

impl Waiting {
    /// Bytes that will come without asking again.
    pub fn certain(&self) -> u64 {
        self.unwritten.bytes.saturating_add(self.promised)
    }

    /// Inodes of which something waits, or may come to.
    pub fn images(&self) -> u64 {
        let promised = self.operations.saturating_mul(IMAGES_AT_MOST);
        self.unwritten.images.saturating_add(promised)
    }
}

/// Changes in memory that are to be appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Their bytes, and some for each block and each image.
    pub bytes: u64,
    /// Blocks among them; a file's extended attributes are one.
    pub blocks: u64,
    /// Of these, what the next group takes in any case: blocks of directories and
    /// symbolic links, and of files whose data belongs to the epoch. Others come by
    /// [`LayoutGeometry::group_bytes`] at once.
    pub joined: u64,
    /// Blocks that extended attributes take beyond a file's first one.
    pub further: u64,
    /// Images among them, at most.
    pub images: u64,
    /// Ranges of blocks that are gone or reserved.
    pub ranges: u64,
    /// The blocks of those that are reserved. They have no bytes.
    pub reserved: u64,
}

impl Unwritten {
    /// And these.
    pub(crate) fn add(&mut self, more: &Unwritten) {
        self.bytes += more.bytes;
        self.blocks += more.blocks;
        self.joined += more.joined;
        self.further += more.further;
        self.images += more.images;
        self.ranges += more.ranges;
        self.reserved += more.reserved;
    }
}

/// Why an operation asks for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It makes the tree larger: refused when the volume is full.
    Grow,
    /// It writes anew what is there, as large as it was: works on a full volume,
    /// too, out of what [`Purpose::Grow`] leaves.
    Rewrite,
    /// It makes the tree smaller or leaves its size: works on a full volume,
    /// out of the reserve.
    Shrink,
}

/// A question to a layout: may the operation begin?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tree if all operations, admitted or not yet, add their worst.
    pub total: Usage,
    /// Changes in memory and changes to come.
    pub waiting: Waiting,
    /// The kind of operation.
    pub purpose: Purpose,
    /// The caller writes back if it is asked to. False once it has: then
    /// [`Answer::WriteBack`] is no answer.
    pub writes_back: bool,
}

impl Request {
    /// A request of a caller that has nothing to write back.
    pub fn new(total: Usage, waiting: Waiting, purpose: Purpose) -> Self {
        Request {
            total,
            waiting,
            purpose,
            writes_back: false,
        }
    }
}

/// The answer of a layout to a [`Request`]. All but the first leave the layout as it
/// was, and say what the caller does before it asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is space for the operation, at its worst.
    Granted,
    /// Append a group of the changes in memory: their cost is then known, where the
    /// layout must assume the worst.
    WriteBack,
    /// Call [`Layout::make_space`]: a checkpoint or the cleaner may provide the space.
    Clean,
    /// Ask when no other operation is under way ([`Waiting::alone`]): the space that is
    /// missing is promised to others.
    Alone,
    /// There is no space. A request for [`Purpose::Shrink`] does not meet this on a
    /// healthy volume.
    Refused,
}

/// A place in the order of groups. Later is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Where a block is: opaque to the file system but for these questions.
pub trait BlockPointer: Copy + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Sectors stored; for an unwritten block the sectors it reserves.
    fn sectors(&self) -> u32;
    /// The block exists but was never written: it reads as zeros.
    fn unwritten(&self) -> bool;
    /// `self` lies so closely behind `previous` that one request reads both
    /// with what is between them.
    fn follows(&self, previous: &Self) -> bool;
    /// Where it is on the device, for who sorts: of two blocks the lower place is met
    /// first.
    fn place(&self) -> u64;
    /// Both lead to what one write wrote, wherever it has been moved since.
    fn same_write(&self, other: &Self) -> bool;
}

/// A block that exists, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<P> {
    /// Logical block number.
    pub block: u64,
    /// Its place.
    pub pointer: P,
}

/// What a crash may do to groups that are not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Each is there whole or not at all, and they survive as a prefix.
    Groups,
    /// The same of all but blocks of regular files that a group overwrites: until it
    /// is committed, the device may have old bytes there, new ones, or such as cannot
    /// be read, whether anything else of the group survives or not. Their length
    /// belongs to the group.
    GroupsButOverwrites,
    /// Consistent once it has been checked, which a mount does. Each inode is there as
    /// some group had it, with its blocks, a directory with all its names; overwrites
    /// are as above. Names are durable when they have been answered: the file system
    /// commits each operation on them. A file that gets another name has one of the
    /// two, or both.
    Ordered,
    /// The same, but nothing is written in any order before a commit: until then a
    /// file whose names change may have none, and is then put into `/lost+found`.
    UntilCommit,
}

/// A way to place blocks on a device. See the module's head for the rules.
pub trait Layout: Send + Sync + 'static {
    /// A block's place.
    type Pointer: BlockPointer;

    /// Fixed facts.
    fn geometry(&self) -> LayoutGeometry;

    /// What a crash leaves of groups that are not committed.
    fn promise(&self) -> Promise {
        Promise::Groups
    }

    /// What lives on the volume according to the last group (at mount).
    fn usage(&self) -> Usage;

    /// A number no live inode has, and the version it must carry, for a file of this
    /// kind whose name will be in the directory `near`: layouts whose inodes have
    /// places put it there, or, if it is a directory, elsewhere. The number is taken
    /// until a group frees it or [`Layout::forget_inode`] returns it.
    ///
    /// # Errors
    /// Device errors while paging the inode map; `NoSpace`.
    fn allocate_inode(&self, near: InodeNo, kind: FileKind) -> Result<(InodeNo, Version)>;

    /// Returns a number that was allocated but never appended.
    fn forget_inode(&self, ino: InodeNo);

    /// The inode as last appended.
    ///
    /// # Errors
    /// `NotFound` for a free number, `Damaged`, device errors.
    fn read_inode(&self, view: View, ino: InodeNo) -> Result<Inode>;

    /// The extended-attribute blob as last appended; empty if there is none.
    ///
    /// # Errors
    /// As [`Layout::read_inode`].
    fn read_xattrs(&self, view: View, ino: InodeNo) -> Result<Vec<u8>>;

    /// Inodes without names and inodes in the middle of a truncate, as found
    /// at mount. The file system finishes them.
    ///
    /// # Errors
    /// Device errors.
    fn unfinished(&self) -> Result<Vec<InodeNo>>;

    /// The blocks of `ino` that exist in `first..first + count`, ascending.
    /// Holes are simply absent.
    ///
    /// # Errors
    /// `NotFound` for a free number, `Damaged`, device errors.
    fn map(
        &self,
        view: View,
        ino: InodeNo,
        first: u64,
        count: u64,
    ) -> Result<Vec<Mapping<Self::Pointer>>>;

    /// The first block at or after `from` that exists.
    ///
    /// # Errors
    /// As [`Layout::map`].
    fn next_mapped(&self, view: View, ino: InodeNo, from: u64) -> Result<Option<u64>>;

    /// The contents of mapped blocks, in the order given, each the stored
    /// sectors long. Blocks that follow each other on the device are read in
    /// one request. Checksums are verified.
    ///
    /// # Errors
    /// `Damaged` names the block; device errors. A block that moved since it
    /// was mapped also fails so: map again, and retry if the pointer changed.
    fn read(&self, ino: InodeNo, blocks: &[Mapping<Self::Pointer>]) -> Result<Vec<Arc<Block>>>;

    /// Keeps what has been appended so far readable, as [`View::Snapshot`], until
    /// [`Layout::release_snapshot`]. It holds no room against those who remove: when
    /// room is short, the layout may give it up, and its reads answer `Aborted` then.
    ///
    /// # Errors
    /// `NotSupported`, which is the default.
    fn snapshot(&self) -> Result<SnapshotNo> {
        Err(Error::NotSupported)
    }

    /// Nobody reads a snapshot any more.
    fn release_snapshot(&self, _snapshot: SnapshotNo) {}

    /// The snapshots of the volume, oldest first. They are part of the volume and
    /// survive a crash, unlike [`Layout::snapshot`].
    ///
    /// # Errors
    /// `NotSupported`, which is the default, if the layout has none.
    fn volume_snapshots(&self) -> Result<Vec<VolumeSnapshot>> {
        Err(Error::NotSupported)
    }

    /// Takes a snapshot of everything that has been appended. It is durable when this
    /// returns. An empty name is that of an automatic snapshot, which gives way when
    /// space is needed. The caller checks names (`varve_fs::FileSystem`).
    ///
    /// # Errors
    /// `NotSupported`, `NoSpace` if it could not be kept, `ReadOnly`; device errors.
    fn create_volume_snapshot(&self, _name: &str) -> Result<VolumeSnapshot> {
        Err(Error::NotSupported)
    }

    /// Deletes snapshots by their numbers. That is durable when this returns; their
    /// space is freed later.
    ///
    /// # Errors
    /// `NotFound` if there is no such number, and then none is deleted; as
    /// [`Layout::create_volume_snapshot`].
    fn delete_volume_snapshots(&self, _numbers: &[u32]) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// Gives a snapshot a name; one that was automatic is kept from now on. Durable when
    /// this returns.
    ///
    /// # Errors
    /// As [`Layout::delete_volume_snapshots`].
    fn rename_volume_snapshot(&self, _number: u32, _name: &str) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// Makes a snapshot of the volume readable as [`View::Snapshot`], until
    /// [`Layout::release_snapshot`]. If it is deleted meanwhile, reads answer `Aborted`.
    ///
    /// # Errors
    /// `NotSupported`, `NotFound`; device errors.
    fn open_volume_snapshot(&self, _number: u32) -> Result<SnapshotNo> {
        Err(Error::NotSupported)
    }

    /// Numbers of inodes that snapshot `from` has, and whose attributes, content or
    /// entries have changed since: up to snapshot `to`, or up to the last group. An
    /// inode that was made since is not among them, but the directory that it was
    /// entered into is. Some may turn out to be as they were.
    ///
    /// # Errors
    /// As [`Layout::open_volume_snapshot`].
    fn changed_inodes(&self, _from: u32, _to: Option<u32>) -> Result<Vec<InodeNo>> {
        Err(Error::NotSupported)
    }

    /// For each snapshot, by number, the bytes that only it has: those that deleting it
    /// alone would free.
    ///
    /// # Errors
    /// As [`Layout::volume_snapshots`]; device errors.
    fn snapshot_bytes(&self) -> Result<Vec<(u32, u64)>> {
        Err(Error::NotSupported)
    }

    /// Stores blocks that are part of no file, until [`Layout::release_spill`] or until
    /// a group says where they belong ([`Item::Placed`]). Each is one [`Item::Block`]:
    /// of the file that it is going to be part of. A crash takes them. They hold no
    /// room against those who remove: when room is short, the layout may give them up
    /// unless they are [kept](Layout::keep_spills), and their reads answer `Aborted`
    /// then.
    ///
    /// # Errors
    /// `NotSupported`, which is the default; as [`Layout::append`], and `NoSpace`.
    fn spill(&self, blocks: Vec<Item>) -> Result<SpillNo> {
        let _ = blocks;
        Err(Error::NotSupported)
    }

    /// What was spilled as these of the blocks, each the stored sectors long. The first
    /// is this one of a file.
    ///
    /// # Errors
    /// `Aborted` if it was given up, `Damaged`, device errors.
    fn read_spill(
        &self,
        (ino, block): (InodeNo, u64),
        spill: SpillNo,
        blocks: Range<u32>,
    ) -> Result<Vec<Arc<Block>>> {
        let _ = (ino, block, spill, blocks);
        Err(Error::Aborted)
    }

    /// From now on none of these is given up: a group is going to name them.
    ///
    /// # Errors
    /// `Aborted` if one was given up already; nothing has changed then.
    fn keep_spills(&self, spills: &[SpillNo]) -> Result<()> {
        match spills {
            [] => Ok(()),
            _ => Err(Error::Aborted),
        }
    }

    /// Nobody reads that any more, nor will any group name it.
    fn release_spill(&self, _spill: SpillNo) {}

    /// Answers whether an operation may begin. It writes nothing and waits for no
    /// device, and is called for every operation.
    ///
    /// # Errors
    /// `ReadOnly`.
    fn admit(&self, request: &Request) -> Result<Answer>;

    /// Does what [`Answer::Clean`] said, or waits for the thread that does, and answers
    /// the request again: granted or refused. No lock is held. The default is for
    /// layouts that never answer so.
    ///
    /// # Errors
    /// `ReadOnly`, or what stopped the checkpoint or the cleaner.
    fn make_space(&self, _request: &Request) -> Result<Answer> {
        Ok(Answer::Refused)
    }

    /// [`Layout::admit`], and [`Layout::make_space`] where that is the answer.
    ///
    /// # Errors
    /// As these two.
    fn admit_or_clean(&self, request: &Request) -> Result<Answer> {
        match self.admit(request)? {
            Answer::Clean => self.make_space(request),
            answer => Ok(answer),
        }
    }

    /// A number that grows whenever the layout may admit more than before although
    /// nothing was removed: it has cleaned, knows its sums better, or the volume has
    /// grown. The default is for layouts of which [`Layout::admit`] does all of that.
    fn gains(&self) -> u64 {
        0
    }

    /// Appends one group: afterwards every read sees it.
    ///
    /// # Errors
    /// `ReadOnly` once a write or flush has failed; then nothing was appended.
    fn append(&self, group: Group) -> Result<Position>;

    /// Makes every group up to `position` durable. Callers share flushes.
    ///
    /// # Errors
    /// If the device failed to; the layout takes no writes afterwards.
    fn commit(&self, position: Position) -> Result<()>;

    /// Makes every group up to `position` durable, but perhaps for times of files that
    /// were there before (fdatasync). True if those are durable, too.
    ///
    /// # Errors
    /// As [`Layout::commit`].
    fn commit_data(&self, position: Position) -> Result<bool> {
        self.commit(position).map(|()| true)
    }

    /// Writes a complete image of what has been appended, so that a mount
    /// need not replay it.
    ///
    /// # Errors
    /// As [`Layout::append`] and [`Layout::commit`].
    fn checkpoint(&self) -> Result<()>;

    /// Does whatever background work is due (checkpoints, cleaning) on the
    /// calling thread, and returns. Cheap when nothing is due.
    ///
    /// # Errors
    /// As [`Layout::checkpoint`].
    fn maintain(&self) -> Result<()>;

    /// Room in terms of `statfs` while the tree holds `total`.
    fn statfs(&self, total: Usage) -> StatFs;

    /// Tells the device about room in `range`, bytes of the volume, that nothing
    /// refers to, not even what a crash would go back to. See
    /// [`crate::FileSystem::trim`].
    ///
    /// # Errors
    /// `NotSupported`, which is the default; device errors.
    fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        let _ = (range, bytes_min);
        Err(Error::NotSupported)
    }

    /// Takes no writes from now on, for this reason, as after a failed flush,
    /// and begins none of its own.
    fn stop(&self, reason: &str);
}
