//! Mistakes that can be planted, so that the crash explorer can show that it
//! catches them.
//!
//! Only the feature `planted` compiles them in; without it [`is`] is the constant
//! `false`. A mistake lives on the thread that is inside `with`.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The write-ahead rule: a checkpoint does not flush the log first.
    CheckpointBeforeLog,
    /// A commit is acknowledged before its batch is synced.
    CommitBeforeSync,
    /// Restart leaves out the undo of unfinished transactions.
    UndoSkipped,
    /// Redo passes over splits.
    SplitLost,
    /// `redo` of a checkpoint is its beginning, whatever pages lack.
    CheckpointTooNew,
    /// A checkpoint is written before its pages are synced.
    CheckpointBeforePages,
    /// Pages are written over their slots: torn pages.
    PageInPlace,
    /// In place: a page is written before its log.
    PageBeforeLog,
    /// In place: the first write of a page has no image in the log.
    ImageLeftOut,
    /// In place: an image of before the last checkpoint is held for enough.
    ImageTooOld,
    /// In place: a restart does not put images back.
    ImagesNotRestored,
    /// In place: a backup takes a page as it finds it, though it is being written.
    PageCopiedTorn,
    /// Slots of the last checkpoint are free at once.
    SlotReusedEarly,
    /// Segments of the log are recycled although undo needs them.
    LogRecycledEarly,
    /// The records' checksum of a batch is not compared.
    BatchUnchecked,
    /// A restart goes on in the life before.
    LifeNotRenewed,
    /// Compensation records do not say what is undone next.
    UndoRepeated,
    /// Redo does not compare a page's LSN.
    RedoTwice,
    /// The checkpoint does not list active transactions.
    ActiveForgotten,
    /// A checkpoint is not synced before what it does not need is given back.
    CheckpointUnsynced,
    /// Slots that are copied are given to other pages.
    SlotsNotHeld,
    /// The log is recycled before it is archived.
    LogNotHeld,
    /// A segment is archived before it is durable.
    ArchivedEarly,
    /// A backup has its checkpoint before its pages are synced.
    BackupNamedEarly,
    /// A copy takes what does not follow what it has.
    GapTaken,
    /// What a copy has received is not synced.
    ReceiptUnsynced,
    /// A copy that becomes an original keeps its identity.
    IdentityKept,
    /// A snapshot sees commits behind it.
    LaterCommitSeen,
    /// Versions are dropped while a snapshot needs them.
    VersionDroppedEarly,
    /// Pages of a large value are freed while a snapshot needs them.
    ChainFreedEarly,
    /// A record's value is not noted before it is changed.
    VersionNotNoted,
    /// With a long key those go that begin as it does.
    NeighbourLost,
    /// A changed record gets no entry in its index.
    IndexEntryLost,
    /// Who writes at the level of a snapshot does not look for later commits.
    LaterCommitOverwritten,
    /// On a device: the table of files has one place, so each copy is written over the newest.
    TableOverNewest,
    /// On a device: a copy of the table is written before the bytes of the files that it names.
    TableBeforeFiles,
    /// On a device: who makes or renames a file is answered before the table is durable.
    NameNotDurable,
    /// On a device: nothing is flushed between one copy of the table and the next.
    TableUnflushed,
    /// On a device: a sync leaves out that a file has grown.
    GrowthNotNoted,
    /// On a device: a gap before a write behind a file's end is not zeroed.
    GapNotZeroed,
}

#[cfg(feature = "planted")]
mod switch {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// True if this mistake is to be made here.
    pub fn is(planted: Planted) -> bool {
        NOW.get() == Some(planted)
    }

    /// Makes a mistake while `what` runs.
    pub fn with<T>(planted: Planted, what: impl FnOnce() -> T) -> T {
        struct Back;
        impl Drop for Back {
            fn drop(&mut self) {
                NOW.set(None);
            }
        }
        NOW.set(Some(planted));
        let _back = Back;
        what()
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, with};

/// True if this mistake is to be made here: never.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub fn is(_: Planted) -> bool {
    false
}
