//! Bugs that can be planted, so that the proof harness can show that it catches them: a
//! harness that misses them proves nothing.
//!
//! Only the feature `planted` compiles them in. Without it [`is`] is the constant
//! `false`, and its sites are compiled away. With it, a bug is active on the thread that
//! is inside `with`, and nowhere else, so tests that run in parallel are not affected.
//! Each site is one line, in this crate or in the layout's.

/// A bug that can be planted. The rules' numbers are those of the log protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Planted {
    /// Rule 1: partials are applied although the last of their group is missing.
    HalfGroups,
    /// Rule 1: roll-forward does not compare the payload's checksums.
    UncheckedPayload,
    /// Rule 2: an fsync takes the file and leaves the epoch behind.
    FsyncSkipsEpoch,
    /// Rule 3: a group's records come after its blocks.
    RecordsLast,
    /// Rule 4: images contain the size in memory, ahead of the data.
    SizeAhead,
    /// Rule 5: truncates take effect in memory, and not at replay.
    TruncateLost,
    /// Rule 5: frees take effect in memory, and not at replay.
    FreedLost,
    /// Rule 6: a rename over a name omits the source's dirty data.
    RenameLeavesData,
    /// Rule 6: a group is cut in two after its first inode.
    RenameSplit,
    /// Rule 7: a dirty buffer makes the committed block under it dead.
    DirtyKillsCommitted,
    /// Rule 7: a free is appended before the removal of the name.
    FreesFirst,
    /// Rule 8: roll-forward uses another rule for when a segment is full.
    PlaceNotShared,
    /// Rule 9: neither predecessor nor incarnation is compared.
    PredecessorUnchecked,
    /// Rule 10: the log resumes before an incomplete group.
    ResumeBeforeGroup,
    /// Rule 11: `durable_through` names groups that were only appended.
    DurableThroughEarly,
    /// Rule 12: no flush between recovery and the first write.
    NoFlushAtMount,
    /// Rule 13: the boundary cuts a group: the image lacks one of its inodes.
    BoundaryCutsGroup,
    /// Rule 14: no flush before the checkpoint record.
    NoFlushBeforeRecord,
    /// Rule 14: the record is written before what it names is flushed.
    RecordEarly,
    /// Rule 14: no flush after the record.
    NoFlushAfterRecord,
    /// Rule 14: all records are written to one slot.
    OneRecordSlot,
    /// The checkpoint record's checksum is not compared.
    UncheckedRecord,
    /// Rule 15: the record lacks the changes caused by writing the table.
    CorrectionsForgotten,
    /// Rule 16: the checkpoint does not list orphans.
    OrphansUnlisted,
    /// Rule 16: a mount does not free the orphans it finds.
    OrphansNotFreed,
    /// Rule 18: a move is applied without a check of its source.
    MoveUnchecked,
    /// Rule 19: a lease outlives the checkpoint against which it was judged.
    StaleClaim,
    /// Rule 20: a segment is reused after one checkpoint found it empty.
    ReuseAfterOne,
    /// E1: a segment is reused before its moves are durable.
    ReuseUnsettled,
    /// E2: a segment is reused that replay from a record reaches.
    ReuseInChain,
    /// E3: a segment is reused ahead of checkpoints regardless of its contents.
    ReuseMetadata,
    /// P1: holes are written into before it is durable that they are free.
    HolesUndurable,
    /// P2: holes are written into that replay from a record verifies.
    HolesInChain,
    /// S1: a segment is reused although it contains blocks of an open transaction.
    SpillReused,
    /// Roll-forward applies spilled blocks without their commit.
    SpillApplied,
    /// Spilled blocks are counted as live, and remain so when they are dropped.
    SpillCounted,
    /// Roll-forward ignores a commit's records of spilled blocks.
    PlacedLost,
    /// A fold lists no displaced block for the newest snapshot.
    KeptUnlisted,
    /// Extended attributes are listed as block 0 of the file.
    KeptWithoutKind,
    /// A block that the cleaner moved and a user displaced is given up.
    KeptMoveDropped,
    /// The cleaner takes blocks that only snapshots have for dead.
    KeptJudgedDead,
    /// Roll-forward drops moves of blocks that only snapshots have.
    KeptReplayLost,
    /// A commit places blocks that were spilled before the newest snapshot.
    KeptSpillPlaced,
    /// Blocks of deleted snapshots stay counted.
    KeptUncounted,
    /// A deletion removes the row at once.
    KeptRowAtOnce,
    /// Displaced inode images are not listed.
    KeptImageLost,
    /// A dead block leaves a sector in the usage count.
    UsageOffByOne,
    /// A number's new version inherits the blocks of the old one.
    StaleVersion,
    /// The leftover of a torn partial is not cleared where the log continues.
    LeftoverKept,
    /// H2: a partial may follow any earlier one of the same head.
    ChainPerHead,
    /// H4: heads are used when only one record names them.
    HeadsUnconfirmed,
    /// H6: the search for damage begins at the first head alone.
    SearchFirstHead,
    /// H7: only the first head's place is cleared.
    ClearFirstHead,
    /// A commit returns without a flush.
    CommitWithoutFlush,
    /// A failed flush is forgotten, and the next one is trusted.
    FlushFailureForgotten,
    /// Blocks that are read are not compared with their checksums.
    UncheckedRead,
    /// A summary may describe more blocks than its partial contains.
    UncheckedLength,
    /// VLFS, rule 14: a slot is rewritten without its earlier content.
    ChangesForgotten,
    /// VLFS, rule 15: index nodes and inodes are freed before the fold.
    MetadataNotHeld,
    /// VLFS, rule 17: used space is judged change by change, not by the sum.
    ChangesOneByOne,
    /// Space of VLFS: every request is admitted.
    RoomUncounted,
    /// Space of the log: there is no reserve, neither for removals nor for the cleaner.
    ReserveForgotten,
    /// Space of the log, R4: removals do not maintain the low watermark.
    RemovalsCarefree,
    /// FFS, J1 and I1: a reference to data is written before the data is flushed.
    RecordBeforeData,
    /// FFS, J3: an inode and its references are in place before their record; I3: a name
    /// is written before its inode.
    PointerBeforeInode,
    /// FFS, I3: a file loses its name in one directory before it has one in another.
    NamesRemovedFirst,
    /// FFS, I6: the volume is not marked as being changed in place.
    DirtyUnmarked,
    /// FFS: a block is freed while a reference to it exists.
    BlockFreeWhileReferenced,
    /// FFS: the end of a tail that became shorter is freed, and the tail still includes
    /// it.
    FragmentShared,
    /// FFS, J1: the data of a tail that moves is not flushed before its record.
    MovedTailUnflushed,
    /// FFS, J4: space is reused before its group is durable.
    ReuseUncommitted,
    /// FFS, J5: space of journalled sectors is reused before a checkpoint.
    ReuseJournalled,
    /// Between threads: a thread that waits for a partial is woken without the lock under
    /// which it checked for it.
    WakeUpLost,
    /// Between threads: a flush is taken to cover writes made while it ran.
    FlushCoversLater,
    /// Between threads: the table is not checked again under the lock that protects the
    /// load of an inode.
    LoadedTwice,
    /// Between threads: blocks that were read enter the cache although the file changed
    /// meanwhile.
    OvertakenFetch,
    /// Between threads: a cached path is used without a check that it is still valid.
    TrailUnchecked,
    /// Between threads: an fsync relies on a capture that began before the call.
    EarlierCapture,
    /// Transactions: a commit is appended as two groups.
    CommitTorn,
    /// Transactions: a commit is answered before its flush.
    CommitUnflushed,
    /// Transactions: a read-only commit is answered before the data it read is durable.
    ReadsUndurable,
    /// Transactions: files join the epoch without the data of the commit.
    MemberWithoutData,
    /// Transactions: data copied before a lock was granted is not refreshed.
    StaleOverlay,
    /// Transactions: data to append is placed at the end that the file had when the
    /// transaction first saw it.
    AppendedWhereItEnded,
    /// Transactions: locks are released before the merge.
    LocksBeforeMerge,
    /// Transactions: a name that another transaction changed is not a conflict.
    NamesUnvalidated,
    /// Transactions: the locks of an ended transaction are not released.
    LocksKept,
    /// Transactions: a nested commit does not add its changes to its parent's.
    ChildChangesKept,
    /// Transactions: a nested commit releases its locks instead of passing them to its
    /// parent.
    ChildLocksReleased,
}

