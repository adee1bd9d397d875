//! Faults that can be planted, to show that the crash explorer finds them.
//!
//! Only the feature `planted` compiles them; without it [`is`] is the constant `false`. A
//! fault affects the thread that runs `with`.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The write-ahead rule is broken: a checkpoint does not flush the log first.
    CheckpointBeforeLog,
    /// A commit is acknowledged before its batch is synced.
    CommitBeforeSync,
    /// Restart does not undo unfinished transactions.
    UndoSkipped,
    /// Redo skips splits.
    SplitLost,
    /// The `redo` position of a checkpoint is its beginning, although pages lack older
    /// records.
    CheckpointTooNew,
    /// A checkpoint is written before its pages are synced.
    CheckpointBeforePages,
    /// With shadow slots, pages are written over their slots and can be torn.
    PageInPlace,
    /// In place: a page is written before its log.
    PageBeforeLog,
    /// In place: the first write of a page has no image in the log.
    ImageLeftOut,
    /// In place: an image from before the last checkpoint is accepted.
    ImageTooOld,
    /// In place: a restart does not restore images.
    ImagesNotRestored,
    /// In place: a backup copies a page while it is being written.
    PageCopiedTorn,
    /// Slots of the last checkpoint are reused at once.
    SlotReusedEarly,
    /// Segments of the log are recycled although undo needs them.
    LogRecycledEarly,
    /// The records' checksum of a batch is not compared.
    BatchUnchecked,
    /// A restart continues the previous life.
    LifeNotRenewed,
    /// Compensation records do not name the record that is undone next.
    UndoRepeated,
    /// Redo does not compare a page's LSN.
    RedoTwice,
    /// The checkpoint does not list active transactions.
    ActiveForgotten,
    /// A checkpoint is not synced before the resources that it does not need are freed.
    CheckpointUnsynced,
    /// Slots that are being copied are reused.
    SlotsNotHeld,
    /// The log is recycled before it is archived.
    LogNotHeld,
    /// A segment is archived before it is durable.
    ArchivedEarly,
    /// A backup's checkpoint is written before its pages are synced.
    BackupNamedEarly,
    /// A copy accepts a piece of log that does not follow its own.
    GapTaken,
    /// A piece of log that a copy received is not synced.
    ReceiptUnsynced,
    /// A copy that becomes an original keeps its identity.
    IdentityKept,
    /// A snapshot sees later commits.
    LaterCommitSeen,
    /// Versions are dropped while a snapshot needs them.
    VersionDroppedEarly,
    /// Pages of a large value are freed while a snapshot needs them.
    ChainFreedEarly,
    /// The old value of a record is not kept before a change.
    VersionNotNoted,
    /// Removing a long key also removes the keys with the same beginning.
    NeighbourLost,
    /// A changed record gets no entry in its index.
    IndexEntryLost,
    /// A write at the snapshot level does not look for later commits.
    LaterCommitOverwritten,
    /// On a device: both copies of the table of files have the same place, so each
    /// overwrites the newest.
    TableOverNewest,
    /// On a device: a copy of the table is written before the bytes of the files that it
    /// names.
    TableBeforeFiles,
    /// On a device: creating or renaming a file returns before the table is durable.
    NameNotDurable,
    /// On a device: nothing is flushed between two copies of the table.
    TableUnflushed,
    /// On a device: a sync omits the growth of a file.
    GrowthNotNoted,
    /// On a device: the gap before a write behind a file's end is not zeroed.
    GapNotZeroed,
}

#[cfg(feature = "planted")]
mod switch {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Returns true if this fault is active on the thread.
    pub fn is(planted: Planted) -> bool {
        NOW.get() == Some(planted)
    }

    /// Activates a fault while `what` runs.
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

/// Returns false, because the feature is off.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub fn is(_: Planted) -> bool {
    false
}
