//! The interface between the semantics of files and the placement of blocks.
//!
//! The file system keeps names, attributes and dirty blocks in memory and decides *what*
//! belongs together; a layout decides *where* it is stored. The interface follows the
//! split of UFS and LFS in the thesis (tables 6-7 and 6-8):
//!
//! | thesis | here |
//! |---|---|
//! | reserve space as blocks enter the cache (§6.2.2) | [`Layout::admit`] |
//! | allocate and free inodes (`valloc`, `vfree`) | [`Layout::allocate_inode`], [`Item::Freed`] |
//! | begin and end an operation, segment batching (§6.3.3) | the file system's epoch, passed as one [`Group`] |
//! | write blocks and inodes (`bwrite`, `update`) | [`Layout::append`] |
//! | `fsync`, `sync` | [`Layout::commit`], [`Layout::checkpoint`] |
//! | `bmap`, `vget`, `blkatoff` | [`Layout::map`], [`Layout::read_inode`], [`Layout::read`] |
//!
//! Invariants of a layout:
//! - A group is atomic: after a crash all its items exist or none does, and groups
//!   survive as a prefix of the order in which they were appended. A layout that
//!   overwrites content in place states its weaker promise ([`Layout::promise`]).
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

/// Properties of a mounted layout that never change.
#[derive(Clone, Debug)]
pub struct LayoutGeometry {
    /// Bytes in a logical block, a power of two; 4096 unless mkfs chose another size.
    pub block_bytes: u32,
    /// Most bytes of content in an inode itself.
    pub inline_bytes: usize,
    /// Most bytes of extended attributes of one inode.
    pub xattr_bytes: usize,
    /// Most bytes in a file.
    pub max_file_bytes: u64,
    /// Payload bytes after which the file system closes a group.
    pub group_bytes: u64,
    /// No group may have much more data than `group_bytes`, data that joined the epoch
    /// excluded.
    pub bounds_groups: bool,
    /// Seed of directory hashes; random per volume.
    pub hash_seed: u64,
    /// Names compare without regard to case.
    pub case_fold: bool,
    /// The layout supports snapshots, and thereby transactions.
    pub snapshots: bool,
    /// The reason for which the volume takes no writes, if there is one.
    pub read_only: Option<String>,
}

/// Usage of a volume, in units that a layout can price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Inodes in use.
    pub inodes: u64,
    /// Logical blocks that exist.
    pub blocks: u64,
    /// 512-byte sectors in those blocks, extended attributes included.
    pub sectors: u64,
}

/// Answer of `statfs`, in blocks of [`LayoutGeometry::block_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Blocks that users could ever fill, so without the reserve.
    pub blocks: u64,
    /// Free blocks among them.
    pub free: u64,
    /// Inodes in use.
    pub files: u64,
    /// Inodes that can still be made.
    pub files_free: u64,
}

/// Most inodes that one operation changes: a rename over a directory changes both
/// directories, the moved inode and the removed one.
pub const IMAGES_AT_MOST: u64 = 4;

/// Changes that are to be appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Changes in memory.
    pub unwritten: Unwritten,
    /// Bytes promised to operations that have been admitted.
    pub promised: u64,
    /// Bytes of extended attributes among the promised; each file's are one blob.
    pub promised_attributes: u64,
    /// Bytes asked for by operations that are not admitted yet.
    pub asked: u64,
    /// Bytes of extended attributes among those asked for.
    pub asked_attributes: u64,
    /// Blocks that operations reserve, admitted or not yet. They have no bytes.
    pub reserving: u64,
    /// Number of operations, each of which writes [`IMAGES_AT_MOST`] images at most.
    pub operations: u64,
    /// Highest block of a file that any operation since the mount has reached.
    pub highest_block: u64,
    /// The asking operation has waited for all the other ones, and new ones wait for the
    /// answer.
    pub alone: bool,
}

impl Waiting {
    /// Bytes that will be appended without another request.
    pub fn certain(&self) -> u64 {
        self.unwritten.bytes.saturating_add(self.promised)
    }

    /// Upper bound of the inodes with changes that wait, or will.
    pub fn images(&self) -> u64 {
        let promised = self.operations.saturating_mul(IMAGES_AT_MOST);
        self.unwritten.images.saturating_add(promised)
    }
}

/// Changes in memory that are to be appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Bytes of data, plus an overhead for each block and each image.
    pub bytes: u64,
    /// Number of blocks; a file's extended attributes count as one.
    pub blocks: u64,
    /// Blocks that the next group always includes: those of directories and symbolic
    /// links, and of files whose data belongs to the epoch. The rest is appended in
    /// portions of [`LayoutGeometry::group_bytes`].
    pub joined: u64,
    /// Blocks of extended attributes beyond each file's first one.
    pub further: u64,
    /// Upper bound of the inode images.
    pub images: u64,
    /// Ranges of blocks that were removed or reserved.
    pub ranges: u64,
    /// Blocks in the reserved ranges. They have no bytes.
    pub reserved: u64,
}

