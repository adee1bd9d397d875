//! The path by which a write reached the file system.

/// The source of a file's times when held writes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldTimes {
    /// The time of arrival.
    Arrival,
    /// The cache that held the bytes back. It records when they were written, reports
    /// that time, and passes it by [`FileSystem::setattr`] if it differs from the stored
    /// one. The arrival changes no times.
    ///
    /// [`FileSystem::setattr`]: crate::FileSystem::setattr
    HandedOver,
}

/// The path by which a write reached the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// A call of its own.
    Caller,
    /// Through a file that was opened before.
    Opened,
    /// Through an open file, by a cache that has reported the write as done.
    Held(HeldTimes),
}
