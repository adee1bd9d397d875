//! Mistakes that can be planted, so that the proof harness can show that it
//! catches them: a harness that misses them proves nothing.
//!
//! Only the feature `planted` compiles them in. Without it [`is`] is the
//! constant `false`, and its sites are gone. With it, a bug lives on the
//! thread that is inside `with`, and nowhere else: tests that run beside it
//! see none. Each site is one line, in this crate or in the layout's.

/// A mistake. The rules' numbers are those of the log protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Planted {
    /// Rule 1: partials count although the last of their group is missing.
    HalfGroups,
    /// Rule 1: roll-forward does not compare the payload's checksums.
    UncheckedPayload,
    /// Rule 2: an fsync takes the file and leaves the epoch behind.
    FsyncSkipsEpoch,
    /// Rule 3: a group's records come after its blocks.
    RecordsLast,
    /// Rule 4: images state the size in memory, ahead of the data.
    SizeAhead,
    /// Rule 5: truncates take effect in memory, and not at replay.
    TruncateLost,
    /// Rule 5: frees take effect in memory, and not at replay.
    FreedLost,
    /// Rule 6: a rename over a name leaves the source's dirty data behind.
    RenameLeavesData,
    /// Rule 6: a group is cut in two behind its first inode.
    RenameSplit,
    /// Rule 7: a dirty buffer makes the committed block under it dead.
    DirtyKillsCommitted,
    /// Rule 7: a free is appended before the removal of the name.
    FreesFirst,
    /// Rule 8: roll-forward has another idea of when a segment is full.
    PlaceNotShared,
    /// Rule 9: neither predecessor nor incarnation are compared.
    PredecessorUnchecked,
    /// Rule 10: the log resumes before an incomplete group.
    ResumeBeforeGroup,
    /// Rule 11: `durable_through` names what was appended.
    DurableThroughEarly,
    /// Rule 12: no flush between recovery and the first write.
    NoFlushAtMount,
    /// Rule 13: the boundary cuts a group: the image lacks one of its inodes.
    BoundaryCutsGroup,
    /// Rule 14: no flush before the checkpoint record.
    NoFlushBeforeRecord,
    /// Rule 14: the record is written before what it names is flushed.
    RecordEarly,
    /// Rule 14: no flush behind the record.
    NoFlushAfterRecord,
    /// Rule 14: all records go to one slot.
    OneRecordSlot,
    /// The checkpoint record's checksum is not compared.
    UncheckedRecord,
    /// Rule 15: the record does not carry what writing the table changed.
    CorrectionsForgotten,
    /// Rule 16: the checkpoint does not list orphans.
    OrphansUnlisted,
    /// Rule 16: a mount does not free the orphans it finds.
    OrphansNotFreed,
    /// Rule 18: a move is applied whatever became of its source.
    MoveUnchecked,
    /// Rule 19: a claim outlives the checkpoint it was judged against.
    StaleClaim,
    /// Rule 20: a segment is reused after one checkpoint found it empty.
    ReuseAfterOne,
    /// E1: a segment is reused before its moves are durable.
    ReuseUnsettled,
    /// E2: a segment is reused that replay from a record comes to.
    ReuseInChain,
    /// E3: a segment is reused ahead of checkpoints whatever was in it.
    ReuseMetadata,
    /// P1: holes are written into before it is durable that they are some.
    HolesUndurable,
    /// P2: holes are written into that replay from a record verifies.
    HolesInChain,
    /// S1: a segment is reused although blocks of an open transaction stand in it.
    SpillReused,
    /// Roll-forward takes spilled blocks without their commit.
    SpillApplied,
    /// Spilled blocks are counted as living, and stay so when they are dropped.
    SpillCounted,
    /// Roll-forward does not take what a commit says of spilled blocks.
    PlacedLost,
    /// A fold lists no displaced block for the newest snapshot.
    KeptUnlisted,
    /// Extended attributes are listed as block 0 of the file.
    KeptWithoutKind,
    /// A block that the cleaner moved and a user displaced is given up.
    KeptMoveDropped,
    /// The cleaner takes blocks that only snapshots have for dead.
    KeptJudgedDead,
    /// Blocks that were displaced since the checkpoint are taken for holes.
    KeptPlugged,
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
    /// A dead block leaves a sector behind in the usage count.
    UsageOffByOne,
    /// A number's new version inherits the blocks of the old one.
    StaleVersion,
    /// What a torn partial left where the log goes on is not cleared.
    LeftoverKept,
    /// H2: a partial may follow any earlier one, if it is in its head.
    ChainPerHead,
    /// H4: heads are used when one record names them.
    HeadsUnconfirmed,
    /// H6: the search for damage begins at the first head alone.
    SearchFirstHead,
    /// H7: only the first head's place is cleared.
    ClearFirstHead,
    /// A commit returns without a flush.
    CommitWithoutFlush,
    /// A failed flush is forgotten, and the next one believed.
    FlushFailureForgotten,
    /// Blocks that are read are not compared with their checksums.
    UncheckedRead,
    /// A summary may describe more than its partial holds.
    UncheckedLength,
    /// VLFS, rule 14: a slot is written again without what it held.
    ChangesForgotten,
    /// VLFS, rule 15: index nodes and inodes are free before the fold.
    MetadataNotHeld,
    /// VLFS, rule 17: what is used is judged change by change, not by the sum.
    ChangesOneByOne,
    /// Room of VLFS: whoever asks is admitted.
    RoomUncounted,
    /// Room of the log: there is no reserve, neither for removals nor for the cleaner.
    ReserveForgotten,
    /// Room of the log, R4: removals do nothing for the floor.
    RemovalsCarefree,
    /// FFS, J1 and I1: what leads to data is written before that is flushed.
    RecordBeforeData,
    /// FFS, J3: an inode and what leads to it are in place before their record; I3: a
    /// name is before its inode.
    PointerBeforeInode,
    /// FFS, I3: a file loses its name in one directory before it has one in another.
    NamesRemovedFirst,
    /// FFS, I6: the volume does not say that it is being changed in place.
    DirtyUnmarked,
    /// FFS: a block is free, and a place still leads to it.
    BlockFreeWhileReferenced,
    /// FFS: what a shorter tail no longer needs is free, and still its.
    FragmentShared,
    /// FFS, J1: what a tail that moves holds is not flushed before its record.
    MovedTailUnflushed,
    /// FFS, J4: room is given out again before its group is durable.
    ReuseUncommitted,
    /// FFS, J5: room of journalled sectors is given out again before a checkpoint.
    ReuseJournalled,
    /// Between threads: who waits for a partial is woken without the lock under
    /// which he looked for it.
    WakeUpLost,
    /// Between threads: a flush covers what was written while it ran.
    FlushCoversLater,
    /// Between threads: the table is not asked again once the lock is held
    /// under which inodes are read.
    LoadedTwice,
    /// Between threads: blocks that were read enter the cache whatever became
    /// of the file meanwhile.
    OvertakenFetch,
    /// Between threads: a remembered way is gone without a look at whether it
    /// still leads there.
    TrailUnchecked,
    /// Between threads: an fsync is content with a capture that began before
    /// it was called.
    EarlierCapture,
    /// Transactions: a commit is appended as two groups.
    CommitTorn,
    /// Transactions: a commit is answered before its flush.
    CommitUnflushed,
    /// Transactions: one that only read is answered before what it read is durable.
    ReadsUndurable,
    /// Transactions: files join the epoch without the data that came with the commit.
    MemberWithoutData,
    /// Transactions: what was copied before a lock was granted is not taken anew.
    StaleOverlay,
    /// Transactions: what waits for the commit to be appended comes to where the file
    /// ended when the transaction first saw it.
    AppendedWhereItEnded,
    /// Transactions: locks are given up before the merge.
    LocksBeforeMerge,
    /// Transactions: names that others led elsewhere are no conflict.
    NamesUnvalidated,
    /// Transactions: the locks of one that has ended are not given up.
    LocksKept,
    /// Transactions: a nested commit does not make what it changed its parent's change.
    ChildChangesKept,
    /// Transactions: a nested commit gives its locks up instead of handing them over.
    ChildLocksReleased,
}

impl Planted {
    /// Those of VLFS alone.
    pub const OF_THE_VIRTUAL_LOG: [Planted; 3] = [
        Planted::ChangesForgotten,
        Planted::MetadataNotHeld,
        Planted::ChangesOneByOne,
    ];

    /// Those of room, in the log.
    pub const OF_ROOM: [Planted; 2] = [Planted::ReserveForgotten, Planted::RemovalsCarefree];

    /// Those of transactions.
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

    /// Those of FFS alone.
    pub const OF_FFS: [Planted; 7] = [
        Planted::RecordBeforeData,
        Planted::PointerBeforeInode,
        Planted::BlockFreeWhileReferenced,
        Planted::FragmentShared,
        Planted::MovedTailUnflushed,
        Planted::ReuseUncommitted,
        Planted::ReuseJournalled,
    ];

    /// Those of FFS where metadata is written in place.
    pub const OF_FFS_IN_PLACE: [Planted; 7] = [
        Planted::RecordBeforeData,
        Planted::PointerBeforeInode,
        Planted::NamesRemovedFirst,
        Planted::DirtyUnmarked,
        Planted::BlockFreeWhileReferenced,
        Planted::FragmentShared,
        Planted::ReuseUncommitted,
    ];

    /// Every other one.
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
