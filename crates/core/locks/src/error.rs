//! The reasons why a lock was not granted.

/// A request that was not granted. The owner gains no lock by it, and keeps those that
/// it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The request is part of a deadlock, and its owner has the lowest cost of abort.
    /// The owner should release its locks, or the other requests of the deadlock wait
    /// for ever.
    #[error("deadlock: chosen to give way")]
    Deadlock,
    /// The time-out of the request has passed.
    #[error("not granted in the time allowed")]
    Timeout,
    /// The owner of the request was cancelled, or has ended.
    #[error("cancelled")]
    Cancelled,
}
