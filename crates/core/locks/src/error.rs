//! Why a lock was not given.

/// A request that was not granted. Nothing is held from it; what its owner held
/// before he still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The request waited for itself, by way of others, and its owner was the
    /// cheapest to abort. He should release what he holds, or nobody gets on.
    #[error("deadlock: chosen to give way")]
    Deadlock,
    /// The time that it was allowed to take is over.
    #[error("not granted in the time allowed")]
    Timeout,
    /// Its owner was cancelled, or has ended.
    #[error("cancelled")]
    Cancelled,
}