impl Unwritten {
    /// Adds the counts of `more`.
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

/// The kind of operation that asks for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The operation makes the tree larger: refused when the volume is full.
    Grow,
    /// The operation rewrites existing data of the same size: works on a full volume,
    /// too, in the space that [`Purpose::Grow`] leaves.
    Rewrite,
    /// The operation makes the tree smaller or leaves its size: works on a full volume,
    /// in the reserve.
    Shrink,
}

/// A request to a layout: may the operation begin?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tree if all operations, admitted or not yet, add their worst case.
    pub total: Usage,
    /// Changes in memory, and changes that operations will add.
    pub waiting: Waiting,
    /// The kind of operation.
    pub purpose: Purpose,
    /// The caller writes back if it is asked to. False once it has: then
    /// [`Answer::WriteBack`] is no valid answer.
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

/// The answer of a layout to a [`Request`]. All answers except the first leave the layout
/// unchanged, and state what the caller does before it asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is space for the operation's worst case.
    Granted,
    /// Append a group of the changes in memory: their cost is then known, while the
    /// layout must assume the worst before.
    WriteBack,
    /// Call [`Layout::make_space`]: a checkpoint or the cleaner may provide the space.
    Clean,
    /// Ask when no other operation is running ([`Waiting::alone`]): the space that is
    /// missing is promised to others.
    Alone,
    /// There is no space. A request for [`Purpose::Shrink`] does not meet this on a
    /// healthy volume.
    Refused,
}

/// A place in the order of groups. A greater position is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// A block's place, opaque to the file system except for these queries.
pub trait BlockPointer: Copy + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Number of stored sectors; for an unwritten block, of reserved sectors.
    fn sectors(&self) -> u32;
    /// True if the block exists but was never written: it reads as zeros.
    fn unwritten(&self) -> bool;
    /// True if `self` follows `previous` so closely that one request reads both and the
    /// gap between them.
    fn follows(&self, previous: &Self) -> bool;
    /// Sort key by device order: of two blocks, the one with the lower key has the lower
    /// address.
    fn place(&self) -> u64;
    /// True if both refer to the data of one write, even if it has been moved since.
    fn same_write(&self, other: &Self) -> bool;
}

/// A block that exists, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<P> {
    /// Logical block number.
    pub block: u64,
    /// The block's place.
    pub pointer: P,
}

/// Effect of a crash on groups that are not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Each group survives whole or not at all, and they survive as a prefix.
    Groups,
    /// As `Groups`, except for blocks of regular files that a group overwrites. Until it
    /// is committed, the device may have old bytes in them, new ones, or unreadable ones,
    /// whether the rest of the group survives or not. Their length belongs to the group.
    GroupsButOverwrites,
    /// Consistent after a check, which a mount does. Each inode is as in some group, with
    /// its blocks, a directory with all its names; overwrites are as above. Names are
    /// durable when the operation returns: the file system commits each operation on
    /// them. A renamed file has one of the two names, or both.
    Ordered,
    /// As `Ordered`, but nothing is written in any order before a commit. Until then a
    /// file whose names change may have none after a crash, and is then put into
    /// `/lost+found`.
    UntilCommit,
}

