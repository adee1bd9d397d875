//! Mistakes that the tests of this crate must notice. Without the feature `planted` none
//! can be made.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A writer deletes what it has overwritten before that is acknowledged; it may be
    /// fenced.
    DeletesUnacknowledged,
    /// Recovery begins with the newest map, whether or not a log object names it.
    UnnamedMap,
    /// Log objects are deleted while a map behind which they are still exists.
    MapOutlivesLog,
    /// The end of the log is what a list says.
    ListBelieved,
    /// The fence against a writer that may not have noticed it is deleted.
    FenceCollected,
    /// An object that exists is the caller's.
    ExistsBelieved,
    /// A read error is the end of the log.
    ErrorIsEnd,
    /// Objects are deleted as soon as they die.
    NoGrace,
    /// Writers of different epochs give the same names to their objects.
    NamesUsedAgain,
}