impl Planted {
    /// The bugs of VLFS alone.
    pub const OF_THE_VIRTUAL_LOG: [Planted; 3] = [
        Planted::ChangesForgotten,
        Planted::MetadataNotHeld,
        Planted::ChangesOneByOne,
    ];

    /// The bugs of space accounting in the log.
    pub const OF_ROOM: [Planted; 2] = [Planted::ReserveForgotten, Planted::RemovalsCarefree];

    /// The bugs of transactions.
    pub const OF_TRANSACTIONS: [Planted; 11] = [
        Planted::CommitTorn,
        Planted::CommitUnflushed,
        Planted::ReadsUndurable,
        Planted::MemberWithoutData,
        Planted::StaleOverlay,
        Planted::LocksBeforeMerge,
        Planted::NamesUnvalidated,
        Planted::LocksKept,
        Planted::ChildChangesKept,
        Planted::ChildLocksReleased,
        Planted::AppendedWhereItEnded,
    ];

    /// The bugs of FFS alone.
    pub const OF_FFS: [Planted; 7] = [
        Planted::RecordBeforeData,
        Planted::PointerBeforeInode,
        Planted::BlockFreeWhileReferenced,
        Planted::FragmentShared,
        Planted::MovedTailUnflushed,
        Planted::ReuseUncommitted,
        Planted::ReuseJournalled,
    ];

