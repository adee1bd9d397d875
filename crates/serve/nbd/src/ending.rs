//! How a server ends.

use std::sync::atomic::{AtomicBool, Ordering};

/// How far a server is with ending, as its connections see it.
#[derive(Debug, Default)]
pub struct Ending {
    begun: AtomicBool,
    hurried: AtomicBool,
}

impl Ending {
    /// Nothing more is received. What was, is answered.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// Nor is that waited for: what takes long is given up. Cut the transports
    /// as well.
    pub fn hurry(&self) {
        self.begin();
        self.hurried.store(true, Ordering::Release);
    }

    /// True after [`Ending::begin`].
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// True after [`Ending::hurry`].
    pub fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Acquire)
    }
}
