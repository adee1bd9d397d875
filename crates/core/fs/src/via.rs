//! How a write gets here.

/// Who sets the times of a file whose held bytes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldTimes {
    /// They are those of the arrival.
    Arrival,
    /// Whoever held the bytes back knows when they were written, shows that, and
    /// hands it over by [`FileSystem::setattr`] if it is not what it was told: the
    /// arrival changes nothing.
    ///
    /// [`FileSystem::setattr`]: crate::FileSystem::setattr
    HandedOver,
}

/// How a write gets here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// By itself.
    Caller,
    /// Through a file that was opened before.
    Opened,
    /// The same, and somebody was told that it is written.
    Held(HeldTimes),
}