    /// The bugs of FFS where metadata is written in place.
    pub const OF_FFS_IN_PLACE: [Planted; 7] = [
        Planted::RecordBeforeData,
        Planted::PointerBeforeInode,
        Planted::NamesRemovedFirst,
        Planted::DirtyUnmarked,
        Planted::BlockFreeWhileReferenced,
        Planted::FragmentShared,
        Planted::ReuseUncommitted,
    ];

    /// All other bugs.
    pub const ALL: [Planted; 48] = [
        Planted::HalfGroups,
        Planted::UncheckedPayload,
        Planted::FsyncSkipsEpoch,
        Planted::RecordsLast,
        Planted::SizeAhead,
        Planted::TruncateLost,
        Planted::FreedLost,
        Planted::RenameLeavesData,
        Planted::RenameSplit,
        Planted::DirtyKillsCommitted,
        Planted::FreesFirst,
        Planted::PlaceNotShared,
        Planted::PredecessorUnchecked,
        Planted::ResumeBeforeGroup,
        Planted::DurableThroughEarly,
        Planted::NoFlushAtMount,
        Planted::BoundaryCutsGroup,
        Planted::NoFlushBeforeRecord,
        Planted::RecordEarly,
        Planted::NoFlushAfterRecord,
        Planted::OneRecordSlot,
        Planted::UncheckedRecord,
        Planted::CorrectionsForgotten,
        Planted::OrphansUnlisted,
        Planted::OrphansNotFreed,
        Planted::MoveUnchecked,
        Planted::StaleClaim,
        Planted::ReuseAfterOne,
        Planted::ReuseUnsettled,
        Planted::ReuseInChain,
        Planted::ReuseMetadata,
        Planted::HolesUndurable,
        Planted::HolesInChain,
        Planted::SpillReused,
        Planted::SpillApplied,
        Planted::SpillCounted,
        Planted::PlacedLost,
        Planted::UsageOffByOne,
        Planted::StaleVersion,
        Planted::LeftoverKept,
        Planted::ChainPerHead,
        Planted::HeadsUnconfirmed,
        Planted::SearchFirstHead,
        Planted::ClearFirstHead,
        Planted::CommitWithoutFlush,
        Planted::FlushFailureForgotten,
        Planted::UncheckedRead,
        Planted::UncheckedLength,
    ];
}

/// True if bugs can be planted in this build.
pub const COMPILED: bool = cfg!(feature = "planted");

/// True if `bug` is planted on this thread.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Planted) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use armed::{is, with};

#[cfg(feature = "planted")]
mod armed {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static BUG: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// True if `bug` is planted on this thread.
    pub fn is(bug: Planted) -> bool {
        BUG.get() == Some(bug)
    }

    /// Runs `work` with `bug` planted on this thread.
    pub fn with<T>(bug: Planted, work: impl FnOnce() -> T) -> T {
        struct Pulled;
        impl Drop for Pulled {
            fn drop(&mut self) {
                BUG.set(None);
            }
        }
        BUG.set(Some(bug));
        let _pulled = Pulled;
        work()
    }
}
