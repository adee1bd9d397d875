//! Options for volumes in object stores.

use std::time::Duration;

/// How a volume in an object store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// Ends the access of another writer: at once, or after it has written nothing for
    /// so long. Default: never, and the volume is refused if another writer has not
    /// closed it.
    pub takeover: Option<Duration>,
    /// How long a request that is not answered is repeated before the volume fails.
    /// Default: ten minutes.
    pub stall: Option<Duration>,
}