/// A method of placing blocks on a device. The module's header states its invariants.
pub trait Layout: Send + Sync + 'static {
    /// A block's place.
    type Pointer: BlockPointer;

    /// Properties that never change.
    fn geometry(&self) -> LayoutGeometry;

    /// Effect of a crash on groups that are not committed.
    fn promise(&self) -> Promise {
        Promise::Groups
    }

    /// Usage of the volume at mount, according to the last group.
    fn usage(&self) -> Usage;

    /// Allocates a number that no live inode has, and returns it with the version that
    /// the inode must carry. The file is of the given kind and will have a name in the
    /// directory `near`: layouts whose inodes have places choose one near it, or, for a
    /// directory, elsewhere. The number is allocated until a group frees it or
    /// [`Layout::forget_inode`] returns it.
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

    /// Inodes without names and inodes in the middle of a truncate, as found at mount.
    /// The file system finishes them.
    ///
    /// # Errors
    /// Device errors.
    fn unfinished(&self) -> Result<Vec<InodeNo>>;

    /// The blocks of `ino` that exist in `first..first + count`, ascending. Holes are
    /// absent.
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

    /// The contents of mapped blocks, in the order given, each as long as its stored
    /// sectors. Adjacent blocks on the device are read in one request. Checksums are
    /// verified.
    ///
    /// # Errors
    /// `Damaged` names the block; device errors. A block that moved since it was mapped
    /// also fails so: the caller maps it again, and retries if the pointer changed.
    fn read(&self, ino: InodeNo, blocks: &[Mapping<Self::Pointer>]) -> Result<Vec<Arc<Block>>>;

    /// Keeps the present state readable, as [`View::Snapshot`], until
    /// [`Layout::release_snapshot`]. A snapshot does not make removals fail: when space
    /// is short, the layout may give it up, and its reads then fail with `Aborted`.
    ///
    /// # Errors
    /// `NotSupported`, which is the default.
    fn snapshot(&self) -> Result<SnapshotNo> {
        Err(Error::NotSupported)
    }

    /// Releases a snapshot, which no caller reads any more.
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
    /// returns. An empty name makes it an automatic snapshot, which the layout deletes when
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

    /// Stores blocks that are not yet part of a file, until [`Layout::release_spill`] or
    /// until a group places them ([`Item::Placed`]). Each is one [`Item::Block`] of the
    /// file that it will be part of. A crash loses them. They do not make removals fail:
    /// when space is short, the layout may give them up unless they are
    /// [kept](Layout::keep_spills), and their reads then fail with `Aborted`.
    ///
    /// # Errors
    /// `NotSupported`, which is the default; as [`Layout::append`], and `NoSpace`.
    fn spill(&self, blocks: Vec<Item>) -> Result<SpillNo> {
        let _ = blocks;
        Err(Error::NotSupported)
    }

    /// The contents of spilled blocks from this one of a file on, each as long as its
    /// stored sectors.
    ///
    /// # Errors
    /// `Aborted` if the spill was given up, `Damaged`, device errors.
    fn read_spill(
        &self,
        (ino, block): (InodeNo, u64),
        spill: SpillNo,
        blocks: Range<u32>,
    ) -> Result<Vec<Arc<Block>>> {
        let _ = (ino, block, spill, blocks);
        Err(Error::Aborted)
    }

    /// Ensures that none of these spills is given up, because a group is going to place
    /// them.
    ///
    /// # Errors
    /// `Aborted` if one was given up already; nothing has changed then.
    fn keep_spills(&self, spills: &[SpillNo]) -> Result<()> {
        match spills {
            [] => Ok(()),
            _ => Err(Error::Aborted),
        }
    }

    /// Releases a spill, which no caller reads and no group will place.
    fn release_spill(&self, _spill: SpillNo) {}

    /// Answers whether an operation may begin. It writes nothing and waits for no device,
    /// and is called for every operation.
    ///
    /// # Errors
    /// `ReadOnly`.
    fn admit(&self, request: &Request) -> Result<Answer>;

    /// Does what [`Answer::Clean`] stated, or waits for the thread that does, and answers
    /// the request again: granted or refused. The caller has no locks. The default is for
    /// layouts that never answer so.
    ///
    /// # Errors
    /// `ReadOnly`, or errors of the checkpoint or the cleaner.
    fn make_space(&self, _request: &Request) -> Result<Answer> {
        Ok(Answer::Refused)
    }

    /// Calls [`Layout::admit`], and [`Layout::make_space`] if that is the answer.
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
    /// nothing was removed: it has cleaned, its estimates became exact, or the volume has
    /// grown. The default is for layouts in which [`Layout::admit`] itself does all of
    /// that.
    fn gains(&self) -> u64 {
        0
    }

    /// Appends one group. Afterwards every read sees it.
    ///
    /// # Errors
    /// `ReadOnly` once a write or flush has failed; then nothing was appended.
    fn append(&self, group: Group) -> Result<Position>;

    /// Makes every group up to `position` durable. Callers share flushes.
    ///
    /// # Errors
    /// Device errors; the layout takes no writes afterwards.
    fn commit(&self, position: Position) -> Result<()>;

    /// Makes every group up to `position` durable, except perhaps for times of files that
    /// existed before (fdatasync). Returns true if those are durable, too.
    ///
    /// # Errors
    /// As [`Layout::commit`].
    fn commit_data(&self, position: Position) -> Result<bool> {
        self.commit(position).map(|()| true)
    }

    /// Writes a complete image of the present state, so that a mount need not replay it.
    ///
    /// # Errors
    /// As [`Layout::append`] and [`Layout::commit`].
    fn checkpoint(&self) -> Result<()>;

    /// Does all background work that is due (checkpoints, cleaning) on the calling
    /// thread. Cheap when none is due.
    ///
    /// # Errors
    /// As [`Layout::checkpoint`].
    fn maintain(&self) -> Result<()>;

    /// Space as `statfs` reports it, if the tree has the usage `total`.
    fn statfs(&self, total: Usage) -> StatFs;

    /// Discards unused space in `range`, bytes of the volume: space that neither the tree
    /// refers to nor the state that a crash would restore. See
    /// [`crate::FileSystem::trim`].
    ///
    /// # Errors
    /// `NotSupported`, which is the default; device errors.
    fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        let _ = (range, bytes_min);
        Err(Error::NotSupported)
    }

    /// Stops taking writes, for this reason, as after a failed flush, and starts none of
    /// its own.
    fn stop(&self, reason: &str);
}
