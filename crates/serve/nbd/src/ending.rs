//! The end of a server.

use std::sync::atomic::{AtomicBool, Ordering};

/// The phase of a server's end, for its connections.
#[derive(Debug, Default)]
pub struct Ending {
    begun: AtomicBool,
    hurried: AtomicBool,
}

impl Ending {
    /// Begins the end: nothing more is received, and received requests are answered.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// Hurries the end: long requests are given up. The caller must also close the
    /// transports.
    pub fn hurry(&self) {
        self.begin();
        self.hurried.store(true, Ordering::Release);
    }

    /// Returns true after [`Ending::begin`].
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Returns true after [`Ending::hurry`].
    pub fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Acquire)
    }
}
